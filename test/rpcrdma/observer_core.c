/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The rules that the observer of the wire checks. */

#include <string.h>

#include "observer_core.h"
#include "weft_test.h"

static struct obs *obs;

static void
fault(const char *what)
{
	if (obs->fault == NULL)
		obs->fault = what;
}

static unsigned int
side_of(const struct weft_qp *qp)
{
	return qp == obs->qp[0] ? 0 : 1;
}

static struct obs_call *
call_of(struct obs_side *s, uint32_t xid)
{
	for (unsigned int i = 0; i < OBS_CALLS; i++)
		if (s->call[i].live && s->call[i].xid == xid)
			return &s->call[i];
	return NULL;
}

/* ---- Chunks ---- */

static bool
has_handle(const struct rpcrdma_chunks *c, uint32_t handle)
{
	for (unsigned int i = 0; i < c->n_segs; i++)
		if (c->segs[i].handle == handle)
			return true;
	return false;
}

static bool
in_chunk(const struct rpcrdma_chunks *c, const struct rpcrdma_chunk *k, uint32_t handle,
         uint64_t to, uint32_t len_bytes)
{
	for (unsigned int i = k->first; i < k->first + k->n_segs; i++) {
		const struct rpcrdma_segment *s = &c->segs[i];

		if (s->handle == handle && to >= s->offset && to - s->offset <= s->len_bytes &&
		    len_bytes <= s->len_bytes - (to - s->offset))
			return true;
	}
	return false;
}

static bool
offered(const struct obs_call *k, bool write, uint32_t handle, uint64_t to, uint32_t len_bytes)
{
	const struct rpcrdma_chunks *c = &k->offer;

	if (!write && in_chunk(c, &c->call, handle, to, len_bytes))
		return true;
	if (write && c->has_reply && in_chunk(c, &c->reply, handle, to, len_bytes))
		return true;
	for (unsigned int i = 0; !write && i < c->n_reads; i++)
		if (in_chunk(c, &c->reads[i], handle, to, len_bytes))
			return true;
	for (unsigned int i = 0; write && i < c->n_writes; i++)
		if (in_chunk(c, &c->writes[i], handle, to, len_bytes))
			return true;
	return false;
}

void
obs_on_access(struct weft_qp *qp, bool write, uint32_t handle, uint64_t to, uint32_t len_bytes)
{
	struct obs_side *s = &obs->side[!side_of(qp)];

	obs->accesses++;
	for (unsigned int i = 0; i < OBS_CALLS; i++)
		if (s->call[i].live && s->call[i].arrived &&
		    offered(&s->call[i], write, handle, to, len_bytes))
			return;
	fault("memory that no call offers");
}

/* Draft s6.5: a reply may invalidate only a handle that its call names. */
void
obs_on_invalidate(struct weft_qp *qp, const void *buf, uint32_t len_bytes, uint32_t handle)
{
	struct obs_call *k =
	        call_of(&obs->side[!side_of(qp)], len_bytes >= 16 ? weft_get_be32(buf) : 0);

	if (k == NULL || k->offer.inv_handle != handle || handle == 0)
		fault("invalidates what was not asked for");
}

/* Draft s4.5.2.1, RFC 8166 s4.3.2: a chunk is returned with the segments of the call, filled from
 * the first. */
static bool
same_chunk(const struct rpcrdma_chunks *a, const struct rpcrdma_chunk *ka,
           const struct rpcrdma_chunks *b, const struct rpcrdma_chunk *kb)
{
	bool full = true;

	if (ka->n_segs != kb->n_segs)
		return false;
	for (unsigned int i = 0; i < ka->n_segs; i++) {
		const struct rpcrdma_segment *sa = &a->segs[ka->first + i];
		const struct rpcrdma_segment *sb = &b->segs[kb->first + i];

		if (sa->handle != sb->handle || sa->offset != sb->offset ||
		    sb->len_bytes > sa->len_bytes || (!full && sb->len_bytes > 0))
			return false;
		full = full && sb->len_bytes == sa->len_bytes;
	}
	return true;
}

