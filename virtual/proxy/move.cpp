// SPDX-License-Identifier: MIT OR Apache-2.0
// Clients that move to a device of another proxy: who asks for it, and the contents of their
// memory, which go from the old proxy to the new one.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>
#include <utility>

#include "proxy.hpp"

extern "C" {
#include "trust.h"
}

bool send_packet(int channel, Word word, std::span<const unsigned char> body) {
  char letter = static_cast<char>(word);
  iovec parts[] = {{&letter, 1}, {const_cast<unsigned char *>(body.data()), body.size()}};
  return body.size() < LONGEST_PACKET && tps_send_all(channel, parts, 2) == 0;
}

namespace {

constexpr int HALF_MOVED = 3; // an exit status that toposeat lend knows

// The first of some end points that answers with this key; -1: none, and why the last one did not.
int reach(std::string_view endpoints, const unsigned char key[TPS_KEY_BYTES], const char *&wrong) {
  wrong = "it has no end point";
  for (size_t at = 0, end = 0; at < endpoints.size(); at = end + 1) {
    end = std::min(endpoints.find(' ', at), endpoints.size());
    int socket = tps_reach(std::string(endpoints.substr(at, end - at)).c_str(), key, &wrong);
    if (socket >= 0)
      return socket;
    wrong = wrong == nullptr ? std::strerror(errno) : wrong;
  }
  return -1;
}

} // namespace

// ---- Who asks

int ask_to_move(const std::string &from, const std::string &into,
                const unsigned char key[TPS_KEY_BYTES]) {
  size_t from_hash = from.rfind('#'), into_hash = into.rfind('#');
  if (from_hash == std::string::npos || into_hash == std::string::npos) {
    std::fputs("toposeat-clproxy: error: --move wants ENDPOINTS#INDEX, twice\n", stderr);
    return 2;
  }
  const char *wrong = nullptr;
  int socket = reach({from.data(), from_hash}, key, wrong);
  if (socket < 0) {
    std::fprintf(stderr, "toposeat-clproxy: error: the proxy at %s does not answer: %s\n",
                 from.c_str(), wrong);
    return 1;
  }
  tps_text words = {};
  tps_put(&words, std::strtoul(from.c_str() + from_hash + 1, nullptr, 10));
  tps_put_bytes(&words, into.data(), into_hash);
  tps_put(&words, std::strtoul(into.c_str() + into_hash + 1, nullptr, 10));
  tps_head head = {static_cast<uint32_t>(words.length), TPS_MOVE, 1};
  iovec parts[] = {{&head, sizeof head}, {words.data, words.length}};
  std::vector<unsigned char> body;
  bool is_here = tps_send_all(socket, parts, 2) == 0;
  do {
    is_here = is_here && tps_receive_all(socket, &head, sizeof head) == 0 &&
              head.length <= 2U * LONGEST_PACKET;
    body.resize(is_here ? head.length : 0);
    is_here = is_here && tps_receive_all(socket, body.data(), body.size()) == 0;
  } while (is_here && head.call != TPS_REPLY);
  std::free(words.data);
  if (!is_here) {
    std::fputs("toposeat-clproxy: error: the proxy ended before all had moved\n", stderr);
    return HALF_MOVED;
  }
  tps_cursor in = {body.data(), body.data() + body.size(), false};
  tps_take(&in);
  std::printf("{\"moved\":%lu,\"refused\":[", static_cast<unsigned long>(tps_take(&in)));
  for (const char *comma = ""; in.at < in.end && !in.bad; comma = ",") {
    size_t length = 0;
    const unsigned char *why = tps_take_bytes(&in, &length);
    std::printf("%s%s", comma,
                json_text(std::string(reinterpret_cast<const char *>(why), length)).c_str());
  }
  std::puts("]}");
  return 0;
}

// ---- The old proxy

