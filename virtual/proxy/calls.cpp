// SPDX-License-Identifier: MIT OR Apache-2.0
// What the proxy does with the calls that are not regular; the others are generated.
#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <thread>
#include <unistd.h>

#include "proxy.hpp"

#include "proxy_calls.h"

Real real;

std::string load_real() {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return dlerror();
#define X(name)                                                                                    \
  real.name = reinterpret_cast<decltype(real.name)>(dlsym(library, "cl" #name));                   \
  if (real.name == nullptr)                                                                        \
    return "libOpenCL.so.1 has no cl" #name;
  TPS_EACH_REAL_CALL(X)
#undef X
  return "";
}

Handler *handler_of_call(unsigned call);

cl_int in_a_thread(Session &session, std::function<cl_int()> work) {
  uint64_t ticket = session.ticket();
  std::thread([&session, ticket, work = std::move(work)] {
    tps_text nothing = {};
    session.reply(ticket, work(), &nothing);
  }).detach();
  return LATER;
}

Handler on_move, on_moved, on_alias, on_offer, on_accept, on_dry, on_give; // move.cpp

namespace {

template <class Handle> const Handle *data_of(const std::vector<Handle> &list) {
  return list.empty() ? nullptr : list.data();
}

cl_uint count_of(const auto &list) { return static_cast<cl_uint>(list.size()); }

// Kernels are told the version that the client's device has, whatever the node's has; lines count
// from their own first one.
constexpr char VERSION[] = "#if __OPENCL_VERSION__ > 120\n#undef __OPENCL_VERSION__\n"
                           "#define __OPENCL_VERSION__ 120\n#endif\n#line 1\n";

// A build takes long, and another thread of the client may go on meanwhile.
cl_int build(Session &session, cl_program program, std::function<cl_int()> work) {
  real.RetainProgram(program);
  return in_a_thread(session, [program, work = std::move(work)] {
    cl_int code = work();
    real.ReleaseProgram(program);
    return code;
  });
}

// Arguments of kernels tell what they are only where the program was built with the first of these;
// the language is that of an OpenCL 1.2 device where nobody asks for another. Not all drivers know
// all words.
cl_int with_options(const std::string &options, const std::function<cl_int(const char *)> &made) {
  std::string words = options;
  for (std::string_view word : {"-cl-kernel-arg-info", "-cl-std=CL1.2"})
    if (options.find(word.substr(0, word.find('='))) == std::string::npos)
      words.append(" ").append(word);
  cl_int code = made(words.c_str());
  bool is_refused = code == CL_INVALID_BUILD_OPTIONS || code == CL_INVALID_COMPILER_OPTIONS;
  return is_refused ? made(options.c_str()) : code;
}

cl_int on_devices(Session &session, In &, tps_text *out) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  tps_put_bytes(out, host, std::strlen(host));
  auto devices = list_devices();
  tps_put(out, devices.size());
  for (size_t i = 0; i < devices.size(); i++) {
    tps_put(out, session.held_by_others(i));
    put_facts(out, devices[i]);
  }
  return 0;
}

cl_int on_ping(Session &, In &in, tps_text *out) {
  uint64_t wanted = std::min<uint64_t>(in.word(), TPS_LONGEST / 2);
  static std::vector<char> zeros;
  zeros.resize(std::max<size_t>(zeros.size(), wanted));
  tps_put_bytes(out, zeros.data(), wanted);
  return 0;
}

} // namespace

cl_int on_CreateContext(Session &session, In &in, tps_text *) {
  uint64_t id = in.word();
  auto devices = in.handles<cl_device_id>(Kind::device);
  cl_int code = in.code();
  cl_platform_id platform = nullptr;
  if (code == 0 && !devices.empty())
    code = real.GetDeviceInfo(devices[0], CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr);
  const intptr_t properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<intptr_t>(platform), 0};
  cl_context made = code != 0 ? nullptr
                              : real.CreateContext(properties, count_of(devices), devices.data(),
                                                   nullptr, nullptr, &code);
  session.keep(id, Kind::context, made, code);
  return code;
}

