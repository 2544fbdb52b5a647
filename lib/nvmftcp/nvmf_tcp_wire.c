/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The codec of NVMe/TCP: see nvmf_tcp_wire.h.
 */

#include <limits.h>
#include <string.h>

#include <isa-l/crc.h>

#include "nvmf_tcp_wire.h"
#include "weft_nvmf_wire.h"

#define WIRE_DGST_HEADER 0x01 /**< octet DGST of ICReq and ICResp */
#define WIRE_DGST_DATA   0x02
#define WIRE_ALIGN       4U /**< unit of HPDA and CPDA; this side's CPDA is 0 */

static const struct nvmf_tcp_fault wire_ok = {.fes = NVMF_TCP_FES_NONE};

static struct nvmf_tcp_fault
wire_field(uint32_t at)
{
	return (struct nvmf_tcp_fault){.fes = NVMF_TCP_FES_FIELD, .fei = at};
}

/** What is said of a type of PDU that hosts send. */
struct wire_row {
	uint8_t hlen; /**< 0: hosts do not send it */
	bool has_data;
	bool needs_data;
	bool no_digests; /**< it has none, whatever was agreed (s3.6.2.1, s3.6.2.3) */
};

static const struct wire_row wire_rows[] = {
        [NVMF_TCP_ICREQ] = {.hlen = NVMF_TCP_IC_BYTES, .no_digests = true},
        [NVMF_TCP_H2C_TERM] = {.hlen = NVMF_TCP_TERM_BYTES, .has_data = true, .no_digests = true},
        [NVMF_TCP_CAPSULE_CMD] = {.hlen = NVMF_TCP_CMD_BYTES, .has_data = true},
        [NVMF_TCP_H2C_DATA] = {.hlen = NVMF_TCP_DATA_BYTES, .has_data = true, .needs_data = true},
};

/** Most octets of data in this PDU. */
static uint32_t
wire_most(const struct nvmf_tcp_rules *r, uint8_t type)
{
	switch (type) {
	case NVMF_TCP_CAPSULE_CMD:
		return r->capsule_bytes;
	case NVMF_TCP_H2C_DATA:
		return r->data_bytes;
	default:
		return NVMF_TCP_TERM_ECHO_MAX;
	}
}

/** A PDU with data: where it is. */
static struct nvmf_tcp_fault
wire_places(const struct nvmf_tcp_rules *r, const struct wire_row *row, struct nvmf_tcp_ch *ch)
{
	const bool ddgst = r->ddgst && !row->no_digests;
	/* the data of a TermReq is behind its header, and PDO is reserved (s3.6.2.3) */
	const uint32_t pdo = row->no_digests ? ch->hlen : ch->pdo;

	if (pdo < ch->head_bytes || (!row->no_digests && pdo % WIRE_ALIGN != 0))
		return wire_field(NVMF_TCP_AT_PDO);
	if (ddgst != ((ch->flags & NVMF_TCP_DDGST) != 0) && !row->no_digests)
		return wire_field(NVMF_TCP_AT_FLAGS);
	ch->tail_bytes = ddgst ? NVMF_TCP_DIGEST_BYTES : 0;
	if (ch->plen <= pdo + ch->tail_bytes)
		return wire_field(NVMF_TCP_AT_PLEN);
	ch->pad_bytes = pdo - ch->head_bytes;
	ch->data_bytes = ch->plen - pdo - ch->tail_bytes;
	if (ch->data_bytes > wire_most(r, ch->type))
		return row->no_digests ? wire_field(NVMF_TCP_AT_PLEN)
		                       : (struct nvmf_tcp_fault){.fes = NVMF_TCP_FES_LIMIT};
	return wire_ok;
}

struct nvmf_tcp_fault
nvmf_tcp_ch_decode(const uint8_t in[NVMF_TCP_CH_BYTES], const struct nvmf_tcp_rules *r,
                   struct nvmf_tcp_ch *out)
{
	const struct wire_row *row;
	struct nvmf_tcp_fault f;
	bool hdgst;

	*out = (struct nvmf_tcp_ch){.type = in[NVMF_TCP_AT_TYPE],
	                            .flags = in[NVMF_TCP_AT_FLAGS],
	                            .hlen = in[NVMF_TCP_AT_HLEN],
	                            .pdo = in[NVMF_TCP_AT_PDO],
	                            .plen = weft_nvmf_get32(in + NVMF_TCP_AT_PLEN)};
	if (out->type >= sizeof(wire_rows) / sizeof(wire_rows[0]) || wire_rows[out->type].hlen == 0)
		return wire_field(NVMF_TCP_AT_TYPE);
	row = &wire_rows[out->type];
	hdgst = r->hdgst && !row->no_digests;
	if (out->hlen != row->hlen)
		return wire_field(NVMF_TCP_AT_HLEN);
	if (hdgst != ((out->flags & NVMF_TCP_HDGST) != 0) && !row->no_digests)
		return wire_field(NVMF_TCP_AT_FLAGS);
	out->head_bytes = out->hlen + (hdgst ? NVMF_TCP_DIGEST_BYTES : 0);
	if (out->plen < out->head_bytes || (out->plen > out->head_bytes && !row->has_data) ||
	    (out->plen == out->head_bytes && row->needs_data))
		return wire_field(NVMF_TCP_AT_PLEN);
	if (out->plen == out->head_bytes)
		return wire_ok;
	f = wire_places(r, row, out);
	if (f.fes != NVMF_TCP_FES_NONE)
		out->pad_bytes = out->data_bytes = out->tail_bytes = 0;
	return f;
}