cl_int on_move(Session &session, In &in, tps_text *) {
  in.word(); // a device, end points, a device there
  in.text();
  in.word();
  if (in.is_bad() || session.channel < 0 || session.ticket() == 0)
    return CL_INVALID_OPERATION;
  session.move_ticket = session.ticket();
  return send_packet(session.channel, Word::move, in.body()) ? LATER : CL_INVALID_VALUE;
}

cl_int on_moved(Session &session, In &in, tps_text *) {
  uint64_t outcome = in.word();
  std::string why = in.text();
  tps_text words = {};
  tps_put(&words, outcome);
  tps_put_bytes(&words, why.data(), std::min<size_t>(why.size(), LONGEST_PACKET / 4));
  if (session.channel >= 0)
    send_packet(session.channel, Word::moved, {words.data, words.length});
  std::free(words.data);
  return 0;
}

namespace {

// Memory in both proxies, or a part of a buffer: [0] is where that begins.
struct Given {
  uint64_t queue, memory, is_image;
  size_t region[3];
};
static_assert(sizeof(Given) == size_t{6} * TPS_WORD);

// The objects that are meant; one that could not be made is null.
struct Known {
  cl_int code;
  cl_command_queue queue;
  cl_mem memory;
};

Known known(Session &session, const Given &given) {
  Object *queue = session.object(given.queue, Kind::command_queue);
  Object *memory = session.object(given.memory, Kind::mem_object);
  if (queue == nullptr || queue->handle == nullptr)
    return {CL_INVALID_COMMAND_QUEUE, nullptr, nullptr};
  if (memory == nullptr)
    return {CL_INVALID_MEM_OBJECT, nullptr, nullptr};
  return {0, static_cast<cl_command_queue>(queue->handle), static_cast<cl_mem>(memory->handle)};
}

// What is mapped is the buffer itself where host and device share memory, and what the driver
// copies to most quickly elsewhere.
class Mapped {
public:
  Mapped() = default;
  Mapped(cl_command_queue queue, cl_mem buffer, cl_ulong flags, size_t at, size_t size)
      : queue_(queue), buffer_(buffer) {
    data_ = real.EnqueueMapBuffer(queue, buffer, 0, flags, at, size, 0, nullptr, &mapped_, &code_);
    if (code_ == 0)
      real.Flush(queue);
  }
  Mapped(Mapped &&other) noexcept { *this = std::move(other); }
  Mapped &operator=(Mapped &&other) noexcept {
    std::swap(queue_, other.queue_);
    std::swap(buffer_, other.buffer_);
    std::swap(data_, other.data_);
    std::swap(mapped_, other.mapped_);
    std::swap(code_, other.code_);
    return *this;
  }
  ~Mapped() {
    if (data_ != nullptr)
      real.EnqueueUnmapMemObject(queue_, buffer_, data_, 1, &mapped_, nullptr);
    if (mapped_ != nullptr)
      real.ReleaseEvent(mapped_);
  }
  cl_int wait() const { return code_ != 0 ? code_ : real.WaitForEvents(1, &mapped_); }
  char *data() const { return static_cast<char *>(data_); }

private:
  cl_command_queue queue_ = nullptr;
  cl_mem buffer_ = nullptr;
  void *data_ = nullptr;
  cl_event mapped_ = nullptr;
  cl_int code_ = 0;
};

// The new proxy's session, to which everything goes that the old one has to give.
class Peer {
public:
  Peer(Session &session, const std::string &endpoints, std::span<const unsigned char> key)
      : session_(session) {
    const char *wrong = nullptr;
    is_good_ = key.size() == TPS_KEY_BYTES && (socket_ = reach(endpoints, key.data(), wrong)) >= 0;
  }
  Peer(const Peer &) = delete;
  Peer &operator=(const Peer &) = delete;
  ~Peer() {
    if (socket_ >= 0)
      close(socket_);
  }

  bool is_good() const { return is_good_; }

