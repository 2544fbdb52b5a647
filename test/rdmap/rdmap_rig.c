/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The simulated MPA, the recording user and the persistent medium of the rdmap tests. */

#include <stdlib.h>

#include "test_xorshift.h"
#include "rdmap_rig.h"

struct rig rig;

uint64_t
rig_random(void)
{
	return test_xorshift(&rig.rng);
}

/* ---- MPA ---- */

static struct rig_side *
side_of(const struct weft_mpa *m)
{
	return (struct rig_side *)(void *)m->tcp;
}

uint8_t *
weft_mpa_tx_begin(struct weft_mpa *m, uint16_t ulpdu_bytes, uint64_t now_ns)
{
	struct rig_side *s = side_of(m);

	(void)now_ns;
	CHECK(m->tcp != NULL);
	CHECK(s->building == NULL && !s->fin);
	CHECK(ulpdu_bytes > 0 && ulpdu_bytes <= m->mulpdu_bytes);
	if (!m->initiator && !m->peer_spoke)
		return NULL;
	if (s->space == 0) {
		s->want_space = true;
		return NULL;
	}
	s->space--;
	s->building = malloc(sizeof(*s->building) + ulpdu_bytes);
	s->building->len_bytes = ulpdu_bytes;
	return s->building->data;
}

void
weft_mpa_tx_copy(struct weft_mpa *m, uint8_t *dst, const void *src, uint32_t len_bytes)
{
	struct rig_ulpdu *u = side_of(m)->building;

	CHECK(dst >= u->data && len_bytes <= u->len_bytes - (size_t)(dst - u->data));
	if (len_bytes > 0)
		memcpy(dst, src, len_bytes);
}

void
weft_mpa_tx_end(struct weft_mpa *m, uint64_t now_ns)
{
	struct rig_side *s = side_of(m);

	(void)now_ns;
	CHECK(s->building != NULL);
	/* Segments of different messages do not interleave. A Terminate may follow an incomplete
	 * message. */
	CHECK(s->mid == 0 || s->building->data[1] == s->mid || s->building->data[1] == 0x47);
	s->mid = s->building->data[0] & 0x40 ? 0 : s->building->data[1];
	TAILQ_INSERT_TAIL(&s->out, s->building, link);
	s->building = NULL;
}

void
weft_mpa_tx_cancel(struct weft_mpa *m)
{
	struct rig_side *s = side_of(m);

	CHECK(s->building != NULL);
	free(s->building);
	s->building = NULL;
	s->space++;
}

void
weft_mpa_tx_flush(struct weft_mpa *m, uint64_t now_ns)
{
	(void)now_ns;
	CHECK(m->tcp != NULL && side_of(m)->building == NULL);
	side_of(m)->flushes++;
}

void
weft_mpa_close(struct weft_mpa *m, uint64_t now_ns)
{
	(void)now_ns;
	CHECK(m->tcp != NULL);
	side_of(m)->fin = true;
}

static void
side_drop_out(struct rig_side *s)
{
	struct rig_ulpdu *u;

	while ((u = rig_pop(s)) != NULL)
		free(u);
}

void
weft_mpa_abort(struct weft_mpa *m, uint64_t now_ns)
{
	struct rig_side *s = side_of(m);

	(void)now_ns;
	if (s == NULL)
		return;
	CHECK(s->building == NULL);
	m->tcp = NULL;
	m->state = WEFT_MPA_IDLE;
	s->live = false;
	s->aborted = true;
	if (s->peer != NULL)
		side_drop_out(s);
}

uint32_t
weft_mpa_fpdu_seq(const struct weft_mpa *m)
{
	(void)m; /* nothing is placed ahead here */
	return 0;
}

void
weft_mpa_fini(struct weft_mpa *m)
{
	CHECK(m->tcp == NULL);
}

