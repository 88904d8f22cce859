// SPDX-License-Identifier: MIT OR Apache-2.0
#include <arpa/inet.h>
#include <cstdio>
#include <netdb.h>
#include <sys/un.h>
#include <unistd.h>

#include "proxy.hpp"

namespace {

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

} // namespace

int listen_tcp(const std::string &there, std::string &told) {
  sockaddr_storage own = {};
  socklen_t length = own_address(there, own);
  return length == 0 ? -1 : listen_at(own, length, told);
}

int listen_at(sockaddr_storage own, socklen_t length, std::string &told) {
  auto *address = reinterpret_cast<sockaddr *>(&own);
  (own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 *>(&own)->sin6_port
                             : reinterpret_cast<sockaddr_in *>(&own)->sin_port) = 0;
  int handle = socket(own.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  if (handle < 0 || bind(handle, address, length) != 0 || listen(handle, SOMAXCONN) != 0 ||
      getsockname(handle, address, &length) != 0 ||
      getnameinfo(address, length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return -1;
  char both[NI_MAXHOST + NI_MAXSERV + 4];
  std::snprintf(both, sizeof both, own.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
  told = both;
  return handle;
}

int listen_without_file(std::string &told) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof address;
  int handle = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto *any = reinterpret_cast<sockaddr *>(&address);
  if (handle < 0 || bind(handle, any, sizeof address.sun_family) != 0 || listen(handle, 1) != 0 ||
      getsockname(handle, any, &length) != 0)
    return -1;
  told.assign(address.sun_path, length - offsetof(sockaddr_un, sun_path));
  told[0] = '@';
  return handle;
}
