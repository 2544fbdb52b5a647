/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What no honest peer sends, and fuzzing has found. */

#include "tcp_peer.h"
#include "tcp_priv.h"

/**
 * RFC 9293 s3.10.7.4, eighth: nothing follows a FIN. Octets that came ahead of it, from beyond it,
 * neither stay until the connection is gone nor hide it.
 */
static void
test_fin_below_text(void)
{
	const struct weft_tcp_stats *st;
	struct weft_tcp_conn *c;

	/* Apart from the FIN, around it, and both; the gap before it filled first or last. */
	for (unsigned int how = 0; how < 6; how++) {
		struct net_app as = {.close_on_eof = true};

		open_conn(NULL, &as);
		c = app->c;
		st = weft_tcp_stats(net.node[0].tcp);
		if (how % 3 != 1)
			seg(TCP_ACK, IRS + 1 + 300, iss + 1, 65535, 300, 500);
		if (how % 3 != 0)
			seg(TCP_ACK, IRS + 1 + 50, iss + 1, 65535, 50, 200);
		if (how < 3)
			seg(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 50);
		seg(TCP_ACK | TCP_FIN, IRS + 1 + 80, iss + 1, 65535, 80, 0);
		run_for(WEFT_NS_PER_MS);
		if (how == 1 || how == 2) {
			/* The text was first: it is the stream, and the FIN is in its past. */
			CHECK_EQ(app->received, 250);
			CHECK(!app->eof);
		} else {
			CHECK_EQ(st->data_after_close, 1 + (how == 5));
			CHECK_EQ(app->received, how < 3 ? 50 : 0);
			seg(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 80);
			run_for(WEFT_NS_PER_MS);
			CHECK_EQ(app->received, 80);
			CHECK(app->eof);
			CHECK_EQ(c->ooo_mbufs, 0);
			CHECK_EQ(c->nsack, 0);
		}
		down();
	}
}

WEFT_TEST_MAIN({"fin_below_text", test_fin_below_text})