static void
side_closed(struct rig_side *s, int err)
{
	if (!s->live)
		return;
	s->live = false;
	s->ddp->mpa->tcp = NULL;
	s->ddp->mpa->state = WEFT_MPA_IDLE;
	s->ddp->mpa->ops->closed(s->ddp->mpa->user, err);
}

void
rig_inject(struct rig_side *s, const void *ulpdu, uint32_t len)
{
	struct weft_frag frag[4];
	uint8_t *piece[4];
	unsigned int n = 0;
	uint32_t off = 0;

	memcpy(rig.last, ulpdu, RTE_MIN(len, sizeof(rig.last)));
	rig.last_bytes = len;
	/* Each fragment is allocated with its exact length, so that ASan detects overruns. */
	while (off < len || n == 0) {
		uint32_t k = n == 3 ? len - off : (uint32_t)(rig_random() % (len - off + 1));

		if (k == 0 && len > 0 && n < 3)
			k = len - off;
		piece[n] = malloc(k > 0 ? k : 1);
		memcpy(piece[n], (const uint8_t *)ulpdu + off, k);
		frag[n] = (struct weft_frag){piece[n], k};
		n++;
		off += k;
		if (off == len)
			break;
	}
	if (s->live)
		s->ddp->mpa->ops->ulpdu(s->ddp->mpa->user, frag, n, len, rig.now_ns);
	for (unsigned int i = 0; i < n; i++)
		free(piece[i]);
}

struct rig_ulpdu *
rig_pop(struct rig_side *s)
{
	struct rig_ulpdu *u = TAILQ_FIRST(&s->out);

	if (u != NULL)
		TAILQ_REMOVE(&s->out, u, link);
	return u;
}

static bool
side_deliver(struct rig_side *from, struct rig_side *to)
{
	struct rig_ulpdu *u;
	bool moved = false;

	if (to == NULL || from == NULL)
		return false;
	while ((u = rig_pop(from)) != NULL) {
		rig_inject(to, u->data, u->len_bytes);
		free(u);
		moved = true;
	}
	if (from->aborted && to->live) {
		side_closed(to, -ECONNRESET);
		moved = true;
	}
	if (from->fin && !to->fin_seen) {
		to->fin_seen = true;
		moved = true;
		if (to->live)
			to->ddp->mpa->ops->eof(to->ddp->mpa->user);
	}
	return moved;
}

bool
rig_step(void)
{
	struct rig_side *side[2] = {&rig.a, &rig.b};
	bool moved = false;

	for (int i = 0; i < 2; i++) {
		struct rig_side *s = side[i];

		if (s->mem == NULL)
			continue;
		s->sched.now_ns = rig.now_ns;
		moved |= weft_exec_poll(s->exec) > 0;
		moved |= weft_timer_run(&s->sched.wheel, rig.now_ns) > 0;
		moved |= side_deliver(s->peer, s);
		moved |= weft_sched_run(&s->sched, rig.now_ns) > 0;
		weft_mem_quiescent(s->mem, 0);
		weft_mem_reclaim(s->mem);
		if (s->want_space && s->space > 0 && s->live) {
			s->want_space = false;
			s->ddp->mpa->ops->writable(s->ddp->mpa->user);
			moved = true;
		}
	}
	for (int i = 0; i < 2; i++) {
		struct rig_side *s = side[i];

		if (s->peer != NULL && s->fin && s->fin_seen && TAILQ_EMPTY(&s->out) && s->live) {
			side_closed(s, 0);
			moved = true;
		}
	}
	return moved;
}

void
rig_pump(void)
{
	for (int i = 0; i < 100000; i++)
		if (!rig_step())
			return;
	CHECK_MSG(false, "it never comes to rest");
}

void
rig_advance(uint64_t ns)
{
	rig.now_ns += ns;
	rig_pump();
}

/* ---- The user ---- */

