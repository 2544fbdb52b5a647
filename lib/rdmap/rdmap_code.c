/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Terminate codes, and the counters of faults. */

#include "rdmap_term.h"

#define X(name, layer, etype, code, words) {layer, etype, code, words},
static const struct weft_term_row term_rows[WEFT_TERM_NCODES] = {WEFT_TERM_CODES(X)};
#undef X

int
weft_rdmap_term_index(const struct weft_term *t)
{
	for (unsigned int i = 0; i < RTE_DIM(term_rows); i++)
		if (term_rows[i].layer == t->layer && term_rows[i].etype == t->etype &&
		    (term_rows[i].code == t->code || term_rows[i].code == WEFT_TERM_ANY))
			return (int)i;
	return -1;
}

const struct weft_term_row *
weft_rdmap_term_row(unsigned int i)
{
	return i < RTE_DIM(term_rows) ? &term_rows[i] : NULL;
}

/* ---- Counters ---- */

#define AT(i, dir)                                                                                 \
	(offsetof(struct weft_rdmap_faults, term) + sizeof(struct weft_rdmap_term_count) * (i) +   \
	 offsetof(struct weft_rdmap_term_count, dir))
#define X(name, layer, etype, code, words)                                                         \
	{"terminates_out_" #name, AT(WEFT_TERM_I_##name, out), 8},                                 \
	        {"terminates_in_" #name, AT(WEFT_TERM_I_##name, in), 8},
#define F(field) WEFT_STAT(weft_rdmap_faults, field)

static const struct weft_stat_field fault_fields[] = {
        WEFT_TERM_CODES(X) F(terminates_out_other),
        F(terminates_in_other),
        F(terminates_in_malformed),
        F(terminates_in_swapped),
        F(terminates_unsent),
        F(sends_without_receive),
        F(requests_beyond_ird),
        F(requests_malformed),
        F(requests_revoked),
        F(lost),
        F(refused_after_revoke),
        F(requests_after_fin),
        F(responses_unasked),
        F(responses_wrong),
        F(segs_after_fault),
        F(close_timeouts),
};
#undef F
#undef X

unsigned int
weft_rdmap_fault_fields(const struct weft_stat_field **out)
{
	*out = fault_fields;
	return RTE_DIM(fault_fields);
}

void
rdmap_count_term(struct weft_rdmap *r, const struct weft_term *t, bool ours)
{
	struct weft_rdmap_faults *f;
	int i;

	if (r->op_stats == NULL)
		return;
	f = &r->op_stats->faults;
	i = weft_rdmap_term_index(t);
	if (i < 0)
		(*(ours ? &f->terminates_out_other : &f->terminates_in_other))++;
	else
		(*(ours ? &f->term[i].out : &f->term[i].in))++;
}

int
rdmap_unexpected(struct weft_term *term)
{
	return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_OPERATION,
	                  WEFT_TERM_OP_OPCODE);
}
