/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The lock of an image, and how it is taken from another opener.
 *
 * The lock is taken in its hard form: another client that asks for it is refused, where the usual
 * form is handed back and forth. Before the lock of another client is broken, that client is
 * blocklisted: an OSD that knows this refuses its requests. This process waits for the map that
 * says so, and sends nothing before it has it. An OSD that gets a request of ours gets the map
 * first, so nothing of the old owner follows what we do.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ceph.h"

#define CEPH_MAX_OWNERS   8
#define CEPH_MAX_WATCHERS 64

int
ceph_blocklist(const char *address, uint32_t seconds)
{
	char copy[RBD_ADDR_BYTES], *rest = copy, *part;
	int r = -EINVAL;

	/* A client may have several: "[v2:...,v1:...]". Brackets alone are IPv6's. */
	if (strncmp(address, "[v", 2) == 0) {
		snprintf(copy, sizeof(copy), "%s", address + 1);
		if (copy[0] != '\0' && copy[strlen(copy) - 1] == ']')
			copy[strlen(copy) - 1] = '\0';
	} else {
		snprintf(copy, sizeof(copy), "%s", address);
	}
	while ((part = strsep(&rest, ",")) != NULL) {
		r = rados_blocklist_add(ceph.cluster, part, seconds);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : rados_wait_for_latest_osdmap(ceph.cluster);
}

/** What all forms of an address have: "127.0.0.1:0/12345" of "v2:127.0.0.1:0/12345". */
static const char *
ceph_plain(const char *address)
{
	return strncmp(address, "v1:", 3) == 0 || strncmp(address, "v2:", 3) == 0 ? address + 3
	                                                                          : address;
}

/** Whether the client of this address is connected to the image: it was, less than half a minute
 * ago. -errno: that cannot be told. */
static int
ceph_is_alive(const char *address)
{
	rbd_image_watcher_t w[CEPH_MAX_WATCHERS];
	size_t n = CEPH_MAX_WATCHERS;
	int r = rbd_watchers_list(ceph.image, w, &n);

	if (r < 0)
		return r == -ERANGE ? 1 : r;
	for (size_t i = 0; i < n && r == 0; i++)
		r = strcmp(ceph_plain(w[i].addr), ceph_plain(address)) == 0;
	rbd_watchers_list_cleanup(w, n);
	return r;
}

/** The lock is another client's: take it away, or refuse. */
static int
ceph_take(const struct ceph_args *a, struct rbd_hello *h, rbd_lock_mode_t mode, const char *owner)
{
	int r = ceph_is_alive(owner);

	if (r < 0)
		return ceph_refuse(h, r, "%s: who watches it cannot be told: %s", a->image,
		                   strerror(-r));
	if (r != 0 && !a->take_over)
		return ceph_refuse(h, -EBUSY,
		                   "%s: the client at %s has it, or had it half a minute ago "
		                   "(takeover=yes takes it away)",
		                   a->image, owner);
	r = ceph_blocklist(owner, CEPH_OUT_S);
	if (r < 0)
		return ceph_refuse(h, r, "%s: its owner at %s cannot be blocklisted: %s", a->image,
		                   owner, strerror(-r));
	r = rbd_lock_break(ceph.image, mode, owner);
	if (r < 0 && r != -ENOENT)
		return ceph_refuse(h, r, "%s: the lock of %s cannot be broken: %s", a->image, owner,
		                   strerror(-r));
	/* The break has blocklisted it, too, for the cluster's default time (librbd 1.16 cannot
	 * ask for another), and the last one counts. */
	r = ceph_blocklist(owner, CEPH_OUT_S);
	return r < 0 ? ceph_refuse(h, r, "%s: its owner at %s cannot be blocklisted: %s", a->image,
	                           owner, strerror(-r))
	             : 0;
}

int
ceph_lock(const struct ceph_args *a, struct rbd_hello *h)
{
	char *owner[CEPH_MAX_OWNERS];
	size_t n = CEPH_MAX_OWNERS;
	rbd_lock_mode_t mode;
	int r = rbd_lock_get_owners(ceph.image, &mode, owner, &n);

	if (r < 0 && r != -ENOENT)
		return ceph_refuse(h, r, "%s: its lock cannot be read: %s", a->image, strerror(-r));
	if (r == 0) {
		for (size_t i = 0; i < n && r == 0; i++)
			r = ceph_take(a, h, mode, owner[i]);
		rbd_lock_get_owners_cleanup(owner, n);
		if (r != 0)
			return r;
	}
	r = rbd_lock_acquire(ceph.image, RBD_LOCK_MODE_EXCLUSIVE);
	if (r == -EROFS || r == -EBUSY)
		return ceph_refuse(h, -EBUSY, "%s: another client has just taken it", a->image);
	if (r < 0)
		return ceph_refuse(h, r, "%s: its lock cannot be taken: %s", a->image,
		                   strerror(-r));
	ceph.locked = true;
	return 0;
}
