/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file "sim": memory, and a simulated medium that holds only what reached it. See
 * weft_persist_sim.h.
 */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "weft_base.h"
#include "weft_persist_sim.h"
#include <weft/atomic_ref.h>

#define SIM_ATOM       8
#define SIM_READ_BYTES 4096 /**< small, so that a long Verify takes several */
#define SIM_PPM        1000000

struct sim_req;
TAILQ_HEAD(sim_req_list, sim_req);

/** One changed atom of a Flush: where, and its value at the submission. */
struct sim_atom {
	uint64_t at;
	uint64_t value;
};

struct sim_medium {
	struct weft_persist_sim_cfg cfg;
	struct weft_persist_sim_stats stats;
	uint64_t *medium;
	uint64_t *
	        /** the value last written to the medium, which differs from `medium` by flipped
	         * bits only */
	        known;
	uint64_t *wrote; /**< value of stats.writes at each atom's last write */
	uint64_t now_ns;
	uint64_t rng;
	bool off;
	struct sim_req_list under_way;
	/* the next fault */
	bool armed;
	enum weft_persist_sim_fault fault;
	uint64_t fault_off_bytes, fault_len_bytes;
	unsigned int spare;
};

/** This driver's part of a request, stored in weft_persist_req.drv. */
struct sim_req {
	struct weft_job job;
	struct weft_persist *p;
	struct weft_persist_req *req;
	struct weft_exec *exec;
	TAILQ_ENTRY(sim_req) link;
	uint64_t due_ns;
	uint64_t submitted; /**< stats.writes at the submission */
	struct sim_atom *atoms;
	uint64_t natoms;
	uint8_t *data; /**< result of a read-back */
	bool read;
};
static_assert(sizeof(struct sim_req) <= sizeof(((struct weft_persist_req *)0)->drv),
              "a simulated request fits the room that requests have for drivers");

static inline struct sim_req *
sim_req_of(struct weft_persist_req *req)
{
	return (struct sim_req *)req->drv;
}

static uint64_t
sim_draw(struct sim_medium *m)
{
	m->rng ^= m->rng >> 12;
	m->rng ^= m->rng << 25;
	m->rng ^= m->rng >> 27;
	return m->rng * 0x2545f4914f6cdd1dULL >> 11;
}

static bool
sim_chance(struct sim_medium *m, uint32_t ppm)
{
	return ppm != 0 && sim_draw(m) % SIM_PPM < ppm;
}

static inline uint64_t
sim_memory(const struct weft_persist *p, uint64_t at)
{
	return atomic_load_explicit(weft_atomic_const_u64(p->base) + at, memory_order_relaxed);
}

/* The only function that writes the medium. */
static void
sim_write(struct sim_medium *m, uint64_t at, uint64_t value)
{
	m->medium[at] = value;
	m->known[at] = value;
	m->wrote[at] = ++m->stats.writes;
}

/* ---- Octets that reach the medium without a Flush ---- */

/** Atoms that are compared at once. A region is much longer than what a test changes in it. */
#define SIM_RUN 64

/** Whether memory is equal to what was last written to the medium, for SIM_RUN atoms from `at`.
 * Under the thread sanitizer each atom is looked at by itself, since another thread may write
 * memory at the same time. */
static bool
sim_run_is_known(const struct weft_persist *p, uint64_t at)
{
#ifdef __SANITIZE_THREAD__
	(void)p;
	(void)at;
	return false;
#else
	const struct sim_medium *m = p->priv;

	return at + SIM_RUN <= p->bytes / SIM_ATOM &&
	       memcmp(p->base + at * SIM_ATOM, &m->known[at], SIM_RUN * SIM_ATOM) == 0;
#endif
}

static void
sim_leak(struct weft_persist *p)
{
	struct sim_medium *m = p->priv;
	struct sim_req *sr;

	if (m->off)
		return;
	/* A Flush under way reaches the medium atom by atom, in any order. */
	TAILQ_FOREACH (sr, &m->under_way, link)
		for (uint64_t i = 0; i < sr->natoms; i++)
			if (m->wrote[sr->atoms[i].at] <= sr->submitted &&
			    sim_chance(m, SIM_PPM / 8))
				sim_write(m, sr->atoms[i].at, sr->atoms[i].value);
	if (m->cfg.leak_ppm == 0)
		return;
	for (uint64_t at = 0; at < p->bytes / SIM_ATOM; at++) {
		uint64_t v;

		if (at % SIM_RUN == 0 && sim_run_is_known(p, at)) {
			at += SIM_RUN - 1;
			continue;
		}
		v = sim_memory(p, at);
		if (v != m->known[at] && sim_chance(m, m->cfg.leak_ppm)) {
			sim_write(m, at, v);
			m->stats.leaked_atoms++;
		}
	}
}

