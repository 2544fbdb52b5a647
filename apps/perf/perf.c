/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-perf: runs one job after the other. */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "addr.h"
#include "args.h"
#include "compare.h"
#include "loop.h"
#include "reproduce.h"
#include "seal.h"
#include "stack.h"
#include "sweep.h"
#include "table.h"
#include "trust.h"
#include "ui.h"
#include "warn.h"
#include "wrap.h"

#define MAX_SIZES 32
#define BUSY_S    5

static volatile sig_atomic_t stop;
static bool live;     /**< a line on the terminal is to be erased */
static FILE *tick_to; /**< where forever_tick() prints */

static void
on_signal(int sig)
{
	/* A second one ends the program at once. */
	stop = 1;
	signal(sig, SIG_DFL);
}

/** Show what a run file makes this program do, before it does. */
static void
say_command(const struct args *a)
{
	char word[1024], *line = NULL;
	size_t len;
	FILE *f = open_memstream(&line, &len);

	if (f == NULL)
		ui_die("no memory");
	fprintf(f, "runs: weft-perf");
	for (unsigned int i = 1; a->command[i] != NULL; i++)
		fprintf(f, " %s", ui_printable(a->command[i], word, sizeof(word)));
	if (fclose(f) != 0)
		ui_die("no memory");
	wrap_text(stderr, line);
	free(line);
}

static void
bring_up(struct args *a, struct stack *st)
{
	const struct stack_opt so = {.progname = "weft-perf"};
	char err[CONF_ERR_MAX];

	if (port_args_conf(&a->port_args, &a->conf, err, sizeof(err)) != 0) {
		const char *config = a->port_args.config;

		/* The text of a run file has no name of its own. */
		if (a->config != NULL && strncmp(err, config, strlen(config)) == 0)
			ui_die("%s: the configuration in it, of %s%s", a->run_file, a->config,
			       err + strlen(config));
		ui_die("%s", err);
	}
	if (a->workers > a->conf.nworkers && a->conf.nworkers > 0)
		ui_die("--workers %u: %s", a->workers,
		       a->port_args.config == NULL
		               ? "it takes --config, with as many [worker NAME] sections"
		               : "the configuration has fewer [worker NAME] sections");
	if (a->untrusted && !trust_not_needed(&a->conf, err, sizeof(err)))
		ui_die("%s: %s; give --trust if you know where the run file comes from",
		       a->run_file, err);
	if (a->untrusted && a->overwrite)
		ui_die("%s: it writes over a volume; give --trust if you mean it", a->run_file);
	if (a->run_file != NULL)
		say_command(a);
	a->conf.nworkers = a->conf.nworkers < a->workers ? a->conf.nworkers : a->workers;
	if (stack_up(&a->conf, &so, st, err, sizeof(err)) != 0)
		ui_die("%s", err);
	if (st->nworkers == 0)
		ui_die("%s: there is no [port]", a->port_args.config);
}

/** The sizes and iterations of all runs of this command. */
static unsigned int
plan(struct args *a, struct perf_job jobs[MAX_SIZES])
{
	unsigned int n = 0;
	uint32_t first = a->job.size_bytes, last;
	char why[256];

	if (perf_is_word(a->job.test))
		first = 8;
	else if (a->all)
		first = 2;
	else if (first == 0 && a->job.test == PERF_RPC_NULL)
		first = 1;
	else if (first == 0)
		first = perf_is_place(a->job.test) || perf_is_volume(a->job.test) ||
		                        a->job.test == PERF_RPC_DURABLE
		                ? 4096
		        : a->job.latency ? 64
		                         : 65536;
	if (a->mix.sizes != NULL || a->mix.tests != NULL) {
		mix_make(&a->mix, a->job.test, first);
		a->job.mix = &a->mix;
		first = a->mix.max_bytes;
	}
	last = a->all ? 1u << 20 : first;
	for (uint64_t size = first; size <= last && n < MAX_SIZES; size *= 2) {
		struct perf_job *j = &jobs[n++];

		*j = a->job;
		j->size_bytes = (uint32_t)size;
		j->rate = a->rate_is_bits
		                  ? a->rate / 8 /
		                            (a->job.mix != NULL ? a->mix.mean_bytes : (double)size)
		                  : a->rate;
		if (j->latency && j->rate > 0 && j->duration_s != 0) {
			j->iterations = (uint64_t)(j->rate * j->duration_s / j->qps);
			j->iterations = j->iterations > 0 ? j->iterations : 1;
			j->duration_s = 0;
		}
		if (j->latency &&
		    j->rate == 0) /* queues no longer than used, so that they stay in the cache */
			j->depth = 1;
		if (a->forever)
			j->duration_s = PERF_FOREVER_S;
		if (j->iterations == 0 && j->duration_s == 0) {
			j->iterations = j->latency ? 100000 : 1000000;
			if (j->iterations * size > 4ull << 30)
				j->iterations = (4ull << 30) / size;
			if (j->iterations < 100)
				j->iterations = 100;
		}
		if (!perf_job_check(j, why, sizeof(why)))
			ui_usage_die("%s", why);
		j->warmup = j->duration_s != 0 || j->iterations > 10000
		                    ? 1000
		                    : (uint32_t)(j->iterations / 10);
		if ((uint64_t)j->warmup * size > 256u << 20)
			j->warmup = (uint32_t)((256u << 20) / size);
	}
	return n;
}

