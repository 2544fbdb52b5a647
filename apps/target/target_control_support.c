/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the control socket tells for a support bundle: the configuration without secrets,
 * counters of ports and workers, the last lines of the log. On the program's thread. */

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "conf_clean.h"
#include "target.h"
#include "target_control.h"
#include "target_lines.h"
#include "target_state.h"

/* ---- Counters ---- */

static void
counter(json_t *rows, const char *of, const char *name, uint64_t n)
{
	(void)json_array_append_new(rows, json_pack("{s:s, s:s, s:I}", "of", of, "counter", name,
	                                            "value", (json_int_t)n));
}

static void
port_counters(struct target *t, json_t *rows)
{
	for (uint32_t i = 0; i < t->conf.nports; i++) {
		struct weft_port_stats s;
		char of[CONF_NAME_MAX + 8];

		if (weft_port_stats(t->stack.ports[i], &s) != 0)
			continue;
		snprintf(of, sizeof(of), "port %s", t->conf.ports[i].name);
#define PORT(name) counter(rows, of, #name, s.name)
		PORT(rx_packets);
		PORT(rx_bytes);
		PORT(tx_packets);
		PORT(tx_bytes);
		PORT(rx_bad);
		PORT(rx_dropped);
		PORT(tx_dropped);
		PORT(rx_missed);
		PORT(handed_over);
		PORT(handover_dropped);
		PORT(queues);
		PORT(rss);
		PORT(link_up);
		PORT(mtu_bytes);
		PORT(offloads);
		PORT(offloads_failed);
		PORT(selftest_wrong);
		PORT(speed_mbps);
		PORT(link_ups);
		PORT(link_downs);
#undef PORT
	}
}

static void
worker_counters(struct target *t, json_t *rows)
{
	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		struct weft_worker_stats s;
		char of[32];

		weft_worker_stats(t->stack.workers[i], &s);
		snprintf(of, sizeof(of), "worker %u", i);
#define WORKER(name) counter(rows, of, #name, s.name)
		WORKER(polls);
		WORKER(busy_polls);
		WORKER(poll_max_ns);
		WORKER(conns);
		WORKER(conns_total);
		WORKER(mpa_fallbacks);
		WORKER(segs_in);
		WORKER(segs_out);
		WORKER(retrans_segs);
		WORKER(rtos);
		WORKER(fpdus_in);
		WORKER(fpdus_out);
		WORKER(crc_errors);
		WORKER(marker_errors);
		WORKER(msgs_in);
		WORKER(msgs_out);
		WORKER(terminates_in);
		WORKER(terminates_out);
		WORKER(cq_overruns);
		WORKER(requests_refused);
		WORKER(requests_refused_peer);
		WORKER(conns_refused_peer);
		WORKER(bad_ranges);
		WORKER(revocations);
		WORKER(revocations_failed);
		WORKER(refused_after_revoke);
		WORKER(requests_evicted);
		WORKER(fpdu_timeouts);
		WORKER(fpdus_shed);
		WORKER(early_refused);
		WORKER(bad_startup);
		WORKER(conns_pushed_out);
		WORKER(medium_waits);
#undef WORKER
	}
}

/* ---- The answer ---- */

/** What print() prints, as a text. NULL: no memory. */
static json_t *
printed(int (*print)(FILE *out, const struct target *t), const struct target *t)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	json_t *v = NULL;
	int rc;

	if (f == NULL)
		return NULL;
	rc = print(f, t);
	if (fclose(f) == 0 && rc == 0)
		v = control_text(text);
	free(text);
	return v;
}

static int
print_file(FILE *out, const struct target *t)
{
	const int rc = conf_print_clean_file(out, t->conf_file);

	if (rc != 0)
		fprintf(out, "%s: cannot be read now: %s\n", t->conf_file, strerror(-rc));
	return 0;
}

static int
print_state(FILE *out, const struct target *t)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (f == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; t->state != NULL && i < t->state->nexports; i++)
		conf_print_export(f, &t->state->exports[i]);
	if (fclose(f) == 0)
		conf_print_clean(out, text);
	free(text);
	return 0;
}

static int
print_log(FILE *out, const struct target *t)
{
	(void)t;
	return target_lines_print(out);
}

/** Of the library that is loaded; the programs see none of DPDK's headers. */
static const char *
dpdk_version(void)
{
	const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "rte_version");

	return version != NULL ? version() : "linked statically; not known";
}

bool
control_support(struct control_job *job)
{
	struct target *t = job->t;
	json_t *rows = json_array();
	struct utsname u;
	char kernel[256] = "";

	port_counters(t, rows);
	worker_counters(t, rows);
	if (uname(&u) == 0)
		snprintf(kernel, sizeof(kernel), "%.60s %.60s %.60s %.60s", u.sysname, u.release,
		         u.version, u.machine);
	control_job_result(job, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "dpdk", dpdk_version(),
	                                  "kernel", kernel, "configuration", printed(print_file, t),
	                                  "exports", printed(print_state, t), "log",
	                                  printed(print_log, t), "counters", rows));
	return true;
}
