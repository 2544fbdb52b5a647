/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A program of librpma: Write, Flush, Atomic Write and Read of remote memory, and messages.
 *
 *     rpma server ADDRESS         one client; prints the sum of its memory when it is asked
 *     rpma client ADDRESS SEED    prints TAP
 *
 * The server takes its messages from a shared receive queue.
 */

#include <librpma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT  "7204"
#define BYTES (1 << 20)
#define MSG   64

struct end {
	struct rpma_peer *peer;
	struct rpma_conn *conn;
	uint8_t *mem, *msg;
	struct rpma_mr_local *mr, *msg_mr;
};

static void
must(bool ok, const char *what, int line)
{
	if (ok)
		return;
	printf("Bail out! line %d: %s\n", line, what);
	exit(1);
}
#define MUST(cond) must((cond), #cond, __LINE__)

static uint64_t
sum_of(const uint8_t *p, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum = sum * 31 + p[i];
	return sum;
}

static void
end_open(struct end *e, const char *address, enum rpma_util_ibv_context_type type)
{
	struct ibv_context *context;

	MUST(rpma_utils_get_ibv_context(address, type, &context) == 0);
	MUST(rpma_peer_new(context, &e->peer) == 0);
	e->mem = aligned_alloc(4096, BYTES);
	e->msg = aligned_alloc(4096, 4096);
	MUST(e->mem != NULL && e->msg != NULL);
	memset(e->mem, 0, BYTES);
	MUST(rpma_mr_reg(e->peer, e->mem, BYTES,
	                 RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
	                         RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
	                 &e->mr) == 0);
	MUST(rpma_mr_reg(e->peer, e->msg, 4096, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV,
	                 &e->msg_mr) == 0);
}

static void
end_close(struct end *e)
{
	MUST(rpma_mr_dereg(&e->mr) == 0 && rpma_mr_dereg(&e->msg_mr) == 0);
	MUST(rpma_peer_delete(&e->peer) == 0);
	free(e->mem);
	free(e->msg);
}

static void
event(struct end *e, enum rpma_conn_event want)
{
	enum rpma_conn_event got;

	MUST(rpma_conn_next_event(e->conn, &got) == 0);
	if (got != want)
		printf("# %s\n", rpma_utils_conn_event_2str(got));
	MUST(got == want);
}

