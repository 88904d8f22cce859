/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* phases marks|many|windows: messages to oneself, in phases. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank;

static void send(int messages) {
  for (int i = 0; i < messages; ++i)
    MPI_Sendrecv("12345678", 8, MPI_BYTE, rank, 0, (char[8]){0}, 8, MPI_BYTE, rank, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void marks(void) {
  char out[4] = {0}, in[4];
  MPI_Request request;
  send(3);
  MPI_Pcontrol(2);
  send(5);
  MPI_Pcontrol(0);
  send(7);
  MPI_Send_init(out, 4, MPI_BYTE, rank, 1, MPI_COMM_WORLD, &request); /* while paused */
  MPI_Pcontrol(5);
  for (int i = 0; i < 2; ++i) {
    MPI_Start(&request);
    MPI_Recv(in, 4, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
  MPI_Pcontrol(2, "a name that some profilers take");
  send(1);
  MPI_Pcontrol(-1);
  send(2);
  MPI_Bcast(out, 4, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void many(void) {
  for (int level = 1; level <= 300; ++level) {
    MPI_Pcontrol(level);
    send(1);
  }
}

static void windows(void) {
  struct timespec pause = {.tv_nsec = 150000000};
  for (int i = 0; i < 4; ++i) {
    send(1);
    nanosleep(&pause, NULL);
  }
  send(1);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(argv[1], "marks") == 0)
    marks();
  else if (strcmp(argv[1], "many") == 0)
    many();
  else
    windows();
  MPI_Finalize();
  return 0;
}
