/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The driver of Writes over a link with loss. */

#include <math.h>

#include "loss_run.h"
#include "weft_netif_stats.h"
#include "weft_tcp.h"

#define RIGHTS    (WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE)
#define BASE_TO   0x200000000ULL /* of vt_mem() at node 1 */
#define DEPTH_MAX 64
#define RECVS     128

static struct loss_state {
	const struct loss_cfg *cfg;
	struct loss_result *r;
	struct vt t;
	struct weft_mr *mr;
	uint32_t posted, done;
	uint64_t due_ns; /* of the next post */
	struct {
		uint64_t at_ns, rtos, probes, recoveries;
	} post[DEPTH_MAX];
	double *us;
} s;

static const struct weft_tcp_stats *
loss_stats(void)
{
	return weft_tcp_stats(weft_engine_tcp(s.t.n[0].w));
}

static void
loss_post(uint64_t now_ns)
{
	const struct weft_tcp_stats *st = loss_stats();
	uint32_t slot = s.posted % s.cfg->depth;
	uint64_t off = (uint64_t)slot * s.cfg->write_bytes;
	struct weft_sge sg = {.addr = s.t.n[0].mem + off, .len_bytes = s.cfg->write_bytes};
	struct weft_wr wr = {.wr_id = s.posted,
	                     .opcode = WEFT_WR_WRITE_IMM,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sg,
	                     .num_sge = 1,
	                     .rdma = {.stag = weft_mr_stag(s.mr), .to = BASE_TO + off}};

	/* Each Write has other octets than the one before it at this place. */
	for (uint32_t i = 0; i < s.cfg->write_bytes; i += 512)
		memcpy(s.t.n[0].mem + off + i, &s.posted, sizeof(s.posted));
	vt_post(&s.t.n[0], &wr);
	s.post[slot].at_ns = now_ns;
	s.post[slot].rtos = st->rtos;
	s.post[slot].probes = st->tlp_probes + st->recovery_probes;
	s.post[slot].recoveries = st->recoveries;
	s.posted++;
}

static void
loss_done(uint64_t now_ns)
{
	const struct weft_tcp_stats *st = loss_stats();
	uint32_t slot = s.done % s.cfg->depth;
	uint64_t off = (uint64_t)slot * s.cfg->write_bytes;
	uint64_t probes = st->tlp_probes + st->recovery_probes;
	enum loss_class k = st->rtos != s.post[slot].rtos               ? LOSS_TIMEOUT
	                    : probes != s.post[slot].probes             ? LOSS_PROBE
	                    : st->recoveries != s.post[slot].recoveries ? LOSS_RACK
	                                                                : LOSS_NONE;
	double us = (double)(now_ns - s.post[slot].at_ns) / 1e3;

	CHECK_MEM(s.t.n[1].mem + off, s.t.n[0].mem + off, s.cfg->write_bytes);
	s.us[s.done++] = us;
	s.r->n[k]++;
	s.r->class_us[k] += us;
	s.r->mean_us += us;
	vt_post_recv(&s.t.n[1], NULL, 0, 0);
}

static uint64_t
loss_think(void)
{
	double u = ((double)(sim_random(s.t.sim) >> 11) + 1) / (double)(1ULL << 53);

	return s.cfg->think_ns == 0 ? 0 : (uint64_t)(-log(u) * (double)s.cfg->think_ns);
}

