/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads, writes, maps. */
#include "client.h"

/* Large reads of an out-of-order queue: an event says that all bytes are there, not the last. */
enum { LARGE_READS = 4 };

static void order(void) {
  cl_command_queue loose = new_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  unsigned char *data[LARGE_READS], *got[LARGE_READS];
  cl_mem buffer[LARGE_READS];
  cl_event written[LARGE_READS], read[LARGE_READS];
  for (unsigned i = 0; i < LARGE_READS; i++) {
    data[i] = pattern(LARGE, i);
    got[i] = calloc(LARGE, 1);
    buffer[i] = buffer_of(LARGE, 0, NULL);
    NEED(clEnqueueWriteBuffer(loose, buffer[i], CL_FALSE, 0, LARGE, data[i], 0, NULL, &written[i]));
  }
  for (unsigned i = LARGE_READS; i-- > 0;)
    NEED(clEnqueueReadBuffer(loose, buffer[i], CL_FALSE, 0, LARGE, got[i], 1, &written[i],
                             &read[i]));
  NEED(clFlush(loose));
  for (unsigned i = 0; i < LARGE_READS; i++) {
    NEED(clWaitForEvents(1, &read[i]));
    printf("read %u: %d\n", i, memcmp(data[i], got[i], LARGE) == 0);
  }
}

/* The pointer of a blocking write is free once the call returned; that of another, once its event
   is complete. */
static void overwrite(void) {
  unsigned char *data = pattern(LARGE, 1);
  cl_mem first = buffer_of(LARGE, 0, NULL), second = buffer_of(LARGE, 0, NULL);
  cl_event event;
  NEED(clEnqueueWriteBuffer(queue, first, CL_TRUE, 0, LARGE, data, 0, NULL, NULL));
  memset(data, 1, LARGE);
  NEED(clEnqueueWriteBuffer(queue, second, CL_FALSE, 0, LARGE, data, 0, NULL, &event));
  NEED(clWaitForEvents(1, &event));
  memset(data, 2, LARGE);
  say_content("first", first, LARGE);
  say_content("second", second, LARGE);
}

static void maps(void) {
  unsigned char *host = pattern(COUNT, 7);
  cl_mem used = buffer_of(COUNT, CL_MEM_USE_HOST_PTR, host);
  cl_mem copied = buffer_of(COUNT, CL_MEM_COPY_HOST_PTR, host);
  unsigned char *at = map(used, CL_MAP_READ | CL_MAP_WRITE, 0, COUNT);
  printf("its own pointer: %d\n", at == host);
  at[5] ^= 0xff;
  unmap(used, at);
  say_content("used", used, COUNT);
  at = map(used, CL_MAP_READ, 100, 50);
  printf("inside: %d\n", at == host + 100);
  unmap(used, at);
  cl_uint count = 9;
  unsigned char *one = map(copied, CL_MAP_READ, 0, 64), *two = map(copied, CL_MAP_READ, 32, 64);
  NEED(clGetMemObjectInfo(copied, CL_MEM_MAP_COUNT, sizeof count, &count, NULL));
  printf("mapped %u times, same bytes: %d\n", count, memcmp(one + 32, two, 32) == 0);
  unmap(copied, one);
  unmap(copied, two);
  printf("again: %d\n", clEnqueueUnmapMemObject(queue, copied, host, 0, NULL, NULL));
  at = map(copied, CL_MAP_WRITE_INVALIDATE_REGION, 0, COUNT);
  memset(at, 9, COUNT);
  unmap(copied, at);
  say_content("invalidated", copied, COUNT);
  cl_int status;
  cl_mem part = part_of(copied, COUNT / 2, COUNT / 4);
  at = map(part, CL_MAP_WRITE, 0, 16);
  memset(at, 3, 16);
  unmap(part, at);
  cl_kernel add = prepare("add", part, 16);
  launch(queue, add, COUNT / 16, NULL, NULL);
  say_content("through a part", copied, COUNT);
  cl_event mapped, unmapped;
  at =
      clEnqueueMapBuffer(queue, copied, CL_FALSE, CL_MAP_READ, 0, COUNT, 0, NULL, &mapped, &status);
  need(status, "map");
  NEED(clWaitForEvents(1, &mapped));
  printf("after its event: %lx\n", digest(at, COUNT));
  NEED(clEnqueueUnmapMemObject(queue, copied, at, 1, &mapped, &unmapped));
  NEED(clWaitForEvents(1, &unmapped));
}

static void rectangles(void) {
  const size_t from[3] = {3, 2, 1}, to[3] = {5, 4, 3}, part[3] = {7, 6, 4};
  unsigned char *data = pattern(COUNT, 3), *got = calloc(COUNT, 1);
  cl_mem one = buffer_of(COUNT, CL_MEM_COPY_HOST_PTR, data), two = buffer_of(COUNT, 0, NULL);
  cl_int zero = 0;
  NEED(clEnqueueFillBuffer(queue, two, &zero, 4, 0, COUNT, 0, NULL, NULL));
  NEED(clEnqueueCopyBufferRect(queue, one, two, from, to, part, 16, 256, 32, 512, 0, NULL, NULL));
  NEED(clEnqueueCopyBuffer(queue, one, two, 100, COUNT - 400, 300, 0, NULL, NULL));
  say_content("copied", two, COUNT);
  NEED(clEnqueueReadBufferRect(queue, two, CL_TRUE, to, from, part, 32, 512, 64, 1024, got, 0, NULL,
                               NULL));
  printf("read: %lx\n", digest(got, COUNT));
  NEED(clEnqueueWriteBufferRect(queue, one, CL_TRUE, to, from, part, 32, 512, 64, 1024, got, 0,
                                NULL, NULL));
  say_content("written", one, COUNT);
}

/* Small reads while another thread writes much: each is right. */
static void *write_much(void *data) {
  cl_command_queue own = new_queue(0);
  cl_mem buffer = buffer_of(LARGE, 0, NULL);
  for (int i = 0; i < 4; i++)
    NEED(clEnqueueWriteBuffer(own, buffer, CL_TRUE, 0, LARGE, data, 0, NULL, NULL));
  return buffer;
}

static void beside(void) {
  unsigned char *data = pattern(LARGE, 5);
  cl_mem small = buffer_of(4, 0, NULL);
  pthread_t thread;
  int right = 0;
  void *buffer;
  pthread_create(&thread, NULL, write_much, data);
  for (cl_int i = 0; i < 50; i++) {
    cl_int got = -1;
    NEED(clEnqueueWriteBuffer(queue, small, CL_FALSE, 0, 4, &i, 0, NULL, NULL));
    NEED(clEnqueueReadBuffer(queue, small, CL_TRUE, 0, 4, &got, 0, NULL, NULL));
    right += got == i;
  }
  pthread_join(thread, &buffer);
  printf("right: %d\n", right);
  say_content("much", buffer, LARGE);
}

PROGRAM(SCENARIO(order), SCENARIO(overwrite), SCENARIO(maps), SCENARIO(rectangles),
        SCENARIO(beside))
