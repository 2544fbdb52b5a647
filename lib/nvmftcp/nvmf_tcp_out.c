/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Octets for the stream of a connection, by TLS or without. TLS keeps at most one record that
 * TCP has not taken whole; while it does, it takes nothing more.
 */

#include "nvmf_tcp_priv.h"

ssize_t
nvmf_tcp_out_write(struct tcp_conn *c, const struct iovec *iov, unsigned int n)
{
	return c->tls != NULL ? nvmf_tls_write(c->tls, iov, n) : weft_stream_write(c->s, iov, n);
}

size_t
nvmf_tcp_out_left(const struct tcp_conn *c)
{
	return c->tls != NULL ? nvmf_tls_left(c->tls) : 0;
}

void
nvmf_tcp_out_flush(struct tcp_conn *c)
{
	ssize_t left = 0;

	if (c->tls != NULL && c->s != NULL)
		left = nvmf_tls_flush(c->tls);
	if (left < 0)
		tcp_abort_soon(c);
	else if (left == 0 && c->shut && c->s != NULL)
		(void)weft_stream_close(c->s);
}

void
nvmf_tcp_out_close(struct tcp_conn *c)
{
	c->shut = true;
	if (c->tls != NULL && c->s != NULL)
		nvmf_tls_shut(c->tls);
	nvmf_tcp_out_flush(c);
}
