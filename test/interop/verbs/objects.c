/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A program of libibverbs and librdmacm that uses what perftest and rping do not: windows,
 * limits, resizing, extended queues, atomics, Immediate Data, events. It knows nothing of weft.
 *
 *     objects server ADDRESS             serves clients, one after the other
 *     objects client ADDRESS             runs the cases; prints TAP
 *     objects wait-server ADDRESS [T [A]] one end of a connection that waits; T and A: the types
 *                                        of service of its listener, and of what it accepts
 *     objects wait-client ADDRESS [T]    the other one
 *     objects removed ADDRESS            its exit status tells
 *     objects leave-open ADDRESS         its exit status tells
 *     objects fork-in-open -             without a server; its exit status tells
 *     objects try-again FILE             the same
 *
 * The server has a region of BYTES octets. It tells key and address in its private data, and does
 * what a message asks.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "objects.h"

/*
 * Of rdma-core 45 and later, which these headers may not have: the values, and the last member of
 * struct ibv_qp_ex.
 */
#define ACCESS_FLUSH_GLOBAL     (1 << 8)
#define ACCESS_FLUSH_PERSISTENT (1 << 9)
#define QP_EX_WITH_FLUSH        (1 << 11)
#define DEVICE_FLUSH_GLOBAL     (1ULL << 38)
#define WC_FLUSH                8
#define FLUSH_GLOBAL            1
#define FLUSH_PERSISTENT        2
#define FLUSH_RANGE             0
#define FLUSH_MR                1

struct qp_ex_45 {
	struct ibv_qp_ex ex;
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
	                 uint8_t type, uint8_t level);
};

#define RIGHTS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | ACCESS_FLUSH_GLOBAL)

static unsigned int cases;

void
must(bool cond, const char *what, int line)
{
	if (cond)
		return;
	printf("Bail out! line %d: %s (errno: %s)\n", line, what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

void
done(const char *name)
{
	printf("ok %u %s\n", ++cases, name);
	fflush(stdout);
}

/* ---- Both ends ---- */

bool
soon(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - start->tv_sec < 20;
}

struct ibv_wc
wc_any(struct ibv_cq *cq)
{
	struct timespec start;
	struct ibv_wc wc;
	int n;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		n = ibv_poll_cq(cq, 1, &wc);
	while (n == 0 && soon(&start));
	MUST(n == 1);
	return wc;
}

struct ibv_wc
wc_ok(struct ibv_cq *cq, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = wc_any(cq);

	if (wc.status != IBV_WC_SUCCESS || wc.opcode != opcode)
		printf("# status %d, opcode %d\n", wc.status, wc.opcode);
	MUST(wc.status == IBV_WC_SUCCESS && wc.opcode == opcode);
	return wc;
}

void
post_recv(struct end *e, struct ibv_srq *srq, uint64_t slot)
{
	struct ibv_sge sge = {(uintptr_t)e->mem + slot * MSG, MSG, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	MUST((srq != NULL ? ibv_post_srq_recv(srq, &wr, &bad)
	                  : ibv_post_recv(e->id->qp, &wr, &bad)) == 0);
}

void
post_send_inline(struct end *e, const void *data, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)data, len, 0};
	struct ibv_send_wr wr = {.wr_id = 77,
	                         .sg_list = &sge,
	                         .num_sge = 1,
	                         .opcode = IBV_WR_SEND,
	                         .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED},
	                   *bad;

	MUST(ibv_post_send(e->id->qp, &wr, &bad) == 0);
}

int
post(struct end *e, enum ibv_wr_opcode op, uint32_t off, uint32_t len, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)e->mem + off, len, e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = off,
	                         .sg_list = &sge,
	                         .num_sge = 1,
	                         .opcode = op,
	                         .send_flags = IBV_SEND_SIGNALED},
	                   *bad;

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	if (op == IBV_WR_RDMA_WRITE_WITH_IMM || op == IBV_WR_SEND_WITH_IMM)
		wr.imm_data = htonl(0x12345678);
	if (op == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = rkey;
	return ibv_post_send(e->id->qp, &wr, &bad);
}

struct ibv_qp_init_attr
plain(void)
{
	return (struct ibv_qp_init_attr){
	        .cap = {.max_send_wr = DEPTH,
	                .max_recv_wr = DEPTH,
	                .max_send_sge = 2,
	                .max_recv_sge = 1,
	                .max_inline_data = MSG},
	        .qp_type = IBV_QPT_RC,
	};
}

struct rdma_addrinfo *
info(const char *address, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *res;

	MUST(rdma_getaddrinfo(address, PORT, &hints, &res) == 0);
	return res;
}

void
end_memory(struct end *e)
{
	MUST(posix_memalign((void **)&e->mem, 4096, BYTES) == 0);
	memset(e->mem, 0, BYTES);
	e->mr = ibv_reg_mr(e->id->pd, e->mem, BYTES, RIGHTS);
	MUST(e->mr != NULL);
}

/* ---- The server ---- */

static struct ibv_mw_bind_info
serve_window(struct end *e)
{
	return (struct ibv_mw_bind_info){.mr = e->mr,
	                                 .addr = (uintptr_t)e->mem + BYTES / 2,
	                                 .length = 4096,
	                                 .mw_access_flags =
	                                         IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
}

/** The status of the completion of the bind before. */
static uint32_t bind_status;

/** Post the bind of a window of type 2 with this key. The errno of ibv_post_send(). */
static int
serve_bind_2(struct end *e, struct ibv_mw *mw, uint32_t rkey)
{
	struct ibv_send_wr wr = {.wr_id = 5,
	                         .opcode = IBV_WR_BIND_MW,
	                         .send_flags = IBV_SEND_SIGNALED},
	                   *bad;
	struct ibv_wc wc;
	int rc;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = serve_window(e);
	rc = ibv_post_send(e->id->qp, &wr, &bad);
	if (rc != 0)
		return rc;
	wc = wc_any(e->id->send_cq);
	bind_status = wc.status;
	MUST(wc.wr_id == 5 && (wc.status != IBV_WC_SUCCESS || wc.opcode == IBV_WC_BIND_MW));
	if (wc.status == IBV_WC_SUCCESS)
		mw->rkey = rkey;
	return 0;
}

static void
serve_unbind(struct end *e, struct ibv_mw *mw)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;

	wr.invalidate_rkey = mw->rkey;
	MUST(ibv_post_send(e->id->qp, &wr, &bad) == 0);
	wc_ok(e->id->send_cq, IBV_WC_LOCAL_INV);
}

static struct ibv_mw *
serve_bind(struct end *e, int type, struct told *t)
{
	struct ibv_mw *mw = ibv_alloc_mw(e->id->pd, type == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	struct ibv_mw_bind_info bind = serve_window(e);

	MUST(mw != NULL);
	if (type == 1) {
		struct ibv_mw_bind b = {
		        .wr_id = 5, .send_flags = IBV_SEND_SIGNALED, .bind_info = bind};

		MUST(ibv_bind_mw(e->id->qp, mw, &b) == 0);
		wc_ok(e->id->send_cq, IBV_WC_BIND_MW);
	} else {
		MUST(serve_bind_2(e, mw, ibv_inc_rkey(mw->rkey)) == 0);
		MUST(bind_status == IBV_WC_SUCCESS);
	}
	t->rkey = mw->rkey;
	t->addr = bind.addr;
	return mw;
}

/** Connect to the client, which listens, and disconnect. The event of rdma_connect(). */
static uint32_t
serve_call(const struct end *e, uint32_t port)
{
	struct ibv_qp_init_attr attr = plain();
	struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1};
	struct sockaddr_storage a = *(struct sockaddr_storage *)rdma_get_peer_addr(e->id);
	struct rdma_cm_id *id;
	uint32_t event;
	int rc;

	/* the port is at the same place for both families */
	((struct sockaddr_in *)(void *)&a)->sin_port = htons((uint16_t)port);
	MUST(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 2000) == 0);
	MUST(rdma_resolve_route(id, 2000) == 0);
	MUST(rdma_create_qp(id, NULL, &attr) == 0);
	rc = rdma_connect(id, &p);
	event = id->event->event;
	if (rc == 0)
		(void)rdma_disconnect(id);
	rdma_destroy_ep(id);
	return event;
}

static void
serve(struct end *e)
{
	uint32_t invalidated = 0, imm = 0, imm_len = 0;
	struct ibv_mw *mw = NULL;
	bool imm_wanted = false;

	for (;;) {
		struct ibv_wc wc;
		struct told t = {0};
		struct ask a;
		int n;

		/* until the client has gone */
		while ((n = ibv_poll_cq(e->id->recv_cq, 1, &wc)) == 0)
			;
		if (n < 0 || wc.status != IBV_WC_SUCCESS)
			break;
		if ((wc.wc_flags & IBV_WC_WITH_INV) != 0)
			invalidated = wc.invalidated_rkey;
		if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
			imm = ntohl(wc.imm_data);
			imm_len = wc.byte_len;
			post_recv(e, NULL, wc.wr_id);
			if (!imm_wanted)
				continue;
			a.order = TELL_IMM;
		} else {
			memcpy(&a, e->mem + wc.wr_id * MSG, sizeof(a));
			memset(e->mem + wc.wr_id * MSG, 0, MSG);
			post_recv(e, NULL, wc.wr_id);
		}
		switch (a.order) {
		case SEND_BACK:
			for (uint32_t i = 0; i < a.n; i++) {
				uint64_t number = i;

				post_send_inline(e, &number, sizeof(number));
				wc_ok(e->id->send_cq, IBV_WC_SEND);
			}
			continue;
		case BIND_1:
		case BIND_2:
			mw = serve_bind(e, a.order == BIND_1 ? 1 : 2, &t);
			break;
		case REBIND:
			t.value = (uint32_t)serve_bind_2(e, mw, a.rkey);
			if (t.value == 0 && bind_status != IBV_WC_SUCCESS)
				continue;
			t.rkey = mw->rkey;
			t.addr = serve_window(e).addr;
			break;
		case UNBIND:
			serve_unbind(e, mw);
			break;
		case TELL_BIND:
			t.value = bind_status;
			break;
		case IS_BOUND:
			t.value = mw != NULL && invalidated != mw->rkey;
			break;
		case TELL_SUM:
			for (uint32_t i = DEPTH * MSG; i < BYTES; i++)
				t.value += e->mem[i];
			break;
		case READ_MINE:
			t.rkey = (uint32_t)post(e, IBV_WR_RDMA_READ, BYTES / 2, a.len, a.addr,
			                        a.rkey);
			if (t.rkey == 0 && wc_any(e->id->send_cq).status != IBV_WC_SUCCESS)
				return;
			for (uint32_t i = 0; i < a.len; i++)
				t.value += e->mem[BYTES / 2 + i];
			break;
		case CALL:
			t.value = serve_call(e, a.n);
			break;
		case BYE:
			post_send_inline(e, "bye", 4);
			return;
		case TELL_IMM:
			imm_wanted = imm == 0;
			if (imm_wanted)
				continue;
			t.value = imm;
			t.addr = imm_len;
			break;
		}
		post_send_inline(e, &t, sizeof(t));
		wc_ok(e->id->send_cq, IBV_WC_SEND);
	}
	if (mw != NULL)
		MUST(ibv_dealloc_mw(mw) == 0);
}

