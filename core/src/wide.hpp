// Wider vector instructions for plain loops over doubles, where the CPU has them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

// Chosen when the library is loaded, by the dynamic linker; not where a sanitizer starts later.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TOPOSEAT_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define TOPOSEAT_WIDE
#endif
