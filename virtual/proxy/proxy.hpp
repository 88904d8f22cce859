// SPDX-License-Identifier: MIT OR Apache-2.0
// A client's calls on the OpenCL of this node. One process serves one client; its main thread reads
// and makes the calls, what ends is told by the threads of the driver, and long reads by one that
// sends.
#ifndef TOPOSEAT_VIRTUAL_PROXY_HPP
#define TOPOSEAT_VIRTUAL_PROXY_HPP

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <sys/socket.h>
#include <unordered_map>
#include <vector>

#include "calls.h"
#include "wire.h"

struct Real {
#define X(name) decltype(cl##name) *name; // NOLINT(bugprone-macro-parentheses)
  TPS_EACH_REAL_CALL(X)
#undef X
};
extern Real real;
// What is wrong, or nothing.
std::string load_real();

// ---- listen.cpp: -1: it cannot; `told` is "ADDRESS:PORT", or "@NAME" of a socket without a file

// `there` is of the network that is served, on this node or another.
int listen_tcp(const std::string &there, std::string &told);
int listen_at(sockaddr_storage own, socklen_t length, std::string &told);
int listen_without_file(std::string &told);

// ---- devices.cpp

std::vector<cl_device_id> list_devices();
// How many, then name and bytes of each.
void put_facts(tps_text *out, cl_device_id device);
// The line that tells what this node lends, without what only the parent knows.
std::string devices_as_json();
std::string json_text(const std::string &text);

// ---- staging.cpp: memory between the socket and the device

class Pool;
struct Return {
  Pool *pool = nullptr;
  size_t size = 0;
  void operator()(char *block) const;
};

class Staged {
public:
  Staged() = default;
  Staged(Pool *pool, char *block, size_t size) : block_(block, Return{pool, size}) {}
  char *data() const { return block_.get(); }
  size_t size() const { return block_ == nullptr ? 0 : block_.get_deleter().size; }
  explicit operator bool() const { return block_ != nullptr; }

private:
  std::unique_ptr<char, Return> block_;
};

// Blocks of a chunk are kept, so that their pages are there already.
class Pool {
public:
  Staged take(size_t size);
  void give_back(char *block, size_t size);

private:
  std::mutex lock_;
  std::vector<char *> free_;
};

// ---- session.cpp

enum class Kind { device, context, command_queue, mem_object, sampler, program, kernel, event };
cl_int invalid(Kind kind);

struct Object {
  Kind kind = Kind::device;
  void *handle = nullptr;
  cl_int error = 0;                        // why there is no handle
  bool has_times = false;                  // of a queue
  bool is_open = false;                    // a user event that has not been set
  std::map<cl_uint, cl_int> bad_arguments; // of a kernel
};

class Session;

struct Watch {
  Watch() = default;
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;
  ~Watch() {
    if (event != nullptr)
      real.ReleaseEvent(event);
    if (is_marker)
      real.ReleaseCommandQueue(queue);
  }
  cl_event event = nullptr;
  uint64_t id = 0, ticket = 0; // whom to tell
  Staged staged;
  bool is_read = false, has_times = false;
  bool is_marker = false; // the queue may have been released: it holds it
  cl_command_queue queue = nullptr;
  std::chrono::steady_clock::time_point since;
  std::list<std::shared_ptr<Watch>>::iterator place;
  uint64_t number = 0;  // in the order of their start
  bool is_over = false; // from here on it is only told
  Session *session = nullptr;
};

using Sizes = std::unique_ptr<size_t[]>;
inline const size_t ZEROS[3] = {0, 0, 0};

