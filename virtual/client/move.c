/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* To a device of another proxy, while the application goes on. What made the objects that live is
   said again there in the order in which it was sent, under the same ids; programs first, since
   they take longest and nothing has to stop for them. Then sending stops, the queues run dry, the
   rest is said, the old proxy gives the new one what memory holds, and the link has another socket.
   Whatever the new proxy refuses ends the move, and all is as it was. */
#include "move.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "log.h"
#include "memory.h"
#include "program.h"
#include "report.h"

struct pending {
  struct pending *next;
  struct tps_reply reply;
  cl_int expected; /* a program that did not build here does not build there */
  uint32_t call;
};

struct move {
  struct tps_link *link, *home; /* the old one, which stays; the new one */
  char *endpoints;
  uint64_t from, to; /* positions in the lists of both proxies */
  cl_device_id device;
  struct pending *pending;
  bool is_first, is_building;
  char wrong[256]; /* why not */
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct move *move, const char *text, ...) {
  va_list arguments;
  va_start(arguments, text);
  if (move->wrong[0] == '\0')
    vsnprintf(move->wrong, sizeof move->wrong, text, arguments);
  va_end(arguments);
  return false;
}

/* ---- Asking the new proxy */

static struct pending *ask(struct move *move, uint32_t call) {
  struct pending *made = calloc(1, sizeof *made);
  if (made == NULL)
    abort();
  made->next = move->pending;
  made->call = call;
  move->pending = made;
  tps__begin(move->home, call, &made->reply);
  return made;
}

static bool is_build(uint32_t call) {
  return call == TPS_CALL_BuildProgram || call == TPS_CALL_CompileProgram ||
         call == TPS_CALL_LinkProgram;
}

static bool needs_builds(uint32_t call) {
  return call == TPS_CALL_LinkProgram || call == TPS_CALL_CreateKernel;
}

static const char *sentence_of(const struct pending *one, cl_int code) {
  bool is_gone = code == CL_INVALID_MEM_OBJECT || code == CL_INVALID_SAMPLER;
  return is_build(one->call) ? "a program does not build there: %d"
         : one->call == TPS_CALL_SetKernelArg && is_gone
             ? "an argument of one of its kernels has been released: %d"
             : "what it has cannot be made there: %d";
}

/* All that was asked is answered as it should be. */
static bool settle(struct move *move) {
  tps__flush(move->home);
  move->is_building = false;
  while (move->pending != NULL) {
    struct pending *one = move->pending;
    move->pending = one->next;
    cl_int code = tps__await_sent(move->home, &one->reply);
    if (atomic_load(&move->home->is_dead))
      refuse(move, "the proxy of the other device ended");
    else if (code != one->expected)
      refuse(move, sentence_of(one, code), code);
    tps__reply_free(&one->reply);
    free(one);
  }
  return move->wrong[0] == '\0';
}

/* Contents come from the old proxy, not from the user, and without an upload. */
static void make_empty(struct tps_entry *entry, uint64_t *words) {
  enum { FLAGS = 2, BUFFER_UPLOAD = 4, IMAGE_UPLOAD = 11 };
  if (entry->call != TPS_CALL_CreateBuffer && entry->call != TPS_CALL_CreateImage)
    return;
  words[FLAGS] &= ~(uint64_t)CL_MEM_COPY_HOST_PTR;
  words[entry->call == TPS_CALL_CreateBuffer ? BUFFER_UPLOAD : IMAGE_UPLOAD] = 0;
}

static void say_entry(struct move *move, struct tps_entry *entry) {
  struct pending *one = ask(move, entry->call);
  void *words = tps_room(&move->home->batch, entry->length);
  memcpy(words, entry->words, entry->length);
  make_empty(entry, words);
  tps__end(move->home);
  if (is_build(entry->call)) {
    one->expected = atomic_load(&((cl_program)entry->object)->built);
    move->is_building = true;
  }
  entry->is_there = true;
}

