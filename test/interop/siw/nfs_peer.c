/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file An NFS version 3 client on weft's TI-RPC interface, for Linux's server with RPC-over-RDMA
 * version 1. One connection, one call at a time.
 *
 *   nfs_peer [-v MAX-VERSION] [-m MIN-VERSION] [-i INLINE-BYTES] DEV ADDR PEER FILE-HANDLE OP...
 *
 * FILE-HANDLE is the handle of the exported directory, as nfsd prints it (\x and hexadecimal
 * digits). Each OP prints one line:
 *
 *   null                   nothing else
 *   getattr                the directory's attributes
 *   lookup:NAME            the file's size
 *   read:NAME:BYTES[:at]   read BYTES; SHA-256 of the data. at: directly into the caller's
 *                          memory, by an address in the binding, and not into weft's
 *   inread:NAME:BYTES      the same without a binding: the data are in the reply, which may be long
 *   write:NAME:BYTES       write a pattern; its SHA-256
 *   inwrite:NAME:BYTES     the same without a binding: a long call
 *   list                   the number of names, and the SHA-256 of the sorted names, one a line
 *   proc:N                 an undefined procedure
 *
 * Exit status 0: all were answered.
 */

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nfs3.h"
#include <weft/weft.h>
#include <weft/tirpc.h>

#define NFS_PORT   20049
#define LIST_BYTES 65536u
#define MAX_NAMES  4096

static struct weft_ctx *ctx;
static CLIENT *cl;
static nfs3_fh root;
static uint8_t fh_root[NFS3_FH_MAX];
static uint8_t data[NFS3_DATA_MAX];
static bool in_place, unbound;

