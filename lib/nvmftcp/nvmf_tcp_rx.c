/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What a host sends: its octets come in pieces of any length. A PDU has four parts: the
 * header with its digest, padding, data, the digest of the data. Data goes straight to where it is
 * used: a capsule, or the memory of the command that an R2T has asked for. Nothing is done with it
 * before its last octet has come and its digest is right.
 */

#include <stdlib.h>

#include "nvmf_tcp_priv.h"

static const struct nvmf_tcp_fault rx_ok = {.fes = NVMF_TCP_FES_NONE};

static struct nvmf_tcp_fault
rx_field(uint32_t at)
{
	return (struct nvmf_tcp_fault){.fes = NVMF_TCP_FES_FIELD, .fei = at};
}

/* ---- Capsules ---- */

/** NULL: no memory. */
static struct tcp_capsule *
rx_capsule(struct tcp_conn *c)
{
	struct tcp_capsule *capsule = SLIST_FIRST(&c->capsules);

	if (capsule == NULL)
		return malloc(sizeof(*capsule));
	SLIST_REMOVE_HEAD(&c->capsules, link);
	return capsule;
}

void
nvmf_tcp_rx_release(struct tcp_conn *c, void *data)
{
	struct tcp_capsule *capsule =
	        (struct tcp_capsule *)((uint8_t *)data - offsetof(struct tcp_capsule, data));

	SLIST_INSERT_HEAD(&c->capsules, capsule, link);
}

void
nvmf_tcp_rx_end(struct tcp_conn *c)
{
	struct tcp_capsule *capsule;

	free(c->rx.capsule);
	c->rx.capsule = NULL;
	while ((capsule = SLIST_FIRST(&c->capsules)) != NULL) {
		SLIST_REMOVE_HEAD(&c->capsules, link);
		free(capsule);
	}
}

/* ---- Headers ---- */

/** An ICReq is the first PDU, and no other is (s3.3.1). */
static struct nvmf_tcp_fault
rx_icreq(struct tcp_conn *c)
{
	struct nvmf_tcp_ic ic;
	const struct nvmf_tcp_fault f = nvmf_tcp_icreq_decode(c->rx.head, &ic);

	if (f.fes != NVMF_TCP_FES_NONE)
		return f;
	/* MAXR2T is one at least, which is all that is used */
	c->hpda = ic.pda;
	c->ready = true;
	ic.pda = 0;
	ic.max = c->rules.data_bytes;
	nvmf_tcp_tx_icresp(c, &ic);
	/* the ICResp itself has no digest */
	c->rules.hdgst = ic.hdgst;
	c->rules.ddgst = ic.ddgst;
	return rx_ok;
}

static struct nvmf_tcp_fault
rx_capsule_cmd(struct tcp_conn *c)
{
	struct tcp_rx *r = &c->rx;

	r->capsule = rx_capsule(c);
	if (r->capsule == NULL) {
		tcp_abort_soon(c);
		return rx_ok;
	}
	r->capsule->bytes = WEFT_NVMF_SQE_BYTES;
	memcpy(r->capsule->data, r->head + NVMF_TCP_CH_BYTES, WEFT_NVMF_SQE_BYTES);
	return rx_ok;
}

/** The data has to be the next of what an R2T has asked for. */
static struct nvmf_tcp_fault
rx_h2c_data(struct tcp_conn *c)
{
	struct tcp_rx *r = &c->rx;
	struct weft_nvmf_cmd *cmd;
	struct nvmf_tcp_data d;
	const struct nvmf_tcp_fault f = nvmf_tcp_h2c_data_decode(r->head, &r->ch, &d);
	bool last;

	if (f.fes != NVMF_TCP_FES_NONE)
		return f;
	if (d.ttag >= c->t->attr.depth)
		return rx_field(NVMF_TCP_AT_TTAG);
	cmd = c->pulls[d.ttag].cmd;
	/* a tag is easily guessed before its R2T was sent */
	if (cmd == NULL || !c->pulls[d.ttag].asked)
		return rx_field(NVMF_TCP_AT_TTAG);
	if (d.cccid != cmd->cid)
		return rx_field(NVMF_TCP_AT_CCCID);
	if (d.off_bytes != cmd->transport[TCP_BYTES] || d.len_bytes > cmd->sgl.bytes - d.off_bytes)
		return (struct nvmf_tcp_fault){.fes = NVMF_TCP_FES_RANGE};
	last = d.len_bytes == cmd->sgl.bytes - d.off_bytes;
	if (last != ((r->ch.flags & NVMF_TCP_LAST) != 0))
		return rx_field(NVMF_TCP_AT_FLAGS);
	r->cmd = cmd;
	r->place = tcp_place_at(cmd->iov, d.off_bytes);
	return rx_ok;
}