/* Its command has ended, or it is the user's. */
static void say_event(struct move *move, struct _cl_event *event) {
  cl_int status = atomic_load(&event->status);
  ask(move, TPS_CALL_CreateUserEvent);
  tps_put(&move->home->batch, event->base.id);
  tps_put(&move->home->batch, event->context->base.id);
  tps__end(move->home);
  if (status > 0)
    return;
  ask(move, TPS_CALL_SetUserEventStatus);
  tps_put(&move->home->batch, event->base.id);
  tps_put(&move->home->batch, (uint64_t)(int64_t)status);
  tps__end(move->home);
}

static int by_number(const void *one, const void *other) {
  uint64_t first = (*(struct tps_entry *const *)one)->number;
  uint64_t second = (*(struct tps_entry *const *)other)->number;
  return first < second ? -1 : first > second;
}

/* Says what has not been said yet, in the order in which it was sent; false: what comes next needs
   builds that have not ended. Sending is locked. */
static bool say_objects(struct move *move, bool only_programs) {
  struct tps_text unsaid = {0};
  for (struct tps_object *object = move->link->oldest; object != NULL; object = object->newer) {
    if (only_programs && object->kind != TPS_CONTEXT && object->kind != TPS_PROGRAM)
      continue;
    for (struct tps_entry *entry = object->entries; entry != NULL; entry = entry->next)
      if (!entry->is_there)
        memcpy(tps_room(&unsaid, sizeof(void *)), &entry, sizeof(void *));
  }
  struct tps_entry **list = (void *)unsaid.data;
  size_t count = unsaid.length / sizeof *list, said = 0;
  if (count > 0)
    qsort(list, count, sizeof *list, by_number);
  while (said < count && !(move->is_building && needs_builds(list[said]->call)))
    say_entry(move, list[said++]);
  free(unsaid.data);
  return said == count;
}

/* ---- Before anything stops */

static bool is_same_text(cl_device_id one, cl_device_id other, cl_uint name) {
  char texts[2][256] = {{0}};
  struct tps_answer answers[] = {{sizeof texts[0] - 1, texts[0], NULL},
                                 {sizeof texts[1] - 1, texts[1], NULL}};
  return tps__ask(&one->base, TPS_CALL_GetDeviceInfo, NULL, name, &answers[0]) == 0 &&
         tps__ask(&other->base, TPS_CALL_GetDeviceInfo, NULL, name, &answers[1]) == 0 &&
         strcmp(texts[0], texts[1]) == 0;
}

static bool has_binaries(const struct tps_link *link) {
  for (const struct tps_object *object = link->oldest; object != NULL; object = object->newer)
    for (const struct tps_entry *entry = object->entries; entry != NULL; entry = entry->next)
      if (entry->call == TPS_CALL_CreateProgramWithBinary)
        return true;
  return false;
}

/* A device that the process knows by its old facts must be as it says. */
static bool meet(struct move *move) {
  char *left = NULL;
  for (char *one = strtok_r(move->endpoints, " ", &left); one != NULL && move->home == NULL;
       one = strtok_r(NULL, " ", &left))
    if (strncmp(one, "unix:", 5) != 0 || access(one + 5, W_OK) == 0)
      move->home = tps__connect(one, move->link->channel->hearing);
  if (move->home == NULL || !tps__learn_devices(move->home))
    return refuse(move, "the proxy of the other device does not answer");
  tps__measure(move->home);
  cl_device_id there = move->home->devices;
  while (there != NULL && there->index != move->to)
    there = there->next;
  if (there == NULL)
    return refuse(move, "there is no such device");
  if (!is_same_text(move->device, there, CL_DEVICE_NAME))
    return refuse(move, "the other device has another name");
  tps__lock(move->link);
  bool is_bound = has_binaries(move->link);
  pthread_mutex_unlock(&move->link->sending);
  if (is_bound && !is_same_text(move->device, there, CL_DRIVER_VERSION))
    return refuse(move, "it has a program from a binary, and the other driver is another version");
  ask(move, TPS_ALIAS);
  tps_put(&move->home->batch, move->device->base.id);
  tps_put(&move->home->batch, move->to);
  tps__end(move->home);
  return settle(move);
}