/** What the jobs run on. */
static void
side_make(const struct stack *st, const struct conf *c, struct perf_side *side)
{
	_Static_assert(CONF_WORKERS_MAX <= PERF_MAX_WORKERS, "each worker has its place");

	*side = (struct perf_side){
	        .ctx = st->ctx, .workers = st->workers, .nworkers = st->nworkers, .mpa = c->mpa};
	side->mpa.size = sizeof(side->mpa);
	if (c->nports == 1 && st->nports == 1) {
		side->port = st->ports[0];
		side->dev = c->ports[0].dev;
	}
	for (uint32_t i = 0; i < st->nworkers; i++) {
		side->lcore[i] = c->workers[i].lcore;
		side->spin[i] = c->workers[i].spin;
	}
}

/** Whether a run has failed because nothing listens there, or nothing answers. */
static bool
no_one_there(int rc)
{
	return rc == -ECONNREFUSED || rc == -ETIMEDOUT || rc == -EHOSTUNREACH || rc == -ENETUNREACH;
}

/** Run one job. The server may still be busy with the previous client for a moment, so it is
 * tried again. */
static int
run_job(const struct perf_side *side, const struct sockaddr_storage *to, struct perf_job *job,
        uint32_t wait_s, struct perf_result *res, char *why, size_t why_bytes)
{
	const uint64_t now_ns = ui_now_ns(), no_server = now_ns + wait_s * 1000000000ull;
	const uint64_t give_up = now_ns + BUSY_S * 1000000000ull;
	int rc;

	for (;;) {
		rc = perf_client_run(side, (const struct sockaddr *)to, addr_len(to), job, res, why,
		                     why_bytes);
		if (rc == -EMEDIUMTYPE && !job->visible) {
			job->visible = true;
			continue;
		}
		if (stop || (rc == -EAGAIN ? ui_now_ns() > give_up
		                           : !no_one_there(rc) || ui_now_ns() > no_server))
			return rc;
		usleep(100000);
	}
}

/** One row a second of a run without an end. */
static void
forever_tick(const struct perf_tick *t)
{
	const double seconds = (double)t->second_ns / 1e9;
	struct perf_result r = {.job = *t->job,
	                        .iterations = t->messages,
	                        .seconds = seconds,
	                        .cycles_per_msg = (double)NAN};

	r.mmsgs = (double)t->messages / seconds / 1e6;
	r.avg_mbps = r.peak_mbps = r.mmsgs * perf_mean_bytes(&r.job);
	perf_print_row(tick_to, &r);
}

/** The time that a run still takes: ", 5 s left"; empty if it is not known. */
static const char *
live_left(const struct perf_tick *t, char *buf, size_t bytes)
{
	const double rate = (double)t->messages * 1e9 / (double)t->second_ns;

	buf[0] = '\0';
	if (t->all != 0 && t->messages > 0)
		snprintf(buf, bytes, ", %.0f s left", (double)(t->all - t->done) / rate);
	else if (t->job->duration_s != 0)
		snprintf(buf, bytes, ", %.0f s left",
		         t->job->duration_s - (double)t->elapsed_ns / 1e9);
	return buf;
}

