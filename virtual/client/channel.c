/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "channel.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void set_bell(const struct tps_channel *channel, bool rings) {
  struct epoll_event event = {.events = rings ? EPOLLIN : 0};
  (void)epoll_ctl(channel->bell, EPOLL_CTL_MOD, channel->socket, &event);
}

/* All that has begun to arrive is taken, since no bell rings for it. */
static bool has_begun(const struct tps_channel *channel) {
  return channel->in.at < channel->in.filled;
}

void tps__read(struct tps_channel *channel, bool (*is_awaited)(const void *), const void *what) {
  if (!is_awaited(what) || pthread_mutex_trylock(&channel->reading) != 0)
    return;
  if (!channel->is_closed) {
    bool is_good = true;
    set_bell(channel, false);
    while (is_good && (is_awaited(what) || has_begun(channel)))
      is_good = channel->hearing->take_message(channel);
    set_bell(channel, true);
    if (!is_good)
      shutdown(channel->socket, SHUT_RDWR); /* the receiver tells everybody */
  }
  pthread_mutex_unlock(&channel->reading);
}

static void *receive(void *argument) {
  struct tps_channel *channel = argument;
  sigset_t all;
  sigfillset(&all); /* signals are the application's */
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  for (bool is_good = true; is_good;) {
    struct epoll_event event;
    char one;
    (void)epoll_wait(channel->bell, &event, 1, -1);
    pthread_mutex_lock(&channel->reading);
    /* Who waited may have taken what rang. */
    bool is_more = has_begun(channel) ||
                   recv(channel->socket, &one, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
    while (is_good && is_more) {
      is_good = channel->hearing->take_message(channel);
      is_more = has_begun(channel);
    }
    pthread_mutex_unlock(&channel->reading);
  }
  shutdown(channel->socket, SHUT_RDWR);
  struct tps_link *link = atomic_load(&channel->link);
  if (link != NULL)
    channel->hearing->link_died(link);
  return NULL;
}

struct tps_channel *tps__channel_new(struct tps_link *link, int socket,
                                     const struct tps_hearing *hearing) {
  struct tps_channel *channel = calloc(1, sizeof *channel);
  if (channel == NULL)
    return NULL;
  *channel = (struct tps_channel){.socket = socket,
                                  .bell = epoll_create1(EPOLL_CLOEXEC),
                                  .in = {.socket = socket},
                                  .hearing = hearing,
                                  .reading = PTHREAD_MUTEX_INITIALIZER,
                                  .link = link};
  struct epoll_event event = {.events = EPOLLIN};
  if (channel->bell >= 0 && epoll_ctl(channel->bell, EPOLL_CTL_ADD, socket, &event) == 0 &&
      pthread_create(&channel->receiver, NULL, receive, channel) == 0)
    return channel;
  if (channel->bell >= 0)
    close(channel->bell);
  free(channel);
  return NULL;
}

/* What it is stays: a thread that waits no more may look at it still. */
void tps__channel_close(struct tps_channel *channel) {
  shutdown(channel->socket, SHUT_RDWR);
  pthread_join(channel->receiver, NULL);
  pthread_mutex_lock(&channel->reading);
  channel->is_closed = true;
  close(channel->bell);
  close(channel->socket);
  free(channel->in.data);
  pthread_mutex_unlock(&channel->reading);
}
