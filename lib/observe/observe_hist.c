/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The public histogram of the duration of a worker's polls. */

#include "observe_priv.h"

int
weft_worker_poll_hist(struct weft_worker *w, struct weft_poll_hist *h)
{
	const struct weft_engine_hist *hist;

	if (WEFT_HANDLE_BAD(w, WORKER) || h == NULL || h->size != sizeof(*h))
		return -EINVAL;
	/* There may have been no poll yet. This call sets up the rate of the TSC, which
	 * weft_engine_cycles_ns() needs. */
	(void)weft_engine_clock_ns();
	hist = weft_engine_hist(w);
	h->polls = 0;
	h->sum_ns = weft_engine_cycles_ns(weft_engine_hist_read(&hist->busy_cycles));
	h->max_ns = weft_engine_cycles_ns(weft_engine_hist_read(&hist->max_cycles));
	for (unsigned int i = 0; i < WEFT_POLL_HIST_BUCKETS; i++) {
		h->bucket[i].polls = weft_engine_hist_read(&hist->bucket[i]);
		h->bucket[i].below_ns = weft_engine_cycles_ns(weft_engine_hist_end(i)) + 1;
		h->polls += h->bucket[i].polls;
	}
	h->bucket[WEFT_POLL_HIST_BUCKETS - 1].below_ns = UINT64_MAX;
	return 0;
}

void
weft_poll_hist_since(struct weft_poll_hist *h, const struct weft_poll_hist *from)
{
	uint64_t longest_ns = 0;

	if (h == NULL || from == NULL)
		return;
	for (unsigned int i = 0; i < WEFT_POLL_HIST_BUCKETS; i++) {
		h->bucket[i].polls -= from->bucket[i].polls;
		if (h->bucket[i].polls > 0)
			longest_ns = h->bucket[i].below_ns;
	}
	h->polls -= from->polls;
	h->sum_ns -= from->sum_ns;
	if (h->max_ns == from->max_ns)
		h->max_ns = RTE_MIN(h->max_ns, longest_ns);
}

uint64_t
weft_poll_hist_pct_ns(const struct weft_poll_hist *h, double pct)
{
	double left;

	if (h == NULL)
		return 0;
	left = (double)h->polls * pct / 100;
	for (unsigned int i = 0; i < WEFT_POLL_HIST_BUCKETS; i++) {
		left -= (double)h->bucket[i].polls;
		if (left <= 0 && h->bucket[i].polls > 0)
			return RTE_MIN(h->bucket[i].below_ns, h->max_ns);
	}
	return 0;
}