struct nvmf_tcp_fault
nvmf_tcp_icreq_decode(const uint8_t in[NVMF_TCP_IC_BYTES], struct nvmf_tcp_ic *out)
{
	out->pfv = weft_nvmf_get16(in + NVMF_TCP_AT_PFV);
	out->pda = in[NVMF_TCP_AT_PDA];
	out->hdgst = (in[NVMF_TCP_AT_DGST] & WIRE_DGST_HEADER) != 0;
	out->ddgst = (in[NVMF_TCP_AT_DGST] & WIRE_DGST_DATA) != 0;
	out->max = weft_nvmf_get32(in + NVMF_TCP_AT_MAX);
	if (out->pfv != 0)
		return (struct nvmf_tcp_fault){.fes = NVMF_TCP_FES_UNSUPPORTED,
		                               .fei = NVMF_TCP_AT_PFV};
	if (out->pda > NVMF_TCP_HPDA_MAX)
		return wire_field(NVMF_TCP_AT_PDA);
	if ((in[NVMF_TCP_AT_DGST] & ~(WIRE_DGST_HEADER | WIRE_DGST_DATA)) != 0)
		return (struct nvmf_tcp_fault){.fes = NVMF_TCP_FES_UNSUPPORTED,
		                               .fei = NVMF_TCP_AT_DGST};
	return wire_ok;
}

struct nvmf_tcp_fault
nvmf_tcp_h2c_data_decode(const uint8_t in[NVMF_TCP_DATA_BYTES], const struct nvmf_tcp_ch *ch,
                         struct nvmf_tcp_data *out)
{
	out->cccid = weft_nvmf_get16(in + NVMF_TCP_AT_CCCID);
	out->ttag = weft_nvmf_get16(in + NVMF_TCP_AT_TTAG);
	out->off_bytes = weft_nvmf_get32(in + NVMF_TCP_AT_DATAO);
	out->len_bytes = weft_nvmf_get32(in + NVMF_TCP_AT_DATAL);
	return out->len_bytes != ch->data_bytes ? wire_field(NVMF_TCP_AT_DATAL) : wire_ok;
}

struct nvmf_tcp_fault
nvmf_tcp_term_decode(const uint8_t in[NVMF_TCP_TERM_BYTES])
{
	return (struct nvmf_tcp_fault){.fes = (enum nvmf_tcp_fes)weft_nvmf_get16(in + 8),
	                               .fei = weft_nvmf_get32(in + 10)};
}

/* ---- What a controller sends ---- */

static void
wire_ch(uint8_t *out, enum nvmf_tcp_type type, uint8_t flags, uint8_t hlen, uint8_t pdo,
        uint32_t plen)
{
	memset(out, 0, hlen);
	out[NVMF_TCP_AT_TYPE] = (uint8_t)type;
	out[NVMF_TCP_AT_FLAGS] = flags;
	out[NVMF_TCP_AT_HLEN] = hlen;
	out[NVMF_TCP_AT_PDO] = pdo;
	weft_nvmf_put32(out + NVMF_TCP_AT_PLEN, plen);
}

/** Put the header's digest behind it. Returns the length of both. */
static size_t
wire_seal(const struct nvmf_tcp_rules *r, uint8_t *out)
{
	const uint8_t hlen = out[NVMF_TCP_AT_HLEN];

	if (!r->hdgst)
		return hlen;
	weft_nvmf_put32(out + hlen, nvmf_tcp_digest(out, hlen));
	return hlen + NVMF_TCP_DIGEST_BYTES;
}

static uint8_t
wire_head(const struct nvmf_tcp_rules *r, uint8_t hlen)
{
	return (uint8_t)(hlen + (r->hdgst ? NVMF_TCP_DIGEST_BYTES : 0));
}

