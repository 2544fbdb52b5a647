/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-target: the daemon that exports persistent memory. */

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "addr.h"
#include "key_check.h"
#include "target.h"
#include "target_control.h"
#include "target_file.h"
#include "target_lines.h"
#include "target_metrics.h"
#include "target_nvmf.h"
#include "target_opening.h"
#include "target_quota.h"
#include "target_restart.h"
#include "target_service.h"
#include "target_size.h"
#include "target_slow.h"
#include "target_slow_pcap.h"
#include "target_state.h"
#include "target_volume.h"
#include "ui.h"

#define TARGET_HANG_UP_MS 1000
#define TARGET_SOON_MS    20 /* while a request of the control socket waits for something */

static void
usage(void)
{
	fputs("usage: weft-target -c FILE.ini\n"
	      "       weft-target -c FILE.ini --size [--volumes N] [--clients N]\n"
	      "\n"
	      "Export files or persistent memory to weft-cp and other initiators. The\n"
	      "program runs in the foreground and logs to standard error. The line\n"
	      "\"weft-target: ready: ...\" shows that it serves. SIGTERM and SIGINT close the\n"
	      "connections and end the program. SIGHUP makes it read the configuration\n"
	      "again. Grants that exceed the new rights of an export are revoked, revoke_ms\n"
	      "after a warning. Clients and their keys are replaced by those of the file.\n"
	      "\n"
	      "  -c, --config FILE   use this configuration (docs/configuration.md)\n"
	      "      --check-config  check the configuration, describe its first error, and\n"
	      "                      change nothing\n"
	      "      --beside PID    with --check-config or --size: this start replaces the\n"
	      "                      target of process PID, which gives its memory back\n"
	      "      --help-config   print all sections and keys\n"
	      "      --help-metrics  print all metrics\n"
	      "      --log-format F  lines of the log as text, as text with time and level\n"
	      "                      (time), or as JSON (json) [as FILE says]\n"
	      "      --size          print how much memory and how many hugepages are needed,\n"
	      "                      and what the machine has. Exit status 1: too little\n"
	      "      --volumes N     with --size: so many volumes [those of FILE]\n"
	      "      --clients N     with --size: so many connections [as many as may be]\n"
	      "      --strict        do not start when an export cannot be opened. Without\n"
	      "                      this option the other exports are served, and SIGHUP\n"
	      "                      tries to open it again\n"
	      "      --version       print the version\n"
	      "  -h, --help          print this text\n"
	      "\n"
	      "Exit status: 0 ended by a signal; 1 an error, which one line describes, or the\n"
	      "devices of all ports were removed; 2 a wrong command line.\n",
	      stdout);
}

/** Open files up to the hard limit: each volume has several. */
static void
raise_files(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &lim);
	}
}

#define SAY_MORE 32 /* octets of " and 4096 more" and of what is between names */

static void
say_ready(const struct target *t)
{
	char line[1984] = "ready:"; /* a line of ui_msg() has 2 KiB */
	bool first = true;
	const char *sep = "; exports";
	unsigned int more = 0;
	size_t n = strlen(line);

	for (uint32_t i = 0; i < t->conf.nports; i++)
		for (uint32_t k = 0; k < t->conf.ports[i].nnets && n < sizeof(line); k++) {
			const struct conf_net *net = &t->conf.ports[i].nets[k];
			bool v6 = net->addr.ss_family == AF_INET6;
			char ip[ADDR_STR_MAX], vlan[24] = "";

			if (!target_listens(t, &net->addr))
				continue;
			if (net->vlan_id != 0 && net->network >= 0)
				snprintf(vlan, sizeof(vlan), ", VLAN %u", net->vlan_id);
			n += (size_t)snprintf(
			        line + n, sizeof(line) - n, "%s %s%s%s:%u (%s%s)", first ? "" : ",",
			        v6 ? "[" : "", addr_host_str(&net->addr, ip), v6 ? "]" : "",
			        t->conf.target.listen_port, t->conf.ports[i].name, vlan);
			first = false;
		}
	for (uint32_t i = 0; i < target_nexports(t) && n < sizeof(line); i++) {
		if (!target_export_up(&t->exports[i]))
			continue;
		if (n + CONF_NAME_MAX + SAY_MORE > sizeof(line)) {
			more++;
			continue;
		}
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s %s", sep,
		                      t->exports[i].conf->name);
		sep = ",";
	}
	if (more > 0)
		snprintf(line + n, sizeof(line) - n, " and %u more", more);
	ui_msg("%s", line);
	if (t->conf.weft.telemetry)
		ui_msg("telemetry: dpdk-telemetry.py -f weft-%ld", (long)getpid());
}

