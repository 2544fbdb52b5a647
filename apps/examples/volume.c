/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A volume of a weft-target: octets written and read by calls, then by a window.
 *
 *     volume DEV OUR-ADDRESS/PREFIX TARGET NAME
 *
 * NAME is the export at the target that holds a volume. The program overwrites its first octets.
 *
 * The functions that wait (weft_volume_read(), ...) poll the worker here, because the thread that
 * calls them is the one that polls it. So completions have to come by a callback: nothing else
 * would pass them to the endpoint meanwhile.
 */

#include "example.h"

#include <arpa/inet.h>

#include <weft/commit.h>
#include <weft/hash.h>
#include <weft/volume.h>

#define SQ_DEPTH 512 /* registrations, Writes and Sends of the endpoint, and what we post */
#define CREDITS  16
#define WINDOW   1 /* the wr_id of what we post: no address of the endpoint */

static struct {
	struct example ex;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_rpc *rpc;
	bool connected, closed, flushed, window_told, revoked;
} prog;

/* ---- The connection, and its endpoint ---- */

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		if (weft_rpc_wc(prog.rpc, &wc[i]))
			continue;
		MUST(wc[i].status == WEFT_WC_SUCCESS);
		if (wc[i].wr_id == WINDOW)
			prog.flushed = true;
	}
}

static void
on_event(void *user, const struct weft_event *ev)
{
	(void)user;
	if (ev->type == WEFT_EV_ESTABLISHED) {
		prog.connected = true;
	} else if (ev->type == WEFT_EV_DISCONNECTED) {
		weft_rpc_disconnected(prog.rpc); /* what waits for an answer ends */
		prog.closed = true;
	} else {
		fprintf(stderr, "%s: %s\n", weft_event_str(ev->type), strerror(-ev->status));
		exit(1);
	}
}

static void
connect_to(const char *target)
{
	/* The target may take windows back by calls to us. */
	static const struct weft_rpc_program *const programs[] = {&weft_volume_revokes, NULL};
	struct example *ex = &prog.ex;
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(EXAMPLE_PORT)};
	struct weft_cq_attr ca = {
	        .size = sizeof(ca), .depth = 2 * (SQ_DEPTH + CREDITS + 1), .on_wc = on_wc};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = ex->worker,
	                          .sq_depth = SQ_DEPTH,
	                          .rq_depth = CREDITS + 1};
	struct weft_rpc_attr ra = {.size = sizeof(ra),
	                           .inline_bytes = WEFT_VOLUME_INLINE_BYTES,
	                           .credits = CREDITS,
	                           .programs = programs};

	MUST(inet_pton(AF_INET, target, &sa.sin_addr) == 1);
	MUST(weft_cq_create(ex->ctx, &ca, &prog.cq) == 0);
	MUST(weft_evq_create(ex->ctx, &ea, &prog.evq) == 0);
	qa.send_cq = qa.recv_cq = prog.cq;
	qa.evq = prog.evq;
	MUST(weft_qp_create(ex->pd, &qa, &ex->qp) == 0);
	ra.qp = ex->qp;
	MUST(weft_rpc_create(&ra, &prog.rpc) == 0);
	MUST(weft_connect(ex->qp, (struct sockaddr *)&sa, sizeof(sa), NULL) == 0);
	example_wait(ex, &prog.connected);
}

static void
disconnect(void)
{
	struct example *ex = &prog.ex;

	MUST(weft_disconnect(ex->qp) == 0);
	example_wait(ex, &prog.closed);
	weft_qp_destroy(ex->qp); /* the QP first, then its endpoint */
	weft_rpc_destroy(prog.rpc);
}

/* ---- Calls: any octets, no registration of memory ---- */

