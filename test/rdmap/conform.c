/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The stream, the regions and the checks of the conformance tables. */

#include <stdlib.h>

#include "conform.h"

struct cf cf;

#define ALL                                                                                        \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE |    \
	 WEFT_ACCESS_VERIFY)

void
cf_open(void)
{
	struct weft_mem_attr a = {.len_bytes = CF_BYTES,
	                          .base_to = CF_BASE,
	                          .access = WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |
	                                    WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE};

	rig_open(CF_IRD, CF_IRD, true);
	memset(&cf, 0, sizeof(cf));
	memset(cf.mem, CF_FILL, sizeof(cf.mem));
	rig_medium_open(&cf.med, CF_BYTES);
	memset(cf.med.p.base, CF_FILL, CF_BYTES);
	cf.all = rig_reg(&rig.b, cf.med.p.base, CF_BYTES, CF_BASE, ALL, &cf.med.p, &rig_hash);
	cf.ro = rig_reg(&rig.b, cf.mem[0], CF_BYTES, CF_BASE, WEFT_ACCESS_REMOTE_READ, NULL, NULL);
	cf.wo = rig_reg(&rig.b, cf.mem[1], CF_BYTES, CF_BASE, WEFT_ACCESS_REMOTE_WRITE, NULL, NULL);
	cf.lw = rig_reg(&rig.b, cf.mem[2], CF_BYTES, CF_BASE, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
	cf.other_pd.mem = rig.b.mem;
	a.addr = cf.mem[3];
	CHECK_EQ(weft_mem_reg(rig.b.mem, &cf.other_pd, &a, &cf.alien), 0);
}

void
cf_close(void)
{
	struct weft_mem_mr *mr[] = {cf.all, cf.ro, cf.wo, cf.lw, cf.alien};

	for (unsigned int i = 0; i < CF_BYTES && !cf.touched; i++) {
		CHECK_MSG(cf.med.p.base[i] == CF_FILL, "octet %u was changed", i);
		for (unsigned int k = 0; k < 4; k++)
			CHECK_MSG(cf.mem[k][i] == CF_FILL, "octet %u of region %u was changed", i,
			          k);
	}
	for (unsigned int i = 0; i < RTE_DIM(mr); i++)
		if (mr[i] != NULL)
			rig_unreg(&rig.b, mr[i]);
	rig_close();
	rig_medium_close(&cf.med);
}

void
cf_blame(void)
{
	cf.guilty_bytes = rig.last_bytes;
	memcpy(cf.guilty, rig.last, sizeof(cf.guilty));
}

uint64_t
cf_fault(const char *name)
{
	const struct weft_stat_field *f;
	unsigned int n = weft_rdmap_fault_fields(&f);

	for (unsigned int i = 0; i < n; i++)
		if (strcmp(f[i].name, name) == 0)
			return weft_stat_read(&rig.b.op_stats.faults, &f[i]);
	test_fail(__FILE__, __LINE__, "no counter %s", name);
}

/* RFC 5040 s4.8 Figures 7, 8; RFC 5041 s4.3. */
static uint32_t
term_ulpdu(uint8_t *u, const struct weft_term *t, enum cf_echo echo)
{
	static const uint8_t head[18] = {0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1};
	static const uint8_t hdrct[] = {[CF_WORD] = 0, [CF_DDP] = 0xc0, [CF_RDMA] = 0xe0};
	static const uint8_t none[RDMAP_READ_REQ_BYTES];
	uint32_t n = 22, hdr = cf.guilty[0] & 0x80 ? 14 : 18;

	memcpy(u, head, sizeof(head));
	u[18] = (uint8_t)(t->layer << 4 | t->etype);
	u[19] = t->code;
	u[20] = hdrct[echo];
	u[21] = 0;
	if (echo >= CF_DDP) {
		weft_put_be16(u + n, (uint16_t)cf.guilty_bytes);
		memcpy(u + n + 2, cf.guilty, hdr);
		n += 2 + hdr;
	}
	if (echo == CF_RDMA) {
		bool as_sent = memcmp(cf.rdma, none, sizeof(none)) == 0;

		memcpy(u + n, as_sent ? cf.guilty + 18 : cf.rdma, RDMAP_READ_REQ_BYTES);
		n += RDMAP_READ_REQ_BYTES;
	}
	return n;
}

void
cf_expect_term(const struct weft_term *want, enum cf_echo echo)
{
	const struct weft_rdmap_faults *f = &rig.b.op_stats.faults;
	int row = weft_rdmap_term_index(want);
	uint8_t u[128];
	uint32_t n;
	const struct rig_ev *e;

	if (cf.guilty_bytes == 0)
		cf_blame();
	n = term_ulpdu(u, want, echo);
	rig_pump();
	EXPECT_ULPDU(&rig.b, u, n);
	CHECK_MSG(rig.b.fin && TAILQ_EMPTY(&rig.b.out), "no FIN right behind it");
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
	e = rig_ev(&rig.b, EV_STATE, 1);
	CHECK(e != NULL && e->status == WEFT_RDMAP_ST_TERMINATE && e->has_term && e->ours);
	CHECK(e->term.layer == want->layer && e->term.etype == want->etype &&
	      e->term.code == want->code);
	CHECK_EQ(weft_rdmap_stats(rig.b.r)->terminates_out, 1);
	for (int i = 0; i < WEFT_TERM_NCODES; i++)
		CHECK_EQ(f->term[i].out, i == row);
	CHECK_EQ(f->terminates_out_other, row < 0);
	CHECK_EQ(f->refused_after_revoke, 0); /* these tables revoke no region */
	/* RFC 5041 s7.1: the side drops all later segments silently, also a Terminate. */
	CF_TAGGED(0x40, cf.all->stag, CF_BASE, "xxxx", 4);
	CF_UNTAGGED(0x43, 0, 1, 0, "x", 1);
	CF_UNTAGGED(0x47, 2, 1, 0, "\x01\x02\0\0", 4);
	rig_pump();
	CHECK(TAILQ_EMPTY(&rig.b.out));
	CHECK(cf_fault("segs_after_fault") >= 3);
	CHECK_EQ(weft_rdmap_stats(rig.b.r)->terminates_in, 0);
	/* RFC 5040 s6.2.1: the close is orderly. If the peer does not close, the connection is
	 * reset. */
	rig_advance(6 * WEFT_NS_PER_S);
	CHECK(rig.b.aborted);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	CHECK_EQ(rig_ev(&rig.b, EV_CLOSED, 0)->status, -ETIMEDOUT);
	CHECK_EQ(rig_ev_count(&rig.b, EV_CLOSED), 1);
	CHECK_EQ(f->close_timeouts, 1);
}

void
cf_atomic(uint32_t msn, uint32_t stag, uint64_t to, uint64_t add, uint32_t len)
{
	uint8_t p[64] = {0};

	rdmap_atomic_req_encode(&(struct rdmap_atomic_req){.aop = WEFT_RDMAP_FETCH_ADD,
	                                                   .id = 0x1234,
	                                                   .stag = stag,
	                                                   .to = to,
	                                                   .data = add},
	                        p);
	CF_UNTAGGED(0x4a, 1, msn, 0, p, len);
}

void
cf_post(uint8_t op, unsigned int n)
{
	struct rig_ulpdu *u;

	for (unsigned int i = 0; i < n; i++) {
		cf.req[i] = (struct weft_rdmap_req){.op = op,
		                                    .len_bytes = 8,
		                                    .stag = 0x99,
		                                    .to = 64,
		                                    .flush_flags = 1,
		                                    .sink_stag = cf.all->stag,
		                                    .sink_to = CF_BASE + 8 * i};
		weft_rdmap_post(rig.b.r, &cf.req[i]);
	}
	rig_pump();
	for (unsigned int i = 0; i < n; i++) {
		u = rig_pop(&rig.b);
		CHECK(u != NULL);
		free(u);
	}
	CHECK(TAILQ_EMPTY(&rig.b.out));
}
