/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file An initiator that commits numbered transactions until it is killed.
 *
 *     commit_probe DEV CIDR HOST EXPORT DEPTH [noverify] [kill PID COUNT]
 *
 * Connects, OPENs the export for writing (repeatedly while it is busy), flushes and reads the word,
 * and prints "up NUMBER" with its content. Then it commits the following numbers, DEPTH of them in
 * flight: WRITE of a record, FLUSH, VERIFY, ATOMIC WRITE of its number into the word, FLUSH of the
 * word. It prints each number that the last Flush has acknowledged, one write() a line, before it
 * does anything else. kill: after the COUNTth number is printed, kill PID. The program ends by
 * itself only when the link or the connection ends, or a work request fails: exit status 1, one
 * line on standard error.
 *
 * All data are in slot 0 of the export, whose own commit word is not changed. The word is in the
 * first page of the slot's data, followed by RING pages of records. Number n is in page n % RING:
 * n, a salt of this process, filler, and the SHA-256 of all that. Integers are big-endian.
 */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export_proto.h"
#include "probe.h"
#include "stack.h"
#include "ui.h"
#include <weft/rpcrdma.h>

#define TIMEOUT_NS  20000000000ull
#define RETRY_NS    1000000ull
#define LINK_NS     5000000ull
#define RING        256
#define DEPTH_MAX   16
#define PAGE        4096u
#define DIGEST      32u
#define WR_COMMIT   1
#define WR_READ     2
#define WR_ID(w, n) ((uint64_t)(w) << 56 | (n))

static struct probe {
	struct weft_worker *w;
	struct weft_port *port;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	bool up, gone, failed;
	char why[200];
	int answered; /* result of the OPEN: 1 granted, -1 refused */
	enum weft_export_status status;
	uint32_t stag;
	uint64_t base; /* offset of the data of slot 0 */
	const struct weft_hash_ops *hash, *digest;
	bool read_done, verify;
	uint64_t next, acked; /* numbers */
	uint64_t salt;
	pid_t victim;
	uint64_t victim_in; /* acknowledgements until the kill; 0: no kill */
	uint8_t record[DEPTH_MAX][PAGE] __attribute__((aligned(64)));
	uint8_t word[8];
} pr;

static void
put_be64(uint8_t *at, uint64_t v)
{
	v = htobe64(v);
	memcpy(at, &v, sizeof(v));
}

static void
acknowledged(uint64_t n)
{
	char line[32];
	int len = snprintf(line, sizeof(line), "%llu\n", (unsigned long long)n);

	if (n != pr.acked + 1)
		ui_die("acknowledged %llu behind %llu", (unsigned long long)n,
		       (unsigned long long)pr.acked);
	if (write(STDOUT_FILENO, line, (size_t)len) != len)
		ui_die("standard output: %s", strerror(errno));
	pr.acked = n;
	if (pr.victim_in > 0 && --pr.victim_in == 0)
		(void)kill(pr.victim, SIGKILL);
}

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		if (weft_rpc_wc(pr.rpc, &wc[i]))
			continue;
		if (wc[i].status != WEFT_WC_SUCCESS) {
			if (!pr.failed && wc[i].status != WEFT_WC_FLUSHED)
				snprintf(pr.why, sizeof(pr.why), "a work request failed: %s",
				         weft_wc_status_str(wc[i].status));
			pr.failed = true;
		} else if (wc[i].wr_id >> 56 == WR_COMMIT && !pr.failed) {
			acknowledged(wc[i].wr_id & ~WR_ID(0xff, 0));
		} else if (wc[i].wr_id >> 56 == WR_READ) {
			pr.read_done = true;
		}
	}
}

static void
on_event(void *user, const struct weft_event *ev)
{
	char text[160];

	(void)user;
	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		pr.up = true;
		break;
	case WEFT_EV_TERMINATED:
		if (pr.why[0] == '\0')
			snprintf(pr.why, sizeof(pr.why), "terminated: %s",
			         weft_terminate_str(&ev->term, text, sizeof(text)));
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
		const weft_export_grant *g = &r->weft_export_open_res_u.grant;

		pr.answered = 1;
		pr.stag = g->stag;
		pr.base = g->slot_to[0] + g->header_bytes;
		pr.hash = weft_hash_find(g->hash);
	}
}

