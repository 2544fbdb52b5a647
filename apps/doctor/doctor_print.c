/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The report, for people and for programs. */

#include <inttypes.h>
#include <string.h>

#include <weft/weft.h>

#include "doctor.h"
#include "json.h"

static const char *const levels[] = {
        [DOCTOR_OK] = "ok", [DOCTOR_NOTE] = "note", [DOCTOR_STOP] = "STOP"};

static const char *const bindings[] = {
        [WEFT_DEVICE_UNBOUND] = "none",  [WEFT_DEVICE_VFIO] = "vfio",
        [WEFT_DEVICE_UIO] = "uio",       [WEFT_DEVICE_BIFURCATED] = "shared",
        [WEFT_DEVICE_KERNEL] = "kernel",
};

void
doctor_print(const struct doctor *d, bool quiet, FILE *out)
{
	const struct weft_machine_identity *m = &d->machine;
	unsigned int stops = doctor_count(d, DOCTOR_STOP), notes = doctor_count(d, DOCTOR_NOTE);

	if (!quiet) {
		fprintf(out, "machine: %s%s%s%s%u CPU%s, %u NUMA node%s, kernel %s\n", m->vendor,
		        m->vendor[0] != '\0' && m->product[0] != '\0' ? " " : "", m->product,
		        m->vendor[0] != '\0' || m->product[0] != '\0' ? ", " : "", m->cpus,
		        m->cpus == 1 ? "" : "s", d->nodes, d->nodes == 1 ? "" : "s",
		        m->kernel[0] != '\0' ? m->kernel : "unknown");
	}
	for (unsigned int i = 0; i < d->nfindings; i++) {
		const struct doctor_finding *f = &d->findings[i];

		if (quiet && f->level != DOCTOR_STOP)
			continue;
		fprintf(out, "%-4s  %s: %s\n", levels[f->level], f->subject, f->what);
		if (f->mend[0] != '\0')
			fprintf(out, "        %s\n", f->mend);
	}
	if (stops > 0)
		fprintf(out, "%u thing%s stand%s in the way of a target\n", stops,
		        stops == 1 ? "" : "s", stops == 1 ? "s" : "");
	else if (!quiet)
		fprintf(out, "nothing stands in the way of a target; %u note%s\n", notes,
		        notes == 1 ? "" : "s");
}

static void
print_nics(const struct doctor *d, struct json *j)
{
	json_arr(j, "nics");
	for (unsigned int i = 0; i < d->nnics; i++) {
		const struct doctor_nic *n = &d->nics[i];
		char id[16];

		json_obj(j, NULL);
		json_str(j, "address", n->info.address);
		json_str(j, "port", n->port != NULL ? n->port->name : NULL);
		json_bool(j, "present", n->error == 0);
		json_bool(j, "ready", n->ready);
		snprintf(id, sizeof(id), "%04x:%04x", n->info.vendor_id, n->info.device_id);
		json_str(j, "id", id);
		json_str(j, "driver", n->info.driver[0] != '\0' ? n->info.driver : NULL);
		json_str(j, "bound", bindings[n->info.binding]);
		json_str(j, "interface", n->info.ifname[0] != '\0' ? n->info.ifname : NULL);
		json_i64(j, "numa_node", n->error == 0 ? n->info.numa_node : -1);
		json_i64(j, "iommu_group", n->error == 0 ? n->info.iommu_group : -1);
		json_obj_end(j);
	}
	json_arr_end(j);
}

static void
print_memory(const struct doctor *d, struct json *j)
{
	json_arr(j, "hugepages");
	for (unsigned int i = 0; i < d->nhuge; i++) {
		const struct weft_machine_huge *h = &d->huge[i];

		json_obj(j, NULL);
		json_i64(j, "numa_node", h->node);
		json_u64(j, "page_bytes", h->page_bytes);
		json_u64(j, "pages", h->pages);
		json_u64(j, "free_pages", h->free_pages);
		json_u64(j, "needed_mb", doctor_need_mb(d, (uint32_t)h->page_bytes));
		json_obj_end(j);
	}
	json_arr_end(j);
}

void
doctor_print_json(const struct doctor *d, FILE *out)
{
	static const char *const words[] = {
	        [DOCTOR_OK] = "ok", [DOCTOR_NOTE] = "note", [DOCTOR_STOP] = "stop"};
	const struct weft_machine_identity *m = &d->machine;
	struct json j;

	json_start(&j, out);
	json_obj(&j, NULL);
	json_str(&j, "version", weft_version());
	json_bool(&j, "ready", doctor_count(d, DOCTOR_STOP) == 0);
	json_str(&j, "config", d->configured ? d->conf.file : NULL);
	json_obj(&j, "machine");
	json_str(&j, "vendor", m->vendor[0] != '\0' ? m->vendor : NULL);
	json_str(&j, "product", m->product[0] != '\0' ? m->product : NULL);
	json_bool(&j, "virtual", m->hypervisor);
	json_str(&j, "kernel", m->kernel[0] != '\0' ? m->kernel : NULL);
	json_u64(&j, "cpus", m->cpus);
	json_u64(&j, "numa_nodes", d->nodes);
	json_u64(&j, "iommu_groups", d->iommu.groups);
	json_str(&j, "clock_source", d->clock.current[0] != '\0' ? d->clock.current : NULL);
	json_obj_end(&j);
	json_u64(&j, "memory_mb", d->conf.weft.memory_mb);
	print_memory(d, &j);
	print_nics(d, &j);
	json_arr(&j, "findings");
	for (unsigned int i = 0; i < d->nfindings; i++) {
		const struct doctor_finding *f = &d->findings[i];

		json_obj(&j, NULL);
		json_str(&j, "level", words[f->level]);
		json_str(&j, "topic", f->topic);
		json_str(&j, "subject", f->subject);
		json_str(&j, "what", f->what);
		json_str(&j, "mend", f->mend[0] != '\0' ? f->mend : NULL);
		json_obj_end(&j);
	}
	json_arr_end(&j);
	json_obj_end(&j);
	json_finish(&j);
}
