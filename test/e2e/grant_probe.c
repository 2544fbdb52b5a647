/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A client that obeys commands which weft-cp never executes: it holds a grant, and writes
 * through any STag.
 *
 *     grant_probe DEV CIDR HOST EXPORT
 *
 * Connects, OPENs the export for writing (repeatedly while it is busy), prints "granted STAG TO",
 * then obeys lines on standard input. For each it prints "ok" or the error:
 *
 * - write STAG TO: RDMA Write of 8 octets followed by a Read
 * - aword STAG TO HEX: Atomic Write of 8 octets without a Flush, followed by a Read
 * - quit
 */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export_proto.h"
#include "probe.h"
#include "stack.h"
#include "ui.h"
#include <weft/rpcrdma.h>

#define TIMEOUT_NS 20000000000ull

static struct probe {
	struct weft_worker *w;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	bool up, gone;
	char term[160];
	int answered; /**< result of the OPEN: 1 granted, -1 refused */
	enum weft_export_status status;
	uint32_t stag;
	uint64_t to;
	bool done; /**< the Read after the Write is complete */
	enum weft_wc_status wc;
} pr;

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		if (weft_rpc_wc(pr.rpc, &wc[i]) || wc[i].wr_id != 1)
			continue;
		pr.done = true;
		pr.wc = wc[i].status;
	}
}

static void
on_event(void *user, const struct weft_event *ev)
{
	(void)user;
	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		pr.up = true;
		break;
	case WEFT_EV_TERMINATED:
		snprintf(pr.term, sizeof(pr.term), "%u/%u/%02x", ev->term.layer, ev->term.etype,
		         ev->term.code);
		break;
	case WEFT_EV_REJECTED:
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		pr.gone = true;
		break;
	default:
		break;
	}
}

static void
on_open(void *arg, enum weft_rpc_status status, void *res)
{
	weft_export_open_res *r = res;

	(void)arg;
	pr.answered = -1;
	pr.status = WEFT_EXPORT_NORES;
	if (status != WEFT_RPC_OK)
		return;
	pr.status = r->status;
	if (r->status == WEFT_EXPORT_OK) {
		pr.answered = 1;
		pr.stag = r->weft_export_open_res_u.grant.stag;
		pr.to = r->weft_export_open_res_u.grant.slot_to[1] + 4096;
	}
}

static bool
poll_until(const bool *flag, const int *answer)
{
	uint64_t end = ui_now_ns() + TIMEOUT_NS;

	while (!pr.gone && ui_now_ns() < end) {
		if ((flag != NULL && *flag) || (answer != NULL && *answer != 0))
			return true;
		if (weft_worker_poll(pr.w) == 0)
			weft_worker_idle(pr.w, 50);
	}
	return false;
}

static void
open_export(char *name)
{
	weft_export_open_args args = {.name = name, .rights = WEFT_EXPORT_READ | WEFT_EXPORT_WRITE};
	uint64_t end = ui_now_ns() + TIMEOUT_NS;

	do {
		pr.answered = 0;
		if (weft_rpc_call(pr.rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, WEFT_EXPORT_OPEN,
		                  (xdrproc_t)xdr_weft_export_open_args, &args,
		                  (xdrproc_t)xdr_weft_export_open_res, sizeof(weft_export_open_res),
		                  0, on_open, NULL) != 0 ||
		    !poll_until(NULL, &pr.answered))
			ui_die("OPEN got no answer");
	} while (pr.answered < 0 && pr.status == WEFT_EXPORT_BUSY && ui_now_ns() < end);
	if (pr.answered < 0)
		ui_die("OPEN refused: %d", pr.status);
	printf("granted 0x%08x %llu\n", pr.stag, (unsigned long long)pr.to);
	fflush(stdout);
}

