/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A device that is removed while its port is in use: noticed, taken from the interfaces,
 * given back. */

#define ALLOW_EXPERIMENTAL_API /* rte_dev_event_callback_register() */

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_ethdev.h>

#include "netif_bar.h"
#include "netif_group_priv.h"
#include "netif_priv.h"
#include "netif_removal.h"
#include "weft_device.h"
#include "weft_netif_port.h"
#include "weft_netif_removal.h"

#define WATCH_US 1000000
/** A device that is reset is silent for less than a second (PCI Express base specification, 6.6.1,
 * 6.6.2). */
#define WATCH_SILENT 3

struct netif_watch {
	LIST_ENTRY(netif_watch) link;
	uint16_t port_id;
	struct rte_device *device; /**< EAL's, until the port is closed */
	char name[RTE_DEV_NAME_MAX_LEN];
	int config_fd;       /**< weft_device_open(); -1: no PCI device */
	unsigned int silent; /**< questions in a row that got no answer */
	bool is_removed;
	enum { WATCH_OPEN = 0, WATCH_CLOSING, WATCH_CLOSED, WATCH_ABANDONED } end;
	_Atomic uint32_t let_go; /**< no interface uses the port any more */
	void (*removed)(void *arg, const char *how);
	void *arg;
};

/** All watches, and what is done with their ports. A polling thread never takes the lock. */
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, netif_watch) watches = LIST_HEAD_INITIALIZER(watches);
static bool watch_ticks;                                       /**< watch_tick() is due */
static pthread_cond_t watch_closed = PTHREAD_COND_INITIALIZER; /**< a port is WATCH_CLOSED */
static _Atomic uint32_t watch_abandoned;                       /**< a port is WATCH_ABANDONED */

/* ---- Noticing. EAL's interrupt thread; the lock is held. ---- */

static void
watch_notice(struct netif_watch *w, const char *how)
{
	if (w->is_removed)
		return;
	w->is_removed = true;
	w->removed(w->arg, how);
}

/** An event of the bus. In DPDK 22.11, unregistering the callback of one device also unregisters
 * those of other devices. So one callback serves all devices, and is never unregistered. */
static void
watch_on_device(const char *name, enum rte_dev_event_type event, void *arg)
{
	struct netif_watch *w;

	(void)arg;
	if (event != RTE_DEV_EVENT_REMOVE || name == NULL)
		return;
	pthread_mutex_lock(&watch_lock);
	LIST_FOREACH (w, &watches, link)
		if (strcmp(w->name, name) == 0)
			watch_notice(w, "the kernel asks for it");
	pthread_mutex_unlock(&watch_lock);
}

/** An event of a driver. */
static int
watch_on_port(uint16_t port_id, enum rte_eth_event_type event, void *arg, void *ret)
{
	struct netif_watch *w;

	(void)event;
	(void)arg;
	(void)ret;
	pthread_mutex_lock(&watch_lock);
	LIST_FOREACH (w, &watches, link)
		if (w->port_id == port_id)
			watch_notice(w, "its driver reports it");
	pthread_mutex_unlock(&watch_lock);
	return 0;
}

static void
watch_look(struct netif_watch *w)
{
	enum weft_device_answer answer = weft_device_ask(w->config_fd);

	w->silent = answer == WEFT_DEVICE_SILENT ? w->silent + 1 : 0;
	if (answer == WEFT_DEVICE_REMOVED)
		watch_notice(w, "the kernel has removed it");
	else if (w->silent >= WATCH_SILENT)
		watch_notice(w, "it answers no read");
	else if (netif_bar_faulted(w->port_id))
		watch_notice(w, "its registers are gone");
	else if (rte_eth_dev_is_removed(w->port_id) != 0)
		watch_notice(w, "its driver finds it gone");
}

static void watch_tick(void *arg);

static void
watch_tick_later(void)
{
	const struct netif_watch *w;

	LIST_FOREACH (w, &watches, link)
		if (!watch_ticks && w->config_fd >= 0 && !w->is_removed)
			watch_ticks = rte_eal_alarm_set(WATCH_US, watch_tick, NULL) == 0;
}

