/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A client of a volume that says which of its writes are acknowledged.
 *
 *     volume_probe DEV CIDR HOST EXPORT write OWNER SEED FIRST SLOTS calls|windows
 *
 * Writes slots of 4096 octets in random order, eight at once, durable, for ever: each is full of a
 * stamp (owner, number of the slot, a number that grows). Prints "SLOT NUMBER" for each that is
 * acknowledged. The numbers of a slot grow. Ends with status 3 when the connection is lost.
 *
 *     volume_probe DEV CIDR HOST EXPORT check FIRST SLOTS
 *
 * Prints "SLOT OWNER NUMBER" of each slot; "SLOT torn" of one that is not full of one stamp.
 *
 *     volume_probe DEV CIDR HOST EXPORT spread SEED COUNT PART OF
 *
 * COUNT writes of up to 1 MiB at random octets of the whole volume, by calls and by windows; then
 * reads of all of them, which have to return what was written. OF such programs may run at once:
 * the volume has COUNT * OF places, and each PART of OF uses its own. Prints "done OCTETS".
 *
 *     volume_probe DEV CIDR HOST EXPORT refuse
 *
 * Operations that have to be refused, each with its status. Prints "done".
 *
 *     volume_probe DEV CIDR HOST EXPORT long
 *
 * Ranges as long as a call may have and longer ones, at a volume that is longer than both. Prints
 * "done".
 *
 *     volume_probe DEV CIDR HOST EXPORT order SEED ROUNDS
 *
 * Submits a write of 1 MiB, a read of a page in it, a write of octets in it and a flush, without a
 * wait. The read has to return what was written, and the flush has to end last. Prints "done".
 *
 *     volume_probe DEV CIDR HOST EXPORT moved OFFSET
 *
 * A window moves to OFFSET, which is damaged, so the move fails. Then the window is written to and
 * flushed all the same. Prints "refused" if the target refuses that.
 *
 *     volume_probe DEV CIDR HOST EXPORT hold GRANTS READS
 *
 * Opens the export GRANTS times, and reads 1 MiB READS times by each. When the first one is
 * answered it prints "holds" and stops itself (SIGSTOP), so it takes no further answer.
 *
 *     volume_probe DEV CIDR HOST EXPORT windows GRANTS EACH FIRST
 *
 * Opens the export GRANTS times, and EACH windows of 64 KiB by each, one after the other, from
 * offset FIRST on. Prints "opened N" when all are answered, and then takes part until it is killed.
 *
 *     volume_probe DEV CIDR HOST EXPORT slots N
 *
 * Opens N windows, which are all that the target has, and two more: one that overlaps the first,
 * and one that does not. Then closes one: the other one gets its slot. Prints "done".
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "probe.h"
#include "stack.h"
#include "ui.h"
#include "volrpc.h"
#include <weft/commit.h>
#include <weft/volume.h>

#define SLOT    4096u
#define DEPTH   8u
#define WAIT_NS 20000000000ull
#define LOST    3

struct lane {
	uint8_t *buf;
	uint64_t slot, number;
	bool busy;
	struct weft_volume_req req;
	struct weft_volume_window win;
};

static struct {
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	struct weft_volume *v;
	const struct weft_volume_info *info;
	bool up, gone, windows, told;
	int status;
	uint32_t owner;
	uint64_t first, slots, random, next;
	struct lane lane[DEPTH];
	uint8_t mem[DEPTH][SLOT] __attribute__((aligned(4096)));
	uint8_t big[2 << 20] __attribute__((aligned(4096)));
} pr;

static uint64_t
draw(uint64_t *x)
{
	*x = *x * 6364136223846793005ULL + 1442695040888963407ULL;
	return (*x >> 33) ^ (*x << 13 >> 40);
}

/* ---- The connection ---- */

static void lane_done(struct lane *l, int status);

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		if (pr.rpc != NULL && weft_rpc_wc(pr.rpc, &wc[i]))
			continue;
		if (wc[i].wr_id < DEPTH)
			lane_done(&pr.lane[wc[i].wr_id],
			          wc[i].status == WEFT_WC_SUCCESS ? 0 : -ENOTCONN);
		else
			pr.told = true, pr.status = wc[i].status == WEFT_WC_SUCCESS ? 0 : -EIO;
	}
}

