/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Many clients of a volume in one program, which sleeps when none has anything to do.
 *
 *     share_probe CONFIG EXPORT SECONDS CLIENT...
 *
 * CONFIG has the ports and an address for each client. A CLIENT is LOCAL,HOST,CONNS,DEPTH,BYTES:
 * it connects CONNS times from the address LOCAL to HOST, opens the export on each connection, and
 * has DEPTH reads of BYTES octets under way on it all the time. With ",churn" behind, it closes
 * what it has opened 0 to 15 ms later, with its reads under way, and opens it again. When all have
 * connected, and a second later, what is read in SECONDS is counted. Prints "LOCAL OPERATIONS
 * OPENS" for each client.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "probe.h"
#include "stack.h"
#include "ui.h"
#include <weft/volume.h>

#define CLIENTS_MAX 16
#define DEPTH_MAX   32
#define WAIT_NS     20000000000ull
#define SEC_NS      1000000000ull

struct client {
	char local[64], host[64], mode[16];
	unsigned int conns, depth, bytes;
	uint64_t done, opens;
};

struct conn {
	struct client *cl;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	struct weft_volume *v;
	bool up, gone, open, closing;
	uint64_t close_ns; /**< when it is to be closed, or opened again */
	struct weft_volume_req req[DEPTH_MAX];
};

static struct stack st;
static struct weft_worker *w;
static struct weft_pd *pd;
static struct weft_evq *evq;
static const char *export_name;
static struct client clients[CLIENTS_MAX];
static struct conn *conns[CLIENTS_MAX * 16];
static unsigned int nclients, nconns;
static uint8_t sink[1 << 20];
static uint64_t drawn = 1;
static bool counting;

static uint32_t
draw(uint32_t n)
{
	drawn = drawn * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(drawn >> 33) % n;
}

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		struct conn *c = wc[i].qp_user;

		if (c->rpc != NULL)
			(void)weft_rpc_wc(c->rpc, &wc[i]);
	}
}

static void
on_event(void *user, const struct weft_event *ev)
{
	struct conn *c = ev->user;

	(void)user;
	if (c == NULL)
		return;
	c->up |= ev->type == WEFT_EV_ESTABLISHED;
	if (ev->type == WEFT_EV_REJECTED || ev->type == WEFT_EV_CONNECT_ERROR ||
	    ev->type == WEFT_EV_DISCONNECTED) {
		c->gone = true;
		if (c->rpc != NULL)
			weft_rpc_disconnected(c->rpc);
	}
}

static void
on_read(struct weft_volume_req *req)
{
	struct conn *c = req->owner;

	if (c->closing || req->status == -ECANCELED)
		return;
	if (req->status != 0)
		ui_die("%s: a read failed: %s (%s)", c->cl->local, strerror(-req->status),
		       req->why);
	c->cl->done += counting;
	if (weft_volume_submit(c->v, req) != 0)
		ui_die("%s: a read is not taken", c->cl->local);
}

static void
on_open(void *arg, int status, const char *why)
{
	struct conn *c = arg;

	if (status != 0)
		ui_die("%s: no grant: %s", c->cl->local, why);
	c->open = true;
	c->cl->opens += counting;
	c->close_ns = ui_now_ns() + draw(16) * 1000000ull;
	for (unsigned int i = 0; i < c->cl->depth; i++) {
		c->req[i] = (struct weft_volume_req){.op = WEFT_VOLUME_OP_READ,
		                                     .off_bytes = i * sizeof(sink),
		                                     .len_bytes = c->cl->bytes,
		                                     .data = sink,
		                                     .done = on_read,
		                                     .owner = c};
		if (weft_volume_submit(c->v, &c->req[i]) != 0)
			ui_die("%s: a read is not taken", c->cl->local);
	}
}

static void
conn_open(struct conn *c)
{
	const struct weft_volume_attr a = {
	        .size = sizeof(a), .rpc = c->rpc, .worker = w, .name = export_name};

	c->open = c->closing = false;
	if (weft_volume_open(&a, on_open, c, &c->v) != 0)
		ui_die("%s: cannot open", c->cl->local);
}

static void
on_closed(void *arg, int status, const char *why)
{
	struct conn *c = arg;

	if (status != 0)
		ui_die("%s: not closed: %s", c->cl->local, why);
	conn_open(c);
}