/* Start. -errno with the reason in err; target_down() undoes the parts that were done. */
static int
target_up(struct target *t, char *err, size_t err_size)
{
	const struct weft_ctx_attr ca = {.max_regions = target_quota_regions(&t->conf)};
	struct stack_opt opt = {.progname = "weft-target", .ctx = &ca, .serves = true};
	struct weft_port_stats ps;
	int node = -1, rc;

	rc = stack_up(&t->conf, &opt, &t->stack, err, err_size);
	if (rc != 0)
		return rc;
	if (weft_port_stats(t->stack.ports[0], &ps) == 0)
		node = ps.numa_node;
	target_watch_open(t);
	target_tickets_up(t);
	t->numa_node = node;
	rc = target_slow_up(t);
	if (rc != 0)
		snprintf(err, err_size, "slow operations: out of memory");
	if (rc == 0)
		rc = target_metrics_up(t, err, err_size);
	if (rc == 0)
		rc = target_volumes_up(t, err, err_size);
	if (rc == 0)
		rc = target_nvmf_up(t, err, err_size);
	if (rc == 0)
		rc = target_exports_open(t, node, err, err_size);
	if (rc == 0)
		rc = target_quota_up(t, err, err_size);
	if (rc == 0)
		rc = target_auth_open(t, err, err_size);
	if (rc == 0)
		rc = target_admit_open(t, err, err_size);
	if (rc == 0)
		rc = target_listen(t, err, err_size);
	if (rc == 0)
		rc = target_nvmf_listen(t, err, err_size);
	if (rc == 0)
		rc = stack_start(&t->stack, err, err_size);
	t->running = rc == 0;
	return rc;
}

/* For --check-config, after the configuration was read: check whether a start would succeed.
 * Changes nothing. beside: there is only room for it once the target that runs has ended, so
 * nothing of that size is allocated here. */
static int
target_check(struct target *t, bool beside, char *err, size_t err_size)
{
	const struct weft_ctx_attr ca = {.max_regions = target_quota_regions(&t->conf)};
	const struct stack_opt opt = {.progname = "weft-target",
	                              .ctx = &ca,
	                              .check = true,
	                              .serves = true,
	                              .quiet = true};
	int rc = beside ? 0 : stack_up(&t->conf, &opt, &t->stack, err, err_size);

	if (rc == -ENOTSUP)
		ui_msg("memory for ports and connections is not looked at: DPDK's net_null is not "
		       "installed");
	else if (rc != 0)
		return rc;
	/* With the stack up, because it takes its memory first. */
	rc = target_exports_check(t, err, err_size);
	if (rc == 0)
		rc = target_admit_open(t, err, err_size);
	if (rc == 0)
		rc = control_socket_check(&t->conf.target, err, err_size);
	if (!beside)
		stack_down(&t->stack);
	return rc;
}

/* Workers are stopped. The context frees the regions, so exports are closed after it. */
static void
target_down(struct target *t)
{
	target_control_stopped(t);
	target_conn_fini(t);
	target_volumes_drain(t, TARGET_HANG_UP_MS);
	target_nvmf_down(t);
	if (t->stack.ctx != NULL)
		weft_ctx_destroy(t->stack.ctx);
	t->stack.ctx = NULL;
	target_io_end(t);
	for (uint32_t i = 0; i < target_nexports(t); i++) {
		target_watch_end(t, &t->exports[i]);
		if (t->exports[i].volume != NULL)
			(void)target_volume_detach(t, &t->exports[i]);
		target_export_close(&t->exports[i]);
	}
	target_volumes_down(t);
	target_control_free(t);
	target_watch_close(t);
	target_tickets_down(t);
	target_metrics_down(t);
	slow_pcap_free(t);
	target_slow_down(t);
	quota_destroy(t->quota);
	target_auth_close(t);
	stack_down(&t->stack);
	state_close(t->state);
	t->state = NULL;
}

/** Wait for a signal; check the files meanwhile. 0: no port is left; SIGUSR1: the control socket
 * asks for the end. */
static int
next_signal(struct target *t, const sigset_t *set)
{
	const struct timespec while_ns = {.tv_nsec = TARGET_WATCH_MS * 1000000L};
	const struct timespec soon_ns = {.tv_nsec = TARGET_SOON_MS * 1000000L};
	bool soon = false;
	int sig;

	for (;;) {
		sig = sigtimedwait(set, NULL, soon ? &soon_ns : &while_ns);
		if (sig > 0 && sig != SIGIO && sig != SIGUSR1)
			return sig;
		/* SIGUSR1 says that the control socket has something to do. */
		soon = target_control_run(t);
		if (t->stop_asked)
			return SIGUSR1;
		if (sig == SIGUSR1)
			continue;
		if (sig == SIGIO) {
			target_watch_told(t);
			continue;
		}
		if (stack_cut_off(&t->stack))
			return 0;
		target_watch_some(t);
		target_tickets_look(t);
		target_quota_look(t);
		target_memory_look(t);
		target_nvmf_look(t);
	}
}