static void
by_calls(struct weft_volume *v)
{
	static const char text[] = "written by a call";
	const struct weft_volume_info *info = weft_volume_info(v);
	struct weft_sge sge = {.addr = (void *)(uintptr_t)text, .len_bytes = sizeof(text)};
	uint8_t is[WEFT_HASH_MAX_BYTES], must_be[WEFT_HASH_MAX_BYTES];
	char back[sizeof(text)];

	/* Neither offset nor length needs to be a multiple of anything. */
	MUST(weft_volume_write(v, 5, text, sizeof(text), 0) == 0);
	/* Only now a crash of the target cannot undo it. A write with WEFT_VOLUME_F_DURABLE does
	 * both at once. */
	MUST(weft_volume_flush(v, 5, sizeof(text)) == 0);
	MUST(weft_volume_read(v, 5, back, sizeof(back)) == 0);
	MUST(memcmp(back, text, sizeof(text)) == 0);
	printf("read back: %s\n", back);
	if (info->rights & WEFT_VOLUME_RIGHT_VERIFY) {
		MUST(weft_volume_verify(v, 5, sizeof(text), is) == 0);
		MUST(weft_commit_hash(info->hash, NULL, 0, &sge, 1, must_be, sizeof(must_be)) ==
		     (int)info->hash_bytes);
		MUST(memcmp(is, must_be, info->hash_bytes) == 0);
		printf("the medium has it, says %s\n", info->hash);
	}
}

/* ---- A window: one-sided, no call for a write ---- */

static void
window_told(void *arg, int status, const char *why)
{
	(void)arg;
	if (status != 0) {
		fprintf(stderr, "window: %s%s%s\n", strerror(-status), *why != '\0' ? ": " : "",
		        why);
		exit(1);
	}
	prog.window_told = true;
}

static void
window_revoked(struct weft_volume_window *w, uint32_t deadline_ms)
{
	(void)w;
	printf("the target takes the window back in %u ms\n", deadline_ms);
	prog.revoked = true; /* a longer program would flush and close it now */
}

static void
by_window(struct weft_volume *v)
{
	const struct weft_volume_info *info = weft_volume_info(v);
	static struct weft_volume_window w = {.revoked = window_revoked};
	uint32_t bytes = info->window_align; /* one page, which we write as a whole */
	struct example *ex = &prog.ex;
	struct weft_sge sge = {.len_bytes = bytes};
	struct weft_wr wr[2];
	char back[32];

	if (info->window_bytes == 0 || bytes > info->bytes) {
		printf("the volume has no windows\n");
		return;
	}
	MUST(weft_volume_window_open(v, &w, 0, bytes, 0, 0, window_told, NULL) == 0);
	example_wait(ex, &prog.window_told);

	sge.addr = calloc(1, bytes);
	MUST(sge.addr != NULL);
	strcpy(sge.addr, "written by a window");
	wr[0] = (struct weft_wr){.opcode = WEFT_WR_WRITE,
	                         .sg_list = &sge,
	                         .num_sge = 1,
	                         .rdma = {.stag = w.stag, .to = w.to}};
	/* The Flush makes the page durable; before it the page is in the window alone. */
	wr[1] = (struct weft_wr){.wr_id = WINDOW,
	                         .opcode = WEFT_WR_FLUSH,
	                         .flags = WEFT_WR_SIGNALED,
	                         .flush = {.stag = w.stag,
	                                   .to = w.to,
	                                   .len_bytes = bytes,
	                                   .flags = WEFT_FLUSH_PERSISTENT}};
	MUST(weft_post_send(ex->qp, wr, 2) == 2);
	example_wait(ex, &prog.flushed);

	prog.window_told = false;
	MUST(weft_volume_window_close(&w, window_told, NULL) == 0);
	example_wait(ex, &prog.window_told);
	MUST(weft_volume_read(v, 0, back, sizeof(back)) == 0);
	printf("read back: %.*s\n", (int)sizeof(back), back);
	free(sge.addr);
}

int
main(int argc, char **argv)
{
	struct weft_volume_attr va = {.size = sizeof(va)};
	struct weft_volume *v;
	char why[128];
	int rc;

	if (argc != 5) {
		fputs("usage: volume DEV CIDR TARGET NAME\n", stderr);
		return 2;
	}
	example_open(&prog.ex, argv[1], argv[2]);
	connect_to(argv[3]);
	va.rpc = prog.rpc;
	va.worker = prog.ex.worker;
	va.name = argv[4];
	rc = weft_volume_open_wait(&va, why, sizeof(why), &v);
	if (rc != 0) {
		fprintf(stderr, "volume %s: %s%s%s\n", argv[4], strerror(-rc),
		        why[0] != '\0' ? ": " : "", why);
		return 1;
	}
	printf("volume %s: %llu octets\n", argv[4], (unsigned long long)weft_volume_info(v)->bytes);
	by_calls(v);
	by_window(v);
	weft_volume_close_wait(v);
	disconnect();
	example_close(&prog.ex);
	return 0;
}