static void
on_event(void *user, const struct weft_event *ev)
{
	(void)user;
	pr.up = pr.up || ev->type == WEFT_EV_ESTABLISHED;
	if (ev->type == WEFT_EV_REJECTED || ev->type == WEFT_EV_CONNECT_ERROR ||
	    ev->type == WEFT_EV_DISCONNECTED) {
		pr.gone = true;
		if (pr.rpc != NULL)
			weft_rpc_disconnected(pr.rpc);
	}
}

static void
connect_to(const char *host, struct weft_ctx *ctx)
{
	static const struct weft_rpc_program *const programs[] = {&weft_volume_revokes, NULL};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 1024, .on_wc = on_wc};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	struct weft_qp_attr qa = {
	        .size = sizeof(qa), .worker = pr.w, .sq_depth = 256, .rq_depth = 64, .ord = 32};
	struct weft_rpc_attr ra = {
	        .size = sizeof(ra), .programs = programs, .reverse = WEFT_RPC_REVERSE_SIMPLE};
	struct weft_conn_attr na = {
	        .size = sizeof(na), .timeout_us = 5000000, .keepalive_us = 500000};
	struct sockaddr_storage to;

	if (addr_resolve(host, 7471, &to) != NULL || weft_pd_alloc(ctx, &pr.pd) != 0 ||
	    weft_cq_create(ctx, &ca, &pr.cq) != 0 || weft_evq_create(ctx, &ea, &pr.evq) != 0)
		ui_die("cannot start");
	qa.send_cq = qa.recv_cq = pr.cq;
	qa.evq = pr.evq;
	if (weft_qp_create(pr.pd, &qa, &pr.qp) != 0)
		ui_die("no queue pair");
	ra.qp = pr.qp;
	if (weft_rpc_create(&ra, &pr.rpc) != 0 ||
	    weft_connect(pr.qp, (struct sockaddr *)&to, addr_len(&to), &na) != 0 ||
	    !probe_wait(pr.w, &pr.up, &pr.gone, WAIT_NS))
		ui_die("cannot connect");
}

static void
open_volume(const char *name)
{
	const struct weft_volume_attr a = {
	        .size = sizeof(a), .rpc = pr.rpc, .worker = pr.w, .name = name};
	char why[160] = "";
	int rc = weft_volume_open_wait(&a, why, sizeof(why), &pr.v);

	if (rc != 0)
		ui_die("%s: %s (%s)", name, why, strerror(-rc));
	pr.info = weft_volume_info(pr.v);
}

/* ---- Stamps ---- */

static void
stamp(uint8_t *at, uint64_t slot, uint32_t owner, uint64_t number)
{
	uint64_t word[4] = {0x7374616d70ULL, slot, owner, number};

	for (uint32_t i = 0; i < SLOT; i += sizeof(word))
		memcpy(at + i, word, sizeof(word));
}

static void
say(const uint8_t *at, uint64_t slot)
{
	static const uint8_t zeros[SLOT];
	uint64_t word[4];
	uint8_t want[SLOT];

	memcpy(word, at, sizeof(word));
	stamp(want, slot, (uint32_t)word[2], word[3]);
	if (memcmp(at, zeros, SLOT) == 0)
		printf("%" PRIu64 " 0 0\n", slot);
	else if (memcmp(at, want, SLOT) == 0)
		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", slot, word[2], word[3]);
	else
		printf("%" PRIu64 " torn\n", slot);
}

/* ---- write ---- */

static void lane_go(struct lane *l);

static void
lane_done(struct lane *l, int status)
{
	char line[64];
	int n;

	if (status == -ENOTCONN || pr.gone) {
		pr.gone = true;
		return;
	}
	if (status != 0)
		ui_die("slot %" PRIu64 ": %s", l->slot, strerror(-status));
	/* One write(): a kill cuts off the lines of what comes later alone. */
	n = snprintf(line, sizeof(line), "%" PRIu64 " %" PRIu64 "\n", l->slot, l->number);
	if (write(1, line, (size_t)n) != n)
		_exit(1);
	l->busy = false;
	lane_go(l);
}

static void
lane_called(struct weft_volume_req *req)
{
	lane_done(req->owner, req->status);
}

