/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a client says to toposeat-clproxy, as frames.h has it, on an OpenCL that does nothing but
   look whether the memory that it is given is there. */
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "proxy.hpp"

extern "C" {
#include "fuzz.h"
}
#include "frames.h"

namespace {

constexpr size_t MEMORY = 64 << 10; // of the device: what may be staged for all of an input fits

// Handles are places in here; nobody looks at them.
char handles[256];
template <class Handle> Handle new_handle() {
  static size_t last = 0;
  return reinterpret_cast<Handle>(&handles[++last % sizeof handles]);
}

// What an output of a call becomes.
template <class Argument> void fill(Argument) {}
void fill(cl_event *event) {
  if (event != nullptr)
    *event = new_handle<cl_event>();
}
void fill(cl_int *code) {
  if (code != nullptr)
    *code = 0;
}

template <class Call> struct Standin;
template <class Result, class... Arguments> struct Standin<Result(Arguments...)> {
  static Result call(Arguments... arguments) {
    (fill(arguments), ...);
    if constexpr (std::is_pointer_v<Result>)
      return new_handle<Result>();
    else
      return Result{};
  }
};

size_t touched;
void look_at(const void *bytes, size_t length) {
  for (size_t i = 0; bytes != nullptr && i < length; i++)
    touched += static_cast<const unsigned char *>(bytes)[i];
}

template <class Value> cl_int give(size_t size, void *value, size_t *size_ret, Value given) {
  if (size_ret != nullptr)
    *size_ret = sizeof given;
  if (value != nullptr && size >= sizeof given)
    std::memcpy(value, &given, sizeof given);
  return 0;
}

cl_int get_platforms(cl_uint, cl_platform_id *platforms, cl_uint *count) {
  if (platforms != nullptr)
    *platforms = new_handle<cl_platform_id>();
  if (count != nullptr)
    *count = 1;
  return 0;
}

cl_int get_devices(cl_platform_id, cl_ulong, cl_uint, cl_device_id *devices, cl_uint *count) {
  if (devices != nullptr)
    *devices = new_handle<cl_device_id>();
  if (count != nullptr)
    *count = 1;
  return 0;
}

cl_int tell_of_device(cl_device_id, cl_uint, size_t size, void *value, size_t *size_ret) {
  return give(size, value, size_ret, MEMORY);
}

cl_int tell_of_image(cl_mem, cl_uint, size_t size, void *value, size_t *size_ret) {
  return give(size, value, size_ret, size_t{4});
}

cl_int tell_of_event(cl_event, cl_uint, size_t size, void *value, size_t *size_ret) {
  return give(size, value, size_ret, cl_int{CL_COMPLETE});
}

cl_int call_back(cl_event event, cl_int status, void (*call)(cl_event, cl_int, void *),
                 void *data) {
  call(event, status, data);
  return 0;
}

cl_mem create_buffer(cl_context, cl_ulong, size_t size, void *host, cl_int *code) {
  look_at(host, size);
  *code = 0;
  return new_handle<cl_mem>();
}

cl_int read_buffer(cl_command_queue, cl_mem, cl_uint, size_t, size_t size, void *into, cl_uint,
                   const cl_event *, cl_event *event) {
  std::memset(into, 1, size);
  fill(event);
  return 0;
}

cl_int write_buffer(cl_command_queue, cl_mem, cl_uint, size_t, size_t size, const void *from,
                    cl_uint, const cl_event *, cl_event *event) {
  look_at(from, size);
  fill(event);
  return 0;
}

cl_int fill_buffer(cl_command_queue, cl_mem, const void *pattern, size_t size, size_t, size_t,
                   cl_uint, const cl_event *, cl_event *event) {
  look_at(pattern, size);
  fill(event);
  return 0;
}

cl_int read_image(cl_command_queue, cl_mem, cl_uint, const size_t *origin, const size_t *region,
                  size_t, size_t, void *into, cl_uint, const cl_event *, cl_event *event) {
  look_at(origin, 3 * sizeof *origin);
  std::memset(into, 1, 4 * region[0] * region[1] * region[2]);
  fill(event);
  return 0;
}

cl_int write_image(cl_command_queue, cl_mem, cl_uint, const size_t *origin, const size_t *region,
                   size_t, size_t, const void *from, cl_uint, const cl_event *, cl_event *event) {
  look_at(origin, 3 * sizeof *origin);
  look_at(from, 4 * region[0] * region[1] * region[2]);
  fill(event);
  return 0;
}

cl_int set_argument(cl_kernel, cl_uint, size_t size, const void *value) {
  look_at(value, size);
  return 0;
}

cl_int launch(cl_command_queue, cl_kernel, cl_uint dimensions, const size_t *offset,
              const size_t *global, const size_t *local, cl_uint count, const cl_event *events,
              cl_event *event) {
  size_t bytes = std::min<size_t>(dimensions, 3) * sizeof(size_t);
  for (const size_t *sizes : {offset, global, local})
    look_at(sizes, bytes);
  look_at(events, count * sizeof *events);
  fill(event);
  return 0;
}

// A build has the program for as long as it lasts, in a thread of its own.
std::atomic<int> builds;
cl_int retain_program(cl_program) {
  builds++;
  return 0;
}
cl_int release_program(cl_program) {
  static const std::thread::id first = std::this_thread::get_id();
  builds -= std::this_thread::get_id() != first;
  return 0;
}

void stand_in() {
  release_program(nullptr); // knows the first thread from here on
#define X(name) real.name = Standin<decltype(cl##name)>::call;
  TPS_EACH_REAL_CALL(X)
#undef X
  real.GetPlatformIDs = get_platforms;
  real.GetDeviceIDs = get_devices;
  real.GetDeviceInfo = tell_of_device;
  real.GetImageInfo = tell_of_image;
  real.GetEventInfo = tell_of_event;
  real.SetEventCallback = call_back;
  real.RetainProgram = retain_program;
  real.ReleaseProgram = release_program;
  real.CreateBuffer = create_buffer;
  real.EnqueueReadBuffer = read_buffer;
  real.EnqueueWriteBuffer = write_buffer;
  real.EnqueueFillBuffer = fill_buffer;
  real.EnqueueReadImage = read_image;
  real.EnqueueWriteImage = write_image;
  real.EnqueueNDRangeKernel = launch;
  real.SetKernelArg = set_argument;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const int once = (stand_in(), 0);
  (void)once;
  std::string text(reinterpret_cast<const char *>(data), size);
  tps_text said = {};
  frames_of_text(&said, text.data());
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    std::abort();
  std::thread client([&] { // says all, and hears nothing of what it is told
    for (size_t at = 0; at < said.length;) {
      ssize_t sent = send(sockets[1], said.data + at, said.length - at, MSG_NOSIGNAL);
      if (sent <= 0)
        break;
      at += static_cast<size_t>(sent);
    }
    shutdown(sockets[1], SHUT_WR);
    char heard[4096];
    while (recv(sockets[1], heard, sizeof heard, 0) > 0)
      ;
  });
  tps_inflow in = {.socket = sockets[0], .data = nullptr, .at = 0, .filled = 0};
  {
    Session session(sockets[0]);
    session.learn_devices();
    while (session.take_message(in))
      ;
    while (builds > 0) // which answer in threads of their own
      std::this_thread::yield();
  }
  close(sockets[0]);
  client.join();
  close(sockets[1]);
  std::free(in.data);
  std::free(said.data);
  return 0;
}
