/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The facts of Open MPI's ABI (libmpi.so.40: 4.x and 5.x) that the interposer needs. Handles are
 * pointers; predefined ones are the addresses of data symbols, found at run time.
 * tests/interposer/test_abi.py compares every constant with the mpi.h of each MPI on the machine.
 */
#ifndef TOPOSEAT_ABI_H
#define TOPOSEAT_ABI_H

#include <stdint.h>

#define ABI_NAME "ompi"

typedef void *abi_handle;

#define ABI_HANDLE(word) ((abi_handle)(word))
#define ABI_WORD(handle) ((uintptr_t)(handle))

#define ABI_COMM_WORLD_SYMBOL "ompi_mpi_comm_world"
#define ABI_COMM_NULL_SYMBOL "ompi_mpi_comm_null"
#define ABI_NO_OP_SYMBOL "ompi_mpi_op_no_op"
#define ABI_REQUEST_NULL_SYMBOL "ompi_request_null"

#define ABI_PROC_NULL (-2)
#define ABI_ROOT (-4)
#define ABI_UNDEFINED (-32766)
#define ABI_IN_PLACE 1
#define ABI_GRAPH 2
#define ABI_CART 1
#define ABI_DIST_GRAPH 3
#define ABI_THREAD_MULTIPLE 3
#define ABI_ERR_UNSUPPORTED_OPERATION 52
#define ABI_MAX_OBJECT_NAME 64
#define ABI_MAX_LIBRARY_VERSION_STRING 256

/* Size of a predefined type that the handle itself tells; 0: ask PMPI_Type_size. */
static inline int abi_builtin_size(abi_handle datatype) {
  (void)datatype;
  return 0;
}

#endif
