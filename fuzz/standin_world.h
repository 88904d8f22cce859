/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libmpi of a target: a world of which this process is rank 0, and whose other ranks do and say
   what it does. It has Open MPI's ABI. */
#ifndef TOPOSEAT_FUZZ_STANDIN_WORLD_H
#define TOPOSEAT_FUZZ_STANDIN_WORLD_H

typedef struct standin_comm *MPI_Comm;
extern struct standin_comm ompi_mpi_comm_world, ompi_mpi_comm_null;

/* Of the world; at most 64. */
extern int standin_size;
/* The key of the last MPI_Comm_split: a new rank. */
extern int standin_key;
/* Changes what rank `rank` gives to MPI_Allgather. */
extern void (*standin_place)(int rank, int *numbers);

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Cart_create(MPI_Comm old, int ndims, const int dims[], const int periods[], int reorder,
                    MPI_Comm *made);
int MPI_Cart_map(MPI_Comm comm, int ndims, const int dims[], const int periods[], int *rank);
int MPI_Graph_create(MPI_Comm old, int nodes, const int index[], const int edges[], int reorder,
                     MPI_Comm *made);
int MPI_Graph_map(MPI_Comm comm, int nodes, const int index[], const int edges[], int *rank);
int MPI_Dist_graph_create(MPI_Comm old, int n, const int sources[], const int degrees[],
                          const int targets[], const int weights[], void *info, int reorder,
                          MPI_Comm *made);
int MPI_Dist_graph_create_adjacent(MPI_Comm old, int in, const int sources[],
                                   const int source_weights[], int out, const int targets[],
                                   const int target_weights[], void *info, int reorder,
                                   MPI_Comm *made);

#endif
