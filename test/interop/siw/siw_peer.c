/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The weft side of the interoperability test with Linux's siw: what siwtool.c is in the guest, with
 * the same operations and the same lines of output.
 *
 *   siw_peer [-p PORT] [-n CONNECTIONS] [-r RECVS] [-s BYTES] [-a BYTES] [-j] [-x] serve DEV ADDR
 *   siw_peer [-p PORT] [-d DEPTH] [-a BYTES] [-w MS] connect DEV ADDR PEER OP...
 *
 * ADDR: IPv4, or IPv4,IPv6. OP and the options they share: see siwtool.c. Besides: flush
 * atomic-write (which siw does not know) and -M: MPA revision asked for. One thread, which polls
 * the worker itself. Exit status 0: every operation ended as asked.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

#define REGION_BYTES (9u << 20)
#define SQ_DEPTH     128
#define TIMEOUT_MS   20000
#define END_MS       10000

struct adv {
	uint64_t addr;
	uint32_t key, len_bytes, ro_key, wo_key, inv_key, pad;
};

static unsigned int nrecvs = 16, recv_bytes = 65536, pdata_bytes = sizeof(struct adv);
static unsigned int depth = 16, wait_ms;
static uint16_t port = 7777;
static struct weft_mpa_policy policy = {.size = sizeof(policy)};

static struct weft_ctx *ctx;
static struct weft_worker *worker;
static struct weft_pd *pd;
static struct weft_cq *cq;
static struct weft_evq *evq;
static struct weft_qp *qp;
static struct weft_mr *mr, *ro, *wo, *inv;
static uint8_t *region, *recvs;

static struct weft_connreq *pending;
static bool initiator, established, disconnected, leave;
static int disconnect_status;
static unsigned int done, failed; /* completions of the send queue */
static enum weft_wc_status why;
static struct adv peer;

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
	fflush(stdout);
	fprintf(stderr, "siw_peer: ");
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

static void
show_mpa(void)
{
	struct weft_qp_info info;

	weft_qp_query(qp, &info);
	printf("mpa: rev %u, p2p %u, rtr %u, crc %u, markers %u %u\n", info.mpa.rev, info.mpa.p2p,
	       info.mpa.rtr, info.mpa.crc, info.mpa.rx_markers, info.mpa.tx_markers);
}

static uint64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint8_t
pattern(uint32_t len, uint32_t i)
{
	return (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + len);
}

static void
fill(uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = pattern(len, i);
}

static const char *
judge(const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (p[i] != pattern(len, i))
			return "content differs";
	return "content good";
}

/* ---- The loop ---- */

static void
post_recv(unsigned int slot)
{
	struct weft_sge sge = {.addr = recvs + (size_t)slot * recv_bytes, .len_bytes = recv_bytes};
	struct weft_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

	check(weft_post_recv(qp, &wr, 1), "weft_post_recv");
}

static void
on_wc(const struct weft_wc *wc)
{
	if (qp == NULL || wc->qp != qp)
		return; /* a late flush of an earlier connection */
	if (wc->opcode != WEFT_WC_RECV) {
		done++;
		failed += wc->status != WEFT_WC_SUCCESS;
		if (wc->status != WEFT_WC_SUCCESS && failed == 1)
			why = wc->status;
		return;
	}
	if (wc->status != WEFT_WC_SUCCESS)
		return;
	printf("received %u: %s, flags 0x%x\n", wc->len_bytes,
	       judge(recvs + wc->wr_id * recv_bytes, wc->len_bytes), wc->flags);
	post_recv((unsigned int)wc->wr_id);
	if (leave)
		weft_disconnect(qp);
}

/* Private data: `skip` octets followed by a pattern. */
static void
show_private(const char *who, const struct weft_event *ev, uint32_t skip)
{
	uint32_t len = ev->private_data_bytes;

	printf("%s: private data %u: %s, ird %u, ord %u\n", who, len,
	       len <= skip ? "none" : judge(ev->private_data + skip, len - skip), ev->ird, ev->ord);
	if (skip > 0 && len >= skip)
		memcpy(&peer, ev->private_data, sizeof(peer));
}

