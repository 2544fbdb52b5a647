/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The target and the writer of a remote log. The test kills both.
 *
 *     log_probe target DEV CIDR FILE BYTES
 *     log_probe write DEV CIDR HOST DEPTH [verify] [number N] [kill PID COUNT]
 *
 * target: opens FILE with driver "file", prints "ready", and grants all of it to one writer at a
 * time, the latest one. A new writer is accepted when no operation of the former grant can change
 * the file any more. The STag is in the MPA Reply.
 *
 * write: connects, joins (formats a blank target) and opens the log, and reads all records. It
 * prints each ("had NUMBER POSITION WRITER"), then "up NUMBER" with the number of the last one.
 * Then it appends the following numbers, up to DEPTH of them in flight, and trims old records. It
 * prints each durable record ("NUMBER POSITION"), one write() a line, before it does anything
 * else; and before each trim the first record that stays ("trim NUMBER"). number: the writer's
 * number, which is in its records. kill: after the COUNTth durable record is printed, kill PID.
 * The program ends by itself only when the link or the log ends: exit status 1, one line on
 * standard error.
 *
 * probe.h describes a record. log_judge.py computes the same.
 */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe_log.h"
#include "stack.h"
#include "ui.h"
#include <weft/weft.h>

#define TIMEOUT_NS 20000000000ull
#define LINK_NS    5000000ull
#define PORT       7471
#define DEPTH_MAX  64
#define READ_BYTES (64u << 10)

struct hello {
	uint32_t stag; /* big-endian, as the others */
	uint64_t to, len_bytes;
} __attribute__((packed));

static struct stack st;
static struct weft_worker *worker;
static struct weft_pd *pd;
static struct weft_evq *evq;

static void
up(const char *name, const char *dev, const char *cidr, weft_event_fn on_event)
{
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};

	probe_up(&st, name, dev, cidr);
	worker = st.workers[0];
	if (weft_pd_alloc(st.ctx, &pd) != 0 || weft_evq_create(st.ctx, &ea, &evq) != 0)
		ui_die("set-up failed");
}

/* ---- The target ---- */

static struct weft_persist *medium;
static struct weft_cq *cq;
static struct weft_qp *qp;
static struct weft_log_host *memory;
static uint32_t stag; /* STag granted on qp */

/* The connection has ended, or its grant goes to another writer. */
static void
target_leave(void)
{
	if (qp == NULL)
		return;
	weft_qp_destroy(qp);
	qp = NULL;
	(void)weft_log_host_end(memory, stag);
}

static void
target_granted(void *arg, const struct weft_log_grant *g, int status)
{
	struct weft_connreq *connreq = arg;
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = worker,
	                          .send_cq = cq,
	                          .recv_cq = cq,
	                          .evq = evq,
	                          .ird = 128};
	struct hello h;
	struct weft_conn_attr ca = {
	        .size = sizeof(ca), .private_data = &h, .private_data_bytes = sizeof(h)};

	if (status == -ECANCELED) {
		weft_reject(connreq, NULL, 0);
		return;
	}
	if (status != 0 || weft_qp_create(pd, &qa, &qp) != 0)
		ui_die("no grant");
	stag = g->stag;
	h = (struct hello){htobe32(g->stag), htobe64(g->to), htobe64(g->len_bytes)};
	if (weft_accept(connreq, qp, &ca) != 0)
		target_leave();
}

static void
target_event(void *user, const struct weft_event *ev)
{
	(void)user;
	if (ev->type == WEFT_EV_CONNECT_REQUEST) {
		target_leave();
		if (weft_log_host_grant(memory, true, target_granted, ev->connreq) != 0)
			ui_die("no grant");
	} else if ((ev->type == WEFT_EV_DISCONNECTED || ev->type == WEFT_EV_CONNECT_ERROR) &&
	           ev->qp == qp) {
		target_leave();
	}
}

