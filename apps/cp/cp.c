/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-cp: push a file into a remote export, pull it back, list exports, make snapshots. */

#include "cp_volume.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "port_args.h"
#include "ui.h"

/* The client's end of the port in weft-target.ini.example. */
#define CP_DEFAULT_DEV  "net_memif0,role=client,id=0,socket=weft,socket-abstract=yes,bsize=10112"
#define CP_DEFAULT_CIDR "10.0.0.2/24"
#define CP_DEFAULT_MTU  9000

#define CP_DEFAULT_BLOCK "256K"
#define CP_DEFAULT_DEPTH 8

static volatile sig_atomic_t cp_signal;

static void
on_signal(int sig)
{
	cp_signal = sig;
}

static void
usage(void)
{
	printf("usage: weft-cp [options] SRC DST\n"
	       "       weft-cp [options] --list weft://HOST[:PORT]\n"
	       "       weft-cp [options] --snapshot NAME | --remove-snapshot NAME |\n"
	       "               --snapshots | --clone NAME [--from SNAPSHOT]\n"
	       "               weft://HOST[:PORT]/EXPORT\n"
	       "\n"
	       "Copy a file to or from an export of a weft-target. One of SRC and DST is a\n"
	       "file. The other is weft://HOST[:PORT]/EXPORT. A push replaces the export's\n"
	       "object as a whole and makes it durable, or changes nothing. A pull never\n"
	       "returns a mixture of two objects, and replaces the local file as a whole or\n"
	       "not at all. An export that is a volume is written or read in place, from\n"
	       "--offset on; holes of a file stay holes.\n"
	       "\n"
	       "Port options:\n"
	       "  -c, --config FILE      use the ports of a configuration file; the\n"
	       "                         environment variable WEFT_CONFIG=FILE does the "
	       "same\n" PORT_ARGS_HELP "  Without these options weft-cp uses the peer of the port "
	       "in weft-target.ini.example:\n"
	       "  %s,\n"
	       "  address %s, mtu %d.\n"
	       "\n"
	       "Options:\n"
	       "      --block SIZE       octets of each Write, Flush and Verify, or of each\n"
	       "                         Read [%s]\n"
	       "      --depth N          blocks in flight [%d]\n"
	       "      --timeout S        seconds to wait for a connection [5], and for any\n"
	       "                         answer [10]\n"
	       "      --wait S           seconds to wait for a busy export [1], and for a range\n"
	       "                         of a volume that another client has [6]\n"
	       "      --rate SIZE        octets a second at most [no limit]\n"
	       "      --offset SIZE      begin at this octet of the volume [0]\n"
	       "      --length SIZE      copy so many octets to or from the volume [all of\n"
	       "                         the file, or up to the end of the volume]\n"
	       "      --hash-key FILE    key of the export's hash, if that hash has a key\n"
	       "      --auth NAME:FILE   authenticate to the target as NAME with the key in\n"
	       "                         FILE\n"
	       "      --pull             push by RPC: the target fetches each block (up to\n"
	       "                         1M), makes it durable and replies\n"
	       "      --no-flush         do not flush; for an export that is not persistent\n"
	       "      --no-verify        do not verify: the data is durable, but is not read\n"
	       "                         back from the medium\n"
	       "      --ignore-revoke    continue after a warning that the export is being\n"
	       "                         revoked\n"
	       "      --list             list the target's exports\n"
	       "      --snapshot NAME    make a snapshot of the volume\n"
	       "      --snapshots        list the volume's snapshots\n"
	       "      --remove-snapshot NAME\n"
	       "                         remove a snapshot\n"
	       "      --clone NAME       make a clone of the volume: one of its own\n"
	       "      --from SNAPSHOT    make the clone of this snapshot [of what the volume\n"
	       "                         has now]\n"
	       "      --json             print the report as JSON on standard output\n"
	       "  -q, --quiet            print neither a progress bar nor a report\n"
	       "      --version          print the version\n"
	       "  -h, --help             print this text\n"
	       "\n"
	       "Exit status: 0 the copy is complete; 1 an error, which one line describes; 2\n"
	       "a wrong command line.\n",
	       CP_DEFAULT_DEV, CP_DEFAULT_CIDR, CP_DEFAULT_MTU, CP_DEFAULT_BLOCK, CP_DEFAULT_DEPTH);
}