/* ---- Requests ---- */

static bool
sim_inside(const struct weft_persist *p, const struct weft_persist_req *req)
{
	return req->off_bytes <= p->bytes && req->len_bytes <= p->bytes - req->off_bytes;
}

/** Whether the fault strikes this request; it strikes once. */
static bool
sim_strikes(struct sim_medium *m, enum weft_persist_sim_fault what,
            const struct weft_persist_req *req)
{
	if (!m->armed || m->fault != what ||
	    req->off_bytes >= m->fault_off_bytes + m->fault_len_bytes ||
	    m->fault_off_bytes >= req->off_bytes + req->len_bytes)
		return false;
	if (m->spare > 0) {
		m->spare--;
		return false;
	}
	m->armed = false;
	m->stats.faults++;
	return true;
}

static void
sim_mark(struct weft_persist *p, const struct sim_req *sr)
{
	for (uint64_t i = 0; i < sr->natoms; i++)
		weft_persist_mark(p, sr->atoms[i].at * SIM_ATOM, SIM_ATOM);
}

static void
sim_finish_flush(struct weft_persist *p, struct sim_req *sr)
{
	struct sim_medium *m = p->priv;
	struct weft_persist_req *req = sr->req;
	bool fails = sim_strikes(m, WEFT_SIM_FLUSH_ERR, req);

	for (uint64_t i = 0; i < sr->natoms; i++) {
		const struct sim_atom *a = &sr->atoms[i];

		/* An atom written to the medium since the submission is as new as the snapshot,
		 * or newer. */
		if (m->wrote[a->at] > sr->submitted || (fails && sim_chance(m, SIM_PPM / 2)))
			continue;
		sim_write(m, a->at, sim_chance(m, SIM_PPM / 2) ? a->value : sim_memory(p, a->at));
		m->stats.flushed_atoms++;
	}
	req->status = fails ? -EIO : 0;
	if (fails)
		sim_mark(p, sr);
	else
		m->stats.flushes++;
	if (!fails && sim_strikes(m, WEFT_SIM_FLIP, req)) {
		uint64_t from = RTE_MAX(req->off_bytes, m->fault_off_bytes);
		uint64_t to = RTE_MIN(req->off_bytes + req->len_bytes,
		                      m->fault_off_bytes + m->fault_len_bytes);

		weft_persist_sim_flip(p, from * 8 + sim_draw(m) % ((to - from) * 8));
	}
}

static void
sim_finish_read(struct weft_persist *p, struct sim_req *sr)
{
	struct sim_medium *m = p->priv;
	struct weft_persist_req *req = sr->req;

	if (sim_strikes(m, WEFT_SIM_READ_ERR, req)) {
		req->status = -EIO;
		return;
	}
	memcpy(sr->data, (const uint8_t *)m->medium + req->off_bytes, req->len_bytes);
	req->data = sr->data;
	req->status = 0;
	m->stats.read_backs++;
}

static void
sim_run(struct weft_job *j)
{
	struct sim_req *sr = (struct sim_req *)j;
	struct sim_medium *m = sr->p->priv;

	if (m->off) {
		sr->req->status = -EIO;
		sim_mark(sr->p, sr);
	} else {
		sim_leak(sr->p);
		if (sr->read)
			sim_finish_read(sr->p, sr);
		else
			sim_finish_flush(sr->p, sr);
	}
	free(sr->atoms);
	sr->atoms = NULL;
	sr->natoms = 0;
}

static void
sim_done(struct weft_job *j)
{
	struct weft_persist_req *req = ((struct sim_req *)j)->req;

	req->done(req);
}