/** The host ends the connection because of a fault of this side. */
static struct nvmf_tcp_fault
rx_term(struct tcp_conn *c)
{
	c->t->stats.terms++;
	c->t->stats.term_fes = nvmf_tcp_term_decode(c->rx.head).fes;
	tcp_abort_soon(c);
	return rx_ok;
}

/** The header is there. */
static struct nvmf_tcp_fault
rx_header(struct tcp_conn *c)
{
	struct tcp_rx *r = &c->rx;

	if (r->ch.head_bytes > r->ch.hlen) {
		const uint32_t came = weft_nvmf_get32(r->head + r->ch.hlen);

		if (came != nvmf_tcp_digest(r->head, r->ch.hlen)) {
			c->t->stats.header_digests++;
			return (struct nvmf_tcp_fault){.fes = NVMF_TCP_FES_DIGEST, .fei = came};
		}
	}
	r->crc = NVMF_TCP_CRC_INIT;
	switch (r->ch.type) {
	case NVMF_TCP_ICREQ:
		return rx_icreq(c);
	case NVMF_TCP_CAPSULE_CMD:
		return rx_capsule_cmd(c);
	case NVMF_TCP_H2C_DATA:
		return rx_h2c_data(c);
	default:
		return rx_term(c);
	}
}

/** The common header is there. Where it is wrong, the place of its digest is not known, so the
 * fault is told at once, whether or not the header was damaged. */
static struct nvmf_tcp_fault
rx_common(struct tcp_conn *c)
{
	struct tcp_rx *r = &c->rx;
	const struct nvmf_tcp_fault f = nvmf_tcp_ch_decode(r->head, &c->rules, &r->ch);

	if (f.fes != NVMF_TCP_FES_NONE)
		return f;
	if (c->ready == (r->ch.type == NVMF_TCP_ICREQ))
		return (struct nvmf_tcp_fault){.fes = NVMF_TCP_FES_SEQUENCE};
	return rx_ok;
}

/* ---- Whole PDUs ---- */

/** A command has come. */
static void
rx_command(struct tcp_conn *c, bool damaged)
{
	struct tcp_capsule *capsule = c->rx.capsule;
	const struct nvmf_tcp_fault f = {.fes = NVMF_TCP_FES_SEQUENCE};
	int rc;

	c->rx.capsule = NULL;
	rc = damaged ? weft_nvmf_command_damaged(c->q, capsule->data, capsule->bytes)
	             : weft_nvmf_command(c->q, capsule->data, capsule->bytes);
	if (rc == 0)
		return;
	SLIST_INSERT_HEAD(&c->capsules, capsule, link);
	if (rc == -ENOMEM) {
		tcp_abort_soon(c);
	} else if (rc != -ESHUTDOWN) {
		/* Answers are sent when TCP has them: a host that keeps to its queue has no more
		 * commands under way than it has entries, sent or not (-EAGAIN). */
		c->t->stats.overruns++;
		nvmf_tcp_tx_term(c, &f, c->rx.ch.hlen);
	}
}

/** Data of an R2T has come. */
static void
rx_pulled(struct tcp_conn *c, bool damaged)
{
	struct weft_nvmf_cmd *cmd = c->rx.cmd;

	c->rx.cmd = NULL;
	c->t->stats.read_bytes += c->rx.ch.data_bytes;
	cmd->transport[TCP_BYTES] += c->rx.ch.data_bytes;
	if (damaged)
		cmd->transport[TCP_BAD] = 1;
	if (cmd->transport[TCP_BYTES] < cmd->sgl.bytes)
		return;
	c->pulls[cmd->transport[TCP_TAG]].cmd = NULL;
	c->tags[c->t->attr.depth - c->npulls--] = (uint16_t)cmd->transport[TCP_TAG];
	weft_nvmf_pulled(cmd, cmd->transport[TCP_BAD] != 0 ? -EBADMSG : 0);
}

