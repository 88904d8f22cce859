// SPDX-License-Identifier: MIT OR Apache-2.0
#include "proxy.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

Handler *handler_of_call(unsigned call);

// ---- Taking a message apart

std::span<const unsigned char> In::bytes() {
  size_t length = 0;
  const unsigned char *bytes = tps_take_bytes(&cursor_, &length);
  return {bytes, length};
}

std::string In::text() {
  auto all = bytes();
  return {reinterpret_cast<const char *>(all.data()), all.size()};
}

uint64_t In::length() {
  uint64_t told = word();
  if (told <= static_cast<uint64_t>(cursor_.end - cursor_.at) / TPS_WORD)
    return told;
  cursor_.bad = true;
  return 0;
}

Sizes In::sizes(size_t count) {
  uint64_t told = length();
  if (told == 0)
    return nullptr;
  must(told == count);
  auto made = std::make_unique<size_t[]>(told < 3 ? 3 : told);
  for (uint64_t i = 0; i < told; i++)
    made[i] = word();
  return made;
}

cl_int invalid(Kind kind) {
  static constexpr cl_int codes[] = {
      CL_INVALID_DEVICE,  CL_INVALID_CONTEXT, CL_INVALID_COMMAND_QUEUE, CL_INVALID_MEM_OBJECT,
      CL_INVALID_SAMPLER, CL_INVALID_PROGRAM, CL_INVALID_KERNEL,        CL_INVALID_EVENT};
  return codes[static_cast<int>(kind)];
}

Object *In::object(uint64_t id, Kind kind) {
  Object *found = session_.object(id, kind);
  fail_if(found == nullptr, invalid(kind));
  if (found != nullptr)
    fail_if(found->error != 0, found->error);
  return found;
}

void *In::find(uint64_t id, Kind kind) {
  if (first_ == 0)
    first_ = id;
  Object *found = object(id, kind);
  if (found != nullptr && !found->bad_arguments.empty())
    fail_if(true, found->bad_arguments.begin()->second);
  return found == nullptr ? nullptr : found->handle;
}

cl_device_id In::device_or_none() {
  uint64_t id = word();
  return id == 0 ? nullptr : static_cast<cl_device_id>(find(id, Kind::device));
}

// ---- Objects

Object *Session::object(uint64_t id, Kind kind) {
  auto found = objects_.find(id);
  return found == objects_.end() || found->second.kind != kind ? nullptr : &found->second;
}

void Session::keep(uint64_t id, Kind kind, void *handle, cl_int code) {
  Object made;
  made.kind = kind;
  made.handle = handle;
  made.error = handle == nullptr && code == 0 ? CL_OUT_OF_RESOURCES : code;
  if (kind == Kind::command_queue && handle != nullptr) {
    cl_ulong properties = 0;
    real.GetCommandQueueInfo(static_cast<cl_command_queue>(handle), CL_QUEUE_PROPERTIES,
                             sizeof properties, &properties, nullptr);
    made.has_times = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
  }
  objects_.insert_or_assign(id, std::move(made));
  if (kind == Kind::mem_object && handle != nullptr)
    count(static_cast<cl_mem>(handle), true);
}

// Parts of other memory are counted with it. What a context has may be in any of its devices.
void Session::count(cl_mem memory, bool is_new) {
  cl_mem whole = nullptr;
  uint64_t bytes = 0;
  cl_context context = nullptr;
  std::vector<cl_device_id> own(devices_.size() + 1);
  size_t length = 0;
  if (ledger == nullptr ||
      real.GetMemObjectInfo(memory, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, nullptr) ||
      whole != nullptr ||
      real.GetMemObjectInfo(memory, CL_MEM_SIZE, sizeof bytes, &bytes, nullptr) != 0 ||
      real.GetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof context, &context, nullptr) != 0 ||
      real.GetContextInfo(context, CL_CONTEXT_DEVICES, own.size() * sizeof own[0], own.data(),
                          &length) != 0)
    return;
  own.resize(length / sizeof own[0]);
  for (size_t i = 0; i < devices_.size() && i < MOST_LISTED; i++)
    if (std::ranges::find(own, devices_[i]) != own.end())
      ledger->bytes[row][i] += is_new ? bytes : -bytes;
}

uint64_t Session::held_by_others(size_t device) const {
  uint64_t bytes = 0;
  for (size_t i = 0; ledger != nullptr && device < MOST_LISTED && i < MOST_ROWS; i++)
    bytes += i == row ? 0 : ledger->bytes[i][device].load();
  return bytes;
}

void *Session::forget(uint64_t id, Kind kind) {
  Object *found = object(id, kind);
  if (found == nullptr)
    return nullptr;
  void *handle = found->handle;
  if (kind == Kind::mem_object && handle != nullptr)
    count(static_cast<cl_mem>(handle), false);
  open_user_events -= found->is_open;
  objects_.erase(id);
  if (kind == Kind::command_queue && handle != nullptr) {
    flush_queues();
    mark(static_cast<cl_command_queue>(handle), 0);
  }
  return handle;
}

void Session::must_flush(cl_command_queue queue) {
  for (cl_command_queue other : unflushed_)
    if (other == queue)
      return;
  unflushed_.push_back(queue);
}

void Session::flush_queues() {
  for (cl_command_queue queue : unflushed_)
    real.Flush(queue);
  unflushed_.clear();
}