static void
server(const char *address)
{
	struct rdma_addrinfo *res = info(address, RAI_PASSIVE);
	struct ibv_qp_init_attr attr = plain();
	struct rdma_cm_id *listener;

	MUST(rdma_create_ep(&listener, res, NULL, &attr) == 0);
	MUST(rdma_listen(listener, BACKLOG) == 0);
	for (;;) {
		struct end e = {0};
		struct rdma_conn_param p = {.responder_resources = 8, .initiator_depth = 8};
		const struct rdma_conn_param *asked;
		struct told t = {0};

		MUST(rdma_get_request(listener, &e.id) == 0);
		asked = &e.id->event->param.conn;
		if (asked->private_data_len >= 6 && memcmp(asked->private_data, "reject", 6) == 0) {
			MUST(rdma_reject(e.id, "no", 2) == 0);
			rdma_destroy_ep(e.id);
			continue;
		}
		end_memory(&e);
		for (unsigned int i = 0; i < DEPTH; i++)
			post_recv(&e, NULL, i);
		t.addr = (uintptr_t)e.mem;
		t.rkey = e.mr->rkey;
		t.value = asked->responder_resources << 8 | asked->initiator_depth;
		p.private_data = &t;
		p.private_data_len = sizeof(t);
		MUST(rdma_accept(e.id, &p) == 0);
		serve(&e);
		(void)rdma_disconnect(e.id);
		MUST(ibv_dereg_mr(e.mr) == 0);
		rdma_destroy_ep(e.id);
		free(e.mem);
	}
}

/* ---- The client ---- */

static const char *to;

struct rdma_cm_id *
client_id(void)
{
	struct rdma_addrinfo *res = info(to, 0);
	struct rdma_cm_id *id;

	MUST(rdma_create_ep(&id, res, NULL, NULL) == 0);
	rdma_freeaddrinfo(res);
	return id;
}

