/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Links: the hello, in which the two sides exchange what they are and their rings. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link.h"

enum { VERSION = 2, HELLO_MAGIC = 0x74646331 };

static tdc_result exchange(tdc_link *link, int ring_file, struct tdc_message *theirs,
                           int *their_file) {
  tdc_context *context = link->context;
  struct tdc_message mine = {.magic = HELLO_MAGIC,
                             .kind = TDC_HELLO,
                             .flags = VERSION,
                             .process = (int32_t)getpid(),
                             .depth = context->options.depth,
                             .chunk = context->options.chunk};
  memcpy(mine.pci, context->pci, TDC_PCI_LENGTH);
  tdc_result result = tdc_move_out(link, &mine, sizeof mine, ring_file);
  if (result == TDC_OK)
    result = tdc_move_in(link, theirs, sizeof *theirs, their_file);
  if (result != TDC_OK)
    return result;
  if (theirs->magic != HELLO_MAGIC || theirs->kind != TDC_HELLO || theirs->flags != VERSION ||
      *their_file < 0 || !memchr(theirs->pci, 0, TDC_PCI_LENGTH))
    return TDC_PROTOCOL;
  return TDC_OK;
}

static tdc_result say_hello(tdc_link *link) {
  int ring_file = -1;
  int their_file = -1;
  struct tdc_message theirs = {0};
  tdc_result result = tdc_make_ring(link->context, &link->out, &ring_file);
  if (result == TDC_OK)
    result = exchange(link, ring_file, &theirs, &their_file);
  if (result == TDC_OK)
    result = tdc_map_ring(link->context, &link->in, their_file, theirs.chunk, theirs.depth);
  if (result == TDC_OK) {
    link->peer = theirs.process;
    memcpy(link->peer_pci, theirs.pci, TDC_PCI_LENGTH);
  }
  if (ring_file >= 0)
    (void)close(ring_file);
  if (their_file >= 0)
    (void)close(their_file);
  return result;
}

tdc_result tdc_connect(tdc_context *context, int socket, tdc_link **result) {
  if (!context || socket < 0 || !result)
    return TDC_ARGUMENT;
  *result = NULL;
  tdc_link *link = calloc(1, sizeof *link);
  if (!link)
    return TDC_MEMORY;
  if (!tdc_good(context, context->driver->set_current(context->primary))) {
    free(link);
    return TDC_DRIVER;
  }
  link->context = context;
  link->socket = socket;
  link->direct_below = SIZE_MAX;
  link->file = -1;
  link->next = context->links;
  context->links = link;
  const tdc_result said = say_hello(link);
  if (said != TDC_OK) {
    tdc_disconnect(link);
    return said;
  }
  *result = link;
  return TDC_OK;
}

void tdc_disconnect(tdc_link *link) {
  if (!link)
    return;
  tdc_context *context = link->context;
  tdc_link **at = &context->links;
  while (*at && *at != link)
    at = &(*at)->next;
  if (*at)
    *at = link->next;
  tdc_close_all(context, link);
  tdc_detach(link);
  tdc_drop_file(link);
  tdc_unmap_ring(context, &link->out);
  tdc_unmap_ring(context, &link->in);
  (void)close(link->socket);
  free(link);
}

bool tdc_is_near(const tdc_link *link) {
  const tdc_context *context = link->context;
  int peer = -1;
  int can = 0;
  if (strcmp(context->pci, link->peer_pci) == 0)
    return true;
  if (context->driver->device_by_pci(&peer, link->peer_pci) != 0)
    return true; /* not visible here: only trying tells */
  return context->driver->can_access_peer(&can, context->device, peer) != 0 || can;
}

void tdc_set_direct_below(tdc_link *link, size_t bytes) { link->direct_below = bytes; }