static void
side_event(struct rig_side *s, struct rig_ev e)
{
	CHECK(s->nev < RIG_MAX_EV);
	CHECK(s->r != NULL); /* a destroyed stream makes no up-calls */
	s->ev[s->nev++] = e;
	s->nev_most = RTE_MAX(s->nev_most, s->nev);
	if (s->hook != NULL)
		s->hook(s, &e);
	if (s->abort_at > 0 && --s->abort_at == 0)
		weft_rdmap_abort(s->r, rig.now_ns);
	if (s->destroy_at > 0 && --s->destroy_at == 0) {
		weft_rdmap_destroy(s->r);
		s->r = NULL;
	}
}

static void
user_done(void *user, struct weft_rdmap_req *req, enum weft_rdmap_status status)
{
	side_event(user, (struct rig_ev){.kind = EV_DONE, .req = req, .status = status});
}

static const struct weft_rdmap_sge *
user_recv_buf(void *user, uint8_t *nsge)
{
	struct rig_side *s = user;
	struct weft_rdmap_sge *sge = s->recv_sge;
	uint8_t *p = s->recv[s->recv_taken % RIG_MAX_RECV];

	if (s->recv_taken == s->recv_posted)
		return NULL;
	s->recv_taken++;
	if (s->recv_instead != NULL) {
		*nsge = 2;
		return s->recv_instead;
	}
	/* Three SGEs, one of them empty. */
	sge[0] = (struct weft_rdmap_sge){p, 7};
	sge[1] = (struct weft_rdmap_sge){p + 7, 0};
	sge[2] = (struct weft_rdmap_sge){p + 7, s->recv_size - 7};
	*nsge = 3;
	return sge;
}

static void
user_recv_done(void *user, enum weft_rdmap_status status, uint32_t len_bytes, bool solicited,
               uint32_t inv_stag)
{
	/* A message that did not arrive completely is not solicited and invalidates no STag. */
	if (status != WEFT_RDMAP_OK)
		CHECK(!solicited && inv_stag == 0);
	if (status == WEFT_RDMAP_FLUSHED)
		CHECK_EQ(len_bytes, 0);
	side_event(user, (struct rig_ev){.kind = EV_RECV,
	                                 .status = status,
	                                 .len_bytes = len_bytes,
	                                 .solicited = solicited,
	                                 .inv_stag = inv_stag});
}

static void
user_recv_imm(void *user, const uint8_t imm[WEFT_RDMAP_IMM_BYTES], bool solicited)
{
	struct rig_ev e = {
	        .kind = EV_IMM, .len_bytes = WEFT_RDMAP_IMM_BYTES, .solicited = solicited};

	memcpy(e.imm, imm, sizeof(e.imm));
	side_event(user, e);
}

static int
user_invalidate(void *user, uint32_t stag, struct weft_term *term)
{
	struct rig_side *s = user;

	s->inv_stag = stag;
	if (s->inv_rc == 0)
		return 0;
	return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_PROTECTION,
	                  WEFT_TERM_PROT_INVALIDATE);
}

static void
user_state(void *user, enum weft_rdmap_state st, const struct weft_term *term, bool ours)
{
	struct rig_ev e = {.kind = EV_STATE, .status = st, .ours = ours};

	if (term != NULL) {
		e.has_term = true;
		e.term = *term;
	}
	side_event(user, e);
}

static void
user_reply(void *user, const struct weft_mpa_frame *rep)
{
	(void)rep;
	side_event(user, (struct rig_ev){.kind = EV_REPLY});
}

static void
user_closed(void *user, int err)
{
	side_event(user, (struct rig_ev){.kind = EV_CLOSED, .status = err});
}

static void
user_bad_range(void *user, struct weft_mem_mr *mr, uint64_t to, uint64_t len_bytes, uint8_t code,
               int status)
{
	(void)status;
	(void)*(volatile uint32_t *)&mr->stag; /* ASan: mr is not freed yet */
	side_event(user,
	           (struct rig_ev){
	                   .kind = EV_BAD_RANGE, .status = code, .len_bytes = len_bytes, .to = to});
}

static enum weft_rdmap_start
user_start(void *user, struct weft_rdmap_req *req)
{
	(void)user, (void)req;
	return WEFT_RDMAP_REFUSE;
}

