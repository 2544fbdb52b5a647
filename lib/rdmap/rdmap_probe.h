/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_PROBE_H
#define RDMAP_PROBE_H

/**
 * @file
 * Probes of an initiator that has received no FPDU.
 */

#include "rdmap_stream.h"

/** An initiator that has received no FPDU sends its first probe then (rdmap_probe.c). */
#define RDMAP_PROBE_NS (100 * WEFT_NS_PER_MS)

/** An initiator that closes before its first probe sends it this long after the close, and its FIN
 * as long after the probe. */
#define RDMAP_PROBE_CLOSE_NS (10 * WEFT_NS_PER_MS)

/** At RTS: an initiator arms the timer of the first probe. */
void rdmap_probe_begin(struct weft_rdmap *r);
/** The timer has fired: send a probe if no FPDU was received. True: the timer is armed again. */
bool rdmap_probe(struct weft_rdmap *r, uint64_t now_ns);
/** Before our FIN: true if it has to wait for a probe. The timer is then armed. */
bool rdmap_probe_hold(struct weft_rdmap *r, uint64_t now_ns);
/** The timer has fired while the stream closes. True: that was for rdmap_probe_hold(). */
bool rdmap_probe_closing(struct weft_rdmap *r, uint64_t now_ns);

#endif /* RDMAP_PROBE_H */
