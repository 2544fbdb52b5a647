/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Tests on a volume of a weft-target: it is opened, and read and written by calls. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "client_volume.h"
#include "client_wait.h"
#include "mix.h"
#include "ui.h"

/* ---- The endpoint ---- */

static int
volume_auth_step(void *conn_user, const uint8_t *in, uint32_t in_bytes, uint8_t *out,
                 uint32_t *out_bytes)
{
	struct client_volume *x = ((struct client *)conn_user)->vol;

	return host_auth_step(&x->auth, in, in_bytes, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);
}

int
client_volume_make(struct client *c)
{
	static const struct weft_rpc_auth auth = {.step = volume_auth_step, .required = true};
	static const struct weft_rpc_program *const revokes[] = {&weft_volume_revokes, NULL};
	const struct perf_hosts *hosts = c->job.hosts;
	struct weft_rpc_attr ra = {
	        .size = sizeof(ra),
	        .qp = c->qp,
	        .inline_bytes = WEFT_VOLUME_INLINE_BYTES,
	        .credits = perf_rpc_credits(c->job.depth),
	        .user = c,
	        .programs = revokes,
	        .reverse = WEFT_RPC_REVERSE_SIMPLE,
	};
	struct client_volume *x = calloc(1, sizeof(*x));

	c->vol = x;
	if (x == NULL)
		return -ENOMEM;
	x->call = calloc(c->job.depth, sizeof(*x->call));
	x->at = calloc(c->slots, sizeof(*x->at));
	if (x->call == NULL || x->at == NULL)
		return -ENOMEM;
	for (uint32_t i = c->job.depth; i-- > 0;) {
		struct volume_call *k = &x->call[i];

		k->c = c;
		k->mem = c->mem + (uint64_t)i * c->job.size_bytes;
		k->next = x->idle;
		x->idle = k;
	}
	if (hosts->auth.name[0] != '\0') {
		x->auth = (struct host_auth){.keys = &hosts->auth.keys};
		strcpy(x->auth.name, hosts->auth.name);
		(void)host_auth_place(&hosts->at[0].to, &x->auth.place);
		ra.auth = &auth;
	}
	return weft_rpc_create(&ra, &c->rpc);
}

/* ---- Opening and closing ---- */

static void
volume_opened(void *arg, int status, const char *why)
{
	struct client *c = arg;

	c->vol->told = true;
	if (status == 0)
		return;
	c->dead = true;
	c->err = status;
	snprintf(c->term, sizeof(c->term), "export %.60s: %.160s", c->job.hosts->at[0].export_name,
	         why[0] != '\0' ? why : strerror(-status));
}

static bool
volume_is_told(const struct client *c)
{
	return c->vol->told;
}

/** What this volume cannot do of the job. 0 or -errno with its text. */
static int
volume_check(struct client *c)
{
	const struct weft_volume_info *i = c->vol->info;
	const struct perf_job *j = &c->job;

	if (j->range_off_bytes > i->bytes || j->range_bytes > i->bytes - j->range_off_bytes) {
		snprintf(c->term, sizeof(c->term), "--range: the volume ends at octet %" PRIu64,
		         i->bytes);
		return -ERANGE;
	}
	if ((j->stable || j->flush_every != 0 || (j->windows && j->test == PERF_VOLUME_WRITE)) &&
	    !i->persistent) {
		snprintf(c->term, sizeof(c->term), "the volume is not persistent (%.100s)",
		         i->mechanism);
		return -EOPNOTSUPP;
	}
	if (j->windows && (i->window_bytes == 0 || j->size_bytes > i->window_bytes ||
	                   j->size_bytes % i->window_align != 0)) {
		snprintf(c->term, sizeof(c->term),
		         "by windows of this target a size is a multiple of %u, up to %u",
		         i->window_align, i->window_bytes);
		return -EMSGSIZE;
	}
	return 0;
}

/** Where this connection's messages go. */
static int
volume_places(struct client *c)
{
	const struct perf_job *j = &c->job;
	struct client_volume *x = c->vol;
	const uint64_t unit = j->windows ? client_window_span(c) : j->size_bytes;
	uint64_t bytes = j->range_bytes;

	if (bytes == 0)
		bytes = x->info->bytes - j->range_off_bytes;
	x->place = (struct volume_place){
	        .size_bytes = j->size_bytes, .random = j->random, .seed = j->seed};
	if (volume_place_share(&x->place, j->range_off_bytes, bytes, unit, c->number,
	                       c->crew->job->qps))
		return 0;
	snprintf(c->term, sizeof(c->term),
	         "the range has %" PRIu64 " octets, and each connection needs %" PRIu64 " of them",
	         bytes, unit);
	return -ERANGE;
}

