/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The few declarations that the native tests need of an MPI with Open MPI's ABI. The stand-in
 * behind them (standin_mpi.c) moves no data: it only answers, from any thread, so that sanitizers
 * see the interposer and nothing else.
 */
#ifndef TOPOSEAT_STANDIN_MPI_H
#define TOPOSEAT_STANDIN_MPI_H

#define STANDIN_RANK 1
#define STANDIN_SIZE 5

typedef struct standin_comm *MPI_Comm;
typedef struct standin_request *MPI_Request;
typedef struct standin_type *MPI_Datatype;
typedef struct standin_group *MPI_Group;
typedef struct standin_win *MPI_Win;
typedef struct standin_op *MPI_Op;
typedef struct standin_session *MPI_Session;

extern struct standin_comm ompi_mpi_comm_world;
extern struct standin_type standin_double; /* 8 bytes */
extern struct standin_win standin_window;
#define MPI_COMM_WORLD (&ompi_mpi_comm_world)
#define MPI_DOUBLE (&standin_double)

enum { MPI_THREAD_MULTIPLE = 3, MPI_PROC_NULL = -2 };

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Finalize(void);
int MPI_Session_init(void *info, void *errhandler, MPI_Session *session);
int MPI_Session_finalize(MPI_Session *session);
int MPI_Pcontrol(int level, ...);
int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             void *status);
int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request);
int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request);
int MPI_Send_init(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                  MPI_Request *request);
int MPI_Start(MPI_Request *request);
int MPI_Request_free(MPI_Request *request);
int MPI_Wait(MPI_Request *request, void *status);
int MPI_Waitall(int count, MPI_Request requests[], void *statuses);
int MPI_File_iwrite(void *file, const void *buffer, int count, MPI_Datatype type,
                    MPI_Request *request);
int MPI_Put(const void *origin, int count, MPI_Datatype type, int to, long displacement,
            int target_count, MPI_Datatype target_type, MPI_Win win);
int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm);
int MPI_Barrier(MPI_Comm comm);
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Abort(MPI_Comm comm, int code);

#endif