static void
check_returned(const struct obs_call *k, const struct rpcrdma_hdr *h)
{
	const struct rpcrdma_chunks *a = &k->offer, *b = &h->chunks;
	bool ok = a->n_writes == b->n_writes;

	for (unsigned int i = 0; ok && i < a->n_writes; i++)
		ok = same_chunk(a, &a->writes[i], b, &b->writes[i]);
	if (ok && b->has_reply)
		ok = a->has_reply && same_chunk(a, &a->reply, b, &b->reply);
	if (ok && h->p.vers == RPCRDMA_V1)
		ok = a->has_reply == b->has_reply && b->n_reads == 0;
	if (!ok)
		fault("chunks returned otherwise than offered");
}

/* ---- Messages ---- */

/* ---- Which combinations were seen ---- */

static void
shape_of(enum obs_shape *shape, const struct rpcrdma_chunk *k)
{
	enum obs_shape this = k->n_segs > 1 ? OBS_SEVERAL : OBS_ONE;

	if (this > *shape)
		*shape = this;
}

static unsigned int
format_of(bool special, bool continued, bool items)
{
	return (special ? OBS_SPECIAL : continued ? OBS_CONTINUED : OBS_SIMPLE) + items;
}

static void
count_call(unsigned int from, const struct rpcrdma_hdr *h, bool continued)
{
	const struct rpcrdma_chunks *c = &h->chunks;
	enum obs_shape shape = OBS_NO_CHUNK;

	if (c->call.n_segs > 0)
		shape_of(&shape, &c->call);
	for (unsigned int i = 0; i < c->n_reads; i++)
		shape_of(&shape, &c->reads[i]);
	obs->cell[h->p.vers - 1][from][0][format_of(c->call.n_segs > 0, continued, c->n_reads > 0)]
	         [shape]++;
}

static void
count_reply(unsigned int to, const struct rpcrdma_hdr *h, bool continued)
{
	const struct rpcrdma_chunks *c = &h->chunks;
	enum obs_shape shape = OBS_NO_CHUNK;
	bool special = c->has_reply && c->reply.len_bytes > 0, items = false;

	if (special)
		shape_of(&shape, &c->reply);
	for (unsigned int i = 0; i < c->n_writes; i++) {
		if (c->writes[i].len_bytes == 0)
			continue;
		items = true;
		shape_of(&shape, &c->writes[i]);
	}
	obs->cell[h->p.vers - 1][to][1][format_of(special, continued, items)][shape]++;
}

static void
post_call(struct obs_side *s, const struct rpcrdma_hdr *h)
{
	struct obs_call *k = NULL;

	if (call_of(s, h->p.xid) != NULL)
		fault("xid of a call that is not over");
	for (unsigned int i = 0; i < OBS_CALLS; i++) {
		if (!s->call[i].live)
			k = &s->call[i];
		for (unsigned int j = 0; s->call[i].live && j < h->chunks.n_segs; j++)
			if (has_handle(&s->call[i].offer, h->chunks.segs[j].handle))
				fault("handle of a call that is not over");
	}
	CHECK(k != NULL);
	*k = (struct obs_call){.live = true, .xid = h->p.xid, .offer = h->chunks};
	obs->chunks += h->chunks.n_segs > 0;
}

/* Draft s6.6.3: a responder uses the Reply chunk if there is one and it is long enough. */
static void
check_reply_begins(const struct obs_side *peer, const struct rpcrdma_hdr *h, uint32_t len_bytes)
{
	const struct obs_call *k = call_of((struct obs_side *)(uintptr_t)peer, h->p.xid);
	uint32_t all = len_bytes - h->len_bytes + h->remaining_bytes;

	if (k != NULL && k->offer.has_reply && all <= k->offer.reply.len_bytes)
		fault("continued, though there is a Reply chunk");
}

/* Draft s6.3.6, s6.3.9: between the parts of a message there may be only a grant or an error
 * (docs/conformance.md). */
static void
check_parts(struct obs_side *s, const struct rpcrdma_hdr *h, uint32_t len_bytes)
{
	uint32_t t = h->p.htype, n = len_bytes - h->len_bytes;
	bool middle = t == RDMA2_CALL_MIDDLE || t == RDMA2_REPLY_MIDDLE;

	if (t == RDMA2_GRANT)
		return;
	if (s->in_parts &&
	    (h->p.xid != s->part_xid || (t != s->part_type && t != s->part_type + 1)))
		fault("something between the parts of a message");
	else if (s->in_parts && n + (middle ? h->remaining_bytes : 0) != s->part_left_bytes)
		fault("parts of another length than said");
	s->in_parts = middle;
	s->part_xid = h->p.xid;
	s->part_type = t;
	s->part_left_bytes = h->remaining_bytes;
}