/** Sleep until there is a completion, which is good. */
static void
completed(struct rpma_cq *cq, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;
	int rc;

	while ((rc = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		MUST(rpma_cq_wait(cq) == 0);
	MUST(rc == 0);
	if (wc.status != IBV_WC_SUCCESS || wc.opcode != opcode)
		printf("# status %d, opcode %d\n", wc.status, wc.opcode);
	MUST(wc.status == IBV_WC_SUCCESS && wc.opcode == opcode);
}

static void
server(const char *address)
{
	struct rpma_conn_private_data pd;
	struct rpma_srq_cfg *sc;
	struct rpma_conn_req *req;
	struct rpma_conn_cfg *cfg;
	struct rpma_cq *cq, *rcq;
	struct rpma_srq *srq;
	struct rpma_ep *ep;
	struct end e = {0};
	uint8_t desc[256];
	size_t n;

	end_open(&e, address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	MUST(rpma_srq_cfg_new(&sc) == 0 && rpma_srq_cfg_set_rq_size(sc, 16) == 0 &&
	     rpma_srq_cfg_set_rcq_size(sc, 16) == 0 && rpma_srq_new(e.peer, sc, &srq) == 0);
	MUST(rpma_srq_get_rcq(srq, &rcq) == 0 && rcq != NULL);
	for (unsigned int i = 0; i < 4; i++)
		MUST(rpma_srq_recv(srq, e.msg_mr, i * MSG, MSG, NULL) == 0);
	MUST(rpma_conn_cfg_new(&cfg) == 0 && rpma_conn_cfg_set_srq(cfg, srq) == 0);
	MUST(rpma_ep_listen(e.peer, address, PORT, &ep) == 0);
	MUST(rpma_mr_get_descriptor_size(e.mr, &n) == 0 && n <= sizeof(desc));
	MUST(rpma_mr_get_descriptor(e.mr, desc) == 0);
	pd = (struct rpma_conn_private_data){.ptr = desc, .len = (uint8_t)n};
	MUST(rpma_ep_next_conn_req(ep, cfg, &req) == 0);
	MUST(rpma_conn_req_connect(&req, &pd, &e.conn) == 0);
	event(&e, RPMA_CONN_ESTABLISHED);
	MUST(rpma_conn_get_cq(e.conn, &cq) == 0);
	/* The client's message comes when its data are there. */
	for (unsigned int i = 0; i < 2; i++) {
		const uint64_t sum = (completed(rcq, IBV_WC_RECV), sum_of(e.mem, BYTES));

		memcpy(e.msg + 1024, &sum, sizeof(sum));
		MUST(rpma_send(e.conn, e.msg_mr, 1024, MSG, RPMA_F_COMPLETION_ALWAYS, NULL) == 0);
		completed(cq, IBV_WC_SEND);
	}
	event(&e, RPMA_CONN_CLOSED);
	printf("%016llx\n", (unsigned long long)sum_of(e.mem, BYTES));
	MUST(rpma_conn_disconnect(e.conn) == 0 && rpma_conn_delete(&e.conn) == 0);
	MUST(rpma_ep_shutdown(&ep) == 0 && rpma_conn_cfg_delete(&cfg) == 0);
	MUST(rpma_srq_delete(&srq) == 0 && rpma_srq_cfg_delete(&sc) == 0);
	end_close(&e);
}

/** Ask the server for the sum of its memory. */
static uint64_t
ask_sum(struct end *e, struct rpma_cq *cq, struct rpma_cq *rcq)
{
	uint64_t sum;

	MUST(rpma_recv(e->conn, e->msg_mr, 0, MSG, NULL) == 0);
	MUST(rpma_send(e->conn, e->msg_mr, 1024, MSG, RPMA_F_COMPLETION_ALWAYS, NULL) == 0);
	completed(cq, IBV_WC_SEND);
	completed(rcq, IBV_WC_RECV);
	memcpy(&sum, e->msg, sizeof(sum));
	return sum;
}

static void
client(const char *address, unsigned int seed)
{
	struct rpma_conn_private_data pd;
	struct rpma_mr_remote *there;
	struct rpma_conn_req *req;
	struct rpma_conn_cfg *cfg;
	struct rpma_cq *cq, *rcq;
	struct end e = {0};
	size_t size;

	end_open(&e, address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	MUST(rpma_conn_cfg_new(&cfg) == 0 && rpma_conn_cfg_set_rcq_size(cfg, 8) == 0);
	MUST(rpma_conn_req_new(e.peer, address, PORT, cfg, &req) == 0);
	MUST(rpma_conn_req_connect(&req, NULL, &e.conn) == 0);
	event(&e, RPMA_CONN_ESTABLISHED);
	MUST(rpma_conn_get_private_data(e.conn, &pd) == 0 && pd.len > 0);
	MUST(rpma_mr_remote_from_descriptor(pd.ptr, pd.len, &there) == 0);
	MUST(rpma_mr_remote_get_size(there, &size) == 0 && size == BYTES);
	MUST(rpma_conn_get_cq(e.conn, &cq) == 0 && rpma_conn_get_rcq(e.conn, &rcq) == 0);
	printf("1..3\nok 1 connected, with the descriptor of the server's memory\n");

	srand(seed);
	for (size_t i = 0; i < BYTES; i++)
		e.mem[i] = (uint8_t)(rand() >> 7);
	MUST(rpma_write(e.conn, there, 0, e.mr, 0, BYTES, RPMA_F_COMPLETION_ON_ERROR, NULL) == 0);
	MUST(rpma_flush(e.conn, there, 0, BYTES, RPMA_FLUSH_TYPE_VISIBILITY,
	                RPMA_F_COMPLETION_ALWAYS, NULL) == 0);
	completed(cq, IBV_WC_RDMA_READ);
	MUST(ask_sum(&e, cq, rcq) == sum_of(e.mem, BYTES));
	printf("ok 2 what was written and flushed is in the server's memory\n");

	MUST(rpma_atomic_write(e.conn, there, 4096, "at once.", RPMA_F_COMPLETION_ALWAYS, NULL) ==
	     0);
	completed(cq, IBV_WC_RDMA_WRITE);
	memcpy(e.mem + 4096, "at once.", 8);
	size = BYTES / 2;
	memset(e.mem + size, 0, size);
	MUST(rpma_read(e.conn, e.mr, size, there, size, size, RPMA_F_COMPLETION_ALWAYS, NULL) == 0);
	completed(cq, IBV_WC_RDMA_READ);
	MUST(ask_sum(&e, cq, rcq) == sum_of(e.mem, BYTES));
	printf("ok 3 an Atomic Write, and a Read of half of the memory\n");
	printf("# sum %016llx\n", (unsigned long long)sum_of(e.mem, BYTES));

	MUST(rpma_conn_disconnect(e.conn) == 0);
	event(&e, RPMA_CONN_CLOSED);
	MUST(rpma_mr_remote_delete(&there) == 0 && rpma_conn_delete(&e.conn) == 0 &&
	     rpma_conn_cfg_delete(&cfg) == 0);
	end_close(&e);
}

int
main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	MUST(argc >= 3);
	if (strcmp(argv[1], "server") == 0)
		server(argv[2]);
	else
		client(argv[2], argc > 3 ? (unsigned int)strtoul(argv[3], NULL, 10) : 1);
	return 0;
}
