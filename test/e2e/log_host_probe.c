/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The writer of a log that weft-targets host. The test kills the writer and the targets.
 *
 *     log_host_probe DEV CIDR QUORUM DEPTH [verify] [auth NAME:KEYFILE] [wait MS] [away MS]
 *         [number N] [kill PID COUNT] -- (HOST EXPORT)...
 *
 * Joins the targets that it reaches (blank ones are formatted), opens the log, and reads all
 * records. It prints each ("had NUMBER POSITION WRITER"), then "up NUMBER" with the number of the
 * last one. Then it appends the following numbers, up to DEPTH of them in flight, and trims old
 * records. It prints each durable record ("NUMBER POSITION"), one write() a line, before it does
 * anything else; and before each trim the first record that stays ("trim NUMBER"). "live I" and
 * "lost I WHY" report the state of a target. A lost target is joined again, without a limit of
 * time. away: so long the log waits for targets that it lacks. SIGUSR1: stop appending until the
 * next SIGUSR1. number: the writer's number, which is in its records. kill: after the
 * COUNTth durable record is printed, kill PID. The program ends by itself only when
 * the log ends: exit status 1, one line on standard error.
 *
 * probe.h describes a record.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "addr.h"
#include "conf.h"
#include "export_proto.h"
#include "auth_arg.h"
#include "log_client.h"
#include "stack.h"
#include "probe_log.h"
#include "ui.h"
#include <weft/weft.h>
#include <weft/log.h>

#define TIMEOUT_NS  15000000000ull
#define LOOK_NS     5000000ull
#define LAGS_NS     500000000ull /* longest time that a target may delay the log */
#define AGAIN_NS    50000000ull  /* time until a target is tried again */
#define PATIENCE_NS 600000000ull /* time to wait for more targets than an open needs */
#define CONNECT_US  1000000
#define PORT        7471
#define DEPTH_MAX   64
#define READ_BYTES  (64u << 10)
#define TARGETS     WEFT_LOG_MAX_TARGETS

struct host {
	struct sockaddr_storage to;
	const char *export_name;
	struct log_client *client;
	struct weft_qp *qp; /* belongs to the log */
	bool joined;
	uint64_t lags_ns; /* time since which the target delays the log; 0: it does not */
	/* time of the next attempt; 0: the target is joined, or an attempt is under way */
	uint64_t again_ns;
};

static struct stack st;
static struct weft_worker *worker;
static struct weft_pd *pd;
static struct log_hub hub;
static struct host hosts[TARGETS];
static unsigned int nhosts;
static volatile sig_atomic_t paused;

static struct writer {
	struct probe_log p;
	bool opening, open, read_done, over;
	char why[300];
	struct weft_log_at head, end; /* as recovered */
	unsigned int quorum;
	uint64_t wait_us, away_us;
	struct auth_arg auth;
	uint8_t *read_buf;
	uint32_t lkey;
	/* one buffer is filled while targets may use the others */
	uint8_t record[DEPTH_MAX + 1][PROBE_RECORD_MAX];
} w;

static void
say(const char *fmt, unsigned int i, const char *why)
{
	char line[400];
	int n = snprintf(line, sizeof(line), fmt, i, why);

	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		ui_die("standard output: %s", strerror(errno));
}

/* ---- Joining and losing targets ---- */

static void
host_gone(struct host *h, const char *why)
{
	if (h->again_ns != 0)
		return;
	h->again_ns = ui_now_ns() + AGAIN_NS;
	h->lags_ns = 0;
	h->qp = NULL;
	h->joined = false;
	if (w.why[0] == '\0' || !w.open)
		snprintf(w.why, sizeof(w.why), "target lost: %s", why);
	say("lost %u %s\n", (unsigned int)(h - hosts), why);
}

static void
log_event(void *user, const struct weft_log_event *ev)
{
	struct host *h = ev->target_user;

	(void)user;
	switch (ev->type) {
	case WEFT_LOG_EV_JOINED:
		h->joined = true;
		break;
	case WEFT_LOG_EV_OPEN:
		w.head = ev->head;
		w.end = ev->end;
		w.open = true;
		break;
	case WEFT_LOG_EV_LAGGING:
		h->lags_ns = ui_now_ns();
		break;
	case WEFT_LOG_EV_LIVE:
		say("live %u%s\n", (unsigned int)(h - hosts), "");
		break;
	case WEFT_LOG_EV_LOST:
		log_client_end(h->client);
		h->client = NULL;
		host_gone(h, strerror(-ev->status));
		break;
	case WEFT_LOG_EV_FAILED:
		snprintf(w.why, sizeof(w.why), "log failed: %s", strerror(-ev->status));
		w.over = true;
		break;
	default:
		break;
	}
}

static void
host_ready(void *user, const struct weft_log_target *granted)
{
	static const char id[16] = "host test's log";
	struct weft_log_super super = {
	        .size = sizeof(super), .targets = nhosts, .quorum = w.quorum};
	struct weft_log_target t = *granted;
	struct host *h = user;

	memcpy(super.log_id, id, sizeof(super.log_id));
	if (getrandom(super.target_id, sizeof(super.target_id), 0) != sizeof(super.target_id))
		ui_die("no random octets");
	t.format = &super;
	t.user = h;
	h->qp = t.qp;
	if (weft_log_join(w.p.log, &t) >= 0)
		return;
	weft_qp_destroy(t.qp);
	h->qp = NULL;
}

