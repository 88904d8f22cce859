// Wider vector instructions than every processor has, where the compiler can emit them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

// For plain loops over doubles. Chosen when the library is loaded, by the dynamic linker; not where
// a sanitizer starts later.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TOPOSEAT_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define TOPOSEAT_WIDE
#endif

// For kernels that are written once, in functions that are always inlined, and compiled again for
// each kind of processor: they are chosen at run time (__builtin_cpu_supports) where
// TOPOSEAT_WIDER is defined. Results must not depend on the choice: there is no fused multiply-add,
// and sums are taken in one order.
#if defined(__x86_64__) && defined(__GNUC__)
#define TOPOSEAT_WIDER 1
#endif
#if defined(__GNUC__)
#define TOPOSEAT_INLINE inline __attribute__((always_inline))
#else
#define TOPOSEAT_INLINE inline
#endif
