/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counting into the slots of this thread's segment. */
#ifndef TOPOSEAT_SLOTS_H
#define TOPOSEAT_SLOTS_H

#include "counters.h"

/* The call could not be attributed: no memory, or a handle that is not understood. */
static inline void tps__lost(uint64_t bytes) {
  struct tps_header *header = tps__thread.segment->header;
  tps__bump(&header->lost_messages, 1);
  tps__bump(&header->lost_bytes, bytes);
}

/* One message of `bytes` under a slot key without its phase. */
TPS_FAST void tps__count_key(uint64_t key, uint64_t bytes) {
  const struct tps_segment *segment = tps__thread.segment;
  key |= tps__thread.phase_key;
  uint64_t home = tps__slot_home(key, segment->slot_mask);
  struct tps_slot *slot = &segment->slots[home];
  if (tps__unlikely(__atomic_load_n(&segment->keys[home], __ATOMIC_ACQUIRE) != key)) {
    slot = tps__slot_insert(key);
    if (slot == NULL) {
      tps__lost(bytes);
      return;
    }
  }
  tps__bump(&slot->messages, 1);
  tps__bump(&slot->bytes, bytes);
  tps__bump(&slot->histogram[tps__bucket(bytes)], 1);
}

/* The current call uses a buffer of this device, with `bytes` of traffic. */
static inline void tps__use_device(int device, uint64_t bytes) {
  struct tps_device *used = &tps__thread.segment->devices[device];
  tps__thread.on_device = true;
  tps__bump(&used->uses, 1);
  tps__bump(&used->bytes, bytes);
}

#endif