/** Connect e->id, which has its QP. in: Reads of the server at a time; out: its own. */
static void
client_up_depths(struct end *e, uint8_t in, uint8_t out)
{
	struct rdma_conn_param p = {.responder_resources = in, .initiator_depth = out};

	end_memory(e);
	MUST(rdma_connect(e->id, &p) == 0);
	MUST(e->id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	MUST(e->id->event->param.conn.private_data_len >= sizeof(e->told));
	memcpy(&e->told, e->id->event->param.conn.private_data, sizeof(e->told));
	/* what the server may have outstanding here, and what it grants */
	MUST(e->told.value == (uint32_t)(out << 8 | in));
}

void
client_up(struct end *e)
{
	client_up_depths(e, 3, 5);
}

void
client_open(struct end *e)
{
	struct ibv_qp_init_attr attr = plain();

	*e = (struct end){.id = client_id()};
	MUST(rdma_create_qp(e->id, NULL, &attr) == 0);
	client_up(e);
}

void
client_close(struct end *e)
{
	(void)rdma_disconnect(e->id);
	MUST(ibv_dereg_mr(e->mr) == 0);
	rdma_destroy_ep(e->id);
	free(e->mem);
}

struct told
ask_all(struct end *e, const struct ask *a)
{
	struct told t;

	post_recv(e, NULL, 0);
	post_send_inline(e, a, sizeof(*a));
	wc_ok(e->id->send_cq, IBV_WC_SEND);
	wc_ok(e->id->recv_cq, IBV_WC_RECV);
	memcpy(&t, e->mem, sizeof(t));
	return t;
}

struct told
ask(struct end *e, enum order order, uint32_t n)
{
	const struct ask a = {.order = order, .n = n};

	return ask_all(e, &a);
}

struct ibv_async_event
async_event(struct ibv_context *context, int ms)
{
	struct pollfd p = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	MUST(poll(&p, 1, ms) == 1);
	MUST(ibv_get_async_event(context, &ev) == 0);
	return ev;
}

static void
case_write_read(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct end e;
	uint32_t sum = 0;

	client_open(&e);
	for (unsigned int i = 0; i < 8192; i++)
		sum += e.mem[8192 + i] = (uint8_t)(i * 7);
	MUST(post(&e, IBV_WR_RDMA_WRITE, 8192, 8192, e.told.addr + 8192, e.told.rkey) == 0);
	wc_ok(e.id->send_cq, IBV_WC_RDMA_WRITE);
	MUST(ask(&e, TELL_SUM, 0).value == sum);
	MUST(post(&e, IBV_WR_RDMA_READ, 32768, 8192, e.told.addr + 8192, e.told.rkey) == 0);
	MUST(wc_ok(e.id->send_cq, IBV_WC_RDMA_READ).byte_len == 8192);
	MUST(memcmp(e.mem + 32768, e.mem + 8192, 8192) == 0);
	MUST(ibv_query_qp(e.id->qp, &attr, IBV_QP_STATE, &init) == 0);
	MUST(attr.qp_state == IBV_QPS_RTS && init.cap.max_send_wr == DEPTH);
	client_close(&e);
	done("Writes and Reads, and what they move; the state of a connected queue pair");
}

/** As libiscsi's iSER does: it only serves Reads. */
static void
case_depths(void)
{
	for (unsigned int serves = 0; serves < 2; serves++) {
		struct ibv_qp_init_attr attr = plain();
		struct end e = {.id = client_id()};
		struct ask a = {.order = READ_MINE, .len = 4096};
		uint32_t sum = 0;
		struct told t;

		MUST(rdma_create_qp(e.id, NULL, &attr) == 0);
		client_up_depths(&e, serves ? 3 : 0, serves ? 0 : 5);
		a.addr = (uintptr_t)e.mem + 8192;
		a.rkey = e.mr->rkey;
		for (unsigned int i = 0; i < a.len; i++)
			sum += e.mem[8192 + i] = (uint8_t)(i * 11 + 1);
		t = ask_all(&e, &a);
		MUST(serves ? t.rkey == 0 && t.value == sum : t.rkey == EINVAL);
		MUST(post(&e, IBV_WR_RDMA_READ, 32768, 64, e.told.addr, e.told.rkey) ==
		     (serves ? EINVAL : 0));
		if (!serves)
			wc_ok(e.id->send_cq, IBV_WC_RDMA_READ);
		client_close(&e);
	}
	done("depths of 0: one end only serves Reads, the other only reads");
}

static void
case_atomics(void)
{
	struct ibv_send_wr wr = {.wr_id = 1, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_sge sge;
	struct end e;
	uint64_t *old;

	client_open(&e);
	old = (uint64_t *)(void *)(e.mem + 4096);
	sge = (struct ibv_sge){(uintptr_t)old, 8, e.mr->lkey};
	wr.sg_list = &sge;
	wr.wr.atomic.remote_addr = e.told.addr + 4096;
	wr.wr.atomic.rkey = e.told.rkey;
	for (uint64_t i = 0; i < 5; i++) {
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.compare_add = 0x100000001ULL;
		MUST(ibv_post_send(e.id->qp, &wr, &bad) == 0);
		wc_ok(e.id->send_cq, IBV_WC_FETCH_ADD);
		MUST(*old == i * 0x100000001ULL);
	}
	for (unsigned int i = 0; i < 2; i++) {
		wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		wr.wr.atomic.compare_add = 5 * 0x100000001ULL;
		wr.wr.atomic.swap = 99;
		MUST(ibv_post_send(e.id->qp, &wr, &bad) == 0);
		wc_ok(e.id->send_cq, IBV_WC_COMP_SWAP);
		MUST(*old == (i == 0 ? 5 * 0x100000001ULL : 99));
	}
	*old = 0x1122334455667788ULL;
	wr.opcode = IBV_WR_ATOMIC_WRITE;
	wr.wr.rdma.remote_addr = e.told.addr + 4096;
	wr.wr.rdma.rkey = e.told.rkey;
	MUST(ibv_post_send(e.id->qp, &wr, &bad) == 0);
	wc_ok(e.id->send_cq, IBV_WC_ATOMIC_WRITE);
	*old = 0;
	MUST(post(&e, IBV_WR_RDMA_READ, 4096, 8, e.told.addr + 4096, e.told.rkey) == 0);
	wc_ok(e.id->send_cq, IBV_WC_RDMA_READ);
	MUST(*old == 0x1122334455667788ULL);
	client_close(&e);
	done("atomics: the values before, and the value after; Atomic Write");
}

static void
case_imm(void)
{
	struct end e;
	struct told t;

	client_open(&e);
	MUST(post(&e, IBV_WR_RDMA_WRITE_WITH_IMM, 4096, 300, e.told.addr + 4096, e.told.rkey) == 0);
	wc_ok(e.id->send_cq, IBV_WC_RDMA_WRITE);
	t = ask(&e, TELL_IMM, 0);
	MUST(t.value == 0x12345678 && t.addr == 300);
	MUST(post(&e, IBV_WR_SEND_WITH_IMM, 4096, 8, 0, 0) == EINVAL);
	client_close(&e);
	done("Write with Immediate: value and length; Send with Immediate is refused");
}

/** Write to the server's window and read that back. */
static void
window_use(struct end *e, const struct told *t, uint8_t fill)
{
	memset(e->mem + 4096, fill, 4096);
	memset(e->mem + 8192, 0, 4096);
	MUST(post(e, IBV_WR_RDMA_WRITE, 4096, 4096, t->addr, t->rkey) == 0);
	wc_ok(e->id->send_cq, IBV_WC_RDMA_WRITE);
	MUST(post(e, IBV_WR_RDMA_READ, 8192, 4096, t->addr, t->rkey) == 0);
	wc_ok(e->id->send_cq, IBV_WC_RDMA_READ);
	MUST(memcmp(e->mem + 4096, e->mem + 8192, 4096) == 0);
}

/** The server invalidates its window by a message of ours. */
static void
window_invalidate(struct end *e, uint32_t rkey)
{
	const struct ask a = {.order = IS_BOUND};
	struct told t;

	post_recv(e, NULL, 0);
	memcpy(e->mem + 4096, &a, sizeof(a));
	MUST(post(e, IBV_WR_SEND_WITH_INV, 4096, sizeof(a), 0, rkey) == 0);
	wc_ok(e->id->send_cq, IBV_WC_SEND);
	wc_ok(e->id->recv_cq, IBV_WC_RECV);
	memcpy(&t, e->mem, sizeof(t));
	MUST(t.value == 0);
}

static void
case_windows(void)
{
	for (int type = 1; type <= 2; type++) {
		struct ibv_async_event ev;
		struct end e;
		struct told t;

		client_open(&e);
		t = ask(&e, type == 1 ? BIND_1 : BIND_2, 0);
		MUST(t.rkey != e.told.rkey);
		MUST(post(&e, IBV_WR_RDMA_WRITE, 4096, 4096, t.addr, t.rkey) == 0);
		wc_ok(e.id->send_cq, IBV_WC_RDMA_WRITE);
		if (type == 2) {
			/* the peer invalidates it by a message */
			MUST(ask(&e, IS_BOUND, 0).value == 1);
			window_invalidate(&e, t.rkey);
			client_close(&e);
			continue;
		}
		/* a Read one octet behind the window ends the connection */
		MUST(post(&e, IBV_WR_RDMA_READ, 4096, 4096, t.addr + 1, t.rkey) == 0);
		MUST(wc_any(e.id->send_cq).status == IBV_WC_REM_ACCESS_ERR);
		ev = async_event(e.id->verbs, 10000);
		MUST(ev.event_type == IBV_EVENT_QP_FATAL && ev.element.qp == e.id->qp);
		ibv_ack_async_event(&ev);
		MUST(post(&e, IBV_WR_RDMA_WRITE, 4096, 1, t.addr, t.rkey) == 0);
		MUST(wc_any(e.id->send_cq).status == IBV_WC_WR_FLUSH_ERR);
		client_close(&e);
	}
	done("windows of both types, their bounds, Send with Invalidate; the event of a fatal "
	     "error");
}

/** A window of type 2 is bound with any key of the program's, after each invalidation. */
static void
case_rebind(void)
{
	struct ask a = {.order = REBIND};
	struct told t, first;
	struct end e;

	client_open(&e);
	first = t = ask(&e, BIND_2, 0);
	for (uint32_t i = 0; i < 40; i++) {
		window_use(&e, &t, (uint8_t)(i + 1));
		if (i % 2 == 0)
			(void)ask(&e, UNBIND, 0);
		else
			window_invalidate(&e, t.rkey);
		/* what is no key of this window */
		a.rkey = t.rkey ^ 0x100u << i % 24;
		MUST(ask_all(&e, &a).value == EINVAL);
		a.rkey = i % 3 != 0 ? ibv_inc_rkey(t.rkey) : (t.rkey & ~0xffu) | (i * 71 & 0xff);
		t = ask_all(&e, &a);
		MUST(t.value == 0 && t.rkey == a.rkey && t.rkey >> 8 == first.rkey >> 8);
	}
	/* the key before names nothing */
	MUST(first.rkey != t.rkey);
	MUST(post(&e, IBV_WR_RDMA_READ, 4096, 8, first.addr, first.rkey) == 0);
	MUST(wc_any(e.id->send_cq).status == IBV_WC_REM_ACCESS_ERR);
	client_close(&e);
	/* a window that is bound is not bound again: the connection ends */
	client_open(&e);
	t = ask(&e, BIND_2, 0);
	a.rkey = ibv_inc_rkey(t.rkey);
	post_recv(&e, NULL, 0);
	post_send_inline(&e, &a, sizeof(a));
	wc_ok(e.id->send_cq, IBV_WC_SEND);
	MUST(wc_any(e.id->recv_cq).status == IBV_WC_WR_FLUSH_ERR);
	client_close(&e);
	client_open(&e);
	MUST(ask(&e, TELL_BIND, 0).value == IBV_WC_MW_BIND_ERR);
	client_close(&e);
	done("a window of type 2 is bound 41 times with keys of the program's; not while it is "
	     "bound");
}

static void
case_srq(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_srq_attr q = {.srq_limit = 4};
	struct ibv_qp_init_attr attr = plain();
	const struct ask a = {.order = SEND_BACK, .n = 13};
	struct ibv_async_event ev;
	struct end e = {.id = client_id()};
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;

	attr.srq = ibv_create_srq(e.id->pd, &sa);
	MUST(attr.srq != NULL);
	MUST(rdma_create_qp(e.id, NULL, &attr) == 0);
	client_up(&e);
	for (unsigned int i = 0; i < 16; i++)
		post_recv(&e, attr.srq, i);
	MUST(ibv_post_srq_recv(attr.srq, &wr, &bad) == ENOMEM && bad == &wr);
	MUST(ibv_modify_srq(attr.srq, &q, IBV_SRQ_LIMIT) == 0);
	post_send_inline(&e, &a, sizeof(a));
	for (uint64_t i = 0; i < 13; i++) {
		struct ibv_wc wc = wc_ok(e.id->recv_cq, IBV_WC_RECV);

		MUST(memcmp(e.mem + wc.wr_id * MSG, &i, sizeof(i)) == 0);
	}
	ev = async_event(e.id->verbs, 10000);
	MUST(ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && ev.element.srq == attr.srq);
	ibv_ack_async_event(&ev);
	MUST(ibv_query_srq(attr.srq, &q) == 0 && q.max_wr == 16 && q.srq_limit == 0);
	/* more places, of which three are used; never fewer than that */
	q.max_wr = 40;
	MUST(ibv_modify_srq(attr.srq, &q, IBV_SRQ_MAX_WR) == 0);
	for (unsigned int i = 0; i < 37; i++)
		post_recv(&e, attr.srq, i);
	MUST(ibv_post_srq_recv(attr.srq, &wr, &bad) == ENOMEM);
	q.max_wr = 39;
	MUST(ibv_modify_srq(attr.srq, &q, IBV_SRQ_MAX_WR) == EINVAL);
	MUST(ibv_destroy_srq(attr.srq) == EBUSY);
	(void)rdma_disconnect(e.id);
	rdma_destroy_qp(e.id);
	MUST(ibv_destroy_srq(attr.srq) == 0);
	MUST(ibv_dereg_mr(e.mr) == 0);
	rdma_destroy_ep(e.id);
	done("a shared receive queue: its limit's event, its places, more of them");
}

static void
case_cq(void)
{
	struct rdma_cm_id *id = client_id();
	struct ibv_qp_init_attr attr = plain();
	struct ibv_async_event ev;
	struct end e = {.id = id};

	attr.send_cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
	attr.recv_cq = ibv_create_cq(id->verbs, DEPTH, NULL, NULL, 0);
	MUST(attr.send_cq != NULL && attr.recv_cq != NULL && attr.send_cq->cqe == 4);
	MUST(rdma_create_qp(id, NULL, &attr) == 0);
	MUST(ibv_destroy_cq(attr.send_cq) == EBUSY);
	client_up(&e);
	for (uint32_t i = 0; i < 4; i++)
		MUST(post(&e, IBV_WR_RDMA_WRITE, 4096 + i, 1, e.told.addr, e.told.rkey) == 0);
	/* until the Writes are done: the other queue is polled */
	for (unsigned int i = 0; i < 1000; i++) {
		struct ibv_wc none;

		MUST(ibv_poll_cq(attr.recv_cq, 1, &none) == 0);
	}
	MUST(ibv_resize_cq(attr.send_cq, 3) == EINVAL);
	MUST(ibv_resize_cq(attr.send_cq, 6) == 0 && attr.send_cq->cqe == 6);
	for (uint32_t i = 4; i < 6; i++)
		MUST(post(&e, IBV_WR_RDMA_WRITE, 4096 + i, 1, e.told.addr, e.told.rkey) == 0);
	for (uint32_t i = 0; i < 6; i++)
		MUST(wc_ok(attr.send_cq, IBV_WC_RDMA_WRITE).wr_id == 4096 + i);
	/* one more than there is room for */
	for (uint32_t i = 0; i < 7; i++)
		MUST(post(&e, IBV_WR_RDMA_WRITE, 4096 + i, 1, e.told.addr, e.told.rkey) == 0);
	ev = async_event(id->verbs, 10000);
	MUST(ev.event_type == IBV_EVENT_CQ_ERR && ev.element.cq == attr.send_cq);
	ibv_ack_async_event(&ev);
	(void)rdma_disconnect(id);
	rdma_destroy_qp(id);
	MUST(ibv_destroy_cq(attr.send_cq) == 0 && ibv_destroy_cq(attr.recv_cq) == 0);
	MUST(ibv_dereg_mr(e.mr) == 0);
	rdma_destroy_ep(id);
	done("a completion queue: resized with completions in it, and overrun");
}

static void
case_channel(void)
{
	const struct ask a = {.order = SEND_BACK, .n = 3};
	struct ibv_cq *cq;
	struct epoll_event ev = {.events = EPOLLIN};
	int ep = epoll_create1(0);
	void *user;
	struct end e;

	client_open(&e);
	for (unsigned int i = 0; i < 3; i++)
		post_recv(&e, NULL, i);
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, e.id->recv_cq_channel->fd, &ev) == 0);
	MUST(fcntl(e.id->recv_cq_channel->fd, F_SETFL, O_NONBLOCK) == 0);
	MUST(ibv_get_cq_event(e.id->recv_cq_channel, &cq, &user) == -1 && errno == EAGAIN);
	/* not armed: no event */
	post_send_inline(&e, &a, sizeof(a));
	for (unsigned int i = 0; i < 3; i++)
		wc_ok(e.id->recv_cq, IBV_WC_RECV);
	MUST(epoll_wait(ep, &ev, 1, 0) == 0);
	for (unsigned int i = 0; i < 3; i++)
		post_recv(&e, NULL, i);
	MUST(ibv_req_notify_cq(e.id->recv_cq, 0) == 0);
	post_send_inline(&e, &a, sizeof(a));
	MUST(epoll_wait(ep, &ev, 1, 10000) == 1);
	MUST(ibv_get_cq_event(e.id->recv_cq_channel, &cq, &user) == 0 && cq == e.id->recv_cq);
	MUST(user == e.id);
	/* once for each arming */
	for (unsigned int i = 0; i < 3; i++)
		wc_ok(e.id->recv_cq, IBV_WC_RECV);
	MUST(epoll_wait(ep, &ev, 1, 0) == 0);
	ibv_ack_cq_events(cq, 1);
	close(ep);
	client_close(&e);
	done("a completion channel: epoll, O_NONBLOCK, one event for each arming");
}