static bool
is_call(const struct rpcrdma_hdr *h, const void *buf, uint32_t len_bytes)
{
	return h->p.htype != RDMA2_CALL_MIDDLE &&
	       weft_rpcrdma_dir(h, buf, len_bytes) == RPCRDMA_DIR_CALL;
}

static bool
is_answer(const struct rpcrdma_hdr *h, const void *buf, uint32_t len_bytes)
{
	return h->p.htype == RDMA2_ERROR ||
	       (h->p.htype != RDMA2_REPLY_MIDDLE &&
	        weft_rpcrdma_dir(h, buf, len_bytes) == RPCRDMA_DIR_REPLY);
}

void
obs_on_post(struct weft_qp *qp, const void *buf, uint32_t len_bytes)
{
	struct obs_side *s = &obs->side[side_of(qp)], *peer = &obs->side[!side_of(qp)];
	struct rpcrdma_hdr h;
	struct obs_call *k;
	bool continued = false;

	obs->messages++;
	if (weft_rpcrdma_decode(buf, len_bytes, NULL, &h) != RPCRDMA_OK) {
		fault("a message that does not decode");
		return;
	}
	s->sent++;
	if (h.p.vers == RPCRDMA_V2) {
		/* Draft s4.2.1: a grant may use the receive in reserve. */
		if ((int32_t)(s->sent - s->limit) > (h.p.htype == RDMA2_GRANT ? 1 : 0))
			fault("more messages than credit");
		if ((int32_t)(h.p.credit - s->promised) < 0)
			fault("credit taken back");
		s->promised = h.p.credit;
		if (h.p.htype == RDMA2_REPLY_MIDDLE && !s->in_parts)
			check_reply_begins(peer, &h, len_bytes);
		continued = s->in_parts;
		check_parts(s, &h, len_bytes);
	} else if (is_call(&h, buf, len_bytes)) {
		/* RFC 8166 s3.3.1: the credits that this side asks for and is granted limit its
		 * unanswered calls. The first message has one credit (s3.3.3). */
		s->asked = h.p.credit;
		if (++s->unanswered > s->granted || s->unanswered > s->asked)
			fault("more calls than credit");
	} else if (h.p.credit == 0) {
		fault("no credit at all");
	}
	if (is_call(&h, buf, len_bytes)) {
		post_call(s, &h);
		count_call(side_of(qp), &h, continued);
		return;
	}
	if (h.p.htype == RDMA2_ERROR || !is_answer(&h, buf, len_bytes))
		return;
	k = call_of(peer, h.p.xid);
	if (k == NULL || !k->arrived)
		fault("an answer to nothing");
	else
		check_returned(k, &h);
	count_reply(!side_of(qp), &h, continued);
}

void
obs_on_arrive(struct weft_qp *to, const void *buf, uint32_t len_bytes)
{
	struct obs_side *s = &obs->side[side_of(to)], *peer = &obs->side[!side_of(to)];
	struct rpcrdma_hdr h;
	struct obs_call *k;

	if (weft_rpcrdma_decode(buf, len_bytes, NULL, &h) != RPCRDMA_OK)
		return;
	if (h.p.vers == RPCRDMA_V2)
		s->limit = h.p.credit;
	if (is_call(&h, buf, len_bytes)) {
		k = call_of(peer, h.p.xid);
		if (k != NULL)
			k->arrived = true;
		return;
	}
	if (!is_answer(&h, buf, len_bytes))
		return;
	if (h.p.vers == RPCRDMA_V1) {
		s->granted = h.p.credit;
		s->unanswered -= s->unanswered > 0;
	}
	k = call_of(s, h.p.xid);
	if (k != NULL)
		k->live = false;
}

void
obs_begin(struct obs *o, const struct weft_qp *client, const struct weft_qp *server)
{
	memset(o, 0, sizeof(*o));
	o->qp[0] = client;
	o->qp[1] = server;
	obs = o;
	for (unsigned int i = 0; i < 2; i++)
		o->side[i].limit = o->side[i].granted = 1;
}