static void
watch_tick(void *arg)
{
	struct netif_watch *w;

	(void)arg;
	pthread_mutex_lock(&watch_lock);
	watch_ticks = false;
	LIST_FOREACH (w, &watches, link)
		if (w->config_fd >= 0 && !w->is_removed)
			watch_look(w);
	watch_tick_later();
	pthread_mutex_unlock(&watch_lock);
}

/* ---- Closing the port, and giving the device back ---- */

/** Whether another port uses the same device (mlx4 has two on one). */
static bool
watch_shares_device(const struct netif_watch *w)
{
	const struct netif_watch *other;

	LIST_FOREACH (other, &watches, link)
		if (other != w && other->device == w->device && other->end != WATCH_CLOSED)
			return true;
	return false;
}

/** Close the port and remove its device from EAL. EAL's interrupt thread, but not one of its
 * callbacks for this device. Without the lock: drivers wait for their hardware. */
static void
watch_give_back(struct netif_watch *w, bool shared)
{
	int ret = rte_eth_dev_stop(w->port_id);

	if (ret == 0)
		ret = rte_eth_dev_close(w->port_id);
	if (!shared && rte_dev_remove(w->device) != 0)
		ret = -EIO;
	if (ret != 0)
		WEFT_LOG(netif, WARNING, "%s is not given back whole: %s", w->name, strerror(-ret));
	netif_bar_forget(w->port_id);
}

/** The next port that no interface uses any more; NULL: none. The lock is held. */
static struct netif_watch *
watch_let_go(void)
{
	struct netif_watch *w;

	LIST_FOREACH (w, &watches, link)
		if (atomic_load_explicit(&w->let_go, memory_order_acquire) && w->is_removed &&
		    w->end == WATCH_OPEN)
			return w;
	return NULL;
}

static void
watch_give_back_all(void *arg)
{
	struct netif_watch *w;

	(void)arg;
	pthread_mutex_lock(&watch_lock);
	while ((w = watch_let_go()) != NULL) {
		bool shared = watch_shares_device(w);

		/* The kernel does not wait for this program, and the driver would wait for
		 * registers that are gone. */
		if (w->config_fd >= 0 && weft_device_ask(w->config_fd) == WEFT_DEVICE_REMOVED) {
			w->end = WATCH_ABANDONED;
			continue;
		}
		w->end = WATCH_CLOSING;
		pthread_mutex_unlock(&watch_lock);
		watch_give_back(w, shared);
		pthread_mutex_lock(&watch_lock);
		w->end = WATCH_CLOSED;
		pthread_cond_broadcast(&watch_closed);
	}
	pthread_mutex_unlock(&watch_lock);
}

bool
weft_netif_port_abandoned(void)
{
	return atomic_load_explicit(&watch_abandoned, memory_order_relaxed) != 0;
}

void
weft_netif_port_give_back(struct weft_netif_port *p)
{
	if (p->watch == NULL)
		return;
	atomic_store_explicit(&p->watch->let_go, 1, memory_order_release);
	/* Closing takes milliseconds, and a thread that polls has none for it. */
	if (rte_eal_alarm_set(1, watch_give_back_all, NULL) != 0)
		WEFT_LOG(netif, WARNING, "%s is given back when the program ends", p->watch->name);
}

/* ---- The watch ---- */

static void
watch_events(void)
{
	static bool registered;

	if (registered)
		return;
	registered = true;
	if (rte_dev_event_callback_register(NULL, watch_on_device, NULL) != 0 ||
	    rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_INTR_RMV, watch_on_port,
	                                  NULL) != 0)
		WEFT_LOG(netif, WARNING, "no memory: a removed device is noticed late");
}