static void
lane_window(void *arg, int status, const char *why)
{
	struct lane *l = arg;
	struct weft_sge sge = {.addr = l->buf, .len_bytes = SLOT};
	const struct weft_commit_range range = {
	        .sg_list = &sge, .num_sge = 1, .stag = l->win.stag, .to = l->win.to};
	const struct weft_commit c = {.wr_id = (uint64_t)(l - pr.lane),
	                              .flags = WEFT_COMMIT_NO_WORD,
	                              .ranges = &range,
	                              .num_ranges = 1};

	if (status != 0) {
		if (status != -ENOTCONN)
			fprintf(stderr, "window: %s\n", why);
		lane_done(l, status);
		return;
	}
	if (weft_commit(pr.qp, &c) != 0)
		lane_done(l, -ENOTCONN);
}

static bool
slot_is_busy(uint64_t slot)
{
	for (uint32_t i = 0; i < DEPTH; i++)
		if (pr.lane[i].busy && pr.lane[i].slot == slot)
			return true;
	return false;
}

static void
lane_go(struct lane *l)
{
	int rc;

	do
		l->slot = pr.first + draw(&pr.random) % pr.slots;
	while (slot_is_busy(l->slot));
	l->number = ++pr.next;
	l->busy = true;
	stamp(l->buf, l->slot, pr.owner, l->number);
	if (pr.windows) {
		rc = l->win.id != 0 ? weft_volume_window_move(&l->win, l->slot * SLOT, SLOT, 0,
		                                              lane_window, l)
		                    : weft_volume_window_open(pr.v, &l->win, l->slot * SLOT, SLOT,
		                                              WEFT_VOLUME_RIGHT_WRITE |
		                                                      WEFT_VOLUME_RIGHT_FLUSH,
		                                              0, lane_window, l);
	} else {
		l->req = (struct weft_volume_req){.op = WEFT_VOLUME_OP_WRITE,
		                                  .flags = WEFT_VOLUME_F_DURABLE,
		                                  .off_bytes = l->slot * SLOT,
		                                  .len_bytes = SLOT,
		                                  .data = l->buf,
		                                  .done = lane_called,
		                                  .owner = l};
		rc = weft_volume_submit(pr.v, &l->req);
	}
	if (rc != 0)
		lane_done(l, -ENOTCONN);
}

static void
write_slots(char **arg)
{
	pr.owner = (uint32_t)atoi(arg[0]);
	pr.random = strtoull(arg[1], NULL, 10);
	pr.first = strtoull(arg[2], NULL, 10);
	pr.slots = strtoull(arg[3], NULL, 10);
	pr.windows = strcmp(arg[4], "windows") == 0;
	/* Numbers of a later run of the same owner are greater. */
	pr.next = ui_now_ns() / 1000;
	for (uint32_t i = 0; i < DEPTH; i++) {
		pr.lane[i].buf = pr.mem[i];
		lane_go(&pr.lane[i]);
	}
	while (!pr.gone)
		(void)weft_worker_poll(pr.w);
	_exit(LOST);
}

/* ---- check ---- */

static void
check_slots(char **arg)
{
	uint64_t first = strtoull(arg[0], NULL, 10), n = strtoull(arg[1], NULL, 10);
	const uint64_t most = sizeof(pr.big) / SLOT;

	for (uint64_t i = 0; i < n; i += most) {
		uint64_t now = n - i < most ? n - i : most;

		if (weft_volume_read(pr.v, (first + i) * SLOT, pr.big, now * SLOT) != 0)
			ui_die("read of slot %" PRIu64 " failed", first + i);
		for (uint64_t k = 0; k < now; k++)
			say(pr.big + k * SLOT, first + i + k);
	}
	fflush(stdout);
}

/* ---- spread ---- */

static void
window_told(void *arg, int status, const char *why)
{
	(void)arg;
	(void)why;
	pr.told = true;
	pr.status = status;
}

static int
window_wait(int rc)
{
	if (rc == 0 && !probe_wait(pr.w, &pr.told, &pr.gone, WAIT_NS))
		ui_die("a window got no answer");
	pr.told = false;
	return rc != 0 ? rc : pr.status;
}