static void
on_event(const struct weft_event *ev)
{
	char text[128];

	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		show_private("request", ev, 0);
		pending = ev->connreq;
		break;
	case WEFT_EV_ESTABLISHED:
		established = true;
		if (initiator)
			show_private("reply", ev, sizeof(peer));
		break;
	case WEFT_EV_REJECTED:
		printf("connect: rejected\nreason: %.*s\n", ev->private_data_bytes,
		       ev->private_data);
		disconnected = true;
		break;
	case WEFT_EV_CONNECT_ERROR:
		printf("connect: %s\n", strerror(-ev->status));
		disconnected = true;
		break;
	case WEFT_EV_TERMINATED:
		printf("terminate %s: %u/%u/%02x: %s\n", ev->term.ours ? "sent" : "received",
		       ev->term.layer, ev->term.etype, ev->term.code,
		       weft_terminate_str(&ev->term, text, sizeof(text)));
		break;
	case WEFT_EV_DISCONNECTED:
		disconnected = true;
		disconnect_status = ev->status;
		break;
	default:
		printf("event: %s\n", weft_event_str(ev->type));
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
	while (weft_evq_poll(evq, &ev) > 0)
		on_event(&ev);
	n = weft_cq_poll(cq, wc, 16);
	check(n, "weft_cq_poll");
	for (int i = 0; i < n; i++)
		on_wc(&wc[i]);
}

/* Wait for cond. Returns whether it became true. */
#define WAIT(cond, ms)                                                                             \
	({                                                                                         \
		uint64_t end_ = now_ms() + (ms);                                                   \
		while (!(cond) && !stop && now_ms() < end_)                                        \
			turn();                                                                    \
		(bool)(cond);                                                                      \
	})

/* ---- Connections ---- */

static uint16_t
put_private(uint8_t *buf, const struct adv *a)
{
	uint32_t skip = a != NULL ? sizeof(*a) : 0, len = pdata_bytes < skip ? skip : pdata_bytes;

	if (a != NULL)
		memcpy(buf, a, sizeof(*a));
	fill(buf + skip, len - skip);
	return (uint16_t)len;
}

static void
qp_create(struct weft_worker *w)
{
	struct weft_qp_attr attr = {
	        .size = sizeof(attr),
	        .worker = w,
	        .send_cq = cq,
	        .recv_cq = cq,
	        .evq = evq,
	        .sq_depth = SQ_DEPTH,
	        .rq_depth = nrecvs + 1,
	        .ird = (uint16_t)depth,
	        .ord = (uint16_t)depth,
	        .all_signaled = true,
	};

	established = disconnected = false;
	done = failed = 0;
	check(weft_qp_create(pd, &attr, &qp), "weft_qp_create");
	for (unsigned int i = 0; i < nrecvs; i++)
		post_recv(i);
}

static void
qp_destroy(void)
{
	weft_qp_destroy(qp);
	qp = NULL;
	for (unsigned int i = 0; i < 10; i++)
		turn();
}

static void
serve_one(bool reject)
{
	struct adv a = {(uintptr_t)region,
	                weft_mr_stag(mr),
	                REGION_BYTES,
	                weft_mr_stag(ro),
	                weft_mr_stag(wo),
	                weft_mr_stag(inv),
	                0};
	uint8_t pdata[WEFT_MAX_PRIVATE_DATA];
	struct weft_conn_attr attr = {.size = sizeof(attr), .private_data = pdata};
	struct weft_connreq *r = pending;

	pending = NULL;
	if (reject) {
		weft_reject(r, "no, thank you", 13);
		return;
	}
	attr.private_data_bytes = put_private(pdata, &a);
	qp_create(weft_connreq_worker(r));
	check(weft_accept(r, qp, &attr), "weft_accept");
	(void)WAIT(established || disconnected, END_MS);
	show_mpa();
	while (!disconnected && !stop)
		turn();
	printf("end: %s\n", disconnect_status == 0 ? "in order" : strerror(-disconnect_status));
	qp_destroy();
}

static void
serve(struct sockaddr *sa, socklen_t len, unsigned int conns, bool reject)
{
	struct weft_listen_attr attr = {.size = sizeof(attr), .evq = evq, .mpa = &policy};
	struct weft_listener *l;

	check(weft_listen(ctx, sa, len, &attr, &l), "weft_listen");
	printf("listening\n");
	while (conns > 0 && !stop) {
		turn();
		if (pending == NULL)
			continue;
		serve_one(reject);
		conns--;
	}
	/* let the rejection be sent */
	(void)WAIT(false, reject ? 500 : 0);
	weft_unlisten(l);
}

/* ---- Operations ---- */

static bool
wait_end(const char *op)
{
	bool ended = WAIT(disconnected, END_MS);

	printf("%s: %s\n", op, ended ? "disconnected" : "still connected");
	return ended;
}

static void
misbehave(const char *op, struct weft_wr *wr)
{
	if (strstr(op, "-key") != NULL)
		wr->rdma.stag = peer.key ^ 0x00ffff00;
	if (strstr(op, "-bounds") != NULL)
		wr->rdma.to = peer.addr + peer.len_bytes - 16;
	if (strncmp(op, "wrap", 4) == 0)
		wr->rdma.to = -16ull;
	if (strncmp(op, "ro-", 3) == 0)
		wr->rdma.stag = peer.ro_key;
	if (strncmp(op, "wo-", 3) == 0)
		wr->rdma.stag = peer.wo_key;
}

