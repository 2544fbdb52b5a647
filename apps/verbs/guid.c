/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The GUIDs of the devices. */

#include "addr.h"
#include "config.h"
#include "device.h"

#include <endian.h>

/** FNV-1a. */
static uint64_t
device_hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (; *s != '\0'; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3ULL;
	return h;
}

__be64
wv_device_guid(unsigned int number)
{
	const struct conf *c = wv_config();
	uint64_t guid = 0;

	if (c == NULL || number >= c->nports)
		return 0;
	for (uint32_t i = 0; i < c->ports[number].nnets; i++) {
		char buf[ADDR_STR_MAX];

		guid = guid * 31 +
		       device_hash(conf_net_str(&c->ports[number].nets[i].addr, 0, buf));
	}
	/* EUI-64 with the bit of local administration, and no group address. */
	guid = (guid & ~(1ULL << 56)) | 1ULL << 57;
	return htobe64(guid);
}
