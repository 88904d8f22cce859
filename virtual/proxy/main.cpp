// SPDX-License-Identifier: MIT OR Apache-2.0
// toposeat-clproxy: lends this node's OpenCL devices to the clients that hold the key. The parent
// never touches OpenCL: drivers do not survive a fork, so each client has a process from before the
// first call of the driver.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <glob.h>
#include <new>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy.hpp"

extern "C" {
#include "trust.h"
}

namespace {

constexpr long MOST_STRANGERS = 32; // who have not greeted yet
constexpr unsigned GREETING_S = 5;
constexpr uint64_t SAID = 100; // refusals, then one of as many

struct Options {
  std::string address;    // of the network to serve, empty: this node only
  long idle_s = 0;        // without a client, 0: for ever
  std::string from, into; // a device whose clients are to move, and where to
};

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string head_of_line() {
  return "{\"toposeat_clproxy\":1,\"version\":" + json_text(TOPOSEAT_VERSION) +
         ",\"host\":" + json_text(host_name());
}

// For the person, and for `toposeat lend`, which reads the line.
[[noreturn]] void refuse(const std::string &error, const std::string &hint, int status) {
  std::fprintf(stderr, "toposeat-clproxy: error: %s\nhint: %s\n", error.c_str(), hint.c_str());
  std::printf("%s,\"error\":%s,\"hint\":%s}\n", head_of_line().c_str(), json_text(error).c_str(),
              json_text(hint).c_str());
  std::exit(status);
}

Options parse(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    std::string word = argv[i];
    bool has_value = i + 1 < argc;
    if (word == "--version") {
      std::puts("toposeat-clproxy " TOPOSEAT_VERSION);
      std::exit(0);
    }
    if (word == "--address" && has_value) {
      options.address = argv[++i];
    } else if (word == "--move" && i + 2 < argc) {
      options.from = argv[++i];
      options.into = argv[++i];
    } else if (word == "--idle" && has_value) {
      char *end = nullptr;
      options.idle_s = std::strtol(argv[++i], &end, 10);
      if (*end != '\0' || options.idle_s < 0)
        refuse("--idle wants seconds, not " + json_text(argv[i]), "for ever: 0", 2);
    } else {
      refuse("unknown word " + json_text(word),
             "toposeat-clproxy [--address ADDRESS] [--idle SECONDS] [--move FROM INTO]", 2);
    }
  }
  return options;
}

// Of the environment or else the first line of standard input, which then tells by its end that
// this process is to end, too. Nobody finds the key later.
bool read_key(unsigned char key[TPS_KEY_BYTES]) {
  char line[2 * TPS_KEY_BYTES + 2] = "";
  char *text = getenv("TOPOSEAT_CL_KEY");
  bool is_input = text == nullptr;
  if (is_input) {
    size_t length = 0;
    while (length + 1 < sizeof line && read(STDIN_FILENO, line + length, 1) == 1 &&
           line[length] != '\n')
      length++;
    line[length] = '\0';
    text = line;
  }
  bool is_key = tps_read_key(text, key);
  explicit_bzero(text, std::strlen(text));
  unsetenv("TOPOSEAT_CL_KEY");
  if (!is_key)
    refuse("no key", "`toposeat lend` gives it: 64 hex digits in TOPOSEAT_CL_KEY", 2);
  return is_input;
}

