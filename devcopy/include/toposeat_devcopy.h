/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Copies between GPU buffers of two processes on one node.
 *
 * The two processes hold a *link*: a UNIX stream socket and two rings of host memory. A transfer is
 * a send on one side and a receive on the other; both block, and each ends within the link's time
 * limit whatever the other does. The driver is loaded at run time.
 *
 *   sender                            receiver
 *   RTS: size, handle, buffer id  ->
 *                                     decides (see tdc_receive)
 *        GET                          opens the handle, pulls
 *                                 <-  DONE
 *        PUT                      <-  CTS: its handle
 *   opens it, pushes, DONE        ->
 *        COOPERATE                <-  CTS: its handle; pulls the upper half
 *   pushes the lower half, DONE   ->
 *                                 <-  DONE
 *        STAGED                   <-  CTS: chunk, depth
 *   device -> ring, chunk by chunk    ring -> device, chunk by chunk
 *                                 <-  DONE
 *
 * A side whose own end is host memory *attaches*: it opens the other's memory with a context on the
 * other's device, where that is visible, and copies with that device's engine.
 *
 * A side that cannot open the other's memory says so (REFUSED) and the transfer goes on STAGED.
 *
 * Opening another process's memory is slow and is cached by the buffer's id. Memory that peers may
 * have open is freed in two phases: tdc_free records, tdc_commit_frees tells every peer, waits
 * until they have closed it, and frees. A peer takes part while it is in any call of this library.
 *
 * One thread at a time per context; every call returns a tdc_result. */
#ifndef TOPOSEAT_DEVCOPY_H
#define TOPOSEAT_DEVCOPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum {
  TDC_OK = 0,
  TDC_NO_DRIVER, /* no GPU driver, or it has no device */
  TDC_DRIVER,    /* the driver failed; tdc_driver_error() says how */
  TDC_ARGUMENT,
  TDC_MEMORY,    /* no host memory, files or sockets left */
  TDC_PEER_GONE, /* the other process ended */
  TDC_TIMEOUT,   /* it did not take part within the time limit */
  TDC_PROTOCOL,  /* it said something impossible: another version? */
  TDC_TOO_SMALL, /* the receive buffer is smaller than what was sent; nothing was moved */
} tdc_result;

typedef enum { TDC_AUTO = 0, TDC_GET, TDC_PUT, TDC_COOPERATE, TDC_STAGED } tdc_protocol;

typedef struct tdc_context tdc_context;
typedef struct tdc_link tdc_link;

typedef struct {
  size_t chunk;        /* bytes of a staged piece; 0: 512 KiB */
  unsigned depth;      /* pieces in flight; 0: 4 */
  unsigned cache_size; /* buffers of other processes kept open; 0: 64 */
  bool no_cache;       /* opens and closes for every transfer */
  double timeout_s;    /* of every wait; 0: 30 */
} tdc_options;

/* What happened in a transfer. */
typedef struct {
  tdc_protocol protocol; /* that moved the bytes */
  bool fell_back;        /* another one was wanted or refused */
  bool was_open;         /* the handle was in the cache */
  size_t bytes;
} tdc_report;

/* Takes a device of this process (its ordinal), with its primary context. */
tdc_result tdc_open(int device, const tdc_options *options, tdc_context **context);
/* Frees what is not yet freed and ends all links. */
void tdc_close(tdc_context *context);

/* Device memory of this context; any other device memory of the process may be sent as well. */
tdc_result tdc_allocate(tdc_context *context, size_t bytes, uint64_t *pointer);
/* First phase: from now on the memory is not sent. */
tdc_result tdc_free(tdc_context *context, uint64_t pointer);
/* Second phase. On TDC_TIMEOUT nothing is freed, and it may be called again. */
tdc_result tdc_commit_frees(tdc_context *context);

/* Links two processes over a connected UNIX stream socket, which it then owns. Both call it. */
tdc_result tdc_connect(tdc_context *context, int socket, tdc_link **link);
void tdc_disconnect(tdc_link *link);

/* Whether the peer's device can be reached directly, as far as this side's driver knows. */
bool tdc_is_near(const tdc_link *link);

/* `pointer` is device memory, or host memory. */
tdc_result tdc_send(tdc_link *link, uint64_t pointer, size_t bytes, tdc_report *report);

/* The receiver decides: `wanted`, or with TDC_AUTO GET where the sender's memory can be reached and
   STAGED otherwise (tdc_set_direct_below says where direct copies are known to be slower). */
tdc_result tdc_receive(tdc_link *link, uint64_t pointer, size_t bytes, tdc_protocol wanted,
                       tdc_report *report);

/* From measurements: with TDC_AUTO, direct copies below so many bytes only (SIZE_MAX at first). */
void tdc_set_direct_below(tdc_link *link, size_t bytes);

/* Answers peers (frees, lost links) without a transfer of one's own, for at most `seconds`. */
tdc_result tdc_progress(tdc_context *context, double seconds);

const char *tdc_result_text(tdc_result result);
/* The driver's own code behind the last TDC_DRIVER. */
int tdc_driver_error(const tdc_context *context);
const char *tdc_protocol_name(tdc_protocol protocol);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
