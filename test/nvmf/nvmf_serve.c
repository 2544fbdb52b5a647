/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A target for Linux hosts in tests: the volume of a file as namespace 1 of one subsystem, by
 * NVMe over RDMA, on one port and one worker.
 *
 *     nvmf_serve DEV ADDRESS FILE MEGABYTES
 *
 * A file without a volume gets one. SIGTERM ends it in order. It prints "ready", and at its end the
 * counters.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include <weft/weft.h>

#include "weft_nvmf.h"
#include "weft_nvmf_rdma.h"

#define SUBSYS        "nqn.2026-01.org.example:disk"
#define PORT          4420
#define STAGING       (32U << 20)
#define STOP_POLLS    200000
#define STOP_GRACE_NS 500000000ULL
#define SLEEP_US      1000U
#define PREFIX_LEN    24
#define MUST(call)    must((call), #call)
#define PORT_TEXT     "4420"

static struct weft_ctx *ctx;
static struct weft_worker *worker;
static struct weft_evq *evq;
static struct weft_block *block;
static struct weft_vol *vol;
static struct weft_vol_chan *chan;
static struct weft_nvmf *target;
static struct weft_nvmf_subsys *subsys;
static struct weft_nvmf_group *group;
static struct weft_nvmf_rdma *rdma;
static volatile sig_atomic_t stop;

static void
must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-rc));
	exit(1);
}

static void
on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

/* ---- The poller ---- */

static unsigned int
serve_poll(void *arg, uint64_t now_ns)
{
	unsigned int n = weft_vol_poll(chan, now_ns);

	(void)arg;
	n += weft_nvmf_group_poll(group, now_ns);
	weft_nvmf_rdma_poll(rdma, now_ns);
	return n;
}

static uint64_t
serve_next_ns(void *arg)
{
	uint64_t next = weft_vol_next_ns(chan), one = weft_nvmf_group_next_ns(group);

	(void)arg;
	next = one < next ? one : next;
	one = weft_nvmf_rdma_next_ns(rdma);
	return one < next ? one : next;
}

static void
on_event(void *user, const struct weft_event *ev)
{
	char ip[INET_ADDRSTRLEN] = "?";
	int rc;

	(void)user;
	if (ev->type != WEFT_EV_CONNECT_REQUEST)
		return;
	inet_ntop(AF_INET, &((const struct sockaddr_in *)&ev->remote)->sin_addr, ip, sizeof(ip));
	rc = weft_nvmf_rdma_request(rdma, ev);
	printf("connection of %s: %s\n", ip, rc == 0 ? "accepted" : strerror(-rc));
}

/* ---- Set-up ---- */

static void
medium_up(const char *file, uint64_t bytes, void *memory)
{
	char reason[160] = "";
	const struct weft_block_attr ba = {.size = sizeof(ba),
	                                   .driver = "uring",
	                                   .path = file,
	                                   .bytes = bytes,
	                                   .create = true,
	                                   .numa_node = -1,
	                                   .reason = reason,
	                                   .reason_bytes = sizeof(reason)};
	const struct weft_vol_format f = {.uuid = {0x57, 0x45, 0x46, 0x54, 0, 0, 0x40, 0, 0x80}};
	struct weft_vol_attr va = {.channels = 1, .reason = reason, .reason_bytes = sizeof(reason)};
	const struct weft_vol_chan_attr ca = {.depth = 128};
	void *scratch;
	int rc = weft_block_open(&ba, &block);

	if (rc != 0) {
		fprintf(stderr, "%s: %s\n", file, reason);
		exit(1);
	}
	scratch = aligned_alloc(4096, weft_vol_scratch_bytes(&va));
	if (scratch == NULL)
		must(-ENOMEM, "memory");
	va.memory = scratch;
	(void)weft_block_mem_add(block, memory, STAGING);
	rc = weft_vol_open(block, &va, &vol);
	if (rc == -ENODATA) {
		MUST(weft_vol_format(block, &f, reason, sizeof(reason)));
		rc = weft_vol_open(block, &va, &vol);
	}
	must(rc, reason);
	MUST(weft_vol_chan_open(vol, &ca, &chan));
}

static void
port_up(const char *dev, const char *address)
{
	const struct weft_env_attr env = {
	        .size = sizeof(env), .progname = "nvmf_serve", .memory_mb = 256, .no_huge = true};
	struct weft_port_attr port = {
	        .size = sizeof(port), .name = "p0", .dev = dev, .prefix_len = PREFIX_LEN};
	const struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	struct sockaddr_in *sin = (struct sockaddr_in *)&port.addr;
	const char *why = NULL;
	struct weft_port *p;

	if (weft_env_init(&env, &why) < 0) {
		fprintf(stderr, "EAL: %s\n", why);
		exit(1);
	}
	sin->sin_family = AF_INET;
	if (inet_pton(AF_INET, address, &sin->sin_addr) != 1)
		must(-EINVAL, "address");
	MUST(weft_ctx_create(NULL, &ctx));
	MUST(weft_port_open(ctx, &port, &p));
	MUST(weft_worker_create(ctx, NULL, &worker));
	MUST(weft_worker_add_port(worker, p));
	MUST(weft_evq_create(ctx, &ea, &evq));
}

