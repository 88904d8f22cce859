// Wider vector instructions than every processor has, where the compiler can emit them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

// For inner loops: compiled twice, and chosen by the dynamic linker when the library is loaded; not
// where a sanitizer starts later. Results must not depend on the choice: there is no fused
// multiply-add, and sums are taken in one order.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TOPOSEAT_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define TOPOSEAT_WIDE
#endif

// For what such a loop calls: it is compiled with its caller.
#if defined(__GNUC__)
#define TOPOSEAT_INLINE inline __attribute__((always_inline))
#else
#define TOPOSEAT_INLINE inline
#endif