/* A killed target ends the link, too. TCP would detect that much later. */
static bool
link_lost(void)
{
	static uint64_t look_ns;
	struct weft_port_stats ps;
	uint64_t now = ui_now_ns();

	if (!pr.up || now < look_ns)
		return false;
	look_ns = now + LINK_NS;
	return weft_port_stats(pr.port, &ps) == 0 && !ps.link_up;
}

static void
turn(void)
{
	if (weft_worker_poll(pr.w) == 0)
		weft_worker_idle(pr.w, 20);
	if (link_lost())
		ui_die("the link is down");
}

static void
await(const bool *flag, const int *answer, const char *what)
{
	uint64_t end = ui_now_ns() + TIMEOUT_NS;

	while (!pr.gone && !pr.failed && ui_now_ns() < end) {
		if ((flag != NULL && *flag) || (answer != NULL && *answer != 0))
			return;
		turn();
	}
	ui_die("%s: %s", what, pr.why[0] != '\0' ? pr.why : pr.gone ? "disconnected" : "no answer");
}

static void
open_export(char *name)
{
	weft_export_open_args args = {.name = name,
	                              .rights = WEFT_EXPORT_READ | WEFT_EXPORT_WRITE |
	                                        WEFT_EXPORT_FLUSH | WEFT_EXPORT_VERIFY};
	uint64_t end = ui_now_ns() + TIMEOUT_NS;

	for (;;) {
		pr.answered = 0;
		if (weft_rpc_call(pr.rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, WEFT_EXPORT_OPEN,
		                  (xdrproc_t)xdr_weft_export_open_args, &args,
		                  (xdrproc_t)xdr_weft_export_open_res, sizeof(weft_export_open_res),
		                  0, on_open, NULL) != 0)
			ui_die("OPEN cannot be called");
		await(NULL, &pr.answered, "OPEN");
		if (pr.answered > 0)
			break;
		if (pr.status != WEFT_EXPORT_BUSY || ui_now_ns() > end)
			ui_die("OPEN refused: %d", pr.status);
		for (uint64_t until = ui_now_ns() + RETRY_NS; ui_now_ns() < until && !pr.gone;)
			turn();
	}
}

/* Read the word on the medium. No other client may write (docs/export-format.md, step 0). */
static void
read_word(uint32_t lkey)
{
	struct weft_sge sink = {pr.word, sizeof(pr.word), lkey};
	const struct weft_wr wr[2] = {
	        {.opcode = WEFT_WR_FLUSH,
	         .flush = {.stag = pr.stag,
	                   .to = pr.base,
	                   .len_bytes = 8,
	                   .flags = WEFT_FLUSH_PERSISTENT}},
	        {.wr_id = WR_ID(WR_READ, 0),
	         .opcode = WEFT_WR_READ,
	         .flags = WEFT_WR_SIGNALED,
	         .sg_list = &sink,
	         .num_sge = 1,
	         .rdma = {.stag = pr.stag, .to = pr.base}},
	};

	if (weft_post_send(pr.qp, wr, 2) != 2)
		ui_die("posting failed");
	await(&pr.read_done, NULL, "reading the word");
	memcpy(&pr.acked, pr.word, sizeof(pr.acked));
	pr.acked = be64toh(pr.acked);
	pr.next = pr.acked + 1;
	printf("up %llu\n", (unsigned long long)pr.acked);
	fflush(stdout);
}

static void
fill(uint8_t *rec, uint64_t n)
{
	uint64_t x = (n * 0x9e3779b97f4a7c15ull) ^ pr.salt;

	put_be64(rec, n);
	put_be64(rec + 8, pr.salt);
	for (uint32_t i = 16; i < PAGE - DIGEST; i += 8) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		memcpy(rec + i, &x, 8);
	}
	(void)weft_hash_once(pr.digest, rec, PAGE - DIGEST, rec + PAGE - DIGEST);
}