/**
 * The server sends many times what receives are posted for, while this thread sleeps as one that
 * waits for a processor: no message is lost, and the connection stays.
 */
static void
case_slow(void)
{
	const struct timespec nap = {.tv_nsec = 100000000};
	const struct ask a = {.order = SEND_BACK, .n = 4096};
	struct ibv_qp_init_attr attr = plain();
	struct end e = {.id = client_id()};

	attr.cap.max_recv_wr = 256;
	MUST(rdma_create_qp(e.id, NULL, &attr) == 0);
	client_up(&e);
	for (unsigned int i = 0; i < 256; i++)
		post_recv(&e, NULL, i);
	post_send_inline(&e, &a, sizeof(a));
	for (uint64_t i = 0; i < a.n; i++) {
		uint64_t number;
		struct ibv_wc wc;

		if (i % 1024 == 0)
			nanosleep(&nap, NULL);
		wc = wc_ok(e.id->recv_cq, IBV_WC_RECV);
		memcpy(&number, e.mem + wc.wr_id * MSG, sizeof(number));
		MUST(number == i);
		post_recv(&e, NULL, wc.wr_id);
	}
	client_close(&e);
	done("more Sends than receives, while the receiver waits for a processor");
}

/** Take the completion of a Write, and its event, and arm the queue again. */
static void *
other_thread(void *arg)
{
	struct rdma_cm_id *id = arg;
	struct ibv_cq *cq;
	void *user;

	wc_ok(id->send_cq, IBV_WC_RDMA_WRITE);
	MUST(ibv_get_cq_event(id->send_cq_channel, &cq, &user) == 0);
	MUST(ibv_req_notify_cq(id->send_cq, 0) == 0);
	return NULL;
}

/**
 * What two threads of a rsocket do, in the order that made both wait for ever: this thread finds
 * the queue empty, the other takes the completion and its event and arms the queue, this one waits.
 */
static void
case_threads(void)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	pthread_t other;
	struct end e;
	void *user;

	client_open(&e);
	MUST(fcntl(e.id->send_cq_channel->fd, F_SETFL, O_NONBLOCK) == 0);
	MUST(ibv_req_notify_cq(e.id->send_cq, 0) == 0);
	MUST(ibv_poll_cq(e.id->send_cq, 1, &wc) == 0);
	/* nothing was taken: no event */
	MUST(ibv_get_cq_event(e.id->send_cq_channel, &cq, &user) == -1 && errno == EAGAIN);
	MUST(ibv_poll_cq(e.id->send_cq, 1, &wc) == 0);
	MUST(post(&e, IBV_WR_RDMA_WRITE, 0, 64, e.told.addr, e.told.rkey) == 0);
	MUST(pthread_create(&other, NULL, other_thread, e.id) == 0);
	MUST(pthread_join(other, NULL) == 0);
	MUST(ibv_get_cq_event(e.id->send_cq_channel, &cq, &user) == 0 && cq == e.id->send_cq);
	/* it has been told: no second event */
	MUST(ibv_get_cq_event(e.id->send_cq_channel, &cq, &user) == -1 && errno == EAGAIN);
	ibv_ack_cq_events(cq, 2);
	client_close(&e);
	done("two threads of one completion queue: each hears of what the other has taken");
}

static atomic_uint race_events; /**< taken by both threads */

