/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "meeting.h"

#include "meeting_point.h"
#include "placement.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Frames between the ranks of a node, beside those of home.h. */
enum local_kind {
  PRESENT = 64, /* member: "RANK LOCAL_RANK" */
  ADDRESS,      /* leader: words for home; none if it was not reached */
  NEIGHBOURS,   /* leader: lines as in PRESENT; number 1: complete */
};

enum {
  GATHER_MS = 10000,
  JOIN_MS = 12000,    /* a leader that has heard home and its guests tells its members */
  DECIDE_MS = 300000, /* the slowest start of a large job; home decides long before */
  LOCAL_MS = 5000,    /* a frame that has begun, between processes of one node */
  MAX_GUESTS = 65536,
  MAX_LOCAL_BYTES = 1 << 20,
  MAX_SEATS_BYTES = 256 << 20, /* as placement.c */
};

struct tps_guest {
  int peer; /* -1: it has ended */
  struct tps_neighbour who;
  bool present, heard;
};

/* ---- frames ---- */

/* Reads the bytes of a frame whose header is `frame`, with a zero behind them. */
static bool receive_text(int peer, const struct tps_frame *frame, size_t limit,
                         struct tps_text *text, long deadline_ms) {
  if (frame->length > limit)
    return false;
  size_t length = (size_t)frame->length;
  free(text->data);
  *text = (struct tps_text){
      .data = tps_allocate(length + 1, 1), .length = length, .capacity = length + 1};
  text->data[length] = '\0';
  return tps_receive_bytes(peer, text->data, length, deadline_ms);
}

static bool receive(int peer, uint32_t kind, size_t limit, struct tps_frame *frame,
                    struct tps_text *text, long deadline_ms) {
  return tps_receive_header(peer, frame, deadline_ms) && frame->kind == kind &&
         receive_text(peer, frame, limit, text, deadline_ms);
}

static bool send_text(int peer, uint32_t kind, uint32_t number, const char *text) {
  return tps_send_frame(peer, kind, number, text, strlen(text), tps_now_ms() + LOCAL_MS);
}

static void add_neighbour(struct tps_meeting *meeting, struct tps_neighbour one) {
  size_t count = meeting->neighbour_count++;
  meeting->neighbours = tps_grow(meeting->neighbours, count, sizeof one);
  meeting->neighbours[count] = one;
}

/* "RANK LOCAL_RANK"; the rest of the line's end. */
static bool read_neighbour(const char *text, struct tps_neighbour *one, char **rest) {
  char *end;
  one->rank = strtol(text, &end, 10);
  if (end == text || *end != ' ')
    return false;
  one->local_rank = strtol(end + 1, rest, 10);
  return *rest != end + 1;
}

/* ---- the leader ---- */

static void close_home(struct tps_meeting *meeting) {
  if (meeting->home >= 0)
    close(meeting->home);
  meeting->home = -1;
  meeting->at_home = false;
}

static bool read_own_file(struct tps_text *text, const char *path) {
  char error[512];
  size_t length = 0;
  char *data = tps_placement_text(path, &length, error, sizeof error);
  if (data == NULL)
    return false;
  free(text->data);
  *text = (struct tps_text){.data = data, .length = length, .capacity = length + 1};
  return true;
}

static void ask_home(struct tps_meeting *meeting, const char *home, const char *placement_path,
                     const struct tps_identity *identity) {
  char address[512], names[600];
  long deadline_ms = tps_now_ms() + tps_home_patience_ms(home);
  struct tps_frame frame;
  int length = snprintf(names, sizeof names, "%s\n%.255s", identity->host,
                        identity->node == NULL ? identity->host : identity->node);
  meeting->home = tps_home_connect(home, address, sizeof address, deadline_ms);
  meeting->at_home =
      meeting->home >= 0 &&
      tps_send_frame(meeting->home, TPS_SEATS, 0, names, (size_t)length, deadline_ms) &&
      receive(meeting->home, TPS_PLACEMENT, MAX_SEATS_BYTES, &frame, &meeting->seats, deadline_ms);
  if (meeting->at_home) {
    meeting->address = tps_copy_string(address);
    meeting->has_seats = frame.number == 1;
  } else {
    close_home(meeting);
    meeting->has_seats = placement_path != NULL && read_own_file(&meeting->seats, placement_path);
  }
}

