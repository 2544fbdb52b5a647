/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Shape 2: the workers run in threads of their own. The client's threads sleep on file
 * descriptors. */

#include <poll.h>
#include <pthread.h>

#include "shape.h"

static struct shape s;
static struct weft_cq *cq[2];
static struct weft_evq *evq[2];

static struct weft_event
wait_event(unsigned int i, enum weft_event_type type)
{
	struct pollfd p = {.fd = weft_evq_fd(evq[i]), .events = POLLIN};
	struct weft_event ev;

	while (weft_evq_poll(evq[i], &ev) == 0)
		MUST(poll(&p, 1, 20000) == 1);
	MUST(ev.type == type);
	return ev;
}

static struct weft_wc
wait_wc(unsigned int i)
{
	struct pollfd p = {.fd = weft_cq_fd(cq[i]), .events = POLLIN};
	struct weft_wc wc;
	uint64_t count;

	for (;;) {
		if (weft_cq_poll(cq[i], &wc, 1) == 1)
			return wc;
		if (weft_cq_arm(cq[i], false) == 1)
			continue;
		MUST(poll(&p, 1, 20000) == 1);
		MUST(read(p.fd, &count, sizeof(count)) == sizeof(count));
	}
}

static void *
server_main(void *arg)
{
	static uint8_t in[SHAPE_BYTES];
	struct weft_event ev = wait_event(0, WEFT_EV_CONNECT_REQUEST);
	struct weft_qp *qp = shape_qp(&s, weft_connreq_worker(ev.connreq), cq[0], evq[0], NULL);

	(void)arg;
	shape_recv(qp, in, sizeof(in));
	MUST(weft_accept(ev.connreq, qp, NULL) == 0);
	wait_event(0, WEFT_EV_ESTABLISHED);
	for (;;) {
		struct weft_wc wc = wait_wc(0);

		if (wc.status != WEFT_WC_SUCCESS)
			break;
		/* Both use `in`: the client sends its next message after it has the echo. */
		shape_recv(qp, in, sizeof(in));
		shape_send(qp, in, wc.len_bytes);
	}
	wait_event(0, WEFT_EV_DISCONNECTED);
	weft_qp_destroy(qp);
	return NULL;
}

int
main(void)
{
	static uint8_t in[SHAPE_BYTES], out[SHAPE_BYTES];
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in sa = shape_addr(1);
	struct weft_listener *lsn;
	struct weft_qp *qp;
	pthread_t server;

	shape_up(&s);
	for (unsigned int i = 0; i < 2; i++)
		shape_queues(&s, true, &cq[i], &evq[i]);
	la.evq = evq[0];
	MUST(weft_listen(s.ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &lsn) == 0);
	MUST(pthread_create(&server, NULL, server_main, NULL) == 0);

	qp = shape_qp(&s, s.client, cq[1], evq[1], NULL);
	MUST(weft_connect(qp, (struct sockaddr *)&sa, sizeof(sa), NULL) == 0);
	wait_event(1, WEFT_EV_ESTABLISHED);
	for (unsigned int i = 0; i < SHAPE_ROUNDS; i++) {
		struct weft_wc wc;

		memset(out, (int)i, sizeof(out));
		shape_recv(qp, in, sizeof(in));
		shape_send(qp, out, sizeof(out));
		wc = wait_wc(1);
		MUST(wc.status == WEFT_WC_SUCCESS && wc.len_bytes == SHAPE_BYTES);
		MUST(memcmp(in, out, SHAPE_BYTES) == 0);
	}
	MUST(weft_disconnect(qp) == 0);
	wait_event(1, WEFT_EV_DISCONNECTED);
	weft_qp_destroy(qp);
	pthread_join(server, NULL);
	weft_unlisten(lsn);
	for (unsigned int i = 0; i < 2; i++) {
		MUST(weft_cq_destroy(cq[i]) == 0);
		MUST(weft_evq_destroy(evq[i]) == 0);
	}
	shape_down(&s);
	shape_ok("threads that sleep");
	return 0;
}
