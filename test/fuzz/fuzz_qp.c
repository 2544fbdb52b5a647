/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A QP of a whole stack in any state, used through the public verbs. The input lets its
 * program and its peer act in turn. The peer sends raw octets over a TCP of its own: it starts MPA
 * up in either role, with or without markers, frames its segments with a right CRC, answers the
 * stack's requests if the input says so, and sends valid and nearly valid segments.
 *
 * In every case each request is completed exactly once and in order. Each side sends at most one
 * Terminate, and nothing follows ours. Only octets that were granted or posted change. At the end
 * no region, connection or mbuf is left.
 *
 * The first three octets of an input are the attributes. Two more octets select the action in a
 * callback, if there is one. The last octet selects the end.
 */

#include "fuzz_qp.h"

struct fuzz_qp z;
struct guard qp_mem[NBLOCKS];

uint32_t
qp_stag(uint8_t how)
{
	unsigned int which = how & 15;
	const struct weft_mr *mr = z.mr[RW];

	if (which == 8 || which == 9)
		return z.mw[which & 1] != NULL ? weft_mw_stag(z.mw[which & 1]) : z.stale;
	if (which == 10)
		return z.stale;
	if (which == 11)
		return fuzz_u32(&z.in);
	if (which <= RECV)
		mr = which == RECV ? z.medium : z.mr[which];
	return mr != NULL ? weft_mr_stag(mr) : z.stale;
}

/* ---- Events of the stack ---- */

static void
took_wc(const struct weft_wc *wc)
{
	struct qp_req *q;
	unsigned int *last;

	FUZZ_CHECK(wc->wr_id < z.nreqs);
	q = &z.req[wc->wr_id];
	FUZZ_CHECK(!q->done);
	q->done = true;
	q->good = wc->status == WEFT_WC_SUCCESS;
	FUZZ_CHECK(q->recv == (wc->opcode == WEFT_WC_RECV || wc->opcode == WEFT_WC_RECV_IMM));
	FUZZ_CHECK(q->signaled || wc->status != WEFT_WC_SUCCESS);
	last = q->recv ? &z.last_recv : &z.last_send;
	FUZZ_CHECK(wc->wr_id + 1 > *last);
	*last = (unsigned int)wc->wr_id + 1;
}

/** In callbacks: after a number of them, the program does what is allowed there. */
static void
act_inside(void)
{
	if (z.act_in == 0 || --z.act_in > 0)
		return;
	z.inside = true;
	local_step(z.act);
	z.inside = false;
}

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	FUZZ_CHECK(user == &z && cq == z.cq);
	for (unsigned int i = 0; i < n; i++) {
		took_wc(&wc[i]);
		act_inside();
	}
}

static void
took_event(const struct weft_event *ev)
{
	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		if (z.reject || z.qp == NULL) {
			weft_reject(ev->connreq, "no", 2);
			break;
		}
		(void)weft_accept(ev->connreq, z.qp, NULL);
		break;
	case WEFT_EV_ESTABLISHED:
		FUZZ_CHECK(z.established++ == 0 && z.disconnected == 0);
		break;
	case WEFT_EV_DISCONNECTED:
		FUZZ_CHECK(z.disconnected++ == 0 && z.established == 1);
		break;
	case WEFT_EV_TERMINATED:
		FUZZ_CHECK(z.terminated[ev->term.ours]++ == 0 && z.disconnected == 0);
		break;
	case WEFT_EV_REJECTED:
	case WEFT_EV_CONNECT_ERROR:
		FUZZ_CHECK(z.connect_errors++ == 0 && z.established == 0);
		break;
	case WEFT_EV_LAST_WQE:
		FUZZ_CHECK(z.last_wqe++ == 0 && z.srq != NULL);
		break;
	case WEFT_EV_CQ_OVERRUN:
		FUZZ_CHECK(false);
		break;
	default:
		break;
	}
}

static void
on_event(void *user, const struct weft_event *ev)
{
	FUZZ_CHECK(user == &z);
	took_event(ev);
	if (ev->type != WEFT_EV_CONNECT_REQUEST)
		act_inside();
}

void
qp_turn(uint64_t ns)
{
	struct weft_event ev;
	struct weft_wc wc;
	int n;

	do {
		vt_run(z.t, ns);
		while ((n = weft_cq_poll(z.cq, &wc, 1)) > 0)
			took_wc(&wc);
		FUZZ_CHECK(n == 0);
		n = 0;
		while (weft_evq_poll(z.evq, &ev) == 1) {
			took_event(&ev);
			n++;
		}
	} while (n > 0); /* what was answered must be executed, too */
	for (unsigned int i = 0; i < NBLOCKS; i++)
		guard_check(&qp_mem[i]);
}

/* ---- Set-up and end ---- */

/** Two stacks take long to create, so they serve many inputs. An input must leave nothing behind
 * in them. */
