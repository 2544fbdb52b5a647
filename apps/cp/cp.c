/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-cp: push files into remote exports, pull them back, compare them, list exports, make
 * snapshots. */

#include "cp_volume.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cp_args.h"
#include "cp_many.h"
#include "cp_retry.h"
#include "json.h"
#include "ui.h"

#define CONNECT_AGAIN_NS 1000000000ULL
#define AGAIN_ENV        "WEFT_CP_LOST_AT"

static volatile sig_atomic_t cp_signal;

static void
on_signal(int sig)
{
	cp_signal = sig;
}

/* ---- --list ---- */

struct listing {
	struct json json;
	bool as_json;
	unsigned int n;
};

static const char *
rights_str(uint32_t rights, char buf[64])
{
	snprintf(buf, 64, "%s%s%s%s", rights & WEFT_EXPORT_READ ? "read " : "",
	         rights & WEFT_EXPORT_WRITE ? "write " : "",
	         rights & WEFT_EXPORT_FLUSH ? "flush " : "",
	         rights & WEFT_EXPORT_VERIFY ? "verify " : "");
	if (*buf != '\0')
		buf[strlen(buf) - 1] = '\0';
	return buf;
}

static void
list_item(void *arg, const weft_export_item *it)
{
	struct listing *l = arg;
	char b[32], r[64], name[WEFT_NAME_MAX + 1], mech[WEFT_TEXT_MAX + 1],
	        hash[WEFT_TEXT_MAX + 1];

	rights_str(it->rights, r);
	if (l->as_json) {
		json_obj(&l->json, NULL);
		json_str(&l->json, "name", it->name);
		json_u64(&l->json, "capacity_bytes", it->bytes);
		json_str(&l->json, "rights", r);
		json_bool(&l->json, "busy", it->busy);
		json_str(&l->json, "hash", it->hash);
		json_str(&l->json, "mechanism", it->mechanism);
		json_obj_end(&l->json);
		return;
	}
	if (l->n++ == 0)
		printf("%-20s %12s  %-5s %-24s %-8s %s\n", "export", "holds up to", "busy",
		       "rights", "hash", "persistence");
	printf("%-20s %12s  %-5s %-24s %-8s %s\n", ui_printable(it->name, name, sizeof(name)),
	       ui_bytes(it->bytes, b, sizeof(b)), it->busy ? "yes" : "no", r,
	       ui_printable(it->hash, hash, sizeof(hash)),
	       ui_printable(it->mechanism, mech, sizeof(mech)));
}

static int
list(struct cp_session *s)
{
	struct listing l = {.as_json = s->opt->json};
	int rc = cp_connect(s);

	if (rc == 0) {
		if (l.as_json) {
			json_start(&l.json, stdout);
			json_arr(&l.json, NULL);
		}
		rc = cp_list(s, list_item, &l);
		if (rc == 0 && l.as_json) {
			json_arr_end(&l.json);
			json_finish(&l.json);
		} else if (rc == 0 && l.n == 0) {
			puts("no exports");
		}
	}
	cp_end(s);
	return rc;
}

/* ---- Copies ---- */

static char temp[CONF_PATH_MAX + 64]; /* that this process has made before it began anew */
static struct cp_session session;
static struct cp_report report;
static struct conf conf;
static uint64_t begin_ns;

/** Copy to or from what the export holds, or compare: an object, or a volume. */
static int
copy(struct cp_session *s, bool push, const char *path, struct cp_report *r)
{
	int rc = -EMEDIUMTYPE;

	if (s->opt->ranged)
		rc = -EMEDIUMTYPE;
	else if (s->opt->verify_only)
		rc = cp_verify(s, path, r);
	else if (push)
		rc = cp_push(s, path, r, s->opt->pull ? &cp_push_rpc : &cp_push_rdma);
	else
		rc = cp_pull(s, path, r);
	/* The session goes on if the export holds no object. */
	if (rc != -EMEDIUMTYPE)
		return rc;
	if (s->opt->verify_only)
		return cp_volume_verify(s, path, r);
	return push ? cp_volume_push(s, path, r) : cp_volume_pull(s, path, r);
}