/** Write by a window that covers the range, filled first; the window is opened on whole pages. */
static void
spread_by_window(uint64_t off, uint32_t len)
{
	const uint64_t page = pr.info->window_align, at = off / page * page;
	uint64_t end = (off + len + page - 1) / page * page;
	struct weft_volume_window w = {0};
	struct weft_sge sge = {.addr = pr.big, .len_bytes = len};
	struct weft_commit_range range = {.sg_list = &sge, .num_sge = 1};
	const struct weft_commit c = {
	        .wr_id = DEPTH, .flags = WEFT_COMMIT_NO_WORD, .ranges = &range, .num_ranges = 1};
	int rc;

	if (end > pr.info->bytes)
		end = pr.info->bytes;
	rc = window_wait(weft_volume_window_open(pr.v, &w, at, (uint32_t)(end - at),
	                                         WEFT_VOLUME_RIGHT_READ | WEFT_VOLUME_RIGHT_WRITE |
	                                                 WEFT_VOLUME_RIGHT_FLUSH,
	                                         WEFT_VOLUME_WINDOW_F_FILL, window_told, NULL));
	if (rc != 0)
		ui_die("window at %" PRIu64 ": %s", at, strerror(-rc));
	range.stag = w.stag;
	range.to = w.to + (off - at);
	if (window_wait(weft_commit(pr.qp, &c)) != 0)
		ui_die("commit at %" PRIu64 " failed", off);
	if (window_wait(weft_volume_window_close(&w, window_told, NULL)) != 0)
		ui_die("close of a window failed");
}

static void
spread(char **arg)
{
	struct piece {
		uint64_t off, seed;
		uint32_t len;
	} * p;
	const uint32_t n = (uint32_t)atoi(arg[1]), part = (uint32_t)atoi(arg[2]);
	const uint32_t of = (uint32_t)atoi(arg[3]);
	/* A place for each piece, so that the last write of each octet is known. Windows are opened
	 * on whole pages, so two places have a page between them. */
	const uint64_t page = pr.info->window_align, room = pr.info->bytes / n / of / page * page;
	uint64_t x, octets = 0;

	if (room < 4 * page)
		ui_die("the volume has no room for %" PRIu32 " pieces", n * of);
	pr.random = strtoull(arg[0], NULL, 10);
	p = calloc(n, sizeof(*p));
	for (uint32_t i = 0; p != NULL && i < n; i++) {
		p[i].len = 1 + (uint32_t)(draw(&pr.random) % ((1u << 20) - 8192));
		if (p[i].len > room / 2)
			p[i].len = (uint32_t)(room / 2);
		p[i].off = ((uint64_t)i * of + part) * room +
		           draw(&pr.random) % (room - page - p[i].len);
		x = p[i].seed = draw(&pr.random);
		for (uint32_t k = 0; k < p[i].len; k++)
			pr.big[k] = (uint8_t)draw(&x);
		if (i % 2 == 0 && pr.info->window_bytes > 0)
			spread_by_window(p[i].off, p[i].len);
		else if (weft_volume_write(pr.v, p[i].off, pr.big, p[i].len,
		                           WEFT_VOLUME_F_DURABLE) != 0)
			ui_die("write at %" PRIu64 " failed", p[i].off);
	}
	for (uint32_t i = 0; p != NULL && i < n; i++) {
		memset(pr.big, 0, p[i].len);
		if (weft_volume_read(pr.v, p[i].off, pr.big, p[i].len) != 0)
			ui_die("read at %" PRIu64 " failed", p[i].off);
		x = p[i].seed;
		for (uint32_t k = 0; k < p[i].len; k++)
			if (pr.big[k] != (uint8_t)draw(&x))
				ui_die("octet %" PRIu64 " is wrong", p[i].off + k);
		octets += p[i].len;
	}
	free(p);
	printf("done %" PRIu64 "\n", octets);
}

/* ---- refuse ---- */

static void
expect(const char *what, int have, int want)
{
	if (have != want)
		ui_die("%s: status %d (%s), expected %d", what, have, strerror(-have), want);
}

