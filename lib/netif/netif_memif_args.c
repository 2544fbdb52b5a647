/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The ring of a net_memif: its client chooses the size of its buffers and their number.
 *
 * A frame must fit into one buffer. net_memif of DPDK 22.11 spreads a longer frame over several.
 * When the ring has too few free buffers for it, the driver overwrites a frame that the peer has
 * not yet read, and then counts 65535 free buffers. So every frame behind it is lost, too.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_kvargs.h>

#include "netif_hdr.h"
#include "netif_memif.h"
#include "netif_rings.h"
#include "weft_base.h"

WEFT_LOG_DECLARE(netif);

/* Defaults of the driver, and the memory of one direction that a ring of our choice may take. */
#define MEMIF_BSIZE      2048u
#define MEMIF_RSIZE      10u
#define MEMIF_RING_BYTES (16u << 20)

static bool
memif_is(const struct rte_kvargs *kv, const char *key, const char *a, const char *b)
{
	const char *v = rte_kvargs_get(kv, key);

	return v != NULL && (strcmp(v, a) == 0 || strcmp(v, b) == 0);
}

int
netif_memif_args(const char *args, uint16_t mtu_bytes, char *out, size_t size)
{
	/* A frame with a VLAN tag. We send none that is longer than an mbuf. */
	const uint32_t frame = RTE_MIN((uint32_t)mtu_bytes + NETIF_L2_MAX, NETIF_DATA_MAX);
	struct rte_kvargs *kv = rte_kvargs_parse(args, NULL);
	const char *bsize = kv != NULL ? rte_kvargs_get(kv, "bsize") : NULL;
	uint32_t buf = RTE_ALIGN(frame, 64u), slots = MEMIF_RSIZE;
	int n = snprintf(out, size, "%s", args), ret = 0;

	/* The client's ring serves both ends. */
	if (kv != NULL && memif_is(kv, "role", "server", "master"))
		goto done;
	/* The buffers are our mbufs. */
	if (kv != NULL && memif_is(kv, "zero-copy", "yes", "yes")) {
		if (rte_kvargs_get(kv, "rsize") == NULL && n >= 0 && (size_t)n < size)
			n += snprintf(out + n, size - (size_t)n, ",rsize=%u",
			              NETIF_MEMIF_SHARED_RSIZE);
		goto done;
	}
	if (bsize != NULL && strtoul(bsize, NULL, 10) < frame) {
		WEFT_LOG(netif, ERR,
		         "a net_memif with bsize=%s holds no frame of an MTU of %u; leave bsize "
		         "out, "
		         "or write bsize=%u",
		         bsize, mtu_bytes, buf);
		ret = -EMSGSIZE;
	}
	if (bsize != NULL || frame <= MEMIF_BSIZE)
		goto done;
	while (buf << slots > MEMIF_RING_BYTES)
		slots--;
	if (n >= 0 && (size_t)n < size)
		n += snprintf(out + n, size - (size_t)n, "%sbsize=%u", *args != '\0' ? "," : "",
		              buf);
	if (slots < MEMIF_RSIZE && (kv == NULL || rte_kvargs_get(kv, "rsize") == NULL) && n >= 0 &&
	    (size_t)n < size)
		n += snprintf(out + n, size - (size_t)n, ",rsize=%u", slots);
done:
	rte_kvargs_free(kv);
	return ret != 0 ? ret : n < 0 || (size_t)n >= size ? -EINVAL : 0;
}