struct attempt {
	struct cp_args *a;
	const struct cp_job *job;
};

/** Copy one file: the exit status, and the reason of a failure in s->err. */
static int
attempt(struct attempt *at)
{
	const struct cp_job *job = at->job;
	struct cp_session *s = &session;
	struct cp_report *r = &report;
	int rc;

	begin_ns = ui_now_ns();
	s->opt = &at->a->opt;
	s->programs = at->a->opt.ignore_revoke ? NULL : cp_programs;
	s->conf = &conf;
	s->url = job->url;
	r->source = job->source;
	r->destination = job->destination;
	r->depth = at->a->opt.depth;
	r->block_bytes = at->a->opt.block_bytes;
	rc = copy(s, job->push, job->file, r);
	if (rc != 0) {
		cp_fail(s, rc, "%s", strerror(-rc));
		return cp_exit_status(s, rc);
	}
	r->total_ns = ui_now_ns() - begin_ns;
	r->persistent = s->grant.persistent;
	strcpy(r->hash, s->grant.hash);
	strcpy(r->mechanism, s->grant.mechanism);
	/* Nothing but data goes to standard output when data goes there. */
	if (at->a->opt.json || !at->a->opt.quiet)
		cp_report_print(r, at->a->opt.json,
		                !job->push && strcmp(job->file, "-") == 0 ? stderr : stdout);
	return CP_EXIT_OK;
}

/** The same in a process of its own. */
static int
attempt_again(void *arg, struct cp_shared *shared, bool again)
{
	struct attempt *at = arg;
	int status;

	session.shared = shared;
	at->a->opt.again = again;
	/* A target that has come back answers at once; a SYN that it did not get is late. */
	if (again && at->a->opt.connect_ns > CONNECT_AGAIN_NS)
		at->a->opt.connect_ns = CONNECT_AGAIN_NS;
	if (again && at->job->push && !at->a->opt.no_verify && !at->a->opt.verify_only)
		at->a->opt.resume = true;
	status = attempt(at);
	memcpy(shared->err, session.err, sizeof(shared->err));
	return status;
}

/**
 * Begin as a new weft-cp with the same process id, because a stack cannot be begun twice in one
 * process. It finds in AGAIN_ENV when the connection was lost. Returns only if that fails.
 */
