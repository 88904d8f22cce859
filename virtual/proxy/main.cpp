// SPDX-License-Identifier: MIT OR Apache-2.0
// toposeat-clproxy: lends this node's OpenCL devices to the clients that hold the key. The parent
// never touches OpenCL: drivers do not survive a fork, so each client has a process from before the
// first call of the driver.
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <glob.h>
#include <netdb.h>
#include <poll.h>
#include <set>
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

constexpr size_t MOST_STRANGERS = 32; // who have not greeted yet
constexpr unsigned GREETING_S = 5;

struct Options {
  std::string address; // of the network to serve, empty: this node only
  long idle_s = 0;     // without a client, 0: for ever
};

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string head_of_line() {
  return "{\"toposeat_clproxy\":1,\"version\":" + quoted(TOPOSEAT_VERSION) +
         ",\"host\":" + quoted(host_name());
}

// For the person, and for `toposeat lend`, which reads the line.
[[noreturn]] void refuse(const std::string &error, const std::string &hint, int status) {
  std::fprintf(stderr, "toposeat-clproxy: error: %s\nhint: %s\n", error.c_str(), hint.c_str());
  std::printf("%s,\"error\":%s,\"hint\":%s}\n", head_of_line().c_str(), quoted(error).c_str(),
              quoted(hint).c_str());
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
    } else if (word == "--idle" && has_value) {
      char *end = nullptr;
      options.idle_s = std::strtol(argv[++i], &end, 10);
      if (*end != '\0' || options.idle_s < 0)
        refuse("--idle wants seconds, not " + quoted(argv[i]), "for ever: 0", 2);
    } else {
      refuse("unknown word " + quoted(word),
             "toposeat-clproxy [--address ADDRESS] [--idle SECONDS]", 2);
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

// This node's own address on the way to `there`; nothing is sent for it. 0: there is no way.
socklen_t own_address(const std::string &there, sockaddr_storage &own) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(there.c_str(), "9", &hints, &found) != 0)
    return 0;
  int handle = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  socklen_t length = sizeof own;
  if (handle < 0 || connect(handle, found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(handle, reinterpret_cast<sockaddr *>(&own), &length) != 0)
    length = 0;
  freeaddrinfo(found);
  if (handle >= 0)
    close(handle);
  return length;
}

// "ADDRESS:PORT" in `told`: `there` is of the network that is served, on this node or another.
int listen_tcp(const std::string &there, std::string &told) {
  sockaddr_storage own = {};
  socklen_t length = own_address(there, own);
  auto *address = reinterpret_cast<sockaddr *>(&own);
  if (length == 0)
    return -1;
  (own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 *>(&own)->sin6_port
                             : reinterpret_cast<sockaddr_in *>(&own)->sin_port) = 0;
  int handle = socket(own.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  if (handle < 0 || bind(handle, address, length) != 0 || listen(handle, SOMAXCONN) != 0 ||
      getsockname(handle, address, &length) != 0 ||
      getnameinfo(address, length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return -1;
  told = (own.ss_family == AF_INET6 ? "[" + std::string(host) + "]" : host) + ":" + port;
  return handle;
}

// ---- Clients

[[noreturn]] void serve(int client, bool is_unix, const unsigned char *key, pid_t parent,
                        int greeted) {
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
    std::fprintf(stderr, "toposeat-clproxy: %s: %s\n", host_name().c_str(), cannot.c_str());
    _exit(1);
  }
  pid_t self = getpid();
  if (write(greeted, &self, sizeof self) != sizeof self)
    _exit(1);
  close(greeted);
  _exit(Session(client).run());
}

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
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0)
      refuse(std::strerror(errno), "is there room for one more pipe?", 1);
    doors_[GREETED] = {ends[0], POLLIN, 0};
    greeted_ = ends[1];
  }

  void run() {
    while (!is_over_) {
      poll(doors_, DOORS, LOOK_MS);
      auto now = std::chrono::steady_clock::now();
      if (!clients_.empty())
        since_ = now;
      bool is_idle = options_.idle_s > 0 && now - since_ >= std::chrono::seconds(options_.idle_s);
      if (is_idle || getppid() != parent_) // or the launcher was killed
        break;
      if (doors_[SIGNALS].revents != 0)
        take_signals();
      if (doors_[STDIN].revents != 0)
        take_input();
      if (doors_[GREETED].revents != 0)
        take_greeting();
      for (int door : {UNIX, TCP})
        if (doors_[door].revents != 0)
          take_client(door);
    }
    for (pid_t client : clients_)
      kill(client, SIGTERM);
  }

private:
  enum { SIGNALS, STDIN, UNIX, TCP, GREETED, DOORS };

  void take_signals() {
    signalfd_siginfo told;
    while (read(doors_[SIGNALS].fd, &told, sizeof told) == sizeof told)
      is_over_ = is_over_ || told.ssi_signo != SIGCHLD;
    for (pid_t ended = 1; ended > 0;) {
      ended = waitpid(-1, nullptr, WNOHANG);
      clients_.erase(ended);
      std::erase(strangers_, ended);
    }
  }

  void take_greeting() {
    pid_t client = 0;
    if (read(doors_[GREETED].fd, &client, sizeof client) == sizeof client)
      std::erase(strangers_, client);
  }

  void take_input() {
    char nothing[256];
    is_over_ = is_over_ || read(STDIN_FILENO, nothing, sizeof nothing) <= 0;
  }

  void take_client(int door) {
    int client = accept4(doors_[door].fd, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0)
      return;
    if (strangers_.size() >= MOST_STRANGERS) { // the oldest of them has had its time
      kill(strangers_.front(), SIGKILL);
      strangers_.pop_front();
    }
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
      for (const pollfd &other : doors_)
        if (other.fd > STDERR_FILENO)
          close(other.fd);
      serve(client, door == UNIX, key_, parent, greeted_);
    }
    if (child > 0) {
      clients_.insert(child);
      strangers_.push_back(child);
    }
    close(client);
  }

  static constexpr int LOOK_MS = 1000;
  Options options_;
  pid_t parent_ = getppid();
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  const unsigned char *key_;
  pollfd doors_[DOORS];
  int greeted_ = -1;
  std::set<pid_t> clients_;
  std::deque<pid_t> strangers_;
  bool is_over_ = false;
};

} // namespace

int main(int argc, char **argv) {
  Options options = parse(argc, argv);
  unsigned char key[TPS_KEY_BYTES] = {};
  bool is_input_watched = read_key(key);
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
              getpid(), quoted(folder.socket()).c_str(), tcp.empty() ? "null" : quoted(tcp).c_str(),
              devices.c_str() + 1);
  std::fflush(stdout);
  parent.run();
  folder.remove();
  return 0;
}