// ---- Telling

void Session::tell(uint32_t call, uint64_t ticket, std::initializer_list<uint64_t> words,
                   std::span<const char> raw) {
  struct {
    tps_head head;
    uint64_t words[8];
  } message = {};
  std::copy(words.begin(), words.end(), message.words);
  size_t length = words.size() * TPS_WORD;
  message.head = {static_cast<uint32_t>(length + raw.size()), call, ticket};
  iovec parts[] = {{&message, sizeof message.head + length},
                   {const_cast<char *>(raw.data()), raw.size()}};
  std::lock_guard guard(sending_);
  if (tps_send_all(socket_, parts, raw.empty() ? 1 : 2) != 0)
    shutdown(socket_, SHUT_RDWR); // the reader ends
}

void Session::reply(uint64_t ticket, cl_int code, tps_text *out) {
  tell(TPS_REPLY, ticket, {static_cast<uint64_t>(static_cast<int64_t>(code))},
       {reinterpret_cast<const char *>(out->data), out->length});
}

// ---- What kernels print: their standard output is a pipe.

void Session::print() {
  char text[4096];
  std::lock_guard guard(printing_);
  for (ssize_t got = 1; got > 0;) {
    got = read(printed_, text, sizeof text);
    if (got > 0)
      tell(TPS_PRINTED, 0, {}, {text, static_cast<size_t>(got)});
  }
}

// ---- The main thread

Staged Session::take_upload(uint64_t id) {
  auto found = uploads_.find(id);
  if (found == uploads_.end())
    return {};
  Staged staged = std::move(found->second.staged);
  bool is_whole = found->second.received == staged.size();
  uploads_.erase(found);
  return is_whole ? std::move(staged) : Staged();
}

// Bytes of an upload go to where they stay.
bool Session::take_frame(tps_inflow &in, size_t length) {
  uint64_t words[3]; // upload, all its bytes, offset
  if (length < sizeof words || tps_inflow_read(&in, words, sizeof words, nullptr, nullptr) != 0)
    return false;
  length -= sizeof words;
  if (words[1] == 0 || words[1] > most_upload_ || words[2] > words[1] ||
      length > words[1] - words[2])
    return false;
  auto [at, is_new] = uploads_.try_emplace(words[0]);
  if (is_new)
    at->second.staged = take_staging(words[1]);
  Upload &upload = at->second;
  if (upload.staged.size() != words[1] || upload.received != words[2])
    return false;
  upload.received += length;
  return tps_inflow_read(&in, upload.staged.data() + words[2], length, nullptr, nullptr) == 0;
}

bool Session::take_message(tps_inflow &in) {
  static std::vector<unsigned char> body;
  static tps_text out = {};
  tps_head head;
  auto is_idle = [](void *session) { static_cast<Session *>(session)->flush_queues(); };
  if (tps_inflow_read(&in, &head, sizeof head, is_idle, this) != 0)
    return false;
  if (head.length > TPS_LONGEST)
    return false;
  if (head.call == TPS_UPLOAD)
    return take_frame(in, head.length);
  body.resize(head.length);
  if (head.length > 0 && tps_inflow_read(&in, body.data(), head.length, nullptr, nullptr) != 0)
    return false;
  Handler *handler = handler_of_call(head.call);
  if (handler == nullptr)
    return false;
  In message(*this, body);
  out.length = 0;
  ticket_ = head.ticket;
  cl_int code = handler(*this, message, &out);
  if (message.is_bad())
    return false;
  if (head.ticket != 0 && code != LATER)
    reply(head.ticket, code, &out);
  return true;
}

void Session::hear_parent() {
  std::vector<unsigned char> packet(LONGEST_PACKET);
  for (ssize_t got = 1; got > 0;) {
    got = recv(channel, packet.data(), packet.size(), 0);
    if (got <= 0)
      continue;
    std::span<const char> body(reinterpret_cast<const char *>(packet.data()) + 1,
                               static_cast<size_t>(got) - 1);
    if (static_cast<Word>(packet[0]) == Word::move)
      tell(TPS_MOVE, 0, {}, body);
    else
      tell(TPS_REPLY, move_ticket.exchange(0), {0}, body);
  }
}

void Session::learn_devices() {
  uint64_t id = 0;
  devices_ = list_devices();
  for (cl_device_id device : devices_) {
    keep(++id, Kind::device, device, 0);
    cl_ulong most = 0;
    real.GetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof most, &most, nullptr);
    most_upload_ = std::max(most_upload_, static_cast<size_t>(most));
  }
}

int Session::run() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0 || dup2(ends[1], STDOUT_FILENO) < 0)
    return 1;
  close(ends[1]);
  printed_ = ends[0];
  fcntl(printed_, F_SETFL, O_NONBLOCK);
  setvbuf(stdout, nullptr, _IONBF, 0);
  learn_devices();
  std::thread([this] { send_long_reads(); }).detach();
  std::thread([this] { look_after(); }).detach();
  if (channel >= 0)
    std::thread([this] { hear_parent(); }).detach();
  std::thread([this] {
    pollfd readable = {printed_, POLLIN, 0};
    while (poll(&readable, 1, -1) >= 0)
      print();
  }).detach();
  tps_inflow in = {.socket = socket_, .data = nullptr, .at = 0, .filled = 0};
  while (take_message(in))
    ;
  return 0;
}