static void
refuse(void)
{
	const uint32_t rw = WEFT_VOLUME_RIGHT_WRITE | WEFT_VOLUME_RIGHT_FLUSH;
	struct weft_volume_window a = {0}, b = {0};
	struct weft_volume_req req = {0};
	uint8_t two[2][512] = {{1}, {2}};

	expect("a window",
	       window_wait(weft_volume_window_open(pr.v, &a, 0, 65536, rw, 0, window_told, NULL)),
	       0);
	expect("a window that overlaps",
	       window_wait(weft_volume_window_open(pr.v, &b, 4096, 4096, rw, 0, window_told, NULL)),
	       -EBUSY);
	expect("a read-only window that overlaps",
	       window_wait(weft_volume_window_open(pr.v, &b, 4096, 4096, WEFT_VOLUME_RIGHT_READ,
	                                           WEFT_VOLUME_WINDOW_F_FILL, window_told, NULL)),
	       -EBUSY);
	expect("a write where a window is", weft_volume_write(pr.v, 100, two[0], 512, 0), -EBUSY);
	expect("a write beside it", weft_volume_write(pr.v, 65536, two[0], 512, 0), 0);
	expect("its close", window_wait(weft_volume_window_close(&a, window_told, NULL)), 0);
	expect("a write where it was", weft_volume_write(pr.v, 100, two[0], 512, 0), 0);
	req = (struct weft_volume_req){.op = WEFT_VOLUME_OP_COMPARE_WRITE,
	                               .off_bytes = 100,
	                               .len_bytes = 512,
	                               .data = two[1],
	                               .expect = two[1]};
	expect("a compare-and-write that differs", weft_volume_submit_wait(pr.v, &req), -EILSEQ);
	if (req.at_bytes != 100)
		ui_die("it differs at %" PRIu64, req.at_bytes);
	req = (struct weft_volume_req){.op = WEFT_VOLUME_OP_COMPARE_WRITE,
	                               .off_bytes = 100,
	                               .len_bytes = 512,
	                               .data = two[1],
	                               .expect = two[0]};
	expect("a compare-and-write", weft_volume_submit_wait(pr.v, &req), 0);
	expect("a read behind the end", weft_volume_read(pr.v, pr.info->bytes - 10, pr.big, 11),
	       -EINVAL);
	puts("done");
}

/* ---- long ---- */

static struct {
	bool done;
	weft_volrpc_status status;
	uint32_t handle, range_bytes;
} raw;

static void
raw_answered(void *arg, enum weft_rpc_status status, void *res)
{
	const weft_volrpc_open_res *open = res;

	(void)arg;
	if (status != WEFT_RPC_OK)
		ui_die("a call: %s", weft_rpc_status_str(status));
	/* The status is the first member of all results. */
	raw.status = open->status;
	raw.done = true;
}

static void
raw_opened(void *arg, enum weft_rpc_status status, void *res)
{
	const weft_volrpc_open_res *open = res;

	raw_answered(arg, status, res);
	raw.handle = open->weft_volrpc_open_res_u.grant.handle;
	raw.range_bytes = open->weft_volrpc_open_res_u.grant.range_bytes;
}

/** A call as no library cuts it: its status. */
static int
raw_call(uint32_t proc, xdrproc_t xdr_args, const void *args, xdrproc_t xdr_res, size_t res_bytes)
{
	raw.done = false;
	if (weft_rpc_call(pr.rpc, WEFT_VOLRPC_PROG, WEFT_VOLRPC_V2, proc, xdr_args, args, xdr_res,
	                  res_bytes, 0, proc == WEFT_VOLRPC_OPEN ? raw_opened : raw_answered,
	                  NULL) != 0 ||
	    !probe_wait(pr.w, &raw.done, &pr.gone, WAIT_NS))
		ui_die("procedure %u got no answer", proc);
	return (int)raw.status;
}

static int
raw_range(uint32_t proc, uint64_t off, uint64_t len)
{
	const weft_volrpc_range_args args = {.handle = raw.handle, .off = off, .len = len};
	xdrproc_t res = (xdrproc_t)xdr_weft_volrpc_res;
	size_t bytes = sizeof(weft_volrpc_res);

	if (proc == WEFT_VOLRPC_VERIFY) {
		res = (xdrproc_t)xdr_weft_volrpc_verify_res;
		bytes = sizeof(weft_volrpc_verify_res);
	} else if (proc == WEFT_VOLRPC_EXTENTS) {
		res = (xdrproc_t)xdr_weft_volrpc_extents_res;
		bytes = sizeof(weft_volrpc_extents_res);
	}
	return raw_call(proc, (xdrproc_t)xdr_weft_volrpc_range_args, &args, res, bytes);
}

