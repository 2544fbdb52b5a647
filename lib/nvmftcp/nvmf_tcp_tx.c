/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What a controller sends: one PDU after the other, each as far as TCP has room. R2Ts go past
 * the data of answers, between two C2HData.
 *
 * A turn of the worker is one round of its loop, in which its clock stands still. What is sent in a
 * turn has a limit for each connection, and one for all of them. A connection that has reached one
 * waits in a row, in which weft_nvmf_tcp_poll() goes on.
 */

#include "nvmf_tcp_priv.h"

/** Data of one C2HData: R2Ts and other answers wait for no longer one. Its digest is computed at
 * once, in some 10 us. */
#define TX_DATA_BYTES 131072U
#define TX_PIECES     16 /**< of one call of nvmf_tcp_out_write() */

/** What a connection sends in a turn of the worker: as much as weft_stream_write() takes in one
 * call, of which TLS makes one for each record, and many short answers one each. */
#define TX_TURN_BYTES 65536U
/** What all connections of a worker send in a turn: some 50 us of copying. While some wait for
 * another turn, half of it is theirs. */
#define TX_ALL_BYTES 131072U

/* octets of an answer's CQE */
#define TX_CQE_SQHD   8
#define TX_CQE_STATUS 14
#define TX_NO_SQHD    0xffffU /**< SQ flow control is off */

bool
nvmf_tcp_tx_waits(const struct tcp_conn *c)
{
	const struct tcp_tx *x = &c->tx;

	return !x->ended && (x->busy || x->term_bytes > 0 || x->r2ts.first != NULL ||
	                     x->answers.first != NULL || nvmf_tcp_out_left(c) > 0);
}

/** Whether the last C2HData may be the answer: it has nothing to tell but success (s3.3.2.1). */
static bool
tx_success(const struct weft_nvmf_cmd *cmd)
{
	return weft_nvmf_get64(cmd->answer) == 0 &&
	       weft_nvmf_get16(cmd->answer + TX_CQE_SQHD) == TX_NO_SQHD &&
	       weft_nvmf_get16(cmd->answer + TX_CQE_STATUS) == 0;
}

/** Digest of the data of the PDU. */
static uint32_t
tx_digest(struct tcp_place at, uint32_t bytes)
{
	uint32_t crc = NVMF_TCP_CRC_INIT;

	while (bytes > 0) {
		const struct iovec v = tcp_place_piece(&at, bytes);

		crc = nvmf_tcp_crc(crc, v.iov_base, v.iov_len);
		tcp_place_skip(&at, v.iov_len);
		bytes -= (uint32_t)v.iov_len;
	}
	return ~crc;
}

/** The next C2HData of an answer. */
static void
tx_make_data(struct tcp_conn *c, struct weft_nvmf_cmd *cmd)
{
	struct tcp_tx *x = &c->tx;
	const uint32_t off = (uint32_t)cmd->transport[TCP_BYTES];
	const uint32_t left = cmd->push_bytes - off;
	const struct nvmf_tcp_data d = {.cccid = cmd->cid,
	                                .off_bytes = off,
	                                .len_bytes = left < TX_DATA_BYTES ? left : TX_DATA_BYTES};
	uint8_t flags = 0;

	if (d.len_bytes == left) {
		flags = NVMF_TCP_LAST;
		x->ends_cmd = tx_success(cmd);
		if (x->ends_cmd)
			flags |= NVMF_TCP_SUCCESS;
	}
	x->head_bytes = (uint32_t)nvmf_tcp_c2h_data_encode(&c->rules, &d, flags, c->hpda, x->head);
	x->place = tcp_place_at(cmd->iov, off);
	x->data_bytes = d.len_bytes;
	if (c->rules.ddgst) {
		weft_nvmf_put32(x->tail, tx_digest(x->place, d.len_bytes));
		x->tail_bytes = NVMF_TCP_DIGEST_BYTES;
	}
	cmd->transport[TCP_BYTES] += d.len_bytes;
	c->t->stats.sent_bytes += d.len_bytes;
}

/** Whether there is a PDU to make. */
static bool
tx_has_next(const struct tcp_conn *c)
{
	return c->tx.term_bytes > 0 || c->tx.r2ts.first != NULL || c->tx.answers.first != NULL;
}