static void
begin_anew(const struct cp_args *a, const struct cp_retry *retry, const char *kept)
{
	char value[CONF_PATH_MAX + 96];
	sigset_t set, before;

	snprintf(value, sizeof(value), "%" PRIu64 " %s", ui_now_ns(), kept);
	fflush(stdout);
	/* A signal waits until the program has its handlers again. */
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &before);
	if (cp_signal == 0)
		cp_retry_say(retry, session.err);
	/* Devices of the old stack must not stay open. */
	if (cp_signal == 0 && setenv(AGAIN_ENV, value, 1) == 0 &&
	    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
		execv("/proc/self/exe", a->argv);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/** Copy one file in this process. */
static int
copy_here(struct cp_args *a, struct attempt *at, const struct cp_retry *retry)
{
	static struct cp_shared shared;
	int status;

	shared.pid = getpid();
	session.shared = &shared;
	status = attempt(at);
	if (status == CP_EXIT_OK)
		return status;
	if (status == CP_EXIT_LOST && shared.begun && !shared.consumed && cp_signal == 0 &&
	    a->reconnect_ns > 0) {
		begin_anew(a, retry, shared.temp);
	}
	if (shared.temp[0] != '\0')
		unlink(shared.temp);
	ui_msg("%s", session.err);
	return status;
}

/** Copy all files, each by its name: the exit status. */
static int
copy_all(struct cp_args *a)
{
	struct cp_jobs jobs;
	uint32_t failed, i;
	int status = CP_EXIT_OK;

	cp_jobs_make(a->operands, a->noperands, &jobs);
	failed = jobs.failed;
	for (i = 0; i < jobs.n && cp_signal == 0; i++) {
		struct attempt at = {.a = a, .job = &jobs.job[i]};
		const struct cp_retry retry = {
		        .retries = a->retries,
		        .wait_ns = a->retry_wait_ns,
		        .reconnect_ns = a->reconnect_ns,
		        .lost_ns = i == 0 ? a->lost_ns : 0,
		        .temp = i == 0 ? temp : "",
		        .what = jobs.n > 1 ? jobs.job[i].source : NULL,
		        .stop = &cp_signal,
		        .attempt = attempt_again,
		        .arg = &at,
		};

		if (jobs.n > 1 || a->retries > 0 || a->lost_ns != 0)
			status = cp_retry_run(&retry);
		else
			status = copy_here(a, &at, &retry);
		failed += status != CP_EXIT_OK;
	}
	if (i == 0 && temp[0] != '\0')
		unlink(temp);
	/* A signal between two files ends it as one within a file does. */
	if (i < jobs.n)
		ui_msg("interrupted: %u of %u files were not %s", failed + jobs.n - i,
		       jobs.failed + jobs.n, a->opt.verify_only ? "compared" : "copied");
	failed += jobs.n - i;
	if (cp_signal != 0 && failed > 0)
		status = 128 + cp_signal;
	else if (jobs.n > 1 || jobs.failed > 0)
		status = failed > 0 ? CP_EXIT_SOME : CP_EXIT_OK;
	cp_jobs_free(&jobs);
	return status;
}

/* ---- main ---- */

/** A list, or snapshots: the exit status. */
static int
ask(struct cp_args *a)
{
	struct cp_session *s = &session;
	char err[CP_ERR_MAX];
	int rc;

	s->opt = &a->opt;
	s->programs = a->opt.ignore_revoke ? NULL : cp_programs;
	s->conf = &conf;
	if (url_parse(a->operands[0], &s->url, err, sizeof(err)) != 0)
		ui_usage_die("%s", err);
	if (!a->list && s->url.export_name[0] == '\0')
		ui_usage_die("%s: no export named; write weft://HOST[:PORT]/EXPORT",
		             a->operands[0]);
	rc = a->list ? list(s) : cp_volume_snap(s, a->snap_op, a->snap_name, a->snap_from);
	if (rc == 0)
		return CP_EXIT_OK;
	ui_msg("%s", s->err[0] != '\0' ? s->err : strerror(-rc));
	return cp_exit_status(s, rc);
}

int
main(int argc, char **argv)
{
	const struct sigaction sa = {.sa_handler = on_signal};
	static struct cp_args a;
	char **words;
	sigset_t set;

	ui_init("weft-cp");
	words = malloc(((size_t)argc + 1) * sizeof(*words));
	if (words == NULL)
		ui_die("not enough memory");
	/* getopt() changes the order of the original */
	memcpy(words, argv, ((size_t)argc + 1) * sizeof(*words));
	cp_args_parse(argc, argv, &a);
	a.argv = words;
	if (getenv(AGAIN_ENV) != NULL) {
		char *end;

		a.lost_ns = strtoull(getenv(AGAIN_ENV), &end, 10);
		snprintf(temp, sizeof(temp), "%s", *end != '\0' ? end + 1 : end);
	}
	unsetenv(AGAIN_ENV);
	a.opt.stop = &cp_signal;
	cp_args_configure(&a, &conf);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (a.lost_ns != 0)
		sigprocmask(SIG_UNBLOCK, &set, NULL);
	/* inherited, it may be ignored, and then no process that ends can be waited for */
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	/* a file beyond the size limit is an error of the call, which is reported */
	signal(SIGXFSZ, SIG_IGN);
	return a.list || a.snaps ? ask(&a) : copy_all(&a);
}
