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

// ---- Who asks

int ask_to_move(const std::string &from, const std::string &into,
                const unsigned char key[TPS_KEY_BYTES]) {
  size_t from_hash = from.rfind('#'), into_hash = into.rfind('#');
  if (from_hash == std::string::npos || into_hash == std::string::npos) {
    std::fputs("toposeat-clproxy: error: --move wants ENDPOINT#INDEX, twice\n", stderr);
    return 2;
  }
  int socket = tps_connect(from.substr(0, from_hash).c_str());
  const char *wrong = socket < 0 ? std::strerror(errno) : tps_greet(socket, key, true);
  if (wrong != nullptr) {
    std::fprintf(stderr, "toposeat-clproxy: error: the proxy at %s does not answer: %s\n",
                 from.c_str(), wrong);
    return 1;
  }
  tps_tune_socket(socket);
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
    return 1;
  }
  tps_cursor in = {body.data(), body.data() + body.size(), false};
  tps_take(&in);
  std::printf("{\"moved\":%lu,\"refused\":[", static_cast<unsigned long>(tps_take(&in)));
  for (const char *comma = ""; in.at < in.end && !in.bad; comma = ",") {
    size_t length = 0;
    const unsigned char *why = tps_take_bytes(&in, &length);
    std::printf("%s%s", comma,
                quoted(std::string(reinterpret_cast<const char *>(why), length)).c_str());
  }
  std::puts("]}");
  return 0;
}

// ---- The old proxy

