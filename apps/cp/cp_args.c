/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The command line of weft-cp. */

#include "cp_args.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port_args.h"
#include "ui.h"

/* The client's end of the port in weft-target.ini.example. */
#define CP_DEFAULT_DEV  "net_memif0,role=client,id=0,socket=weft,socket-abstract=yes,bsize=10112"
#define CP_DEFAULT_CIDR "10.0.0.2/24"
#define CP_DEFAULT_MTU  9000

#define CP_DEFAULT_BLOCK "256K"
#define CP_DEFAULT_DEPTH 8
#define CP_RETRIES_MAX   1000000

static void
usage(void)
{
	printf("usage: weft-cp [options] SRC DST\n"
	       "       weft-cp [options] FILE... weft://HOST[:PORT]/\n"
	       "       weft-cp [options] weft://HOST[:PORT]/EXPORT... FOLDER/\n"
	       "       weft-cp [options] --verify-only FILE weft://HOST[:PORT]/EXPORT\n"
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
	       "FILE may be -: standard input or output. Several files go to the exports of\n"
	       "their names (the last part of the path), several exports to files of theirs; a\n"
	       "folder stands for the regular files in it and below. They go one after the\n"
	       "other, and one that fails does not stop those behind it.\n"
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
	       "      --rate SIZE        octets of data a second at most [no limit]\n"
	       "      --resume           skip each block that is there already, as a hash of\n"
	       "                         the target's medium proves; a pull that fails keeps\n"
	       "                         what it has in .FILE.weft-cp.part\n"
	       "      --retries N        try again so often, when the target is not reached,\n"
	       "                         the connection is lost, or the export is busy or not\n"
	       "                         served; each block that got there counts N anew [0].\n"
	       "                         Skips blocks as --resume does\n"
	       "      --retry-wait S     seconds before the first retry; each further one waits\n"
	       "                         twice as long, 30 at most [1]\n"
	       "      --reconnect S      when a copy that has begun loses its connection, try for\n"
	       "                         S seconds to go on, as --resume does; each block that\n"
	       "                         got there counts anew [%d]. 0: it has failed at once\n"
	       "      --verify-only      move no data: compare the hash of each block of the\n"
	       "                         file with the target's\n"
	       "      --offset SIZE      begin at this octet of the volume [0]\n"
	       "      --length SIZE      copy so many octets to or from the volume [all of\n"
	       "                         the file, or up to the end of the volume]; with - as\n"
	       "                         SRC, of any export: fewer are an error, and more are\n"
	       "                         not read\n"
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
	       "Exit status; one line on standard error says why:\n"
	       "  0    the copy is complete; the content is equal\n"
	       "  1    it failed, and a retry would, too, before something is changed\n"
	       "  2    a wrong command line; nothing was done\n"
	       "  3    --verify-only: the content differs\n"
	       "  4    of several files, at least one failed; each has a line\n"
	       "  5    the target was not reached, or the connection was lost\n"
	       "  6    the export is busy, or is not served now\n"
	       "  130  interrupted by SIGINT; 143 by SIGTERM\n",
	       CP_DEFAULT_DEV, CP_DEFAULT_CIDR, CP_DEFAULT_MTU, CP_DEFAULT_BLOCK, CP_DEFAULT_DEPTH,
	       CP_RECONNECT_S);
}

/* ---- The command line ---- */

#define SNAP_SILENCE_NS 60000000000ULL /**< of a snapshot: a medium may take its time */

