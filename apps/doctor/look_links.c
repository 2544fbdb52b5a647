/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Interfaces of the kernel that carry a port: link, MTU, rights for their sockets. */

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "weft_device_hold.h"

/** How the port reaches an interface of the kernel. */
struct link_use {
	const char *driver; /* what the device's name begins with */
	const char *key;    /* of the argument that names the interface; NULL: there is none */
	unsigned int cap;   /* the capability that its sockets need */
	const char *cap_name;
};

static const struct link_use link_uses[] = {
        {"net_af_packet", "iface", CAP_NET_RAW, "cap_net_raw"},
        {"net_af_xdp", "iface", CAP_NET_RAW, "cap_net_raw,cap_net_admin,cap_sys_admin"},
        {"net_tap", NULL, CAP_NET_ADMIN, "cap_net_admin"},
};

/** A port that takes the frames of its interface, which the machine itself may need. */
static void
link_needed(struct doctor *d, const struct conf_port *p, const char *dev, const char *subject)
{
	struct weft_device_hold hold;

	if (weft_device_is_xdp(dev) && weft_device_hold(d->at, dev, &hold) == 0 &&
	    hold.kind != WEFT_HOLD_NONE)
		doctor_held(d, d->conf.weft.take_needed ? DOCTOR_NOTE : DOCTOR_STOP, p, subject,
		            &hold);
}

static void
link_rights(struct doctor *d, const struct link_use *u, const char *subject)
{
	struct doctor_finding *f;

	if (d->as.root || (weft_machine_caps(d->at) >> u->cap & 1) != 0)
		return;
	f = doctor_add(d, DOCTOR_STOP, "rights", subject);
	doctor_what(f, "%s needs the capability %s, which this user has not", u->driver,
	            u->cap_name);
	doctor_mend(f, "run as root, or: setcap %s+ep $(command -v weft-target)", u->cap_name);
}

/** Whether an interface is up and has a link. A bond works with one slave that has. */
static void
link_state(struct doctor *d, const char *ifname, const struct weft_machine_link *l, bool slave,
           const char *subject)
{
	const enum doctor_level bad = slave ? DOCTOR_NOTE : DOCTOR_STOP;
	struct doctor_finding *f;
	char speed[32] = "";

	if (!l->up) {
		f = doctor_add(d, bad, "link", subject);
		doctor_what(f, "the interface %s is down", ifname);
		doctor_mend(f, "ip link set dev %s up", ifname);
		return;
	}
	if (!l->carrier) {
		f = doctor_add(d, bad, "link", subject);
		doctor_what(f, "the interface %s has no link", ifname);
		doctor_mend(f, "ethtool %s, and look at its cable and at the other end", ifname);
		return;
	}
	f = doctor_add(d, DOCTOR_OK, "link", subject);
	if (l->speed_mbps != 0)
		snprintf(speed, sizeof(speed), ", %u Mbit/s", l->speed_mbps);
	doctor_what(f, "the interface %s has a link%s, MTU %u", ifname, speed, l->mtu_bytes);
}

/** An interface that stays the kernel's, and carries the port's frames as it is. */
static void
link_of_socket(struct doctor *d, const struct conf_port *p, const char *ifname, bool slave,
               const char *subject)
{
	struct weft_machine_link l;
	struct doctor_finding *f;

	if (weft_machine_link(d->at, ifname, &l) != 0) {
		f = doctor_add(d, DOCTOR_STOP, "link", subject);
		doctor_what(f, "there is no interface %s", ifname);
		doctor_mend(f, "ip -brief link shows those that are; name one in [port %s]",
		            p->name);
		return;
	}
	if (l.mtu_bytes < p->mtu_bytes) {
		f = doctor_add(d, DOCTOR_STOP, "mtu", subject);
		doctor_what(f, "the MTU of %s is %u, and the port's is %u: large packets are lost",
		            ifname, l.mtu_bytes, p->mtu_bytes);
		doctor_mend(f, "ip link set dev %s mtu %u", ifname, p->mtu_bytes);
	}
	link_state(d, ifname, &l, slave, subject);
}

/** A NIC of which the kernel has an interface. DPDK sets the MTU of a NIC itself. */
static void
link_of_nic(struct doctor *d, const struct doctor_nic *n, const char *subject)
{
	struct weft_machine_link l;
	struct doctor_finding *f;

	if (weft_machine_link(d->at, n->info.ifname, &l) != 0)
		return;
	if (n->port != NULL && n->info.binding == WEFT_DEVICE_BIFURCATED) {
		link_state(d, n->info.ifname, &l, weft_device_is_bond(n->port->dev), subject);
		return;
	}
	/* Of an interface that is down the kernel does not know. */
	if (!l.up || l.carrier)
		return;
	f = doctor_add(d, DOCTOR_NOTE, "link", subject);
	doctor_what(f, "its interface %s has no link", n->info.ifname);
	doctor_mend(f, "ethtool %s, and look at its cable and at the other end", n->info.ifname);
}

/** A device of a port: the port's own, or a slave of a bond. */
static void
link_of_device(struct doctor *d, const struct conf_port *p, const char *dev)
{
	const bool slave = weft_device_is_bond(p->dev);
	char subject[96], ifname[16];

	if (slave)
		snprintf(subject, sizeof(subject), "port %s, slave %.*s", p->name,
		         (int)strcspn(dev, ","), dev);
	else
		snprintf(subject, sizeof(subject), "port %s", p->name);
	for (size_t u = 0; u < sizeof(link_uses) / sizeof(link_uses[0]); u++) {
		if (strncmp(dev, link_uses[u].driver, strlen(link_uses[u].driver)) != 0)
			continue;
		link_rights(d, &link_uses[u], subject);
		link_needed(d, p, dev, subject);
		if (link_uses[u].key != NULL &&
		    conf_dev_arg(dev, link_uses[u].key, ifname, sizeof(ifname)) == 0)
			link_of_socket(d, p, ifname, slave, subject);
	}
}

void
look_links(struct doctor *d)
{
	char subject[96], dev[DOCTOR_DEV_MAX];

	for (unsigned int i = 0; i < d->nnics; i++) {
		doctor_nic_subject(&d->nics[i], subject, sizeof(subject));
		link_of_nic(d, &d->nics[i], subject);
	}
	for (uint32_t i = 0; i < d->conf.nports; i++)
		for (unsigned int k = 0;
		     weft_device_member(d->conf.ports[i].dev, k, dev, sizeof(dev)) == 0; k++)
			link_of_device(d, &d->conf.ports[i], dev);
}