/* ---- The command line ---- */

struct args {
	struct cp_options opt;
	struct port_args port_args;
	bool list;
	bool snaps; /**< snapshots or a clone: snap_op */
	enum weft_volume_op snap_op;
	const char *snap_name, *snap_from;
	bool timeout; /**< --timeout was given */
};

#define SNAP_SILENCE_NS 60000000000ULL /**< of a snapshot: a medium may take its time */

static void
arg_snap(struct args *a, enum weft_volume_op op, const char *name)
{
	if (a->snaps)
		ui_usage_die("give one of --snapshot, --snapshots, --remove-snapshot and --clone");
	a->snaps = true;
	a->snap_op = op;
	a->snap_name = name;
}

static uint64_t
arg_seconds(const char *name, const char *value, double min)
{
	char *end;
	double v = strtod(value, &end);

	if (end == value || *end != '\0' || !(v >= min && v <= 3600))
		ui_usage_die("--%s %s: give seconds, %g to 3600", name, value, min);
	return (uint64_t)(v * 1e9);
}

static uint32_t
arg_block(const char *value)
{
	uint64_t v;

	if (conf_parse_size(value, &v) != 0 || v < CP_BLOCK_MIN || v > CP_BLOCK_MAX ||
	    v % CP_BLOCK_MIN != 0)
		ui_usage_die("--block %s: give a multiple of %u octets, at most %u", value,
		             CP_BLOCK_MIN, CP_BLOCK_MAX);
	return (uint32_t)v;
}

static uint64_t
arg_size(const char *name, const char *value, uint64_t min)
{
	uint64_t v;

	if (conf_parse_size(value, &v) != 0 || v < min || v > INT64_MAX)
		ui_usage_die("--%s %s: give octets, or a number with K, M, G or T", name, value);
	return v;
}

