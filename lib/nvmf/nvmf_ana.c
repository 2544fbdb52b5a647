/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Asymmetric namespace access: states and their changes. See nvmf_ana.h.
 */

#include "nvmf_cmd.h"

/** The state that a namespace has now. */
static uint8_t
ana_state(const struct nvmf_ns *ns)
{
	if (!ns->subsys->ana.on)
		return 0;
	for (uint32_t g = 0; g < WEFT_NVMF_MAX_GROUPS; g++)
		if (atomic_load_explicit(&ns->at[g].attached, memory_order_seq_cst))
			return ns->subsys->ana.state;
	return WEFT_NVMF_ANA_INACCESSIBLE;
}

void
nvmf_ana_look(struct nvmf_ns *ns)
{
	struct weft_nvmf_subsys *s = ns->subsys;
	const uint8_t state = ana_state(ns);
	struct nvmf_ctrl *c;

	if (atomic_exchange_explicit(&ns->ana.state, state, memory_order_seq_cst) == state)
		return;
	ns->ana.count = ++s->ana.count;
	LIST_FOREACH (c, &s->target->ctrls, link) {
		if (c->subsys != s)
			continue;
		atomic_store_explicit(&c->ana.changed, true, memory_order_release);
		if (c->admin != NULL)
			nvmf_wake(c->group);
	}
}

int
weft_nvmf_ana(struct weft_nvmf_subsys *s, enum weft_nvmf_ana_state state)
{
	struct nvmf_ns *ns;

	if (!s->ana.on || state < WEFT_NVMF_ANA_OPTIMIZED || state > WEFT_NVMF_ANA_INACCESSIBLE)
		return -EINVAL;
	nvmf_lock(s->target);
	s->ana.state = (uint8_t)state;
	for (uint32_t i = 0; i < s->max_nsid; i++) {
		ns = atomic_load_explicit(&s->ns[i], memory_order_acquire);
		if (ns != NULL && ns->present)
			nvmf_ana_look(ns);
	}
	nvmf_unlock(s->target);
	return 0;
}

uint16_t
nvmf_ana_away(const struct nvmf_ns *ns)
{
	switch (atomic_load_explicit(&ns->ana.state, memory_order_seq_cst)) {
	case WEFT_NVMF_ANA_OFF:
		return WEFT_NVMF_NS_NOT_READY;
	case WEFT_NVMF_ANA_INACCESSIBLE:
		return WEFT_NVMF_ANA_NO_ACCESS;
	default:
		return WEFT_NVMF_ANA_CHANGES;
	}
}
