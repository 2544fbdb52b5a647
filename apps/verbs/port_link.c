/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The links of the ports, looked at from time to time. */

#include "port_link.h"

#include "async.h"
#include "engine.h"
#include "helper.h"
#include "portd.h"
#include "qp.h"
#include "ucm.h"

#define LINK_LOOK_US 200000

static struct link_of {
	bool up, ever, gone;
} links[CONF_PORTS_MAX];
static bool watched;

static bool
link_is_up(unsigned int i, struct weft_port_stats *st)
{
	*st = (struct weft_port_stats){0};
	(void)weft_port_stats(wv_engine.ports[i], st);
	return !wv_portd_gone() && st->link_up && !st->removed;
}

/** Returns whether something has changed. */
static bool
link_look_at(unsigned int i)
{
	struct link_of *l = &links[i];
	const bool was_up = l->up;
	struct weft_port_stats st;
	const bool now = link_is_up(i, &st);

	if (now != l->up && (now || l->ever))
		wv_async_port(i, now ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	if (!now && l->up && !st.link_returns)
		wv_qp_abort_device(i);
	l->up = now;
	l->ever |= now;
	/* As the kernel tells of a device that is unplugged. */
	if (st.removed && !l->gone) {
		l->gone = true;
		wv_async_port(i, IBV_EVENT_DEVICE_FATAL);
		wv_ucm_device_removed(i);
	}
	return now != was_up;
}

static void
link_look(void *arg)
{
	struct weft_alarm *alarm;
	bool changed = false;

	(void)arg;
	for (unsigned int i = 0; i < wv_engine.nports; i++)
		changed |= link_look_at(i);
	wv_portd_sweep();
	if (!changed)
		wv_helper_no_work();
	(void)weft_alarm_set(wv_engine.worker, LINK_LOOK_US, link_look, NULL, &alarm);
}

void
wv_link_watch(void)
{
	struct weft_port_stats st;
	struct weft_alarm *alarm;

	if (watched)
		return;
	watched = true;
	for (unsigned int i = 0; i < wv_engine.nports; i++)
		links[i].up = links[i].ever = link_is_up(i, &st);
	(void)weft_alarm_set(wv_engine.worker, LINK_LOOK_US, link_look, NULL, &alarm);
}
