/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The weft side of the interoperability test. It follows the script at the head of
 * iwarp_peer.py, on any DPDK device.
 *
 *   weft_peer listen DEV ADDR PORT           until SIGTERM; a line for each connection
 *   weft_peer connect DEV ADDR PORT PEER REV one connection
 *
 * One thread, which polls the worker itself. Exit status 0: everything was as expected.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/byteorder.h>
#include <weft/weft.h>

#define REGION_BYTES  100000
#define REGION_BASE   0x4400000000ULL
#define PATTERN_OFF   101
#define PATTERN_BYTES 70001
#define NRECVS        16
#define RECV_BYTES    32768
#define DESC_BYTES    24
#define TIMEOUT_S     20

#define WR_SEND  1
#define WR_WRITE 2
#define WR_READ  3
#define WR_RECV  100 /* plus the number of the buffer */

static const char magic[8] = {'w', 'e', 'f', 't', 'i', 'o', 'p', '1'};

/* State of the connection. There is one at a time. */
static struct weft_ctx *ctx;
static struct weft_worker *worker;
static struct weft_pd *pd;
static struct weft_cq *cq;
static struct weft_evq *evq;
static struct weft_qp *qp;
static struct weft_mr *region_mr, *sink_mr;
static uint8_t region[REGION_BYTES], sink[REGION_BYTES], expect[PATTERN_BYTES];
static uint8_t recvs[NRECVS][RECV_BYTES], outgoing[RECV_BYTES];

static struct {
	unsigned int slot;
	uint32_t len_bytes;
} inbox[NRECVS];
static unsigned int inbox_head, inbox_tail;
static unsigned int done[WR_READ + 1]; /* completions by kind */
static struct weft_connreq *pending;
static bool established, disconnected, terminated;
static int disconnect_status;
static struct weft_terminate term;
static char private_data[64];
static unsigned int peer_ird, peer_ord;

static volatile sig_atomic_t stop;

static void
on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

__attribute__((noreturn, format(printf, 1, 2))) static void
die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "weft_peer: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

static void
check(int rc, const char *what)
{
	if (rc < 0)
		die("%s: %s", what, strerror(-rc));
}

static time_t
now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

/* ---- The loop ---- */

static void
on_wc(const struct weft_wc *wc)
{
	if (wc->qp != qp || qp == NULL)
		return; /* a late flush of an earlier connection */
	if (wc->status != WEFT_WC_SUCCESS)
		return; /* the event reports the reason */
	if (wc->wr_id >= WR_RECV) {
		inbox[inbox_tail % NRECVS].slot = wc->wr_id - WR_RECV;
		inbox[inbox_tail++ % NRECVS].len_bytes = wc->len_bytes;
	} else {
		done[wc->wr_id]++;
	}
}

static void
on_event(const struct weft_event *ev)
{
	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		if (pending != NULL) {
			weft_reject(ev->connreq, NULL, 0);
			break;
		}
		pending = ev->connreq;
		/* fall through */
	case WEFT_EV_ESTABLISHED:
		if (ev->private_data_bytes > 0 && ev->private_data_bytes < sizeof(private_data)) {
			memcpy(private_data, ev->private_data, ev->private_data_bytes);
			private_data[ev->private_data_bytes] = '\0';
		}
		if (ev->ird != 0)
			peer_ird = ev->ird;
		if (ev->ord != 0)
			peer_ord = ev->ord;
		established |= ev->type == WEFT_EV_ESTABLISHED;
		break;
	case WEFT_EV_REJECTED:
	case WEFT_EV_CONNECT_ERROR:
		die("connect: %s: %s", weft_event_str(ev->type), strerror(-ev->status));
	case WEFT_EV_TERMINATED:
		terminated = true;
		term = ev->term;
		break;
	case WEFT_EV_DISCONNECTED:
		disconnected = true;
		disconnect_status = ev->status;
		break;
	default:
		break;
	}
}

static void
turn(void)
{
	struct weft_wc wc[16];
	struct weft_event ev;
	int n;

	if (weft_worker_poll(worker) == 0)
		weft_worker_idle(worker, 200);
	n = weft_cq_poll(cq, wc, 16);
	check(n, "weft_cq_poll");
	for (int i = 0; i < n; i++)
		on_wc(&wc[i]);
	while (weft_evq_poll(evq, &ev) > 0)
		on_event(&ev);
}

