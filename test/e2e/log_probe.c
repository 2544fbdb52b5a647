/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The target and the writer of a remote log. The test kills both.
 *
 *     log_probe target DEV CIDR FILE BYTES
 *     log_probe write DEV CIDR HOST DEPTH [verify] [kill PID COUNT]
 *
 * target: opens FILE with driver "file", prints "ready", and grants all of it to one writer at a
 * time, the latest one. A new writer is accepted when no operation of the former grant can change
 * the file any more. The STag is in the MPA Reply.
 *
 * write: connects, joins (formats a blank target) and opens the log, reads all records and prints
 * "up NUMBER" with the number of the last one. Then it appends the following numbers, up to DEPTH
 * of them in flight, and trims old records. It prints each durable number, one write() a line,
 * before it does anything else. kill: after the COUNTth number is printed, kill PID. The program
 * ends by itself only when the link or the log ends: exit status 1, one line on standard error.
 *
 * A record is its number (8 octets, big-endian) followed by octets computed from it.
 * test_kill_log.py computes the same.
 */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"
#include "stack.h"
#include "ui.h"
#include <weft/weft.h>

#define TIMEOUT_NS 20000000000ull
#define LINK_NS    5000000ull
#define PORT       7471
#define DEPTH_MAX  64
#define READ_BYTES (64u << 10)
#define HISTORY    512 /* records that remain after a trim at least */

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
	struct weft_log *log;
	struct weft_qp *qp;
	struct hello hello;
	bool up, joined, open, read_done, over;
	char why[200];
	struct weft_log_at head, end, at; /* as recovered; position while reading */
	uint64_t last;                    /* number read last; 0: none */
	uint64_t next, acked;
	unsigned int depth;
	bool verify;
	pid_t victim;
	uint64_t victim_in; /* acknowledgements until the kill; 0: no kill */
	struct weft_log_at history[HISTORY];
	uint8_t *read_buf;
	uint32_t lkey;
	uint8_t record[DEPTH_MAX][PROBE_RECORD_MAX + 8];
} w;

static void
acknowledged(void *arg, const struct weft_log_at *at, int status)
{
	uint64_t n = (uintptr_t)arg;

	if (status != 0)
		return; /* the event FAILED reports the reason */
	if (n != w.acked + 1)
		ui_die("acknowledged %llu behind %llu", (unsigned long long)n,
		       (unsigned long long)w.acked);
	probe_acknowledged(n);
	w.acked = n;
	w.history[n % HISTORY] = *at;
	if (w.victim_in > 0 && --w.victim_in == 0)
		(void)kill(w.victim, SIGKILL);
}

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
take_record(const struct weft_log_record *rec)
{
	uint8_t want[PROBE_RECORD_MAX + 8];
	uint64_t n;

	if (rec->len_bytes < 8)
		ui_die("a record of %u octets", rec->len_bytes);
	memcpy(&n, rec->data, 8);
	n = be64toh(n);
	if (rec->len_bytes != probe_record_bytes(n) || (w.last != 0 && n != w.last + 1))
		ui_die("record %llu of %u octets behind %llu", (unsigned long long)n,
		       rec->len_bytes, (unsigned long long)w.last);
	probe_record_fill(want, n);
	if (memcmp(rec->data, want, rec->len_bytes) != 0)
		ui_die("record %llu has other octets", (unsigned long long)n);
	w.last = n;
	w.history[n % HISTORY] = rec->at;
}

static void
on_chunk(void *arg, struct weft_log_chunk *chunk)
{
	struct weft_log_record rec;

	(void)arg;
	if (chunk->status != 0)
		ui_die("reading: %s", strerror(-chunk->status));
	while (weft_log_chunk_next(chunk, &rec) == 1)
		take_record(&rec);
	w.at = chunk->at;
	w.read_done = true;
}

static void
recover(void)
{
	struct weft_sge buf = {w.read_buf, READ_BYTES, w.lkey};
	int rc;

	w.at = w.head;
	while ((rc = weft_log_read(w.log, &w.at, &buf, on_chunk, NULL)) == 0) {
		await(&w.read_done, "reading");
		w.read_done = false;
	}
	if (rc != -ENODATA)
		ui_die("reading: %s", strerror(-rc));
	w.acked = w.last;
	w.next = w.last + 1;
	printf("up %llu\n", (unsigned long long)w.last);
	fflush(stdout);
}

/* When half of the ring is in use, trim all records older than HISTORY records. */
static void
trim(void)
{
	struct weft_log_info info;

	weft_log_query(w.log, &info);
	if (w.acked > HISTORY && info.durable.position - info.head.position > info.ring_bytes / 2)
		(void)weft_log_trim(w.log, &w.history[(w.acked + 1) % HISTORY]);
}

static bool
append(void)
{
	uint8_t *rec = w.record[w.next % w.depth];
	struct weft_sge sge = {rec, probe_record_bytes(w.next), 0};
	struct weft_log_append a = {.sg_list = &sge,
	                            .num_sge = 1,
	                            .durable = acknowledged,
	                            .arg = (void *)(uintptr_t)w.next};
	int rc;

	probe_record_fill(rec, w.next);
	rc = weft_log_append(w.log, &a, NULL);
	if (rc == 0)
		w.next++;
	else if (rc != -EAGAIN && rc != -ENOSPC && rc != -EPIPE)
		ui_die("append: %s", strerror(-rc));
	return rc == 0;
}

static void
log_up(const char *host)
{
	struct weft_log_attr la = {.size = sizeof(la),
	                           .ctx = st.ctx,
	                           .pd = pd,
	                           .worker = worker,
	                           .max_appends = DEPTH_MAX,
	                           .verify_hash = w.verify ? "crc32c" : NULL,
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
	    weft_log_create(&la, &w.log) != 0)
		ui_die("no log");
	w.lkey = weft_mr_stag(sink);
	weft_log_qp_attr(w.log, &qa);
	qa.evq = evq;
	if (weft_qp_create(pd, &qa, &w.qp) != 0 ||
	    weft_connect(w.qp, (struct sockaddr *)&sin, sizeof(sin), NULL) != 0)
		ui_die("not connected");
	await(&w.up, "connecting");
	t.qp = w.qp;
	t.stag = be32toh(w.hello.stag);
	t.to = be64toh(w.hello.to);
	t.len_bytes = be64toh(w.hello.len_bytes);
	if (weft_log_join(w.log, &t) < 0)
		ui_die("joining is refused");
	await(&w.joined, "joining");
	if (weft_log_open(w.log) != 0)
		ui_die("opening is refused");
	await(&w.open, "opening");
}

static void
writer(int argc, char **argv)
{
	w.depth = (unsigned int)atoi(argv[3]);
	if (w.depth == 0 || w.depth > DEPTH_MAX)
		ui_usage_die("DEPTH");
	for (int i = 4; i < argc; i++) {
		if (strcmp(argv[i], "verify") == 0)
			w.verify = true;
		if (strcmp(argv[i], "kill") == 0 && i + 2 < argc) {
			w.victim = atoi(argv[i + 1]);
			w.victim_in = strtoull(argv[i + 2], NULL, 10);
		}
	}
	up("log_probe", argv[0], argv[1], write_event);
	log_up(argv[2]);
	recover();
	while (!w.over) {
		trim();
		while (!w.over && w.next - w.acked <= w.depth && append())
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
		             "[kill PID COUNT]");
	writer(argc - 2, argv + 2);
}
