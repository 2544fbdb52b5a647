/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The document of a sweep: that of weft-perf --json, with the machine, the plan and what is
 * missing; and the same results as comma-separated values. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "sweep.h"
#include <weft/device.h>

/* ---- Facts ---- */

/** The value of the first line of a file that begins with `key` and a colon; the first line if key
 * is NULL. "" without it. */
static const char *
sweep_fact(const char *path, const char *key, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	char line[512], *colon;

	buf[0] = '\0';
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		colon = strchr(line, ':');
		if (key == NULL) {
			snprintf(buf, size, "%s", line);
			break;
		}
		if (strncmp(line, key, strlen(key)) == 0 && colon != NULL) {
			snprintf(buf, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
			break;
		}
	}
	if (f != NULL)
		fclose(f);
	return buf;
}

static void
sweep_put(json_t *o, const char *key, const char *text)
{
	/* a text that is not UTF-8 is left out */
	json_t *v = text[0] != '\0' ? json_string(text) : NULL;

	if (v != NULL)
		json_object_set_new(o, key, v);
}

static json_t *
sweep_machine(void)
{
	json_t *m = json_object();
	char buf[512], host[256] = "";
	struct utsname u;

	gethostname(host, sizeof(host) - 1);
	sweep_put(m, "host", host);
	sweep_put(m, "cpu", sweep_fact("/proc/cpuinfo", "model name", buf, sizeof(buf)));
	json_object_set_new(m, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	sweep_put(m, "governor",
	          sweep_fact("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", NULL, buf,
	                     sizeof(buf)));
	sweep_put(m, "memory", sweep_fact("/proc/meminfo", "MemTotal", buf, sizeof(buf)));
	if (uname(&u) == 0) {
		sweep_put(m, "kernel", u.release);
		sweep_put(m, "architecture", u.machine);
	}
	return m;
}

json_t *
sweep_doc(const struct sweep *s)
{
	json_t *doc = json_object(), *about = json_object();
	const struct port_args *p = &s->port_args;
	char now[64], dev[CONF_PATH_MAX];
	time_t t = time(NULL);
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &tm);
	sweep_put(about, "plan", s->plan_path);
	sweep_put(about, "server", s->host);
	sweep_put(about, "port",
	          p->config != NULL ? p->config : weft_device_clean(p->dev, dev, sizeof(dev)));
	sweep_put(about, "started", now);
	json_object_set_new(about, "points", json_integer(s->plan.n));
	json_object_set_new(about, "rounds", json_integer(s->plan.rounds));
	json_object_set_new(about, "runs", json_integer(s->plan.runs));
	json_object_set_new(doc, "version", json_string(weft_version()));
	json_object_set_new(doc, "complete", json_false());
	json_object_set_new(doc, "machine", sweep_machine());
	json_object_set_new(doc, "sweep", about);
	json_object_set_new(doc, "failed", json_array());
	json_object_set_new(doc, "results", json_array());
	return doc;
}

/* ---- Results ---- */

/** The document that --json would print for one result. */
static json_t *
sweep_printed(const struct perf_result *r)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	json_t *doc = NULL;

	if (f != NULL) {
		perf_print_json(f, NULL, r, 1);
		if (fclose(f) == 0)
			doc = json_loadb(text, len, 0, NULL);
	}
	free(text);
	return doc;
}

int
sweep_doc_add(json_t *doc, const struct perf_result *r, unsigned int round)
{
	json_t *one = sweep_printed(r);
	json_t *result = json_array_get(json_object_get(one, "results"), 0);
	int rc = result == NULL;

	if (rc == 0) {
		rc |= json_object_set_new(result, "round", json_integer(round));
		rc |= json_array_append(json_object_get(doc, "results"), result);
		/* what --json says of the whole run stays, beside what a sweep says */
		rc |= json_object_del(one, "results");
		rc |= json_object_update_missing(doc, one);
	}
	json_decref(one);
	return rc == 0 ? 0 : -ENOMEM;
}