static bool
user_again(void *user, int err)
{
	struct rig_side *s = user;

	(void)err;
	s->agains++;
	return s->again;
}

static const struct weft_rdmap_ops user_ops = {
        .again = user_again,
        .done = user_done,
        .recv_buf = user_recv_buf,
        .recv_done = user_recv_done,
        .recv_imm = user_recv_imm,
        .invalidate = user_invalidate,
        .state = user_state,
        .reply = user_reply,
        .closed = user_closed,
        .bad_range = user_bad_range,
        .start = user_start,
};

const struct rig_ev *
rig_ev(const struct rig_side *s, enum rig_ev_kind kind, unsigned int i)
{
	for (unsigned int k = 0; k < s->nev; k++)
		if (s->ev[k].kind == kind && i-- == 0)
			return &s->ev[k];
	return NULL;
}

unsigned int
rig_ev_count(const struct rig_side *s, enum rig_ev_kind kind)
{
	unsigned int n = 0;

	for (unsigned int k = 0; k < s->nev; k++)
		n += s->ev[k].kind == kind;
	return n;
}

int
rig_status(const struct rig_side *s, const struct weft_rdmap_req *req)
{
	int st = -1;

	for (unsigned int k = 0; k < s->nev; k++)
		if (s->ev[k].kind == EV_DONE && s->ev[k].req == req) {
			CHECK_MSG(st == -1, "done twice");
			st = s->ev[k].status;
		}
	return st;
}

void
rig_post_recv(struct rig_side *s, unsigned int n)
{
	s->recv_posted += n;
}

/* ---- Set-up ---- */

static void
rig_fill(void *arg, void *buf, size_t len)
{
	(void)arg;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)rig_random();
}

static void
side_open(struct rig_side *s, const struct weft_rdmap_attr *attr, uint16_t ird, uint16_t ord)
{
	struct weft_rdmap_attr a = *attr;

	TAILQ_INIT(&s->sched.run);
	weft_wheel_init(&s->sched.wheel, rig.now_ns);
	s->sched.rand = (struct weft_rand){rig_fill, NULL};
	s->sched.now_ns = rig.now_ns;
	CHECK_EQ(weft_exec_create(0, &s->exec), 0);
	s->sched.exec = s->exec;
	CHECK_EQ(weft_mem_create(64, 1, &s->sched.rand, &s->mem), 0);
	CHECK_EQ(weft_mem_reader_register(s->mem, 0), 0);
	weft_mem_online(s->mem, 0);
	s->pd.mem = s->mem;
	s->space = UINT32_MAX;
	s->recv_size = RIG_RECV_SIZE;
	s->live = true;
	TAILQ_INIT(&s->out);
	a.mem = s->mem;
	a.pd = &s->pd;
	a.sched = &s->sched;
	a.ird = ird;
	a.ord = ord;
	a.op_stats = &s->op_stats;
	CHECK_EQ(weft_rdmap_create(&a, &user_ops, s, &s->r), 0);
	s->ddp = weft_rdmap_ddp(s->r);
	s->ddp->mpa->tcp = (struct weft_tcp_conn *)(void *)s;
	s->ddp->mpa->ops = &weft_ddp_mpa_ops;
	s->ddp->mpa->user = s->ddp;
	s->ddp->mpa->sched = &s->sched;
	s->ddp->mpa->state = WEFT_MPA_FULL;
	s->ddp->mpa->peer_spoke = true;
	s->ddp->mpa->mulpdu_bytes = (uint16_t)rig.mulpdu;
	if (rig.idle)
		return;
	weft_rdmap_start(s->r, ird, ord);
	CHECK_EQ(weft_rdmap_state(s->r), WEFT_RDMAP_ST_RTS);
}