cl_int on_CreateSubDevices(Session &session, In &in, tps_text *out) {
  auto device = in.handle<cl_device_id>(Kind::device);
  auto words = in.bytes();
  uint64_t wanted = std::min<uint64_t>(in.word(), 256), first = in.word();
  std::vector<intptr_t> properties(words.size() / sizeof(intptr_t) + 1);
  std::memcpy(properties.data(), words.data(), words.size() / sizeof(intptr_t) * sizeof(intptr_t));
  properties.push_back(0);
  if (in.code() != 0)
    return in.code();
  cl_uint count = 0;
  std::vector<cl_device_id> made(wanted);
  cl_int code = real.CreateSubDevices(device, properties.data(), static_cast<cl_uint>(wanted),
                                      wanted == 0 ? nullptr : made.data(), &count);
  tps_put(out, count);
  for (uint64_t i = 0; code == 0 && i < wanted && i < count; i++) {
    session.keep(first + i, Kind::device, made[i], 0);
    put_facts(out, made[i]);
  }
  return code;
}

cl_int on_GetSupportedImageFormats(Session &, In &in, tps_text *out) {
  auto context = in.handle<cl_context>(Kind::context);
  cl_ulong flags = in.word();
  auto type = static_cast<cl_uint>(in.word());
  if (in.code() != 0)
    return in.code();
  cl_uint count = 0;
  cl_int code = real.GetSupportedImageFormats(context, flags, type, 0, nullptr, &count);
  std::vector<cl_image_format> formats(count);
  if (code == 0 && count > 0)
    code = real.GetSupportedImageFormats(context, flags, type, count, formats.data(), nullptr);
  tps_put_bytes(out, formats.data(), formats.size() * sizeof(cl_image_format));
  return code;
}

cl_int on_CreateImage(Session &session, In &in, tps_text *) {
  uint64_t id = in.word();
  auto context = in.handle<cl_context>(Kind::context);
  cl_ulong flags = in.word();
  cl_image_format format = {static_cast<cl_uint>(in.word()), static_cast<cl_uint>(in.word())};
  cl_image_desc told = {};
  told.image_type = static_cast<cl_uint>(in.word());
  told.image_width = in.word();
  told.image_height = in.word();
  told.image_depth = in.word();
  told.image_array_size = in.word();
  uint64_t buffer = in.word(), upload = in.word(), size = in.word();
  if (buffer != 0) {
    Object *object = in.object(buffer, Kind::mem_object);
    told.buffer = object == nullptr ? nullptr : static_cast<cl_mem>(object->handle);
  }
  Staged staged = session.take_upload(upload);
  in.must((upload == 0 && !staged) || staged.size() == size);
  cl_int code = in.code();
  cl_mem made =
      code != 0 ? nullptr : real.CreateImage(context, flags, &format, &told, staged.data(), &code);
  session.keep(id, Kind::mem_object, made, code);
  return code;
}

cl_int on_SetUserEventStatus(Session &session, In &in, tps_text *) {
  auto event = in.handle<cl_event>(Kind::event);
  auto status = static_cast<cl_int>(in.word());
  if (in.code() != 0)
    return in.code();
  session.flush_queues();
  Object *object = session.object(in.first(), Kind::event);
  session.open_user_events -= object->is_open;
  object->is_open = false;
  cl_int code = real.SetUserEventStatus(event, status);
  if (code != 0 && session.ticket() == 0)
    session.tell(TPS_FAILED, 0, {0, static_cast<uint64_t>(static_cast<int64_t>(code)), 0});
  return code;
}

cl_int on_CreateUserEvent(Session &session, In &in, tps_text *) {
  uint64_t id = in.word();
  auto context = in.handle<cl_context>(Kind::context);
  cl_int code = in.code();
  cl_event made = code != 0 ? nullptr : real.CreateUserEvent(context, &code);
  session.keep(id, Kind::event, made, code);
  session.object(id, Kind::event)->is_open = made != nullptr;
  session.open_user_events += made != nullptr;
  return code;
}

// The reader never waits: a marker tells when all before it has ended.
cl_int on_Finish(Session &session, In &in, tps_text *) {
  auto queue = in.handle<cl_command_queue>(Kind::command_queue);
  if (in.code() != 0)
    return in.code();
  cl_int code = session.mark(queue, session.ticket());
  return code != 0 ? code : LATER;
}

// ---- Programs