static void
prepare(const char *op, struct weft_wr *wr)
{
	if (strstr(op, "read") != NULL)
		wr->opcode = WEFT_WR_READ;
	else if (strcmp(op, "flush") == 0)
		wr->opcode = WEFT_WR_FLUSH;
	else if (strcmp(op, "atomic-write") == 0)
		wr->opcode = WEFT_WR_ATOMIC_WRITE;
	else
		wr->opcode = strstr(op, "write") != NULL ? WEFT_WR_WRITE : WEFT_WR_SEND;
	switch (wr->opcode) {
	case WEFT_WR_FLUSH:
		wr->flush.stag = peer.key;
		wr->flush.to = peer.addr;
		wr->flush.len_bytes = 64;
		wr->flush.flags = WEFT_FLUSH_VISIBLE;
		wr->num_sge = 0;
		return;
	case WEFT_WR_ATOMIC_WRITE:
		wr->atomic_write.stag = peer.key;
		wr->atomic_write.to = peer.addr;
		wr->num_sge = 0;
		return;
	case WEFT_WR_SEND:
		if (strncmp(op, "sendse", 6) == 0)
			wr->flags |= WEFT_WR_SOLICITED;
		if (strncmp(op, "sendinv", 7) != 0)
			return;
		wr->opcode = WEFT_WR_SEND_INV;
		wr->send.inv_stag = peer.inv_key;
		return;
	default:
		wr->rdma.stag = peer.key;
		wr->rdma.to = peer.addr;
		misbehave(op, wr);
	}
}

static bool
operate(const char *op)
{
	const char *c = strchr(op, ':'), *x = c != NULL ? strchr(c, 'x') : NULL;
	uint32_t len = c != NULL ? (uint32_t)strtoul(c + 1, NULL, 0) : 64;
	unsigned int times = x != NULL ? (unsigned int)atoi(x + 1) : 1;
	bool bad = c == NULL || strncmp(op, "big", 3) == 0, read;
	struct weft_sge sge = {.addr = region, .len_bytes = len, .lkey = weft_mr_stag(mr)};
	struct weft_wr wr = {.sg_list = &sge, .num_sge = 1};

	if (strcmp(op, "wait") == 0)
		return wait_end(op);
	if ((uint64_t)len * times > REGION_BYTES || times > SQ_DEPTH)
		die("%s is too much", op);
	prepare(op, &wr);
	read = wr.opcode == WEFT_WR_READ;
	if (read)
		memset(region, 0, (size_t)len * times);
	else
		fill(region, len);
	done = failed = 0;
	for (unsigned int i = 0; i < times; i++) {
		if (read)
			sge.addr = region + (size_t)i * len;
		if (weft_post_send(qp, &wr, 1) != 1)
			die("%s: weft_post_send", op);
	}
	if (!WAIT(done == times, TIMEOUT_MS)) {
		printf("%s: no completion\n", op);
		return false;
	}
	if (failed > 0)
		printf("%s: %s\n", op, weft_wc_status_str(why));
	if (bad)
		return wait_end(op);
	if (failed > 0) {
		(void)wait_end(op);
		return false;
	}
	printf("%s: done\n", op);
	for (unsigned int i = 0; read && i < times; i++)
		printf("%s: %s\n", op, judge(region + (size_t)i * len, len));
	return true;
}

static int
client(struct sockaddr *sa, socklen_t len, char **ops)
{
	uint8_t pdata[WEFT_MAX_PRIVATE_DATA];
	struct weft_conn_attr attr = {.size = sizeof(attr), .private_data = pdata, .mpa = &policy};
	int rc = 0;

	attr.private_data_bytes = put_private(pdata, NULL);
	qp_create(worker);
	check(weft_connect(qp, sa, len, &attr), "weft_connect");
	(void)WAIT(established || disconnected, TIMEOUT_MS);
	if (!established) {
		qp_destroy();
		return 2;
	}
	show_mpa();
	(void)WAIT(disconnected, wait_ms);
	for (; *ops != NULL && rc == 0 && !stop; ops++)
		if (!operate(*ops))
			rc = 3;
	if (!disconnected) {
		check(weft_disconnect(qp), "weft_disconnect");
		(void)WAIT(disconnected, END_MS);
	}
	printf("end: %s\n", !disconnected            ? "none"
	                    : disconnect_status == 0 ? "in order"
	                                             : strerror(-disconnect_status));
	qp_destroy();
	return rc;
}

/* ---- Set-up ---- */