static void
long_ranges(char *name)
{
	static const uint32_t limited[] = {WEFT_VOLRPC_VERIFY, WEFT_VOLRPC_DISCARD,
	                                   WEFT_VOLRPC_ZEROES};
	const weft_volrpc_open_args open = {.name = name};
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_ZEROES, .len_bytes = pr.info->bytes};
	const uint64_t most = WEFT_VOLRPC_RANGE_MAX;
	uint8_t hash[64], octet;

	expect("an OPEN",
	       raw_call(WEFT_VOLRPC_OPEN, (xdrproc_t)xdr_weft_volrpc_open_args, &open,
	                (xdrproc_t)xdr_weft_volrpc_open_res, sizeof(weft_volrpc_open_res)),
	       WEFT_VOLRPC_OK);
	if (raw.range_bytes != most || pr.info->range_bytes != most || pr.info->bytes <= most)
		ui_die("the longest range has %u octets", raw.range_bytes);
	for (uint32_t i = 0; i < 3; i++) {
		expect("the longest range", raw_range(limited[i], 4096, most), WEFT_VOLRPC_OK);
		expect("a longer range", raw_range(limited[i], 4096, most + 1),
		       WEFT_VOLRPC_TOO_LONG);
		expect("a range without end", raw_range(limited[i], 4096, UINT64_MAX),
		       WEFT_VOLRPC_TOO_LONG);
	}
	expect("a FLUSH", raw_range(WEFT_VOLRPC_FLUSH, 0, pr.info->bytes), WEFT_VOLRPC_OK);
	expect("an EXTENTS", raw_range(WEFT_VOLRPC_EXTENTS, 0, pr.info->bytes), WEFT_VOLRPC_OK);
	expect("a write", weft_volume_write(pr.v, pr.info->bytes - 1, "x", 1, 0), 0);
	expect("zeroes of all", weft_volume_submit_wait(pr.v, &req), 0);
	expect("a read", weft_volume_read(pr.v, pr.info->bytes - 1, &octet, 1), 0);
	if (octet != 0)
		ui_die("the last octet is %u", octet);
	req.op = WEFT_VOLUME_OP_DISCARD;
	expect("a discard of all", weft_volume_submit_wait(pr.v, &req), 0);
	expect("a verify of all", weft_volume_verify(pr.v, 0, pr.info->bytes, hash), -EMSGSIZE);
	expect("a verify", weft_volume_verify(pr.v, 1, most, hash), 0);
	puts("done");
}

/* ---- order ---- */

static unsigned int order_ended;

static void
order_done(struct weft_volume_req *req)
{
	*(unsigned int *)req->owner = ++order_ended;
}

static void
order(char **arg)
{
	static struct weft_volume_req req[4];
	static uint8_t page[4096], few[16];
	unsigned int at[4];

	pr.random = strtoull(arg[0], NULL, 10);
	for (int i = 0; i < atoi(arg[1]); i++) {
		const uint64_t off = draw(&pr.random) % (pr.info->bytes - (1u << 20));
		const uint64_t in = off + draw(&pr.random) % ((1u << 20) - sizeof(page));

		memset(pr.big, i % 250 + 1, 1u << 20);
		memset(few, 255, sizeof(few));
		memset(page, 0, sizeof(page));
		req[0] = (struct weft_volume_req){.op = WEFT_VOLUME_OP_WRITE,
		                                  .off_bytes = off,
		                                  .len_bytes = 1u << 20,
		                                  .data = pr.big};
		req[1] = (struct weft_volume_req){.op = WEFT_VOLUME_OP_READ,
		                                  .off_bytes = in,
		                                  .len_bytes = sizeof(page),
		                                  .data = page};
		req[2] = (struct weft_volume_req){.op = WEFT_VOLUME_OP_WRITE,
		                                  .off_bytes = in + 1,
		                                  .len_bytes = sizeof(few),
		                                  .data = few};
		req[3] = (struct weft_volume_req){
		        .op = WEFT_VOLUME_OP_FLUSH, .off_bytes = in + 1, .len_bytes = 1};
		order_ended = 0;
		for (unsigned int k = 0; k < 4; k++) {
			req[k].done = order_done;
			req[k].owner = &at[k];
			expect("a submit", weft_volume_submit(pr.v, &req[k]), 0);
		}
		for (const uint64_t end = ui_now_ns() + WAIT_NS; order_ended < 4;) {
			if (pr.gone || ui_now_ns() > end)
				ui_die("round %d: %u requests ended", i, order_ended);
			if (weft_worker_poll(pr.w) == 0)
				weft_worker_idle(pr.w, 50);
		}
		for (unsigned int k = 0; k < 4; k++)
			expect("a request", req[k].status, 0);
		for (unsigned int k = 0; k < sizeof(page); k++)
			if (page[k] != i % 250 + 1)
				ui_die("round %d: octet %u that was read is %u", i, k, page[k]);
		expect("a read", weft_volume_read(pr.v, in, page, sizeof(page)), 0);
		if (page[0] != i % 250 + 1 || memcmp(page + 1, few, sizeof(few)) != 0)
			ui_die("round %d: the second write came first", i);
		if (at[3] != 4)
			ui_die("round %d: the flush has ended as number %u", i, at[3]);
	}
	puts("done");
}