static void
host_over(void *user, int status, const char *why)
{
	struct host *h = user;

	(void)status;
	/* The event LOST arrives inside and destroys the client. */
	if (h->qp != NULL && weft_log_leave(w.p.log, h->qp) == 0)
		return;
	if (h->client != NULL) {
		log_client_end(h->client);
		h->client = NULL;
		host_gone(h, why);
	}
}

static void
host_try(struct host *h)
{
	const struct log_client_attr a = {
	        .hub = &hub,
	        .log = w.p.log,
	        .pd = pd,
	        .to = h->to,
	        .export_name = h->export_name,
	        .rights = WEFT_EXPORT_READ | WEFT_EXPORT_WRITE | WEFT_EXPORT_FLUSH |
	                  (w.p.verify ? WEFT_EXPORT_VERIFY : 0),
	        .auth_name = w.auth.name[0] != '\0' ? w.auth.name : NULL,
	        .auth_keys = &w.auth.keys,
	        .connect_us = CONNECT_US,
	        .wait_us = w.wait_us,
	        .ready = host_ready,
	        .over = host_over,
	        .user = h,
	};

	h->again_ns = 0;
	if (log_client_start(&a, &h->client) != 0) {
		h->client = NULL;
		h->again_ns = ui_now_ns() + AGAIN_NS;
	}
}

/** Whether the target delays the log although enough others are left. */
static bool
host_lags(const struct host *h)
{
	struct weft_log_info info;
	unsigned int others = 0;
	bool lags = false;

	weft_log_query(w.p.log, &info);
	for (unsigned int i = 0; i < TARGETS; i++) {
		others += info.target[i].user != h && info.target[i].state == WEFT_LOG_TARGET_LIVE;
		if (info.target[i].user == h)
			lags = info.target[i].durable.seq != info.durable.seq;
	}
	return lags && others >= w.quorum;
}

/* TCP would detect the end of a target much later. */
static void
hosts_look(void)
{
	uint64_t now = ui_now_ns();

	for (unsigned int i = 0; i < nhosts && !w.over; i++) {
		struct host *h = &hosts[i];

		if (h->qp == NULL && h->again_ns != 0 && now >= h->again_ns)
			host_try(h);
		else if (h->qp != NULL && h->lags_ns != 0 && now - h->lags_ns > LAGS_NS) {
			h->lags_ns = 0;
			if (host_lags(h))
				(void)weft_log_leave(w.p.log, h->qp);
		}
	}
}

static void
turn(void)
{
	static uint64_t look_ns;

	if (weft_worker_poll(worker) == 0)
		weft_worker_idle(worker, 20);
	if (ui_now_ns() < look_ns)
		return;
	look_ns = ui_now_ns() + LOOK_NS;
	hosts_look();
}

/** Report the phase of the log that does not end. */
static void
stuck(const char *what)
{
	struct weft_log_info info;
	char text[400];
	size_t n = 0;

	weft_log_query(w.p.log, &info);
	for (unsigned int i = 0; i < nhosts && n < sizeof(text); i++)
		n += (size_t)snprintf(
		        text + n, sizeof(text) - n,
		        "; target %u: state %d, durable to %llu, %u transactions, joined %d", i,
		        info.target[i].state, (unsigned long long)info.target[i].durable.seq,
		        info.target[i].transactions, hosts[i].joined);
	ui_die("%s: no answer: state %d, durable to %llu of %llu%s", what, info.state,
	       (unsigned long long)info.durable.seq, (unsigned long long)info.end.seq, text);
}

static void
await(const bool *flag, const char *what)
{
	uint64_t end = ui_now_ns() + TIMEOUT_NS;

	while (!*flag && !w.over && ui_now_ns() < end)
		turn();
	if (!*flag && w.over)
		ui_die("%s: %s", what, w.why);
	if (!*flag)
		stuck(what);
}

/* Open with all targets, or with enough of them if no more have joined for a while. */
static void
open_log(void)
{
	uint64_t begin = ui_now_ns(), last = begin;
	unsigned int had = 0, n;

	for (;;) {
		uint64_t now = ui_now_ns();
		int rc;

		turn();
		n = 0;
		for (unsigned int i = 0; i < nhosts; i++)
			n += hosts[i].joined;
		if (n != had)
			last = now;
		had = n;
		if (w.over || now - begin > TIMEOUT_NS)
			ui_die("opening: %u of %u targets joined: %s", n, nhosts, w.why);
		if (n == 0 || (n < nhosts && now - last < PATIENCE_NS))
			continue;
		rc = weft_log_open(w.p.log);
		if (rc == 0)
			break;
		if (rc != -ENOTCONN)
			ui_die("opening: %s", strerror(-rc));
	}
	await(&w.open, "opening");
}

/* ---- Records ---- */