static void *
race_thread(void *arg)
{
	struct ibv_cq *cq;
	void *user;

	while (ibv_get_cq_event(arg, &cq, &user) == 0) {
		MUST(user == arg);
		atomic_fetch_add(&race_events, 1);
		ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

/**
 * Queues are destroyed while two threads take their events. What goes wrong shows in a build with
 * AddressSanitizer.
 */
static void
case_race(void)
{
	struct rdma_cm_id *id = client_id();
	struct ibv_comp_channel *ch = ibv_create_comp_channel(id->verbs);
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;
	pthread_t threads[2];
	struct timespec start, now;

	MUST(ch != NULL);
	for (unsigned int i = 0; i < 2; i++)
		MUST(pthread_create(&threads[i], NULL, race_thread, ch) == 0);
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		struct ibv_qp_init_attr attr = plain();
		struct ibv_qp *qp;

		attr.send_cq = attr.recv_cq = ibv_create_cq(id->verbs, DEPTH, ch, ch, 0);
		MUST(attr.recv_cq != NULL && ibv_req_notify_cq(attr.recv_cq, 0) == 0);
		qp = ibv_create_qp(id->pd, &attr);
		MUST(qp != NULL && ibv_post_recv(qp, &wr, &bad) == 0);
		MUST(ibv_modify_qp(qp, &err, IBV_QP_STATE) == 0 && ibv_destroy_qp(qp) == 0);
		for (volatile int k = rand() % 20000; k > 0; k--)
			;
		MUST(ibv_destroy_cq(attr.recv_cq) == 0);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec < 4 || atomic_load(&race_events) == 0);
	for (unsigned int i = 0; i < 2; i++)
		MUST(pthread_cancel(threads[i]) == 0 && pthread_join(threads[i], NULL) == 0);
	MUST(ibv_destroy_comp_channel(ch) == 0);
	rdma_destroy_ep(id);
	done("queues that are destroyed while other threads take their events");
}

static void
case_extended(void)
{
	struct ibv_cq_init_attr_ex ca = {.cqe = DEPTH,
	                                 .wc_flags = IBV_WC_EX_WITH_BYTE_LEN |
	                                             IBV_WC_EX_WITH_QP_NUM |
	                                             IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct rdma_cm_id *id = client_id();
	struct ibv_poll_cq_attr pa = {0};
	struct ibv_qp_init_attr_ex qa = {
	        .cap = plain().cap,
	        .qp_type = IBV_QPT_RC,
	        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	        .pd = id->pd,
	        .send_ops_flags =
	                IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(id->verbs, &ca);
	const enum ibv_wc_opcode want[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ};
	struct end e = {.id = id};
	struct ibv_qp_ex *qx;
	struct timespec start;
	uint64_t before = 0;
	int rc;

	MUST(cq != NULL);
	qa.send_cq = ibv_cq_ex_to_cq(cq);
	MUST(rdma_create_qp_ex(id, &qa) == 0);
	qx = ibv_qp_to_qp_ex(id->qp);
	MUST(qx != NULL);
	client_up(&e);
	ibv_wr_start(qx);
	qx->wr_id = 1;
	qx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qx, e.told.rkey, e.told.addr + 4096);
	ibv_wr_set_inline_data(qx, (void *)(uintptr_t) "extended", 8);
	qx->wr_id = 2;
	ibv_wr_rdma_read(qx, e.told.rkey, e.told.addr + 4096);
	ibv_wr_set_sge(qx, e.mr->lkey, (uintptr_t)e.mem + 8192, 8);
	MUST(ibv_wr_complete(qx) == 0);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (unsigned int i = 0; i < 2; i++) {
		while ((rc = ibv_start_poll(cq, &pa)) == ENOENT && soon(&start))
			;
		MUST(rc == 0 && cq->status == IBV_WC_SUCCESS && cq->wr_id == i + 1);
		MUST(ibv_wc_read_opcode(cq) == want[i]);
		MUST(ibv_wc_read_qp_num(cq) == id->qp->qp_num);
		MUST(ibv_wc_read_completion_ts(cq) >= before);
		before = ibv_wc_read_completion_ts(cq);
		ibv_end_poll(cq);
	}
	MUST(before != 0 && memcmp(e.mem + 8192, "extended", 8) == 0);
	/* all or nothing */
	ibv_wr_start(qx);
	for (unsigned int i = 0; i < DEPTH + 1; i++) {
		ibv_wr_rdma_write(qx, e.told.rkey, e.told.addr);
		ibv_wr_set_sge(qx, e.mr->lkey, (uintptr_t)e.mem, 1);
	}
	MUST(ibv_wr_complete(qx) == ENOMEM);
	MUST(ibv_start_poll(cq, &pa) == ENOENT);
	(void)rdma_disconnect(id);
	rdma_destroy_qp(id);
	MUST(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	MUST(ibv_dereg_mr(e.mr) == 0);
	rdma_destroy_ep(id);
	done("extended queues: requests and completions member by member, all or nothing");
}

#define SHARED_EACH 10000 /**< requests of each thread */
#define SHARED_WRS  128

/** An extended queue pair and queue that four threads use at once. */
struct shared {
	struct end e;
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *qx;
	struct timespec start;
	atomic_uint posted, polled;
	atomic_uchar seen[2 * SHARED_EACH];
};

struct shared_poster {
	struct shared *s;
	uint64_t first; /**< wr_id */
};

static void *
shared_post(void *arg)
{
	const struct shared_poster *p = arg;
	struct shared *s = p->s;

	for (uint64_t i = 0; i < SHARED_EACH; i++) {
		/* both threads may find room for one more */
		while (atomic_load(&s->posted) - atomic_load(&s->polled) > SHARED_WRS - 2)
			sched_yield();
		atomic_fetch_add(&s->posted, 1);
		ibv_wr_start(s->qx);
		s->qx->wr_id = p->first + i;
		s->qx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(s->qx, s->e.told.rkey, s->e.told.addr + 8192);
		ibv_wr_set_sge(s->qx, s->e.mr->lkey, (uintptr_t)s->e.mem + 8192, 8);
		MUST(ibv_wr_complete(s->qx) == 0);
	}
	return NULL;
}

static void *
shared_poll(void *arg)
{
	struct ibv_poll_cq_attr pa = {0};
	struct shared *s = arg;

	while (atomic_load(&s->polled) < 2 * SHARED_EACH && soon(&s->start)) {
		if (ibv_start_poll(s->cq, &pa) != 0)
			continue;
		MUST(s->cq->status == IBV_WC_SUCCESS && s->cq->wr_id < 2 * SHARED_EACH);
		MUST(ibv_wc_read_qp_num(s->cq) == s->e.id->qp->qp_num);
		MUST(atomic_fetch_add(&s->seen[s->cq->wr_id], 1) == 0);
		ibv_end_poll(s->cq);
		atomic_fetch_add(&s->polled, 1);
	}
	return NULL;
}

/** After a connection: requests are accepted, and complete as flushed. */
static void
ex_flushed(struct shared *s)
{
	const enum ibv_wc_opcode want[] = {IBV_WC_RDMA_WRITE, IBV_WC_SEND};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;

	do
		MUST(ibv_query_qp(s->e.id->qp, &attr, IBV_QP_STATE, &init) == 0 && soon(&s->start));
	while (attr.qp_state != IBV_QPS_ERR);
	ibv_wr_start(s->qx);
	s->qx->wr_id = 1;
	ibv_wr_rdma_write(s->qx, s->e.told.rkey, s->e.told.addr + 8192);
	ibv_wr_set_sge(s->qx, s->e.mr->lkey, (uintptr_t)s->e.mem + 8192, 8);
	s->qx->wr_id = 2;
	ibv_wr_send(s->qx);
	ibv_wr_set_sge(s->qx, s->e.mr->lkey, (uintptr_t)s->e.mem + 8192, 8);
	MUST(ibv_wr_complete(s->qx) == 0);
	for (unsigned int i = 0; i < 2; i++) {
		wc = wc_any(ibv_cq_ex_to_cq(s->cq));
		MUST(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == i + 1);
		MUST(wc.opcode == want[i]);
	}
}

static void
case_shared(void)
{
	struct ibv_cq_init_attr_ex ca = {.cqe = 256, .wc_flags = IBV_WC_EX_WITH_QP_NUM};
	struct ibv_qp_init_attr_ex qa = {.cap = plain().cap,
	                                 .qp_type = IBV_QPT_RC,
	                                 .comp_mask = IBV_QP_INIT_ATTR_PD |
	                                              IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	                                 .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
	static struct shared s;
	struct shared_poster p[2] = {{&s, 0}, {&s, SHARED_EACH}};
	pthread_t t[4];

	s.e.id = client_id();
	s.cq = ibv_create_cq_ex(s.e.id->verbs, &ca);
	MUST(s.cq != NULL);
	qa.cap.max_send_wr = SHARED_WRS;
	qa.pd = s.e.id->pd;
	qa.send_cq = ibv_cq_ex_to_cq(s.cq);
	MUST(rdma_create_qp_ex(s.e.id, &qa) == 0);
	s.qx = ibv_qp_to_qp_ex(s.e.id->qp);
	client_up(&s.e);
	clock_gettime(CLOCK_MONOTONIC, &s.start);
	for (unsigned int i = 0; i < 4; i++)
		MUST(pthread_create(&t[i], NULL, i < 2 ? shared_post : shared_poll,
		                    i < 2 ? (void *)&p[i] : &s) == 0);
	for (unsigned int i = 0; i < 4; i++)
		MUST(pthread_join(t[i], NULL) == 0);
	for (unsigned int i = 0; i < 2 * SHARED_EACH; i++)
		MUST(s.seen[i] == 1);
	/* given up: nothing is posted, and the lock is free */
	ibv_wr_start(s.qx);
	ibv_wr_abort(s.qx);
	ibv_wr_start(s.qx);
	MUST(ibv_wr_complete(s.qx) == 0);
	(void)rdma_disconnect(s.e.id);
	ex_flushed(&s);
	rdma_destroy_qp(s.e.id);
	MUST(ibv_destroy_cq(ibv_cq_ex_to_cq(s.cq)) == 0 && ibv_dereg_mr(s.e.mr) == 0);
	rdma_destroy_ep(s.e.id);
	free(s.e.mem);
	done("two threads post to an extended queue pair and two poll its queue: each request "
	     "once");
}

static int
bind_1(struct end *e, struct ibv_mw *mw, uint64_t wr_id, uint64_t len, unsigned int flags)
{
	struct ibv_mw_bind b = {.wr_id = wr_id,
	                        .send_flags = flags,
	                        .bind_info = {.mr = len > 0 ? e->mr : NULL,
	                                      .addr = len > 0 ? (uintptr_t)e->mem : 0,
	                                      .length = len,
	                                      .mw_access_flags = IBV_ACCESS_REMOTE_READ}};

	return ibv_bind_mw(e->id->qp, mw, &b);
}

/**
 * One place is left: a bind again takes two, is refused, and leaves the window as it is. False: the
 * first Reads were done before, so that there was room, and it has its one completion.
 */
static bool
bind_refused(struct end *e, struct ibv_mw *mw)
{
	const uint32_t rkey = mw->rkey;
	int rc;

	for (uint32_t n = 0; n < DEPTH - 1; n++)
		MUST(post(e, IBV_WR_RDMA_READ, 4096, 8, e->told.addr, e->told.rkey) == 0);
	rc = bind_1(e, mw, 10, 4096, IBV_SEND_SIGNALED);
	MUST(rc == 0 || (rc == ENOMEM && mw->rkey == rkey));
	for (uint32_t n = 0; n < DEPTH - 1; n++)
		wc_ok(e->id->send_cq, IBV_WC_RDMA_READ);
	if (rc == 0)
		MUST(wc_ok(e->id->send_cq, IBV_WC_BIND_MW).wr_id == 10);
	return rc != 0;
}

/** The server reads what the window gives it. */
static bool
bind_serves(struct end *e, const struct ibv_mw *mw, uint32_t len)
{
	const struct ask a = {
	        .order = READ_MINE, .addr = (uintptr_t)e->mem + 4096, .rkey = mw->rkey, .len = len};
	struct told t;

	memset(e->mem + 4096, 3, len);
	t = ask_all(e, &a);
	return t.rkey == 0 && t.value == 3 * len;
}

/** Bound, bound again and unbound while the first bind waits behind Reads. */
static void
bind_queued(struct end *e, struct ibv_mw *mw)
{
	for (uint32_t n = 0; n < DEPTH / 2; n++)
		MUST(post(e, IBV_WR_RDMA_READ, 4096, 8, e->told.addr, e->told.rkey) == 0);
	MUST(bind_1(e, mw, 20, 8192, IBV_SEND_SIGNALED) == 0);
	MUST(bind_1(e, mw, 21, 0, IBV_SEND_SIGNALED) == 0);
	MUST(bind_1(e, mw, 22, 0, IBV_SEND_SIGNALED) == EINVAL);
	MUST(bind_1(e, mw, 23, 8192, IBV_SEND_SIGNALED) == 0);
	MUST(bind_1(e, mw, 24, 8192, IBV_SEND_SIGNALED) == 0);
	for (uint32_t n = 0; n < DEPTH / 2; n++)
		wc_ok(e->id->send_cq, IBV_WC_RDMA_READ);
	for (uint64_t i = 20; i < 25; i++)
		if (i != 22)
			MUST(wc_ok(e->id->send_cq, IBV_WC_BIND_MW).wr_id == i);
	MUST(bind_serves(e, mw, 4096));
}

/** What is refused leaves the window as it is. */
static void
bind_wrong(struct end *e, struct ibv_mw *mw)
{
	struct ibv_pd *pd = ibv_alloc_pd(e->id->verbs);
	struct ibv_mw_bind b = {.wr_id = 30, .send_flags = IBV_SEND_SIGNALED};
	const uint32_t rkey = mw->rkey;
	struct ibv_wc wc;

	MUST(pd != NULL);
	b.bind_info.mr = ibv_reg_mr(pd, e->mem, BYTES, RIGHTS);
	b.bind_info.addr = (uintptr_t)e->mem;
	b.bind_info.length = 4096;
	b.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	MUST(b.bind_info.mr != NULL);
	MUST(ibv_bind_mw(e->id->qp, mw, &b) == EPERM && mw->rkey == rkey);
	MUST(ibv_dereg_mr(b.bind_info.mr) == 0 && ibv_dealloc_pd(pd) == 0);
	b.bind_info.mr = e->mr;
	b.bind_info.length = UINT64_MAX;
	MUST(ibv_bind_mw(e->id->qp, mw, &b) == EINVAL && mw->rkey == rkey);
	MUST(bind_serves(e, mw, 4096));
	MUST(ibv_poll_cq(e->id->send_cq, 1, &wc) == 0);
}

/** A window of type 1 on a queue pair with room for a few requests. */
static void
bind_again(int sig_all)
{
	struct ibv_qp_init_attr attr = plain();
	struct end e = {.id = client_id()};
	struct ibv_mw *mw;
	struct ibv_wc wc;

	attr.sq_sig_all = sig_all;
	MUST(rdma_create_qp(e.id, NULL, &attr) == 0);
	MUST((mw = ibv_alloc_mw(e.id->pd, IBV_MW_TYPE_1)) != NULL);
	end_memory(&e);
	MUST(bind_1(&e, mw, 1, 4096, 0) == EINVAL); /* not connected, as ibv_post_send() */
	MUST(ibv_dereg_mr(e.mr) == 0);
	free(e.mem);
	client_up(&e);
	for (uint64_t i = 0; i < 3; i++) {
		MUST(bind_1(&e, mw, i, 4096, IBV_SEND_SIGNALED) == 0);
		MUST(wc_ok(e.id->send_cq, IBV_WC_BIND_MW).wr_id == i);
	}
	for (unsigned int i = 0; i < 1000; i++)
		MUST(ibv_poll_cq(e.id->send_cq, 1, &wc) == 0);
	MUST(bind_1(&e, mw, 7, 0, IBV_SEND_SIGNALED) == 0);
	MUST(wc_ok(e.id->send_cq, IBV_WC_BIND_MW).wr_id == 7);
	MUST(bind_1(&e, mw, 8, 0, IBV_SEND_SIGNALED) == EINVAL);
	MUST(bind_1(&e, mw, 9, 4096, IBV_SEND_SIGNALED) == 0);
	MUST(wc_ok(e.id->send_cq, IBV_WC_BIND_MW).wr_id == 9);
	for (int i = 0; !bind_refused(&e, mw); i++)
		MUST(i < 100);
	bind_queued(&e, mw);
	bind_wrong(&e, mw);
	MUST(bind_1(&e, mw, 11, 0, IBV_SEND_SIGNALED) == 0);
	MUST(wc_ok(e.id->send_cq, IBV_WC_BIND_MW).wr_id == 11);
	MUST(ibv_dealloc_mw(mw) == 0);
	client_close(&e);
}

static void
case_bind_again(void)
{
	bind_again(0);
	bind_again(1);
	done("a window of type 1 is bound again and unbound: one completion each, room for all");
}

/** An extended queue pair that can flush, connected. */
static struct ibv_qp_ex *
flush_open(struct end *e)
{
	struct ibv_qp_init_attr_ex qa = {
	        .cap = plain().cap,
	        .qp_type = IBV_QPT_RC,
	        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
	                          IBV_QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH};

	*e = (struct end){.id = client_id()};
	qa.pd = e->id->pd;
	MUST(rdma_create_qp_ex(e->id, &qa) == 0);
	client_up(e);
	return ibv_qp_to_qp_ex(e->id->qp);
}

/** Write eight octets, flush `len` there, and write eight more at once. */
static int
flush_post(struct ibv_qp_ex *qx, const struct end *e, size_t len, uint8_t type, uint8_t level)
{
	const uint64_t to_addr = e->told.addr + 8192;

	ibv_wr_start(qx);
	qx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qx, e->told.rkey, to_addr);
	ibv_wr_set_inline_data(qx, (void *)(uintptr_t) "pushed..", 8);
	((struct qp_ex_45 *)(void *)qx)->wr_flush(qx, e->told.rkey, to_addr, len, type, level);
	ibv_wr_atomic_write(qx, e->told.rkey, to_addr + 8, "flushed.");
	return ibv_wr_complete(qx);
}

static void
case_flush(void)
{
	struct ibv_device_attr_ex da;
	struct ibv_qp_ex *qx;
	struct end e;

	qx = flush_open(&e);
	MUST(ibv_query_device_ex(e.id->verbs, NULL, &da) == 0);
	MUST((da.device_cap_flags_ex & DEVICE_FLUSH_GLOBAL) != 0);
	for (uint8_t level = FLUSH_RANGE; level <= FLUSH_MR; level++) {
		MUST(flush_post(qx, &e, 8, FLUSH_GLOBAL, level) == 0);
		wc_ok(e.id->send_cq, IBV_WC_RDMA_WRITE);
		wc_ok(e.id->send_cq, (enum ibv_wc_opcode)WC_FLUSH);
		wc_ok(e.id->send_cq, IBV_WC_ATOMIC_WRITE);
		MUST(post(&e, IBV_WR_RDMA_READ, 4096, 16, e.told.addr + 8192, e.told.rkey) == 0);
		wc_ok(e.id->send_cq, IBV_WC_RDMA_READ);
		MUST(memcmp(e.mem + 4096, "pushed..flushed.", 16) == 0);
	}
	/* wrong: nothing is posted */
	MUST(flush_post(qx, &e, 8, 0, FLUSH_RANGE) == EINVAL);
	MUST(flush_post(qx, &e, 8, 4, FLUSH_RANGE) == EINVAL);
	MUST(flush_post(qx, &e, 8, FLUSH_GLOBAL, 2) == EINVAL);
	MUST(flush_post(qx, &e, (size_t)UINT32_MAX + 1, FLUSH_GLOBAL, FLUSH_RANGE) == EINVAL);
	/* ordinary memory does not outlast a power failure */
	MUST(ibv_reg_mr(e.id->pd, e.mem, 4096, ACCESS_FLUSH_PERSISTENT) == NULL &&
	     errno == EOPNOTSUPP);
	/* the region has no right for it: an error at the peer, which ends the connection */
	MUST(flush_post(qx, &e, 8, FLUSH_PERSISTENT, FLUSH_RANGE) == 0);
	wc_ok(e.id->send_cq, IBV_WC_RDMA_WRITE);
	MUST(wc_any(e.id->send_cq).status == IBV_WC_REM_ACCESS_ERR);
	MUST(wc_any(e.id->send_cq).status == IBV_WC_WR_FLUSH_ERR);
	client_close(&e);
	done("Flush of a range and of a region, behind a Write and before an Atomic Write");
}

/** A range that a kernel could not pin for these rights. */
static bool
unmapped(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	errno = 0;
	return ibv_reg_mr(pd, addr, len, access) == NULL && errno == EFAULT;
}

/** What is not mapped or not writable is refused, as a kernel refuses it. */
static void
case_unmapped(void)
{
	const int write = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	const int read = IBV_ACCESS_REMOTE_READ;
	struct ibv_mr *mr;
	struct end e;

	client_open(&e);
	/* short ranges and long ones are looked at in other ways */
	for (size_t page = 4096; page <= 16 * 65536; page *= 256) {
		const size_t len = 8 * page;
		uint8_t *m =
		        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		MUST(m != MAP_FAILED);
		/* adjacent mappings, of which some are for reading alone */
		for (unsigned int i = 0; i < 8; i += 2)
			MUST(mprotect(m + i * page, page, PROT_READ) == 0);
		MUST((mr = ibv_reg_mr(e.id->pd, m, len, read)) != NULL);
		MUST(ibv_dereg_mr(mr) == 0);
		MUST(unmapped(e.id->pd, m, len, write));
		MUST(unmapped(e.id->pd, m + page, page + 1, IBV_ACCESS_LOCAL_WRITE));
		MUST((mr = ibv_reg_mr(e.id->pd, m + page + 1, page - 1, write)) != NULL);
		/* what the program has stays as it is */
		MUST(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, m + page, page + 1,
		                  0) == IBV_REREG_MR_ERR_CMD &&
		     errno == EFAULT && mr->addr == m + page + 1);
		MUST(ibv_dereg_mr(mr) == 0);
		MUST((mr = ibv_reg_mr(e.id->pd, m, page, read)) != NULL);
		MUST(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, write) ==
		             IBV_REREG_MR_ERR_CMD &&
		     errno == EFAULT);
		MUST(ibv_dereg_mr(mr) == 0);
		/* a hole, in the middle and at both ends; what cannot be read */
		MUST(munmap(m + 4 * page, page) == 0);
		MUST(unmapped(e.id->pd, m, len, read));
		MUST(unmapped(e.id->pd, m + 4 * page, 2 * page, read));
		MUST(unmapped(e.id->pd, m + 3 * page, page + 1, read));
		MUST((mr = ibv_reg_mr(e.id->pd, m + 3 * page, page, write)) != NULL);
		MUST(ibv_dereg_mr(mr) == 0);
		MUST(mprotect(m, page, PROT_NONE) == 0);
		MUST(unmapped(e.id->pd, m, page, 0));
		MUST(munmap(m, len) == 0);
	}
	MUST(unmapped(e.id->pd, NULL, 4096, read));
	client_close(&e);
	done("regions of memory that is not mapped, or not writable, are refused");
}

static void
case_regions(void)
{
	struct ibv_pd *pd;
	struct end e;

	client_open(&e);
	pd = ibv_alloc_pd(e.id->verbs);
	MUST(pd != NULL);
	MUST(ibv_reg_mr(pd, e.mem, BYTES, IBV_ACCESS_REMOTE_WRITE) == NULL && errno == EINVAL);
	MUST(ibv_reg_mr(pd, e.mem, BYTES, IBV_ACCESS_ON_DEMAND) == NULL && errno == EOPNOTSUPP);
	/* in another domain the queue pair cannot use it */
	MUST(ibv_rereg_mr(e.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0) == 0 && e.mr->pd == pd);
	MUST(post(&e, IBV_WR_RDMA_WRITE, 4096, 8, e.told.addr, e.told.rkey) != 0);
	MUST(ibv_rereg_mr(e.mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION, e.id->pd,
	                  e.mem + 4096, 4096, 0) == 0);
	MUST(e.mr->addr == e.mem + 4096 && e.mr->length == 4096);
	MUST(post(&e, IBV_WR_RDMA_WRITE, 0, 8, e.told.addr, e.told.rkey) != 0);
	MUST(post(&e, IBV_WR_RDMA_WRITE, 4096, 8, e.told.addr, e.told.rkey) == 0);
	wc_ok(e.id->send_cq, IBV_WC_RDMA_WRITE);
	MUST(ibv_dealloc_pd(pd) == 0);
	client_close(&e);
	done("regions: rights, domains, registered anew");
}

/** Each event is an edge, as the kernel's wake-up is, whether the one before was taken or not. */
static void
case_edges(void)
{
	struct sockaddr_in dst = {.sin_family = AF_INET, .sin_port = htons(7)};
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	int ep = epoll_create1(0);
	struct rdma_cm_id *id[3];
	struct rdma_cm_event *got;

	MUST(ch != NULL && epoll_ctl(ep, EPOLL_CTL_ADD, ch->fd, &ev) == 0);
	MUST(inet_pton(AF_INET, to, &dst.sin_addr) == 1);
	for (unsigned int i = 0; i < 3; i++) {
		MUST(rdma_create_id(ch, &id[i], NULL, RDMA_PS_TCP) == 0);
		MUST(rdma_resolve_addr(id[i], NULL, (struct sockaddr *)&dst, 5000) == 0);
		MUST(epoll_wait(ep, &ev, 1, 10000) == 1);
		MUST(epoll_wait(ep, &ev, 1, 0) == 0);
	}
	for (unsigned int i = 0; i < 3; i++) {
		MUST(rdma_get_cm_event(ch, &got) == 0 && got->id == id[i]);
		MUST(rdma_ack_cm_event(got) == 0 && rdma_destroy_id(id[i]) == 0);
	}
	close(ep);
	rdma_destroy_event_channel(ch);
	done("each event is an edge of epoll");
}

static void *
wait_for_event(void *ch)
{
	struct rdma_cm_event *ev;

	(void)rdma_get_cm_event(ch, &ev);
	return NULL;
}

/** A thread waits at a channel whose number becomes another file's, which has to stay open. */
static void
number_with_waiter(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	pthread_t thread;

	MUST(ch != NULL && null >= 0);
	MUST(pthread_create(&thread, NULL, wait_for_event, ch) == 0);
	usleep(100000);
	MUST(dup2(null, ch->fd) == ch->fd);
	MUST(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
	MUST(write(ch->fd, "x", 1) == 1);
	rdma_destroy_event_channel(ch);
	close(null);
}

/** The number of a channel that was closed is an ordinary descriptor, however it was closed. */
static void
case_numbers(void)
{
	for (unsigned int how = 0; how < 4; how++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		int ends[2], fd, n;
		char c = 0;

		MUST(ch != NULL && pipe(ends) == 0);
		fd = ch->fd;
		MUST(fd < ends[0] && ends[0] < ends[1]);
		if (how == 0)
			MUST(dup2(ends[1], fd) == fd);
		else if (how == 1)
			MUST(dup3(ends[1], fd, O_CLOEXEC) == fd);
		else if (how == 2)
			MUST(close_range((unsigned int)fd, (unsigned int)fd, 0) == 0);
		/* not closed: it is a channel as before */
		n = how < 3 ? how < 2 ? fd : dup(ends[1]) : fd;
		MUST(n == fd);
		if (how == 3) {
			MUST(close_range((unsigned int)fd, (unsigned int)fd, CLOSE_RANGE_CLOEXEC) ==
			             0 &&
			     dup2(fd, fd) == fd);
			MUST(write(fd, "x", 1) == -1 && errno == EINVAL);
			rdma_destroy_event_channel(ch);
		} else {
			MUST(write(fd, "x", 1) == 1 && read(ends[0], &c, 1) == 1 && c == 'x');
			MUST(close(fd) == 0);
			free(ch);
		}
		MUST(close(ends[0]) == 0 && close(ends[1]) == 0);
	}
	number_with_waiter();
	done("the number of a channel that dup2(), dup3() or close_range() has closed");
}

static volatile sig_atomic_t signals[2]; /**< handled: with SA_RESTART, and without */

static void
signal_count(int number)
{
	signals[number == SIGUSR2]++;
}

/** Interrupt a thread that waits twice: it goes on, and it returns. */
static void *
signal_thread(void *whom)
{
	usleep(200000);
	MUST(pthread_kill(*(pthread_t *)whom, SIGUSR1) == 0);
	usleep(200000);
	MUST(signals[0] == 1 && pthread_kill(*(pthread_t *)whom, SIGUSR2) == 0);
	return NULL;
}

/** As read(2) of the kernel's descriptors. */
static void
case_signals(void)
{
	struct rdma_event_channel *cm = rdma_create_event_channel();
	struct rdma_cm_id *id = client_id();
	struct ibv_comp_channel *ch = ibv_create_comp_channel(id->verbs);
	struct sigaction sa = {.sa_handler = signal_count};
	pthread_t other, me = pthread_self();
	struct ibv_async_event async;
	struct rdma_cm_event *ev;
	struct ibv_cq *cq;
	void *user;

	MUST(cm != NULL && ch != NULL && sigaction(SIGUSR2, &sa, NULL) == 0);
	sa.sa_flags = SA_RESTART;
	MUST(sigaction(SIGUSR1, &sa, NULL) == 0);
	for (unsigned int i = 0; i < 3; i++) {
		signals[0] = signals[1] = 0;
		MUST(pthread_create(&other, NULL, signal_thread, &me) == 0);
		errno = 0;
		MUST((i == 0   ? ibv_get_cq_event(ch, &cq, &user)
		      : i == 1 ? rdma_get_cm_event(cm, &ev)
		               : ibv_get_async_event(id->verbs, &async)) == -1);
		MUST(errno == EINTR && signals[0] == 1 && signals[1] == 1);
		MUST(pthread_join(other, NULL) == 0);
	}
	MUST(ibv_destroy_comp_channel(ch) == 0);
	rdma_destroy_event_channel(cm);
	rdma_destroy_ep(id);
	done("a thread that waits for an event goes on after a signal with SA_RESTART");
}

/** What a child of fork() does to all that it has inherited. Returns its exit status. */
static int
child_uses(struct end *e)
{
	struct ibv_pd *pd = e->id->qp->pd;
	struct ibv_context *ctx = pd->context;

	memset(e->mem + 8192, 0xee, 4096);
	if (post(e, IBV_WR_RDMA_WRITE, 8192, 4096, e->told.addr + 8192, e->told.rkey) != EPERM)
		return 2;
	if (ibv_reg_mr(pd, e->mem, 4096, IBV_ACCESS_LOCAL_WRITE) != NULL || errno != EPERM)
		return 3;
	if (rdma_create_event_channel() != NULL || errno != EPERM)
		return 4;
	if (ibv_create_comp_channel(ctx) != NULL || errno != EPERM ||
	    ibv_create_cq(ctx, 16, NULL, NULL, 0) != NULL || errno != EPERM)
		return 5;
	/* in the order in which a program takes them down */
	if (ibv_dereg_mr(e->mr) != 0 || ibv_destroy_qp(e->id->qp) != 0 ||
	    ibv_destroy_cq(e->id->recv_cq) != 0 ||
	    ibv_destroy_comp_channel(e->id->recv_cq_channel) != 0)
		return 6;
	return ibv_dealloc_pd(pd) == 0 && ibv_close_device(ctx) == 0 ? 0 : 7;
}

/** An event that is there when a child is made stays its parent's. */
static void
fork_event(struct end *e)
{
	struct pollfd p = {.fd = e->id->recv_cq_channel->fd, .events = POLLIN};
	const struct ask a = {.order = SEND_BACK, .n = 1};
	struct ibv_cq *cq;
	void *user;
	int status;
	pid_t pid;

	MUST(ibv_req_notify_cq(e->id->recv_cq, 0) == 0);
	post_recv(e, NULL, 0);
	post_send_inline(e, &a, sizeof(a));
	wc_ok(e->id->send_cq, IBV_WC_SEND);
	MUST(poll(&p, 1, 10000) == 1);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0)
		_exit(ibv_get_cq_event(e->id->recv_cq_channel, &cq, &user) == -1 && errno == EPERM
		              ? 0
		              : 2);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	MUST(poll(&p, 1, 0) == 1);
	MUST(ibv_get_cq_event(e->id->recv_cq_channel, &cq, &user) == 0 && cq == e->id->recv_cq);
	ibv_ack_cq_events(cq, 1);
	wc_ok(e->id->recv_cq, IBV_WC_RECV);
}

static void
child_closes(void)
{
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
}

/** A child of each kind, while the parent's connection is open. */
static void
fork_one(struct end *e, unsigned int kind)
{
	pid_t pid = kind == 2 ? vfork() : fork();
	int status;

	MUST(pid >= 0);
	if (pid == 0) {
		if (kind == 1)
			_exit(child_uses(e));
		child_closes();
		if (kind == 2)
			execl("/bin/true", "true", (char *)NULL);
		exit(0); /* as a program that has not called exec() ends */
	}
	MUST(waitpid(pid, &status, 0) == pid);
	if (status != 0)
		printf("# child %u: status %#x\n", kind, (unsigned int)status);
	MUST(status == 0);
}

static void
case_fork(void)
{
	struct end e;

	MUST(ibv_fork_init() == 0);
	client_open(&e);
	for (unsigned int kind = 0; kind < 3; kind++) {
		uint32_t sum = 0;

		fork_one(&e, kind);
		for (unsigned int i = 0; i < 4096; i++)
			sum += e.mem[8192 + i] = (uint8_t)(i * 3 + kind);
		MUST(post(&e, IBV_WR_RDMA_WRITE, 8192, 4096, e.told.addr + 8192, e.told.rkey) == 0);
		wc_ok(e.id->send_cq, IBV_WC_RDMA_WRITE);
		MUST(ask(&e, TELL_SUM, 0).value == sum);
	}
	fork_event(&e);
	MUST(system("exit 3") >> 8 == 3);
	MUST(ask(&e, IS_BOUND, 0).value == 0);
	client_close(&e);
	done("children of fork() and vfork(): they close all, end, use what is the parent's, call "
	     "exec()");
}

/** In error before it was connected: what it was made of is still in use. */
static void
case_users(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR}, reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_init_attr attr = plain();
	struct rdma_cm_id *id = client_id();
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
	struct ibv_qp *qp;

	MUST(pd != NULL);
	attr.send_cq = attr.recv_cq = ibv_create_cq(id->verbs, DEPTH, NULL, NULL, 0);
	attr.srq = ibv_create_srq(pd, &sa);
	MUST(attr.recv_cq != NULL && attr.srq != NULL);
	qp = ibv_create_qp(pd, &attr);
	MUST(qp != NULL);
	for (unsigned int i = 0; i < 3; i++) {
		MUST(ibv_modify_qp(qp, i % 2 == 0 ? &err : &reset, IBV_QP_STATE) == 0);
		MUST(ibv_destroy_srq(attr.srq) == EBUSY && ibv_dealloc_pd(pd) == EBUSY);
		MUST(ibv_destroy_cq(attr.recv_cq) == EBUSY);
	}
	MUST(ibv_destroy_qp(qp) == 0 && ibv_destroy_srq(attr.srq) == 0);
	MUST(ibv_dealloc_pd(pd) == 0 && ibv_destroy_cq(attr.recv_cq) == 0);
	rdma_destroy_ep(id);
	done("a queue pair in error keeps its domain and its queues in use");
}