/** Clear a side. Only the parts of the large arrays that earlier cases used are cleared. */
static void
side_clear(struct rig_side *s)
{
	unsigned int taken = RTE_MIN(s->recv_taken, (unsigned int)RIG_MAX_RECV);

	memset(s->ev, 0, s->nev_most * sizeof(s->ev[0]));
	memset(s->recv, 0, taken * sizeof(s->recv[0]));
	memset(s, 0, offsetof(struct rig_side, ev));
	memset(&s->nev, 0, offsetof(struct rig_side, recv) - offsetof(struct rig_side, nev));
	memset(s->recv_sge, 0, sizeof(*s) - offsetof(struct rig_side, recv_sge));
}

void
rig_open_attr(const struct weft_rdmap_attr *b_attr, uint16_t ird, uint16_t ord, bool raw)
{
	static const struct weft_rdmap_attr plain;
	uint32_t mulpdu = rig.mulpdu;
	bool idle = rig.idle;
	uint64_t rng = rig.rng;

	rte_log_set_global_level(RTE_LOG_ERR); /* the tests provoke many warnings */
	/* Objects that a failed case left are not freed. */
	side_clear(&rig.a);
	side_clear(&rig.b);
	memset(&rig.now_ns, 0, sizeof(rig) - offsetof(struct rig, now_ns));
	rig.mulpdu = mulpdu != 0 ? mulpdu : 1400;
	rig.idle = idle;
	rig.rng = rng != 0 ? rng : 88172645463325252ull;
	rig.now_ns = WEFT_NS_PER_S;
	side_open(&rig.b, b_attr != NULL ? b_attr : &plain, ird, ord);
	if (!raw) {
		side_open(&rig.a, &plain, ird, ord);
		rig.a.peer = &rig.b;
		rig.b.peer = &rig.a;
	}
}

void
rig_open(uint16_t ird, uint16_t ord, bool raw)
{
	rig_open_attr(NULL, ird, ord, raw);
}

static void
side_close(struct rig_side *s)
{
	if (s->mem == NULL)
		return;
	if (s->r != NULL) {
		CHECK_EQ(s->r->depth, 0); /* else destruction would be deferred */
		weft_rdmap_destroy(s->r);
	}
	s->r = NULL;
	while (weft_exec_poll(s->exec) > 0)
		;
	weft_sched_run(&s->sched, rig.now_ns);
	CHECK_EQ(weft_exec_pending(s->exec), 0);
	CHECK(TAILQ_EMPTY(&s->sched.run));
	CHECK_EQ(s->sched.wheel.armed, 0);
	weft_mem_quiescent(s->mem, 0);
	weft_mem_reclaim(s->mem);
	CHECK_EQ(s->pd.regions, 0);
	weft_mem_offline(s->mem, 0);
	weft_mem_reader_unregister(s->mem, 0);
	weft_mem_destroy(s->mem);
	weft_exec_destroy(s->exec);
	side_drop_out(s);
	s->mem = NULL;
}

void
rig_close(void)
{
	side_close(&rig.a);
	side_close(&rig.b);
	CHECK_EQ(rig_hashes, 0);
	rig.mulpdu = 0;
	rig.idle = false;
}

struct weft_mem_mr *
rig_reg(struct rig_side *s, void *addr, uint64_t len, uint64_t base_to, uint32_t access,
        struct weft_persist *p, const struct weft_hash_ops *hash)
{
	struct weft_mem_attr a = {.addr = addr,
	                          .len_bytes = len,
	                          .base_to = base_to,
	                          .access = access,
	                          .persist = p,
	                          .hash = hash};
	struct weft_mem_mr *mr = NULL;

	CHECK_EQ(weft_mem_reg(s->mem, &s->pd, &a, &mr), 0);
	return mr;
}

void
rig_unreg(struct rig_side *s, struct weft_mem_mr *mr)
{
	weft_mem_invalidate(s->mem, mr, NULL, NULL);
}

/* ---- Raw messages ---- */