static void
stacks(void)
{
	static struct vt t;
	static struct weft_persist *medium;
	static unsigned int inputs;
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "volatile", .bytes = MEDIUM_LEN, .numa_node = -1};

	if (inputs == 0)
		FUZZ_CHECK(weft_persist_open(&pa, &medium) == 0);
	if (inputs % QP_RENEW == 0) {
		if (inputs > 0)
			vt_close(&t);
		vt_open(&t, NULL);
	}
	inputs++;
	z.t = &t;
	z.n = &t.n[1];
	z.persist = medium;
	z.mbufs = rte_mempool_avail_count(t.pool);
	z.before = weft_vworker_of(z.n->w)->stats;
}

static bool
at_rest(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < 2; i++)
		if (weft_tcp_stats(weft_engine_tcp(z.t->n[i].w))->conns_now > 0)
			return false;
	return weft_mem_count(inside_mem(z.n->ctx)) == 0;
}

static void
grant(void)
{
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = MEDIUM_LEN,
	                          .base_to = TO,
	                          .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                                    WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_FLUSH_VISIBLE |
	                                    WEFT_ACCESS_VERIFY,
	                          .hash = "crc32c"};

	for (unsigned int i = 0; i < NBLOCKS; i++)
		guard_open(&qp_mem[i]);
	for (unsigned int i = 0; i < RECV; i++)
		local_step(5 << 1 | i << 4);
	ma.persist = z.persist;
	ma.addr = z.persist->base;
	memset(ma.addr, 0, MEDIUM_LEN);
	FUZZ_CHECK(weft_mr_reg(z.n->pd, &ma, &z.medium) == 0);
	local_step(6 << 1);
	local_step(6 << 1 | 0x80);
}

static void
start(void)
{
	uint8_t a = fuzz_u8(&z.in), b = fuzz_u8(&z.in), c = fuzz_u8(&z.in);
	struct weft_mpa_policy policy = {.size = sizeof(policy),
	                                 .rev = 1 + (a >> 1 & 1),
	                                 .markers = a >> 2 & 1,
	                                 .no_crc = a >> 3 & 1,
	                                 .p2p = a >> 4 & 3 && a & 2};
	struct weft_conn_attr ca = {.size = sizeof(ca), .mpa = &policy};
	struct weft_listen_attr la = {.size = sizeof(la), .mpa = &policy};
	struct sockaddr_in to = vt_addr(0, VT_PORT), at = vt_addr(1, VT_PORT);
	struct weft_srq_attr sa = {.size = sizeof(sa), .depth = QP_DEPTH};
	struct weft_cq_attr qca = {.size = sizeof(qca), .depth = 256, .user = &z};
	struct weft_evq_attr ea = {.size = sizeof(ea), .user = &z};
	struct weft_qp_attr qa;

	stacks();
	if (c & 0xc0) {
		z.act_in = fuzz_u8(&z.in) & 15;
		z.act = fuzz_u8(&z.in) & ~1u;
	}
	qca.on_wc = c & 0x40 ? on_wc : NULL;
	ea.on_event = c & 0x80 ? on_event : NULL;
	FUZZ_CHECK(weft_cq_create(z.n->ctx, &qca, &z.cq) == 0);
	FUZZ_CHECK(weft_evq_create(z.n->ctx, &ea, &z.evq) == 0);
	z.reject = c & 0x20;
	z.p.initiator = !(a & 1);
	z.p.frame = (struct weft_mpa_frame){.reply = a & 1,
	                                    .rev = 1 + (b >> 1 & 1),
	                                    .markers = b & 4,
	                                    .crc = !(b & 8),
	                                    .enhanced = b & 2,
	                                    .p2p = b & 16 && b & 2,
	                                    .rtr_send = b & 16,
	                                    .rtr_write = b & 32,
	                                    .rtr_read = b & 64,
	                                    .reject = a & 1 && c & 1,
	                                    .ird = c >> 1 & 3,
	                                    .ord = c >> 3 & 3};
	grant();
	if (a & 0x40) {
		sa.evq = z.evq;
		FUZZ_CHECK(weft_srq_create(z.n->pd, &sa, &z.srq) == 0);
	}
	qa = vt_qp_attr(z.n);
	qa.sq_depth = qa.rq_depth = QP_DEPTH;
	qa.ird = qa.ord = QP_READS;
	qa.max_inline_bytes = 256;
	qa.srq = z.srq;
	qa.send_cq = qa.recv_cq = z.cq;
	la.evq = qa.evq = z.evq;
	FUZZ_CHECK(weft_qp_create(z.n->pd, &qa, &z.qp) == 0);
	peer_open();
	if (z.p.initiator) {
		FUZZ_CHECK(weft_listen(z.n->ctx, (struct sockaddr *)&at, sizeof(at), &la,
		                       &z.n->lsn) == 0);
		/* A QP left in IDLE may not be connected. */
		if (c < 0xf0)
			peer_connect();
	} else if (c < 0xf0) {
		FUZZ_CHECK(weft_connect(z.qp, (struct sockaddr *)&to, sizeof(to), &ca) == 0);
	}
	if (!(a & 0x80))
		qp_turn(VT_MS);
}

/** The stream has ended and the QP is not destroyed: it has completed everything that was
 * posted. */