  cl_int give(const Given &given) {
    auto [code, queue, memory] = known(session_, given);
    if (code != 0 || memory == nullptr) // nothing can be in what could not be made
      return code;
    return given.is_image != 0 ? give_image(queue, memory, given)
                               : give_buffer(queue, memory, given);
  }

private:
  // The device reads one piece while the one before is on its way.
  cl_int give_buffer(cl_command_queue queue, cl_mem buffer, const Given &given) {
    size_t size = given.region[0];
    auto map = [&](size_t at) {
      return Mapped(queue, buffer, CL_MAP_READ, at, std::min<size_t>(PIECE, size - at));
    };
    Mapped now = map(0);
    for (size_t at = 0; at < size; at += PIECE) {
      Mapped next = size - at > PIECE ? map(at + PIECE) : Mapped();
      if (cl_int code = now.wait(); code != 0)
        return code;
      send({given.queue, given.memory, 0, {at, 0, 0}},
           {now.data(), std::min<size_t>(PIECE, size - at)});
      now = std::move(next);
    }
    return 0;
  }

  cl_int give_image(cl_command_queue queue, cl_mem image, const Given &given) {
    size_t bytes = image_bytes(image, given.region);
    if (bytes == 0 || bytes > session_.most_upload())
      return CL_INVALID_VALUE;
    Staged staged = session_.take_staging(bytes);
    cl_int code = real.EnqueueReadImage(queue, image, 1, ZEROS, given.region, 0, 0, staged.data(),
                                        0, nullptr, nullptr);
    for (size_t at = 0; at < bytes && code == 0; at += TPS_LONGEST / 2)
      send(given, {staged.data() + at, std::min<size_t>(TPS_LONGEST / 2, bytes - at)});
    return code;
  }

  void send(Given given, std::span<const char> raw) {
    tps_head head = {static_cast<uint32_t>(sizeof given + raw.size()), TPS_CONTENT, 0};
    iovec parts[] = {
        {&head, sizeof head}, {&given, sizeof given}, {const_cast<char *>(raw.data()), raw.size()}};
    is_good_ = is_good_ && tps_send_all(socket_, parts, 3) == 0;
  }

  static constexpr size_t PIECE = size_t{4} << 20;
  Session &session_;
  int socket_ = -1;
  bool is_good_ = false;
};

} // namespace

cl_int on_dry(Session &session, In &, tps_text *) {
  cl_int code = session.reply_when_dry();
  return code != 0 ? code : LATER;
}

cl_int on_give(Session &session, In &in, tps_text *) {
  std::string endpoints = in.text();
  auto key = in.bytes();
  std::vector<Given> all;
  for (uint64_t left = in.length(); left > 0; left--) {
    Given given = {in.word(), in.word(), in.word(), {}};
    for (size_t &side : given.region)
      side = in.word();
    all.push_back(given);
  }
  if (in.is_bad())
    return CL_INVALID_VALUE;
  Peer peer(session, endpoints, key);
  if (!peer.is_good())
    return CL_DEVICE_NOT_AVAILABLE;
  for (const Given &given : all)
    if (cl_int code = peer.give(given); code != 0)
      return code;
  return peer.is_good() ? 0 : CL_OUT_OF_RESOURCES;
}

// ---- The new proxy

cl_int on_alias(Session &session, In &in, tps_text *) {
  uint64_t id = in.word(), index = in.word();
  auto devices = list_devices();
  if (index >= devices.size())
    return CL_INVALID_DEVICE;
  session.keep(id, Kind::device, devices[index], 0);
  return 0;
}

