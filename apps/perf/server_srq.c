/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The SRQ that the connections of one run share. The first of them makes it, and the last one
 * frees it. Each has its share of the receives, by the acknowledgements of flow.h, so that none
 * finds the SRQ empty.
 */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

struct srq {
	struct srq *next;
	struct perf_hello hello; /**< of the first connection */
	struct sockaddr_storage from;
	unsigned int users;
	struct weft_srq *srq;
	uint32_t depth;
	uint8_t *mem;
	uint64_t bytes;
};

/** Whether two peers have one address, whatever their ports. */
static bool
srq_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->ss_family != b->ss_family)
		return false;
	return a->ss_family == AF_INET
	               ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
	               : memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

/** Whether a connection is of the same run. A peer chooses all of this, so its address and each
 * number that the SRQ's memory depends on must be the same. */
static bool
srq_fits(const struct srq *q, const struct perf_hello *h, const struct sockaddr_storage *from)
{
	return q->hello.run == h->run && q->hello.test == h->test &&
	       q->hello.size_bytes == h->size_bytes && q->hello.rx_depth == h->rx_depth &&
	       q->hello.qps == h->qps && q->hello.verify == h->verify && q->users < h->qps &&
	       srq_same_host(&q->from, from);
}

static int
srq_post(struct srq *q, uint64_t slot)
{
	/* Two buffers are enough where their content is not compared; Immediate Data needs none. */
	const bool sends = q->hello.test == PERF_SEND;
	const uint64_t at = q->hello.verify != 0 && sends ? slot : slot % 2;
	struct weft_sge sge = {q->mem + at * q->hello.size_bytes, q->hello.size_bytes, 0};
	struct weft_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = sends ? 1 : 0};

	return weft_post_srq_recv(q->srq, &wr, 1);
}

static void
srq_free(struct srq *q)
{
	free(q->mem);
	free(q);
}

/** Make the SRQ and post its receives. Under the lock, which other connections need to begin. */
static struct srq *
srq_make(struct served *all, const struct perf_hello *h, const struct sockaddr_storage *from)
{
	struct weft_srq_attr sa = {.size = sizeof(sa), .max_sge = 1};
	struct srq *q = calloc(1, sizeof(*q));
	int rc = 0;

	if (q == NULL)
		return NULL;
	q->hello = *h;
	q->from = *from;
	q->depth = sa.depth = h->rx_depth + SERVER_CTL_RQ * h->qps;
	q->bytes =
	        (uint64_t)h->size_bytes * (h->verify != 0 && h->test == PERF_SEND ? q->depth : 2);
	if (all->mem_bytes + q->bytes <= SERVER_MAX_MEM_BYTES)
		q->mem = malloc(q->bytes);
	if (q->mem == NULL || weft_srq_create(all->pd, &sa, &q->srq) != 0) {
		srq_free(q);
		return NULL;
	}
	for (uint32_t i = 0; i < q->depth && rc >= 0; i++)
		rc = srq_post(q, i);
	if (rc < 0) {
		(void)weft_srq_destroy(q->srq);
		srq_free(q);
		return NULL;
	}
	all->mem_bytes += q->bytes;
	q->next = all->srqs;
	all->srqs = q;
	return q;
}

int
server_srq_begin(struct session *s, const struct sockaddr_storage *from)
{
	struct served *all = s->server->all;
	struct srq *q;

	pthread_mutex_lock(&all->lock);
	for (q = all->srqs; q != NULL; q = q->next)
		if (srq_fits(q, &s->hello, from))
			break;
	if (q == NULL)
		q = srq_make(all, &s->hello, from);
	if (q != NULL)
		q->users++;
	pthread_mutex_unlock(&all->lock);
	s->srq = q;
	return q == NULL ? -ENOMEM : 0;
}

struct weft_srq *
server_srq_of(const struct session *s)
{
	return s->srq->srq;
}

uint32_t
server_srq_depth(const struct session *s)
{
	return s->srq->depth;
}

const uint8_t *
server_srq_buf(const struct session *s, uint64_t slot)
{
	return s->srq->mem + slot * s->hello.size_bytes;
}

int
server_srq_post(struct session *s, uint64_t slot)
{
	return srq_post(s->srq, slot);
}

bool
server_srq_end(struct session *s)
{
	struct served *all = s->server->all;
	struct srq *q = s->srq, **at = &all->srqs;
	bool done;

	if (q == NULL)
		return true;
	pthread_mutex_lock(&all->lock);
	done = q->users > 1 || weft_srq_destroy(q->srq) == 0;
	if (done && --q->users == 0) {
		while (*at != q)
			at = &(*at)->next;
		*at = q->next;
		all->mem_bytes -= q->bytes;
		srq_free(q);
	}
	pthread_mutex_unlock(&all->lock);
	if (done)
		s->srq = NULL;
	return done;
}