static void end_guest(struct tps_guest *guest) {
  close(guest->peer);
  guest->peer = -1;
}

static struct tps_guest *accept_guest(struct tps_meeting *meeting) {
  int peer = tps_point_accept(meeting->listener);
  if (peer < 0)
    return NULL;
  if (meeting->guest_count == MAX_GUESTS) {
    close(peer);
    return NULL;
  }
  size_t count = meeting->guest_count;
  meeting->guests = tps_grow(meeting->guests, count, sizeof *meeting->guests);
  meeting->guests[count] = (struct tps_guest){.peer = peer, .who = {-1, -1}};
  return &meeting->guests[meeting->guest_count++];
}

static void hear_present(struct tps_meeting *meeting, struct tps_guest *guest) {
  struct tps_frame frame;
  struct tps_text text;
  char *rest;
  tps_text_init(&text);
  if (receive(guest->peer, PRESENT, 64, &frame, &text, tps_now_ms() + LOCAL_MS) &&
      read_neighbour(text.data, &guest->who, &rest)) {
    guest->present = true;
    add_neighbour(meeting, guest->who);
  } else {
    end_guest(guest);
  }
  tps_text_free(&text);
}

/* Waits for one of the listener, home and the guests; the caller frees the answer. Position 0 is
   the listener, 1 is home, from 2 on the guests; `present` ones only if told so. */
static struct pollfd *wait_for_any(const struct tps_meeting *meeting, bool present,
                                   long deadline_ms) {
  size_t count = meeting->guest_count + 2;
  struct pollfd *all = tps_allocate(count, sizeof *all);
  all[0] = (struct pollfd){.fd = meeting->listener, .events = POLLIN};
  all[1] = (struct pollfd){.fd = meeting->home, .events = POLLIN};
  for (size_t i = 0; i < meeting->guest_count; i++)
    all[i + 2] =
        (struct pollfd){.fd = present || !meeting->guests[i].present ? meeting->guests[i].peer : -1,
                        .events = POLLIN};
  long left = deadline_ms - tps_now_ms();
  if (left > 0 && poll(all, count, (int)left) >= 0)
    return all;
  for (size_t i = 0; i < count; i++)
    all[i].revents = 0;
  return all;
}

static void gather(struct tps_meeting *meeting, long expected) {
  long deadline_ms = tps_now_ms() + GATHER_MS;
  while ((long)meeting->neighbour_count < expected && tps_now_ms() < deadline_ms) {
    size_t guests = meeting->guest_count;
    struct pollfd *ready = wait_for_any(meeting, false, deadline_ms);
    if (ready[1].revents != 0)
      deadline_ms = 0; /* home has ended, or decided: the next step says so */
    for (size_t i = 0; i < guests; i++)
      if (ready[i + 2].revents != 0)
        hear_present(meeting, &meeting->guests[i]);
    if (ready[0].revents & POLLIN)
      accept_guest(meeting);
    free(ready);
  }
  meeting->complete = expected > 0 && (long)meeting->neighbour_count == expected;
}

/* Gives a member what the leader has. One that has ended is noticed when it ought to be heard. */
static void inform(const struct tps_meeting *meeting, int peer) {
  struct tps_text lines;
  tps_text_init(&lines);
  for (size_t i = 0; i < meeting->neighbour_count; i++)
    tps_text_add(&lines, "%ld %ld\n", meeting->neighbours[i].rank,
                 meeting->neighbours[i].local_rank);
  if (send_text(peer, ADDRESS, 0, meeting->at_home ? meeting->address : "") &&
      tps_send_frame(peer, TPS_PLACEMENT, meeting->has_seats, meeting->seats.data,
                     meeting->seats.length, tps_now_ms() + LOCAL_MS))
    send_text(peer, NEIGHBOURS, meeting->complete, lines.data);
  tps_text_free(&lines);
}

static void inform_guests(struct tps_meeting *meeting) {
  for (size_t i = 0; i < meeting->guest_count; i++)
    if (meeting->guests[i].present)
      inform(meeting, meeting->guests[i].peer);
}

