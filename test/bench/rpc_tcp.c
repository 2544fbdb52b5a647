/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file NULL, READ and WRITE by libtirpc over loopback TCP, with rpcgen's stubs, one call after the
 * other.
 *
 *     bench_rpc_tcp SERVER_CPU CLIENT_CPU NULLS TRANSFERS
 *
 * Server and client are two processes, each on its CPU. Prints one JSON object: calls per second,
 * and median microseconds of NULL, and of READ and WRITE of 1 MiB.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench_rpc.h"

void bench_prog_1(struct svc_req *rqstp, SVCXPRT *transp);

static char memory[BENCH_MAX];

void *
bench_null_1_svc(void *arg, struct svc_req *req)
{
	static char nothing;

	(void)arg;
	(void)req;
	return &nothing;
}

bench_data *
bench_read_1_svc(u_int *count, struct svc_req *req)
{
	static bench_data d;

	(void)req;
	d.bench_data_val = memory;
	d.bench_data_len = *count <= BENCH_MAX ? *count : BENCH_MAX;
	return &d;
}

u_int *
bench_write_1_svc(bench_data *d, struct svc_req *req)
{
	static u_int n;

	(void)req;
	memcpy(memory, d->bench_data_val, d->bench_data_len);
	n = d->bench_data_len;
	return &n;
}

static void
die(const char *what)
{
	perror(what);
	exit(1);
}

static void
on_cpu(const char *cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned int)atoi(cpu), &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static void
serve(int fd)
{
	SVCXPRT *x = svc_vc_create(fd, 0, 0);

	if (x == NULL || !svc_reg(x, BENCH_PROG, BENCH_V1, bench_prog_1, NULL))
		die("server");
	svc_run();
}

static double
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int
by_value(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return (d > 0) - (d < 0);
}

enum what { NULLS, READS, WRITES };

static void
one(CLIENT *cl, enum what what)
{
	bench_data d = {BENCH_MAX, memory}, *got;
	u_int count = BENCH_MAX, *n;

	switch (what) {
	case NULLS:
		if (bench_null_1(NULL, cl) == NULL)
			die("NULL");
		break;
	case READS:
		got = bench_read_1(&count, cl);
		if (got == NULL || got->bench_data_len != BENCH_MAX)
			die("READ");
		clnt_freeres(cl, (xdrproc_t)xdr_bench_data, (caddr_t)got);
		break;
	case WRITES:
		n = bench_write_1(&d, cl);
		if (n == NULL || *n != BENCH_MAX)
			die("WRITE");
		break;
	}
}

static void
measure(CLIENT *cl, enum what what, unsigned int n, const char *name, const char *sep)
{
	double *us = calloc(n, sizeof(*us)), begin, t;

	if (us == NULL)
		die(name);
	for (unsigned int i = 0; i < n / 10 + 1; i++)
		one(cl, what);
	begin = now_us();
	for (unsigned int i = 0; i < n; i++) {
		t = now_us();
		one(cl, what);
		us[i] = now_us() - t;
	}
	t = now_us() - begin;
	qsort(us, n, sizeof(*us), by_value);
	printf("\"%s_calls_s\": %.1f, \"%s_p50_us\": %.2f%s", name, n * 1e6 / t, name, us[n / 2],
	       sep);
	free(us);
}

int
main(int argc, char **argv)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sin);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd, on = 1;
	struct netbuf addr = {sizeof(sin), sizeof(sin), &sin};
	pid_t server;
	CLIENT *cl;

	if (argc != 5) {
		fprintf(stderr, "usage: bench_rpc_tcp SERVER_CPU CLIENT_CPU NULLS TRANSFERS\n");
		return 2;
	}
	if (listener < 0 || bind(listener, (struct sockaddr *)&sin, sizeof(sin)) != 0 ||
	    listen(listener, 4) != 0 || getsockname(listener, (struct sockaddr *)&sin, &len) != 0)
		die("listen");
	server = fork();
	if (server < 0)
		die("fork");
	if (server == 0) {
		on_cpu(argv[1]);
		serve(listener);
		_exit(1);
	}
	close(listener);
	on_cpu(argv[2]);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (fd < 0 || connect(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0)
		die("connect");
	cl = clnt_vc_create(fd, &addr, BENCH_PROG, BENCH_V1, 0, 0);
	if (cl == NULL)
		die("client");
	printf("{");
	measure(cl, NULLS, (unsigned int)atoi(argv[3]), "null", ", ");
	measure(cl, READS, (unsigned int)atoi(argv[4]), "read_1MiB", ", ");
	measure(cl, WRITES, (unsigned int)atoi(argv[4]), "write_1MiB", "}\n");
	clnt_destroy(cl);
	kill(server, SIGKILL);
	(void)waitpid(server, NULL, 0);
	return 0;
}