void
nvmf_tcp_icresp_encode(const struct nvmf_tcp_ic *ic, uint8_t out[NVMF_TCP_IC_BYTES])
{
	wire_ch(out, NVMF_TCP_ICRESP, 0, NVMF_TCP_IC_BYTES, 0, NVMF_TCP_IC_BYTES);
	weft_nvmf_put16(out + NVMF_TCP_AT_PFV, ic->pfv);
	out[NVMF_TCP_AT_PDA] = ic->pda;
	out[NVMF_TCP_AT_DGST] =
	        (uint8_t)((ic->hdgst ? WIRE_DGST_HEADER : 0) | (ic->ddgst ? WIRE_DGST_DATA : 0));
	weft_nvmf_put32(out + NVMF_TCP_AT_MAX, ic->max);
}

size_t
nvmf_tcp_term_encode(const struct nvmf_tcp_fault *fault, const uint8_t *header, size_t bytes,
                     uint8_t out[NVMF_TCP_TERM_BYTES + NVMF_TCP_TERM_ECHO_MAX])
{
	if (bytes > NVMF_TCP_TERM_ECHO_MAX)
		bytes = NVMF_TCP_TERM_ECHO_MAX;
	wire_ch(out, NVMF_TCP_C2H_TERM, 0, NVMF_TCP_TERM_BYTES, 0,
	        (uint32_t)(NVMF_TCP_TERM_BYTES + bytes));
	weft_nvmf_put16(out + 8, (uint16_t)fault->fes);
	weft_nvmf_put32(out + 10, fault->fei);
	memcpy(out + NVMF_TCP_TERM_BYTES, header, bytes);
	return NVMF_TCP_TERM_BYTES + bytes;
}

size_t
nvmf_tcp_resp_encode(const struct nvmf_tcp_rules *r, const uint8_t cqe[16],
                     uint8_t out[NVMF_TCP_RESP_BYTES + NVMF_TCP_DIGEST_BYTES])
{
	wire_ch(out, NVMF_TCP_CAPSULE_RESP, r->hdgst ? NVMF_TCP_HDGST : 0, NVMF_TCP_RESP_BYTES, 0,
	        wire_head(r, NVMF_TCP_RESP_BYTES));
	memcpy(out + NVMF_TCP_CH_BYTES, cqe, 16);
	return wire_seal(r, out);
}

static void
wire_data(const struct nvmf_tcp_data *d, uint16_t ttag, uint8_t *out)
{
	weft_nvmf_put16(out + NVMF_TCP_AT_CCCID, d->cccid);
	weft_nvmf_put16(out + NVMF_TCP_AT_TTAG, ttag);
	weft_nvmf_put32(out + NVMF_TCP_AT_DATAO, d->off_bytes);
	weft_nvmf_put32(out + NVMF_TCP_AT_DATAL, d->len_bytes);
}

size_t
nvmf_tcp_r2t_encode(const struct nvmf_tcp_rules *r, const struct nvmf_tcp_data *d,
                    uint8_t out[NVMF_TCP_R2T_BYTES + NVMF_TCP_DIGEST_BYTES])
{
	wire_ch(out, NVMF_TCP_R2T, r->hdgst ? NVMF_TCP_HDGST : 0, NVMF_TCP_R2T_BYTES, 0,
	        wire_head(r, NVMF_TCP_R2T_BYTES));
	wire_data(d, d->ttag, out);
	return wire_seal(r, out);
}

size_t
nvmf_tcp_c2h_data_encode(const struct nvmf_tcp_rules *r, const struct nvmf_tcp_data *d,
                         uint8_t flags, uint8_t hpda, uint8_t out[NVMF_TCP_HEADER_MAX])
{
	const uint32_t align = (hpda + 1U) * WIRE_ALIGN;
	const uint32_t head = wire_head(r, NVMF_TCP_DATA_BYTES);
	const uint32_t pdo = (head + align - 1) / align * align; /* 128 at most */
	const uint32_t tail = r->ddgst ? NVMF_TCP_DIGEST_BYTES : 0;

	flags = (uint8_t)(flags | (r->hdgst ? NVMF_TCP_HDGST : 0) |
	                  (r->ddgst ? NVMF_TCP_DDGST : 0));
	wire_ch(out, NVMF_TCP_C2H_DATA, flags, NVMF_TCP_DATA_BYTES, (uint8_t)pdo,
	        pdo + d->len_bytes + tail);
	wire_data(d, 0, out);
	(void)wire_seal(r, out);
	memset(out + head, 0, pdo - head);
	return pdo;
}

/* ---- Digests ---- */

uint32_t
nvmf_tcp_crc(uint32_t crc, const void *p, size_t bytes)
{
	const uint8_t *at = p;

	/* crc32_iscsi() takes an int, and inverts neither what it is given nor its result */
	while (bytes > 0) {
		const size_t n = bytes < INT_MAX ? bytes : INT_MAX;

		crc = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)n, crc);
		at += n;
		bytes -= n;
	}
	return crc;
}

uint32_t
nvmf_tcp_digest(const void *p, size_t bytes)
{
	return ~nvmf_tcp_crc(NVMF_TCP_CRC_INIT, p, bytes);
}