/** The PDU is whole. */
static void
rx_done(struct tcp_conn *c)
{
	struct tcp_rx *r = &c->rx;
	const bool damaged = r->ch.tail_bytes > 0 && weft_nvmf_get32(r->tail) != ~r->crc;

	c->t->stats.pdus_in++;
	if (damaged)
		c->t->stats.data_digests++;
	if (r->capsule != NULL)
		rx_command(c, damaged);
	else if (r->cmd != NULL)
		rx_pulled(c, damaged);
}

/* ---- Parts ---- */

/** Take octets of the header. Returns how many. */
static size_t
rx_take_head(struct tcp_conn *c, const uint8_t *p, size_t bytes)
{
	struct tcp_rx *r = &c->rx;
	const bool common = r->have_bytes < NVMF_TCP_CH_BYTES;
	const size_t want = (common ? NVMF_TCP_CH_BYTES : r->ch.head_bytes) - r->have_bytes;
	const size_t n = bytes < want ? bytes : want;
	struct nvmf_tcp_fault f;

	if (r->have_bytes == 0)
		r->began_ns = tcp_now(c);
	memcpy(r->head + r->have_bytes, p, n);
	r->have_bytes += (uint32_t)n;
	if (n < want)
		return n;
	f = common ? rx_common(c) : rx_header(c);
	if (f.fes != NVMF_TCP_FES_NONE) {
		nvmf_tcp_tx_term(c, &f, common ? NVMF_TCP_CH_BYTES : r->ch.hlen);
	} else if (!common) {
		r->part = TCP_PAD;
		r->have_bytes = 0;
	}
	return n;
}

/** Take octets of data, which are not more than there are. */
static size_t
rx_take_data(struct tcp_conn *c, const uint8_t *p, size_t bytes)
{
	struct tcp_rx *r = &c->rx;
	size_t n = bytes;

	if (r->capsule != NULL) {
		memcpy(r->capsule->data + r->capsule->bytes, p, n);
		r->capsule->bytes += (uint32_t)n;
	} else if (r->cmd != NULL) {
		const struct iovec v = tcp_place_piece(&r->place, bytes);

		n = v.iov_len;
		memcpy(v.iov_base, p, n);
		tcp_place_skip(&r->place, n);
		c->pulls[r->cmd->transport[TCP_TAG]].since_ns = tcp_now(c);
	}
	if (r->ch.tail_bytes > 0)
		r->crc = nvmf_tcp_crc(r->crc, p, n);
	return n;
}

/** Take octets of a part behind the header. Returns how many. */
static size_t
rx_take(struct tcp_conn *c, const uint8_t *p, size_t bytes)
{
	struct tcp_rx *r = &c->rx;
	const uint32_t part = r->part == TCP_PAD    ? r->ch.pad_bytes
	                      : r->part == TCP_DATA ? r->ch.data_bytes
	                                            : r->ch.tail_bytes;
	const size_t left = part - r->have_bytes;
	size_t n = bytes < left ? bytes : left;

	if (r->part == TCP_DATA && n > 0)
		n = rx_take_data(c, p, n);
	else if (r->part == TCP_TAIL && n > 0)
		memcpy(r->tail + r->have_bytes, p, n);
	r->have_bytes += (uint32_t)n;
	if (r->have_bytes < part)
		return n;
	r->have_bytes = 0;
	if (r->part != TCP_TAIL) {
		r->part++;
		return n;
	}
	r->part = TCP_HEAD;
	rx_done(c);
	return n;
}

void
nvmf_tcp_rx(struct tcp_conn *c, const uint8_t *p, size_t bytes)
{
	const struct tcp_rx *r = &c->rx;

	/* A PDU ends with parts that may be empty: they are taken without octets. */
	while (!c->deaf && !c->lost && (bytes > 0 || r->part != TCP_HEAD)) {
		const enum tcp_part part = r->part;
		const size_t n =
		        part == TCP_HEAD ? rx_take_head(c, p, bytes) : rx_take(c, p, bytes);

		p += n;
		bytes -= n;
		if (n == 0 && r->part == part)
			break;
	}
	if (r->part != TCP_HEAD || r->have_bytes > 0)
		tcp_watch(c);
}