// One message as it is taken apart.
class In {
public:
  In(Session &session, std::span<const unsigned char> body)
      : session_(session), body_(body), cursor_{body.data(), body.data() + body.size(), false} {}
  std::span<const unsigned char> body() const { return body_; } // all of it
  uint64_t word() { return tps_take(&cursor_); }
  std::span<const unsigned char> bytes();
  std::string text();
  Sizes sizes(size_t count);
  template <class Handle> Handle handle(Kind kind) {
    return static_cast<Handle>(find(word(), kind));
  }
  template <class Handle> std::vector<Handle> handles(size_t count, Kind kind) {
    std::vector<Handle> list;
    for (uint64_t left = length(); left > 0; left--)
      list.push_back(handle<Handle>(kind));
    must(list.size() == count);
    return list;
  }
  // All of a list, whatever its length.
  template <class Handle> std::vector<Handle> handles(Kind kind) {
    std::vector<Handle> list;
    for (uint64_t left = length(); left > 0; left--)
      list.push_back(handle<Handle>(kind));
    return list;
  }
  cl_device_id device_or_none();
  Object *object(uint64_t id, Kind kind);
  void must(bool is_so) { fail_if(!is_so, CL_INVALID_VALUE); }
  void fail_if(bool is_so, cl_int code) {
    if (is_so && code_ == 0)
      code_ = code;
  }
  // What the call fails with before it is made.
  cl_int code() const { return code_; }
  bool is_bad() const { return cursor_.bad; }
  uint64_t first() const { return first_; } // the id that the message is about
  Session &session() { return session_; }

  uint64_t length(); // of a list: no longer than the message

private:
  void *find(uint64_t id, Kind kind);
  Session &session_;
  std::span<const unsigned char> body_;
  tps_cursor cursor_;
  cl_int code_ = 0;
  uint64_t first_ = 0;
};

// How much memory of each device the clients of a proxy hold, a row for each: their processes share
// it.
enum { MOST_ROWS = 1024, MOST_LISTED = 64 };
struct Ledger {
  std::atomic<uint64_t> bytes[MOST_ROWS][MOST_LISTED];
  std::atomic<uint64_t> refused; // clients so far
};

enum { LATER = 1 }; // instead of a code: the reply follows
using Handler = cl_int(Session &session, In &in, tps_text *out);
// Answers the message with what `work` returns, while the reader goes on.
cl_int in_a_thread(Session &session, std::function<cl_int()> work);

// What a client's process and the parent of all say to each other, one packet each: a letter, then
// what belongs to it.
enum class Word : char {
  greeted = 'G', // the client has proved who it is
  move = 'M',    // as in TPS_MOVE; to the parent, and from there to the other clients
  moved = 'D',   // as in TPS_MOVED, and from there
  answer = 'R',  // as the reply to TPS_MOVE
};
enum { LONGEST_PACKET = 16 << 10 };
bool send_packet(int channel, Word word, std::span<const unsigned char> body);
// Asks the proxy of `from`, "ENDPOINT ENDPOINT#INDEX", to move its clients to `into`; prints what
// came of it, and returns the exit status.
int ask_to_move(const std::string &from, const std::string &into,
                const unsigned char key[TPS_KEY_BYTES]);

// Where another proxy may bring the contents of memory, once.
struct Offer {
  std::vector<int> doors;
  unsigned char key[TPS_KEY_BYTES] = {};
};

class Session {
public:
  // `channel`: to the parent, -1: none. `network`: this node's address in the network that is
  // served.
  explicit Session(int socket, int channel = -1, const sockaddr_storage &network = {})
      : channel(channel), network(network), socket_(socket) {}
  int run();
  void learn_devices();              // before the first message
  bool take_message(tps_inflow &in); // one; false: the client is gone or breaks the protocol