static void
parse_args(int argc, char **argv, struct args *a)
{
	enum {
		BLOCK = 256,
		DEPTH,
		TIMEOUT,
		WAIT,
		RATE,
		OFFSET,
		LENGTH,
		HASH_KEY,
		AS,
		PULL,
		NO_FLUSH,
		NO_VERIFY,
		IGNORE_REVOKE,
		LIST,
		SNAPSHOT,
		SNAPSHOTS,
		UNSNAPSHOT,
		CLONE,
		FROM,
		JSON,
		VERSION
	};
	static const struct option longopts[] = {
	        PORT_ARGS_OPTIONS,
	        {"block", required_argument, NULL, BLOCK},
	        {"depth", required_argument, NULL, DEPTH},
	        {"timeout", required_argument, NULL, TIMEOUT},
	        {"wait", required_argument, NULL, WAIT},
	        {"rate", required_argument, NULL, RATE},
	        {"offset", required_argument, NULL, OFFSET},
	        {"length", required_argument, NULL, LENGTH},
	        {"hash-key", required_argument, NULL, HASH_KEY},
	        {"auth", required_argument, NULL, AS},
	        {"pull", no_argument, NULL, PULL},
	        {"no-flush", no_argument, NULL, NO_FLUSH},
	        {"no-verify", no_argument, NULL, NO_VERIFY},
	        {"ignore-revoke", no_argument, NULL, IGNORE_REVOKE},
	        {"list", no_argument, NULL, LIST},
	        {"snapshot", required_argument, NULL, SNAPSHOT},
	        {"snapshots", no_argument, NULL, SNAPSHOTS},
	        {"remove-snapshot", required_argument, NULL, UNSNAPSHOT},
	        {"clone", required_argument, NULL, CLONE},
	        {"from", required_argument, NULL, FROM},
	        {"json", no_argument, NULL, JSON},
	        {"quiet", no_argument, NULL, 'q'},
	        {"version", no_argument, NULL, VERSION},
	        {"help", no_argument, NULL, 'h'},
	        {0},
	};
	char why[CP_ERR_MAX];
	int c;

	memset(a, 0, sizeof(*a));
	a->opt.block_bytes = arg_block(CP_DEFAULT_BLOCK);
	a->opt.depth = CP_DEFAULT_DEPTH;
	a->opt.connect_ns = 5000000000ULL;
	a->opt.silence_ns = 10000000000ULL;
	a->opt.wait_ns = 1000000000ULL;
	/* A target gives up a dead client after about twice its keepalive_ms, 2 s by default. */
	a->opt.range_wait_ns = 6000000000ULL;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "c:qh", longopts, NULL)) != -1) {
		if (port_args_take(&a->port_args, c == 'c' ? PORT_ARG_CONFIG : c, optarg))
			continue;
		switch (c) {
		case BLOCK:
			a->opt.block_bytes = arg_block(optarg);
			break;
		case DEPTH:
			a->opt.depth = (uint32_t)ui_arg_u64("--depth", optarg, 1, CP_DEPTH_MAX);
			break;
		case TIMEOUT:
			a->opt.connect_ns = a->opt.silence_ns = arg_seconds("timeout", optarg, 0.1);
			a->timeout = true;
			break;
		case WAIT:
			a->opt.wait_ns = a->opt.range_wait_ns = arg_seconds("wait", optarg, 0);
			break;
		case RATE:
			if (conf_parse_size(optarg, &a->opt.rate_bytes) != 0 ||
			    a->opt.rate_bytes == 0)
				ui_usage_die("--rate %s: give octets a second, or a number with K, "
				             "M or G",
				             optarg);
			break;
		case OFFSET:
			a->opt.offset_bytes = arg_size("offset", optarg, 0);
			a->opt.ranged = true;
			break;
		case LENGTH:
			a->opt.length_bytes = arg_size("length", optarg, 1);
			a->opt.ranged = true;
			break;
		case HASH_KEY:
			if (key_file_read(optarg, &a->opt.hash_key, why, sizeof(why)) != 0)
				ui_usage_die("--hash-key %s: %s", optarg, why);
			break;
		case AS:
			auth_arg_take(&a->opt.auth, optarg);
			break;
		case PULL:
			a->opt.pull = true;
			break;
		case NO_FLUSH:
			a->opt.no_flush = true;
			break;
		case NO_VERIFY:
			a->opt.no_verify = true;
			break;
		case IGNORE_REVOKE:
			a->opt.ignore_revoke = true;
			break;
		case LIST:
			a->list = true;
			break;
		case SNAPSHOT:
			arg_snap(a, WEFT_VOLUME_OP_SNAPSHOT, optarg);
			break;
		case SNAPSHOTS:
			arg_snap(a, WEFT_VOLUME_OP_SNAPSHOTS, NULL);
			break;
		case UNSNAPSHOT:
			arg_snap(a, WEFT_VOLUME_OP_SNAPSHOT_REMOVE, optarg);
			break;
		case CLONE:
			arg_snap(a, WEFT_VOLUME_OP_CLONE, optarg);
			break;
		case FROM:
			a->snap_from = optarg;
			break;
		case JSON:
			a->opt.json = true;
			break;
		case 'q':
			a->opt.quiet = true;
			break;
		case VERSION:
			ui_version();
			exit(0);
		case 'h':
			usage();
			exit(0);
		default:
			ui_bad_option(argv, longopts);
		}
	}
}