static struct weft_mr *
reg(uint32_t access)
{
	struct weft_mr_attr attr = {
	        .size = sizeof(attr),
	        .addr = region,
	        .len_bytes = REGION_BYTES,
	        .base_to = (uintptr_t)region,
	        .access = access,
	};
	struct weft_mr *m;

	check(weft_mr_reg(pd, &attr, &m), "weft_mr_reg");
	return m;
}

static socklen_t
address(const char *text, uint16_t at_port, struct sockaddr_storage *ss)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ss;

	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(at_port);
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
		die("bad address %s", text);
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(at_port);
	return sizeof(*v6);
}

static void
stack_up(const char *dev, char *addr)
{
	struct weft_env_attr env = {
	        .size = sizeof(env), .progname = "siw_peer", .memory_mb = 256, .no_huge = true};
	struct weft_port_attr pa = {.size = sizeof(pa), .name = "p0", .dev = dev, .prefix_len = 24};
	struct weft_cq_attr cqa = {.size = sizeof(cqa), .depth = 1024};
	struct weft_evq_attr eva = {.size = sizeof(eva)};
	uint32_t rw = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE;
	char *comma = strchr(addr, ',');
	struct weft_port *p;
	const char *msg = NULL;
	int rc = weft_env_init(&env, &msg);

	if (rc != 0)
		die("EAL: %s", msg != NULL ? msg : strerror(-rc));
	if (comma != NULL) {
		*comma = '\0';
		(void)address(comma + 1, 0, &pa.addr6);
		pa.prefix6_len = 64;
	}
	(void)address(addr, 0, &pa.addr);
	region = calloc(1, REGION_BYTES);
	recvs = calloc(nrecvs > 0 ? nrecvs : 1, recv_bytes);
	if (region == NULL || recvs == NULL)
		die("no memory");
	check(weft_ctx_create(NULL, &ctx), "weft_ctx_create");
	check(weft_port_open(ctx, &pa, &p), "weft_port_open");
	check(weft_worker_create(ctx, NULL, &worker), "weft_worker_create");
	check(weft_worker_add_port(worker, p), "weft_worker_add_port");
	check(weft_pd_alloc(ctx, &pd), "weft_pd_alloc");
	check(weft_cq_create(ctx, &cqa, &cq), "weft_cq_create");
	check(weft_evq_create(ctx, &eva, &evq), "weft_evq_create");
	mr = reg(rw);
	ro = reg(rw & ~WEFT_ACCESS_REMOTE_WRITE);
	wo = reg(rw & ~WEFT_ACCESS_REMOTE_READ);
	inv = reg(rw);
}

static void
stack_down(void)
{
	check(weft_cq_destroy(cq), "weft_cq_destroy");
	check(weft_evq_destroy(evq), "weft_evq_destroy");
	weft_worker_detach(worker);
	weft_ctx_destroy(ctx);
	weft_env_fini();
	free(region);
	free(recvs);
}

int
main(int argc, char **argv)
{
	struct sockaddr_storage ss;
	unsigned int conns = 1;
	bool reject = false, serving;
	int o, rc = 0;
	socklen_t len;

	while ((o = getopt(argc, argv, "+p:n:r:s:a:d:w:M:R:CKjx")) != -1)
		switch (o) {
		case 'p':
			port = (uint16_t)atoi(optarg);
			break;
		case 'n':
			conns = (unsigned int)atoi(optarg);
			break;
		case 'r':
			nrecvs = (unsigned int)atoi(optarg);
			break;
		case 's':
			recv_bytes = (unsigned int)atoi(optarg);
			break;
		case 'a':
			pdata_bytes = (unsigned int)atoi(optarg);
			break;
		case 'd':
			depth = (unsigned int)atoi(optarg);
			break;
		case 'w':
			wait_ms = (unsigned int)atoi(optarg);
			break;
		case 'M':
			policy.rev = (uint32_t)atoi(optarg);
			break;
		case 'R':
			policy.rtr = (uint32_t)atoi(optarg);
			break;
		case 'C':
			policy.no_crc = true;
			break;
		case 'K':
			policy.markers = true;
			break;
		case 'j':
			reject = true;
			break;
		case 'x':
			leave = true;
			break;
		default:
			return 2;
		}
	argv += optind;
	argc -= optind;
	serving = argc == 3 && strcmp(argv[0], "serve") == 0;
	if (!serving && (argc < 4 || strcmp(argv[0], "connect") != 0)) {
		fprintf(stderr, "see the head of siw_peer.c\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	stack_up(argv[1], argv[2]);
	if (serving) {
		len = address("::", port, &ss); /* every address, of both families */
		serve((struct sockaddr *)&ss, len, conns, reject);
	} else {
		initiator = true;
		policy.p2p = policy.rtr != 0;
		len = address(argv[3], port, &ss);
		rc = client((struct sockaddr *)&ss, len, argv + 4);
	}
	stack_down();
	return rc;
}