/* Complete a request now, or when the clock reaches its time. */
static int
sim_start(struct weft_persist *p, struct weft_exec *exec, struct sim_req *sr)
{
	struct sim_medium *m = p->priv;
	uint64_t spread = m->cfg.delay_max_ns - m->cfg.delay_min_ns;

	sr->job.run = sim_run;
	sr->job.done = sim_done;
	sr->exec = exec;
	sr->submitted = m->stats.writes;
	sr->due_ns = m->now_ns + m->cfg.delay_min_ns;
	if (m->cfg.delay_max_ns == 0 || exec == NULL) {
		sim_run(&sr->job);
		sim_done(&sr->job);
		return 0;
	}
	if (spread > 0)
		sr->due_ns += sim_draw(m) % (spread + 1);
	TAILQ_INSERT_TAIL(&m->under_way, sr, link);
	return 0;
}

static int
sim_prepare(struct weft_persist *p, struct weft_persist_req *req, bool read)
{
	struct sim_medium *m = p->priv;
	struct sim_req *sr = sim_req_of(req);

	sr->p = p;
	sr->req = req;
	sr->read = read;
	sr->atoms = NULL;
	sr->natoms = 0;
	sr->data = NULL;
	req->data = NULL;
	if (!sim_inside(p, req))
		return -EINVAL;
	sim_leak(p);
	if (sim_chance(m, m->cfg.busy_ppm)) {
		m->stats.busy++;
		return -EAGAIN;
	}
	return 0;
}

/* Record the atoms of the range, on marked pages, in which memory differs from the medium. */
static int
sim_snapshot(struct weft_persist *p, struct sim_req *sr)
{
	struct sim_medium *m = p->priv;
	const struct weft_persist_req *req = sr->req;
	uint64_t first = req->off_bytes / SIM_ATOM, end;

	end = (req->off_bytes + req->len_bytes + SIM_ATOM - 1) / SIM_ATOM;
	sr->atoms = malloc((end - first) * sizeof(*sr->atoms));
	if (sr->atoms == NULL)
		return -ENOMEM;
	for (uint64_t at = first; at < end; at++) {
		uint64_t v = sim_memory(p, at);

		if (p->dirty[at * SIM_ATOM >> WEFT_PERSIST_PAGE_SHIFT] && v != m->known[at])
			sr->atoms[sr->natoms++] = (struct sim_atom){.at = at, .value = v};
	}
	/* Clear the marks of pages that this Flush covers completely. */
	for (uint64_t pg = 0; pg < p->bytes >> WEFT_PERSIST_PAGE_SHIFT; pg++)
		if (req->off_bytes <= pg << WEFT_PERSIST_PAGE_SHIFT &&
		    (pg + 1) << WEFT_PERSIST_PAGE_SHIFT <= req->off_bytes + req->len_bytes)
			atomic_store_explicit(WEFT_ATOMIC_REF(p->dirty[pg]), 0,
			                      memory_order_release);
	return 0;
}

static int
sim_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	int rc = sim_prepare(p, req, false);

	if (rc != 0)
		return rc;
	if (!(req->flags & WEFT_FLUSH_PERSISTENT) || req->len_bytes == 0) {
		req->status = 0;
		req->done(req);
		return 0;
	}
	rc = sim_snapshot(p, sim_req_of(req));
	return rc != 0 ? rc : sim_start(p, exec, sim_req_of(req));
}

static int
sim_read_back(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	int rc = sim_prepare(p, req, true);

	if (rc != 0)
		return rc;
	if (req->len_bytes > SIM_READ_BYTES)
		return -EINVAL;
	sim_req_of(req)->data = malloc(req->len_bytes + 1);
	return sim_req_of(req)->data == NULL ? -ENOMEM : sim_start(p, exec, sim_req_of(req));
}

static void
sim_release(struct weft_persist *p, struct weft_persist_req *req)
{
	RTE_SET_USED(p);
	free(sim_req_of(req)->data);
	sim_req_of(req)->data = NULL;
	req->data = NULL;
}

/* ---- Open and close ---- */

static void
sim_close(struct weft_persist *p)
{
	struct sim_medium *m = p->priv;

	free(m->medium);
	free(m->known);
	free(m->wrote);
	free(m);
	free(p->dirty);
	free(p->base);
}

