/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The course of a queue pair's connection; all queue pairs. */

#include "device.h"
#include "engine.h"
#include "qp.h"

#include <errno.h>
#include <time.h>

/** Of the process, after a connection ended. */
#define QP_LAST_ACK_NS      (300 * 1000 * 1000ULL)
#define QP_LAST_ACK_STEP_US 500
/** Of a connection whose QP is destroyed: until both sides have closed. */
#define QP_CLOSE_US (1000 * 1000)
/** Of a QP that is destroyed: until its peer has closed, too. The most, and the least of each. */
#define QP_WAIT_NS     (300 * 1000 * 1000ULL)
#define QP_WAIT_MIN_NS (5 * 1000 * 1000ULL)
#define QP_WAIT_NAP_NS (20 * 1000ULL) /**< between two polls that do nothing */

static TAILQ_HEAD(, wv_qp) qps = TAILQ_HEAD_INITIALIZER(qps);
static uint32_t next_num = 1;
static uint64_t last_down_ns; /**< when a connection ended; 0: none did */
static unsigned int left;     /**< connections that close, whose QP is destroyed */

struct wv_qp *
wv_qp_find(uint32_t num)
{
	struct wv_qp *q;

	TAILQ_FOREACH (q, &qps, link)
		if (q->ibv.qp_num == num)
			return q;
	return NULL;
}

void
wv_qp_each(void (*fn)(struct wv_qp *q, void *arg), void *arg)
{
	struct wv_qp *q;

	TAILQ_FOREACH (q, &qps, link)
		fn(q, arg);
}

void
wv_qp_enlist(struct wv_qp *q)
{
	/* 24 bits, never 0 or 1 */
	do
		next_num = next_num % 0xfffffe + 1;
	while (next_num < 2 || wv_qp_find(next_num) != NULL);
	q->ibv.handle = q->ibv.qp_num = next_num;
	TAILQ_INSERT_TAIL(&qps, q, link);
}

void
wv_qp_unlist(struct wv_qp *q)
{
	TAILQ_REMOVE(&qps, q, link);
}

void
wv_qp_up(struct wv_qp *q)
{
	struct weft_qp_info info;

	weft_qp_query(q->qp, &info);
	q->up = true;
	q->ord = info.ord;
	q->ibv.state = IBV_QPS_RTS;
}

void
wv_qp_down(struct wv_qp *q)
{
	if (q->up)
		last_down_ns = wv_now_ns();
	q->up = q->busy = false;
	q->ibv.state = IBV_QPS_ERR;
}

int
wv_qp_close(struct wv_qp *q)
{
	int rc = q->qp != NULL && q->busy ? weft_disconnect(q->qp) : 0;

	if (rc == 0 && q->up && q->ibv.state == IBV_QPS_RTS)
		q->ibv.state = IBV_QPS_SQD;
	/* It is closed already: DISCONNECTED has come, or is on its way. */
	return rc == -ENOTCONN ? 0 : rc;
}

void
wv_qp_abort(struct wv_qp *q)
{
	if (q->qp == NULL)
		return;
	if (q->busy) {
		(void)weft_abort(q->qp);
		q->ibv.state = IBV_QPS_ERR;
		return;
	}
	if (q->ibv.state == IBV_QPS_ERR)
		return;
	/* Never connected: what is posted completes as flushed when weft's QP goes. */
	weft_qp_destroy(q->qp);
	q->qp = NULL;
	q->ibv.state = IBV_QPS_ERR;
	(void)wv_poll_locked();
	(void)weft_cq_destroy(q->wcq);
	q->wcq = NULL;
}

/** Whether all that was sent has arrived. */
static bool
qp_quiet(const struct wv_qp *q)
{
	struct weft_qp_info info;

	weft_qp_query(q->qp, &info);
	return info.unacked_bytes == 0 && info.sq_used == 0;
}

void
wv_qp_abort_context(const struct ibv_context *context)
{
	struct wv_qp *q;

	TAILQ_FOREACH (q, &qps, link)
		if (q->busy && q->ibv.context == context)
			wv_qp_abort(q);
}