static void
conn_make(struct client *cl)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 1024, .on_wc = on_wc};
	struct weft_qp_attr qa = {
	        .size = sizeof(qa), .worker = w, .evq = evq, .sq_depth = 256, .rq_depth = 128};
	struct weft_rpc_attr ra = {.size = sizeof(ra), .credits = 64};
	struct weft_conn_attr na = {.size = sizeof(na), .timeout_us = 10000000};
	struct conn *c = calloc(1, sizeof(*c));
	struct sockaddr_storage to;

	if (c == NULL || nconns == CLIENTS_MAX * 16)
		ui_die("too many connections");
	conns[nconns++] = c;
	c->cl = cl;
	qa.user = c;
	if (addr_resolve(cl->host, 7471, &to) != NULL ||
	    addr_resolve(cl->local, 0, &na.local) != NULL ||
	    weft_cq_create(st.ctx, &ca, &c->cq) != 0)
		ui_die("%s: cannot start", cl->local);
	qa.send_cq = qa.recv_cq = c->cq;
	if (weft_qp_create(pd, &qa, &c->qp) != 0)
		ui_die("no queue pair");
	ra.qp = c->qp;
	if (weft_rpc_create(&ra, &c->rpc) != 0 ||
	    weft_connect(c->qp, (struct sockaddr *)&to, addr_len(&to), &na) != 0 ||
	    !probe_wait(w, &c->up, &c->gone, WAIT_NS))
		ui_die("%s: cannot connect", cl->local);
}

static void
client_parse(const char *text)
{
	struct client *cl = &clients[nclients];

	if (nclients == CLIENTS_MAX ||
	    sscanf(text, "%63[^,],%63[^,],%u,%u,%u,%15s", cl->local, cl->host, &cl->conns,
	           &cl->depth, &cl->bytes, cl->mode) < 5 ||
	    cl->depth > DEPTH_MAX || cl->bytes > sizeof(sink))
		ui_die("%s: is no client", text);
	nclients++;
}

/** Poll until then, and let those that churn close what they have. */
static void
run_until(uint64_t end_ns)
{
	uint64_t now;

	while ((now = ui_now_ns()) < end_ns) {
		if (weft_worker_poll(w) == 0)
			weft_worker_idle(w, 500);
		for (unsigned int i = 0; i < nconns; i++) {
			struct conn *c = conns[i];

			if (c->gone)
				ui_die("%s: its connection has ended", c->cl->local);
			if (c->cl->mode[0] == '\0' || !c->open || c->closing || c->close_ns > now)
				continue;
			c->closing = true;
			weft_volume_close(c->v, on_closed, c);
		}
	}
}

int
main(int argc, char **argv)
{
	static struct conf conf;
	const struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	const struct stack_opt so = {.progname = "share_probe", .quiet = true};
	char err[CONF_ERR_MAX];
	uint64_t seconds;

	if (argc < 5)
		ui_usage_die("CONFIG EXPORT SECONDS CLIENT...");
	if (conf_load(argv[1], &conf, err, sizeof(err)) != 0 ||
	    stack_up(&conf, &so, &st, err, sizeof(err)) != 0)
		ui_die("%s", err);
	w = st.workers[0];
	export_name = argv[2];
	seconds = strtoull(argv[3], NULL, 10);
	for (int i = 4; i < argc; i++)
		client_parse(argv[i]);
	if (weft_pd_alloc(st.ctx, &pd) != 0 || weft_evq_create(st.ctx, &ea, &evq) != 0)
		ui_die("cannot start");
	for (unsigned int i = 0; i < nclients; i++)
		for (unsigned int k = 0; k < clients[i].conns; k++)
			conn_make(&clients[i]);
	for (unsigned int i = 0; i < nconns; i++)
		conn_open(conns[i]);
	run_until(ui_now_ns() + SEC_NS);
	counting = true;
	run_until(ui_now_ns() + seconds * SEC_NS);
	for (unsigned int i = 0; i < nclients; i++)
		printf("%s %" PRIu64 " %" PRIu64 "\n", clients[i].local, clients[i].done,
		       clients[i].opens);
	fflush(stdout);
	_exit(0);
}