cl_int on_CreateProgramWithSource(Session &session, In &in, tps_text *) {
  uint64_t id = in.word();
  auto context = in.handle<cl_context>(Kind::context);
  std::string source = in.text();
  const char *text[] = {VERSION, source.c_str()};
  const size_t lengths[] = {sizeof VERSION - 1, source.size()};
  cl_int code = in.code();
  cl_program made =
      code != 0 ? nullptr : real.CreateProgramWithSource(context, 2, text, lengths, &code);
  if (source.find("printf") != std::string::npos || source.find("#include") != std::string::npos)
    session.prints = true;
  session.keep(id, Kind::program, made, code);
  return code;
}

cl_int on_CreateProgramWithBinary(Session &session, In &in, tps_text *out) {
  uint64_t id = in.word();
  auto context = in.handle<cl_context>(Kind::context);
  auto devices = in.handles<cl_device_id>(Kind::device);
  std::vector<size_t> lengths;
  std::vector<const unsigned char *> binaries;
  for (size_t i = 0; i < devices.size(); i++) {
    auto binary = in.bytes();
    lengths.push_back(binary.size());
    binaries.push_back(binary.data());
  }
  if (in.is_bad() || in.code() != 0)
    return in.code();
  std::vector<cl_int> status(devices.size());
  cl_int code = 0;
  cl_program made =
      real.CreateProgramWithBinary(context, count_of(devices), devices.data(), lengths.data(),
                                   binaries.data(), status.data(), &code);
  session.prints = true;
  for (cl_int one : status)
    tps_put(out, static_cast<uint64_t>(static_cast<int64_t>(one)));
  session.keep(id, Kind::program, made, code);
  return code;
}

cl_int on_BuildProgram(Session &session, In &in, tps_text *) {
  auto program = in.handle<cl_program>(Kind::program);
  auto devices = in.handles<cl_device_id>(Kind::device);
  std::string options = in.text();
  if (in.code() != 0 || in.is_bad())
    return in.code();
  return build(session, program, [=] {
    return with_options(options, [&](const char *words) {
      return real.BuildProgram(program, count_of(devices), data_of(devices), words, nullptr,
                               nullptr);
    });
  });
}

cl_int on_CompileProgram(Session &session, In &in, tps_text *) {
  auto program = in.handle<cl_program>(Kind::program);
  auto devices = in.handles<cl_device_id>(Kind::device);
  std::string options = in.text();
  auto headers = in.handles<cl_program>(Kind::program);
  std::vector<std::string> names;
  names.reserve(headers.size());
  for (size_t i = 0; i < headers.size(); i++)
    names.push_back(in.text());
  if (in.code() != 0 || in.is_bad())
    return in.code();
  return build(session, program, [=] {
    std::vector<const char *> texts;
    texts.reserve(names.size());
    for (const std::string &name : names)
      texts.push_back(name.c_str());
    return with_options(options, [&](const char *words) {
      return real.CompileProgram(program, count_of(devices), data_of(devices), words,
                                 count_of(headers), data_of(headers),
                                 texts.empty() ? nullptr : texts.data(), nullptr, nullptr);
    });
  });
}

cl_int on_LinkProgram(Session &session, In &in, tps_text *) {
  uint64_t id = in.word();
  auto context = in.handle<cl_context>(Kind::context);
  auto devices = in.handles<cl_device_id>(Kind::device);
  std::string options = in.text();
  auto programs = in.handles<cl_program>(Kind::program);
  session.keep(id, Kind::program, nullptr, in.code());
  if (in.code() != 0 || in.is_bad())
    return in.code();
  Object *object = session.object(id, Kind::program); // which nobody asks for before the answer
  return in_a_thread(session, [=] {
    cl_int code = 0;
    object->handle =
        real.LinkProgram(context, count_of(devices), data_of(devices), options.c_str(),
                         count_of(programs), data_of(programs), nullptr, nullptr, &code);
    object->error = object->handle == nullptr ? code : 0;
    return code;
  });
}

