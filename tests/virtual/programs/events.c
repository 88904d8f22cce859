/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What waits, who is told, and when it was. */
#include "client.h"

static void callbacks(void) {
  cl_mem buffer = filled(COUNT * 4);
  cl_int heard[3] = {99, 99, 99};
  cl_kernel add = prepare("add", buffer, 3);
  cl_event gate = user_event(), event, later;
  launch(queue, add, COUNT, gate, &event);
  NEED(clEnqueueMarkerWithWaitList(queue, 1, &event, &later));
  NEED(clSetEventCallback(event, CL_COMPLETE, on_event, &heard[0]));
  NEED(clSetEventCallback(later, CL_COMPLETE, on_event, &heard[1]));
  NEED(clFlush(queue));
  usleep(50000);
  printf("waits for its gate: %d, %d called\n", status_of(event) > CL_COMPLETE, calls);
  NEED(clSetUserEventStatus(gate, CL_COMPLETE));
  await_calls(2);
  printf("heard %d %d\n", heard[0], heard[1]);
  NEED(clSetEventCallback(event, CL_COMPLETE, on_event, &heard[2])); /* it is complete */
  await_calls(3);
  printf("heard later %d\n", heard[2]);
  say_content("added", buffer, COUNT * 4);
  printf("second status: %d\n", clSetUserEventStatus(gate, CL_COMPLETE));
}

/* A gate that fails takes what waits for it along, and the queue goes on. */
static void failed_gate(void) {
  cl_mem buffer = filled(64);
  cl_command_queue other = new_queue(0);
  cl_event gate = user_event(), event;
  launch(other, prepare("add", buffer, 3), 16, gate, &event);
  NEED(clFlush(other));
  NEED(clSetUserEventStatus(gate, -5));
  printf("wait: %d\n", clWaitForEvents(1, &event));
  printf("failed: %d\n", status_of(event) < 0);
  say_content("not added", buffer, 64);
}

static void *open_gate(void *gate) {
  usleep(100000);
  NEED(clSetUserEventStatus(*(cl_event *)gate, CL_COMPLETE));
  return NULL;
}

static void threads(void) {
  cl_mem buffer = filled(64);
  cl_event gate = user_event(), event;
  pthread_t thread;
  launch(queue, prepare("add", buffer, 5), 16, gate, &event);
  pthread_create(&thread, NULL, open_gate, &gate);
  NEED(clFinish(queue)); /* the other thread's event comes while this one waits */
  pthread_join(thread, NULL);
  printf("complete: %d\n", status_of(event));
  say_content("added", buffer, 64);
}

static void profiling(void) {
  cl_command_queue timed = new_queue(CL_QUEUE_PROFILING_ENABLE);
  cl_mem buffer = buffer_of(COUNT * 4, 0, NULL);
  cl_event event[2];
  cl_ulong times[8];
  launch(timed, prepare("add", buffer, 1), COUNT, NULL, &event[0]);
  launch(timed, prepare("add", buffer, 1), COUNT, NULL, &event[1]);
  NEED(clFinish(timed));
  for (int i = 0; i < 8; i++)
    NEED(clGetEventProfilingInfo(event[i / 4], CL_PROFILING_COMMAND_QUEUED + i % 4, sizeof *times,
                                 &times[i], NULL));
  int rising = times[0] != 0 && times[3] <= times[6];
  for (int i = 0; i < 8; i++)
    rising &= i % 4 == 0 || times[i - 1] <= times[i];
  printf("times rise: %d\n", rising);
  cl_event bare;
  cl_ulong time;
  launch(queue, prepare("add", buffer, 1), COUNT, NULL, &bare);
  NEED(clFinish(queue));
  printf("without the property: %d\n",
         clGetEventProfilingInfo(bare, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL));
}

/* A queue is finished again and again, of which there is something to finish ten times. */
static void idle(void) {
  cl_mem buffer = filled(64);
  cl_kernel add = prepare("add", buffer, 1);
  for (int i = 0; i < 1000; i++) {
    if (i % 100 == 0)
      launch(queue, add, 16, NULL, NULL);
    NEED(clFinish(queue));
  }
  say_content("added", buffer, 64);
}

PROGRAM(SCENARIO(callbacks), SCENARIO(failed_gate), SCENARIO(threads), SCENARIO(profiling),
        SCENARIO(idle))