static int
sim_open(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	uint64_t bytes = RTE_ALIGN_CEIL(attr->bytes, 1ULL << WEFT_PERSIST_PAGE_SHIFT);
	struct sim_medium *m;

	if (bytes == 0)
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	p->priv = m;
	p->bytes = bytes;
	p->base = aligned_alloc(1U << WEFT_PERSIST_PAGE_SHIFT, bytes);
	p->dirty = calloc(bytes >> WEFT_PERSIST_PAGE_SHIFT, 1);
	m->medium = calloc(bytes / SIM_ATOM, sizeof(*m->medium));
	m->known = calloc(bytes / SIM_ATOM, sizeof(*m->known));
	m->wrote = calloc(bytes / SIM_ATOM, sizeof(*m->wrote));
	m->rng = 1;
	TAILQ_INIT(&m->under_way);
	if (p->base == NULL || p->dirty == NULL || m->medium == NULL || m->known == NULL ||
	    m->wrote == NULL) {
		sim_close(p);
		return -ENOMEM;
	}
	memset(p->base, 0, bytes);
	snprintf(p->mechanism, sizeof(p->mechanism), "simulated medium");
	return 0;
}

static const struct weft_persist_ops sim_ops = {
        .name = "sim",
        .persistent = true,
        .open = sim_open,
        .close = sim_close,
        .flush = sim_flush,
        .read_back = sim_read_back,
        .release = sim_release,
        .read_back_max_bytes = SIM_READ_BYTES,
};

WEFT_PERSIST_REGISTER(sim, sim_ops)

/* ---- For the test ---- */

void
weft_persist_sim_set(struct weft_persist *p, const struct weft_persist_sim_cfg *cfg)
{
	struct sim_medium *m = p->priv;

	m->cfg = *cfg;
	m->cfg.delay_max_ns = RTE_MAX(cfg->delay_min_ns, cfg->delay_max_ns);
	m->rng = (cfg->seed + 1) * 0x9e3779b97f4a7c15ULL | 1;
}

void
weft_persist_sim_step(struct weft_persist *p, uint64_t now_ns)
{
	struct sim_medium *m = p->priv;
	struct sim_req *sr, *next;

	m->now_ns = now_ns;
	sim_leak(p);
	for (sr = TAILQ_FIRST(&m->under_way); sr != NULL; sr = next) {
		next = TAILQ_NEXT(sr, link);
		if ((sr->due_ns <= now_ns || m->off) && weft_exec_submit(sr->exec, &sr->job) == 0)
			TAILQ_REMOVE(&m->under_way, sr, link);
	}
}

uint64_t
weft_persist_sim_next_ns(const struct weft_persist *p)
{
	const struct sim_medium *m = p->priv;
	const struct sim_req *sr;
	uint64_t next = UINT64_MAX;

	TAILQ_FOREACH (sr, &m->under_way, link)
		next = RTE_MIN(next, m->off ? m->now_ns : sr->due_ns);
	return next;
}

const uint8_t *
weft_persist_sim_medium(const struct weft_persist *p)
{
	return (const uint8_t *)((const struct sim_medium *)p->priv)->medium;
}

void
weft_persist_sim_flip(struct weft_persist *p, uint64_t bit)
{
	struct sim_medium *m = p->priv;

	((uint8_t *)m->medium)[bit / 8] ^= (uint8_t)(1U << bit % 8);
	m->stats.writes++;
}

void
weft_persist_sim_fault(struct weft_persist *p, enum weft_persist_sim_fault what, uint64_t off_bytes,
                       uint64_t len_bytes, unsigned int skip)
{
	struct sim_medium *m = p->priv;

	m->armed = true;
	m->fault = what;
	m->fault_off_bytes = off_bytes;
	m->fault_len_bytes = len_bytes;
	m->spare = skip;
}

void
weft_persist_sim_cut(struct weft_persist *p)
{
	((struct sim_medium *)p->priv)->off = true;
}

void
weft_persist_sim_boot(struct weft_persist *p)
{
	struct sim_medium *m = p->priv;

	memcpy(p->base, m->medium, p->bytes);
	memcpy(m->known, m->medium, p->bytes);
	memset(p->dirty, 0, p->bytes >> WEFT_PERSIST_PAGE_SHIFT);
	m->off = false;
	m->stats.boots++;
}

const struct weft_persist_sim_stats *
weft_persist_sim_stats(const struct weft_persist *p)
{
	return &((const struct sim_medium *)p->priv)->stats;
}