static bool
loss_step(void *arg)
{
	uint64_t now_ns = sim_now_ns(s.t.sim);
	struct weft_tcp_info info;
	struct weft_tcp_conn *c;
	struct weft_wc wc;
	uint32_t id = 0;

	(void)arg;
	c = weft_tcp_conn_next(weft_engine_tcp(s.t.n[1].w), &id, UINT32_MAX);
	if (c != NULL) {
		weft_tcp_info(c, &info);
		s.r->ooo_mbufs = RTE_MAX(s.r->ooo_mbufs, info.ooo_mbufs);
	}
	while (weft_cq_poll(s.t.n[1].cq, &wc, 1) == 1) {
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		loss_done(now_ns);
		s.due_ns = now_ns + loss_think();
	}
	while (weft_cq_poll(s.t.n[0].cq, &wc, 1) == 1)
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	while (s.posted < s.cfg->writes && s.posted - s.done < s.cfg->depth && now_ns >= s.due_ns)
		loss_post(now_ns);
	return s.done == s.cfg->writes ||
	       (s.due_ns > now_ns && s.posted < s.cfg->writes && s.posted - s.done < s.cfg->depth);
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

void
loss_run(const struct loss_cfg *cfg, struct loss_result *r)
{
	struct vt_attr va = {.seed = cfg->seed,
	                     .mtu_bytes = cfg->mtu_bytes,
	                     .tcp = cfg->tcp,
	                     .link = {.delay_ns = cfg->delay_ns, .rate_bps = cfg->rate_bps}};
	struct sim_link_cfg lossy = va.link;
	struct weft_conn_attr ca[2] = {{.size = sizeof(ca[0]), .mpa = cfg->mpa},
	                               {.size = sizeof(ca[1]), .mpa = cfg->mpa}};
	struct weft_qp_attr qa[2];
	const struct weft_tcp_stats *st;
	uint64_t begin_ns, len = (uint64_t)cfg->depth * cfg->write_bytes;

	CHECK(cfg->depth <= DEPTH_MAX);
	memset(r, 0, sizeof(*r));
	memset(&s, 0, sizeof(s));
	s.cfg = cfg;
	s.r = r;
	s.us = calloc(cfg->writes, sizeof(*s.us));
	CHECK(s.us != NULL);
	vt_open(&s.t, &va);
	vt_mem(&s.t.n[0], len, RIGHTS);
	vt_mem(&s.t.n[1], len, RIGHTS);
	vt_fill(s.t.n[0].mem, len, cfg->seed);
	s.mr = s.t.n[1].mr;
	for (unsigned int i = 0; i < 2; i++)
		qa[i] = vt_qp_attr(&s.t.n[i]);
	vt_connect_as(&s.t, qa, ca);
	vt_speak(&s.t);
	for (unsigned int i = 0; i < RECVS; i++)
		vt_post_recv(&s.t.n[1], NULL, 0, 0);
	lossy.loss_ppm = cfg->loss_ppm;
	sim_link_set(s.t.link, 0, &lossy);
	sim_link_set(s.t.link, 1, &lossy);
	begin_ns = sim_now_ns(s.t.sim);
	while (s.done < cfg->writes) {
		uint64_t now_ns = sim_now_ns(s.t.sim);

		if (s.due_ns > now_ns && s.posted - s.done < cfg->depth && s.posted < cfg->writes)
			vt_run(&s.t, s.due_ns - now_ns);
		(void)loss_step(NULL);
		CHECK_MSG(vt_until(&s.t, 300 * VT_S, loss_step, NULL), "seed %" PRIu64, cfg->seed);
	}
	st = loss_stats();
	r->mb_s = (double)cfg->writes * cfg->write_bytes * 1e3 /
	          (double)(sim_now_ns(s.t.sim) - begin_ns);
	r->rtos = st->rtos;
	r->probes = st->tlp_probes + st->recovery_probes;
	r->recoveries = st->recoveries;
	r->resent = st->retrans_segs;
	r->needless = st->spurious_retrans;
	r->lost = sim_link_stats(s.t.link, 0)->lost;
	for (unsigned int k = 0; k < LOSS_NCLASSES; k++)
		r->class_us[k] /= RTE_MAX(r->n[k], 1u);
	r->mean_us /= cfg->writes;
	qsort(s.us, cfg->writes, sizeof(*s.us), by_value);
	r->p50_us = s.us[cfg->writes / 2];
	r->p99_us = s.us[(uint64_t)cfg->writes * 99 / 100];
	r->p999_us = s.us[(uint64_t)cfg->writes * 999 / 1000];
	r->max_us = s.us[cfg->writes - 1];
	free(s.us);
	sim_link_set(s.t.link, 0, &va.link);
	sim_link_set(s.t.link, 1, &va.link);
	vt_close(&s.t);
}

void
loss_print(const struct loss_cfg *cfg, const struct loss_result *r, FILE *f)
{
	static const char *const names[LOSS_NCLASSES] = {"no repair", "RACK", "loss probe",
	                                                 "timeout"};

	fprintf(f,
	        "loss %.2f %%, delay %.0f us, depth %u: p50 %.0f us, p99 %.0f us, p99.9 %.0f us, "
	        "max %.0f us, mean %.0f us, %.1f MB/s\n   ",
	        cfg->loss_ppm / 1e4, (double)cfg->delay_ns / 1e3, cfg->depth, r->p50_us, r->p99_us,
	        r->p999_us, r->max_us, r->mean_us, r->mb_s);
	for (unsigned int k = 0; k < LOSS_NCLASSES; k++)
		fprintf(f, " %s: %u, mean %.0f us;", names[k], r->n[k], r->class_us[k]);
	fprintf(f,
	        " lost %" PRIu64 ", resent %" PRIu64 " (needless %" PRIu64
	        "), most mbufs behind gaps %u\n",
	        r->lost, r->resent, r->needless, r->ooo_mbufs);
}
