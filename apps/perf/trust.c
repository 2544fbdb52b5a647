/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Finds what of a configuration could load code or write files (trust.h). */

#include <stdio.h>
#include <string.h>

#include "trust.h"

/** Virtual devices that neither load code nor write files by themselves. */
static const char *const trust_drivers[] = {
        "net_memif", "net_af_packet", "eth_af_packet", "net_af_xdp", "net_tap",     "eth_tap",
        "net_ring",  "eth_ring",      "net_null",      "eth_null",   "net_bonding", "eth_bond"};

/** Whether a device is a PCI address, or a virtual one of these. */
static bool
trust_driver(const char *dev)
{
	const size_t n = strspn(dev, "0123456789abcdefABCDEF:.");

	if (memchr(dev, ':', n) != NULL && (dev[n] == '\0' || dev[n] == ','))
		return true;
	for (size_t i = 0; i < sizeof(trust_drivers) / sizeof(trust_drivers[0]); i++)
		if (strncmp(dev, trust_drivers[i], strlen(trust_drivers[i])) == 0)
			return true;
	return false;
}

/** Whether an argument names a file. The socket of net_memif is none that is written. */
static bool
trust_has_file(const char *dev)
{
	for (const char *at = strchr(dev, ','); at != NULL; at = strchr(at, ',')) {
		const size_t n = strcspn(++at, ",]");

		if (strncmp(at, "socket=", 7) == 0)
			continue;
		if (memchr(at, '/', n) != NULL || strncmp(at, "xdp_prog=", 9) == 0)
			return true;
	}
	return false;
}

bool
trust_not_needed(const struct conf *c, char *why, size_t why_bytes)
{
	if (c->weft.eal[0] != '\0') {
		snprintf(why, why_bytes, "eal of [weft], '%s', may load code or write files",
		         c->weft.eal);
		return false;
	}
	for (unsigned int i = 0; i < c->nports; i++) {
		const char *dev = c->ports[i].dev;

		/* also of a bonding device */
		if (trust_driver(dev) && strstr(dev, "_pcap") == NULL &&
		    strstr(dev, "_vhost") == NULL && !trust_has_file(dev))
			continue;
		snprintf(why, why_bytes, "the device '%s' may load code or write files", dev);
		return false;
	}
	return true;
}