void
rig_inject_untagged(struct rig_side *s, uint8_t ctrl, uint32_t qn, uint32_t msn, uint32_t mo,
                    bool last, uint32_t inv, const void *payload, uint32_t len)
{
	uint8_t *u = malloc(18 + len);

	u[0] = (uint8_t)(last ? 0x41 : 0x01);
	u[1] = ctrl;
	weft_put_be32(u + 2, inv);
	weft_put_be32(u + 6, qn);
	weft_put_be32(u + 10, msn);
	weft_put_be32(u + 14, mo);
	if (len > 0)
		memcpy(u + 18, payload, len);
	rig_inject(s, u, 18 + len);
	free(u);
}

void
rig_inject_tagged(struct rig_side *s, uint8_t ctrl, uint32_t stag, uint64_t to, bool last,
                  const void *payload, uint32_t len)
{
	uint8_t *u = malloc(14 + len);

	u[0] = (uint8_t)(last ? 0xc1 : 0x81);
	u[1] = ctrl;
	weft_put_be32(u + 2, stag);
	weft_put_be64(u + 6, to);
	if (len > 0)
		memcpy(u + 14, payload, len);
	rig_inject(s, u, 14 + len);
	free(u);
}

void
rig_inject_place(struct rig_side *s, uint8_t op, uint32_t msn, uint32_t stag, uint64_t to,
                 uint32_t len, const void *rest, uint32_t rest_len)
{
	uint8_t p[16 + 256];

	weft_put_be32(p, stag);
	weft_put_be32(p + 4, len);
	weft_put_be64(p + 8, to);
	if (rest_len > 0)
		memcpy(p + 16, rest, rest_len);
	rig_inject_untagged(s, 0x40 | op, 1, msn, 0, true, 0, p, 16 + rest_len);
}

void
rig_inject_read(struct rig_side *s, uint32_t msn, const struct rdmap_read_req *q)
{
	uint8_t p[28];

	weft_put_be32(p, q->sink_stag);
	weft_put_be64(p + 4, q->sink_to);
	weft_put_be32(p + 12, q->len_bytes);
	weft_put_be32(p + 16, q->src_stag);
	weft_put_be64(p + 20, q->src_to);
	rig_inject_untagged(s, 0x41, 1, msn, 0, true, 0, p, sizeof(p));
}

void
rig_expect(const char *file, int line, struct rig_side *s, const void *ulpdu, uint32_t len)
{
	struct rig_ulpdu *u = rig_pop(s);

	if (u == NULL)
		test_fail(file, line, "nothing was sent");
	test_check_mem(file, line, "ULPDU", u->data, ulpdu, RTE_MIN(len, u->len_bytes));
	if (u->len_bytes != len)
		test_fail(file, line, "ULPDU of %u octets, not %u", u->len_bytes, len);
	free(u);
}

/* ---- The medium ---- */

struct med_job {
	struct weft_job job;
	struct rig_medium *m;
	bool read;
	uint8_t *buf; /* buffer of a read-back, from submission to release */
};

static void
med_run(struct weft_job *j)
{
	struct med_job *mj = (struct med_job *)(void *)j;
	struct weft_persist_req *req =
	        container_of((uint64_t(*)[24])(void *)mj, struct weft_persist_req, drv);
	struct rig_medium *m = mj->m;

	req->status = mj->read ? m->read_err : m->flush_err;
	if (req->status != 0)
		return;
	if (mj->read) {
		memcpy(mj->buf, m->shadow + req->off_bytes, req->len_bytes);
		req->data = mj->buf;
	} else {
		memcpy(m->shadow + req->off_bytes, m->p.base + req->off_bytes, req->len_bytes);
	}
}

static void
med_done(struct weft_job *j)
{
	struct weft_persist_req *req =
	        container_of((uint64_t(*)[24])(void *)j, struct weft_persist_req, drv);

	req->done(req);
}