static void
target(char **argv)
{
	struct weft_persist_attr pa = {.size = sizeof(pa),
	                               .driver = "file",
	                               .path = argv[2],
	                               .bytes = strtoull(argv[3], NULL, 10),
	                               .create = true,
	                               .numa_node = -1};
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 64};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .access = WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |
	                                    WEFT_ACCESS_FLUSH_PERSISTENT |
	                                    WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY,
	                          .hash = "crc32c"};
	struct weft_listener *l;

	up("log_probe", argv[0], argv[1], target_event);
	la.evq = evq;
	if (weft_persist_open(&pa, &medium) != 0)
		ui_die("%s cannot be hosted", argv[2]);
	ma.addr = medium->base;
	ma.len_bytes = medium->bytes;
	ma.persist = medium;
	if (weft_log_host_create(pd, &ma, &memory) != 0 || weft_cq_create(st.ctx, &ca, &cq) != 0 ||
	    weft_listen(st.ctx, (struct sockaddr *)&any, sizeof(any), &la, &l) != 0)
		ui_die("%s cannot be hosted", argv[2]);
	printf("ready %s\n", medium->mechanism);
	fflush(stdout);
	for (;;)
		if (weft_worker_poll(worker) == 0)
			weft_worker_idle(worker, 20);
}

/* ---- The writer ---- */

static struct writer {
	struct probe_log p;
	struct weft_qp *qp;
	struct hello hello;
	bool up, joined, open, read_done, over;
	char why[200];
	struct weft_log_at head, end; /* as recovered */
	uint8_t *read_buf;
	uint32_t lkey;
	uint8_t record[DEPTH_MAX][PROBE_RECORD_MAX];
} w;

static void
log_event(void *user, const struct weft_log_event *ev)
{
	(void)user;
	switch (ev->type) {
	case WEFT_LOG_EV_JOINED:
		w.joined = true;
		break;
	case WEFT_LOG_EV_OPEN:
		w.head = ev->head;
		w.end = ev->end;
		w.open = true;
		break;
	case WEFT_LOG_EV_LOST:
		w.qp = NULL;
		if (w.why[0] == '\0')
			snprintf(w.why, sizeof(w.why), "target lost: %s", strerror(-ev->status));
		break;
	case WEFT_LOG_EV_FAILED:
		if (w.why[0] == '\0')
			snprintf(w.why, sizeof(w.why), "log failed: %s", strerror(-ev->status));
		w.over = true;
		break;
	default:
		break;
	}
}

static void
write_event(void *user, const struct weft_event *ev)
{
	(void)user;
	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		if (ev->private_data_bytes >= sizeof(w.hello))
			memcpy(&w.hello, ev->private_data, sizeof(w.hello));
		w.up = true;
		break;
	case WEFT_EV_TERMINATED:
		if (w.why[0] == '\0')
			weft_terminate_str(&ev->term, w.why, sizeof(w.why));
		break;
	case WEFT_EV_REJECTED:
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		w.over = true;
		break;
	default:
		break;
	}
}

/* A killed target ends the link, too. TCP would detect that much later. */
static void
turn(void)
{
	static uint64_t look_ns;
	struct weft_port_stats ps;

	if (weft_worker_poll(worker) == 0)
		weft_worker_idle(worker, 20);
	if (!w.up || ui_now_ns() < look_ns)
		return;
	look_ns = ui_now_ns() + LINK_NS;
	if (weft_port_stats(st.ports[0], &ps) == 0 && !ps.link_up)
		ui_die("the link is down");
}

static void
await(const bool *flag, const char *what)
{
	uint64_t end = ui_now_ns() + TIMEOUT_NS;

	while (!*flag && !w.over && ui_now_ns() < end)
		turn();
	if (!*flag)
		ui_die("%s: %s", what,
		       w.why[0] != '\0' ? w.why
		       : w.over         ? "disconnected"
		                        : "no answer");
}

