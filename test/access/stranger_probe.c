/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file An unauthenticated client.
 *
 *     stranger_probe DEV CIDR HOST stat EXPORT
 *
 * Prints the result of STAT: "rights R generation G slot S whole W length L mtime M name NAME crc
 * C".
 *
 *     stranger_probe DEV CIDR HOST parts CONNS OCTETS
 *
 * CONNS connections. On each, all parts but the last of a call of OCTETS are sent, as far as the
 * target gives credit. Prints "held N closed M" when nothing changes any more, with N the octets of
 * the connections that are left. Then it waits for a line and ends.
 */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "export_proto.h"
#include "probe.h"
#include "stack.h"
#include "ui.h"
#include <weft/rpcrdma.h>

#define TIMEOUT_NS 20000000000ull
#define QUIET_NS   700000000ull
#define CONNS_MAX  512
#define MSG_BYTES  4096
#define HDR_BYTES  20 /* fixed part, and the remaining length */
#define RECVS      8
#define SENDS      16
#define MIDDLE     9 /* RDMA2_CALL_MIDDLE, draft section 6.3.6 */

static struct weft_ctx *ctx;
static struct weft_worker *worker;
static struct weft_cq *cq;
static struct weft_evq *evq;
static struct sockaddr_storage to;

struct conn {
	struct weft_pd *pd;
	struct weft_qp *qp;
	struct weft_rpc *rpc; /* for stat */
	bool up, gone;
	uint32_t sent, credit, out; /* messages; out: posted and not completed */
	uint64_t octets;
	uint8_t in[RECVS][MSG_BYTES], parts[SENDS][MSG_BYTES];
};

static struct conn conns[CONNS_MAX];
static unsigned int nconns;
static uint32_t total;
static uint64_t moved_ns;
static bool answered;
static weft_export_stat_res stat_res;

static void
post_recv(struct conn *c, unsigned int i)
{
	struct weft_sge sg = {.addr = c->in[i], .len_bytes = MSG_BYTES};
	struct weft_recv_wr wr = {.wr_id = i, .sg_list = &sg, .num_sge = 1};

	(void)weft_post_recv(c->qp, &wr, 1);
}

static uint32_t
get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return ntohl(v);
}

static void
put32(uint8_t *p, uint32_t v)
{
	v = htonl(v);
	memcpy(p, &v, sizeof(v));
}

/* Send the next parts, as many as there is credit for. The last part is never sent. */
static void
push(struct conn *c)
{
	const uint32_t each = MSG_BYTES - HDR_BYTES;

	while (c->up && !c->gone && c->sent < c->credit && c->out < SENDS - 1 &&
	       c->octets + 2 * each <= total) {
		uint8_t *part = c->parts[c->sent % SENDS];
		struct weft_sge sg = {.addr = part, .len_bytes = MSG_BYTES};
		struct weft_wr wr = {.opcode = WEFT_WR_SEND,
		                     .flags = WEFT_WR_SIGNALED,
		                     .sg_list = &sg,
		                     .num_sge = 1};

		put32(part, 7);
		put32(part + 4, 2);
		put32(part + 8, c->sent + 1000);
		put32(part + 12, MIDDLE);
		put32(part + 16, total - (uint32_t)c->octets - each);
		put32(part + 20, 7);
		if (weft_post_send(c->qp, &wr, 1) != 1)
			return;
		c->sent++;
		c->out++;
		c->octets += each;
	}
}

static void
on_wc(void *user, struct weft_cq *q, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)q;
	moved_ns = ui_now_ns();
	for (unsigned int i = 0; i < n; i++) {
		struct conn *c = wc[i].qp_user;

		if (c->rpc != NULL) {
			(void)weft_rpc_wc(c->rpc, &wc[i]);
		} else if (wc[i].status != WEFT_WC_SUCCESS) {
			c->gone = true;
		} else if (wc[i].opcode == WEFT_WC_RECV) {
			c->credit = get32(c->in[wc[i].wr_id] + 8);
			post_recv(c, (unsigned int)wc[i].wr_id);
		} else {
			c->out--;
		}
	}
}

static void
on_event(void *user, const struct weft_event *ev)
{
	struct conn *c = ev->user;

	(void)user;
	if (c == NULL)
		return;
	moved_ns = ui_now_ns();
	c->up |= ev->type == WEFT_EV_ESTABLISHED;
	c->gone |= ev->type == WEFT_EV_REJECTED || ev->type == WEFT_EV_CONNECT_ERROR ||
	           ev->type == WEFT_EV_DISCONNECTED;
}