/** A line on a terminal that shows how a long run goes. */
static void
live_tick(const struct perf_tick *t)
{
	const struct perf_job *j = t->job;
	const double seconds = (double)t->second_ns / 1e9, n = (double)t->messages;
	const unsigned int width = wrap_width(stderr);
	char what[96], line[256], left[32];

	if (j->latency && j->rate == 0 && t->messages > 0)
		snprintf(what, sizeof(what), "%.0f round trips/s, %.2f us each", n / seconds,
		         seconds * 1e6 * (j->workers > 1 ? j->workers : 1) / n);
	else if (j->latency)
		snprintf(what, sizeof(what), "%.0f answers/s", n / seconds);
	else if (j->reversed && !perf_takes_receive(j->test))
		snprintf(what, sizeof(what), "the server sends");
	else
		snprintf(what, sizeof(what), "%s%.3f M messages/s, %.1f MB/s",
		         j->both_ways ? "sent "
		         : j->verify  ? "compared "
		                      : "",
		         n / seconds / 1e6, n / seconds * perf_mean_bytes(j) / 1e6);
	snprintf(line, sizeof(line), "%.0f octets: %s, %.0f s so far%s", perf_mean_bytes(j), what,
	         (double)t->elapsed_ns / 1e9, live_left(t, left, sizeof(left)));
	/* A line that goes on in the next one could not be erased. */
	fprintf(stderr, "\r%.*s\033[K", (int)(width > 1 ? width - 1 : 79), line);
	fflush(stderr);
	live = true;
}

static void
live_erase(void)
{
	if (live)
		fprintf(stderr, "\r\033[K");
	live = false;
}

/* ---- The file of --out ---- */

static const char *out_path; /**< is removed when the program ends; NULL: none, or it has results */

static void
out_remove(void)
{
	if (out_path != NULL)
		unlink(out_path);
	out_path = NULL;
}

/** Make the file of --out, before anything is measured. It is removed at the end unless it gets
 * results. */
static void
out_open(struct args *a)
{
	if (a->out == NULL)
		return;
	a->out_file = fopen(a->out, "wxe");
	if (a->out_file == NULL)
		ui_die("%s: %s", a->out,
		       errno == EEXIST ? "the file exists; remove it or name another"
		                       : strerror(errno));
	out_path = a->out;
	atexit(out_remove);
}

/** Write the document, with its hash, and keep it where it is asked for. */
static void
write_document(const struct args *a, FILE *out, const struct perf_result *res, unsigned int n)
{
	const struct perf_about about = {.command = a->command,
	                                 .started = a->started,
	                                 .config = a->config != NULL ? a->config
	                                                             : a->port_args.config,
	                                 .content = a->content,
	                                 .failed = a->failed};
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (f == NULL)
		ui_die("no memory");
	perf_print_json(f, &about, res, n);
	if (fclose(f) != 0)
		ui_die("no memory");
	if (out != NULL)
		seal_write(out, text, len);
	if (a->document != NULL)
		*a->document = text;
	else
		free(text);
}

static void
print_region(const char *region)
{
	char line[160];

	snprintf(line, sizeof(line), " region: %s", region);
	wrap_text(stdout, line);
}

/** Print what is printed at the end. 0; or the exit status. */
static int
finish(const struct args *a, FILE *out, const struct perf_result *res, unsigned int n)
{
	char why[128], size[48];
	int rc = 0;

	if (a->csv && a->job.keep_samples)
		perf_print_samples_csv(out, res, n);
	else if (a->csv)
		perf_print_csv(out, res, n);
	else if (a->json || out != stdout || a->document != NULL)
		write_document(a, out == stdout && a->document != NULL ? NULL : out, res, n);
	if (!a->json && !a->csv && n > 0 && res[0].region[0] != '\0')
		print_region(res[0].region);
	if (!a->json && !a->csv && n > 0 && (a->job.no_crc || a->job.markers))
		perf_print_mpa(stdout, &res[0]);
	if (out != stdout && (fflush(out) != 0 || fclose(out) != 0)) {
		ui_msg("%s: %s", a->out, strerror(errno));
		rc = UI_EXIT_FAIL;
	}
	if (n > 0 && !a->any_freq)
		warn_frequency();
	for (unsigned int i = 0; i < n; i++) {
		warn_print(&res[i]);
		expect_warn(&a->expect, &res[i]);
		if (expect_met(&a->expect, &res[i], why, sizeof(why)))
			continue;
		ui_msg("%s of %s does not meet %s", perf_job_name(&res[i].job),
		       perf_size_text(&res[i].job, size, sizeof(size)), why);
		rc = rc != 0 ? rc : PERF_EXIT_EXPECT;
	}
	return rc;
}

/** Say below a row that it is not of all that was asked for, or that it is the sum of those above
 * it. */
static void
print_note(const struct perf_result *r)
{
	const struct perf_job *j = &r->job;
	const char *how = r->ended ? "ended" : "interrupted";
	char line[160];

	if (j->duration_s == PERF_FOREVER_S)
		snprintf(line, sizeof(line), " the last row is the total of %.1f s%s", r->seconds,
		         r->ended ? ", after which the run failed" : "");
	else if (!r->ended && !r->interrupted)
		return;
	else if (j->duration_s != 0)
		snprintf(line, sizeof(line), " %s after %.1f of %u s", how, r->seconds,
		         j->duration_s - 2 * j->margin_s);
	else
		snprintf(line, sizeof(line), " %s after %" PRIu64 " of %" PRIu64 " iterations", how,
		         r->iterations, j->iterations * j->qps);
	wrap_text(stdout, line);
}

