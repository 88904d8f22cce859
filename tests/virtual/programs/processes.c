/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Processes that end, fork, or lose their device. */
#include "client.h"

#include <sys/wait.h>

/* Work is pending that would take minutes; nothing is waited for or released. */
static void leave(void) {
  cl_mem buffer = buffer_of(64, 0, NULL);
  cl_kernel slow = prepare("slow", buffer, 20000000);
  for (int i = 0; i < 20; i++)
    launch(queue, slow, 1, NULL, NULL);
  NEED(clFlush(queue));
  puts("leaves");
}

/* A child of fork has no device; its parent keeps its own. */
static void split(void) {
  cl_mem buffer = filled(64);
  cl_int got[16];
  NEED(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 64, got, 0, NULL, NULL));
  pid_t child = fork();
  if (child == 0) {
    cl_int status = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 64, got, 0, NULL, NULL);
    status |= clFinish(queue);
    _exit(status < 0 ? 7 : 8);
  }
  int ended;
  waitpid(child, &ended, 0);
  printf("child: %d\n", WIFEXITED(ended) ? WEXITSTATUS(ended) : -1);
  launch(queue, prepare("add", buffer, 1), 16, NULL, NULL);
  say_content("parent", buffer, 64);
}

/* Works until its proxy is gone: says so, and what calls then return. */
static void bereaved(void) {
  cl_mem buffer = buffer_of(64, 0, NULL);
  cl_kernel slow = prepare("slow", buffer, 1000000);
  cl_event event;
  cl_int status = CL_SUCCESS;
  puts("works");
  fflush(stdout);
  while (status == CL_SUCCESS) {
    status = clEnqueueNDRangeKernel(queue, slow, 1, NULL, &(size_t){1}, NULL, 0, NULL, &event);
    if (status == CL_SUCCESS)
      status = clWaitForEvents(1, &event);
  }
  printf("ended: %d\n", status < 0);
  cl_int made;
  clCreateBuffer(context, 0, 64, NULL, &made);
  cl_int got[16];
  status = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 64, got, 0, NULL, NULL);
  printf("read: %d, finish: %d\n", status < 0, clFinish(queue) < 0);
  NEED(clReleaseMemObject(buffer));
}

PROGRAM(SCENARIO(leave), SCENARIO(split), SCENARIO(bereaved))