static void
poll_once(void)
{
	if (weft_worker_poll(worker) == 0)
		weft_worker_idle(worker, 50);
}

static struct conn *
connect_one(bool rpc)
{
	struct conn *c = &conns[nconns++];
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = worker,
	                          .send_cq = cq,
	                          .recv_cq = cq,
	                          .evq = evq,
	                          .sq_depth = 128,
	                          .rq_depth = 64,
	                          .user = c};
	struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 5000000};
	struct weft_rpc_attr ra = {.size = sizeof(ra)};
	uint64_t end = ui_now_ns() + TIMEOUT_NS;

	if (weft_pd_alloc(ctx, &c->pd) != 0 || weft_qp_create(c->pd, &qa, &c->qp) != 0)
		ui_die("no queue pair");
	ra.qp = c->qp;
	if (rpc && weft_rpc_create(&ra, &c->rpc) != 0)
		ui_die("no endpoint");
	for (unsigned int i = 0; !rpc && i < RECVS; i++)
		post_recv(c, i);
	c->credit = 1;
	if (weft_connect(c->qp, (struct sockaddr *)&to, addr_len(&to), &ca) != 0)
		ui_die("cannot connect");
	while (!c->up && !c->gone && ui_now_ns() < end)
		poll_once();
	if (!c->up)
		ui_die("connection %u was not accepted", nconns);
	return c;
}

static void
parts(unsigned int n, uint32_t octets)
{
	uint64_t held = 0;
	unsigned int closed = 0;
	char line[8];

	total = octets;
	/* Connect all of them first, because an address that has failed is refused. */
	while (nconns < n)
		(void)connect_one(false);
	while (ui_now_ns() - moved_ns < QUIET_NS) {
		for (unsigned int i = 0; i < nconns; i++)
			push(&conns[i]);
		poll_once();
	}
	for (unsigned int i = 0; i < nconns; i++) {
		closed += conns[i].gone;
		held += conns[i].gone ? 0 : conns[i].octets;
	}
	printf("held %llu closed %u\n", (unsigned long long)held, closed);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) == NULL)
		ui_die("no line");
	_exit(0);
}

static void
on_stat(void *arg, enum weft_rpc_status status, void *res)
{
	const weft_export_stat_res *r = res;
	const weft_export_state *s = &r->weft_export_stat_res_u.state;

	(void)arg;
	answered = true;
	if (status != WEFT_RPC_OK || r->status != WEFT_EXPORT_OK)
		ui_die("STAT: %d", (int)status);
	printf("rights %u generation %llu slot %u whole %d length %llu mtime %lld name \"%s\" crc ",
	       s->rights, (unsigned long long)s->generation, s->slot, (int)s->whole,
	       (unsigned long long)s->length, (long long)s->mtime_ns, s->name);
	for (unsigned int i = 0; i < sizeof(s->crc); i++)
		printf("%02x", (uint8_t)s->crc[i]);
	puts("");
}

static void
stat_one(char *name)
{
	weft_export_stat_args args = {.name = name};
	struct conn *c = connect_one(true);

	if (weft_rpc_call(c->rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, WEFT_EXPORT_STAT,
	                  (xdrproc_t)xdr_weft_export_stat_args, &args,
	                  (xdrproc_t)xdr_weft_export_stat_res, sizeof(stat_res), 5000000, on_stat,
	                  NULL) != 0)
		ui_die("no call");
	while (!answered)
		poll_once();
	fflush(stdout);
	_exit(0);
}

int
main(int argc, char **argv)
{
	static struct stack stack;
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 65536, .on_wc = on_wc};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};

	ui_init("stranger_probe");
	if (argc < 6)
		ui_usage_die("DEV CIDR HOST stat EXPORT | parts CONNS OCTETS");
	probe_up(&stack, "stranger_probe", argv[1], argv[2]);
	ctx = stack.ctx;
	worker = stack.workers[0];
	if (addr_resolve(argv[3], 7471, &to) != NULL || weft_cq_create(ctx, &ca, &cq) != 0 ||
	    weft_evq_create(ctx, &ea, &evq) != 0)
		ui_die("cannot start");
	if (strcmp(argv[4], "stat") == 0)
		stat_one(argv[5]);
	if (argc == 7 && atoi(argv[5]) <= CONNS_MAX)
		parts((unsigned int)atoi(argv[5]), (uint32_t)atoi(argv[6]));
	return 2;
}