/* Wait for cond. Returns false when the connection ended first. */
#define WAIT(cond, what)                                                                           \
	({                                                                                         \
		time_t end_ = now_s() + TIMEOUT_S;                                                 \
		while (!(cond) && !disconnected) {                                                 \
			turn();                                                                    \
			if (now_s() > end_)                                                        \
				die("timed out waiting for %s", what);                             \
		}                                                                                  \
		(bool)(cond);                                                                      \
	})

/* ---- Work ---- */

static void
post_recv(unsigned int slot)
{
	struct weft_sge sge = {.addr = recvs[slot], .len_bytes = RECV_BYTES};
	struct weft_recv_wr wr = {.wr_id = WR_RECV + slot, .sg_list = &sge, .num_sge = 1};

	check(weft_post_recv(qp, &wr, 1) == 1 ? 0 : -EIO, "weft_post_recv");
}

static bool
post_and_wait(const struct weft_wr *wr, const char *what)
{
	unsigned int before = done[wr->wr_id];
	int rc = weft_post_send(qp, wr, 1);

	if (rc != 1)
		die("%s: weft_post_send: %s", what, strerror(rc < 0 ? -rc : EAGAIN));
	return WAIT(done[wr->wr_id] != before, what);
}

static bool
send_message(const void *data, uint32_t len_bytes)
{
	struct weft_sge sge = {.addr = outgoing, .len_bytes = len_bytes};
	struct weft_wr wr = {
	        .wr_id = WR_SEND,
	        .opcode = WEFT_WR_SEND,
	        .flags = WEFT_WR_SIGNALED,
	        .sg_list = &sge,
	        .num_sge = 1,
	};

	memcpy(outgoing, data, len_bytes);
	return post_and_wait(&wr, "a Send");
}

/* Copy the next message and post its buffer again. Returns false if there is none. */
static bool
receive_message(void *buf, uint32_t *len_bytes)
{
	unsigned int slot;

	if (!WAIT(inbox_head != inbox_tail, "a message"))
		return false;
	slot = inbox[inbox_head % NRECVS].slot;
	*len_bytes = inbox[inbox_head++ % NRECVS].len_bytes;
	memcpy(buf, recvs[slot], *len_bytes);
	if (!disconnected)
		post_recv(slot);
	return true;
}

static void
pattern(unsigned int which, uint8_t *p, uint32_t len_bytes)
{
	for (uint32_t i = 0; i < len_bytes; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + which * 101);
}

static bool
send_description(void)
{
	uint8_t d[DESC_BYTES];

	memcpy(d, magic, 8);
	weft_put_be32(d + 8, weft_mr_stag(region_mr));
	weft_put_be32(d + 12, REGION_BYTES);
	weft_put_be64(d + 16, REGION_BASE);
	return send_message(d, sizeof(d));
}

static bool
receive_description(uint32_t *stag, uint64_t *base)
{
	static uint8_t d[RECV_BYTES];
	uint32_t len;

	if (!receive_message(d, &len))
		return false;
	if (len != DESC_BYTES || memcmp(d, magic, 8) != 0)
		die("not a description of a region");
	*stag = weft_get_be32(d + 8);
	*base = weft_get_be64(d + 16);
	return true;
}

static bool
receive_word(const char *word)
{
	static uint8_t m[RECV_BYTES];
	uint32_t len;

	if (!receive_message(m, &len))
		return false;
	if (len != strlen(word) || memcmp(m, word, len) != 0)
		die("expected %s", word);
	return true;
}

static bool
push_and_pull(unsigned int which, uint32_t stag, uint64_t base)
{
	struct weft_sge sge = {.addr = expect, .len_bytes = PATTERN_BYTES};
	struct weft_wr wr = {
	        .wr_id = WR_WRITE,
	        .opcode = WEFT_WR_WRITE,
	        .sg_list = &sge,
	        .num_sge = 1,
	        .rdma = {.stag = stag, .to = base + PATTERN_OFF},
	};
	struct weft_sge in = {
	        .addr = sink + 13,
	        .len_bytes = PATTERN_BYTES,
	        .lkey = weft_mr_stag(sink_mr),
	};

	pattern(which, expect, PATTERN_BYTES);
	/* The Read is posted directly after the Write, and must return the written octets. */
	if (weft_post_send(qp, &wr, 1) != 1)
		die("weft_post_send of a Write");
	wr.wr_id = WR_READ;
	wr.opcode = WEFT_WR_READ;
	wr.flags = WEFT_WR_SIGNALED;
	wr.sg_list = &in;
	if (!post_and_wait(&wr, "a Read"))
		return false;
	if (memcmp(sink + 13, expect, PATTERN_BYTES) != 0)
		die("what was read is not what was written");
	return true;
}

