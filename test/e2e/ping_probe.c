/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A peer of weft-ping that breaks one rule of rping's protocol. It shares no code with
 * weft-ping.
 *
 *     ping_probe server|client KIND DEV CIDR HOST
 *
 * One connection, pings of SIZE octets, KIND at ping 1 (the second). Prints "listening", "done" and
 * the reason of the end. KIND, for both: honest, short (a message of 8 octets), early (two messages
 * at once), die (killed during a ping), leave (closes during a ping). For a server: long (17
 * octets), corrupt (one octet of the answer), overread, overwrite (one octet more than offered),
 * deaf (no receive posted), silent (no answer), reject. For a client: lie (offers more memory than
 * it has), grow (sizes of source and sink differ), data (not a ping's), hold (stays connected until
 * standard input ends).
 */

#include <endian.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "probe.h"
#include "stack.h"
#include "ui.h"

#define SIZE       100
#define PORT       7174
#define PINGS      3
#define BAD        1
#define TIMEOUT_NS 20000000000ull

struct msg {
	uint64_t addr;
	uint32_t stag, size;
};

static struct probe {
	struct weft_worker *w;
	struct weft_evq *evq;
	struct weft_cq *cq;
	struct weft_pd *pd;
	struct weft_qp *qp;
	struct weft_mr *mr;
	struct weft_connreq *req;
	uint8_t mem[2][4096]; /**< source, sink */
	struct msg in[4];
	unsigned int recvs; /**< number of receives posted at a time */
	uint64_t received, read, pings;
	bool up, gone;
	char end[200];
	const char *kind;
} pr;

static bool
is(const char *kind)
{
	return strcmp(pr.kind, kind) == 0 && pr.pings == BAD;
}

static void
post_recv(uint64_t i)
{
	struct weft_sge sge = {&pr.in[i], sizeof(pr.in[i]), 0};
	struct weft_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

	(void)weft_post_recv(pr.qp, &wr, 1);
}

static struct msg last;

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		if (wc[i].status != WEFT_WC_SUCCESS)
			continue;
		if (wc[i].opcode == WEFT_WC_READ)
			pr.read++;
		if (wc[i].opcode == WEFT_WC_RECV) {
			last = pr.in[wc[i].wr_id];
			pr.received++;
			if (strcmp(pr.kind, "deaf") != 0)
				post_recv(wc[i].wr_id);
		}
	}
}

static void
on_event(void *user, const struct weft_event *ev)
{
	(void)user;
	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		pr.req = ev->connreq;
		break;
	case WEFT_EV_ESTABLISHED:
		pr.up = true;
		break;
	case WEFT_EV_TERMINATED:
		snprintf(pr.end, sizeof(pr.end), "terminate %u/%u/%02x by %s", ev->term.layer,
		         ev->term.etype, ev->term.code, ev->term.ours ? "us" : "them");
		break;
	case WEFT_EV_REJECTED:
		snprintf(pr.end, sizeof(pr.end), "rejected: %.*s", ev->private_data_bytes,
		         (const char *)ev->private_data);
		pr.gone = true;
		break;
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		if (pr.end[0] == '\0')
			snprintf(pr.end, sizeof(pr.end), "status %d", ev->status);
		pr.gone = true;
		break;
	default:
		break;
	}
}

static bool
count_up(const uint64_t *n, uint64_t want)
{
	uint64_t end = ui_now_ns() + TIMEOUT_NS;

	while (*n < want && !pr.gone && ui_now_ns() < end)
		if (weft_worker_poll(pr.w) == 0)
			weft_worker_idle(pr.w, 50);
	return *n >= want;
}

static void
finish(void)
{
	uint64_t never = 0;

	(void)count_up(&never, 1);
	printf("end: %s\n", pr.end);
	fflush(stdout);
}

static void
send_msgs(const struct msg *m, uint32_t len, unsigned int n)
{
	uint8_t buf[64] = {0};
	struct weft_sge sge = {buf, len, 0};
	struct weft_wr wr[2];

	wr[0] = wr[1] = (struct weft_wr){.opcode = WEFT_WR_SEND, .sg_list = &sge, .num_sge = 1};
	if (m != NULL)
		memcpy(buf, m, sizeof(*m));
	if (weft_post_send(pr.qp, wr, n) != (int)n)
		ui_die("post failed");
	/* Send what is in the queue in this poll. */
	for (int i = 0; i < 4; i++)
		weft_worker_poll(pr.w);
}

static void
send_msg(const struct msg *m, uint32_t len)
{
	/* two at once are sent in one segment */
	send_msgs(m, len, is("early") ? 2 : 1);
}

static void
rdma(enum weft_wr_opcode op, const struct msg *m, uint32_t more)
{
	struct weft_sge sge = {pr.mem[1], be32toh(m->size) + more, weft_mr_stag(pr.mr)};
	struct weft_wr wr = {.opcode = op,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sge,
	                     .num_sge = 1,
	                     .rdma = {be32toh(m->stag), be64toh(m->addr)}};

	if (weft_post_send(pr.qp, &wr, 1) != 1)
		ui_die("post failed");
}

static void
drop_out(void)
{
	if (is("die"))
		raise(SIGKILL);
	if (is("leave"))
		weft_disconnect(pr.qp);
}

