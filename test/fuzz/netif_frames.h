/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_FUZZ_NETIF_FRAMES_H
#define WEFT_FUZZ_NETIF_FRAMES_H

/** @file Packets of fuzz_netif. */

#include "fuzz.h"

#include <rte_ether.h>

static const uint8_t mac_us[6] = {2, 0, 0, 0, 0, 1}, mac_peer[6] = {2, 0, 0, 0, 0, 2};
static const uint8_t ip6_us[16] = {0xfd, [15] = 1}, ip6_peer[16] = {0xfd, [15] = 2};
static const uint8_t ip6_ll[16] = {0xfe, 0x80, [8] = 0, 0, 0, 0xff, 0xfe, 0, 0, 1};
static const uint8_t ip6_ll_peer[16] = {0xfe, 0x80, [15] = 2};

/** Correct the fields that `how` names, so that the packet goes from the peer to us. */
void fix_ipv4(uint8_t *p, size_t len, uint8_t how);
void fix_ipv6(uint8_t *p, size_t len, uint8_t how);
/** A valid packet of this kind. Returns its length; *type is its EtherType. */
uint32_t sample(uint8_t *p, uint8_t kind, uint8_t v, uint16_t *type);
/** Change octets, and correct the checksums unless the input says otherwise. */
void spoil(struct fuzz_in *in, uint8_t *p, uint32_t len, uint16_t type, uint8_t how);

#endif /* WEFT_FUZZ_NETIF_FRAMES_H */
