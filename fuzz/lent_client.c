/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a proxy says to libtoposeat-cl.so, as frames.h has it. The first line holds what the client
   does meanwhile:

       reads      it has reads of several layouts in flight
       kernel     it asks for a kernel, and reads are in flight
       binaries   it asks for a program's binaries
       built      it asks for the log of a build */
#include "fuzz.h"

#include "command.h"
#include "frames.h"
#include "program.h"
#include "receive.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READS = 4, ROOM = 4096, BUILD_LOG = 0x1183 };

struct proxy {
  int socket;
  struct tps_text said;
};

/* Says all of it once it is asked something. */
static void *answer(void *context) {
  struct proxy *proxy = context;
  char asked[256];
  if (recv(proxy->socket, asked, sizeof asked, 0) > 0)
    for (size_t at = 0; at < proxy->said.length;) {
      ssize_t sent =
          send(proxy->socket, proxy->said.data + at, proxy->said.length - at, MSG_NOSIGNAL);
      if (sent <= 0)
        break;
      at += (size_t)sent;
    }
  shutdown(proxy->socket, SHUT_WR);
  while (recv(proxy->socket, asked, sizeof asked, 0) > 0)
    ;
  return NULL;
}

struct client {
  struct tps_link *link;
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_program program;
  cl_event reads[READS];
};

static void begin(struct client *client, int socket) {
  client->link = tps__link_new(socket, &tps__hearing);
  if (client->link == NULL)
    abort();
  atomic_store(&client->link->ids, 1000);
  client->device = tps__object_new(sizeof *client->device, TPS_DEVICE, client->link);
  client->context = tps__object_new(sizeof *client->context, TPS_CONTEXT, client->link);
  client->queue = tps__object_new(sizeof *client->queue, TPS_COMMAND_QUEUE, client->link);
  client->program = tps__object_new(sizeof *client->program, TPS_PROGRAM, client->link);
  client->context->devices = &client->device;
  client->program->devices = &client->device;
  client->context->device_count = client->program->device_count = 1;
  client->program->context = client->queue->context = client->context;
  client->queue->device = client->device;
  client->link->queues = client->queue;
  for (size_t i = 0; i < READS;
       i++) { /* whole, in rows with room between, in slices, of no bytes */
    static const struct tps_layout LAYOUTS[READS] = {
        {.row = 4000, .rows = 1, .slices = 1, .row_pitch = 4000, .slice_pitch = 4000},
        {.row = 10, .rows = 16, .slices = 1, .row_pitch = 64, .slice_pitch = 1024},
        {.row = 7, .rows = 3, .slices = 5, .row_pitch = 16, .slice_pitch = 100},
        {.row = 0, .rows = 1, .slices = 1},
    };
    cl_event read = tps__event_new(client->context, client->queue, CL_COMMAND_READ_BUFFER);
    read->layout = LAYOUTS[i];
    read->expected = read->layout.row * read->layout.rows * read->layout.slices;
    size_t last = read->layout.slice_pitch * (read->layout.slices - 1) +
                  read->layout.row_pitch * (read->layout.rows - 1) + read->layout.row;
    read->layout.base = malloc(last + 1); /* what lies behind is no memory of the user */
    client->reads[i] = read;
  }
}

static void act(struct client *client, const char *what) {
  cl_int code = CL_SUCCESS;
  size_t length = 0;
  char room[ROOM];
  if (strcmp(what, "kernel") == 0) {
    cl_kernel kernel = tps__clCreateKernel(client->program, "f", &code);
    if (kernel != NULL)
      tps__release(&kernel->base);
  } else if (strcmp(what, "binaries") == 0) {
    code = tps__clGetProgramInfo(client->program, CL_PROGRAM_BINARY_SIZES, sizeof length, &length,
                                 NULL);
    unsigned char *binary = code == 0 && length < ROOM ? malloc(length) : NULL;
    if (binary != NULL)
      tps__clGetProgramInfo(client->program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL);
    free(binary);
  } else if (strcmp(what, "built") == 0) {
    tps__clGetProgramBuildInfo(client->program, client->device, BUILD_LOG, sizeof room, room,
                               &length);
  } else {
    tps__begin(client->link, TPS_PING, NULL);
    tps__end(client->link);
    tps__flush(client->link);
  }
}

static void end(struct client *client) {
  for (size_t i = 0; i < READS; i++) {
    tps__event_wait(client->reads[i]); /* whatever was said, nobody waits for ever */
    free(client->reads[i]->layout.base);
    free(client->reads[i]);
  }
  tps__forget(&client->program->base);
  tps__forget(&client->device->base);
  free(client->program);
  free(client->queue);
  free(client->context);
  free(client->device);
  free(client->link->slots);
  free(client->link->batch.data);
  free(client->link->channel);
  free(client->link);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = calloc(size + 1, 1), *rest = text == NULL ? NULL : memchr(data, '\n', size);
  int sockets[2];
  if (text == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    abort();
  memcpy(text, data, size);
  size_t line = rest == NULL ? size : (size_t)((const uint8_t *)rest - data);
  text[line] = '\0';
  struct proxy proxy = {.socket = sockets[1]};
  if (line < size)
    frames_of_text(&proxy.said, text + line + 1);
  struct client client = {0};
  pthread_t proxies;
  begin(&client, sockets[0]);
  if (pthread_create(&proxies, NULL, answer, &proxy) != 0)
    abort();
  act(&client, text);
  while (!atomic_load(&client.link->is_dead) || atomic_load(&client.link->movers) > 0)
    usleep(100);
  tps__channel_close(client.link->channel);
  pthread_join(proxies, NULL);
  close(sockets[1]);
  end(&client);
  free(proxy.said.data);
  free(text);
  return 0;
}