/** Make the next PDU. False: there is none. */
static bool
tx_make(struct tcp_conn *c)
{
	struct tcp_tx *x = &c->tx;
	struct weft_nvmf_cmd *cmd;

	x->head_at = x->tail_at = x->tail_bytes = x->data_bytes = 0;
	x->ends_cmd = false;
	if (x->term_bytes > 0) {
		memcpy(x->head, x->term, x->term_bytes);
		x->head_bytes = x->term_bytes;
	} else if ((cmd = tcp_cmds_take(&x->r2ts)) != NULL) {
		const struct nvmf_tcp_data d = {.cccid = cmd->cid,
		                                .ttag = (uint16_t)cmd->transport[TCP_TAG],
		                                .len_bytes = cmd->sgl.bytes};

		x->head_bytes = (uint32_t)nvmf_tcp_r2t_encode(&c->rules, &d, x->head);
		c->pulls[d.ttag].asked = true;
		c->pulls[d.ttag].since_ns = tcp_now(c);
		c->t->stats.r2ts++;
	} else if ((cmd = x->answers.first) == NULL) {
		return false;
	} else if (cmd->transport[TCP_BYTES] < cmd->push_bytes) {
		tx_make_data(c, cmd);
	} else {
		x->head_bytes = (uint32_t)nvmf_tcp_resp_encode(&c->rules, cmd->answer, x->head);
		x->ends_cmd = true;
	}
	x->busy = true;
	return true;
}

/** How many octets the connection may send in this turn. */
static uint32_t
tx_share(const struct tcp_conn *c)
{
	const struct weft_nvmf_tcp *t = c->t;
	const uint32_t all =
	        c->tx.its_turn || TAILQ_EMPTY(&t->turns) ? TX_ALL_BYTES : TX_ALL_BYTES / 2;
	const uint32_t mine = TX_TURN_BYTES - c->tx.turn_bytes;
	const uint32_t theirs = t->turn_bytes < all ? all - t->turn_bytes : 0;

	return mine < theirs ? mine : theirs;
}

/** Its share is used up: it waits. */
static void
tx_wait(struct tcp_conn *c)
{
	struct weft_nvmf_tcp *t = c->t;

	c->tx.again = true;
	TAILQ_INSERT_TAIL(&t->turns, c, tx.turn);
	t->stats.turn_waits++;
}

static void
tx_waits_no_more(struct tcp_conn *c)
{
	c->tx.again = false;
	TAILQ_REMOVE(&c->t->turns, c, tx.turn);
}

/** See which turn it is. */
static void
tx_look(struct tcp_conn *c)
{
	const uint64_t now_ns = tcp_now(c);

	if (c->tx.turn_ns != now_ns) {
		c->tx.turn_ns = now_ns;
		c->tx.turn_bytes = 0;
	}
	if (c->t->turn_ns != now_ns) {
		c->t->turn_ns = now_ns;
		c->t->turn_bytes = 0;
	}
}

/** What is left of the PDU, as far as it fits into `iov`. Returns how many pieces. */
static unsigned int
tx_pieces(const struct tcp_tx *x, struct iovec iov[TX_PIECES])
{
	struct tcp_place at = x->place;
	uint32_t left = x->data_bytes;
	unsigned int n = 0;

	if (x->head_at < x->head_bytes)
		iov[n++] = (struct iovec){.iov_base = (uint8_t *)(uintptr_t)x->head + x->head_at,
		                          .iov_len = x->head_bytes - x->head_at};
	while (left > 0 && n < TX_PIECES) {
		iov[n] = tcp_place_piece(&at, left);
		left -= (uint32_t)iov[n].iov_len;
		tcp_place_skip(&at, iov[n++].iov_len);
	}
	if (left == 0 && n < TX_PIECES && x->tail_at < x->tail_bytes)
		iov[n++] = (struct iovec){.iov_base = (uint8_t *)(uintptr_t)x->tail + x->tail_at,
		                          .iov_len = x->tail_bytes - x->tail_at};
	return n;
}

/** So many octets of the PDU were taken. */
static void
tx_took(struct tcp_tx *x, size_t bytes)
{
	const size_t head = x->head_bytes - x->head_at;
	const size_t h = bytes < head ? bytes : head;

	x->head_at += (uint32_t)h;
	bytes -= h;
	while (bytes > 0 && x->data_bytes > 0) {
		const struct iovec v =
		        tcp_place_piece(&x->place, bytes < x->data_bytes ? bytes : x->data_bytes);

		tcp_place_skip(&x->place, v.iov_len);
		x->data_bytes -= (uint32_t)v.iov_len;
		bytes -= v.iov_len;
	}
	x->tail_at += (uint32_t)bytes;
}

/** Cut the pieces to so many octets. Returns how many there are then. */
static size_t
tx_cut(struct iovec *iov, unsigned int *n, size_t most)
{
	size_t all = 0;

	for (unsigned int i = 0; i < *n; i++) {
		if (iov[i].iov_len >= most - all) {
			iov[i].iov_len = most - all;
			*n = i + 1;
		}
		all += iov[i].iov_len;
	}
	return all;
}