static int chunk_status;

static void
on_chunk(void *arg, struct weft_log_chunk *chunk)
{
	(void)arg;
	w.read_done = true;
	chunk_status = chunk->status;
	if (chunk->status == 0)
		probe_log_read(&w.p, chunk);
}

static void
recover(void)
{
	struct weft_sge buf = {w.read_buf, READ_BYTES, w.lkey};
	int rc;

	w.p.at = w.head;
	while ((rc = weft_log_read(w.p.log, &w.p.at, &buf, on_chunk, NULL)) == 0 || rc == -EAGAIN) {
		if (rc == -EAGAIN) {
			turn();
			if (w.over)
				ui_die("reading: %s", w.why);
			continue;
		}
		await(&w.read_done, "reading");
		w.read_done = false;
		if (chunk_status != 0)
			ui_die("reading: %s", w.over ? w.why : strerror(-chunk_status));
	}
	if (rc != -ENODATA)
		ui_die("reading: %s", rc == -EPIPE ? w.why : strerror(-rc));
	probe_log_up(&w.p);
}

/* ---- The program ---- */

static void
on_signal(int sig)
{
	(void)sig;
	paused = !paused;
}

static void
take_key(char *value)
{
	auth_arg_take(&w.auth, value);
}

static void
take_hosts(char **port, int argc, char **argv)
{
	const struct stack_opt so = {.progname = "log_host_probe", .quiet = true};
	static struct conf conf;
	char err[CONF_ERR_MAX];

	conf_defaults(&conf);
	/* The program is started often, so it uses little memory. */
	conf.weft.memory_mb = 64;
	conf.tcp.max_conns = 64;
	if (conf_add_port(&conf, "p0", port[0], port[1], 0, err, sizeof(err)) != 0)
		ui_die("%s", err);
	conf.ports[0].mbufs = 2048;
	for (; argc >= 2 && nhosts < TARGETS; argc -= 2, argv += 2, nhosts++) {
		hosts[nhosts].export_name = argv[1];
		hosts[nhosts].again_ns = 1;
		if (addr_parse(argv[0], PORT, &hosts[nhosts].to) != 0)
			ui_die("%s: no address", argv[0]);
	}
	if (nhosts == 0 || argc != 0)
		ui_usage_die("-- (HOST EXPORT)...");
	if (conf_finish(&conf, err, sizeof(err)) != 0 ||
	    stack_up(&conf, &so, &st, err, sizeof(err)) != 0)
		ui_die("%s", err);
	worker = st.workers[0];
}

int
main(int argc, char **argv)
{
	struct weft_log_attr la = {.size = sizeof(la), .on_event = log_event};
	struct weft_mr_attr ma = {
	        .size = sizeof(ma), .len_bytes = READ_BYTES, .access = WEFT_ACCESS_LOCAL_WRITE};
	struct weft_mr *sink;
	int i;

	ui_init("log_host_probe");
	if (argc < 6)
		ui_usage_die("DEV CIDR QUORUM DEPTH ... -- (HOST EXPORT)...");
	w.quorum = (unsigned int)atoi(argv[3]);
	w.p.depth = (unsigned int)atoi(argv[4]);
	if (w.p.depth == 0 || w.p.depth > DEPTH_MAX)
		ui_usage_die("DEPTH");
	for (i = 5; i < argc && strcmp(argv[i], "--") != 0; i++) {
		int taken = probe_log_arg(&w.p, argc, argv, i);

		if (taken > 0)
			i += taken - 1;
		else if (strcmp(argv[i], "auth") == 0 && i + 1 < argc)
			take_key(argv[++i]);
		else if (strcmp(argv[i], "wait") == 0 && i + 1 < argc)
			w.wait_us = strtoull(argv[++i], NULL, 10) * 1000;
		else if (strcmp(argv[i], "away") == 0 && i + 1 < argc)
			w.away_us = strtoull(argv[++i], NULL, 10) * 1000;
	}
	signal(SIGUSR1, on_signal);
	take_hosts(argv + 1, argc - i - 1, argv + i + 1);
	w.read_buf = ma.addr = aligned_alloc(4096, READ_BYTES);
	if (weft_pd_alloc(st.ctx, &pd) != 0 || weft_mr_reg(pd, &ma, &sink) != 0 ||
	    log_hub_up(&hub, st.ctx, worker) != 0)
		ui_die("set-up failed");
	w.lkey = weft_mr_stag(sink);
	la.ctx = st.ctx;
	la.pd = pd;
	la.worker = worker;
	la.targets = nhosts;
	la.quorum = w.quorum;
	la.max_appends = w.p.depth;
	la.wait_us = w.away_us;
	la.verify_hash = w.p.verify ? "crc32c" : NULL;
	if (weft_log_create(&la, &w.p.log) != 0)
		ui_die("no log");
	open_log();
	recover();
	while (!w.over) {
		probe_log_trim(&w.p);
		while (!w.over && !paused &&
		       probe_log_append(&w.p, w.record[w.p.next % (w.p.depth + 1)]))
			;
		turn();
	}
	ui_die("%s", w.why);
}