int
client_volume_begin(struct client *c)
{
	const struct perf_job *j = &c->job;
	const bool flushes = j->stable || j->flush_every != 0 || j->windows;
	const struct weft_volume_attr a = {
	        .size = sizeof(a),
	        .rpc = c->rpc,
	        .worker = c->w,
	        .name = j->hosts->at[0].export_name,
	        .rights = j->test == PERF_VOLUME_READ
	                          ? WEFT_VOLUME_RIGHT_READ
	                          : WEFT_VOLUME_RIGHT_WRITE |
	                                    (j->verify ? WEFT_VOLUME_RIGHT_READ : 0) |
	                                    (flushes ? WEFT_VOLUME_RIGHT_FLUSH : 0),
	};
	struct client_volume *x = c->vol;
	int rc = weft_volume_open(&a, volume_opened, c, &x->v);

	if (rc == 0)
		rc = client_wait(c, volume_is_told);
	if (rc == 0 && c->dead)
		rc = c->err;
	if (rc != 0)
		return rc;
	x->info = weft_volume_info(x->v);
	rc = volume_check(c);
	if (rc == 0)
		rc = volume_places(c);
	/* Octets that no device can make short. */
	for (uint64_t i = 0; i < c->slots && rc == 0; i++)
		flow_pattern(c->mem + i * j->size_bytes, j->size_bytes, i);
	if (rc == 0 && j->windows)
		rc = client_window_begin(c);
	return rc == 0 && c->dead ? c->err : rc;
}

const char *
client_volume_medium(const struct client *c)
{
	return c->vol->info->mechanism;
}

static void
volume_closed(void *arg, int status, const char *why)
{
	(void)status;
	(void)why;
	*(bool *)arg = true;
}

void
client_volume_close(struct client *c)
{
	const uint64_t until_ns = ui_now_ns() + STALL_S * 1000000000ull;
	static _Thread_local bool done;

	if (c->vol == NULL || c->vol->v == NULL)
		return;
	done = false;
	c->vol->closed = true;
	weft_volume_close(c->vol->v, volume_closed, &done);
	c->vol->v = NULL;
	/* On a dead connection it is answered as well. */
	while (!done && ui_now_ns() < until_ns)
		loop_turn(c->loop, LOOP_WAIT_NS);
}

void
client_volume_end(struct client *c)
{
	if (c->vol == NULL)
		return;
	free(c->vol->window);
	free(c->vol->left);
	free(c->vol->at);
	free(c->vol->call);
	free(c->vol);
	c->vol = NULL;
}

/* ---- Calls ---- */

static void
call_done(struct weft_volume_req *req)
{
	struct volume_call *k = req->owner;
	struct client *c = k->c;

	k->next = c->vol->idle;
	c->vol->idle = k;
	if (k->check)
		c->vol->checked++;
	else
		c->f.completed++;
	if (req->status != 0)
		client_volume_fail(c, req->status,
		                   req->op == WEFT_VOLUME_OP_READ ? "a READ" : "a WRITE",
		                   req->off_bytes, req->why);
}

/** Make the call of message number seq, from or to this memory. The entry is free. check: read back
 * what the message has written. */
static int
call_make(struct client *c, uint64_t seq, uint8_t *mem, bool check)
{
	struct client_volume *x = c->vol;
	struct volume_call *k = x->idle;
	const struct perf_job *j = &c->job;
	int rc;

	x->idle = k->next;
	k->check = check;
	k->req = (struct weft_volume_req){
	        .op = check || j->test == PERF_VOLUME_READ ? WEFT_VOLUME_OP_READ
	                                                   : WEFT_VOLUME_OP_WRITE,
	        .flags = j->stable && !check ? WEFT_VOLUME_F_DURABLE : 0,
	        .off_bytes = check ? x->at[seq % c->slots] : volume_place_at(&x->place, seq),
	        .len_bytes =
	                j->mix != NULL ? j->mix->shot[seq % MIX_SHOTS].size_bytes : j->size_bytes,
	        .data = mem != NULL ? mem : k->mem,
	        .done = call_done,
	        .owner = k,
	};
	x->at[seq % c->slots] = k->req.off_bytes;
	rc = weft_volume_submit(x->v, &k->req);
	if (rc != 0)
		client_volume_fail(c, rc, "a call", k->req.off_bytes, "");
	return rc;
}