static bool build(struct move *move) {
  for (bool is_all = false; !is_all;) {
    tps__lock(move->link);
    move->link->next_home = move->home; /* which hears of releases from now on */
    is_all = say_objects(move, true);
    pthread_mutex_unlock(&move->link->sending);
    if (!settle(move))
      return false;
  }
  return true;
}

/* ---- While nobody sends */

/* Whether all that was sent has ended and is told, and all questions are answered. A command that
   waits for a user event ends only if the application goes on: then it may. Sending is locked. */
static bool runs_dry(struct move *move) {
  enum { LOOK_NS = 100000000 };
  struct tps_link *link = move->link;
  struct tps_reply dry;
  tps__begin_locked(link, TPS_DRY, &dry);
  tps__end_locked(link);
  tps__send_batch(link);
  bool is_dry = false, may_wait = true;
  pthread_mutex_lock(&link->state);
  while (may_wait && !is_dry && !atomic_load(&link->is_dead)) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    link->waiting++;
    if (link->replies != NULL)
      (void)pthread_cond_timedwait(&link->changed, &link->state, &until);
    link->waiting--;
    is_dry = link->replies == NULL;
    may_wait = atomic_load(&link->user_events) == 0;
  }
  pthread_mutex_unlock(&link->state);
  if (!is_dry)
    pthread_mutex_unlock(&link->sending);
  cl_int code = tps__await_sent(link, &dry);
  tps__reply_free(&dry);
  if (atomic_load(&link->is_dead))
    refuse(move, "its proxy ended");
  else if (code != 0)
    refuse(move, "its queues cannot be waited for: %d", code);
  if (is_dry && move->wrong[0] != '\0')
    pthread_mutex_unlock(&link->sending);
  return is_dry && move->wrong[0] == '\0';
}