int
weft_netif_port_watch(struct weft_netif_port *p, void (*removed)(void *arg, const char *how),
                      void *arg)
{
	struct rte_eth_dev_info info;
	struct netif_watch *w;

	if (rte_eth_dev_info_get(p->port_id, &info) != 0 || info.device == NULL)
		return -ENODEV;
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		return -ENOMEM;
	w->port_id = p->port_id;
	w->device = (struct rte_device *)(uintptr_t)info.device;
	snprintf(w->name, sizeof(w->name), "%s", rte_dev_name(info.device));
	w->removed = removed;
	w->arg = arg;
	if (weft_device_open(&weft_device_kernel, w->name, &w->config_fd) != 0)
		w->config_fd = -1;
	pthread_mutex_lock(&watch_lock);
	watch_events();
	if (w->config_fd >= 0)
		netif_bar_watch(w->port_id, w->name);
	LIST_INSERT_HEAD(&watches, w, link);
	watch_tick_later();
	p->watch = w;
	pthread_mutex_unlock(&watch_lock);
	return 0;
}

void
weft_netif_port_unwatch(struct weft_netif_port *p)
{
	struct netif_watch *w = p->watch;

	if (w == NULL)
		return;
	pthread_mutex_lock(&watch_lock);
	while (w->end == WATCH_CLOSING)
		pthread_cond_wait(&watch_closed, &watch_lock);
	LIST_REMOVE(w, link);
	pthread_mutex_unlock(&watch_lock);
	if (w->is_removed && w->config_fd >= 0 && w->end == WATCH_OPEN &&
	    weft_device_ask(w->config_fd) == WEFT_DEVICE_REMOVED)
		w->end = WATCH_ABANDONED;
	if (w->end == WATCH_ABANDONED)
		atomic_store_explicit(&watch_abandoned, 1, memory_order_relaxed);
	p->given_back = w->end != WATCH_OPEN;
	p->watch = NULL;
	if (w->config_fd >= 0)
		close(w->config_fd);
	free(w);
}

bool
netif_removal_begin(const struct weft_netif_port *p)
{
	if (p->watch == NULL)
		return !p->given_back;
	pthread_mutex_lock(&watch_lock);
	if (!p->watch->is_removed)
		return true;
	pthread_mutex_unlock(&watch_lock);
	return false;
}

void
netif_removal_end(const struct weft_netif_port *p)
{
	if (p->watch != NULL)
		pthread_mutex_unlock(&watch_lock);
}

/* ---- The interface of a removed device ---- */

static uint16_t
removed_rx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	(void)arg;
	(void)pkts;
	(void)n;
	return 0;
}

static uint16_t
removed_tx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	struct weft_netif *nif = arg;

	nif->stats.tx_removed += n;
	rte_pktmbuf_free_bulk(pkts, n);
	return n;
}

static bool
removed_link(void *arg)
{
	(void)arg;
	return false;
}

/** Nothing arrives, so the sleep may be long. */
static int
removed_arm(void *arg, bool on)
{
	(void)arg;
	(void)on;
	return -EALREADY;
}

static const struct weft_netif_dev removed_dev = {
        .rx = removed_rx, .tx = removed_tx, .link = removed_link, .arm = removed_arm};

void
weft_netif_remove(struct weft_netif *nif)
{
	if (nif->stats.dev_removed)
		return;
	nif->stats.dev_removed = 1;
	if (nif->sleep.armed)
		(void)nif->attr.dev->arm(nif->attr.dev_arg, false);
	/* The descriptor is closed with the device, and its number is used again. */
	nif->sleep = (struct netif_sleep){.fd = -1};
	nif->packet = (struct netif_packet){.n = 0};
	if (nif->attr.group != NULL) {
		netif_group_set_dev(nif, &removed_dev, nif);
	} else {
		nif->attr.dev = &removed_dev;
		nif->attr.dev_arg = nif;
	}
	nif->stats.tx_removed += nif->tail - nif->head;
	for (; nif->head != nif->tail; nif->head++)
		rte_pktmbuf_free(nif->ring[nif->head % NETIF_RING]);
	nif->stalled = false;
	nif->stall_due_ns = 0;
	nif->link_due_ns = 0;
}
