/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The report, for people and for programs. */

#include <inttypes.h>

#include "fsck_print.h"

void
fsck_print_begin(struct fsck_print *p)
{
	if (!p->as_json)
		return;
	json_start(&p->json, p->out);
	json_obj(&p->json, NULL);
	json_str(&p->json, "medium", p->path);
	json_arr(&p->json, "findings");
}

void
fsck_print_finding(struct fsck_print *p, const struct fsck_finding *f)
{
	if (p->as_json) {
		json_obj(&p->json, NULL);
		json_str(&p->json, "state", fsck_state_str(f->state));
		json_u64(&p->json, "offset", f->off_bytes);
		json_u64(&p->json, "length", f->len_bytes);
		json_str(&p->json, "what", f->what);
		json_str(&p->json, "consequence", f->consequence);
		json_str(&p->json, "todo", f->todo[0] != '\0' ? f->todo : NULL);
		json_obj_end(&p->json);
		return;
	}
	fprintf(p->out, "%-8s  octet %" PRIu64 ", %" PRIu64 " long: %s\n", fsck_state_str(f->state),
	        f->off_bytes, f->len_bytes, f->what);
	fprintf(p->out, "          consequence: %s\n", f->consequence);
	if (f->todo[0] != '\0')
		fprintf(p->out, "          to do: %s\n", f->todo);
}

static const char *
verdict(const struct fsck_result *r, int rc)
{
	if (rc != 0)
		return "not examined completely";
	if (r->count[FSCK_LEFT] + r->count[FSCK_CAN_MEND] > 0)
		return "damaged";
	return r->count[FSCK_MENDED] > 0 ? "mended" : "clean";
}

void
fsck_print_end(struct fsck_print *p, const struct fsck_result *r, int rc, int status)
{
	const uint64_t *n = r->count;

	/* A failure is one line on standard error, which the program prints. */
	if (!p->as_json && rc != 0)
		return;
	if (!p->as_json) {
		fprintf(p->out,
		        "%s: %s: %s (%" PRIu64 " mended, %" PRIu64 " left, of which --repair mends "
		        "%" PRIu64 "; %" PRIu64 " notes)\n",
		        p->path, r->about, verdict(r, rc), n[FSCK_MENDED],
		        n[FSCK_LEFT] + n[FSCK_CAN_MEND], n[FSCK_CAN_MEND], n[FSCK_NOTE]);
		return;
	}
	json_arr_end(&p->json);
	json_str(&p->json, "format", fsck_format_str(r->format));
	json_str(&p->json, "about", r->about);
	json_str(&p->json, "verdict", verdict(r, rc));
	json_str(&p->json, "error", rc != 0 ? r->reason : NULL);
	json_u64(&p->json, "mended", n[FSCK_MENDED]);
	json_u64(&p->json, "mendable", n[FSCK_CAN_MEND]);
	json_u64(&p->json, "damaged", n[FSCK_LEFT]);
	json_u64(&p->json, "notes", n[FSCK_NOTE]);
	json_u64(&p->json, "status", (uint64_t)status);
	json_obj_end(&p->json);
	json_finish(&p->json);
}