  void keep(uint64_t id, Kind kind, void *handle, cl_int code);
  void *forget(uint64_t id, Kind kind);
  Object *object(uint64_t id, Kind kind);
  Staged take_upload(uint64_t id);
  Staged take_staging(size_t size);
  void watch(const std::shared_ptr<Watch> &watch);
  // Watches for the end of all that was enqueued, and answers `ticket` then, if any.
  cl_int mark(cl_command_queue queue, uint64_t ticket);
  cl_int reply_when_dry(); // once all that was enqueued on any queue has ended and is told
  void end(const std::shared_ptr<Watch> &watch, cl_int status);
  void tell(uint32_t call, uint64_t ticket, std::initializer_list<uint64_t> words,
            std::span<const char> raw = {});
  void reply(uint64_t ticket, cl_int code, tps_text *out);
  void must_flush(cl_command_queue queue);
  void flush_queues();
  void print(); // what kernels have printed
  uint64_t ticket() const { return ticket_; }
  size_t most_upload() const { return most_upload_; }
  uint64_t held_by_others(size_t device) const;
  std::atomic<int> open_user_events = 0;
  const int channel;
  const sockaddr_storage network;
  Offer offer;
  Ledger *ledger = nullptr; // and this client's row of it
  size_t row = 0;
  std::atomic<uint64_t> move_ticket = 0; // who asked for a move
  std::atomic<bool> prints = false;

private:
  void count(cl_mem memory, bool is_new);
  void tell_end(const std::shared_ptr<Watch> &watch, cl_int status);
  void tell_ended(std::unique_lock<std::mutex> &guard, size_t most);
  void tell_if_dry(std::unique_lock<std::mutex> &guard);
  void send_long_reads();
  void look_after();
  void hear_parent();
  void wait_for(cl_command_queue queue);
  bool take_frame(tps_inflow &in, size_t length);
  struct Upload {
    Staged staged;
    size_t received = 0;
  };
  int socket_;
  uint64_t ticket_ = 0;
  Pool pool_; // before all that has memory of it
  std::unordered_map<uint64_t, Object> objects_;
  std::unordered_map<uint64_t, Upload> uploads_;
  size_t most_upload_ = 0;
  std::vector<cl_device_id> devices_;
  std::vector<cl_command_queue> unflushed_;
  std::mutex sending_;
  std::mutex printing_;
  int printed_ = -1;
  // what is in flight
  std::mutex watching_;
  std::condition_variable watched_, freed_, readable_;
  std::list<std::shared_ptr<Watch>> watches_;
  std::vector<cl_command_queue> waiting_; // for each a thread is in clFinish
  size_t staged_ = 0;
  std::list<std::shared_ptr<Watch>> reads_; // of which nobody has said that they ended
  std::deque<std::pair<std::shared_ptr<Watch>, cl_int>> ended_; // and are to be told
  bool is_telling_ = false, has_long_ = false;
  uint64_t watch_count_ = 0;
  uint64_t dry_ticket_ = 0, dry_number_ = 0; // who waits for the end of all up to this one
  std::atomic<bool> is_lazy_ = false;
};

// A command of a queue: what it waits for and whom its end is told.
class Command {
public:
  Command(Session &session, In &in, cl_command_queue queue);
  const void *upload(uint64_t id, size_t size);
  void *download(size_t size);
  cl_uint count() const { return static_cast<cl_uint>(waits_.size()); }
  const cl_event *list() const { return waits_.empty() ? nullptr : waits_.data(); }
  cl_event *event();
  cl_int done(cl_int code);

private:
  Session &session_;
  In &in_;
  uint64_t queue_id_;
  uint64_t id_;
  bool is_kept_;
  bool only_ends_ = false; // what it waits for was refused, and it was not
  std::vector<cl_event> waits_;
  std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();
};

// The bytes of a region, packed; 0 and a failure where there is none.
size_t packed_bytes(In &in, const Sizes &region);
size_t image_bytes(In &in, cl_mem image, const Sizes &region);
size_t image_bytes(cl_mem image, const size_t region[3]); // 0: none, or too many

// Asks twice, as OpenCL wants it: how long, and what.
template <class Ask> cl_int put_info(tps_text *out, Ask ask) {
  size_t size = 0;
  cl_int code = ask(0, nullptr, &size);
  if (code != 0)
    return code;
  std::vector<char> value(size);
  code = ask(size, value.data(), nullptr);
  if (code == 0)
    tps_put_bytes(out, value.data(), size);
  return code;
}

#endif
