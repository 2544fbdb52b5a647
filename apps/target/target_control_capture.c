/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Requests about captures. On the program's thread. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "target.h"
#include "target_capture.h"
#include "target_control.h"
#include "ui.h"

#define ERR_MAX  CTL_TEXT_MAX
#define NS_PER_S 1000000000ULL

static enum ctl_code
code_of(int rc)
{
	switch (rc) {
	case -EINVAL:
		return CTL_BAD_PARAMS;
	case -EBUSY:
		return CTL_BUSY;
	case -ENOMEM:
		return CTL_INTERNAL;
	default:
		return CTL_FAILED;
	}
}

/** A capture, as the answers show it. */
static json_t *
row_of(struct target *t, uint32_t port, const struct capture *c,
       const struct weft_capture_stats *st, bool on)
{
	const bool ours = c->path[0] != '\0';

	return json_pack("{s:s, s:b, s:s, s:o, s:o, s:s, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:s}",
	                 "port", weft_port_name(t->stack.ports[port]), "on", (int)on, "file",
	                 c->path, "files", ours ? json_integer(c->files) : json_null(),
	                 "size_bytes", ours ? json_integer((json_int_t)c->file_bytes) : json_null(),
	                 "peer", c->peer, "tcp_port", (json_int_t)c->tcp_port, "for_s",
	                 ours ? json_integer((json_int_t)((ui_now_ns() - c->began_ns) / NS_PER_S))
	                      : json_null(),
	                 "packets", (json_int_t)st->packets, "written_bytes",
	                 (json_int_t)st->file_bytes, "files_begun", (json_int_t)st->files,
	                 "dropped", (json_int_t)st->dropped, "unknown", (json_int_t)st->unknown,
	                 "ended", st->error != 0 ? strerror(-st->error) : "");
}

static uint64_t
number_param(const struct control_job *job, const char *name, uint64_t otherwise)
{
	const json_t *v = json_object_get(job->params, name);

	return v != NULL ? (uint64_t)json_integer_value(v) : otherwise;
}

/** What the request wants. False: the fault is set. */
static bool
wish_of(struct control_job *job, struct capture *c)
{
	const json_t *size = json_object_get(job->params, "size");
	const char *file = control_param(job, "file"), *peer = control_param(job, "peer");
	const uint64_t files = number_param(job, "files", CAPTURE_FILES);
	const uint64_t snap = number_param(job, "snap", 0);

	*c = (struct capture){
	        .file_bytes =
	                size == NULL ? CAPTURE_FILE_BYTES : (uint64_t)json_integer_value(size),
	        .files = files > UINT32_MAX ? UINT32_MAX : (uint32_t)files,
	        .snaplen_bytes = snap > UINT32_MAX ? UINT32_MAX : (uint32_t)snap,
	        .tcp_port = number_param(job, "tcp_port", 0),
	};
	if (json_is_string(size) && conf_parse_size(json_string_value(size), &c->file_bytes) != 0)
		return ctl_fail(&job->fault, CTL_BAD_PARAMS, "capture: \"%.32s\" is not a size",
		                json_string_value(size));
	if ((file != NULL && strlen(file) >= sizeof(c->path)) ||
	    (peer != NULL && strlen(peer) >= sizeof(c->peer)))
		return ctl_fail(&job->fault, CTL_BAD_PARAMS, "capture: file or peer is too long");
	snprintf(c->path, sizeof(c->path), "%s", file != NULL ? file : "");
	snprintf(c->peer, sizeof(c->peer), "%s", peer != NULL ? peer : "");
	return true;
}

bool
control_capture_start(struct control_job *job)
{
	struct target *t = job->t;
	struct weft_capture_stats st = {0};
	char err[ERR_MAX];
	struct capture c;
	bool changed;
	uint32_t port;
	json_t *row;
	int rc;

	if (!wish_of(job, &c))
		return true;
	rc = capture_port(t, control_param(job, "port"), &port, err, sizeof(err));
	if (rc == 0)
		rc = capture_start(t, port, &c, &changed, err, sizeof(err));
	if (rc != 0) {
		ctl_fail(&job->fault, code_of(rc), "%s", err);
		return true;
	}
	(void)capture_look(t, port, &c, &st);
	row = row_of(t, port, &c, &st, true);
	if (row != NULL)
		json_object_set_new(row, "changed", json_boolean(changed));
	control_job_result(job, row);
	return true;
}

bool
control_capture_stop(struct control_job *job)
{
	struct weft_capture_stats st = {0};
	char err[ERR_MAX];
	struct capture c;
	uint32_t port;
	bool ran;
	json_t *row;
	int rc = capture_port(job->t, control_param(job, "port"), &port, err, sizeof(err));

	if (rc != 0) {
		ctl_fail(&job->fault, code_of(rc), "%s", err);
		return true;
	}
	ran = capture_stop(job->t, port, &c, &st);
	row = row_of(job->t, port, &c, &st, false);
	if (row != NULL)
		json_object_set_new(row, "changed", json_boolean(ran));
	control_job_result(job, row);
	return true;
}

bool
control_capture_status(struct control_job *job)
{
	struct target *t = job->t;
	json_t *rows = json_array();

	for (uint32_t i = 0; i < t->stack.nports; i++) {
		struct weft_capture_stats st = {0};
		struct capture c;
		const bool on = capture_look(t, i, &c, &st);

		(void)json_array_append_new(rows, row_of(t, i, &c, &st, on));
	}
	control_job_result(job, json_pack("{s:o}", "captures", rows));
	return true;
}