// A launcher may leave signals blocked or ignored; a compiler's child cannot be waited for then.
void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  for (int number = 1; number < NSIG; number++)
    std::signal(number, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// ---- Which devices there are is for a process of its own to find out.

[[noreturn]] void tell_devices(int pipe_end) {
  std::string wrong = load_real(), text;
  if (wrong.empty() && list_devices().empty())
    wrong = "no device of any platform";
  text = wrong.empty() ? "+" + devices_as_json() : "-" + wrong;
  for (size_t at = 0; at < text.size();) {
    ssize_t written = write(pipe_end, text.data() + at, text.size() - at);
    if (written <= 0)
      break;
    at += static_cast<size_t>(written);
  }
  _exit(0);
}

std::string ask_devices() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    refuse(std::strerror(errno), "is there room for one more pipe?", 1);
  pid_t child = fork();
  if (child == 0) {
    reset_signals();
    tell_devices(ends[1]);
  }
  close(ends[1]);
  std::string text;
  char piece[4096];
  for (ssize_t got = 1; got > 0;) {
    got = read(ends[0], piece, sizeof piece);
    if (got > 0)
      text.append(piece, static_cast<size_t>(got));
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text.empty() ? "-the driver ended while it listed its devices" : text;
}

// ---- Listening

bool is_refused(const std::string &path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  int handle =
      path.size() < sizeof address.sun_path ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  if (handle < 0)
    return false;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  bool refused = connect(handle, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 &&
                 errno == ECONNREFUSED;
  close(handle);
  return refused;
}

class Folder { // of this user only, with the socket in it
public:
  Folder() {
    const char *base = getenv("XDG_RUNTIME_DIR");
    if (base == nullptr || !tps_is_safe_place(base))
      base = "/tmp";
    sweep(base);
    path_ = std::string(base) + "/toposeat-cl-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr)
      refuse("no folder for a socket in " + std::string(base) + ": " + std::strerror(errno),
             "XDG_RUNTIME_DIR names another place", 1);
  }
  std::string socket() const { return path_ + "/socket"; }
  void remove() const {
    unlink(socket().c_str());
    rmdir(path_.c_str());
  }

private:
  // What a proxy that was killed left behind: nobody answers there.
  static void sweep(const std::string &base) {
    glob_t found = {};
    if (glob((base + "/toposeat-cl-*").c_str(), GLOB_NOSORT, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; i++) {
        int folder = tps_own_folder(found.gl_pathv[i]);
        std::string path = std::string(found.gl_pathv[i]) + "/socket";
        if (folder >= 0 && is_refused(path)) {
          unlinkat(folder, "socket", 0);
          rmdir(found.gl_pathv[i]);
        }
        if (folder >= 0)
          close(folder);
      }
    globfree(&found);
  }

  std::string path_;
};

int listen_unix(const Folder &folder) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::string path = folder.socket() + "-new"; // until it answers: see Folder::sweep
  int handle = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (path.size() < sizeof address.sun_path)
    std::memcpy(address.sun_path, path.c_str(), path.size());
  if (handle < 0 || bind(handle, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 ||
      listen(handle, SOMAXCONN) != 0 || rename(path.c_str(), folder.socket().c_str()) != 0) {
    folder.remove();
    refuse("no socket in " + path + ": " + std::strerror(errno),
           "XDG_RUNTIME_DIR names another place", 1);
  }
  return handle;
}

// ---- Clients

[[noreturn]] void serve(int client, bool is_unix, const unsigned char *key, pid_t parent,
                        int channel, const sockaddr_storage &network, Ledger *ledger, size_t row) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  reset_signals();
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  if (is_unix && !tps_peer_is_mine(client))
    _exit(1);
  tps_tune_socket(client);
  alarm(GREETING_S);
  if (char nothing = 0; recv(client, &nothing, 1, MSG_PEEK) <= 0)
    _exit(1); // it only looked whether somebody answers
  const char *wrong = tps_greet(client, key, false);
  alarm(0);
  explicit_bzero(const_cast<unsigned char *>(key), TPS_KEY_BYTES);
  std::string cannot =
      wrong != nullptr ? "a client is refused: " + std::string(wrong) : load_real();
  if (!cannot.empty()) {
    uint64_t before = ledger == nullptr ? 0 : ledger->refused++;
    if (before < SAID || before % SAID == 0)
      std::fprintf(stderr, "toposeat-clproxy: %s: %s%s\n", host_name().c_str(), cannot.c_str(),
                   before == SAID - 1 ? "; from here on one of many is said" : "");
    _exit(1);
  }
  if (!send_packet(channel, Word::greeted, {}))
    _exit(1);
  Session session(client, channel, network);
  session.ledger = ledger;
  session.row = row;
  _exit(session.run());
}

struct Client {
  pid_t pid;
  int channel;
  bool has_greeted, is_asked; // asked to move
  size_t row;                 // of the ledger
};

class Parent {
public:
  Parent(const Options &options, const unsigned char *key, int unix_socket, int tcp_socket,
         bool is_input_watched)
      : options_(options), key_(key) {
    sigset_t handled;
    sigemptyset(&handled);
    for (int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD})
      sigaddset(&handled, number);
    sigprocmask(SIG_BLOCK, &handled, nullptr);
    doors_[SIGNALS] = {signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK), POLLIN, 0};
    doors_[STDIN] = {is_input_watched ? STDIN_FILENO : -1, POLLIN, 0};
    doors_[UNIX] = {unix_socket, POLLIN, 0};
    doors_[TCP] = {tcp_socket, POLLIN, 0};
    void *shared =
        mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ledger_ = shared == MAP_FAILED ? nullptr : new (shared) Ledger{};
    socklen_t length = sizeof network_;
    if (tcp_socket >= 0)
      getsockname(tcp_socket, reinterpret_cast<sockaddr *>(&network_), &length);
  }

  void run() {
    while (!is_over_) {
      auto watched = doors_;
      for (const Client &client : clients_)
        watched.push_back({client.channel, POLLIN, 0});
      poll(watched.data(), watched.size(), LOOK_MS);
      auto now = std::chrono::steady_clock::now();
      if (!clients_.empty())
        since_ = now;
      bool is_idle = options_.idle_s > 0 && now - since_ >= std::chrono::seconds(options_.idle_s);
      if (is_idle || getppid() != parent_) // or the launcher was killed
        break;
      for (size_t i = DOORS; i < watched.size(); i++)
        if (watched[i].revents != 0)
          hear(watched[i].fd);
      if (watched[SIGNALS].revents != 0)
        take_signals();
      if (watched[STDIN].revents != 0)
        take_input();
      for (int door : {UNIX, TCP})
        if (watched[static_cast<size_t>(door)].revents != 0)
          take_client(door);
    }
    end_clients();
  }

private:
  enum { SIGNALS, STDIN, UNIX, TCP, DOORS };

  // Who waits for this process finds its devices free; a driver that hangs is not waited for.
  void end_clients() const {
    for (const Client &client : clients_)
      kill(client.pid, SIGTERM);
    pid_t ended = 0;
    for (int looks = 0; looks < MOST_LOOKS && ended >= 0; looks++) {
      do
        ended = waitpid(-1, nullptr, WNOHANG);
      while (ended > 0);
      if (ended == 0)
        poll(nullptr, 0, LOOK_MS / MOST_LOOKS);
    }
  }

  void take_signals() {
    signalfd_siginfo told;
    while (read(doors_[SIGNALS].fd, &told, sizeof told) == sizeof told)
      is_over_ = is_over_ || told.ssi_signo != SIGCHLD;
    for (pid_t ended = 1; ended > 0;) {
      ended = waitpid(-1, nullptr, WNOHANG);
      std::erase_if(clients_, [&](const Client &client) {
        if (client.pid != ended)
          return false;
        if (client.channel == asker_)
          asker_ = -1; // its number may be another client's next
        close(client.channel);
        if (ledger_ != nullptr && client.row < MOST_ROWS)
          for (auto &bytes : ledger_->bytes[client.row])
            bytes = 0;
        return true;
      });
    }
    answer_if_all_have(); // who has ended needs not move
  }

  void hear(int channel) {
    unsigned char packet[LONGEST_PACKET];
    ssize_t got = recv(channel, packet, sizeof packet, MSG_DONTWAIT);
    auto client = std::ranges::find(clients_, channel, &Client::channel);
    if (got <= 0 || client == clients_.end())
      return; // it has ended, as its signal will say
    std::span<const unsigned char> body(packet + 1, static_cast<size_t>(got) - 1);
    switch (static_cast<Word>(packet[0])) {
    case Word::greeted:
      client->has_greeted = true;
      break;
    case Word::move:
      ask_all(channel, body);
      break;
    default:
      client->is_asked = false;
      note(body);
      answer_if_all_have();
    }
  }

  void ask_all(int asker, std::span<const unsigned char> body) {
    if (asker_ >= 0) {
      tps_text busy = {};
      tps_put(&busy, 0);
      constexpr std::string_view why = "other clients are being moved";
      tps_put_bytes(&busy, why.data(), why.size());
      send_packet(asker, Word::answer, {busy.data, busy.length});
      std::free(busy.data);
      return;
    }
    asker_ = asker;
    moved_ = 0;
    refusals_.clear();
    for (Client &client : clients_)
      client.is_asked = client.has_greeted && client.channel != asker &&
                        send_packet(client.channel, Word::move, body);
    answer_if_all_have();
  }

  void note(std::span<const unsigned char> body) {
    tps_cursor in = {body.data(), body.data() + body.size(), false};
    uint64_t outcome = tps_take(&in);
    size_t length = 0;
    const unsigned char *why = tps_take_bytes(&in, &length);
    moved_ += outcome == TPS_IS_MOVED;
    if (outcome == TPS_IS_REFUSED)
      refusals_.emplace_back(reinterpret_cast<const char *>(why), length);
  }

  void answer_if_all_have() {
    if (asker_ < 0 || std::ranges::any_of(clients_, &Client::is_asked))
      return;
    tps_text text = {};
    tps_put(&text, moved_);
    for (const std::string &why : refusals_)
      if (text.length + why.size() + size_t{2} * TPS_WORD < LONGEST_PACKET)
        tps_put_bytes(&text, why.data(), why.size());
    send_packet(asker_, Word::answer, {text.data, text.length});
    std::free(text.data);
    asker_ = -1;
  }

  void take_input() {
    char nothing[256];
    is_over_ = is_over_ || read(STDIN_FILENO, nothing, sizeof nothing) <= 0;
  }

  void take_client(int door) {
    int client = accept4(doors_[static_cast<size_t>(door)].fd, nullptr, nullptr, SOCK_CLOEXEC);
    int ends[2] = {-1, -1};
    if (client < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      close(client);
      return;
    }
    make_room();
    size_t row = 0;
    while (std::ranges::find(clients_, row, &Client::row) != clients_.end())
      row++;
    Ledger *ledger = row < MOST_ROWS ? ledger_ : nullptr;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
      for (const pollfd &other : doors_)
        if (other.fd > STDERR_FILENO)
          close(other.fd);
      for (const Client &other : clients_)
        close(other.channel);
      close(ends[0]);
      serve(client, door == UNIX, key_, parent, ends[1], network_, ledger, row);
    }
    close(ends[1]);
    if (child > 0)
      clients_.push_back({child, ends[0], false, false, row});
    else
      close(ends[0]);
    close(client);
  }

  // Of too many strangers the oldest has had its time.
  void make_room() {
    auto is_stranger = [](const Client &client) { return !client.has_greeted; };
    auto oldest = std::ranges::find_if(clients_, is_stranger);
    if (std::ranges::count_if(clients_, is_stranger) < MOST_STRANGERS)
      return;
    kill(oldest->pid, SIGKILL);
    oldest->has_greeted = true; // it is none any more
  }

  static constexpr int LOOK_MS = 1000, MOST_LOOKS = 100;
  Options options_;
  pid_t parent_ = getppid();
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  const unsigned char *key_;
  sockaddr_storage network_ = {};
  std::vector<pollfd> doors_ = std::vector<pollfd>(DOORS);
  std::vector<Client> clients_; // the oldest first
  int asker_ = -1;              // the channel of who asked for a move
  uint64_t moved_ = 0;
  std::vector<std::string> refusals_;
  bool is_over_ = false;
  Ledger *ledger_ = nullptr; // NULL: it is not known who holds what
};

} // namespace

