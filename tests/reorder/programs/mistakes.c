/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What MPI refuses, and what is not for reordering; prints what came of each at rank 0. */
#include <mpi.h>
#include <stdio.h>

static int rank;
static int size;

static void say(const char *what, int code) {
  int class = code;
  if (code != MPI_SUCCESS)
    MPI_Error_class(code, &class);
  if (rank == 0)
    printf("%s: %s\n", what, class == MPI_SUCCESS ? "made" : "refused");
}

static void try_cart(const char *what, MPI_Comm comm, int dimensions, int first, int second) {
  MPI_Comm made = MPI_COMM_NULL;
  const int extents[] = {first, second};
  const int periods[] = {0, 1};
  int code = MPI_Cart_create(comm, dimensions, extents, periods, 1, &made);
  say(what, code);
  if (code == MPI_SUCCESS && made != MPI_COMM_NULL)
    MPI_Comm_free(&made);
}

static void try_graph(const char *what, MPI_Comm comm, int vertices, int last, int target) {
  MPI_Comm made = MPI_COMM_NULL;
  const int index[] = {1, 2, 3, last};
  const int targets[] = {1, 2, 3, target};
  int code = MPI_Graph_create(comm, vertices, index, targets, 1, &made);
  say(what, code);
  if (code == MPI_SUCCESS && made != MPI_COMM_NULL)
    MPI_Comm_free(&made);
}

static void try_adjacent(const char *what, MPI_Comm comm, int target) {
  MPI_Comm made = MPI_COMM_NULL;
  int code = MPI_Dist_graph_create_adjacent(comm, 0, &target, MPI_UNWEIGHTED, 1, &target,
                                            MPI_UNWEIGHTED, MPI_INFO_NULL, 1, &made);
  say(what, code);
}

int main(int argc, char **argv) {
  MPI_Comm half;
  MPI_Comm inter;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  try_cart("a grid of too many cells", MPI_COMM_WORLD, 2, size, 2);
  try_cart("a grid with a negative extent", MPI_COMM_WORLD, 2, -2, 2);
  try_graph("a graph of too many vertices", MPI_COMM_WORLD, size + 1, 3, 0);
  try_graph("a graph with an edge to nowhere", MPI_COMM_WORLD, 4, 4, 99);
  try_adjacent("an edge to nowhere", MPI_COMM_WORLD, 99);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &inter);
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  try_cart("a grid on an inter-communicator", inter, 1, 2, 1);
  try_graph("a graph on an inter-communicator", inter, 4, 4, 0);
  try_cart("a grid on no communicator", MPI_COMM_NULL, 1, 2, 1);
  try_cart("a grid on one node", half, 1, 2, 1);
  try_cart("a grid on one rank", MPI_COMM_SELF, 1, 1, 1);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
  MPI_Finalize();
  return 0;
}