/** As in the kernel, the end of a context is that of its connections. */
static void
case_closed(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct end e = {.id = client_id()};
	struct ibv_qp_init_attr attr = plain();
	struct ibv_context *ctx = ibv_open_device(list[0]);
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct rdma_conn_param p = {.responder_resources = 3, .initiator_depth = 5};
	struct ibv_qp *qp;
	int fd = ctx->async_fd;

	MUST(pd != NULL && ch != NULL);
	attr.send_cq = attr.recv_cq = ibv_create_cq(ctx, DEPTH, NULL, ch, 0);
	MUST(attr.recv_cq != NULL);
	qp = ibv_create_qp(pd, &attr);
	MUST(qp != NULL);
	p.qp_num = qp->qp_num;
	MUST(rdma_connect(e.id, &p) == 0);
	MUST(e.id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	MUST(ibv_req_notify_cq(attr.recv_cq, 0) == 0);
	MUST(ibv_close_device(ctx) == 0);
	MUST(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
	MUST(qp->state == IBV_QPS_ERR);
	usleep(100000);
	/* of use to no program, and no harm */
	MUST(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(attr.recv_cq) == 0);
	MUST(ibv_destroy_comp_channel(ch) == 0 && ibv_dealloc_pd(pd) == 0);
	rdma_destroy_ep(e.id);
	ibv_free_device_list(list);
	done("a context that is closed with a connection: that ends, and no event comes");
}

static void
case_refused(void)
{
	struct ibv_qp_init_attr attr = plain();
	struct ibv_ah_attr ah = {0};
	struct ibv_qp_attr qa = {.qp_state = IBV_QPS_RTS};
	struct rdma_cm_id *id = client_id();
	struct ibv_xrcd_init_attr xa = {0};
	struct ibv_qp *qp;

	attr.send_cq = attr.recv_cq = ibv_create_cq(id->verbs, DEPTH, NULL, NULL, 0);
	for (unsigned int i = 0; i < 3; i++) {
		attr.qp_type =
		        (const enum ibv_qp_type[]){IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RAW_PACKET}[i];
		MUST(ibv_create_qp(id->pd, &attr) == NULL && errno == EOPNOTSUPP);
	}
	attr.qp_type = (enum ibv_qp_type)77;
	MUST(ibv_create_qp(id->pd, &attr) == NULL && errno == EINVAL);
	attr.qp_type = IBV_QPT_RC;
	qp = ibv_create_qp(id->pd, &attr);
	MUST(qp != NULL);
	MUST(ibv_modify_qp(qp, &qa, IBV_QP_STATE) == EINVAL);
	qa.qp_state = IBV_QPS_ERR;
	MUST(ibv_modify_qp(qp, &qa, IBV_QP_STATE) == 0 && qp->state == IBV_QPS_ERR);
	MUST(ibv_destroy_qp(qp) == 0);
	MUST(ibv_create_ah(id->pd, &ah) == NULL && errno == EOPNOTSUPP);
	MUST(ibv_open_xrcd(id->verbs, &xa) == NULL && errno == EOPNOTSUPP);
	MUST(ibv_destroy_cq(attr.send_cq) == 0);
	rdma_destroy_ep(id);
	done("what iWARP does not have is refused");
}

static void
case_rejected(void)
{
	struct rdma_conn_param p = {.private_data = "reject", .private_data_len = 6};
	struct rdma_cm_id *id = client_id();
	struct ibv_qp_init_attr attr = plain();

	MUST(rdma_create_qp(id, NULL, &attr) == 0);
	MUST(rdma_connect(id, &p) == -1 && errno == ECONNREFUSED);
	MUST(id->event->event == RDMA_CM_EVENT_REJECTED);
	MUST(id->event->param.conn.private_data_len >= 2 &&
	     memcmp(id->event->param.conn.private_data, "no", 2) == 0);
	rdma_destroy_ep(id);
	done("a rejection, with private data both ways");
}

static void
case_ports(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET}, *own;
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
	int on = 1;
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *one, *two;
	struct end e;

	MUST(ch != NULL && rdma_create_id(ch, &one, NULL, RDMA_PS_TCP) == 0 &&
	     rdma_create_id(ch, &two, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(one, (struct sockaddr *)&a) == 0);
	MUST(rdma_listen(one, 1) == 0);
	own = (struct sockaddr_in *)(void *)rdma_get_local_addr(one);
	MUST(ntohs(rdma_get_src_port(one)) >= 1024 && own->sin_addr.s_addr == 0);
	a.sin_port = rdma_get_src_port(one);
	MUST(rdma_bind_addr(two, (struct sockaddr *)&a) == -1 && errno == EADDRINUSE);
	/* all addresses of IPv6 besides: of both families, or of IPv6 alone (tgtd) */
	a6.sin6_port = a.sin_port;
	MUST(rdma_bind_addr(two, (struct sockaddr *)&a6) == -1 && errno == EADDRINUSE);
	MUST(rdma_set_option(two, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)) == 0);
	MUST(rdma_bind_addr(two, (struct sockaddr *)&a6) == 0);
	/* as with the kernel, until the id listens */
	MUST(rdma_set_option(two, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)) == 0);
	MUST(rdma_listen(two, 1) == 0);
	MUST(rdma_set_option(two, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)) == -1 &&
	     errno == EINVAL);
	MUST(rdma_destroy_id(two) == 0 && rdma_create_id(ch, &two, NULL, RDMA_PS_TCP) == 0);
	a.sin_addr.s_addr = htonl(0xc0000263); /* 192.0.2.99 */
	MUST(rdma_bind_addr(two, (struct sockaddr *)&a) == -1 && errno == EADDRNOTAVAIL);
	MUST(rdma_resolve_addr(two, NULL, (struct sockaddr *)&a, 100) == -1 &&
	     errno == ENETUNREACH);
	/* the port does not reach itself, by a gateway either */
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MUST(rdma_resolve_addr(two, NULL, (struct sockaddr *)&a, 100) == -1 &&
	     errno == ENETUNREACH);
	MUST(rdma_destroy_id(one) == 0 && rdma_destroy_id(two) == 0);
	client_open(&e);
	a.sin_addr.s_addr = 0;
	a.sin_port = rdma_get_src_port(e.id);
	MUST(rdma_create_id(ch, &one, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(one, (struct sockaddr *)&a) == -1 && errno == EADDRINUSE);
	client_close(&e);
	MUST(rdma_bind_addr(one, (struct sockaddr *)&a) == 0 && rdma_destroy_id(one) == 0);
	rdma_destroy_event_channel(ch);
	done("listening on port 0, ports in use, addresses of others");
}

