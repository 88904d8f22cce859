/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The facts of the MPICH ABI (libmpi.so.12, Debian's libmpich.so.12; MPICH 3.1 to 5, Intel MPI,
 * MVAPICH) that the interposer needs. Handles are ints. tests/interposer/test_abi.py compares every
 * constant with the mpi.h of each MPI on the machine.
 */
#ifndef TOPOSEAT_ABI_H
#define TOPOSEAT_ABI_H

#include <stdint.h>

#define ABI_NAME "mpich"

typedef int abi_handle;

#define ABI_HANDLE(word) ((abi_handle)(word))
#define ABI_WORD(handle) ((uintptr_t)(uint32_t)(handle))

#define ABI_COMM_WORLD 0x44000000
#define ABI_COMM_NULL 0x04000000
#define ABI_NO_OP 0x5800000e
#define ABI_REQUEST_NULL 0x2c000000

#define ABI_PROC_NULL (-1)
#define ABI_ROOT (-3)
#define ABI_UNDEFINED (-32766)
#define ABI_IN_PLACE (-1)
#define ABI_GRAPH 1
#define ABI_CART 2
#define ABI_DIST_GRAPH 3
#define ABI_THREAD_MULTIPLE 3
#define ABI_ERR_UNSUPPORTED_OPERATION 44
#define ABI_MAX_OBJECT_NAME 128
#define ABI_MAX_LIBRARY_VERSION_STRING 8192

/*
 * Size of a predefined type that the handle itself tells; 0: ask PMPI_Type_size. Predefined basic
 * types are 0x4c00SSNN with SS the size in bytes (MPI_INT is 0x4c000405).
 */
static inline int abi_builtin_size(abi_handle datatype) {
  uint32_t bits = (uint32_t)datatype;
  return (bits & 0xffff0000u) == 0x4c000000u ? (int)((bits >> 8) & 0xffu) : 0;
}

#endif