cl_int on_GetProgramInfo(Session &, In &in, tps_text *out) {
  auto program = in.handle<cl_program>(Kind::program);
  in.word();
  auto name = static_cast<cl_uint>(in.word());
  if (in.code() != 0)
    return in.code();
  if (name != CL_PROGRAM_BINARIES)
    return put_info(out, [=](size_t size, void *value, size_t *size_ret) {
      return real.GetProgramInfo(program, name, size, value, size_ret);
    });
  size_t bytes = 0;
  cl_int code = real.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, 0, nullptr, &bytes);
  std::vector<size_t> sizes(bytes / sizeof(size_t));
  if (code == 0)
    code = real.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, bytes, sizes.data(), nullptr);
  std::vector<std::vector<unsigned char>> binaries;
  std::vector<unsigned char *> places;
  places.reserve(sizes.size());
  for (size_t size : sizes)
    places.push_back(binaries.emplace_back(size).data());
  if (code == 0)
    code = real.GetProgramInfo(program, CL_PROGRAM_BINARIES, places.size() * sizeof(void *),
                               places.data(), nullptr);
  for (const auto &binary : binaries)
    tps_put_bytes(out, binary.data(), binary.size());
  return code;
}

// ---- Kernels

namespace {

void put_argument(tps_text *out, cl_kernel kernel, cl_uint index) {
  cl_uint address = 0, access = 0;
  cl_ulong qualifier = 0;
  bool is_known = real.GetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER,
                                        sizeof address, &address, nullptr) == 0 &&
                  real.GetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ACCESS_QUALIFIER,
                                        sizeof access, &access, nullptr) == 0 &&
                  real.GetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_QUALIFIER,
                                        sizeof qualifier, &qualifier, nullptr) == 0;
  tps_put(out, is_known);
  tps_put(out, address);
  tps_put(out, access);
  tps_put(out, qualifier);
  for (cl_uint name : {cl_uint{CL_KERNEL_ARG_TYPE_NAME}, cl_uint{CL_KERNEL_ARG_NAME}}) {
    char text[1024] = "";
    if (!is_known ||
        real.GetKernelArgInfo(kernel, index, name, sizeof text - 1, text, nullptr) != 0)
      text[0] = '\0';
    tps_put_bytes(out, text, std::strlen(text));
  }
}

} // namespace

cl_int on_CreateKernel(Session &session, In &in, tps_text *out) {
  uint64_t id = in.word();
  auto program = in.handle<cl_program>(Kind::program);
  std::string name = in.text();
  cl_int code = in.code();
  cl_kernel made = code != 0 ? nullptr : real.CreateKernel(program, name.c_str(), &code);
  cl_uint count = 0;
  if (made != nullptr)
    code = real.GetKernelInfo(made, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr);
  if (made != nullptr && code != 0) { // nobody could set its arguments
    real.ReleaseKernel(made);
    made = nullptr;
  }
  tps_put(out, count);
  for (cl_uint i = 0; i < count; i++)
    put_argument(out, made, i);
  session.keep(id, Kind::kernel, made, code);
  return code;
}

cl_int on_SetKernelArg(Session &session, In &in, tps_text *) {
  uint64_t id = in.word();
  Object *kernel = in.object(id, Kind::kernel);
  auto index = static_cast<cl_uint>(in.word());
  uint64_t form = in.word();
  void *handle = nullptr;
  const void *value = nullptr;
  size_t size = sizeof handle;
  if (form == TPS_OBJECT) {
    uint64_t object = in.word();
    Kind kind = in.word() != 0 ? Kind::sampler : Kind::mem_object;
    Object *found = object == 0 ? nullptr : in.object(object, kind);
    handle = found == nullptr ? nullptr : found->handle;
    value = &handle;
  } else if (form == TPS_LOCAL) {
    size = in.word();
  } else {
    auto bytes = in.bytes();
    value = bytes.data();
    size = bytes.size();
  }
  if (kernel == nullptr || in.is_bad())
    return in.code();
  cl_int code = in.code();
  if (code == 0)
    code = real.SetKernelArg(static_cast<cl_kernel>(kernel->handle), index, size, value);
  if (code == 0)
    kernel->bad_arguments.erase(index);
  else
    kernel->bad_arguments[index] = code;
  (void)session;
  return code;
}

Handler *handler_of_call(unsigned call) {
  static constexpr std::pair<unsigned, Handler *> ours[] = {
      {TPS_DEVICES, on_devices}, {TPS_PING, on_ping},   {TPS_MOVE, on_move},
      {TPS_MOVED, on_moved},     {TPS_ALIAS, on_alias}, {TPS_OFFER, on_offer},
      {TPS_ACCEPT, on_accept},   {TPS_DRY, on_dry},     {TPS_GIVE, on_give}};
  for (auto [message, handler] : ours)
    if (message == call)
      return handler;
  return handler_of(call);
}
