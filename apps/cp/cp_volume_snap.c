/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Snapshots and clones of a volume: made, listed, removed. */

#include "cp_volume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "json.h"
#include "ui.h"

#define SNAP_PAGE 32

struct snap_job {
	struct cp_volume v; /* first member */
	struct weft_volume_req req;
	struct weft_volume_snapshot list[SNAP_PAGE];
	char after[WEFT_VOLUME_SNAP_NAME];
	unsigned int printed;
	struct json json;
	bool done;
};

static const char *const snap_verbs[WEFT_VOLUME_OPS] = {
        [WEFT_VOLUME_OP_SNAPSHOT] = "snapshot",
        [WEFT_VOLUME_OP_SNAPSHOTS] = "its snapshots",
        [WEFT_VOLUME_OP_SNAPSHOT_REMOVE] = "removal of snapshot",
        [WEFT_VOLUME_OP_CLONE] = "clone",
};

static void
snap_done(struct weft_volume_req *req)
{
	((struct snap_job *)req->owner)->done = true;
}

/** Submit the request, and wait for its end. */
static int
snap_ask(struct snap_job *j)
{
	struct cp_volume *v = &j->v;
	struct cp_session *s = v->s;
	const enum weft_volume_op op = j->req.op;
	int rc;

	j->done = false;
	rc = weft_volume_submit(v->v, &j->req);
	if (rc == -EINVAL)
		return cp_fail(
		        s, rc,
		        "%s: a name has 1 to 63 of A-Z a-z 0-9 . _ - and begins with a letter "
		        "or digit",
		        j->req.name);
	if (rc != 0)
		return cp_fail(s, rc, "%s: call failed: %s", s->where, strerror(-rc));
	s->last_ns = ui_now_ns();
	while (rc == 0 && !j->done) {
		v->busy++;
		rc = cp_turn(s, true);
		v->busy--;
	}
	if (rc != 0)
		return cp_fail_conn(s, rc, "; it may have been done");
	if (j->req.status == 0)
		return 0;
	return cp_fail(s, j->req.status, "%s: volume %s: %s%s%s: %s", s->where, s->url.export_name,
	               snap_verbs[op], op == WEFT_VOLUME_OP_SNAPSHOTS ? "" : " ",
	               op == WEFT_VOLUME_OP_SNAPSHOTS ? "" : j->req.name,
	               j->req.why[0] != '\0' ? j->req.why : strerror(-j->req.status));
}

/* ---- Lists ---- */

static void
snap_print_one(struct snap_job *j, const struct weft_volume_snapshot *at)
{
	const time_t made = (time_t)(at->created_ns / 1000000000ULL);
	char name[WEFT_VOLUME_SNAP_NAME], when[32] = "", b[32];
	struct tm tm;

	if (gmtime_r(&made, &tm) != NULL)
		(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (j->v.s->opt->json) {
		json_obj(&j->json, NULL);
		json_str(&j->json, "name", at->name);
		json_str(&j->json, "created", when);
		json_u64(&j->json, "bytes", at->bytes);
		json_obj_end(&j->json);
		return;
	}
	if (j->printed++ == 0)
		printf("%-32s %-20s %12s\n", "snapshot", "made", "medium");
	printf("%-32s %-20s %12s\n", ui_printable(at->name, name, sizeof(name)), when,
	       ui_bytes(at->bytes, b, sizeof(b)));
}

static int
snap_list(struct snap_job *j)
{
	const bool as_json = j->v.s->opt->json;
	int rc;

	j->req.snapshots = j->list;
	j->req.max_snapshots = SNAP_PAGE;
	rc = snap_ask(j);
	if (rc == 0 && as_json) {
		json_start(&j->json, stdout);
		json_arr(&j->json, NULL);
	}
	while (rc == 0) {
		for (uint32_t i = 0; i < j->req.found; i++)
			snap_print_one(j, &j->list[i]);
		if (!j->req.more || j->req.found == 0)
			break;
		snprintf(j->after, sizeof(j->after), "%s", j->list[j->req.found - 1].name);
		j->req.name = j->after;
		rc = snap_ask(j);
	}
	if (rc == 0 && as_json) {
		json_arr_end(&j->json);
		json_finish(&j->json);
	} else if (rc == 0 && j->printed == 0) {
		puts("no snapshots");
	}
	return rc;
}

/* ---- The rest ---- */

static void
snap_print(struct snap_job *j)
{
	const struct weft_volume_req *q = &j->req;
	const char *kind = q->op == WEFT_VOLUME_OP_CLONE ? "clone" : "snapshot";
	char place[sizeof(q->place)];

	if (j->v.s->opt->json) {
		json_start(&j->json, stdout);
		json_obj(&j->json, NULL);
		json_str(&j->json, kind, q->name);
		if (q->op == WEFT_VOLUME_OP_SNAPSHOT_REMOVE)
			json_bool(&j->json, "removed", true);
		else
			json_str(&j->json, "place", q->place);
		json_obj_end(&j->json);
		json_finish(&j->json);
	} else if (!j->v.s->opt->quiet && q->op == WEFT_VOLUME_OP_SNAPSHOT_REMOVE) {
		printf("snapshot %s of %s is removed\n", q->name, j->v.s->url.export_name);
	} else if (!j->v.s->opt->quiet) {
		printf("%s %s of %s is made%s%s\n", kind, q->name, j->v.s->url.export_name,
		       q->place[0] != '\0' ? "; its target serves it as an export of " : "",
		       ui_printable(q->place, place, sizeof(place)));
	}
}

int
cp_volume_snap(struct cp_session *s, enum weft_volume_op op, const char *name, const char *from)
{
	struct snap_job *j = calloc(1, sizeof(*j));
	int rc;

	if (j == NULL)
		return cp_fail(s, -ENOMEM, "not enough memory");
	j->v.s = s;
	j->req = (struct weft_volume_req){
	        .op = op, .name = name, .from = from, .done = snap_done, .owner = j};
	rc = cp_volume_open(
	        &j->v, op == WEFT_VOLUME_OP_SNAPSHOTS ? WEFT_EXPORT_READ : WEFT_EXPORT_WRITE, 0);
	if (rc == 0)
		rc = op == WEFT_VOLUME_OP_SNAPSHOTS ? snap_list(j) : snap_ask(j);
	if (rc == 0 && op != WEFT_VOLUME_OP_SNAPSHOTS)
		snap_print(j);
	cp_volume_end(&j->v, rc);
	free(j);
	return rc;
}