int main(int argc, char **argv) {
  Options options = parse(argc, argv);
  unsigned char key[TPS_KEY_BYTES] = {};
  bool is_input_watched = read_key(key);
  if (!options.from.empty())
    return ask_to_move(options.from, options.into, key);
  reset_signals();
  unsetenv("TOPOSEAT_CL_DEVICES"); // what is borrowed here is not lent on
  std::string devices = ask_devices();
  if (devices[0] != '+')
    refuse("no OpenCL on this node: " + devices.substr(1),
           "`clinfo -l` there lists what OpenCL finds: the driver's package brings an .icd file",
           1);
  std::string tcp;
  int tcp_socket = options.address.empty() ? -1 : listen_tcp(options.address, tcp);
  if (!options.address.empty() && tcp_socket < 0)
    refuse("cannot listen on " + options.address + ": " + std::strerror(errno),
           "--address wants an address of the network to serve, as `ip route get` takes it", 1);
  Folder folder;
  Parent parent(options, key, listen_unix(folder), tcp_socket, is_input_watched);
  std::printf("%s,\"pid\":%d,\"unix\":%s,\"tcp\":%s,\"devices\":[%s]}\n", head_of_line().c_str(),
              getpid(), json_text(folder.socket()).c_str(),
              tcp.empty() ? "null" : json_text(tcp).c_str(), devices.c_str() + 1);
  std::fflush(stdout);
  parent.run();
  folder.remove();
  return 0;
}
