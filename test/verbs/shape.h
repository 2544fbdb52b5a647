/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHAPE_H
#define SHAPE_H

/**
 * @file
 * Shared by the shape programs: one process with two ports joined by memif, a server on 10.1.0.1
 * and a client on 10.1.0.2. Only public headers are included, as in any program outside weft.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#define SHAPE_PORT   7471
#define SHAPE_ROUNDS 200
#define SHAPE_BYTES  3000

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("Bail out! %s:%d: %s\n", __FILE__, __LINE__, #cond);                \
			fflush(stdout);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

struct shape {
	struct weft_ctx *ctx;
	struct weft_worker *server, *client;
	struct weft_pd *pd;
};

static inline void
shape_env(void)
{
	struct weft_env_attr ea = {.size = sizeof(ea), .progname = "shape", .memory_mb = 192};
	const char *msg;
	int rc = weft_env_init(&ea, &msg);

	if (rc < 0) {
		printf("Bail out! %s\n", msg != NULL ? msg : strerror(-rc));
		exit(1);
	}
}

static inline struct sockaddr_in
shape_addr(unsigned int host)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
	                            .sin_port = htons(SHAPE_PORT),
	                            .sin_addr.s_addr = htonl(0x0a010000 + host)};
}

static inline struct weft_worker *
shape_worker(struct weft_ctx *ctx, const char *name, const char *role, unsigned int host)
{
	struct weft_worker_attr wa = {.size = sizeof(wa), .name = name, .lcore = -1};
	struct weft_port_attr pa = {
	        .size = sizeof(pa), .name = name, .prefix_len = 24, .mbufs = 4096};
	struct sockaddr_in sa = shape_addr(host);
	struct weft_worker *w;
	struct weft_port *port;
	char dev[128];

	snprintf(dev, sizeof(dev), "net_memif_%s,role=%s,socket=weft-shape-%ld", name, role,
	         (long)getpid());
	pa.dev = dev;
	memcpy(&pa.addr, &sa, sizeof(sa));
	MUST(weft_port_open(ctx, &pa, &port) == 0);
	MUST(weft_worker_create(ctx, &wa, &w) == 0);
	MUST(weft_worker_add_port(w, port) == 0);
	return w;
}

/** Create contexts, ports and workers. EAL is already initialized. */
static inline void
shape_open(struct shape *s)
{
	MUST(weft_ctx_create(NULL, &s->ctx) == 0);
	s->server = shape_worker(s->ctx, "server", "server", 1);
	s->client = shape_worker(s->ctx, "client", "client", 2);
	MUST(weft_pd_alloc(s->ctx, &s->pd) == 0);
}

/** All of it, with a thread for each worker. */
static inline void
shape_up(struct shape *s)
{
	shape_env();
	shape_open(s);
	MUST(weft_worker_start(s->server) == 0);
	MUST(weft_worker_start(s->client) == 0);
}

static inline void
shape_down(struct shape *s)
{
	weft_worker_stop(s->client);
	weft_worker_stop(s->server);
	MUST(weft_pd_dealloc(s->pd) == 0);
	weft_ctx_destroy(s->ctx);
	weft_env_fini();
}

static inline void
shape_queues(struct shape *s, bool want_fd, struct weft_cq **cq, struct weft_evq **evq)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 512, .want_fd = want_fd};
	struct weft_evq_attr ea = {.size = sizeof(ea)};

	MUST(weft_cq_create(s->ctx, &ca, cq) == 0);
	MUST(weft_evq_create(s->ctx, &ea, evq) == 0);
}

static inline struct weft_qp *
shape_qp(struct shape *s, struct weft_worker *w, struct weft_cq *cq, struct weft_evq *evq,
         void *user)
{
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = w,
	                          .send_cq = cq,
	                          .recv_cq = cq,
	                          .evq = evq,
	                          .user = user};
	struct weft_qp *qp;

	MUST(weft_qp_create(s->pd, &qa, &qp) == 0);
	return qp;
}

static inline void
shape_send(struct weft_qp *qp, void *buf, uint32_t len)
{
	struct weft_sge sg = {.addr = buf, .len_bytes = len};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};

	MUST(weft_post_send(qp, &wr, 1) == 1);
}

static inline void
shape_recv(struct weft_qp *qp, void *buf, uint32_t len)
{
	struct weft_sge sg = {.addr = buf, .len_bytes = len};
	struct weft_recv_wr wr = {.sg_list = &sg, .num_sge = 1};

	MUST(weft_post_recv(qp, &wr, 1) == 1);
}

static inline void
shape_ok(const char *what)
{
	printf("ok 1 %s\n1..1\n", what);
}

#endif /* SHAPE_H */
