/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file weft-rbd: the process that serves one image of a Ceph cluster to the block driver "rbd",
 * which starts it. librbd, its threads and its assertions are here, so that their end is not the
 * end of a program of weft.
 */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "ceph.h"

static const char usage[] =
        "weft-rbd serves an image of a Ceph cluster to weft's block driver \"rbd\", which starts "
        "it.\nIt is of no use at a prompt. docs/drivers.md describes the driver.\n";

static int
args_parse(int argc, char **argv, struct ceph_args *a)
{
	static const struct option options[] = {{"conf", required_argument, NULL, 'c'},
	                                        {"id", required_argument, NULL, 'i'},
	                                        {"keyring", required_argument, NULL, 'k'},
	                                        {"timeout", required_argument, NULL, 't'},
	                                        {"take-over", no_argument, NULL, 'o'},
	                                        {"read-only", no_argument, NULL, 'r'},
	                                        {"help", no_argument, NULL, 'h'},
	                                        {NULL, 0, NULL, 0}};
	int o;

	while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (o) {
		case 'c':
			a->conf = optarg;
			break;
		case 'i':
			a->id = optarg;
			break;
		case 'k':
			a->keyring = optarg;
			break;
		case 't':
			a->timeout = optarg;
			break;
		case 'o':
			a->take_over = true;
			break;
		case 'r':
			a->read_only = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		default:
			return -EINVAL;
		}
	}
	if (argc - optind != 2)
		return -EINVAL;
	if (strcmp(argv[optind], "serve") == 0)
		a->image = argv[optind + 1];
	else if (strcmp(argv[optind], "blocklist") == 0)
		a->address = argv[optind + 1];
	return a->address != NULL || (a->image != NULL && strchr(a->image, '/') != NULL) ? 0
	                                                                                 : -EINVAL;
}

static void
all_close(void)
{
	ceph_life_end();
	ceph_task_end(&ceph_extents);
	ceph_task_end(&ceph_snaps);
	ceph_close();
}

static int
serve_image(const struct ceph_args *a, struct rbd_hello *h)
{
	struct serve_backend b = {.submit = ceph_submit, .poll = ceph_poll, .close = all_close};
	int r = serve_begin();

	if (r == 0)
		r = ceph_open(a, h);
	if (r == 0) {
		r = ceph_ended_begin();
		if (r == 0)
			r = ceph_task_begin(&ceph_extents);
		if (r == 0)
			r = ceph_task_begin(&ceph_snaps);
		if (r == 0)
			r = ceph_life_begin(h->bytes);
		if (r < 0)
			(void)ceph_refuse(h, r, "%s: %s", a->image, strerror(-r));
	}
	h->status = r;
	if (r == 0)
		serve_tell(h->bytes, 0);
	b.fd = ceph_ended_fd();
	if (serve_hello(h) != 0 || r != 0) {
		all_close();
		return 1;
	}
	return serve(&b);
}

/** Have the cluster refuse a client. */
static int
blocklist(const struct ceph_args *a, struct rbd_hello *h)
{
	int r = ceph_connect(a, h);

	if (r == 0) {
		r = ceph_blocklist(a->address, CEPH_OUT_DEAD_S);
		if (r < 0)
			(void)ceph_refuse(h, r, "%s: %s", a->address, strerror(-r));
	}
	h->status = r;
	(void)serve_hello(h);
	ceph_close();
	return r == 0 ? 0 : 1;
}

int
main(int argc, char **argv)
{
	static struct rbd_hello h = {.magic = RBD_MAGIC, .version = RBD_VERSION};
	struct ceph_args a = {.image = NULL};
	struct stat st;
	int r = args_parse(argc, argv, &a);

	if (r > 0)
		return 0;
	if (r < 0 || fstat(RBD_FD_CALL, &st) != 0 || !S_ISSOCK(st.st_mode)) {
		fputs(usage, stderr);
		return 2;
	}
	/* A core would hold octets of the image. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	return a.address != NULL ? blocklist(&a, &h) : serve_image(&a, &h);
}
