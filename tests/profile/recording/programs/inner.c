#include <mpi.h>
int f(void) { return MPI_Init(0, 0); }