static json_t *
sweep_job(const struct perf_job *job, unsigned int round)
{
	json_t *o =
	        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:b}", "test", perf_test_names[job->test],
	                  "mode", job->latency ? "latency" : "bandwidth", "bytes",
	                  (int)job->size_bytes, "depth", (int)job->depth, "qps", (int)job->qps,
	                  "round", (int)round, "bidirectional", (int)job->both_ways);

	/* As --json has them. */
	json_object_set_new(o, "post_list", json_integer(job->post_list));
	json_object_set_new(o, "rate_asked", json_real(job->rate));
	json_object_set_new(o, "events", json_boolean(job->events));
	json_object_set_new(o, "workers", json_integer(job->workers > 1 ? job->workers : 1));
	return o;
}

int
sweep_doc_failed(json_t *doc, const struct perf_job *job, unsigned int round, const char *why)
{
	json_t *o = sweep_job(job, round);
	json_t *text = json_string(why);

	if (text == NULL)
		text = json_string("the reason is not UTF-8");
	if (json_object_set_new(o, "why", text) != 0)
		return -ENOMEM;
	return json_array_append_new(json_object_get(doc, "failed"), o) == 0 ? 0 : -ENOMEM;
}

/* ---- CSV ---- */

static void
sweep_cell(FILE *f, const json_t *v)
{
	if (json_is_string(v)) {
		fputc('"', f);
		for (const char *c = json_string_value(v); *c != '\0'; c++) {
			if (*c == '"')
				fputc('"', f);
			fputc(*c, f);
		}
		fputc('"', f);
	} else if (json_is_integer(v)) {
		fprintf(f, "%lld", (long long)json_integer_value(v));
	} else if (json_is_real(v)) {
		fprintf(f, "%.12g", json_real_value(v));
	} else if (json_is_boolean(v)) {
		fputs(json_is_true(v) ? "true" : "false", f);
	}
}

/** The warnings of a result, in one cell; empty without any. */
static void
sweep_warnings(FILE *f, const json_t *result)
{
	const json_t *all = json_object_get(result, "warnings"), *v;
	const char *between = "";
	char *text = NULL;
	size_t len = 0, i;
	json_t *cell;
	FILE *to;

	if (json_array_size(all) == 0)
		return;
	to = open_memstream(&text, &len);
	if (to == NULL)
		return;
	json_array_foreach(all, i, v)
	{
		fprintf(to, "%s%s", between, json_string_value(v));
		between = "; ";
	}
	fclose(to);
	cell = json_string(text);
	sweep_cell(f, cell);
	json_decref(cell);
	free(text);
}

/** The keys of all results, in the order of their first appearance. */
static json_t *
sweep_columns(const json_t *results)
{
	json_t *keys = json_object(), *r, *v;
	const char *key;
	size_t i;

	for (unsigned int k = 0; k < 6; k++) {
		static const char *const first[] = {"test",  "mode", "bytes",
		                                    "depth", "qps",  "round"};

		json_object_set_new(keys, first[k], json_true());
	}
	json_array_foreach(results, i, r)
	        json_object_foreach(r, key, v) if (!json_is_object(v) && !json_is_array(v))
	                json_object_set_new(keys, key, json_true());
	return keys;
}

void
sweep_csv(FILE *f, const struct sweep *s)
{
	const json_t *results = json_object_get(s->doc, "results");
	json_t *keys = sweep_columns(results), *unused;
	const char *key;
	size_t next = 0;

	fputs("status", f);
	json_object_foreach(keys, key, unused) fprintf(f, ",%s", key);
	fputs(",warnings\r\n", f);
	for (unsigned int i = 0; i < s->plan.runs; i++) {
		const json_t *status = json_array_get(s->status, i);
		unsigned int round;
		const struct plan_point *p = plan_run(&s->plan, i, &round);
		bool ok = strcmp(json_string_value(status), "ok") == 0;
		json_t *row = ok ? json_incref(json_array_get(results, next++))
		                 : sweep_job(&p->job, round);

		sweep_cell(f, status);
		json_object_foreach(keys, key, unused)
		{
			fputc(',', f);
			sweep_cell(f, json_object_get(row, key));
		}
		fputc(',', f);
		sweep_warnings(f, row);
		fputs("\r\n", f);
		json_decref(row);
	}
	json_decref(keys);
}