/** Run all jobs and print them. Returns the exit status. */
static int
measure(struct args *a, const struct perf_side *side, const struct sockaddr_storage *to)
{
	struct perf_job jobs[MAX_SIZES], *job;
	const bool table = !a->json && !a->csv;
	const unsigned int njobs = plan(a, jobs), all = njobs * a->rounds;
	struct perf_result *res = calloc(all, sizeof(*res));
	unsigned int done = 0;
	char why[256], size[48], port[8] = "";
	int rc = 0, status;

	if (res == NULL)
		ui_die("no memory");
	if (a->job.hosts == NULL)
		snprintf(port, sizeof(port), ":%u", a->port);
	/* With --json and --csv standard output is one document. */
	tick_to = table ? stdout : stderr;
	if (table || a->forever)
		perf_print_head(tick_to, &jobs[0], a->rounds > 1);
	/* A round has all sizes, so that a drift of the machine reaches all alike. */
	for (unsigned int i = 0; i < all && rc == 0 && !stop; i++) {
		job = &jobs[i % njobs];
		job->stop = &stop;
		job->tick = a->forever ? forever_tick : isatty(2) ? live_tick : NULL;
		rc = run_job(side, to, job, a->wait_s, &res[i], why, sizeof(why));
		live_erase();
		/* The terminal has written "^C" where the next row begins. */
		if (a->forever && stop && wrap_width(tick_to) != 0)
			fputc('\n', tick_to);
		if (rc != 0) {
			ui_msg("%s%s: %s %s of %s: %s", a->host, port, perf_job_name(job),
			       job->latency ? "latency" : "bandwidth",
			       perf_size_text(job, size, sizeof(size)), why);
			a->failed = why;
			if (!res[i].ended)
				break;
		} else if (res[i].interrupted && !a->forever) {
			a->failed = "interrupted";
		}
		done++;
		res[i].round = a->rounds > 1 ? i / njobs + 1 : 0;
		if (table)
			perf_print_row(stdout, &res[i]);
		if (table && a->both)
			perf_print_both(stdout, &res[i]);
		if (table)
			print_note(&res[i]);
		if (table && a->out == NULL && job->keep_samples)
			perf_print_samples(stdout, &res[i]);
		if (a->histogram)
			perf_print_histogram(stdout, &res[i]);
	}
	if (done < all && a->failed == NULL)
		a->failed = "interrupted";
	/* A run without a result leaves no file. */
	if (done > 0)
		out_path = NULL;
	status = finish(a, a->out == NULL || done == 0 ? stdout : a->out_file, res, done);
	for (unsigned int i = 0; i < done; i++)
		perf_result_free(&res[i]);
	free(res);
	return rc != 0 ? UI_EXIT_FAIL : status;
}

/* ---- Sweep ---- */

static struct perf_side sweep_side;
static struct sockaddr_storage sweep_to;

/** A sweep_run: complete the job as the command line's are, and run it. */
static int
sweep_one(const struct perf_job *job, struct perf_result *out, char *why, size_t why_bytes)
{
	static struct args one;
	struct perf_job jobs[MAX_SIZES];
	int rc;

	one.job = *job;
	one.rate = job->rate;
	plan(&one, jobs);
	jobs[0].stop = &stop;
	rc = run_job(&sweep_side, &sweep_to, &jobs[0], 0, out, why, why_bytes);
	if (rc != 0)
		perf_result_free(out);
	return rc == 0 && out->interrupted ? -EINTR : rc;
}

static int
sweep_command(int argc, char **argv)
{
	static struct args a;
	struct sigaction sa = {.sa_handler = on_signal};
	struct stack st = {0};
	struct sweep s = {0};
	char why[512];
	int rc;

	ui_init("weft-perf sweep");
	sweep_parse(&s, argc, argv);
	if (addr_parse(s.host, s.port, &sweep_to) != 0)
		ui_usage_die("'%s' is neither an IPv4 nor an IPv6 address", s.host);
	if (sweep_begin(&s, why, sizeof(why)) != 0)
		ui_die("%s", why);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	a.port_args = s.port_args;
	a.workers = s.plan.workers;
	bring_up(&a, &st);
	side_make(&st, &a.conf, &sweep_side);
	stack_await_partner(&st, &stop);
	rc = sweep_go(&s, sweep_one, &stop);
	stack_down(&st);
	sweep_end(&s);
	return rc;
}

