/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Shape 4: a program that initializes EAL itself and has a loop of its own. One of its threads is
 * unknown to EAL. This is the only shape that includes a DPDK header: it is a DPDK program that
 * uses weft.
 */

#include <pthread.h>

#include <rte_eal.h>

#include "shape.h"

static struct shape s;
static struct weft_mr *mr[2];
static uint8_t mem[2][SHAPE_BYTES];
static unsigned int stop, ticks;

/** The program's own event loop. It polls the worker beside other work. */
static void *
reactor(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		ticks++; /* other work */
		if (weft_worker_poll(s.server) == 0)
			weft_worker_idle(s.server, 100);
	}
	weft_worker_detach(s.server);
	return NULL;
}

static void
server_event(void *user, const struct weft_event *ev)
{
	struct weft_cq **cq = user;

	if (ev->type == WEFT_EV_CONNECT_REQUEST) {
		struct weft_qp *qp = shape_qp(&s, weft_connreq_worker(ev->connreq), *cq,
		                              *(struct weft_evq **)(cq + 1), NULL);
		uint32_t stag = weft_mr_stag(mr[0]);
		struct weft_conn_attr ca = {.size = sizeof(ca),
		                            .private_data = &stag,
		                            .private_data_bytes = sizeof(stag)};

		MUST(weft_accept(ev->connreq, qp, &ca) == 0);
	} else if (ev->type == WEFT_EV_DISCONNECTED) {
		weft_qp_destroy(ev->qp);
	}
}

int
main(int argc, char **argv)
{
	char a0[] = "own-eal", a1[] = "--no-huge", a2[] = "--no-pci", a3[] = "--no-shconf",
	     a4[] = "--no-telemetry", a5[] = "-m", a6[] = "192", a7[] = "--lcores", a8[] = "0@0",
	     a9[] = "--log-level=lib.eal:error";
	char *eal[] = {a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, NULL};
	struct {
		struct weft_cq *cq;
		struct weft_evq *evq;
	} server, client;
	struct weft_env_attr env = {.size = sizeof(env)};
	/* A window update may complete many requests at once. The CQ has room for those of the send
	 * queue and the receive queue together. */
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 512};
	struct weft_evq_attr sea = {.size = sizeof(sea), .on_event = server_event, .user = &server};
	struct weft_evq_attr cea = {.size = sizeof(cea)};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in sa = shape_addr(1);
	struct weft_listener *lsn;
	struct weft_event ev = {0};
	struct weft_wc wc;
	struct weft_qp *qp;
	pthread_t thread;
	uint32_t stag = 0;
	unsigned int written = 0;
	bool down = false;

	(void)argc;
	(void)argv;
	MUST(rte_eal_init(10, eal) == 9);
	MUST(weft_env_init(&env, NULL) == -EALREADY);
	shape_open(&s);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_mr_attr ma = {.size = sizeof(ma),
		                          .addr = mem[i],
		                          .len_bytes = SHAPE_BYTES,
		                          .access = WEFT_ACCESS_REMOTE_WRITE};
		MUST(weft_mr_reg(s.pd, &ma, &mr[i]) == 0);
	}
	MUST(weft_cq_create(s.ctx, &ca, &server.cq) == 0);
	MUST(weft_cq_create(s.ctx, &ca, &client.cq) == 0);
	MUST(weft_evq_create(s.ctx, &sea, &server.evq) == 0);
	MUST(weft_evq_create(s.ctx, &cea, &client.evq) == 0);
	la.evq = server.evq;
	la.user = &server;
	MUST(weft_listen(s.ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &lsn) == 0);
	MUST(pthread_create(&thread, NULL, reactor, NULL) == 0);

	qp = shape_qp(&s, s.client, client.cq, client.evq, NULL);
	MUST(weft_connect(qp, (struct sockaddr *)&sa, sizeof(sa), NULL) == 0);
	memset(mem[1], 0x5a, SHAPE_BYTES);
	while (!down) {
		if (weft_worker_poll(s.client) == 0)
			weft_worker_idle(s.client, 100);
		while (weft_evq_poll(client.evq, &ev) == 1) {
			MUST(ev.type == WEFT_EV_ESTABLISHED || ev.type == WEFT_EV_DISCONNECTED);
			down = ev.type == WEFT_EV_DISCONNECTED;
			if (!down)
				memcpy(&stag, ev.private_data, sizeof(stag));
		}
		while (weft_cq_poll(client.cq, &wc, 1) == 1)
			MUST(wc.status == WEFT_WC_SUCCESS);
		if (stag != 0 && written < SHAPE_ROUNDS) {
			struct weft_sge sg = {.addr = mem[1], .len_bytes = SHAPE_BYTES};
			struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
			                     .flags = WEFT_WR_SIGNALED,
			                     .sg_list = &sg,
			                     .num_sge = 1,
			                     .rdma = {.stag = stag}};
			written += weft_post_send(qp, &wr, 1) == 1;
			if (written == SHAPE_ROUNDS)
				MUST(weft_disconnect(qp) == 0);
		}
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	MUST(memcmp(mem[0], mem[1], SHAPE_BYTES) == 0);
	MUST(ticks > 0);
	weft_worker_detach(s.client);
	weft_ctx_destroy(s.ctx);
	rte_eal_cleanup();
	shape_ok("an EAL and a loop of one's own");
	return 0;
}