static void
nvmf_up(const char *address, void *memory)
{
	const struct weft_nvmf_attr a = {.firmware = "test"};
	const struct weft_nvmf_subsys_attr sa = {
	        .nqn = SUBSYS, .serial = "WEFT1", .any_host = true};
	const struct weft_nvmf_ns_attr na = {
	        .nsid = 1,
	        .vol = vol,
	        .persistent = block->info.persistent,
	        .volatile_cache = block->info.volatile_cache,
	        .discard_zeroes = (block->info.can & WEFT_BLOCK_CAN_DISCARD_ZEROES) != 0};
	const struct weft_nvmf_group_attr ga = {.memory = memory, .bytes = STAGING};
	const struct weft_nvmf_rdma_attr ra = {
	        .ctx = ctx, .worker = worker, .memory = memory, .bytes = STAGING};
	struct weft_nvmf_rdma_attr with = ra;
	struct weft_nvmf_listener l = {
	        .trtype = 1, .adrfam = 1, .rdma_prtype = 5, .portid = 1, .trsvcid = PORT_TEXT};

	snprintf(l.traddr, sizeof(l.traddr), "%s", address);
	MUST(weft_nvmf_create(&a, &target));
	MUST(weft_nvmf_listener_add(target, &l));
	MUST(weft_nvmf_subsys_add(target, &sa, &subsys));
	MUST(weft_nvmf_ns_add(subsys, &na));
	MUST(weft_nvmf_group_open(target, &ga, &group));
	MUST(weft_nvmf_group_attach(group, subsys, 1, chan));
	with.group = group;
	MUST(weft_nvmf_rdma_open(&with, &rdma));
}

static void
report(void)
{
	struct weft_nvmf_rdma_stats r;
	struct weft_nvmf_stats s;

	weft_nvmf_query_stats(target, &s);
	weft_nvmf_rdma_query(rdma, &r);
	printf("connects %" PRIu64 " commands %" PRIu64 " errors %" PRIu64 " read %" PRIu64
	       " written %" PRIu64 " expired %" PRIu64 " protocol %" PRIu64 " memory waits %" PRIu64
	       "\nRDMA Reads %" PRIu64 " waits %" PRIu64 " capsule waits %" PRIu64
	       " aborted %" PRIu64 "\n",
	       s.connects, s.commands, s.errors, s.read_bytes, s.written_bytes, s.kato_expired,
	       s.protocol_errors, s.memory_waits, r.reads, r.read_waits, r.capsule_waits,
	       r.aborted);
}

int
main(int argc, char **argv)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct weft_poller poller = {.poll = serve_poll, .next_ns = serve_next_ns, .fd = -1};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct weft_listener *listener;
	struct weft_nvmf_rdma_stats r;
	void *memory;

	if (argc != 5) {
		fprintf(stderr, "usage: nvmf_serve DEV ADDRESS FILE MEGABYTES\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	memory = mmap(NULL, STAGING, PROT_READ | PROT_WRITE,
	              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		must(-ENOMEM, "memory");
	port_up(argv[1], argv[2]);
	medium_up(argv[3], strtoull(argv[4], NULL, 10) << 20, memory);
	nvmf_up(argv[2], memory);
	poller.fd = weft_vol_chan_fd(chan);
	MUST(weft_poller_add(worker, &poller));
	la.evq = evq;
	inet_pton(AF_INET, argv[2], &sin.sin_addr);
	MUST(weft_listen(ctx, (struct sockaddr *)&sin, sizeof(sin), &la, &listener));
	printf("ready: %s, volatile cache %d\n", block->info.mechanism, block->info.volatile_cache);
	while (!stop)
		if (weft_worker_poll(worker) == 0)
			weft_worker_idle(worker, SLEEP_US);
	weft_unlisten(listener);
	weft_nvmf_group_stop(group, STOP_GRACE_NS);
	for (unsigned int i = 0; i < STOP_POLLS; i++) {
		(void)weft_worker_poll(worker);
		weft_nvmf_rdma_query(rdma, &r);
		if (r.conns == 0 && weft_nvmf_group_queues(group) == 0)
			break;
	}
	report();
	MUST(weft_nvmf_rdma_close(rdma));
	MUST(weft_nvmf_group_detach(group, subsys, 1));
	MUST(weft_nvmf_group_close(group));
	MUST(weft_nvmf_destroy(target));
	weft_poller_remove(&poller);
	MUST(weft_vol_chan_close(chan));
	MUST(weft_vol_close(vol));
	MUST(weft_block_close(block));
	weft_worker_detach(worker);
	weft_ctx_destroy(ctx);
	weft_env_fini();
	return 0;
}
