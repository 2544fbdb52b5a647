/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Commands of NVMe hosts in the metrics, and among the slow operations. */

#include <string.h>

#include "metrics_count.h"
#include "target.h"
#include "target_metrics.h"
#include "target_nvmf.h"
#include "target_say.h"
#include "target_slow.h"
#include "target_state.h"
#include "target_volume.h"
#include "ui.h"
#include "weft_nvmf_wire.h"

static const struct {
	enum metrics_op op;
	const char *name; /**< NULL: no such command */
	bool pulls;       /**< the data is the host's */
} nvmf_ops[] = {
        [WEFT_NVMF_IO_FLUSH] = {METRICS_FLUSH, "nvme flush", false},
        [WEFT_NVMF_IO_WRITE] = {METRICS_WRITE, "nvme write", true},
        [WEFT_NVMF_IO_READ] = {METRICS_READ, "nvme read", false},
        [WEFT_NVMF_IO_COMPARE] = {METRICS_COMPARE_WRITE, "nvme compare", true},
        [WEFT_NVMF_IO_WRITE_ZEROES] = {METRICS_ZEROES, "nvme write zeroes", false},
        [WEFT_NVMF_IO_DSM] = {METRICS_DISCARD, "nvme dataset management", true},
        [WEFT_NVMF_IO_VERIFY] = {METRICS_VERIFY, "nvme verify", false},
};

uint64_t
target_nvmf_clock(const struct weft_nvmf_group *g)
{
	const struct target_nvmf_worker *nw = weft_nvmf_group_owner(g);

	return weft_worker_now_ns(nw->w);
}

/** What has room among the metrics: the end of an NQN, which is where those of hosts differ. */
static const char *
count_peer(const char *nqn)
{
	const size_t len = strlen(nqn);

	return len < METRICS_PEER ? nqn : nqn + len - (METRICS_PEER - 1);
}

/** A host could not register, as registrations fill the table. Those of hosts that are gone for
 * good stay, and no other line tells the operator why a new node of a cluster does not come up. */
static void
count_full(const struct target_nvmf_worker *nw, const struct weft_nvmf_ended *e)
{
	const struct target_export *ex = e->owner;
	const struct state *state = nw->n->t->state;
	char path[CONF_PATH_MAX + 64] = "";

	if (state != NULL)
		state_resv_path(state, weft_vol_info(ex->volume->vol)->super.uuid, path,
		                sizeof(path));
	target_log(UI_WARNING "export %s: host %s cannot register: too many hosts are "
	                      "registered; to clear them, stop the target%s%s, and start it again",
	           ex->conf->name, e->hostnqn, state != NULL ? ", remove " : "", path);
}

void
target_nvmf_ended(struct weft_nvmf_group *g, const struct weft_nvmf_ended *e)
{
	const struct target_nvmf_worker *nw = weft_nvmf_group_owner(g);
	const uint16_t status = (uint16_t)(e->status & ~WEFT_NVMF_DNR);
	const struct target_export *ex = e->owner;
	struct metrics_timing tm = {.began_ns = e->began_ns, .at_ns = e->data_ns};
	enum metrics_op op;

	if (e->opcode == WEFT_NVMF_IO_RESV_REGISTER &&
	    e->status == (WEFT_NVMF_INTERNAL | WEFT_NVMF_DNR))
		count_full(nw, e);
	if (metrics_me == NULL || e->opcode >= sizeof(nvmf_ops) / sizeof(nvmf_ops[0]) ||
	    nvmf_ops[e->opcode].name == NULL)
		return;
	if (status == WEFT_NVMF_WRITE_FAULT || status == WEFT_NVMF_READ_FAULT)
		target_metrics_failed(ex);
	if (status != 0)
		return;
	op = nvmf_ops[e->opcode].op;
	for (unsigned int i = 0; i < METRICS_STAGES; i++)
		tm.stage_ns[i] = METRICS_NO_STAGE;
	tm.stage_ns[METRICS_STAGING] = e->memory_ns - e->began_ns;
	if (nvmf_ops[e->opcode].pulls)
		tm.stage_ns[METRICS_WIRE] = e->data_ns - e->memory_ns;
	target_metrics_stage(&tm, METRICS_MEDIUM);
	target_slow(nw->tw, &tm, METRICS_STAGES,
	            &(struct slow_what){.op = nvmf_ops[e->opcode].name,
	                                .ex = ex,
	                                .client = e->hostnqn,
	                                .off_bytes = e->off_bytes,
	                                .len_bytes = e->bytes});
	target_metrics_done(&tm, op, ex, count_peer(e->hostnqn));
}