static void *
open_thread(void *list)
{
	(void)ibv_open_device(*(struct ibv_device **)list);
	return NULL;
}

/**
 * fork() while another thread opens the device, which waits for the server of its net_memif: there
 * is none. The child must not wait for a thread that it does not have.
 */
static int
fork_in_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	pthread_t thread;
	int status;
	pid_t pid;

	MUST(pthread_create(&thread, NULL, open_thread, list) == 0);
	usleep(1000000);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		alarm(10);
		_exit(ibv_open_device(list[0]) == NULL && errno == EPERM ? 0 : 2);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	printf("status of the child: %#x\n", (unsigned int)status);
	fflush(stdout);
	_exit(status != 0);
}

/**
 * A daemon that tries to open its device until it can. file: "-", or the device is known before,
 * and a child tries it when the file is there.
 */
static int
try_again(const char *file)
{
	const bool child = strcmp(file, "-") != 0;
	struct ibv_context *context = NULL;
	struct timespec start;
	int n = 0, status;

	ibv_free_device_list(ibv_get_device_list(&n));
	MUST(n == child);
	if (child) {
		printf("listed\n");
		fflush(stdout);
		clock_gettime(CLOCK_MONOTONIC, &start);
		while (access(file, F_OK) != 0 && soon(&start))
			usleep(20000);
		if (fork() > 0)
			_exit(wait(&status) > 0 && status == 0 ? 0 : 1);
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (unsigned int i = 0; context == NULL && soon(&start); i++) {
		struct ibv_device **list = ibv_get_device_list(&n);

		MUST(list != NULL);
		if (n > 0)
			context = ibv_open_device(list[0]);
		ibv_free_device_list(list);
		if (i == 2 && context == NULL) {
			printf("tried\n");
			fflush(stdout);
		}
		usleep(20000);
	}
	MUST(context != NULL && ibv_close_device(context) == 0);
	printf("opened\n");
	return 0;
}

/** The server calls; what it saw is in e->mem when its message has come. */
static void
ask_call(struct end *e, uint32_t port)
{
	const struct ask a = {.order = CALL, .n = port};

	post_recv(e, NULL, 0);
	post_send_inline(e, &a, sizeof(a));
	wc_ok(e->id->send_cq, IBV_WC_SEND);
}

static uint32_t
call_seen(struct end *e)
{
	struct told t;

	wc_ok(e->id->recv_cq, IBV_WC_RECV);
	memcpy(&t, e->mem, sizeof(t));
	return t.value;
}

static struct rdma_cm_id *
listen_on(struct rdma_event_channel *ch, uint16_t port, int backlog)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct rdma_cm_id *id;

	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(id, (struct sockaddr *)&a) == 0 && rdma_listen(id, backlog) == 0);
	return id;
}

