/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The link of the port, looked at from time to time. */

#include "port_link.h"

#include "async.h"
#include "engine.h"
#include "helper.h"
#include "portd.h"
#include "qp.h"
#include "ucm.h"

#define LINK_LOOK_US 200000

static bool watched, up, ever, gone;

static void
link_look(void *arg)
{
	struct weft_port_stats st = {0};
	struct weft_alarm *alarm;
	bool now;

	(void)arg;
	(void)weft_port_stats(wv_engine.port, &st);
	wv_portd_sweep();
	now = !wv_portd_gone() && st.link_up && !st.removed;
	if (now == up)
		wv_helper_no_work();
	if (now != up && (now || ever))
		wv_async_port(now ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	if (!now && up && !st.link_returns)
		wv_qp_abort_all(NULL);
	up = now;
	ever |= now;
	/* As the kernel tells of a device that is unplugged. */
	if (st.removed && !gone) {
		gone = true;
		wv_async_port(IBV_EVENT_DEVICE_FATAL);
		wv_ucm_device_removed();
	}
	(void)weft_alarm_set(wv_engine.worker, LINK_LOOK_US, link_look, NULL, &alarm);
}

void
wv_link_watch(void)
{
	struct weft_port_stats st = {0};
	struct weft_alarm *alarm;

	if (watched)
		return;
	watched = true;
	(void)weft_port_stats(wv_engine.port, &st);
	up = ever = st.link_up && !st.removed;
	(void)weft_alarm_set(wv_engine.worker, LINK_LOOK_US, link_look, NULL, &alarm);
}