static void
serve(void)
{
	while (count_up(&pr.received, 2 * pr.pings + 1)) {
		struct msg m = last;
		uint64_t never = 0;

		rdma(WEFT_WR_READ, &m, is("overread"));
		if (!count_up(&pr.read, pr.pings + 1))
			return;
		drop_out();
		if (is("silent"))
			(void)count_up(&never, 1);
		send_msg(NULL, is("short") ? 8 : is("long") ? 17 : sizeof(m));
		if (!count_up(&pr.received, 2 * pr.pings + 2))
			return;
		m = last;
		if (is("corrupt"))
			pr.mem[1][42] ^= 0x20;
		rdma(WEFT_WR_WRITE, &m, is("overwrite"));
		send_msg(NULL, sizeof(m));
		pr.pings++;
	}
}

static void
ping(void)
{
	struct msg m;

	snprintf((char *)pr.mem[0], sizeof(pr.mem[0]), "rdma-ping-%d: ", (int)pr.pings);
	for (size_t i = strlen((char *)pr.mem[0]), c = pr.pings; i < SIZE - 1; i++, c++)
		pr.mem[0][i] = (uint8_t)('A' + c % 58);
	pr.mem[0][SIZE - 1] = 0;
	if (is("data"))
		pr.mem[0][50] = '!';
	m = (struct msg){htobe64((uintptr_t)pr.mem[0]), htobe32(weft_mr_stag(pr.mr)),
	                 htobe32(SIZE)};
	if (is("lie"))
		m.addr = htobe64((uintptr_t)pr.mem[1] + sizeof(pr.mem[1]) - SIZE + 1);
	send_msg(&m, is("short") ? 8 : sizeof(m));
	drop_out();
	if (!count_up(&pr.received, 2 * pr.pings + 1))
		return;
	m.addr = htobe64((uintptr_t)pr.mem[1]);
	if (is("grow"))
		m.size = htobe32(SIZE + 1);
	send_msg(&m, sizeof(m));
	if (!count_up(&pr.received, 2 * pr.pings + 2))
		return;
	if (memcmp(pr.mem[0], pr.mem[1], SIZE) != 0)
		ui_die("the answer differs");
	pr.pings++;
}

static void
make_qp(void)
{
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = pr.w,
	                          .send_cq = pr.cq,
	                          .recv_cq = pr.cq,
	                          .evq = pr.evq};

	if (weft_qp_create(pr.pd, &qa, &pr.qp) != 0)
		ui_die("no QP");
	for (uint64_t i = 0; i < (strcmp(pr.kind, "deaf") == 0 ? BAD * 2 : 4); i++)
		post_recv(i);
}

int
main(int argc, char **argv)
{
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 1024, .on_wc = on_wc};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = pr.mem,
	                          .len_bytes = sizeof(pr.mem),
	                          .base_to = (uintptr_t)pr.mem,
	                          .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                                    WEFT_ACCESS_REMOTE_WRITE};
	struct sockaddr_storage to;
	struct weft_listener *l;
	struct stack st = {0};

	ui_init("ping_probe");
	if (argc != 6 || addr_parse(argv[5], PORT, &to) != 0)
		ui_usage_die("server|client KIND DEV CIDR HOST");
	pr.kind = argv[2];
	probe_up(&st, "ping_probe", argv[3], argv[4]);
	pr.w = st.workers[0];
	if (weft_pd_alloc(st.ctx, &pr.pd) != 0 || weft_cq_create(st.ctx, &ca, &pr.cq) != 0 ||
	    weft_evq_create(st.ctx, &ea, &pr.evq) != 0 || weft_mr_reg(pr.pd, &ma, &pr.mr) != 0)
		ui_die("set-up failed");
	la.evq = pr.evq;
	if (argv[1][0] == 's') {
		uint64_t end = ui_now_ns() + TIMEOUT_NS;

		if (weft_listen(st.ctx, (struct sockaddr *)&to, addr_len(&to), &la, &l) != 0)
			ui_die("cannot listen");
		puts("listening");
		fflush(stdout);
		while (pr.req == NULL && ui_now_ns() < end)
			if (weft_worker_poll(pr.w) == 0)
				weft_worker_idle(pr.w, 50);
		if (pr.req == NULL)
			ui_die("nobody came");
		if (strcmp(pr.kind, "reject") == 0) {
			weft_reject(pr.req, "no pings today", 14);
			for (int i = 0; i < 1000; i++)
				if (weft_worker_poll(pr.w) == 0)
					weft_worker_idle(pr.w, 100);
			return 0;
		}
		make_qp();
		if (weft_accept(pr.req, pr.qp, NULL) != 0)
			ui_die("not accepted");
		serve();
	} else {
		make_qp();
		if (weft_connect(pr.qp, (struct sockaddr *)&to, addr_len(&to), NULL) != 0)
			ui_die("not connected");
		for (uint64_t end = ui_now_ns() + TIMEOUT_NS;
		     !pr.up && !pr.gone && ui_now_ns() < end;)
			weft_worker_poll(pr.w);
		while (!pr.gone && pr.up && pr.pings < PINGS) {
			uint64_t before = pr.pings;

			ping();
			if (pr.pings == before)
				break;
		}
		if (!pr.gone && pr.pings == PINGS) {
			puts("done");
			fflush(stdout);
			if (strcmp(pr.kind, "hold") == 0)
				while (getchar() != EOF)
					;
			weft_disconnect(pr.qp);
		}
	}
	finish();
	weft_qp_destroy(pr.qp);
	weft_mr_dereg(pr.mr, NULL, NULL);
	stack_down(&st);
	return 0;
}