static void
flush_done(struct weft_volume_req *req)
{
	struct client *c = req->owner;

	c->vol->flushing = false;
	if (req->status != 0)
		client_volume_fail(c, req->status, "a FLUSH", 0, req->why);
}

/** With --flush-every: make a FLUSH when so many messages were posted. False: one is under way
 * still, and the next one is due. */
static bool
flush_due(struct client *c)
{
	struct client_volume *x = c->vol;
	int rc;

	if (c->job.flush_every == 0 || c->f.posted - x->flushed_at < c->job.flush_every)
		return true;
	if (x->flushing)
		return false;
	x->flush = (struct weft_volume_req){
	        .op = WEFT_VOLUME_OP_FLUSH, .done = flush_done, .owner = c};
	rc = weft_volume_submit(x->v, &x->flush);
	x->flushing = rc == 0;
	x->flushed_at = c->f.posted;
	if (rc != 0)
		client_volume_fail(c, rc, "a FLUSH", 0, "");
	return true;
}

void
client_volume_fill(struct client *c, uint64_t end)
{
	if (c->job.windows) {
		client_window_fill(c, end);
		return;
	}
	while (!c->dead && c->f.posted < end && c->vol->idle != NULL && flush_due(c)) {
		/* With verify each message of a round has a slot of its own. */
		uint8_t *mem =
		        c->job.verify ? c->mem + c->f.posted % c->slots * c->job.size_bytes : NULL;

		if (call_make(c, c->f.posted, mem, false) != 0)
			return;
		c->f.posted++;
	}
}

static bool
volume_is_drained(const struct client *c)
{
	return client_is_drained(c) && !c->dead;
}

/** Post up to `end` messages in all, and wait for their completions. */
static int
volume_until(struct client *c, uint64_t end)
{
	while (!c->dead && c->f.posted < end) {
		client_volume_fill(c, end);
		loop_turn(c->loop, LOOP_WAIT_NS); /* a call without an answer ends by its timeout */
	}
	return c->dead ? c->err : client_wait(c, volume_is_drained);
}

int
client_volume_round(struct client *c)
{
	return volume_until(c, c->f.posted + 1);
}

/* ---- Each octet compared ---- */

/** The stamp of message number seq, of 32 bits. Neither another message nor one of an earlier run
 * has its octets. */
static uint64_t
volume_stamp(const struct client *c, uint64_t seq)
{
	return ((c->crew->id + c->number) * 0x9e3779b97f4a7c15ull + seq) * 0xbf58476d1ce4e5b9ull >>
	       32;
}

static bool
volume_is_checked(const struct client *c)
{
	return c->vol->checked == c->vol->checks;
}

uint64_t
client_volume_part(const struct client *c, uint64_t first, uint64_t n)
{
	const uint64_t left = c->vol->place.n - first % c->vol->place.n;

	return n < left ? n : left;
}

int
client_volume_verify(struct client *c, uint64_t first, uint64_t n)
{
	const uint32_t bytes = c->job.size_bytes;
	int rc;

	for (uint64_t seq = first; seq < first + n; seq++)
		flow_pattern(c->mem + seq % c->slots * bytes, bytes, volume_stamp(c, seq));
	rc = volume_until(c, first + n);
	for (uint64_t seq = first; seq < first + n && rc == 0; seq++) {
		memset(c->back + seq % c->slots * bytes, 0, bytes);
		rc = call_make(c, seq, c->back + seq % c->slots * bytes, true);
		c->vol->checks += rc == 0;
	}
	if (rc == 0)
		rc = client_wait(c, volume_is_checked);
	if (rc == 0 && c->dead)
		rc = c->err;
	for (uint64_t seq = first; seq < first + n && rc == 0; seq++) {
		const uint8_t *slot = c->back + seq % c->slots * bytes;
		const uint32_t at = flow_compare(slot, bytes, volume_stamp(c, seq));

		if (at == bytes)
			continue;
		snprintf(c->term, sizeof(c->term),
		         "octet %u of the message at octet %" PRIu64
		         " of the volume is 0x%02x instead of 0x%02x",
		         at, c->vol->at[seq % c->slots], slot[at],
		         c->mem[seq % c->slots * bytes + at]);
		rc = -EILSEQ;
	}
	return rc;
}