static void
check_region(unsigned int which)
{
	pattern(which, expect, PATTERN_BYTES);
	if (memcmp(region + PATTERN_OFF, expect, PATTERN_BYTES) != 0)
		die("the region does not hold what the peer wrote");
	for (uint32_t i = 0; i < REGION_BYTES; i++)
		if ((i < PATTERN_OFF || i >= PATTERN_OFF + PATTERN_BYTES) && region[i] != 0)
			die("octet %u of the region was touched", i);
}

/* ---- The script ---- */

static bool
script_responder(void)
{
	static uint8_t m[RECV_BYTES];
	uint32_t stag, len;
	uint64_t base;

	if (!receive_description(&stag, &base) || !send_description() || !receive_word("W1"))
		return false;
	check_region(1);
	if (!push_and_pull(2, stag, base) || !send_message("W2", 2))
		return false;
	do {
		if (!receive_message(m, &len) || !send_message(m, len))
			return false;
	} while (len != 4 || memcmp(m, "QUIT", 4) != 0);
	return true;
}

static bool
script_initiator(void)
{
	static const uint32_t sizes[] = {1, 2, 3, 4, 5, 64, 1000, 1430, 1431, 5000, 20000};
	static uint8_t m[RECV_BYTES];
	uint32_t stag, len;
	uint64_t base;

	if (!send_description() || !receive_description(&stag, &base) ||
	    !push_and_pull(1, stag, base) || !send_message("W1", 2) || !receive_word("W2"))
		return false;
	check_region(2);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pattern(3, expect, sizes[i]);
		if (!send_message(expect, sizes[i]) || !receive_message(m, &len))
			return false;
		if (len != sizes[i] || memcmp(m, expect, len) != 0)
			die("echo of %u octets differs", sizes[i]);
	}
	return send_message("QUIT", 4) && receive_word("QUIT");
}

/* ---- Connections ---- */

static void
conn_reset(void)
{
	inbox_head = inbox_tail = 0;
	established = disconnected = terminated = false;
	disconnect_status = 0;
	memset(region, 0, sizeof(region));
	memset(sink, 0, sizeof(sink));
}

static void
conn_create(struct weft_worker *w)
{
	struct weft_qp_attr attr = {
	        .size = sizeof(attr),
	        .worker = w,
	        .send_cq = cq,
	        .recv_cq = cq,
	        .evq = evq,
	        .user = &qp,
	};

	check(weft_qp_create(pd, &attr, &qp), "weft_qp_create");
	for (unsigned int i = 0; i < NRECVS; i++)
		post_recv(i);
}

static void
conn_destroy(void)
{
	weft_qp_destroy(qp);
	qp = NULL;
	/* Discard flushed completions. */
	for (unsigned int i = 0; i < 10; i++)
		turn();
}

static void
serve_one(unsigned int number)
{
	struct weft_conn_attr attr = {
	        .size = sizeof(attr),
	        .private_data = "weft responder",
	        .private_data_bytes = 14,
	};
	struct weft_connreq *r = pending;
	char why[128];
	bool ok;

	pending = NULL;
	conn_reset();
	if (strcmp(private_data, "python initiator") != 0)
		die("private data of the request: \"%s\"", private_data);
	conn_create(weft_connreq_worker(r));
	check(weft_accept(r, qp, &attr), "weft_accept");
	ok = script_responder();
	WAIT(disconnected, "the end of the connection");
	if (ok)
		printf("connection %u: complete, ird %u ord %u, status %d\n", number, peer_ird,
		       peer_ord, disconnect_status);
	else if (terminated)
		printf("connection %u: terminated by %s: %s\n", number,
		       term.ours ? "us" : "the peer", weft_terminate_str(&term, why, sizeof(why)));
	else
		die("connection %u: lost: %s", number, strerror(-disconnect_status));
	fflush(stdout);
	conn_destroy();
}

