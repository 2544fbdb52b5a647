/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A client that uses tickets for logs in ways that no writer does.
 *
 *     ticket_probe DEV CIDR HOST EXPORT [NAME:KEYFILE]
 *
 * Obeys lines on standard input, and prints one line for each:
 *
 * - open RIGHTS: OPEN_LOG: "ticket HEX LIFE_MS", or "refused STATUS WHY"
 * - object RIGHTS: OPEN: "granted", or "refused STATUS WHY"
 * - bring HEX: a log connection with this ticket: "granted STAG LEN RIGHTS", "rejected STATUS" (-1
 *   if the octets of the Reply are not weft's), or "gone"
 * - steal HEX: the same without the proof of authentication
 * - raw HEX: the same with any octets
 * - flood N: N connections with tickets that were never given: "rejected N"
 * - write STAG, read STAG: 8 octets after the log's words, on the last log connection: "ok", or
 *   "gone", since an error of either request ends the connection. A Read follows a Write where
 *   reading is granted.
 * - flush STAG: a Write and a Flush of it on the last log connection, which is reset 0.1 s later,
 *   whatever their result
 * - leave: the last log connection ends
 * - hang: the RPC connection ends
 * - quit
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "addr.h"
#include "export_proto.h"
#include "auth_arg.h"
#include "log_ticket.h"
#include "probe.h"
#include "stack.h"
#include "ui.h"
#include <weft/log.h>
#include <weft/rpcrdma.h>

#define TIMEOUT_NS 20000000000ull

struct conn {
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	bool up, rejected, gone;
	uint8_t reply[64];
	uint32_t reply_bytes;
};

static struct weft_worker *worker;
static struct weft_pd *pd;
static struct weft_qp_attr qa;
static struct sockaddr_storage host;
static const char *export_name;
static struct host_auth auth;
static struct auth_arg who;
static bool named;
static struct conn *ctl, *last;

static bool answered, work_done;
static enum weft_wc_status work_status;
static char said[512];

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		struct conn *c = wc[i].qp_user;

		if (c->rpc != NULL && weft_rpc_wc(c->rpc, &wc[i]))
			continue;
		if (wc[i].wr_id == 1) {
			work_done = true;
			work_status = wc[i].status;
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
	if (ev->type == WEFT_EV_ESTABLISHED || ev->type == WEFT_EV_REJECTED) {
		c->reply_bytes = ev->private_data_bytes < sizeof(c->reply) ? ev->private_data_bytes
		                                                           : sizeof(c->reply);
		memcpy(c->reply, ev->private_data, c->reply_bytes);
	}
	c->up |= ev->type == WEFT_EV_ESTABLISHED;
	c->rejected |= ev->type == WEFT_EV_REJECTED;
	c->gone |= ev->type == WEFT_EV_REJECTED || ev->type == WEFT_EV_CONNECT_ERROR ||
	           ev->type == WEFT_EV_DISCONNECTED;
}

static int
auth_step(void *conn_user, const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t *out_bytes)
{
	(void)conn_user;
	return host_auth_step(&auth, in, in_bytes, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);
}

static struct conn *
connect_one(const void *data, uint16_t bytes, bool rpc)
{
	static const struct weft_rpc_auth how = {.step = auth_step, .required = true};
	struct weft_rpc_attr ra = {.size = sizeof(ra), .auth = named ? &how : NULL};
	const struct weft_conn_attr ca = {
	        .size = sizeof(ca), .private_data = data, .private_data_bytes = bytes};
	struct conn *c = calloc(1, sizeof(*c));

	qa.user = c;
	if (c == NULL || weft_qp_create(pd, &qa, &c->qp) != 0)
		ui_die("no QP");
	ra.qp = c->qp;
	if ((rpc && weft_rpc_create(&ra, &c->rpc) != 0) ||
	    weft_connect(c->qp, (struct sockaddr *)&host, addr_len(&host), &ca) != 0)
		ui_die("cannot connect");
	(void)probe_wait(worker, &c->up, &c->gone, TIMEOUT_NS);
	return c;
}

static void
refused(int status, const char *why)
{
	snprintf(said, sizeof(said), "refused %d %s", status, why);
}

static void
on_log(void *arg, enum weft_rpc_status status, void *res)
{
	weft_export_log_res *r = res;
	int n;

	(void)arg;
	answered = true;
	if (status != WEFT_RPC_OK) {
		refused(-1, "no answer");
	} else if (r->status != WEFT_EXPORT_OK) {
		refused((int)r->status, r->weft_export_log_res_u.why);
	} else {
		const weft_export_ticket *t = &r->weft_export_log_res_u.ticket;

		n = snprintf(said, sizeof(said), "ticket ");
		for (unsigned int i = 0; i < LOG_TICKET_BYTES; i++)
			n += snprintf(said + n, sizeof(said) - (size_t)n, "%02x",
			              (uint8_t)t->ticket[i]);
		snprintf(said + n, sizeof(said) - (size_t)n, " %u", t->life_ms);
	}
}

static void
on_object(void *arg, enum weft_rpc_status status, void *res)
{
	weft_export_open_res *r = res;

	(void)arg;
	answered = true;
	if (status != WEFT_RPC_OK)
		refused(-1, "no answer");
	else if (r->status != WEFT_EXPORT_OK)
		refused((int)r->status, r->weft_export_open_res_u.why);
	else
		snprintf(said, sizeof(said), "granted");
}

static void
ask(bool object, uint32_t rights)
{
	weft_export_open_args oa = {.name = (char *)(uintptr_t)export_name, .rights = rights};
	weft_export_log_args la = {.name = (char *)(uintptr_t)export_name, .rights = rights};
	int rc;

	if (ctl == NULL || ctl->gone)
		ctl = connect_one(NULL, 0, true);
	answered = false;
	if (object)
		rc = weft_rpc_call(ctl->rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, WEFT_EXPORT_OPEN,
		                   (xdrproc_t)xdr_weft_export_open_args, &oa,
		                   (xdrproc_t)xdr_weft_export_open_res,
		                   sizeof(weft_export_open_res), 0, on_object, NULL);
	else
		rc = weft_rpc_call(ctl->rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, WEFT_EXPORT_OPEN_LOG,
		                   (xdrproc_t)xdr_weft_export_log_args, &la,
		                   (xdrproc_t)xdr_weft_export_log_res, sizeof(weft_export_log_res),
		                   0, on_log, NULL);
	if (rc != 0 || !probe_wait(worker, &answered, &ctl->gone, TIMEOUT_NS))
		refused(-1, "no answer");
}

static void
bring(const uint8_t *octets, uint16_t bytes)
{
	struct log_ticket_reply r;
	int rc;

	last = connect_one(octets, bytes, false);
	rc = log_ticket_reply_decode(last->reply, last->reply_bytes, &r);
	if (last->up && rc == 0)
		snprintf(said, sizeof(said), "granted %x %llu %x", r.stag,
		         (unsigned long long)r.len_bytes, r.rights);
	else if (last->up)
		snprintf(said, sizeof(said), "connected");
	else if (last->rejected)
		snprintf(said, sizeof(said), "rejected %d", rc == 0 ? r.status : -1);
	else
		snprintf(said, sizeof(said), "gone");
}

static void
bring_ticket(const uint8_t *ticket, bool prove)
{
	uint8_t octets[LOG_TICKET_ASK_BYTES];
	struct log_ticket_ask a = {0};

	memcpy(a.ticket, ticket, sizeof(a.ticket));
	if (prove && named &&
	    log_ticket_proof(&who.keys, auth.name, &auth.place, ticket, a.proof) != 0)
		ui_die("no proof");
	log_ticket_ask_encode(&a, octets);
	bring(octets, sizeof(octets));
}

static void
flood(unsigned int n)
{
	unsigned int rejected = 0;
	uint8_t ticket[LOG_TICKET_BYTES];

	for (unsigned int i = 0; i < n; i++) {
		if (getrandom(ticket, sizeof(ticket), 0) != sizeof(ticket))
			ui_die("no random octets");
		bring_ticket(ticket, true);
		rejected += strncmp(said, "rejected 116", 12) == 0;
		weft_qp_destroy(last->qp);
		last = NULL;
	}
	snprintf(said, sizeof(said), "rejected %u", rejected);
}

static void
touch(bool write, uint32_t stag)
{
	static uint8_t mem[4096] __attribute__((aligned(4096)));
	static struct weft_mr *mr;
	const struct weft_mr_attr ma = {.size = sizeof(ma),
	                                .addr = mem,
	                                .len_bytes = sizeof(mem),
	                                .access = WEFT_ACCESS_LOCAL_WRITE};
	struct weft_sge sge = {.addr = mem, .len_bytes = 8};
	struct weft_wr wr[2] = {
	        {.wr_id = 2,
	         .opcode = WEFT_WR_WRITE,
	         .sg_list = &sge,
	         .num_sge = 1,
	         .rdma = {.stag = stag, .to = WEFT_LOG_RING_OFF}},
	        {.wr_id = 1,
	         .opcode = WEFT_WR_READ,
	         .flags = WEFT_WR_SIGNALED,
	         .sg_list = &sge,
	         .num_sge = 1,
	         .rdma = {.stag = stag, .to = WEFT_LOG_RING_OFF}},
	};
	const unsigned int n = write ? 2 : 1;

	if (mr == NULL && weft_mr_reg(pd, &ma, &mr) != 0)
		ui_die("no memory");
	sge.lkey = weft_mr_stag(mr);
	work_done = false;
	if (last == NULL || last->gone || weft_post_send(last->qp, wr + 2 - n, n) != (int)n)
		snprintf(said, sizeof(said), "gone");
	else if (probe_wait(worker, &work_done, &last->gone, TIMEOUT_NS) &&
	         work_status == WEFT_WC_SUCCESS)
		snprintf(said, sizeof(said), "ok");
	/* The request is flushed before the event says that the connection has ended. */
	else if (probe_wait(worker, &last->gone, NULL, TIMEOUT_NS))
		snprintf(said, sizeof(said), "gone");
	else
		snprintf(said, sizeof(said), "%s, and still connected",
		         weft_wc_status_str(work_status));
}

static void
flush_and_go(uint32_t stag)
{
	static uint8_t octets[8] = {1};
	struct weft_sge sge = {.addr = octets, .len_bytes = sizeof(octets)};
	const uint64_t end = ui_now_ns() + 100000000ull;
	struct weft_wr wr[2] = {
	        {.wr_id = 2,
	         .opcode = WEFT_WR_WRITE,
	         .sg_list = &sge,
	         .num_sge = 1,
	         .rdma = {.stag = stag, .to = WEFT_LOG_RING_OFF}},
	        {.wr_id = 2,
	         .opcode = WEFT_WR_FLUSH,
	         .flags = WEFT_WR_SIGNALED,
	         .flush = {.stag = stag,
	                   .to = WEFT_LOG_RING_OFF,
	                   .len_bytes = sizeof(octets),
	                   .flags = WEFT_FLUSH_PERSISTENT}},
	};

	if (last == NULL || weft_post_send(last->qp, wr, 2) != 2)
		ui_die("not posted");
	while (ui_now_ns() < end)
		(void)weft_worker_poll(worker);
	if (weft_abort(last->qp) != 0)
		ui_die("not reset");
	(void)probe_wait(worker, &last->gone, &last->gone, TIMEOUT_NS);
	snprintf(said, sizeof(said), "ok");
}

static unsigned int
from_hex(const char *text, uint8_t *out, unsigned int max)
{
	unsigned int n = 0, x;

	while (n < max && sscanf(text + 2 * (size_t)n, "%2x", &x) == 1)
		out[n++] = (uint8_t)x;
	return n;
}

static void
obey(const char *line)
{
	uint8_t octets[512];
	char hex[1100] = "";
	unsigned int a;

	snprintf(said, sizeof(said), "what?");
	if (sscanf(line, "open %x", &a) == 1)
		ask(false, a);
	else if (sscanf(line, "object %x", &a) == 1)
		ask(true, a);
	else if (sscanf(line, "bring %1099s", hex) == 1 &&
	         from_hex(hex, octets, LOG_TICKET_BYTES) == LOG_TICKET_BYTES)
		bring_ticket(octets, true);
	else if (sscanf(line, "steal %1099s", hex) == 1 &&
	         from_hex(hex, octets, LOG_TICKET_BYTES) == LOG_TICKET_BYTES)
		bring_ticket(octets, false);
	else if (sscanf(line, "raw %1099s", hex) == 1)
		bring(octets, (uint16_t)from_hex(hex, octets, sizeof(octets)));
	else if (sscanf(line, "flood %u", &a) == 1)
		flood(a);
	else if (sscanf(line, "write %x", &a) == 1)
		touch(true, a);
	else if (sscanf(line, "read %x", &a) == 1)
		touch(false, a);
	else if (sscanf(line, "flush %x", &a) == 1)
		flush_and_go(a);
	else if (strncmp(line, "leave", 5) == 0 && last != NULL) {
		(void)weft_disconnect(last->qp);
		(void)probe_wait(worker, &last->gone, &last->gone, TIMEOUT_NS);
		snprintf(said, sizeof(said), "ok");
	} else if (strncmp(line, "hang", 4) == 0 && ctl != NULL) {
		(void)weft_disconnect(ctl->qp);
		(void)probe_wait(worker, &ctl->gone, &ctl->gone, TIMEOUT_NS);
		ctl = NULL;
		snprintf(said, sizeof(said), "ok");
	}
	printf("%s\n", said);
	fflush(stdout);
}

static void
take_key(char *value)
{
	auth_arg_take(&who, value);
	named = true;
	auth.keys = &who.keys;
	strcpy(auth.name, who.name);
	(void)host_auth_place(&host, &auth.place);
}

int
main(int argc, char **argv)
{
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 4096, .on_wc = on_wc};
	char line[1200];
	struct stack st = {0};

	ui_init("ticket_probe");
	if (argc < 5 || addr_parse(argv[3], 7471, &host) != 0)
		ui_usage_die("DEV CIDR HOST EXPORT [NAME:KEYFILE]");
	export_name = argv[4];
	probe_up(&st, "ticket_probe", argv[1], argv[2]);
	if (argc > 5)
		take_key(argv[5]);
	worker = st.workers[0];
	qa = (struct weft_qp_attr){.size = sizeof(qa), .worker = worker, .ord = 16};
	if (weft_pd_alloc(st.ctx, &pd) != 0 || weft_cq_create(st.ctx, &ca, &qa.send_cq) != 0 ||
	    weft_evq_create(st.ctx, &ea, &qa.evq) != 0)
		ui_die("set-up failed");
	qa.recv_cq = qa.send_cq;
	while (probe_next_line(worker, line, sizeof(line)) && strncmp(line, "quit", 4) != 0)
		obey(line);
	_exit(0); /* the target detects the end by itself */
}