/** The target runs: close its connections and everything else. */
static void
end_now(struct target *t)
{
	target_tel_end();
	target_metrics_end(t);
	target_control_end(t);
	slow_pcap_end(t);
	target_nvmf_hang_up(t, TARGET_HANG_UP_MS);
	target_hang_up(t, TARGET_HANG_UP_MS);
	stack_stop(&t->stack);
	t->running = false;
	target_down(t);
}

/** Exports that are served now. */
static uint32_t
served(struct target *t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < target_nexports(t); i++)
		n += target_export_up(&t->exports[i]);
	return n;
}

static void
log_format_option(struct target *t, const char *word)
{
	static const char *const words[] = {
	        [CONF_LOG_TEXT] = "text", [CONF_LOG_TIME] = "time", [CONF_LOG_JSON] = "json"};

	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(word, words[i]) == 0) {
			t->log_format_given = true;
			target_lines_format(i);
			return;
		}
	ui_usage_die("--log-format: '%s' is not " CONF_LOG_FORMATS, word);
}

static struct target target = {.watch_fd = -1,
                               .exports_lock = PTHREAD_MUTEX_INITIALIZER,
                               .captures.lock = PTHREAD_MUTEX_INITIALIZER};

int
main(int argc, char **argv)
{
	enum {
		OPT_CHECK = 256,
		OPT_BESIDE,
		OPT_HELP_CONFIG,
		OPT_HELP_METRICS,
		OPT_LOG_FORMAT,
		OPT_STRICT,
		OPT_VERSION,
		OPT_SIZE,
		OPT_VOLUMES,
		OPT_CLIENTS
	};
	static const struct option longopts[] = {
	        {"config", required_argument, NULL, 'c'},
	        {"check-config", no_argument, NULL, OPT_CHECK},
	        {"beside", required_argument, NULL, OPT_BESIDE},
	        {"help-config", no_argument, NULL, OPT_HELP_CONFIG},
	        {"help-metrics", no_argument, NULL, OPT_HELP_METRICS},
	        {"log-format", required_argument, NULL, OPT_LOG_FORMAT},
	        {"strict", no_argument, NULL, OPT_STRICT},
	        {"size", no_argument, NULL, OPT_SIZE},
	        {"volumes", required_argument, NULL, OPT_VOLUMES},
	        {"clients", required_argument, NULL, OPT_CLIENTS},
	        {"version", no_argument, NULL, OPT_VERSION},
	        {"help", no_argument, NULL, 'h'},
	        {0},
	};
	struct target *t = &target;
	const char *file = NULL;
	char err[CONF_ERR_MAX + CONF_PATH_MAX];
	struct size_ask ask = {.volumes = UINT32_MAX, .clients = UINT32_MAX};
	uint64_t beside = 0;
	struct size_room room, alone;
	bool check = false, size = false;
	sigset_t set;
	int opt, sig;

	ui_init("weft-target");
	target_memory_sparse(&target, sizeof(target));
	target_restart_begin(argv);
	target_lines_keep();
	ui_keep_memory();
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "c:h", longopts, NULL)) != -1) {
		switch (opt) {
		case 'c':
			file = optarg;
			break;
		case OPT_CHECK:
			check = true;
			break;
		case OPT_BESIDE:
			beside = ui_arg_u64("--beside", optarg, 1, INT32_MAX);
			break;
		case OPT_HELP_CONFIG:
			conf_print_reference(stdout);
			return 0;
		case OPT_HELP_METRICS:
			target_metrics_reference(stdout);
			return 0;
		case OPT_LOG_FORMAT:
			log_format_option(t, optarg);
			break;
		case OPT_STRICT:
			t->strict = true;
			break;
		case OPT_SIZE:
			size = true;
			break;
		case OPT_VOLUMES:
			ask.volumes = (uint32_t)ui_arg_u64("--volumes", optarg, 0, 1000000);
			break;
		case OPT_CLIENTS:
			ask.clients = (uint32_t)ui_arg_u64("--clients", optarg, 0, 16777216);
			break;
		case OPT_VERSION:
			ui_version();
			return 0;
		case 'h':
			usage();
			return 0;
		default:
			ui_bad_option(argv, longopts);
		}
	}
	if (optind < argc)
		ui_usage_die("%s: no such argument", argv[optind]);
	if (file == NULL)
		ui_usage_die("no configuration; give -c FILE.ini");
	if (!size && (ask.volumes != UINT32_MAX || ask.clients != UINT32_MAX))
		ui_usage_die("--volumes and --clients go with --size");
	if (!size && !check && beside != 0)
		ui_usage_die("--beside goes with --check-config or --size");
	if (beside == 0 && check)
		beside = target_restart_beside();
	size_room("", 0, &alone);
	size_room("", beside, &room);
	conf_memory_had(room.beside_bytes, room.beside_huge_bytes);
	t->conf_file = file;
	t->latest = &t->conf;
	if (conf_load(file, &t->conf, err, sizeof(err)) != 0)
		ui_die("%s", err);
	/* What a person asks for is answered as text. */
	if (!check && !size && !t->log_format_given)
		target_lines_format(t->conf.target.log_format);
	if (t->conf.target.state[0] != '\0') {
		if (state_open(t->conf.target.state, !check && !size, &t->state, err,
		               sizeof(err)) != 0)
			ui_die("%s: %s", file, err);
		if (!check && !size)
			state_resv_settle(t->state, ui_msg);
		state_merge(t->state, &t->conf, ui_msg);
	}
	if (size)
		return size_print(&t->conf, &ask, &room, stdout) == 0 ? 0 : UI_EXIT_FAIL;
	if (t->conf.nexports == 0 && t->state == NULL)
		ui_die("%s: nothing to export; add an [export NAME] section", file);
	if (key_check(&t->conf, err, sizeof(err)) != 0)
		ui_die("%s", err);
	if (size_check(&t->conf, &room, err, sizeof(err)) != 0)
		ui_die("%s: %s", file, err);
	if (check) {
		const bool later = size_check(&t->conf, &alone, err, sizeof(err)) != 0;

		opening_beside(room.beside_bytes);
		if (target_check(t, later, err, sizeof(err)) != 0)
			ui_die("%s", err);
		if (later)
			printf("%s: memory for ports and connections is not looked at: process "
			       "%" PRIu64 " has it\n",
			       file, beside);
		target_admit_room(&t->conf, ui_msg);
		for (uint32_t i = 0; i < t->conf.nports; i++)
			if (conf_dev_unseen(t->conf.ports[i].dev))
				printf("%s:%d: [port %s] dev: the device's own arguments were not "
				       "looked at\n",
				       file, t->conf.ports[i].dev_line, t->conf.ports[i].name);
		printf("%s: good\n", file);
		return 0;
	}

	/* Before the first thread, so that all threads inherit the mask and only this one takes
	 * the signals. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGIO);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	raise_files();
	target_service_begin();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of the call, told as such */

	/* When a mapped file is truncated, its export ends and the program goes on. */
	if (weft_guard_install() != 0)
		ui_msg(UI_WARNING
		       "SIGBUS has another handler: this program ends when a mapped file is "
		       "truncated");
	if (target_up(t, err, sizeof(err)) != 0) {
		for (uint32_t i = 0; i < target_nexports(t); i++)
			target_export_undo(&t->exports[i]);
		target_down(t);
		ui_die("%s", err);
	}
	atomic_store_explicit(&t->revoke_ms, t->conf.target.revoke_ms, memory_order_relaxed);
	target_tel_begin(t);
	target_admit_room(&t->conf, ui_msg);
	t->ready_ns = ui_now_ns();
	if (target_control_begin(t, err, sizeof(err)) != 0 ||
	    target_metrics_begin(t, err, sizeof(err)) != 0) {
		for (uint32_t i = 0; i < target_nexports(t); i++)
			target_export_undo(&t->exports[i]);
		end_now(t);
		ui_die("%s", err);
	}
	say_ready(t);
	target_restart_serves();
	target_service_ready(t->stack.workers, t->stack.nworkers, served(t));
	while ((sig = next_signal(t, &set)) == SIGHUP) {
		target_service_reloading();
		if (target_reload(t, "SIGHUP", err, sizeof(err)) != 0)
			ui_msg(UI_ERR "SIGHUP: %s; nothing was changed", err);
		target_service_reloaded(served(t));
	}
	if (t->restart_asked)
		target_service_restarting();
	else
		target_service_stopping();
	if (!t->restart_asked && sig == 0)
		ui_msg(UI_ERR "ending: no port is left, because every device was removed");
	else
		ui_msg("ending: %s", t->restart_asked ? "weft-ctl restart"
		                     : sig == SIGINT  ? "SIGINT"
		                     : sig == SIGUSR1 ? "weft-ctl stop"
		                                      : "SIGTERM");
	end_now(t);
	if (t->restart_asked) {
		target_restart_now();
		return UI_EXIT_FAIL;
	}
	return sig == 0 ? 1 : 0;
}