static void
port_up(const char *dev, const char *addr)
{
	struct weft_env_attr env = {
	        .size = sizeof(env), .progname = "weft_peer", .memory_mb = 256, .no_huge = true};
	struct weft_port_attr port = {
	        .size = sizeof(port), .name = "p0", .dev = dev, .prefix_len = 24};
	struct weft_cq_attr cqa = {.size = sizeof(cqa), .depth = 1024};
	struct weft_evq_attr eva = {.size = sizeof(eva)};
	struct weft_mr_attr mra = {
	        .size = sizeof(mra),
	        .addr = region,
	        .len_bytes = REGION_BYTES,
	        .base_to = REGION_BASE,
	        .access = WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |
	                  WEFT_ACCESS_LOCAL_WRITE,
	};
	struct sockaddr_in *sin = (struct sockaddr_in *)&port.addr;
	struct weft_port *p;
	const char *msg = NULL;
	int rc = weft_env_init(&env, &msg);

	if (rc != 0)
		die("EAL: %s", msg != NULL ? msg : strerror(-rc));
	sin->sin_family = AF_INET;
	if (inet_pton(AF_INET, addr, &sin->sin_addr) != 1)
		die("bad address %s", addr);
	check(weft_ctx_create(NULL, &ctx), "weft_ctx_create");
	check(weft_port_open(ctx, &port, &p), "weft_port_open");
	check(weft_worker_create(ctx, NULL, &worker), "weft_worker_create");
	check(weft_worker_add_port(worker, p), "weft_worker_add_port");
	check(weft_pd_alloc(ctx, &pd), "weft_pd_alloc");
	check(weft_cq_create(ctx, &cqa, &cq), "weft_cq_create");
	check(weft_evq_create(ctx, &eva, &evq), "weft_evq_create");
	check(weft_mr_reg(pd, &mra, &region_mr), "weft_mr_reg");
	mra.addr = sink;
	mra.base_to = 0;
	mra.access = WEFT_ACCESS_LOCAL_WRITE;
	check(weft_mr_reg(pd, &mra, &sink_mr), "weft_mr_reg");
}

static void
port_down(void)
{
	weft_mr_dereg(region_mr, NULL, NULL);
	weft_mr_dereg(sink_mr, NULL, NULL);
	for (unsigned int i = 0; i < 10; i++)
		turn();
	check(weft_cq_destroy(cq), "weft_cq_destroy");
	check(weft_evq_destroy(evq), "weft_evq_destroy");
	weft_worker_detach(worker);
	weft_ctx_destroy(ctx);
	weft_env_fini();
}

int
main(int argc, char **argv)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	bool listening = argc == 5 && strcmp(argv[1], "listen") == 0;

	if (!listening && (argc != 7 || strcmp(argv[1], "connect") != 0)) {
		fprintf(stderr, "usage: weft_peer listen DEV ADDR PORT\n"
		                "       weft_peer connect DEV ADDR PORT PEER REV\n");
		return 2;
	}
	sin.sin_port = htons((uint16_t)atoi(argv[4]));
	port_up(argv[2], argv[3]);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);

	if (listening) {
		struct weft_listen_attr attr = {.size = sizeof(attr), .evq = evq};
		struct weft_listener *l;
		unsigned int n = 0;

		inet_pton(AF_INET, argv[3], &sin.sin_addr);
		check(weft_listen(ctx, (struct sockaddr *)&sin, sizeof(sin), &attr, &l),
		      "weft_listen");
		printf("listening\n");
		fflush(stdout);
		while (!stop) {
			turn();
			if (pending != NULL)
				serve_one(++n);
		}
		weft_unlisten(l);
	} else {
		struct weft_conn_attr attr = {
		        .size = sizeof(attr),
		        .private_data = "weft initiator",
		        .private_data_bytes = 14,
		        .mpa_rev = (uint8_t)atoi(argv[6]),
		};

		if (inet_pton(AF_INET, argv[5], &sin.sin_addr) != 1)
			die("bad address %s", argv[5]);
		conn_reset();
		conn_create(worker);
		check(weft_connect(qp, (struct sockaddr *)&sin, sizeof(sin), &attr),
		      "weft_connect");
		if (!WAIT(established, "the connection"))
			die("connection lost at start-up");
		if (strcmp(private_data, "python responder") != 0)
			die("private data of the reply: \"%s\"", private_data);
		if (!script_initiator())
			die("connection lost: %s",
			    terminated ? weft_terminate_str(&term, (char[128]){0}, 128)
			               : strerror(-disconnect_status));
		check(weft_disconnect(qp), "weft_disconnect");
		WAIT(disconnected, "the end of the connection");
		if (disconnect_status != 0)
			die("close: %s", strerror(-disconnect_status));
		printf("complete, peer's ird %u ord %u\n", peer_ird, peer_ord);
		conn_destroy();
	}
	port_down();
	return 0;
}
