/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads the speed of the link and the counters of the port (link_use.h). */

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_use.h"
#include "perf.h"
#include "ui.h"

bool
link_now(const struct perf_side *side, struct link_count *c)
{
	struct weft_port_stats st;

	*c = (struct link_count){.at_ns = ui_now_ns()};
	if (side->port == NULL || weft_port_stats(side->port, &st) != 0)
		return false;
	c->rx_packets = st.rx_packets;
	c->rx_bytes = st.rx_bytes;
	c->tx_packets = st.tx_packets;
	c->tx_bytes = st.tx_bytes;
	return true;
}

static double
link_rate_mbps(uint64_t bytes, uint64_t packets, uint64_t ns)
{
	return (double)(bytes + packets * LINK_FRAME_BYTES) * 8e3 / (double)ns;
}

double
link_used_mbps(const struct perf_side *side, const struct link_count *from)
{
	struct link_count now;
	double rx, tx;

	if (from->at_ns == 0 || !link_now(side, &now) || now.at_ns <= from->at_ns)
		return 0;
	rx = link_rate_mbps(now.rx_bytes - from->rx_bytes, now.rx_packets - from->rx_packets,
	                    now.at_ns - from->at_ns);
	tx = link_rate_mbps(now.tx_bytes - from->tx_bytes, now.tx_packets - from->tx_packets,
	                    now.at_ns - from->at_ns);
	return rx > tx ? rx : tx;
}

/** The speed of an interface of the kernel; 0: it has none. Not by /sys, which may be that of
 * another network namespace. */
static uint32_t
link_kernel_mbps(const char *interface, size_t len)
{
	struct ethtool_cmd what = {.cmd = ETHTOOL_GSET};
	struct ifreq ifr = {.ifr_data = (void *)&what};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t mbps = 0;

	if (fd < 0)
		return 0;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%.*s", (int)len, interface);
	if (ioctl(fd, SIOCETHTOOL, &ifr) == 0)
		mbps = ethtool_cmd_speed(&what);
	close(fd);
	return mbps == (uint32_t)SPEED_UNKNOWN ? 0 : mbps;
}

uint32_t
link_mbps(const struct perf_side *side)
{
	struct weft_port_stats st;
	const char *iface;

	if (side->port == NULL)
		return 0;
	if (strncmp(side->dev, "net_", 4) == 0) {
		iface = strstr(side->dev, ",iface=");
		return iface == NULL ? 0 : link_kernel_mbps(iface + 7, strcspn(iface + 7, ",/"));
	}
	return weft_port_stats(side->port, &st) == 0 && st.speed_mbps != UINT32_MAX ? st.speed_mbps
	                                                                            : 0;
}