static void
on_chunk(void *arg, struct weft_log_chunk *chunk)
{
	(void)arg;
	if (chunk->status != 0)
		ui_die("reading: %s", strerror(-chunk->status));
	probe_log_read(&w.p, chunk);
	w.read_done = true;
}

static void
recover(void)
{
	struct weft_sge buf = {w.read_buf, READ_BYTES, w.lkey};
	int rc;

	w.p.at = w.head;
	while ((rc = weft_log_read(w.p.log, &w.p.at, &buf, on_chunk, NULL)) == 0) {
		await(&w.read_done, "reading");
		w.read_done = false;
	}
	if (rc != -ENODATA)
		ui_die("reading: %s", strerror(-rc));
	probe_log_up(&w.p);
}

static void
log_up(const char *host)
{
	struct weft_log_attr la = {.size = sizeof(la),
	                           .ctx = st.ctx,
	                           .pd = pd,
	                           .worker = worker,
	                           .max_appends = DEPTH_MAX,
	                           .verify_hash = w.p.verify ? "crc32c" : NULL,
	                           .on_event = log_event};
	struct weft_log_super super = {
	        .size = sizeof(super), .log_id = "kill test's log", .target_id = "kill test's one"};
	struct weft_mr_attr ma = {
	        .size = sizeof(ma), .len_bytes = READ_BYTES, .access = WEFT_ACCESS_LOCAL_WRITE};
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct weft_qp_attr qa = {.size = sizeof(qa)};
	struct weft_log_target t = {.size = sizeof(t), .format = &super};
	struct weft_mr *sink;

	w.read_buf = ma.addr = aligned_alloc(4096, READ_BYTES);
	if (inet_pton(AF_INET, host, &sin.sin_addr) != 1 || weft_mr_reg(pd, &ma, &sink) != 0 ||
	    weft_log_create(&la, &w.p.log) != 0)
		ui_die("no log");
	w.lkey = weft_mr_stag(sink);
	weft_log_qp_attr(w.p.log, &qa);
	qa.evq = evq;
	if (weft_qp_create(pd, &qa, &w.qp) != 0 ||
	    weft_connect(w.qp, (struct sockaddr *)&sin, sizeof(sin), NULL) != 0)
		ui_die("not connected");
	await(&w.up, "connecting");
	t.qp = w.qp;
	t.stag = be32toh(w.hello.stag);
	t.to = be64toh(w.hello.to);
	t.len_bytes = be64toh(w.hello.len_bytes);
	if (weft_log_join(w.p.log, &t) < 0)
		ui_die("joining is refused");
	await(&w.joined, "joining");
	if (weft_log_open(w.p.log) != 0)
		ui_die("opening is refused");
	await(&w.open, "opening");
}

static void
writer(int argc, char **argv)
{
	w.p.depth = (unsigned int)atoi(argv[3]);
	if (w.p.depth == 0 || w.p.depth > DEPTH_MAX)
		ui_usage_die("DEPTH");
	for (int i = 4; i < argc; i++)
		(void)probe_log_arg(&w.p, argc, argv, i);
	up("log_probe", argv[0], argv[1], write_event);
	log_up(argv[2]);
	recover();
	while (!w.over) {
		probe_log_trim(&w.p);
		while (!w.over && w.p.next - w.p.acked <= w.p.depth &&
		       probe_log_append(&w.p, w.record[w.p.next % w.p.depth]))
			;
		turn();
	}
	ui_die("%s", w.why[0] != '\0' ? w.why : "disconnected");
}

int
main(int argc, char **argv)
{
	ui_init("log_probe");
	if (argc == 6 && strcmp(argv[1], "target") == 0)
		target(argv + 2);
	if (argc < 6 || strcmp(argv[1], "write") != 0)
		ui_usage_die("target DEV CIDR FILE BYTES | write DEV CIDR HOST DEPTH [verify] "
		             "[number N] [kill PID COUNT]");
	writer(argc - 2, argv + 2);
}
