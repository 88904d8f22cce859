/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Compiled with an mpicc and one of interposer/abi/: every fact there against the real mpi.h. */
#include ABI_HEADER
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

static int failures;

static void same(const char *what, long long ours, long long real) {
  if (ours != real) {
    printf("%s: %lld, mpi.h has %lld\n", what, ours, real);
    failures += 1;
  }
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
#if ABI_IS_OMPI
  extern struct ompi_predefined_communicator_t ompi_mpi_comm_world, ompi_mpi_comm_null;
  same("MPI_COMM_WORLD", (long long)(intptr_t)&ompi_mpi_comm_world,
       (long long)(intptr_t)MPI_COMM_WORLD);
  same("MPI_COMM_NULL", (long long)(intptr_t)&ompi_mpi_comm_null,
       (long long)(intptr_t)MPI_COMM_NULL);
#else
  VALUE(COMM_WORLD);
  VALUE(COMM_NULL);
#endif
  static const MPI_Datatype types[] = {MPI_CHAR,        MPI_INT,  MPI_DOUBLE,
                                       MPI_LONG_DOUBLE, MPI_BYTE, MPI_2INT};
  static const int sizes[] = {1, 4, 8, 16, 1, 8};
  for (int i = 0; i < 6; ++i) {
    int ours = abi_builtin_size((abi_handle)types[i]);
    if (ours != 0)
      same("size of a predefined type", ours, sizes[i]);
  }
  return failures != 0;
}