static void
arg_snap(struct cp_args *a, enum weft_volume_op op, const char *name)
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
args_options(int argc, char **argv, struct cp_args *a)
{
	enum {
		BLOCK = 256,
		DEPTH,
		TIMEOUT,
		WAIT,
		RATE,
		RESUME,
		RETRIES,
		RETRY_WAIT,
		RECONNECT,
		VERIFY_ONLY,
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
	        {"resume", no_argument, NULL, RESUME},
	        {"retries", required_argument, NULL, RETRIES},
	        {"retry-wait", required_argument, NULL, RETRY_WAIT},
	        {"reconnect", required_argument, NULL, RECONNECT},
	        {"verify-only", no_argument, NULL, VERIFY_ONLY},
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
	a->retry_wait_ns = 1000000000ULL;
	a->reconnect_ns = CP_RECONNECT_S * 1000000000ULL;
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
		case RESUME:
			a->opt.resume = true;
			break;
		case RETRIES:
			a->retries = (uint32_t)ui_arg_u64("--retries", optarg, 0, CP_RETRIES_MAX);
			break;
		case RETRY_WAIT:
			a->retry_wait_ns = arg_seconds("retry-wait", optarg, 0.01);
			break;
		case RECONNECT:
			a->reconnect_ns = arg_seconds("reconnect", optarg, 0);
			break;
		case VERIFY_ONLY:
			a->opt.verify_only = true;
			break;
		case OFFSET:
			a->opt.offset_bytes = arg_size("offset", optarg, 0);
			a->opt.ranged = true;
			break;
		case LENGTH:
			a->opt.length_bytes = arg_size("length", optarg, 1);
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

/** Options that only a copy has, and those that do not go together. */
static void
args_check(const struct cp_args *a)
{
	const struct cp_options *o = &a->opt;

	if (o->no_flush && o->no_verify && !o->pull)
		ui_usage_die("--no-flush and --no-verify together leave nothing that says a block "
		             "arrived");
	if (a->list && a->snaps)
		ui_usage_die("--list and snapshots do not go together");
	if (a->snap_from != NULL && (!a->snaps || a->snap_op != WEFT_VOLUME_OP_CLONE))
		ui_usage_die("--from is of --clone");
	if ((a->list || a->snaps) && (o->resume || o->verify_only || a->retries > 0))
		ui_usage_die("--resume, --retries and --verify-only are of copies");
	if (o->no_verify && (o->resume || o->verify_only))
		ui_usage_die("--%s is a Verify; leave --no-verify out",
		             o->resume ? "resume" : "verify-only");
	if (o->verify_only && (o->resume || o->pull))
		ui_usage_die("--verify-only moves nothing; leave --%s out",
		             o->resume ? "resume" : "pull");
}

/** What options mean for these operands. */
static void
args_operands(struct cp_args *a)
{
	const bool copies = !a->list && !a->snaps, push = url_is(a->operands[a->noperands - 1]);
	const bool several = a->noperands > 2;
	const char *last = a->operands[a->noperands - 1];

	if (copies ? a->noperands < 2 : a->noperands != 1)
		ui_usage_die(copies    ? "give SRC and DST"
		             : a->list ? "--list takes one weft://HOST[:PORT]"
		                       : "snapshots are of one weft://HOST[:PORT]/EXPORT");
	if (!copies)
		return;
	if (several && (a->opt.ranged || a->opt.length_bytes != 0))
		ui_usage_die("--offset and --length are of one file");
	/* Standard input has no length of its own, so it may be that of an object. */
	if (a->opt.length_bytes != 0 && !(push && strcmp(a->operands[0], "-") == 0))
		a->opt.ranged = true;
	if (a->opt.verify_only && !push && strcmp(last, "-") == 0)
		ui_usage_die("-: what is compared comes first: - weft://HOST[:PORT]/EXPORT");
	if (a->opt.pull && !push)
		ui_usage_die("--pull is a way to push; leave it out");
	if (a->opt.pull && a->opt.block_bytes > WEFT_EXPORT_IO_MAX)
		ui_usage_die("--pull takes blocks of at most %u octets", WEFT_EXPORT_IO_MAX);
	if (!push && strcmp(last, "-") == 0) {
		if (a->opt.resume)
			ui_usage_die("-: what standard output has cannot be resumed");
	} else if (!push && !a->opt.verify_only) {
		a->opt.keep_part = a->opt.resume || a->retries > 0;
		a->opt.keep_temp = a->reconnect_ns > 0;
	}
}

void
cp_args_parse(int argc, char **argv, struct cp_args *a)
{
	args_options(argc, argv, a);
	args_check(a);
	a->operands = argv + optind;
	a->noperands = argc - optind;
	if (a->noperands == 0)
		ui_usage_die(a->list ? "--list takes one weft://HOST[:PORT]" : "give SRC and DST");
	args_operands(a);
	if (a->snaps && !a->timeout)
		a->opt.silence_ns = SNAP_SILENCE_NS;
}

void
cp_args_configure(struct cp_args *a, struct conf *c)
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