static int
med_submit(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req, bool read)
{
	struct rig_medium *m = p->priv;
	struct med_job *mj = (struct med_job *)(void *)req->drv;

	if (m->eagain > 0) {
		m->eagain--;
		return -EAGAIN;
	}
	if (read && m->reads_out == RIG_MEDIUM_BUFS)
		return -EAGAIN;
	CHECK(req->off_bytes + req->len_bytes <= p->bytes && req->len_bytes > 0);
	*mj = (struct med_job){.job = {.run = med_run, .done = med_done}, .m = m, .read = read};
	if (read) {
		mj->buf = malloc(req->len_bytes);
		m->reads_out++;
	}
	if (m->immediate) {
		med_run(&mj->job);
		req->done(req);
		return 0;
	}
	return weft_exec_submit(exec, &mj->job);
}

static int
med_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	struct rig_medium *m = p->priv;

	m->flushes += m->eagain == 0;
	m->last_flags = req->flags;
	return med_submit(p, exec, req, false);
}

static void
med_flush_ahead(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes, uint32_t flags)
{
	struct rig_medium *m = p->priv;

	m->aheads++;
	m->ahead_off_bytes = off_bytes;
	m->ahead_len_bytes = len_bytes;
	m->ahead_flags = flags;
}

static int
med_read_back(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	struct rig_medium *m = p->priv;

	m->reads += m->eagain == 0;
	CHECK(req->len_bytes <= p->ops->read_back_max_bytes);
	return med_submit(p, exec, req, true);
}

static void
med_release(struct weft_persist *p, struct weft_persist_req *req)
{
	struct rig_medium *m = p->priv;
	struct med_job *mj = (struct med_job *)(void *)req->drv;

	CHECK(mj->buf != NULL);
	m->reads_out--;
	free(mj->buf);
	mj->buf = NULL;
	req->data = NULL;
}

static const struct weft_persist_ops med_ops = {
        .name = "rig",
        .persistent = true,
        .flush = med_flush,
        .read_back = med_read_back,
        .release = med_release,
        .read_back_max_bytes = 100000,
        .flush_ahead = med_flush_ahead,
};

void
rig_medium_open(struct rig_medium *m, uint64_t bytes)
{
	memset(m, 0, sizeof(*m));
	m->p.ops = &med_ops;
	m->p.bytes = bytes;
	m->p.base = aligned_alloc(64, bytes);
	m->p.priv = m;
	m->shadow = calloc(1, bytes);
	memset(m->p.base, 0, bytes);
}

void
rig_medium_close(struct rig_medium *m)
{
	CHECK_EQ(m->reads_out, 0);
	free(m->p.base);
	free(m->shadow);
}

unsigned int rig_hashes;

/* FNV-1a with a result of eight octets. The state is allocated, so that a state that is not ended
 * is reported as a leak. */
static int
hash_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	uint64_t *h = malloc(sizeof(*h));

	(void)key;
	if (key_bytes > 0)
		return -EINVAL;
	*h = 0xcbf29ce484222325ull;
	rig_hashes++;
	st->opaque[0] = (uintptr_t)h;
	return 0;
}

static void
hash_update(struct weft_hash_state *st, const void *data, size_t len_bytes)
{
	uint64_t *h = (uint64_t *)(uintptr_t)st->opaque[0];

	for (size_t i = 0; i < len_bytes; i++)
		*h = (*h ^ ((const uint8_t *)data)[i]) * 0x100000001b3ull;
}

static void
hash_final(struct weft_hash_state *st, void *result)
{
	uint64_t *h = (uint64_t *)(uintptr_t)st->opaque[0];

	weft_put_be64(result, *h);
	rig_hashes--;
	free(h);
}

const struct weft_hash_ops rig_hash = {
        .name = "rig-fnv",
        .result_bytes = 8,
        .init = hash_init,
        .update = hash_update,
        .final = hash_final,
};

void
rig_hash_of(const void *p, size_t n, uint8_t out[8])
{
	struct weft_hash_state st;

	rig_hash.init(&st, NULL, 0);
	rig_hash.update(&st, p, n);
	rig_hash.final(&st, out);
}