/* Locks sending, where nothing is in flight nor half sent. */
static bool stop(struct move *move) {
  struct tps_link *link = move->link;
  while (move->wrong[0] == '\0') {
    tps__lock(link);
    bool is_half_sent = link->uploads != 0;
    if (is_half_sent)
      pthread_mutex_unlock(&link->sending);
    else if (runs_dry(move))
      return true;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return false;
}

static bool is_mapped(struct tps_link *link) {
  bool is_one = false;
  pthread_mutex_lock(&link->state);
  for (struct tps_object *object = link->oldest; object != NULL; object = object->newer)
    is_one = is_one || (object->kind == TPS_MEM_OBJECT && ((cl_mem)object)->maps != NULL);
  pthread_mutex_unlock(&link->state);
  return is_one;
}

static void put_memory(struct tps_text *out, cl_mem memory, uint64_t queue) {
  size_t region[3] = {memory->size, 1, 1};
  bool is_image = memory->type != CL_MEM_OBJECT_BUFFER;
  if (is_image)
    tps__image_extent(memory, region);
  const uint64_t words[] = {queue, memory->base.id, is_image, region[0], region[1], region[2]};
  memcpy(tps_room(out, sizeof words), words, sizeof words);
}

/* A queue of its own for each context, under one id in both proxies. */
static uint64_t new_queue(struct move *move, cl_context context) {
  uint64_t id = tps__new_id(move->link);
  struct tps_text *texts[] = {
      tps__begin_locked(move->link, TPS_CALL_CreateCommandQueue, NULL),
      (ask(move, TPS_CALL_CreateCommandQueue), &move->home->batch),
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tps_put(texts[i], id);
    tps__put_CreateCommandQueue(texts[i], context, context->devices[0], 0);
  }
  tps__end_locked(move->link);
  tps__end(move->home);
  return id;
}

/* What the old proxy gives: the memory that is not part of other memory. */
static void put_memories(struct move *move, struct tps_text *out, struct tps_text *queues) {
  for (struct tps_object *object = move->link->oldest; object != NULL; object = object->newer) {
    if (object->kind != TPS_CONTEXT)
      continue;
    uint64_t queue = 0;
    for (struct tps_object *each = object; each != NULL; each = each->newer) {
      cl_mem memory = each->kind == TPS_MEM_OBJECT ? (cl_mem)each : NULL;
      if (memory == NULL || memory->parent != NULL || memory->context != (cl_context)object)
        continue;
      if (queue == 0) {
        queue = new_queue(move, (cl_context)object);
        tps_put(queues, queue);
      }
      put_memory(out, memory, queue);
    }
  }
}

static bool give(struct move *move, const struct tps_text *memories) {
  enum { WORDS_OF_MEMORY = 6 };
  struct tps_link *link = move->link, *home = move->home;
  struct tps_reply offer, accepted, given;
  tps__begin(home, TPS_OFFER, &offer);
  tps__end(home);
  cl_int code = tps__await(home, &offer);
  size_t length = 0, key_length = 0;
  const unsigned char *endpoints = code == 0 ? tps_take_bytes(&offer.in, &length) : NULL;
  const unsigned char *key = code == 0 ? tps_take_bytes(&offer.in, &key_length) : NULL;
  if (code != 0 || offer.in.bad) {
    tps__reply_free(&offer);
    return refuse(move, "the other proxy takes no contents: %d", code);
  }
  tps__begin(home, TPS_ACCEPT, &accepted);
  tps__end(home);
  tps__flush(home);
  struct tps_text *out = tps__begin_locked(link, TPS_GIVE, &given);
  tps_put_bytes(out, endpoints, length);
  tps_put_bytes(out, key, key_length);
  tps_put(out, memories->length / TPS_WORD / WORDS_OF_MEMORY);
  memcpy(tps_room(out, memories->length), memories->data, memories->length);
  tps__end_locked(link);
  tps__send_batch(link);
  cl_int code_here = tps__await_sent(link, &given), code_there = tps__await_sent(home, &accepted);
  tps__reply_free(&offer);
  tps__reply_free(&given);
  tps__reply_free(&accepted);
  if (code_here != 0 || code_there != 0)
    return refuse(move, "its contents could not be carried over: %d, %d", code_here, code_there);
  return true;
}

static bool carry(struct move *move) {
  struct tps_text memories = {0}, queues = {0};
  put_memories(move, &memories, &queues);
  bool is_good = settle(move) && (memories.length == 0 || give(move, &memories));
  for (size_t at = 0; at < queues.length; at += TPS_WORD) {
    uint64_t queue = 0;
    memcpy(&queue, queues.data + at, sizeof queue);
    ask(move, TPS_CALL_Finish);
    tps_put(&move->home->batch, queue);
    tps__end(move->home);
    tps_put(tps__begin(move->home, TPS_CALL_ReleaseCommandQueue, NULL), queue);
    tps__end(move->home);
    tps_put(tps__begin_locked(move->link, TPS_CALL_ReleaseCommandQueue, NULL), queue);
    tps__end_locked(move->link);
  }
  free(memories.data);
  free(queues.data);
  return settle(move) && is_good;
}

static bool refill(struct move *move) {
  for (bool is_all = false; !is_all;) {
    is_all = say_objects(move, false);
    if (!settle(move))
      return false;
  }
  for (struct tps_object *object = move->link->oldest; object != NULL; object = object->newer)
    if (object->kind == TPS_EVENT)
      say_event(move, (cl_event)object);
  return settle(move);
}

static void say_outcome(struct move *move, enum tps_outcome outcome) {
  struct tps_text *out = tps__begin_locked(move->link, TPS_MOVED, NULL);
  tps_put(out, outcome);
  tps_put_bytes(out, move->wrong, strlen(move->wrong));
  tps__end_locked(move->link);
  tps__send_batch(move->link);
}

static void swap(struct move *move) {
  struct tps_link *link = move->link, *home = move->home;
  struct tps_channel *old = link->channel;
  pthread_mutex_lock(&link->state);
  if (link->moved_from == NULL &&
      asprintf(&link->moved_from, "%s#%u", link->endpoint, move->device->index) < 0)
    link->moved_from = NULL;
  char *names[] = {link->endpoint, link->host};
  link->endpoint = home->endpoint;
  link->host = home->host;
  link->channel = home->channel;
  link->round_trip_s = home->round_trip_s;
  link->rate_to = home->rate_to;
  link->rate_from = home->rate_from;
  link->next_home = NULL;
  move->device->index = (unsigned)move->to;
  atomic_store(&old->link, NULL);
  atomic_store_explicit(&home->channel->link, link, memory_order_release);
  pthread_mutex_unlock(&link->state);
  tps__channel_close(old);
  free(names[0]);
  free(names[1]);
}

/* ---- From its beginning to its end */

static void forget_home(struct move *move) {
  tps__lock(move->link);
  move->link->next_home = NULL;
  for (struct tps_object *object = move->link->oldest; object != NULL; object = object->newer)
    for (struct tps_entry *entry = object->entries; entry != NULL; entry = entry->next)
      entry->is_there = false;
  pthread_mutex_unlock(&move->link->sending);
}

/* Whether it moved; sending is locked as it was before. */
static bool go(struct move *move) {
  struct tps_link *link = move->link;
  cl_device_id *devices = NULL;
  unsigned own = 0;
  for (cl_uint i = tps__known_devices(&devices); i-- > 0;)
    own += devices[i]->base.link == link;
  if (own > 1)
    return refuse(move, "it uses several devices of that proxy, which may share contexts");
  if (atomic_load(&link->sub_devices) > 0)
    return refuse(move, "it uses parts of the device");
  if (!meet(move) || !build(move) || !stop(move))
    return false;
  bool is_good = !is_mapped(link) || refuse(move, "it has mapped memory");
  is_good = is_good && refill(move) && carry(move);
  if (is_good) {
    say_outcome(move, TPS_IS_MOVED);
    swap(move);
  }
  pthread_mutex_unlock(&link->sending);
  return is_good;
}

/* What the new proxy made of it goes with its process. */
static void leave(struct tps_link *home) {
  tps__channel_close(home->channel);
  free(home->batch.data);
  free(home->endpoint);
  free(home->host);
  free(home);
}

static cl_device_id borrowed(const struct tps_link *link, uint64_t index) {
  cl_device_id *devices = NULL;
  for (cl_uint i = tps__known_devices(&devices); i-- > 0;)
    if (devices[i]->base.link == link && devices[i]->index == index)
      return devices[i];
  return NULL;
}

static void *run(void *argument) {
  struct move *move = argument;
  struct tps_link *link = move->link;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  enum tps_outcome outcome = TPS_IS_ELSEWHERE;
  move->device = borrowed(link, move->from);
  if (move->device != NULL && !move->is_first) {
    refuse(move, "it is moving already");
    outcome = TPS_IS_REFUSED;
  } else if (move->device != NULL) {
    outcome = go(move) ? TPS_IS_MOVED : TPS_IS_REFUSED;
    forget_home(move);
  }
  if (outcome != TPS_IS_MOVED) {
    tps__lock(link);
    say_outcome(move, outcome);
    pthread_mutex_unlock(&link->sending);
    if (move->home != NULL)
      leave(move->home);
  }
  free(move->endpoints);
  free(move);
  atomic_fetch_sub(&link->movers, 1);
  return NULL;
}

void tps__move(struct tps_link *link, struct tps_cursor *in) {
  struct move *move = calloc(1, sizeof *move);
  if (move == NULL)
    abort();
  size_t length = 0;
  move->link = link;
  move->from = tps_take(in);
  const unsigned char *endpoints = tps_take_bytes(in, &length);
  move->endpoints = strndup((const char *)endpoints, length);
  move->to = tps_take(in);
  move->is_first = atomic_fetch_add(&link->movers, 1) == 0;
  pthread_t thread;
  if (!in->bad && pthread_create(&thread, NULL, run, move) == 0) {
    pthread_detach(thread);
    return;
  }
  atomic_fetch_sub(&link->movers, 1);
  free(move->endpoints);
  free(move);
}
