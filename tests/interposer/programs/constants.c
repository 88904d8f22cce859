/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Compiled with an mpicc and one of interposer/abi/: every fact there against the real mpi.h. */
#include ABI_HEADER
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <wchar.h>

static int failures;

static void same(const char *what, long long ours, long long real) {
  if (ours != real) {
    printf("%s: %lld, mpi.h has %lld\n", what, ours, real);
    failures += 1;
  }
}

/* A handle that tells no size is fine: then MPI is asked. */
static void type_size(const char *what, MPI_Datatype type, size_t real) {
  int ours = abi_builtin_size((abi_handle)type);
  if (ours != 0)
    same(what, ours, (long long)real);
}

#define SIZE(type, ours) same("sizeof " #type, (long long)sizeof(ours), (long long)sizeof(type))
#define VALUE(name) same(#name, ABI_##name, MPI_##name)

int main(void) {
  SIZE(MPI_Comm, abi_handle);
  SIZE(MPI_Datatype, abi_handle);
  SIZE(MPI_Request, abi_handle);
  SIZE(MPI_Win, abi_handle);
  SIZE(MPI_Group, abi_handle);
  SIZE(MPI_Op, abi_handle);
  SIZE(MPI_Info, abi_handle);
  SIZE(MPI_Aint, intptr_t);
  SIZE(MPI_Count, long long);
  VALUE(PROC_NULL);
  VALUE(ROOT);
  VALUE(UNDEFINED);
  VALUE(GRAPH);
  VALUE(CART);
  VALUE(DIST_GRAPH);
  VALUE(THREAD_MULTIPLE);
  same("MPI_ERR_UNSUPPORTED_OPERATION", ABI_ERR_UNSUPPORTED_OPERATION,
       MPI_ERR_UNSUPPORTED_OPERATION);
  same("MPI_IN_PLACE", ABI_IN_PLACE, (long long)(intptr_t)MPI_IN_PLACE);
  same("MPI_SUCCESS", 0, MPI_SUCCESS);
  if (MPI_MAX_OBJECT_NAME > ABI_MAX_OBJECT_NAME)
    same("MPI_MAX_OBJECT_NAME", ABI_MAX_OBJECT_NAME, MPI_MAX_OBJECT_NAME);
  if (MPI_MAX_LIBRARY_VERSION_STRING > ABI_MAX_LIBRARY_VERSION_STRING)
    same("MPI_MAX_LIBRARY_VERSION_STRING", ABI_MAX_LIBRARY_VERSION_STRING,
         MPI_MAX_LIBRARY_VERSION_STRING);
#ifdef ABI_COMM_WORLD_SYMBOL
  extern struct ompi_predefined_communicator_t ompi_mpi_comm_world, ompi_mpi_comm_null;
  same("MPI_COMM_WORLD", (long long)(intptr_t)&ompi_mpi_comm_world,
       (long long)(intptr_t)MPI_COMM_WORLD);
  same("MPI_COMM_NULL", (long long)(intptr_t)&ompi_mpi_comm_null,
       (long long)(intptr_t)MPI_COMM_NULL);
  extern struct ompi_predefined_op_t ompi_mpi_op_no_op;
  same("MPI_NO_OP", (long long)(intptr_t)&ompi_mpi_op_no_op, (long long)(intptr_t)MPI_NO_OP);
  extern struct ompi_predefined_request_t ompi_request_null;
  same("MPI_REQUEST_NULL", (long long)(intptr_t)&ompi_request_null,
       (long long)(intptr_t)MPI_REQUEST_NULL);
#else
  same("MPI_COMM_WORLD", (long long)ABI_WORD(ABI_COMM_WORLD), (unsigned)(intptr_t)MPI_COMM_WORLD);
  same("MPI_COMM_NULL", (long long)ABI_WORD(ABI_COMM_NULL), (unsigned)(intptr_t)MPI_COMM_NULL);
  same("MPI_NO_OP", (long long)ABI_WORD(ABI_NO_OP), (unsigned)(intptr_t)MPI_NO_OP);
  same("MPI_REQUEST_NULL", (long long)ABI_WORD(ABI_REQUEST_NULL),
       (unsigned)(intptr_t)MPI_REQUEST_NULL);
#endif
#define TYPE(type, ctype) type_size(#type, type, sizeof(ctype))
  TYPE(MPI_CHAR, char);
  TYPE(MPI_SIGNED_CHAR, char);
  TYPE(MPI_UNSIGNED_CHAR, char);
  TYPE(MPI_BYTE, char);
  TYPE(MPI_SHORT, short);
  TYPE(MPI_UNSIGNED_SHORT, short);
  TYPE(MPI_INT, int);
  TYPE(MPI_UNSIGNED, int);
  TYPE(MPI_LONG, long);
  TYPE(MPI_UNSIGNED_LONG, long);
  TYPE(MPI_LONG_LONG, long long);
  TYPE(MPI_UNSIGNED_LONG_LONG, long long);
  TYPE(MPI_FLOAT, float);
  TYPE(MPI_DOUBLE, double);
  TYPE(MPI_LONG_DOUBLE, long double);
  TYPE(MPI_C_FLOAT_COMPLEX, float[2]);
  TYPE(MPI_C_DOUBLE_COMPLEX, double[2]);
  TYPE(MPI_C_BOOL, char);
  TYPE(MPI_WCHAR, wchar_t);
  TYPE(MPI_2INT, int[2]);
  TYPE(MPI_INT8_T, int8_t);
  TYPE(MPI_UINT8_T, int8_t);
  TYPE(MPI_INT16_T, int16_t);
  TYPE(MPI_UINT16_T, int16_t);
  TYPE(MPI_INT32_T, int32_t);
  TYPE(MPI_UINT32_T, int32_t);
  TYPE(MPI_INT64_T, int64_t);
  TYPE(MPI_UINT64_T, int64_t);
  TYPE(MPI_AINT, MPI_Aint);
  TYPE(MPI_COUNT, MPI_Count);
  TYPE(MPI_OFFSET, MPI_Offset);
  TYPE(MPI_PACKED, char);
  return failures != 0;
}