void
wv_qp_abort_device(unsigned int number)
{
	struct wv_qp *q;

	TAILQ_FOREACH (q, &qps, link)
		if (q->busy && wv_context_number(q->ibv.context) == number)
			wv_qp_abort(q);
}

/* ---- Before weft's QP goes ---- */

/** A connection whose QP was destroyed has ended. */
static void
qp_left_ended(void *arg, int status)
{
	(void)arg;
	(void)status;
	left--;
	last_down_ns = wv_now_ns();
}

/**
 * How long queue pairs that are destroyed one after another may wait for their peers to close, too:
 * QP_WAIT_NS together, which comes back in ten times as long, and QP_WAIT_MIN_NS each. So a program
 * whose peers are gone, or slow, does not wait for long once for each. Time that several threads
 * wait at once counts for each of them.
 */
static struct qp_patience {
	uint64_t spent_ns;
	uint64_t at_ns; /**< when what comes back was reckoned */
} patience;

static void
qp_patience_back(uint64_t now_ns)
{
	const uint64_t back_ns = (now_ns - patience.at_ns) / 10;

	patience.spent_ns -= back_ns < patience.spent_ns ? back_ns : patience.spent_ns;
	patience.at_ns = now_ns;
}

/** Whether some is left for a queue pair that has waited for waited_ns, since_ns of it new. */
static bool
qp_patience_left(uint64_t waited_ns, uint64_t since_ns)
{
	patience.spent_ns += since_ns;
	if (patience.spent_ns > QP_WAIT_NS)
		patience.spent_ns = QP_WAIT_NS;
	return waited_ns < QP_WAIT_MIN_NS || patience.spent_ns < QP_WAIT_NS;
}

void
wv_qp_leave(struct wv_qp *q)
{
	const uint64_t begin_ns = wv_now_ns();
	uint64_t now_ns, last_ns = begin_ns;
	bool more;
	int rc;

	if (!q->up)
		return;
	qp_patience_back(begin_ns);
	(void)wv_qp_close(q);
	/*
	 * What was posted is sent. A peer that is about to send its last message, too, may do so,
	 * and closes then: siw's Sends fail when this end has closed before. Other threads get the
	 * lock, those among them that poll or post.
	 */
	do {
		wv_give_way(wv_poll_locked() > 0 ? 0 : QP_WAIT_NAP_NS);
		now_ns = wv_now_ns();
		more = qp_patience_left(now_ns - begin_ns, now_ns - last_ns);
		last_ns = now_ns;
	} while (q->up && more);
	if (!q->up)
		return;
	/* The connection closes without it; with requests that are not sent yet it is reset. */
	rc = weft_qp_leave(q->qp, QP_CLOSE_US, qp_left_ended, NULL);
	if (rc < 0)
		return;
	q->qp = NULL;
	left += rc > 0;
	/* The port gets data and FIN, whatever the program does next. */
	if (rc > 0)
		(void)wv_poll_locked();
}

/* ---- The end of the process ---- */

void
wv_qp_drain_all(uint64_t end_ns)
{
	struct wv_qp *q;
	bool quiet;

	TAILQ_FOREACH (q, &qps, link)
		if (q->up)
			(void)wv_qp_close(q);
	do {
		(void)wv_poll_locked();
		quiet = left == 0;
		TAILQ_FOREACH (q, &qps, link)
			if (q->up && !qp_quiet(q))
				quiet = false;
	} while (!quiet && wv_now_ns() < end_ns);
	/*
	 * The side that closed first stays in TIME-WAIT, to answer the peer's FIN if the last ACK
	 * gets lost (RFC 9293 s3.6.1). The kernel does so after the end of a process; here the
	 * process has to stay. In shared memory what the peer has not read yet is lost, too.
	 */
	while (last_down_ns != 0 && wv_now_ns() < last_down_ns + QP_LAST_ACK_NS)
		if (wv_poll_locked() == 0)
			weft_worker_idle(wv_engine.worker, QP_LAST_ACK_STEP_US);
}