/* ---- moved ---- */

static void
moved(char **arg)
{
	const uint32_t rw = WEFT_VOLUME_RIGHT_WRITE | WEFT_VOLUME_RIGHT_FLUSH;
	struct weft_sge sge = {.addr = pr.mem[0], .len_bytes = SLOT};
	struct weft_volume_window w = {0};
	struct weft_commit_range range = {.sg_list = &sge, .num_sge = 1};
	const struct weft_commit c = {
	        .wr_id = DEPTH, .flags = WEFT_COMMIT_NO_WORD, .ranges = &range, .num_ranges = 1};

	expect("a window",
	       window_wait(weft_volume_window_open(pr.v, &w, 0, SLOT, rw, 0, window_told, NULL)),
	       0);
	range.stag = w.stag;
	range.to = w.to;
	stamp(pr.mem[0], 0, 1, 1);
	expect("its commit", window_wait(weft_commit(pr.qp, &c)), 0);
	expect("its move",
	       window_wait(weft_volume_window_move(&w, strtoull(arg[0], NULL, 10), SLOT,
	                                           WEFT_VOLUME_WINDOW_F_FILL, window_told, NULL)),
	       -EBADMSG);
	stamp(pr.mem[0], 0, 1, 2);
	if (weft_commit(pr.qp, &c) == 0 && probe_wait(pr.w, &pr.told, &pr.gone, WAIT_NS) &&
	    pr.status == 0)
		puts("landed");
	else
		puts("refused");
	fflush(stdout);
	_exit(0);
}

/* ---- Many grants ---- */

#define HELD 64u /* grants of a connection */

static struct weft_volume *held[HELD];

/** The export as often as asked; the first one is open already. */
static uint32_t
open_held(const char *name, const char *grants)
{
	const struct weft_volume_attr a = {
	        .size = sizeof(a), .rpc = pr.rpc, .worker = pr.w, .name = name};
	uint32_t n = (uint32_t)atoi(grants);
	char why[160] = "";

	if (n == 0 || n > HELD)
		ui_die("1 to %u grants", HELD);
	held[0] = pr.v;
	for (uint32_t i = 1; i < n; i++)
		if (weft_volume_open_wait(&a, why, sizeof(why), &held[i]) != 0)
			ui_die("grant %u: %s", i, why);
	return n;
}

static void
hold_read(struct weft_volume_req *req)
{
	pr.told = true;
	pr.status = req->status;
}

static void
hold(const char *name, char **arg)
{
	const uint32_t n = open_held(name, arg[0]), each = (uint32_t)atoi(arg[1]);
	struct weft_volume_req *req = calloc((size_t)n * each, sizeof(*req));

	for (uint32_t i = 0; req != NULL && i < n * each; i++) {
		req[i] = (struct weft_volume_req){.op = WEFT_VOLUME_OP_READ,
		                                  .len_bytes = 1 << 20,
		                                  .data = pr.big,
		                                  .done = hold_read};
		expect("a read", weft_volume_submit(held[i / each], &req[i]), 0);
	}
	if (req == NULL || !probe_wait(pr.w, &pr.told, &pr.gone, WAIT_NS))
		ui_die("no read is answered");
	expect("the first read", pr.status, 0);
	puts("holds");
	fflush(stdout);
	(void)raise(SIGSTOP);
	while (!pr.gone)
		(void)weft_worker_poll(pr.w);
	_exit(LOST);
}