static void tell_home(struct tps_meeting *meeting, uint32_t kind, uint32_t rank, const char *report,
                      size_t length) {
  meeting->refused |= kind == TPS_UNSEATED;
  if (meeting->at_home &&
      !tps_send_frame(meeting->home, kind, rank, report, length, tps_now_ms() + LOCAL_MS))
    close_home(meeting);
}

static uint32_t rank_number(long rank) { return rank < 0 ? TPS_RANK_UNKNOWN : (uint32_t)rank; }

/* One frame of a guest: its verdict, or, of one that came late, that it is present. */
static void hear_guest(struct tps_meeting *meeting, struct tps_guest *guest) {
  static const char ended[] =
      "# toposeat/report/1\nseated\tno\nrefusal\tended before it could be seated\n";
  struct tps_frame frame;
  struct tps_text report;
  if (!guest->present) {
    hear_present(meeting, guest);
    if (guest->present)
      inform(meeting, guest->peer);
    return;
  }
  tps_text_init(&report);
  long deadline_ms = tps_now_ms() + LOCAL_MS;
  if (tps_receive_header(guest->peer, &frame, deadline_ms) &&
      (frame.kind == TPS_SEATED || frame.kind == TPS_UNSEATED) &&
      receive_text(guest->peer, &frame, MAX_LOCAL_BYTES, &report, deadline_ms)) {
    guest->heard = true;
    tell_home(meeting, frame.kind, frame.number, report.data, report.length);
  } else {
    end_guest(guest);
    if (!guest->heard)
      tell_home(meeting, TPS_UNSEATED, rank_number(guest->who.rank), ended, sizeof ended - 1);
    guest->heard = true;
  }
  tps_text_free(&report);
}

static bool all_heard(const struct tps_meeting *meeting) {
  for (size_t i = 0; i < meeting->guest_count; i++)
    if (meeting->guests[i].present && !meeting->guests[i].heard)
      return false;
  return true;
}

/* What home has decided. Where it has gone it is no longer `at_home`, and nothing is decided. */
static bool hear_home(struct tps_meeting *meeting, enum tps_decision *decision) {
  struct tps_frame frame;
  if (!tps_receive_header(meeting->home, &frame, tps_now_ms() + LOCAL_MS) || frame.length != 0 ||
      (frame.kind != TPS_GO && frame.kind != TPS_STOP)) {
    close_home(meeting);
    return false;
  }
  *decision = frame.kind == TPS_GO ? TPS_START : TPS_END;
  return true;
}

static enum tps_decision lead(struct tps_meeting *meeting) {
  long deadline_ms = tps_now_ms() + DECIDE_MS;
  enum tps_decision decision = TPS_START;
  bool decided = false;
  while (!decided) {
    if (tps_now_ms() >= deadline_ms)
      close_home(meeting);
    if (!meeting->at_home && (all_heard(meeting) || tps_now_ms() >= deadline_ms)) {
      decision = meeting->refused ? TPS_END : TPS_START;
      break;
    }
    size_t guests = meeting->guest_count;
    struct pollfd *ready = wait_for_any(meeting, true, deadline_ms);
    for (size_t i = 0; i < guests; i++)
      if (ready[i + 2].revents != 0 && meeting->guests[i].peer >= 0)
        hear_guest(meeting, &meeting->guests[i]);
    if (ready[0].revents & POLLIN)
      accept_guest(meeting);
    if (ready[1].revents != 0 && meeting->at_home)
      decided = hear_home(meeting, &decision);
    free(ready);
  }
  uint32_t kind = decision == TPS_START ? TPS_GO : TPS_STOP;
  for (size_t i = 0; i < meeting->guest_count; i++)
    if (meeting->guests[i].peer >= 0)
      tps_send_frame(meeting->guests[i].peer, kind, meeting->at_home, NULL, 0,
                     tps_now_ms() + LOCAL_MS);
  return decision;
}

/* ---- a member ---- */

static void read_neighbours(struct tps_meeting *meeting, const char *lines) {
  struct tps_neighbour one;
  char *rest;
  for (; read_neighbour(lines, &one, &rest) && *rest == '\n'; lines = rest + 1)
    add_neighbour(meeting, one);
}

