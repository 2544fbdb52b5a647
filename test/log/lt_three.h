/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LT_THREE_H
#define LT_THREE_H

/** @file Shared by the tests with three targets and a quorum of two. */

#include "lt.h"

static struct lt l;

static inline void
start(const struct lt_attr *a)
{
	struct lt_attr at = *a;

	at.targets = 3;
	at.quorum = 2;
	lt_open(&l, &at);
	lt_recover(&l, 7);
	CHECK_MSG(l.verdict == LT_SOUND, "%s (%d)", lt_verdict_str(l.verdict), l.fail_status);
}

static inline void
finish(void)
{
	CHECK_MSG(l.verdict == LT_SOUND, "%s (%d)", lt_verdict_str(l.verdict), l.fail_status);
	lt_close(&l);
}

static inline bool
all_live(void *arg)
{
	struct lt *x = arg;
	struct weft_log_info info = lt_info(x);

	for (unsigned int i = 0; i < 3; i++)
		if (info.target[i].state != WEFT_LOG_TARGET_LIVE ||
		    info.target[i].durable.seq != info.end.seq)
			return false;
	return info.durable.seq == info.end.seq && x->bufs == 0;
}

static inline bool
three_live(void)
{
	struct weft_log_info info = lt_info(&l);
	unsigned int n = 0;

	for (unsigned int i = 0; i < 3; i++)
		n += info.target[i].state == WEFT_LOG_TARGET_LIVE;
	return n == 3;
}

static inline bool
all_durable(void *arg)
{
	return ((struct lt *)arg)->in_flight == 0;
}

static inline void
append_n(unsigned int n, uint32_t len)
{
	for (unsigned int i = 0; i < n; i++)
		CHECK_EQ(lt_append(&l, len), 0);
}

/** on: flushes of target i take long from now on. Otherwise they are as configured. */
static inline void
stall(unsigned int i, bool on)
{
	struct weft_persist_sim_cfg cfg = l.cfg;

	if (on)
		cfg.delay_min_ns = cfg.delay_max_ns = 200 * VT_MS;
	weft_persist_sim_set(l.target[i].persist, &cfg);
}

/** Each flush at target i takes this long. */
static inline void
slow(unsigned int i, uint64_t ms)
{
	struct weft_persist_sim_cfg cfg = l.cfg;

	cfg.delay_min_ns = cfg.delay_max_ns = ms * VT_MS;
	weft_persist_sim_set(l.target[i].persist, &cfg);
}

/** Append n records, each durable before the next. */
static inline void
put(unsigned int n, uint32_t len)
{
	for (unsigned int i = 0; i < n; i++) {
		append_n(1, len);
		CHECK(lt_until(&l, all_durable));
	}
}

static inline void
trim_to(const struct weft_log_at *keep)
{
	l.trim_seq = keep->seq;
	CHECK_EQ(weft_log_trim(l.log, keep), 0);
}

/** Whether target 1 catches up. */
static inline bool
one_catches(void *arg)
{
	struct lt *x = arg;

	return x->target[1].joined >= 0 &&
	       lt_info(x).target[x->target[1].joined].state == WEFT_LOG_TARGET_CATCHING;
}

static inline void
drop(unsigned int i)
{
	if (l.target[i].client != NULL)
		CHECK_EQ(weft_log_leave(l.log, l.target[i].client), 0);
}

static inline void
rejoin(unsigned int i)
{
	drop(i);
	CHECK_EQ(lt_join(&l, i), 0);
}

/** Whether the log reports that target i has every record. */
static inline bool
is_live(unsigned int i)
{
	return l.target[i].joined >= 0 &&
	       lt_info(&l).target[l.target[i].joined].state == WEFT_LOG_TARGET_LIVE;
}

/** All three targets lose power and the writer crashes. Then the targets restart, and none is slow.
 */
static inline void
power_cut(void)
{
	for (unsigned int i = 0; i < 3; i++)
		if (!l.target[i].off)
			lt_cut_target(&l, i);
	lt_kill_writer(&l);
	for (unsigned int i = 0; i < 3; i++) {
		lt_boot_target(&l, i);
		stall(i, false);
	}
}

#endif /* LT_THREE_H */