/** The arguments in their order, which getopt_long() changes. */
static char **
copy_command(int argc, char **argv)
{
	char **copy = calloc((size_t)argc + 1, sizeof(*copy));

	if (copy == NULL)
		ui_die("no memory");
	for (int i = 0; i < argc; i++)
		copy[i] = argv[i];
	return copy;
}

/** Serve, or measure. Returns the exit status. */
static int
run_args(struct args *a)
{
	struct sockaddr_storage to;
	struct sigaction sa = {.sa_handler = on_signal};
	struct stack st = {0};
	struct perf_side side;
	const time_t t = time(NULL);
	char why[512];
	size_t len;
	struct tm tm;
	int rc;

	perf_gbits = a->gbits;
	if (a->job.hosts != NULL)
		to = a->hosts.at[0].to;
	else if (addr_parse(a->server ? "::" : a->host, a->port, &to) != 0)
		ui_usage_die("'%s' is neither an IPv4 nor an IPv6 address", a->host);
	out_open(a);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	gmtime_r(&t, &tm);
	strftime(a->started, sizeof(a->started), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (!a->server && a->port_args.config != NULL && a->content == NULL)
		a->content = doc_read(a->port_args.config, &len, why, sizeof(why));
	bring_up(a, &st);
	side_make(&st, &a->conf, &side);
	if (a->server) {
		fprintf(stderr, "weft-perf: waiting for clients on port %u\n", a->port);
		rc = perf_server_run(&side, (struct sockaddr *)&to, addr_len(&to), &a->medium,
		                     a->once, &stop);
		if (rc != 0)
			ui_msg("cannot serve: %s",
			       rc == -ENODEV ? "the port's device was removed" : strerror(-rc));
		rc = rc != 0 ? UI_EXIT_FAIL : 0;
	} else {
		stack_await_partner(&st, &stop);
		rc = measure(a, &side, &to);
	}
	stack_down(&st);
	free(a->content);
	return rc;
}

/* ---- A run again ---- */

/** Use the configuration that the run file has the text of. */
static void
take_config(const struct reproduce *r, struct args *a)
{
	static char path[32];
	int fd;

	if (r->content == NULL)
		return;
	fd = reproduce_config(r);
	if (fd < 0)
		ui_die("%s: its configuration: %s", r->file, strerror(-fd));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	a->port_args.config = path;
	a->config = r->config;
	a->content = strdup(r->content);
}

static int
reproduce_run(int argc, char **argv)
{
	static struct reproduce r;
	static struct args a;
	char why[512], *text = NULL, **words;
	int rc, status, n = 0;
	json_t *now;

	ui_init("weft-perf reproduce");
	reproduce_parse(&r, argc, argv);
	rc = again_command(r.words, r.command, &r.again, &a.command, why, sizeof(why));
	if (rc != 0)
		ui_die("%s: %s", r.file, why);
	while (a.command[n] != NULL)
		n++;
	words = copy_command(n, a.command);
	args_parse(n, words, &a);
	if (a.server)
		ui_die("%s: its command is of a server", r.file);
	take_config(&r, &a);
	a.run_file = r.file;
	a.untrusted = !r.trust && !r.again.port;
	a.document = &text;
	a.json = r.json;
	a.out = r.out;
	status = run_args(&a);
	now = text != NULL ? doc_parse("the new run", text, strlen(text), why, sizeof(why)) : NULL;
	rc = status == 0 || status == PERF_EXIT_EXPECT ? 0 : status;
	if (rc == 0 && now == NULL)
		ui_die("%s", why);
	if (rc == 0) {
		rc = reproduce_judge(&r, now);
		rc = rc != 0 ? rc : status;
	} else {
		json_decref(now);
	}
	reproduce_end(&r);
	again_free(a.command);
	free(words);
	free(text);
	return rc;
}

int
main(int argc, char **argv)
{
	static struct args a;
	int rc;

	ui_init("weft-perf");
	if (argc > 1 && strcmp(argv[1], "compare") == 0)
		return compare_main(argc - 1, argv + 1);
	ui_keep_memory();
	loop_note_cpus();
	if (argc > 1 && strcmp(argv[1], "reproduce") == 0)
		return reproduce_run(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "sweep") == 0)
		return sweep_command(argc - 1, argv + 1);
	if (sched_getaffinity(0, sizeof(a.medium.cpus), &a.medium.cpus) != 0)
		CPU_ZERO(&a.medium.cpus);
	a.command = copy_command(argc, argv);
	args_parse(argc, argv, &a);
	rc = run_args(&a);
	free(a.command);
	return rc;
}