static bool be_informed(struct tps_meeting *meeting, const char *present, const char *home) {
  long deadline_ms = tps_now_ms() + tps_home_patience_ms(home) + GATHER_MS + JOIN_MS;
  struct tps_frame frame;
  struct tps_text text;
  tps_text_init(&text);
  bool informed = send_text(meeting->leader, PRESENT, 0, present) &&
                  receive(meeting->leader, ADDRESS, MAX_LOCAL_BYTES, &frame, &text, deadline_ms);
  if (informed) {
    meeting->at_home = text.length > 0;
    meeting->address = meeting->at_home ? tps_copy_string(text.data) : NULL;
    informed = receive(meeting->leader, TPS_PLACEMENT, MAX_SEATS_BYTES, &frame, &meeting->seats,
                       deadline_ms);
    meeting->has_seats = informed && frame.number == 1;
  }
  informed =
      informed && receive(meeting->leader, NEIGHBOURS, MAX_SEATS_BYTES, &frame, &text, deadline_ms);
  if (informed) {
    read_neighbours(meeting, text.data);
    meeting->complete = frame.number == 1;
  }
  tps_text_free(&text);
  return informed;
}

/* ---- both ---- */

void tps_meeting_join(struct tps_meeting *meeting, const char *home, const char *placement_path,
                      const struct tps_identity *identity, tps_count_here count_here,
                      const void *context) {
  *meeting = (struct tps_meeting){.leader = -1, .listener = -1, .home = -1};
  struct tps_neighbour self = {identity->rank, identity->local_rank};
  char present[64];
  snprintf(present, sizeof present, "%ld %ld", self.rank, self.local_rank);
  tps_text_init(&meeting->seats);
  /* A node may go by several names of a launcher that runs it several times. */
  struct tps_point point =
      tps_point_join(home, identity->node == NULL ? identity->host : identity->node);
  meeting->listener = point.listener;
  meeting->leader = point.leader;
  if (meeting->leader >= 0 && be_informed(meeting, present, home))
    return;
  if (meeting->leader >= 0) { /* the leader has ended, or does not answer: alone, then */
    close(meeting->leader);
    meeting->leader = -1;
    meeting->neighbour_count = 0;
  }
  ask_home(meeting, home, placement_path, identity);
  add_neighbour(meeting, self);
  long expected = identity->local_size;
  if (expected < 0 && meeting->has_seats)
    expected = count_here(&meeting->seats, context);
  if (meeting->listener >= 0)
    gather(meeting, expected);
  inform_guests(meeting);
}

enum tps_decision tps_meeting_decide(struct tps_meeting *meeting, long rank, bool seated,
                                     const struct tps_text *report) {
  uint32_t kind = seated ? TPS_SEATED : TPS_UNSEATED;
  if (meeting->leader < 0) {
    tell_home(meeting, kind, rank_number(rank), report->data, report->length);
    return lead(meeting);
  }
  struct tps_frame frame;
  long deadline_ms = tps_now_ms() + DECIDE_MS + LOCAL_MS;
  /* The leader may have told the decision and ended before it could be told anything. */
  tps_send_frame(meeting->leader, kind, rank_number(rank), report->data, report->length,
                 tps_now_ms() + LOCAL_MS);
  if (tps_receive_header(meeting->leader, &frame, deadline_ms) &&
      (frame.kind == TPS_GO || frame.kind == TPS_STOP)) {
    meeting->at_home = frame.number == 1;
    return frame.kind == TPS_GO ? TPS_START : TPS_END;
  }
  meeting->at_home = false; /* the leader was killed, and the launcher will end the job */
  return seated ? TPS_START : TPS_END;
}

void tps_meeting_leave(struct tps_meeting *meeting) {
  for (size_t i = 0; i < meeting->guest_count; i++)
    if (meeting->guests[i].peer >= 0)
      close(meeting->guests[i].peer);
  close_home(meeting);
  if (meeting->listener >= 0)
    close(meeting->listener);
  if (meeting->leader >= 0)
    close(meeting->leader);
  tps_text_free(&meeting->seats);
  free(meeting->address);
  free(meeting->neighbours);
  free(meeting->guests);
  *meeting = (struct tps_meeting){.leader = -1, .listener = -1, .home = -1};
}