/* Configure this end: by a file, by one port of the command line, or by the default port. */
static void
configure(struct args *a, struct conf *c)
{
	struct port_args *p = &a->port_args;
	const char *file = getenv("WEFT_CONFIG");
	char err[CONF_ERR_MAX + CONF_PATH_MAX];

	port_args_check(p);
	if (p->config == NULL && p->dev == NULL && file != NULL && *file != '\0')
		p->config = file;
	else if (p->config == NULL && p->dev == NULL)
		*p = (struct port_args){.dev = CP_DEFAULT_DEV,
		                        .address = CP_DEFAULT_CIDR,
		                        .mtu_bytes = CP_DEFAULT_MTU};
	if (port_args_conf(p, c, err, sizeof(err)) == 0)
		return;
	if (p->config != NULL)
		ui_die("%s", err);
	ui_usage_die("%s", err);
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

/* ---- main ---- */

/** Copy to or from what the export holds: an object, or a volume. */
static int
copy(struct cp_session *s, bool push, const char *path, struct cp_report *r)
{
	int rc = -EMEDIUMTYPE;

	if (!s->opt->ranged && push)
		rc = cp_push(s, path, r, s->opt->pull ? &cp_push_rpc : &cp_push_rdma);
	else if (!s->opt->ranged)
		rc = cp_pull(s, path, r);
	/* The session goes on if the export holds no object. */
	if (rc != -EMEDIUMTYPE)
		return rc;
	return push ? cp_volume_push(s, path, r) : cp_volume_pull(s, path, r);
}

static struct cp_session session;
static struct cp_report report;
static struct conf conf;

int
main(int argc, char **argv)
{
	const struct sigaction sa = {.sa_handler = on_signal};
	struct cp_session *s = &session;
	struct cp_report *r = &report;
	uint64_t begin_ns = ui_now_ns();
	char err[CP_ERR_MAX];
	struct args a;
	bool push, copies;
	int rc;

	ui_init("weft-cp");
	parse_args(argc, argv, &a);
	a.opt.stop = &cp_signal;
	s->opt = &a.opt;
	s->programs = a.opt.ignore_revoke ? NULL : cp_programs;
	s->conf = &conf;
	if (a.opt.no_flush && a.opt.no_verify && !a.opt.pull)
		ui_usage_die("--no-flush and --no-verify together leave nothing that says a block "
		             "arrived");
	copies = !a.list && !a.snaps;
	if (a.list && a.snaps)
		ui_usage_die("--list and snapshots do not go together");
	if (a.snap_from != NULL && (!a.snaps || a.snap_op != WEFT_VOLUME_OP_CLONE))
		ui_usage_die("--from is of --clone");
	if (a.snaps && !a.timeout)
		a.opt.silence_ns = SNAP_SILENCE_NS;
	if (argc - optind != (copies ? 2 : 1))
		ui_usage_die(copies   ? "give SRC and DST"
		             : a.list ? "--list takes one weft://HOST[:PORT]"
		                      : "snapshots are of one weft://HOST[:PORT]/EXPORT");
	push = copies && url_is(argv[optind + 1]);
	if (copies && push == url_is(argv[optind]))
		ui_usage_die(push ? "both SRC and DST are remote; one of them must be a file"
		                  : "neither SRC nor DST is weft://HOST[:PORT]/EXPORT");
	if (url_parse(argv[push ? optind + 1 : optind], &s->url, err, sizeof(err)) != 0)
		ui_usage_die("%s", err);
	if (!a.list && s->url.export_name[0] == '\0')
		ui_usage_die("%s: no export named; write weft://HOST[:PORT]/EXPORT",
		             argv[push ? optind + 1 : optind]);
	if (copies && strcmp(argv[push ? optind : optind + 1], "-") == 0)
		ui_usage_die("-: standard input and output are no files that can be %s; name a "
		             "file (./- if it has that name)",
		             push ? "checked for change" : "replaced at once");
	if (a.opt.pull && !push)
		ui_usage_die("--pull is a way to push; leave it out");
	if (a.opt.pull && a.opt.block_bytes > WEFT_EXPORT_IO_MAX)
		ui_usage_die("--pull takes blocks of at most %u octets", WEFT_EXPORT_IO_MAX);
	configure(&a, &conf);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	/* a file beyond the size limit is an error of the call, which is reported */
	signal(SIGXFSZ, SIG_IGN);

	if (a.list) {
		rc = list(s);
	} else if (a.snaps) {
		rc = cp_volume_snap(s, a.snap_op, a.snap_name, a.snap_from);
	} else {
		r->source = argv[optind];
		r->destination = argv[optind + 1];
		r->depth = a.opt.depth;
		r->block_bytes = a.opt.block_bytes;
		rc = copy(s, push, argv[push ? optind : optind + 1], r);
	}
	if (rc != 0)
		ui_die("%s", s->err[0] != '\0' ? s->err : strerror(-rc));
	if (!copies)
		return 0;
	r->total_ns = ui_now_ns() - begin_ns;
	r->persistent = s->grant.persistent;
	strcpy(r->hash, s->grant.hash);
	strcpy(r->mechanism, s->grant.mechanism);
	if (a.opt.json || !a.opt.quiet)
		cp_report_print(r, a.opt.json);
	return 0;
}
