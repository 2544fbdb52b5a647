/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory that another machine writes and reads: RDMA Write and RDMA Read.
 *
 *     write server DEV OUR-ADDRESS/PREFIX
 *     write client DEV OUR-ADDRESS/PREFIX SERVER
 *
 * The server lends a piece of memory and does nothing more: no code of it runs for the Write or for
 * the Read. It tells the client the region's STag with its answer to the connection request.
 */

#include "example.h"

#define LENT_BYTES 4096

/** What the client is told of the region. In the order of this host: both run the same program. */
struct lent {
	uint32_t stag;
	uint32_t bytes;
};

static void
server(struct example *ex)
{
	static char memory[LENT_BYTES];
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = memory,
	                          .len_bytes = sizeof(memory),
	                          .access = WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_READ};
	struct lent lent = {.bytes = sizeof(memory)};
	struct weft_mr *mr;

	MUST(weft_mr_reg(ex->pd, &ma, &mr) == 0);
	lent.stag = weft_mr_stag(mr);
	example_accept(ex, NULL, 0, &lent, sizeof(lent));
	(void)example_event(ex, WEFT_EV_DISCONNECTED);
	/* Only now is it certain what the client has done: nothing told us of its Write. */
	printf("the client has written: %s\n", memory);
}

static void
client(struct example *ex, const char *host)
{
	static char out[] = "written without asking", in[sizeof(out)];
	/* The sink of a Read is memory that the peer's answer is placed into: it needs a region,
	 * too. */
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = in,
	                          .len_bytes = sizeof(in),
	                          .access = WEFT_ACCESS_LOCAL_WRITE};
	struct weft_sge from = {.addr = out, .len_bytes = sizeof(out)};
	struct weft_sge to = {.addr = in, .len_bytes = sizeof(in)};
	struct lent lent;
	struct weft_mr *mr;

	example_connect(ex, host, &lent, sizeof(lent));
	MUST(lent.bytes >= sizeof(out));
	MUST(weft_mr_reg(ex->pd, &ma, &mr) == 0);
	to.lkey = weft_mr_stag(mr);

	struct weft_wr wr[] = {
	        /* Not signaled: a Write completes when its octets were taken, which says nothing
	         * of the server's memory. */
	        {.opcode = WEFT_WR_WRITE,
	         .sg_list = &from,
	         .num_sge = 1,
	         .rdma = {.stag = lent.stag, .to = 0}},
	        /* RFC 5040 s5.5: a Read finds what Writes before it on the same stream have placed.
	         */
	        {.opcode = WEFT_WR_READ,
	         .flags = WEFT_WR_SIGNALED,
	         .sg_list = &to,
	         .num_sge = 1,
	         .rdma = {.stag = lent.stag, .to = 0}},
	};
	MUST(weft_post_send(ex->qp, wr, 2) == 2);
	(void)example_completion(ex);
	MUST(memcmp(in, out, sizeof(out)) == 0);
	printf("read back: %s\n", in);
	MUST(weft_disconnect(ex->qp) == 0);
	(void)example_event(ex, WEFT_EV_DISCONNECTED);
}

int
main(int argc, char **argv)
{
	struct example ex = {0};

	if (argc < 4 || (strcmp(argv[1], "server") == 0) != (argc == 4)) {
		fputs("usage: write server DEV CIDR | write client DEV CIDR SERVER\n", stderr);
		return 2;
	}
	example_open(&ex, argv[2], argv[3]);
	if (argc == 4)
		server(&ex);
	else
		client(&ex, argv[4]);
	example_close(&ex);
	return 0;
}