cl_int on_move(Session &session, In &in, tps_text *) {
  uint64_t from = in.word();
  std::string endpoints = in.text();
  uint64_t into = in.word();
  if (in.is_bad() || session.channel < 0 || session.ticket() == 0)
    return CL_INVALID_OPERATION;
  tps_text words = {};
  tps_put(&words, from);
  tps_put_bytes(&words, endpoints.data(), endpoints.size());
  tps_put(&words, into);
  session.move_ticket = session.ticket();
  bool is_asked = send_packet(session.channel, Word::move, {words.data, words.length});
  std::free(words.data);
  return is_asked ? LATER : CL_INVALID_VALUE;
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

struct Given {
  uint64_t queue, memory;
  bool is_image;
  size_t region[3];
};

// The new proxy's session, as a client without tickets.
class Peer {
public:
  Peer(Session &session, const std::string &endpoints, std::span<const unsigned char> key)
      : session_(session) {
    for (size_t at = 0, end = 0; at < endpoints.size() && socket_ < 0; at = end + 1) {
      end = std::min(endpoints.find(' ', at), endpoints.size());
      socket_ = tps_connect(endpoints.substr(at, end - at).c_str());
    }
    is_good_ = socket_ >= 0 && key.size() == TPS_KEY_BYTES &&
               tps_greet(socket_, key.data(), true) == nullptr;
    if (is_good_)
      tps_tune_socket(socket_);
  }
  Peer(const Peer &) = delete;
  Peer &operator=(const Peer &) = delete;
  ~Peer() {
    if (socket_ >= 0)
      close(socket_);
    std::free(batch_.data);
  }

  bool is_good() const { return is_good_; }

  cl_int give(const Given &given) {
    Object *queue = session_.object(given.queue), *memory = session_.object(given.memory);
    if (queue == nullptr || queue->kind != Kind::command_queue || queue->handle == nullptr)
      return CL_INVALID_COMMAND_QUEUE;
    if (memory == nullptr || memory->kind != Kind::mem_object)
      return CL_INVALID_MEM_OBJECT;
    if (memory->handle == nullptr) // it could not be made, and nothing can be in it
      return 0;
    queue_ = static_cast<cl_command_queue>(queue->handle);
    memory_ = static_cast<cl_mem>(memory->handle);
    cl_int code = given.is_image ? give_image(given) : give_buffer(given);
    real.Finish(queue_); // nothing is read into what is given back
    return code;
  }

  // What is left of the batch.
  bool flush() { return send({}); }

private:
  // The device reads one piece while the one before is on its way.
  cl_int give_buffer(const Given &given) {
    struct Piece {
      Staged staged;
      cl_event event = nullptr;
    } pieces[2];
    size_t size = given.region[0];
    auto start = [&](size_t at) {
      Piece &piece = pieces[at / TPS_CHUNK % 2];
      piece.staged = session_.take_staging(std::min<size_t>(TPS_CHUNK, size - at));
      cl_int code = real.EnqueueReadBuffer(queue_, memory_, 0, at, piece.staged.size(),
                                           piece.staged.data(), 0, nullptr, &piece.event);
      return code == 0 ? real.Flush(queue_) : code;
    };
    cl_int code = start(0);
    for (size_t at = 0; at < size && code == 0; at += TPS_CHUNK) {
      Piece &piece = pieces[at / TPS_CHUNK % 2];
      if (size - at > TPS_CHUNK)
        code = start(at + TPS_CHUNK);
      cl_int read = real.WaitForEvents(1, &piece.event);
      real.ReleaseEvent(piece.event);
      code = code == 0 ? read : code;
      if (code != 0)
        break;
      upload(piece.staged);
      begin(TPS_CALL_EnqueueWriteBuffer);
      for (uint64_t word : {given.queue, given.memory, uint64_t{at}, uint64_t{piece.staged.size()}})
        tps_put(&batch_, word);
      end();
    }
    return code;
  }

  cl_int give_image(const Given &given) {
    size_t element = 0, bytes = 0;
    cl_int code =
        real.GetImageInfo(memory_, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, nullptr);
    bytes = element * given.region[0] * given.region[1] * given.region[2];
    if (code != 0 || bytes == 0 || bytes > session_.most_upload())
      return code != 0 ? code : CL_INVALID_VALUE;
    Staged staged = session_.take_staging(bytes);
    code = real.EnqueueReadImage(queue_, memory_, 1, ZEROS, given.region, 0, 0, staged.data(), 0,
                                 nullptr, nullptr);
    if (code != 0)
      return code;
    upload(staged);
    begin(TPS_CALL_EnqueueWriteImage);
    tps_put(&batch_, given.queue);
    tps_put(&batch_, given.memory);
    tps_put_words(&batch_, ZEROS, 3);
    tps_put_words(&batch_, given.region, 3);
    end();
    return 0;
  }

  void begin(uint32_t call) {
    tps_head head = {0, call, 0};
    head_ = batch_.length;
    std::memcpy(tps_room(&batch_, sizeof head), &head, sizeof head);
  }

  void set_length(size_t raw) {
    auto length = static_cast<uint32_t>(batch_.length - head_ - sizeof(tps_head) + raw);
    std::memcpy(batch_.data + head_, &length, sizeof length);
  }

  void upload(const Staged &staged) {
    upload_++;
    for (size_t at = 0, length = 0; at < staged.size(); at += length) {
      length = std::min<size_t>(staged.size() - at, TPS_CHUNK);
      begin(TPS_UPLOAD);
      for (uint64_t word : {upload_, uint64_t{staged.size()}, uint64_t{at}})
        tps_put(&batch_, word);
      set_length(length);
      send({staged.data() + at, length});
    }
  }

  // The command of the last upload, of which nobody wants to hear.
  void end() {
    for (uint64_t word : {upload_, uint64_t{0}, uint64_t{0}, uint64_t{0}})
      tps_put(&batch_, word);
    set_length(0);
  }

  bool send(std::span<const char> raw) {
    iovec parts[] = {{batch_.data, batch_.length}, {const_cast<char *>(raw.data()), raw.size()}};
    is_good_ = is_good_ && tps_send_all(socket_, parts, raw.empty() ? 1 : 2) == 0;
    batch_.length = 0;
    return is_good_;
  }

  Session &session_;
  int socket_ = -1;
  bool is_good_ = false;
  tps_text batch_ = {};
  size_t head_ = 0;
  uint64_t upload_ = 0;
  cl_command_queue queue_ = nullptr;
  cl_mem memory_ = nullptr;
};

} // namespace

cl_int on_give(Session &session, In &in, tps_text *) {
  std::string endpoints = in.text();
  auto key = in.bytes();
  std::vector<Given> all;
  for (uint64_t left = in.length(); left > 0; left--) {
    Given given = {in.word(), in.word(), in.word() != 0, {}};
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
  return peer.flush() ? 0 : CL_OUT_OF_RESOURCES;
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

} // namespace

cl_int on_accept(Session &session, In &, tps_text *out) {
  Offer offer = std::exchange(session.offer, {});
  int peer = accept_peer(offer);
  for (int door : offer.doors)
    close(door);
  explicit_bzero(offer.key, sizeof offer.key);
  cl_int code = peer < 0 ? CL_DEVICE_NOT_AVAILABLE : session.take_contents(peer);
  if (peer >= 0)
    close(peer);
  out->length = 0; // of what came meanwhile
  return code;
}