/** Send the PDU. False: the rest waits. */
static bool
tx_send(struct tcp_conn *c)
{
	struct tcp_tx *x = &c->tx;
	struct iovec iov[TX_PIECES];
	unsigned int n;

	while ((n = tx_pieces(x, iov)) > 0) {
		const uint32_t share = tx_share(c);
		size_t all;
		ssize_t took;

		if (share == 0) {
			tx_wait(c);
			return false;
		}
		all = tx_cut(iov, &n, share);
		took = nvmf_tcp_out_write(c, iov, n);
		if (took < 0) {
			tcp_abort_soon(c);
			return false;
		}
		if (took > 0)
			x->moved_ns = tcp_now(c);
		tx_took(x, (size_t)took);
		x->turn_bytes += (uint32_t)took;
		c->t->turn_bytes += (uint32_t)took;
		/* TLS that keeps nothing back has taken a whole record: no `writable` follows */
		if ((size_t)took < all && (c->tls == NULL || nvmf_tcp_out_left(c) > 0))
			return false;
	}
	return true;
}

/** The PDU was sent. */
static void
tx_sent(struct tcp_conn *c)
{
	struct tcp_tx *x = &c->tx;

	x->busy = false;
	c->t->stats.pdus_out++;
	x->ended = x->head[NVMF_TCP_AT_TYPE] == NVMF_TCP_C2H_TERM;
	if (x->ended)
		nvmf_tcp_out_close(c);
	else if (x->ends_cmd)
		weft_nvmf_sent(tcp_cmds_take(&x->answers));
}

void
nvmf_tcp_tx(struct tcp_conn *c)
{
	struct tcp_tx *x = &c->tx;

	/* What is queued inside a call of the controller is sent by the loop that made the call. */
	if (x->pumping || x->ended || x->again || c->s == NULL || c->lost)
		return;
	tx_look(c);
	if (!x->busy)
		x->moved_ns = tcp_now(c);
	x->pumping = true;
	while (!x->ended) {
		/* Without a share nothing is made: the digest of a PDU takes time as well. */
		if (!x->busy && tx_has_next(c) && tx_share(c) == 0) {
			tx_wait(c);
			tcp_watch(c);
			break;
		}
		if (!x->busy && !tx_make(c))
			break;
		if (!tx_send(c)) {
			tcp_watch(c);
			break;
		}
		tx_sent(c);
	}
	x->pumping = false;
	if (nvmf_tcp_out_left(c) > 0)
		tcp_watch(c);
	/* what the volume answers from now on is told to no host: tcp_lost() ends it */
	if (c->closing && !nvmf_tcp_tx_waits(c)) {
		x->ended = true;
		nvmf_tcp_out_close(c);
	}
}

void
nvmf_tcp_tx_turns(struct weft_nvmf_tcp *t)
{
	struct tcp_conn *c;

	/* One that uses up its share again waits behind the others, for another turn: each that
	 * does so, or the last one, meets a limit of the turn below. */
	while ((c = TAILQ_FIRST(&t->turns)) != NULL) {
		tx_look(c);
		/* it has come in this turn, and so have those behind it */
		if (t->turn_bytes >= TX_ALL_BYTES || c->tx.turn_bytes >= TX_TURN_BYTES)
			break;
		tx_waits_no_more(c);
		c->tx.its_turn = true;
		nvmf_tcp_tx(c);
		c->tx.its_turn = false;
	}
}

void
nvmf_tcp_tx_end(struct tcp_conn *c)
{
	if (c->tx.again)
		tx_waits_no_more(c);
}

void
nvmf_tcp_tx_icresp(struct tcp_conn *c, const struct nvmf_tcp_ic *ic)
{
	struct tcp_tx *x = &c->tx;

	nvmf_tcp_icresp_encode(ic, x->head);
	x->head_bytes = NVMF_TCP_IC_BYTES;
	x->head_at = 0;
	x->busy = true;
	x->moved_ns = tcp_now(c);
	nvmf_tcp_tx(c);
}

void
nvmf_tcp_tx_term(struct tcp_conn *c, const struct nvmf_tcp_fault *f, uint32_t bytes)
{
	c->t->stats.faults++;
	c->deaf = true;
	c->tx.term_bytes = (uint32_t)nvmf_tcp_term_encode(f, c->rx.head, bytes, c->tx.term);
	/* the host is to end the connection; it is not waited for long */
	tcp_close_by(c, tcp_now(c) + TCP_CLOSE_NS);
	nvmf_tcp_tx(c);
}