static void
check_over(void)
{
	struct weft_qp_info info;

	weft_qp_query(z.qp, &info);
	FUZZ_CHECK(info.state == WEFT_QP_ERROR || info.state == WEFT_QP_IDLE);
	if (z.established == 0)
		return;
	FUZZ_CHECK(info.state == WEFT_QP_ERROR && z.disconnected == 1);
	FUZZ_CHECK(info.sq_used == 0 && info.rq_used == 0 && info.out_reads == 0);
	FUZZ_CHECK(z.srq == NULL || z.last_wqe == 1);
	for (unsigned int i = 0; i < z.nreqs; i++)
		FUZZ_CHECK(z.req[i].done || !z.req[i].signaled || (z.req[i].recv && z.srq != NULL));
}

/** For writers of inputs: print how far an input gets. */
static void
tell(void)
{
	static const char *const names[] = {"", " established", " disconnected", " failed"};
	unsigned int done[2] = {0}, good[2] = {0};

	if (getenv("WEFT_FUZZ_VERBOSE") == NULL)
		return;
	for (unsigned int i = 0; i < z.nreqs; i++) {
		done[z.req[i].recv] += z.req[i].done;
		good[z.req[i].recv] += z.req[i].good;
	}
	fprintf(stderr,
	        "\t%s%s%s, Terminates %u in %u out; completed %u sends, %u of them well, %u "
	        "receives, %u well\n",
	        names[z.established], names[2 * z.disconnected], names[3 * z.connect_errors],
	        z.terminated[0], z.terminated[1], done[0], good[0], done[1], good[1]);
}

static void
finish(uint8_t how)
{
	const struct weft_vworker_stats *st = &weft_vworker_of(z.n->w)->stats;
	unsigned int waiting = 0;
	uint64_t out, in;

	qp_turn(VT_MS);
	/* The peer ends in order or by a reset, or the program ends the stream first. */
	if (z.p.c != NULL && how & 1 && !z.p.fin) {
		weft_tcp_close(z.p.c, qp_now());
		z.p.fin = true;
		qp_turn(100 * VT_S);
	}
	if (how & 3) {
		peer_close();
		qp_turn(100 * VT_S);
		if (z.qp != NULL)
			check_over();
	}
	if (z.qp != NULL)
		weft_qp_destroy(z.qp);
	z.qp = NULL;
	peer_close();
	qp_turn(VT_S);
	for (unsigned int i = 0; i < z.nreqs; i++) {
		waiting += !z.req[i].done && z.req[i].recv;
		FUZZ_CHECK(z.req[i].done || !z.req[i].signaled || (z.req[i].recv && z.srq != NULL));
	}
	tell();
	if (z.srq != NULL) {
		struct weft_srq_info info;

		weft_srq_query(z.srq, &info);
		FUZZ_CHECK(info.used == waiting && info.posted == waiting);
		FUZZ_CHECK(weft_srq_destroy(z.srq) == 0);
	}
	out = st->terminates_out - z.before.terminates_out;
	in = st->terminates_in - z.before.terminates_in;
	FUZZ_CHECK(out <= 1 && in <= 1);
	FUZZ_CHECK(in <= z.p.terminates_out || z.p.broken);
	FUZZ_CHECK(z.p.terminates_in <= out);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_mw_info info;

		if (z.mw[i] == NULL)
			continue;
		/* The window belonged to that stream (RFC 5042 s2.2.5). */
		weft_mw_query(z.mw[i], &info);
		FUZZ_CHECK(!info.valid);
		weft_mw_dealloc(z.mw[i]);
	}
	for (unsigned int i = 0; i < RECV; i++)
		if (z.mr[i] != NULL)
			FUZZ_CHECK(weft_mr_dereg(z.mr[i], NULL, NULL) == 0);
	FUZZ_CHECK(weft_mr_dereg(z.medium, NULL, NULL) == 0);
	if (z.n->lsn != NULL)
		weft_unlisten(z.n->lsn);
	z.n->lsn = NULL;
	qp_turn(VT_MS);
	FUZZ_CHECK(weft_cq_destroy(z.cq) == 0 && weft_evq_destroy(z.evq) == 0);
	FUZZ_CHECK(vt_until(z.t, 100 * VT_S, at_rest, NULL));
	vt_run(z.t, VT_MS);
	FUZZ_CHECK(rte_mempool_avail_count(z.t->pool) == z.mbufs);
	for (unsigned int i = 0; i < NBLOCKS; i++)
		guard_check(&qp_mem[i]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (rte_log_get_global_level() > RTE_LOG_ERR) {
		test_eal_init();
		test_bail_aborts = true;
		rte_log_set_global_level(RTE_LOG_EMERG);
	}
	memset(&z, 0, sizeof(z));
	z.in = (struct fuzz_in){data, size > 0 ? size - 1 : 0};
	start();
	for (unsigned int i = 0; i < QP_OPS && z.in.left > 0; i++) {
		uint8_t op = fuzz_u8(&z.in);

		if (op & 1)
			peer_step(op);
		else
			local_step(op);
		/* Several operations may happen at one moment. */
		if (!(op & 0x20))
			qp_turn(VT_MS);
	}
	finish(size > 0 ? data[size - 1] : 0);
	return 0;
}
