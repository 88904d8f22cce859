/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * worlds WHAT: processes outside MPI_COMM_WORLD, and inside it by another way. Run on 2 ranks.
 *   spawn     two worlds, one after the other: of 2 processes, and of 1 + 1 by Spawn_multiple
 *   connect   rank 0 accepts, rank 1 connects
 *   join      the same two over a TCP connection
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char buffer[4096];
static int rank;

/* 10 bytes from rank 0 to child 1, 7 from child 1 to rank 0; 20 around the merged communicator. */
static void talk(MPI_Comm children, MPI_Comm *merged) {
  if (rank == 0) {
    MPI_Send(buffer, 10, MPI_BYTE, 1, 0, children);
    MPI_Recv(buffer, 7, MPI_BYTE, 1, 0, children, MPI_STATUS_IGNORE);
  }
  MPI_Intercomm_merge(children, 0, merged);
  int me, size;
  MPI_Comm_rank(*merged, &me);
  MPI_Comm_size(*merged, &size);
  MPI_Sendrecv(buffer, 20, MPI_BYTE, (me + 1) % size, 0, buffer + 100, 20, MPI_BYTE,
               (me + size - 1) % size, 0, *merged, MPI_STATUS_IGNORE);
}

static void spawn(char *program) {
  MPI_Comm children, merged;
  MPI_Comm_spawn(program, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                 MPI_ERRCODES_IGNORE);
  talk(children, &merged);
  MPI_Comm_free(&merged);
  MPI_Comm_disconnect(&children);
  char *commands[2] = {program, program}, *second[2] = {"second", NULL};
  char **arguments[2] = {second, second};
  int counts[2] = {1, 1};
  MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
  MPI_Comm_spawn_multiple(2, commands, arguments, counts, infos, 0, MPI_COMM_WORLD, &children,
                          MPI_ERRCODES_IGNORE);
  talk(children, &merged);
  if (rank == 1) /* 30 more into the second world only */
    MPI_Send(buffer, 30, MPI_BYTE, 1, 5, children);
  MPI_Comm_free(&merged);
  MPI_Comm_disconnect(&children);
}

static void child(MPI_Comm parents, bool second) {
  int size;
  MPI_Comm merged;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 1) {
    MPI_Recv(buffer, 10, MPI_BYTE, 0, 0, parents, MPI_STATUS_IGNORE);
    MPI_Send(buffer, 7, MPI_BYTE, 0, 0, parents);
  }
  MPI_Sendrecv(buffer, 5, MPI_BYTE, 1 - rank, 0, buffer + 100, 5, MPI_BYTE, 1 - rank, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Intercomm_merge(parents, 1, &merged);
  int me, all;
  MPI_Comm_rank(merged, &me);
  MPI_Comm_size(merged, &all);
  MPI_Sendrecv(buffer, 20, MPI_BYTE, (me + 1) % all, 0, buffer + 100, 20, MPI_BYTE,
               (me + all - 1) % all, 0, merged, MPI_STATUS_IGNORE);
  if (rank == 1 && second)
    MPI_Recv(buffer, 30, MPI_BYTE, 1, 5, parents, MPI_STATUS_IGNORE);
  MPI_Comm_free(&merged);
  MPI_Comm_disconnect(&parents);
}

/* Both sides are in one world: their messages are between its ranks. 12 bytes there, 12 back. */
static void greet(MPI_Comm across) {
  MPI_Sendrecv(buffer, 12, MPI_BYTE, 0, 0, buffer + 100, 12, MPI_BYTE, 0, 0, across,
               MPI_STATUS_IGNORE);
  MPI_Comm_disconnect(&across);
}

static void connect_halves(void) {
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm across;
  if (rank == 0)
    MPI_Open_port(MPI_INFO_NULL, port);
  MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank == 0)
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &across);
  else
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &across);
  greet(across);
  if (rank == 0)
    MPI_Close_port(port);
}

/* Over a TCP connection on this node, as MPI_Comm_join wants it. */
static void join(void) {
  int port = 0, descriptor;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (rank == 0) {
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&address, &length);
    port = address.sin_port;
  }
  MPI_Bcast(&port, 1, MPI_INT, 0, MPI_COMM_WORLD);
  address.sin_port = (in_port_t)port;
  if (rank == 0)
    descriptor = accept(listener, NULL, NULL);
  else
    descriptor =
        connect(listener, (struct sockaddr *)&address, sizeof address) == 0 ? listener : -1;
  MPI_Comm across;
  MPI_Comm_join(descriptor, &across);
  greet(across);
}

int main(int argc, char **argv) {
  MPI_Comm parents;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_get_parent(&parents);
  if (parents != MPI_COMM_NULL)
    child(parents, argc > 1);
  else if (strcmp(argv[1], "spawn") == 0)
    spawn(argv[0]);
  else if (strcmp(argv[1], "connect") == 0)
    connect_halves();
  else if (strcmp(argv[1], "join") == 0)
    join();
  MPI_Finalize();
  return 0;
}
