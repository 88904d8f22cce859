/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The facts of the standard ABI (MPI 5.0, libmpi_abi.so.1; MPICH 5, Intel MPI 2021.18, Open MPI 6)
 * that the interposer needs. Handles are pointers whose predefined values are small integers.
 * tests/interposer/test_abi.py compares every constant with the mpi_abi.h of each MPI that has one.
 */
#ifndef TOPOSEAT_ABI_H
#define TOPOSEAT_ABI_H

#include <stdint.h>

#define ABI_NAME "abi"

typedef void *abi_handle;

#define ABI_HANDLE(word) ((abi_handle)(word))
#define ABI_WORD(handle) ((uintptr_t)(handle))

#define ABI_COMM_WORLD ((abi_handle)0x101)
#define ABI_COMM_NULL ((abi_handle)0x100)
#define ABI_NO_OP ((abi_handle)0x3d)
#define ABI_REQUEST_NULL ((abi_handle)0x180)

#define ABI_PROC_NULL (-3)
#define ABI_ROOT (-4)
#define ABI_UNDEFINED (-32766)
#define ABI_IN_PLACE 1
#define ABI_GRAPH 212
#define ABI_CART 211
#define ABI_DIST_GRAPH 213
#define ABI_THREAD_MULTIPLE 4096
#define ABI_ERR_UNSUPPORTED_OPERATION 55
#define ABI_MAX_OBJECT_NAME 128
#define ABI_MAX_LIBRARY_VERSION_STRING 8192

/* Sizes of the C types 0x208 to 0x23f on 64-bit Linux; 0: ask (Fortran's, and pairs). */
static const unsigned char abi_c_sizes[56] = {
    [0x00] = 2,  [0x01] = 4, [0x02] = 8, [0x03] = 8,  /* short, int, long, long long */
    [0x04] = 2,  [0x05] = 4, [0x06] = 8, [0x07] = 8,  /* the same, unsigned */
    [0x08] = 4,  [0x0a] = 8, [0x0c] = 8, [0x0e] = 16, /* float, its complex, double, its complex */
    [0x18] = 16, [0x23] = 8, [0x30] = 1, [0x34] = 4,  /* long double, 2int, _Bool, wchar_t */
};

/*
 * Size of a predefined type that the handle itself tells; 0: ask PMPI_Type_size. Types of fixed
 * size are 0x240 to 0x27f and 0x2c0 to 0x2ff, with the logarithm of the size in bits 3 to 5.
 */
static inline int abi_builtin_size(abi_handle datatype) {
  uintptr_t bits = (uintptr_t)datatype;
  if ((bits & ~(uintptr_t)0xbf) == 0x240)
    return 1 << ((bits >> 3) & 7u);
  return bits - 0x208u < sizeof abi_c_sizes ? abi_c_sizes[bits - 0x208u] : 0;
}

#endif