__attribute__((noreturn, format(printf, 1, 2))) static void
die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fflush(stdout);
	fprintf(stderr, "nfs_peer: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

static const char *
sha256(const void *p, size_t n)
{
	static char text[65];
	unsigned char md[32];

	if (EVP_Digest(p, n, md, NULL, EVP_sha256(), NULL) != 1)
		die("no SHA-256");
	for (unsigned int i = 0; i < sizeof(md); i++)
		snprintf(text + (size_t)i * 2, 3, "%02x", md[i]);
	return text;
}

/* ---- The binding of NFS version 3 (RFC 8267 s4): what READ and WRITE move. Both directory
 * listings and other results may be long. ---- */

static unsigned int
read_sinks(const void *args, struct weft_rpc_sink *sinks)
{
	const nfs3_read_args *a = args;

	if (unbound)
		return 0;
	sinks[0] = (struct weft_rpc_sink){.addr = in_place ? data : NULL, .max_bytes = a->count};
	return 1;
}

static uint32_t
read_reply(const void *args)
{
	const nfs3_read_args *a = args;

	return 256 + (unbound ? a->count : 0);
}

static unsigned int
write_items(const void *args, struct weft_rpc_item *items)
{
	const nfs3_write_args *a = args;

	if (unbound)
		return 0;
	items[0] = (struct weft_rpc_item){a->data.data_val, a->data.data_len};
	return 1;
}

static uint32_t
list_reply(const void *args)
{
	const nfs3_list_args *a = args;

	return a->max_bytes + 256;
}

static const struct weft_rpc_binding read_binding = {.sinks = read_sinks,
                                                     .reply_bytes = read_reply};
static const struct weft_rpc_binding write_binding = {.args = write_items};
static const struct weft_rpc_binding list_binding = {.reply_bytes = list_reply};
static const struct weft_rpc_proc procs[] = {
        [NFS3_READ] = {.binding = &read_binding},
        [NFS3_WRITE] = {.binding = &write_binding},
        [NFS3_READDIR] = {.binding = &list_binding},
};
static const struct weft_rpc_program nfs = {NFS3_PROGRAM, NFS3_V3, procs, NFS3_READDIR + 1};
static const struct weft_rpc_program *const programs[] = {&nfs, NULL};

/* ---- Operations ---- */

static bool_t
nothing(XDR *xdr, void *p)
{
	(void)xdr;
	(void)p;
	return TRUE;
}

static enum clnt_stat
ask(rpcproc_t proc, void *xargs, void *args, void *xres, void *res)
{
	struct timeval tv = {20, 0};

	return clnt_call(cl, proc, (xdrproc_t)xargs, args, (xdrproc_t)xres, res, tv);
}

/* Check that the call was answered, with a success status of NFS. */
static void
must(const char *op, enum clnt_stat stat, unsigned int status)
{
	if (stat != RPC_SUCCESS)
		die("%s: %s", op, clnt_sperror(cl, "not answered"));
	if (status != 0)
		die("%s: NFS says %u", op, status);
}

static nfs3_fh
lookup(const char *op, char *name, uint64_t *bytes)
{
	nfs3_lookup_args a = {.dir = root, .name = name};
	static char fh[NFS3_FH_MAX]; /* valid until the next call */
	nfs3_lookup_res r = {.nfs3_lookup_res_u.ok.file.nfs3_fh_val = fh};

	must(op, ask(NFS3_LOOKUP, xdr_nfs3_lookup_args, &a, xdr_nfs3_lookup_res, &r), r.status);
	if (!r.nfs3_lookup_res_u.ok.file_attr.follows)
		die("%s: no attributes", op);
	*bytes = r.nfs3_lookup_res_u.ok.file_attr.nfs3_after_u.attr.bytes;
	return r.nfs3_lookup_res_u.ok.file;
}

static void
do_getattr(const char *op)
{
	nfs3_getattr_res r = {0};

	must(op, ask(NFS3_GETATTR, xdr_nfs3_fh, &root, xdr_nfs3_getattr_res, &r), r.status);
	printf("%s: kind %u, mode %o\n", op, r.nfs3_getattr_res_u.attr.kind,
	       r.nfs3_getattr_res_u.attr.mode);
}

static void
do_read(const char *op, char *name, unsigned int len)
{
	uint64_t size;
	nfs3_read_args a = {.file = lookup(op, name, &size), .count = len};
	nfs3_read_res r = {0};
	nfs3_read_ok *ok = &r.nfs3_read_res_u.ok;

	memset(data, 0xaa, sizeof(data));
	if (in_place)
		ok->data.data_val = (char *)data;
	must(op, ask(NFS3_READ, xdr_nfs3_read_args, &a, xdr_nfs3_read_res, &r), r.status);
	if (ok->count != ok->data.data_len)
		die("%s: %u octets are %u", op, ok->count, ok->data.data_len);
	if (in_place && ok->data.data_val != (char *)data)
		die("%s: not where it was asked for", op);
	printf("%s: %u, eof %d, %s\n", op, ok->count, ok->eof,
	       sha256(ok->data.data_val, ok->data.data_len));
	if (in_place)
		ok->data.data_val = NULL;
	xdr_free((xdrproc_t)xdr_nfs3_read_res, (char *)&r);
}

static void
do_write(const char *op, char *name, unsigned int len)
{
	uint64_t size;
	nfs3_write_args a = {.file = lookup(op, name, &size),
	                     .count = len,
	                     .stable = 2,
	                     .data = {len, (char *)data}};
	nfs3_write_res r = {0};

	for (unsigned int i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + len);
	must(op, ask(NFS3_WRITE, xdr_nfs3_write_args, &a, xdr_nfs3_write_res, &r), r.status);
	printf("%s: %u, %s\n", op, r.nfs3_write_res_u.ok.count, sha256(data, len));
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void
do_list(const char *op)
{
	static char names[MAX_NAMES][NFS3_NAME_MAX + 1];
	nfs3_list_args a = {.dir = root, .max_bytes = LIST_BYTES};
	nfs3_list_res r;
	unsigned int n = 0;
	bool_t eof;
	size_t len = 0;

	do {
		memset(&r, 0, sizeof(r));
		must(op, ask(NFS3_READDIR, xdr_nfs3_list_args, &a, xdr_nfs3_list_res, &r),
		     r.status);
		for (nfs3_entry *e = r.nfs3_list_res_u.ok.entries; e != NULL; e = e->next) {
			a.cookie = e->cookie;
			if (n == MAX_NAMES)
				die("%s: too many", op);
			if (strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0)
				strcpy(names[n++], e->name); /* the length is limited by its type */
		}
		a.verifier = r.nfs3_list_res_u.ok.verifier;
		eof = r.nfs3_list_res_u.ok.eof;
		xdr_free((xdrproc_t)xdr_nfs3_list_res, (char *)&r);
	} while (!eof);
	qsort(names, n, sizeof(names[0]), by_name);
	for (unsigned int i = 0; i < n; i++)
		len += (size_t)snprintf((char *)data + len, sizeof(data) - len, "%s\n", names[i]);
	printf("%s: %u names, %s\n", op, n, sha256(data, len));
}

static void
operate(const char *op)
{
	char what[16] = "", name[64] = "", how[8] = "";
	unsigned int len = 0;

	if (sscanf(op, "proc:%u", &len) == 1) {
		printf("%s: %s\n", op, clnt_sperrno(ask(len, nothing, NULL, nothing, NULL)));
		return;
	}
	(void)sscanf(op, "%15[^:]:%63[^:]:%u:%7s", what, name, &len, how);
	if (len > sizeof(data))
		die("%s is too much", op);
	in_place = strcmp(how, "at") == 0;
	unbound = strncmp(what, "in", 2) == 0;
	if (strcmp(op, "null") == 0) {
		must(op, ask(NFS3_NULL, nothing, NULL, nothing, NULL), 0);
		printf("%s: answered\n", op);
	} else if (strcmp(op, "getattr") == 0) {
		do_getattr(op);
	} else if (strcmp(op, "list") == 0) {
		do_list(op);
	} else if (strcmp(what, "lookup") == 0) {
		uint64_t size;

		(void)lookup(op, name, &size);
		printf("%s: %llu\n", op, (unsigned long long)size);
	} else if (strcmp(what + (unbound ? 2 : 0), "read") == 0) {
		do_read(op, name, len);
	} else if (strcmp(what + (unbound ? 2 : 0), "write") == 0) {
		do_write(op, name, len);
	} else {
		die("no such operation: %s", op);
	}
}

/* ---- Set-up ---- */

static void
parse_fh(const char *text)
{
	unsigned int n = 0, octet;

	if (strncmp(text, "\\x", 2) == 0)
		text += 2;
	for (; n < sizeof(fh_root) && sscanf(text, "%2x", &octet) == 1; text += 2)
		fh_root[n++] = (uint8_t)octet;
	if (n == 0)
		die("no file handle");
	root = (nfs3_fh){n, (char *)fh_root};
}

static struct sockaddr_storage
address(const char *text, uint16_t port)
{
	struct sockaddr_storage ss = {0};
	struct sockaddr_in *sin = (struct sockaddr_in *)&ss;

	if (inet_pton(AF_INET, text, &sin->sin_addr) != 1)
		die("bad address %s", text);
	sin->sin_family = AF_INET;
	sin->sin_port = htons(port);
	return ss;
}

static void
check(int rc, const char *what)
{
	if (rc < 0)
		die("%s: %s", what, strerror(-rc));
}

static struct weft_worker *
stack_up(const char *dev, const char *addr)
{
	struct weft_env_attr env = {
	        .size = sizeof(env), .progname = "nfs_peer", .memory_mb = 256, .no_huge = true};
	struct weft_port_attr pa = {.size = sizeof(pa), .name = "p0", .dev = dev, .prefix_len = 24};
	const char *msg = NULL;
	struct weft_worker *w;
	struct weft_port *p;
	int rc = weft_env_init(&env, &msg);

	if (rc != 0)
		die("EAL: %s", msg != NULL ? msg : strerror(-rc));
	pa.addr = address(addr, 0);
	check(weft_ctx_create(NULL, &ctx), "weft_ctx_create");
	check(weft_port_open(ctx, &pa, &p), "weft_port_open");
	check(weft_worker_create(ctx, NULL, &w), "weft_worker_create");
	check(weft_worker_add_port(w, p), "weft_worker_add_port");
	check(weft_worker_start(w), "weft_worker_start");
	return w;
}

int
main(int argc, char **argv)
{
	struct weft_tirpc_attr attr = {.size = sizeof(attr), .programs = programs};
	static char host[] = "weft";
	struct sockaddr_storage to;
	int o;

	while ((o = getopt(argc, argv, "+v:m:i:")) != -1)
		switch (o) {
		case 'v':
			attr.max_vers = (uint8_t)atoi(optarg);
			break;
		case 'm':
			attr.min_vers = (uint8_t)atoi(optarg);
			break;
		case 'i':
			attr.inline_bytes = (uint32_t)atoi(optarg);
			break;
		default:
			return 2;
		}
	argv += optind;
	if (argc - optind < 4) {
		fprintf(stderr, "see the head of nfs_peer.c\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	parse_fh(argv[3]);
	attr.worker = stack_up(argv[0], argv[1]);
	to = address(argv[2], NFS_PORT);
	cl = weft_clnt_create(ctx, (struct sockaddr *)&to, sizeof(struct sockaddr_in), NFS3_PROGRAM,
	                      NFS3_V3, &attr);
	if (cl == NULL)
		die("%s", clnt_spcreateerror("weft_clnt_create"));
	auth_destroy(cl->cl_auth);
	cl->cl_auth = authunix_create(host, 0, 0, 0, NULL);
	for (argv += 4; *argv != NULL; argv++)
		operate(*argv);
	auth_destroy(cl->cl_auth);
	clnt_destroy(cl);
	weft_worker_stop(attr.worker);
	weft_ctx_destroy(ctx);
	weft_env_fini();
	return 0;
}