static void
hold_windows(const char *name, char **arg)
{
	const uint32_t rw = WEFT_VOLUME_RIGHT_WRITE | WEFT_VOLUME_RIGHT_FLUSH;
	const uint32_t n = open_held(name, arg[0]), each = (uint32_t)atoi(arg[1]);
	struct weft_volume_window *w = calloc((size_t)n * each, sizeof(*w));
	uint64_t off = strtoull(arg[2], NULL, 10);
	uint32_t opened = 0;

	for (uint32_t i = 0; w != NULL && i < n * each; i++, off += 65536)
		opened += window_wait(weft_volume_window_open(held[i / each], &w[i], off, 65536, rw,
		                                              0, window_told, NULL)) == 0;
	printf("opened %u\n", opened);
	fflush(stdout);
	while (!pr.gone)
		(void)weft_worker_poll(pr.w);
	_exit(LOST);
}

/* ---- slots ---- */

struct answer {
	bool told;
	int status;
};

static void
answered(void *arg, int status, const char *why)
{
	struct answer *a = arg;

	(void)why;
	a->told = true;
	a->status = status;
}

static int
answer_of(const struct answer *a)
{
	if (!probe_wait(pr.w, &a->told, &pr.gone, WAIT_NS))
		ui_die("a window got no answer");
	return a->status;
}

static void
slots(char **arg)
{
	const uint32_t rw = WEFT_VOLUME_RIGHT_WRITE | WEFT_VOLUME_RIGHT_FLUSH;
	const uint32_t n = (uint32_t)atoi(arg[0]);
	static struct weft_volume_window w[HELD + 2];
	struct answer overlap = {0}, beside = {0};

	for (uint32_t i = 0; i < n && i < HELD; i++)
		expect("a window",
		       window_wait(weft_volume_window_open(pr.v, &w[i], i * 65536, 65536, rw, 0,
		                                           window_told, NULL)),
		       0);
	expect("one that overlaps",
	       weft_volume_window_open(pr.v, &w[n], 0, 65536, rw, 0, answered, &overlap), 0);
	expect("one that does not",
	       weft_volume_window_open(pr.v, &w[n + 1], n * 65536, 65536, rw, 0, answered, &beside),
	       0);
	expect("a close", window_wait(weft_volume_window_close(&w[n - 1], window_told, NULL)), 0);
	expect("the answer of the one that overlaps", answer_of(&overlap), -EBUSY);
	expect("the answer of the other one", answer_of(&beside), 0);
	puts("done");
}

int
main(int argc, char **argv)
{
	static struct stack stack;

	ui_init("volume_probe");
	if (argc < 6)
		ui_usage_die("DEV CIDR HOST EXPORT "
		             "write|check|spread|refuse|long|order|moved|hold|windows|slots ...");
	probe_up(&stack, "volume_probe", argv[1], argv[2]);
	pr.w = stack.workers[0];
	connect_to(argv[3], stack.ctx);
	open_volume(argv[4]);
	if (strcmp(argv[5], "write") == 0 && argc == 11)
		write_slots(argv + 6);
	else if (strcmp(argv[5], "check") == 0 && argc == 8)
		check_slots(argv + 6);
	else if (strcmp(argv[5], "spread") == 0 && argc == 10)
		spread(argv + 6);
	else if (strcmp(argv[5], "refuse") == 0)
		refuse();
	else if (strcmp(argv[5], "long") == 0)
		long_ranges(argv[4]);
	else if (strcmp(argv[5], "order") == 0 && argc == 8)
		order(argv + 6);
	else if (strcmp(argv[5], "moved") == 0 && argc == 7)
		moved(argv + 6);
	else if (strcmp(argv[5], "hold") == 0 && argc == 8)
		hold(argv[4], argv + 6);
	else if (strcmp(argv[5], "windows") == 0 && argc == 9)
		hold_windows(argv[4], argv + 6);
	else if (strcmp(argv[5], "slots") == 0 && argc == 7)
		slots(argv + 6);
	else
		ui_usage_die("DEV CIDR HOST EXPORT "
		             "write|check|spread|refuse|long|order|moved|hold|windows|slots ...");
	weft_volume_close_wait(pr.v);
	fflush(stdout);
	_exit(0);
}