cl_int on_offer(Session &session, In &, tps_text *out) {
  for (int door : session.offer.doors)
    close(door);
  session.offer = {};
  if (getrandom(session.offer.key, TPS_KEY_BYTES, 0) != TPS_KEY_BYTES)
    return CL_OUT_OF_RESOURCES;
  std::string endpoints, told;
  auto add = [&](int door, const char *kind) {
    if (door < 0)
      return;
    session.offer.doors.push_back(door);
    endpoints.append(endpoints.empty() ? "" : " ").append(kind).append(told);
  };
  add(listen_without_file(told), "unix:"); // the first one, for processes of this user
  if (session.network.ss_family != 0)
    add(listen_at(session.network, sizeof session.network, told), "tcp:");
  tps_put_bytes(out, endpoints.data(), endpoints.size());
  tps_put_bytes(out, session.offer.key, TPS_KEY_BYTES);
  return 0;
}

namespace {

// Who holds the key, of all who come within the limit; -1: nobody.
int accept_peer(const Offer &offer) {
  std::vector<pollfd> doors;
  doors.reserve(offer.doors.size());
  for (int door : offer.doors)
    doors.push_back({door, POLLIN, 0});
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!doors.empty() && std::chrono::steady_clock::now() < end)
    if (poll(doors.data(), doors.size(), 1000) > 0)
      for (const pollfd &door : doors) {
        int peer = door.revents == 0 ? -1 : accept4(door.fd, nullptr, nullptr, SOCK_CLOEXEC);
        bool is_unix = peer >= 0 && door.fd == offer.doors.front();
        if (peer >= 0 && (!is_unix || tps_peer_is_mine(peer)) &&
            tps_greet(peer, offer.key, false) == nullptr)
          return peer;
        if (peer >= 0)
          close(peer);
      }
  return -1;
}

// One piece, straight into what is mapped of a buffer; images come whole.
bool take_content(Session &session, tps_inflow &in, Staged &image, size_t &filled) {
  tps_head head;
  Given given;
  if (tps_inflow_read(&in, &head, sizeof head, nullptr, nullptr) != 0 || head.call != TPS_CONTENT ||
      head.length <= sizeof given || head.length > TPS_LONGEST ||
      tps_inflow_read(&in, &given, sizeof given, nullptr, nullptr) != 0)
    return false;
  size_t length = head.length - sizeof given;
  auto [code, queue, memory] = known(session, given);
  if (code != 0 || memory == nullptr)
    return false;
  if (given.is_image == 0) {
    Mapped mapped(queue, memory, CL_MAP_WRITE_INVALIDATE_REGION, given.region[0], length);
    return mapped.wait() == 0 && tps_inflow_read(&in, mapped.data(), length, nullptr, nullptr) == 0;
  }
  size_t bytes = image_bytes(memory, given.region);
  if (bytes > session.most_upload() || length > bytes - filled)
    return false;
  if (filled == 0)
    image = session.take_staging(bytes);
  if (tps_inflow_read(&in, image.data() + filled, length, nullptr, nullptr) != 0)
    return false;
  filled = filled + length < bytes ? filled + length : 0;
  return filled != 0 || real.EnqueueWriteImage(queue, memory, 1, ZEROS, given.region, 0, 0,
                                               image.data(), 0, nullptr, nullptr) == 0;
}

} // namespace

cl_int on_accept(Session &session, In &, tps_text *) {
  return in_a_thread(session, [&session, offer = std::exchange(session.offer, {})]() mutable {
    int peer = accept_peer(offer);
    for (int door : offer.doors)
      close(door);
    explicit_bzero(offer.key, sizeof offer.key);
    if (peer < 0)
      return CL_DEVICE_NOT_AVAILABLE;
    tps_inflow in = {.socket = peer, .data = nullptr, .at = 0, .filled = 0};
    Staged image;
    size_t filled = 0;
    while (take_content(session, in, image, filled))
      ;
    char more = 0; // behind its end there is nothing, behind what cannot be read there is
    bool is_whole = in.at == in.filled && recv(peer, &more, 1, 0) == 0 && filled == 0;
    std::free(in.data);
    close(peer);
    return is_whole ? 0 : CL_OUT_OF_RESOURCES;
  });
}