static void
channel_ready(struct rdma_event_channel *ch)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};

	MUST(poll(&p, 1, 10000) == 1);
}

/** Take the request that waits on a channel, and accept it. */
static void
take_request(struct rdma_event_channel *ch)
{
	struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1};
	struct ibv_qp_init_attr attr = plain();
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	channel_ready(ch);
	MUST(rdma_get_cm_event(ch, &ev) == 0 && ev->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	MUST(id->channel == ch && rdma_ack_cm_event(ev) == 0);
	MUST(rdma_create_qp(id, NULL, &attr) == 0 && rdma_accept(id, &p) == 0);
	channel_ready(ch);
	MUST(rdma_get_cm_event(ch, &ev) == 0 && ev->event == RDMA_CM_EVENT_ESTABLISHED);
	MUST(ev->id == id && rdma_ack_cm_event(ev) == 0);
	rdma_destroy_qp(id);
	MUST(rdma_destroy_id(id) == 0);
}

/**
 * A listener moves to another channel while a request waits: the request moves with it, and the
 * old channel can go. taken: the program takes it; else the request goes with its listener.
 */
static void
migrate_one(struct end *e, uint16_t port, bool taken)
{
	struct rdma_event_channel *from = rdma_create_event_channel(),
	                          *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;

	MUST(from != NULL && ch != NULL);
	id = listen_on(from, port, 4);
	ask_call(e, port);
	channel_ready(from);
	MUST(rdma_migrate_id(id, ch) == 0);
	rdma_destroy_event_channel(from);
	if (taken)
		take_request(ch);
	MUST(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(ch);
	MUST(call_seen(e) == (taken ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_REJECTED));
}

static void
case_migrate(void)
{
	struct end e;

	client_open(&e);
	migrate_one(&e, 7301, true);
	migrate_one(&e, 7302, false);
	client_close(&e);
	done("a listener moves to another channel with a request that waits");
}

int
main(int argc, char **argv)
{
	const char *tos[2] = {argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL};

	MUST(argc >= 3 && argc <= 5);
	if (strcmp(argv[1], "fork-in-open") == 0)
		return fork_in_open();
	if (strcmp(argv[1], "try-again") == 0)
		return try_again(argv[2]);
	if (strcmp(argv[1], "server") == 0)
		server(argv[2]);
	to = argv[2];
	if (strncmp(argv[1], "wait-", 5) == 0)
		return wait_idle(argv[1] + 5, to, tos);
	if (strcmp(argv[1], "removed") == 0)
		return device_removed();
	if (strcmp(argv[1], "leave-open") == 0)
		return leave_open();
	printf("1..34\n");
	case_write_read();
	case_depths();
	case_atomics();
	case_imm();
	case_windows();
	case_rebind();
	case_srq();
	case_cq();
	case_channel();
	case_slow();
	case_threads();
	case_race();
	case_extended();
	case_flush();
	case_regions();
	case_unmapped();
	case_edges();
	case_signals();
	case_numbers();
	case_fork();
	case_users();
	case_closed();
	case_refused();
	case_rejected();
	case_ports();
	case_migrate();
	case_shared();
	case_bind_again();
	case_late();
	case_flushed();
	case_async();
	case_options();
	case_backlog();
	case_absent();
	return 0;
}
