/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The keys of [mpa], which set weft/mpa_policy.h. */

#include "conf_key.h"

#define F(field)                                                                                   \
	.off = offsetof(struct weft_mpa_policy, field),                                            \
	.size = sizeof(((struct weft_mpa_policy *)0)->field)

const struct conf_key conf_keys_mpa[CONF_MPA_KEYS] = {
        {"revision", CONF_T_CHOICE, F(rev), .choices = "auto|1|2", .dflt = "auto",
         .help = "MPA revision of the connections that this side opens. `auto`: 2, and 1 with a "
                 "peer that does not know 2. Accepted connections have the revision of the peer's "
                 "Request"},
        {"markers", CONF_T_BOOL, F(markers), .dflt = "no",
         .help = "`yes`: this side asks the peer to insert markers into what it sends (RFC 5044 "
                 "s4.3)"},
        {"no_crc", CONF_T_BOOL, F(no_crc), .dflt = "no",
         .help = "`yes`: connections have no CRC32c if the peer does not want it either. Use it "
                 "only where something at least as strong protects the data from end to end"},
        {"peer_to_peer", CONF_T_BOOL, F(p2p), .dflt = "no",
         .help = "`yes`: this side opens connections in the peer-to-peer model (RFC 6581), in "
                 "which the other side may send first. It excludes `revision = 1`"},
        {"rtr", CONF_T_CHOICE, F(rtr),
         .choices = "all|fpdu|write|fpdu+write|read|fpdu+read|write+read", .dflt = "all",
         .help = "ready-to-receive indications of the peer-to-peer model that this side offers and "
                 "accepts: a zero-length FPDU, RDMA Write or RDMA Read"},
        {"fpdu_timeout_us", CONF_T_U32, F(fpdu_timeout_us), .min = 1000000, .max = 4000000000,
         .unset = "`60000000`",
         .help = "time, in microseconds, after which a connection ends whose peer has begun an "
                 "FPDU and sends nothing more of it. The whole FPDU may take four times as long"},
        {"place_ahead", CONF_T_BOOL, F(place_ahead), .dflt = "no",
         .help = "`yes`: RDMA Writes that arrive behind a lost packet are placed at once. This "
                 "side then asks for markers, too, and places nothing early on a connection "
                 "without CRC. Completions and errors keep their order, but a program that looks "
                 "at the memory before it is told may see the end of a Write before its "
                 "beginning"},
};