static void
commit(uint64_t n, unsigned int depth)
{
	uint8_t *rec = pr.record[n % depth], expect[WEFT_HASH_MAX_BYTES];
	uint64_t to = pr.base + (1 + n % RING) * (uint64_t)PAGE;
	struct weft_sge sge = {rec, PAGE, 0};
	struct weft_wr wr[5];
	unsigned int k = 0;

	fill(rec, n);
	wr[k++] = (struct weft_wr){.opcode = WEFT_WR_WRITE,
	                           .sg_list = &sge,
	                           .num_sge = 1,
	                           .rdma = {.stag = pr.stag, .to = to}};
	wr[k++] = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
	                           .flush = {.stag = pr.stag,
	                                     .to = to,
	                                     .len_bytes = PAGE,
	                                     .flags = WEFT_FLUSH_PERSISTENT}};
	if (pr.verify) {
		(void)weft_hash_once(pr.hash, rec, PAGE, expect);
		wr[k++] = (struct weft_wr){.opcode = WEFT_WR_VERIFY,
		                           .verify = {.stag = pr.stag,
		                                      .to = to,
		                                      .len_bytes = PAGE,
		                                      .expect = expect,
		                                      .expect_bytes = pr.hash->result_bytes}};
	}
	wr[k++] = (struct weft_wr){.opcode = WEFT_WR_ATOMIC_WRITE,
	                           .atomic_write = {.stag = pr.stag, .to = pr.base}};
	put_be64(wr[k - 1].atomic_write.data, n);
	wr[k++] = (struct weft_wr){.wr_id = WR_ID(WR_COMMIT, n),
	                           .opcode = WEFT_WR_FLUSH,
	                           .flags = WEFT_WR_SIGNALED,
	                           .flush = {.stag = pr.stag,
	                                     .to = pr.base,
	                                     .len_bytes = 8,
	                                     .flags = WEFT_FLUSH_PERSISTENT}};
	if (weft_post_send(pr.qp, wr, k) != (int)k && !pr.gone)
		ui_die("posting failed");
}

int
main(int argc, char **argv)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(7471)};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 1024, .on_wc = on_wc};
	struct weft_qp_attr qa = {.size = sizeof(qa), .sq_depth = 256, .ord = 64};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = pr.word,
	                          .len_bytes = sizeof(pr.word),
	                          .access = WEFT_ACCESS_LOCAL_WRITE};
	struct weft_rpc_attr ra = {.size = sizeof(ra)};
	unsigned int depth = argc > 5 ? (unsigned int)atoi(argv[5]) : 0;
	struct stack st = {0};
	struct weft_pd *pd;
	struct weft_mr *mr;

	ui_init("commit_probe");
	if (argc < 6 || depth == 0 || depth > DEPTH_MAX ||
	    inet_pton(AF_INET, argv[3], &sin.sin_addr) != 1)
		ui_usage_die("DEV CIDR HOST EXPORT DEPTH [noverify] [kill PID COUNT]");
	pr.verify = true;
	for (int i = 6; i < argc; i++) {
		if (strcmp(argv[i], "noverify") == 0)
			pr.verify = false;
		if (strcmp(argv[i], "kill") == 0 && i + 2 < argc) {
			pr.victim = atoi(argv[i + 1]);
			pr.victim_in = strtoull(argv[i + 2], NULL, 10);
		}
	}
	pr.salt = ui_now_ns() << 16 ^ (uint64_t)getpid();
	pr.digest = weft_hash_find("sha256");
	probe_up(&st, "commit_probe", argv[1], argv[2]);
	pr.w = st.workers[0];
	pr.port = st.ports[0];
	qa.worker = pr.w;
	if (weft_pd_alloc(st.ctx, &pd) != 0 || weft_cq_create(st.ctx, &ca, &qa.send_cq) != 0 ||
	    weft_evq_create(st.ctx, &ea, &qa.evq) != 0 || weft_mr_reg(pd, &ma, &mr) != 0)
		ui_die("set-up failed");
	qa.recv_cq = qa.send_cq;
	if (weft_qp_create(pd, &qa, &pr.qp) != 0)
		ui_die("no QP");
	ra.qp = pr.qp;
	if (weft_rpc_create(&ra, &pr.rpc) != 0 ||
	    weft_connect(pr.qp, (struct sockaddr *)&sin, sizeof(sin), NULL) != 0)
		ui_die("not connected");
	await(&pr.up, NULL, "connecting");
	open_export(argv[4]);
	read_word(weft_mr_stag(mr));
	while (!pr.gone && !pr.failed) {
		while (pr.next - pr.acked <= depth)
			commit(pr.next++, depth);
		turn();
	}
	/* The reason may be reported a poll or two later. */
	for (uint64_t end = ui_now_ns() + 1000000000ull; !pr.gone && ui_now_ns() < end;)
		turn();
	ui_die("%s", pr.why[0] != '\0' ? pr.why : "disconnected");
}
