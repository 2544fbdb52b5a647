/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the example programs share: set-up, one connection, waiting. */

#include "example.h"

#include <arpa/inet.h>
#include <time.h>

#define WAIT_S 10

void
example_open(struct example *ex, const char *dev, const char *cidr)
{
	struct weft_env_attr ea = {.size = sizeof(ea), .progname = "example", .memory_mb = 128};
	struct weft_port_attr pa = {.size = sizeof(pa), .name = "p0", .dev = dev, .mbufs = 4096};
	struct weft_worker_attr wa = {.size = sizeof(wa), .name = "w0", .lcore = -1};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 64};
	struct weft_evq_attr va = {.size = sizeof(va)};
	struct sockaddr_in sa = {.sin_family = AF_INET};
	char host[INET_ADDRSTRLEN];
	struct weft_port *port;
	const char *why = "";
	unsigned int bits;

	MUST(sscanf(cidr, "%15[0-9.]/%u", host, &bits) == 2 && bits <= 32);
	MUST(inet_pton(AF_INET, host, &sa.sin_addr) == 1);
	pa.prefix_len = (uint8_t)bits;
	memcpy(&pa.addr, &sa, sizeof(sa));
	if (weft_env_init(&ea, &why) < 0) {
		fprintf(stderr, "DPDK does not start: %s\n", why);
		exit(1);
	}
	MUST(weft_ctx_create(NULL, &ex->ctx) == 0);
	MUST(weft_port_open(ex->ctx, &pa, &port) == 0);
	MUST(weft_worker_create(ex->ctx, &wa, &ex->worker) == 0);
	MUST(weft_worker_add_port(ex->worker, port) == 0);
	MUST(weft_pd_alloc(ex->ctx, &ex->pd) == 0);
	MUST(weft_cq_create(ex->ctx, &ca, &ex->cq) == 0);
	MUST(weft_evq_create(ex->ctx, &va, &ex->evq) == 0);
}

void
example_close(struct example *ex)
{
	weft_ctx_destroy(ex->ctx); /* and everything that was made in it */
	weft_env_fini();
}

/* ---- Waiting: the worker makes progress only while a thread polls it ---- */

static struct timespec
wait_begin(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t;
}

static void
wait_turn(struct example *ex, struct timespec since)
{
	struct timespec now = wait_begin();

	if (now.tv_sec - since.tv_sec > WAIT_S) {
		fprintf(stderr, "nothing has happened for %d s\n", WAIT_S);
		exit(1);
	}
	if (weft_worker_poll(ex->worker) == 0)
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

void
example_wait(struct example *ex, const bool *flag)
{
	struct timespec since = wait_begin();

	while (!*flag)
		wait_turn(ex, since);
}

struct weft_event
example_any_event(struct example *ex)
{
	struct weft_event ev;

	while (weft_evq_poll(ex->evq, &ev) == 0)
		wait_turn(ex, wait_begin());
	return ev;
}

struct weft_event
example_event(struct example *ex, enum weft_event_type type)
{
	struct timespec since = wait_begin();
	struct weft_event ev;

	for (;;) {
		while (weft_evq_poll(ex->evq, &ev) == 1) {
			if (ev.type == type)
				return ev;
			fprintf(stderr, "%s: %s\n", weft_event_str(ev.type), strerror(-ev.status));
			exit(1);
		}
		wait_turn(ex, since);
	}
}

struct weft_wc
example_completion(struct example *ex)
{
	struct timespec since = wait_begin();
	struct weft_wc wc;

	while (weft_cq_poll(ex->cq, &wc, 1) == 0)
		wait_turn(ex, since);
	if (wc.status != WEFT_WC_SUCCESS) {
		fprintf(stderr, "a work request failed: %s\n", weft_wc_status_str(wc.status));
		exit(1);
	}
	return wc;
}

/* ---- One connection ---- */

void
example_qp(struct example *ex, struct weft_worker *worker)
{
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = worker,
	                          .send_cq = ex->cq,
	                          .recv_cq = ex->cq,
	                          .evq = ex->evq};

	MUST(weft_qp_create(ex->pd, &qa, &ex->qp) == 0);
}

void
example_accept(struct example *ex, void *buf, uint32_t buf_bytes, const void *tell,
               uint32_t tell_bytes)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(EXAMPLE_PORT)};
	struct weft_listen_attr la = {.size = sizeof(la), .evq = ex->evq};
	struct weft_conn_attr ca = {.size = sizeof(ca),
	                            .private_data = tell,
	                            .private_data_bytes = (uint16_t)tell_bytes};
	struct weft_listener *listener;
	struct weft_event ev;

	MUST(weft_listen(ex->ctx, (struct sockaddr *)&any, sizeof(any), &la, &listener) == 0);
	printf("waiting for a client\n");
	fflush(stdout);
	ev = example_any_event(ex);
	MUST(ev.type == WEFT_EV_CONNECT_REQUEST);
	example_qp(ex, weft_connreq_worker(ev.connreq));
	if (buf != NULL) {
		struct weft_sge sg = {.addr = buf, .len_bytes = buf_bytes};
		struct weft_recv_wr wr = {.sg_list = &sg, .num_sge = 1};

		MUST(weft_post_recv(ex->qp, &wr, 1) == 1);
	}
	MUST(weft_accept(ev.connreq, ex->qp, &ca) == 0);
	(void)example_event(ex, WEFT_EV_ESTABLISHED);
	weft_unlisten(listener);
}

void
example_connect(struct example *ex, const char *host, void *told, uint32_t size)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(EXAMPLE_PORT)};
	struct weft_event ev;

	MUST(inet_pton(AF_INET, host, &sa.sin_addr) == 1);
	example_qp(ex, ex->worker);
	MUST(weft_connect(ex->qp, (struct sockaddr *)&sa, sizeof(sa), NULL) == 0);
	ev = example_event(ex, WEFT_EV_ESTABLISHED);
	if (told != NULL) {
		MUST(ev.private_data_bytes == size);
		memcpy(told, ev.private_data, size);
	}
}