static void
write_below(uint32_t stag, uint64_t to, uint8_t *mem, uint32_t lkey)
{
	struct weft_sge src = {mem, 8, 0}, sink = {mem + 8, 8, lkey};
	struct weft_wr wr[2] = {
	        {.opcode = WEFT_WR_WRITE, .sg_list = &src, .num_sge = 1, .rdma = {stag, to}},
	        {.wr_id = 1,
	         .opcode = WEFT_WR_READ,
	         .flags = WEFT_WR_SIGNALED,
	         .sg_list = &sink,
	         .num_sge = 1,
	         .rdma = {pr.stag, pr.to}},
	};

	pr.done = false;
	if (weft_post_send(pr.qp, wr, 2) != 2)
		ui_die("post failed");
	poll_until(&pr.done, NULL);
	/* The content of the Terminate is known at the end of the connection. */
	if (pr.wc != WEFT_WC_SUCCESS || !pr.done)
		poll_until(&pr.gone, NULL);
	printf("%s\n", pr.done && pr.wc == WEFT_WC_SUCCESS ? "ok" : pr.term);
	fflush(stdout);
}

/* An Atomic Write without a Flush. The completion of the following Read shows that it was
 * executed. */
static void
aword(uint32_t stag, uint64_t to, uint64_t word, uint8_t *mem, uint32_t lkey)
{
	struct weft_sge sink = {mem + 8, 8, lkey};
	struct weft_wr wr[2] = {
	        {.opcode = WEFT_WR_ATOMIC_WRITE, .atomic_write = {.stag = stag, .to = to}},
	        {.wr_id = 1,
	         .opcode = WEFT_WR_READ,
	         .flags = WEFT_WR_SIGNALED,
	         .sg_list = &sink,
	         .num_sge = 1,
	         .rdma = {stag, to}},
	};

	for (int i = 0; i < 8; i++)
		wr[0].atomic_write.data[i] = (uint8_t)(word >> (56 - 8 * i));
	pr.done = false;
	if (weft_post_send(pr.qp, wr, 2) != 2)
		ui_die("post failed");
	printf("%s\n", poll_until(&pr.done, NULL) && pr.wc == WEFT_WC_SUCCESS &&
	                               memcmp(mem + 8, wr[0].atomic_write.data, 8) == 0
	                       ? "ok"
	                       : pr.term);
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	static uint8_t mem[4096] = "stale?!";
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(7471)};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 1024, .on_wc = on_wc};
	struct weft_qp_attr qa = {.size = sizeof(qa), .user = &pr};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = mem,
	                          .len_bytes = sizeof(mem),
	                          .access = WEFT_ACCESS_LOCAL_WRITE};
	struct weft_rpc_attr ra = {.size = sizeof(ra)};
	char line[256];
	struct stack st = {0};
	struct weft_pd *pd;
	struct weft_mr *mr;

	ui_init("grant_probe");
	if (argc != 5 || inet_pton(AF_INET, argv[3], &sin.sin_addr) != 1)
		ui_usage_die("DEV CIDR HOST EXPORT");
	probe_up(&st, "grant_probe", argv[1], argv[2]);
	pr.w = st.workers[0];
	qa.worker = pr.w;
	if (weft_pd_alloc(st.ctx, &pd) != 0 || weft_cq_create(st.ctx, &ca, &qa.send_cq) != 0 ||
	    weft_evq_create(st.ctx, &ea, &qa.evq) != 0 || weft_mr_reg(pd, &ma, &mr) != 0)
		ui_die("set-up failed");
	qa.recv_cq = qa.send_cq;
	if (weft_qp_create(pd, &qa, &pr.qp) != 0)
		ui_die("no QP");
	ra.qp = pr.qp;
	if (weft_rpc_create(&ra, &pr.rpc) != 0 ||
	    weft_connect(pr.qp, (struct sockaddr *)&sin, sizeof(sin), NULL) != 0 ||
	    !poll_until(&pr.up, NULL))
		ui_die("not connected");
	open_export(argv[4]);
	while (fgets(line, sizeof(line), stdin) != NULL && strncmp(line, "quit", 4) != 0) {
		unsigned int stag;
		unsigned long long to, word;

		if (sscanf(line, "write %x %llu", &stag, &to) == 2)
			write_below(stag, to, mem, weft_mr_stag(mr));
		if (sscanf(line, "aword %x %llu %llx", &stag, &to, &word) == 3)
			aword(stag, to, word, mem, weft_mr_stag(mr));
	}
	weft_qp_destroy(pr.qp);
	weft_rpc_destroy(pr.rpc);
	weft_mr_dereg(mr, NULL, NULL);
	stack_down(&st);
	return 0;
}
