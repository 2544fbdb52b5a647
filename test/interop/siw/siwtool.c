/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The guest's side of the interoperability test with Linux's siw: plain operations checked by
 * content, and requests that the peer must answer with a Terminate. siw_peer.c does the same with
 * weft.
 *
 *   siwtool serve [-p PORT] [-n CONNECTIONS] [-r RECVS] [-s BYTES] [-a BYTES] [-j] [-x] [-6]
 *   siwtool connect [-p PORT] [-d DEPTH] [-a BYTES] [-w MS] ADDRESS OP...
 *
 * OP is one of:
 *
 *   send:N sendse:N sendinv:N write:N read:N
 *                       with xTIMES at the end: posted TIMES at once. A read returns the data of an
 *                       earlier write of the same length.
 *   bad-write-key bad-read-key bad-write-bounds bad-read-bounds wrap-write
 *                       invalid requests
 *   ro-write wo-read    a valid key without this access right
 *   big-send:N          longer than the peer's receives
 *   wait                until the peer has disconnected
 *
 * -r, -s: number and length of the posted receives; -a: octets of private data; -w: time before the
 * first operation; -j: reject with private data; -x: disconnect after the first message; -6: serve
 * IPv6 instead of IPv4. The server's private data begin with a description of its region (struct
 * adv).
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REGION_BYTES (9u << 20)
#define MAX_PDATA    256 /* siw's limit */
#define SQ_DEPTH     128

/* Both ends are little-endian, so no conversion is done. */
struct adv {
	uint64_t addr;
	uint32_t key, len_bytes, ro_key, wo_key, inv_key, pad;
};

static unsigned int nrecvs = 16, recv_bytes = 65536, pdata_bytes = sizeof(struct adv);
static unsigned int depth = 16, wait_ms;
static uint16_t port = 7777;

static struct rdma_event_channel *ec;
static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr, *ro, *wo, *inv, *rq;
static uint8_t *region, *recvs;
static bool disconnected;

static void
die(const char *what)
{
	perror(what);
	exit(1);
}

static uint8_t
pattern(uint32_t len, uint32_t i)
{
	return (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + len);
}

static void
fill(uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = pattern(len, i);
}

static const char *
judge(const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (p[i] != pattern(len, i))
			return "content differs";
	return "content good";
}

/* ---- Objects ---- */

static void
post_recv(unsigned int slot)
{
	struct ibv_sge sge = {(uintptr_t)(recvs + (size_t)slot * recv_bytes), recv_bytes, rq->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(id->qp, &wr, &bad) != 0 && !disconnected)
		die("ibv_post_recv");
}

static void
setup(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
	int rw = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	size_t recvs_bytes = (size_t)(nrecvs > 0 ? nrecvs : 1) * recv_bytes;

	disconnected = false;
	pd = ibv_alloc_pd(id->verbs);
	cq = ibv_create_cq(id->verbs, SQ_DEPTH + (int)nrecvs + 16, NULL, NULL, 0);
	region = calloc(1, REGION_BYTES);
	recvs = calloc(1, recvs_bytes);
	if (pd == NULL || cq == NULL || region == NULL || recvs == NULL)
		die("verbs objects");
	mr = ibv_reg_mr(pd, region, REGION_BYTES, rw);
	ro = ibv_reg_mr(pd, region, REGION_BYTES, rw & ~IBV_ACCESS_REMOTE_WRITE);
	wo = ibv_reg_mr(pd, region, REGION_BYTES, rw & ~IBV_ACCESS_REMOTE_READ);
	inv = ibv_reg_mr(pd, region, REGION_BYTES, rw);
	rq = ibv_reg_mr(pd, recvs, recvs_bytes, IBV_ACCESS_LOCAL_WRITE);
	if (mr == NULL || ro == NULL || wo == NULL || inv == NULL || rq == NULL)
		die("ibv_reg_mr");
	attr.send_cq = attr.recv_cq = cq;
	attr.cap.max_send_wr = SQ_DEPTH;
	attr.cap.max_recv_wr = nrecvs + 1;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	if (rdma_create_qp(id, pd, &attr) != 0)
		die("rdma_create_qp");
	for (unsigned int i = 0; i < nrecvs; i++)
		post_recv(i);
}

static void
teardown(void)
{
	rdma_destroy_qp(id);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(ro);
	ibv_dereg_mr(wo);
	ibv_dereg_mr(inv);
	ibv_dereg_mr(rq);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	free(region);
	free(recvs);
}

/* ---- Events ---- */

static void
show_async(void)
{
	struct ibv_async_event e;

	fcntl(id->verbs->async_fd, F_SETFL, O_NONBLOCK);
	while (ibv_get_async_event(id->verbs, &e) == 0) {
		printf("async event: %s\n", ibv_event_type_str(e.event_type));
		ibv_ack_async_event(&e);
	}
}

static struct rdma_cm_event *
event(int ms)
{
	struct pollfd p = {ec->fd, POLLIN, 0};
	struct rdma_cm_event *e;

	if (poll(&p, 1, ms) <= 0)
		return NULL;
	if (rdma_get_cm_event(ec, &e) != 0)
		die("rdma_get_cm_event");
	if (e->event == RDMA_CM_EVENT_DISCONNECTED)
		disconnected = true;
	return e;
}

/* Private data: `skip` octets followed by a pattern. */
static void
show_private(const char *who, const struct rdma_conn_param *p, uint32_t skip)
{
	const uint8_t *data = p->private_data;
	uint32_t len = p->private_data_len;

	printf("%s: private data %u: %s, responder_resources %u, initiator_depth %u\n", who, len,
	       len <= skip ? "none" : judge(data + skip, len - skip), p->responder_resources,
	       p->initiator_depth);
}

/* A description of the region, if there is one, followed by the pattern. */
static uint8_t
put_private(uint8_t *buf, const struct adv *a)
{
	uint32_t skip = a != NULL ? sizeof(*a) : 0, len = pdata_bytes < skip ? skip : pdata_bytes;

	if (a != NULL)
		memcpy(buf, a, sizeof(*a));
	fill(buf + skip, len - skip);
	return (uint8_t)len;
}

/* ---- Server ---- */

static void
answer(struct rdma_cm_event *e, bool reject)
{
	struct rdma_conn_param *q = &e->param.conn, p = {0};
	uint8_t pdata[MAX_PDATA];
	struct adv a;

	show_private("request", q, 0);
	if (reject) {
		rdma_reject(e->id, "no, thank you", 13);
		return;
	}
	id = e->id;
	setup();
	a = (struct adv){(uintptr_t)region, mr->rkey, REGION_BYTES, ro->rkey, wo->rkey,
	                 inv->rkey,         0};
	/* revision 1 does not transmit them */
	p.responder_resources =
	        q->responder_resources > 0 ? q->responder_resources : (uint8_t)depth;
	p.initiator_depth = q->initiator_depth;
	p.private_data = pdata;
	p.private_data_len = put_private(pdata, &a);
	if (rdma_accept(id, &p) != 0)
		die("rdma_accept");
}

static void
serve(unsigned int conns, bool v6, bool reject, bool leave)
{
	/* the port is at the same offset in both families */
	struct sockaddr_in6 sa = {.sin6_family = v6 ? AF_INET6 : AF_INET, .sin6_port = htons(port)};
	struct rdma_cm_id *l;

	if (rdma_create_id(ec, &l, NULL, RDMA_PS_TCP) != 0 || rdma_bind_addr(l, (void *)&sa) != 0 ||
	    rdma_listen(l, 8) != 0)
		die("listen");
	printf("listening\n");
	while (conns > 0) {
		struct rdma_cm_event *e = event(id != NULL ? 5 : -1);
		struct ibv_wc wc;

		if (e != NULL && e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			answer(e, reject);
			conns -= reject;
		} else if (e != NULL && e->event != RDMA_CM_EVENT_ESTABLISHED) {
			printf("cm event: %s status %d\n", rdma_event_str(e->event), e->status);
		}
		while (id != NULL && ibv_poll_cq(cq, 1, &wc) > 0) {
			if (wc.status != IBV_WC_SUCCESS)
				continue;
			printf("received %u: %s, flags 0x%x\n", wc.byte_len,
			       judge(recvs + wc.wr_id * recv_bytes, wc.byte_len), wc.wc_flags);
			post_recv((unsigned int)wc.wr_id);
			if (leave)
				rdma_disconnect(id);
		}
		if (id != NULL)
			show_async();
		if (e != NULL)
			rdma_ack_cm_event(e);
		if (id != NULL && disconnected) {
			teardown();
			rdma_destroy_id(id);
			id = NULL;
			conns--;
		}
	}
}

/* ---- Client ---- */

/* Returns false if the operation failed. */
static bool
wait_wc(const char *what)
{
	struct ibv_wc wc;

	for (unsigned int ms = 0; ms < 20000; ms += 2) {
		if (ibv_poll_cq(cq, 1, &wc) > 0) {
			if (wc.status == IBV_WC_SUCCESS)
				return true;
			printf("%s: %s\n", what, ibv_wc_status_str(wc.status));
			return false;
		}
		usleep(2000);
	}
	printf("%s: no completion\n", what);
	return false;
}

static void
misbehave(const char *op, const struct adv *a, struct ibv_send_wr *wr)
{
	if (strstr(op, "-key") != NULL)
		wr->wr.rdma.rkey = a->key ^ 0x00ffff00;
	if (strstr(op, "-bounds") != NULL)
		wr->wr.rdma.remote_addr = a->addr + a->len_bytes - 16;
	if (strncmp(op, "wrap", 4) == 0)
		wr->wr.rdma.remote_addr = -16ull;
	if (strncmp(op, "ro-", 3) == 0)
		wr->wr.rdma.rkey = a->ro_key;
	if (strncmp(op, "wo-", 3) == 0)
		wr->wr.rdma.rkey = a->wo_key;
}

/* A fault for which the peer ends the stream is reported after the completion. */
static bool
wait_end(const char *op)
{
	for (unsigned int i = 0; i < 100 && !disconnected; i++) {
		struct rdma_cm_event *e = event(100);

		if (e != NULL)
			rdma_ack_cm_event(e);
	}
	printf("%s: %s\n", op, disconnected ? "disconnected" : "still connected");
	show_async();
	return disconnected;
}

static bool
operate(const struct adv *a, const char *op)
{
	const char *c = strchr(op, ':'), *x = c != NULL ? strchr(c, 'x') : NULL;
	uint32_t len = c != NULL ? (uint32_t)strtoul(c + 1, NULL, 0) : 64;
	unsigned int times = x != NULL ? (unsigned int)atoi(x + 1) : 1;
	bool read = strstr(op, "read") != NULL, write = strstr(op, "write") != NULL;
	bool bad = c == NULL || strncmp(op, "big", 3) == 0, good = true;
	struct ibv_sge sge = {(uintptr_t)region, len, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED},
	                   *e;

	if (strcmp(op, "wait") == 0)
		return wait_end(op);
	if ((uint64_t)len * times > REGION_BYTES || times > SQ_DEPTH)
		die(op);
	wr.opcode = read ? IBV_WR_RDMA_READ : write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
	wr.wr.rdma.remote_addr = a->addr;
	wr.wr.rdma.rkey = a->key;
	if (strncmp(op, "sendse", 6) == 0)
		wr.send_flags |= IBV_SEND_SOLICITED;
	if (strncmp(op, "sendinv", 7) == 0) {
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.invalidate_rkey = a->inv_key;
	}
	misbehave(op, a, &wr);
	if (read)
		memset(region, 0, (size_t)len * times);
	else
		fill(region, len);
	for (unsigned int i = 0; i < times; i++) {
		if (read)
			sge.addr = (uintptr_t)(region + (size_t)i * len);
		if (ibv_post_send(id->qp, &wr, &e) != 0)
			die(op);
	}
	for (unsigned int i = 0; i < times && good; i++)
		good = wait_wc(op);
	if (bad)
		return wait_end(op);
	if (!good) {
		show_async();
		return false;
	}
	printf("%s: done\n", op);
	for (unsigned int i = 0; read && i < times; i++)
		printf("%s: %s\n", op, judge(region + (size_t)i * len, len));
	return true;
}

static struct rdma_cm_event *
expect(int ms, enum rdma_cm_event_type type, const char *what)
{
	struct rdma_cm_event *e = event(ms);

	if (e != NULL && e->event == type)
		return e;
	printf("%s: %s\n", what, e != NULL ? rdma_event_str(e->event) : "no event");
	exit(1);
}

static int
client(const char *addr, char **ops)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr *sa = (struct sockaddr *)&v4;
	uint8_t pdata[MAX_PDATA];
	struct rdma_conn_param p = {.private_data = pdata};
	struct rdma_cm_event *e;
	struct adv a = {0};
	int rc = 0;

	if (inet_pton(AF_INET, addr, &v4.sin_addr) != 1) {
		sa = (struct sockaddr *)&v6;
		inet_pton(AF_INET6, addr, &v6.sin6_addr);
	}
	p.private_data_len = put_private(pdata, NULL);
	p.responder_resources = p.initiator_depth = (uint8_t)depth;
	if (rdma_create_id(ec, &id, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_resolve_addr(id, NULL, sa, 2000) != 0)
		die("rdma_resolve_addr");
	rdma_ack_cm_event(expect(5000, RDMA_CM_EVENT_ADDR_RESOLVED, "address"));
	if (rdma_resolve_route(id, 2000) != 0)
		die("rdma_resolve_route");
	rdma_ack_cm_event(expect(5000, RDMA_CM_EVENT_ROUTE_RESOLVED, "route"));
	setup();
	if (rdma_connect(id, &p) != 0)
		die("rdma_connect");
	e = event(20000);
	if (e == NULL || e->event != RDMA_CM_EVENT_ESTABLISHED) {
		printf("connect: %s status %d\n", e != NULL ? rdma_event_str(e->event) : "no event",
		       e != NULL ? e->status : 0);
		if (e != NULL && e->param.conn.private_data_len > 0)
			printf("reason: %.13s\n", (const char *)e->param.conn.private_data);
		return 2;
	}
	show_private("reply", &e->param.conn, sizeof(a));
	if (e->param.conn.private_data_len >= sizeof(a))
		memcpy(&a, e->param.conn.private_data, sizeof(a));
	rdma_ack_cm_event(e);
	usleep(wait_ms * 1000);
	for (; *ops != NULL && rc == 0; ops++)
		if (!operate(&a, *ops))
			rc = 3;
	if (!disconnected) {
		rdma_disconnect(id);
		e = event(5000);
		printf("end: %s\n", e != NULL ? rdma_event_str(e->event) : "no event");
		if (e != NULL)
			rdma_ack_cm_event(e);
	}
	teardown();
	rdma_destroy_id(id);
	return rc;
}

int
main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	bool reject = false, leave = false, v6 = false;
	unsigned int conns = 1;
	int o;

	while ((o = getopt(argc - 1, argv + 1, "+p:n:r:s:a:d:w:jx6")) != -1)
		switch (o) {
		case 'p':
			port = (uint16_t)atoi(optarg);
			break;
		case 'n':
			conns = (unsigned int)atoi(optarg);
			break;
		case 'r':
			nrecvs = (unsigned int)atoi(optarg);
			break;
		case 's':
			recv_bytes = (unsigned int)atoi(optarg);
			break;
		case 'a':
			pdata_bytes = (unsigned int)atoi(optarg);
			break;
		case 'd':
			depth = (unsigned int)atoi(optarg);
			break;
		case 'w':
			wait_ms = (unsigned int)atoi(optarg);
			break;
		case 'j':
			reject = true;
			break;
		case 'x':
			leave = true;
			break;
		case '6':
			v6 = true;
			break;
		default:
			return 1;
		}
	setvbuf(stdout, NULL, _IOLBF, 0);
	ec = rdma_create_event_channel();
	if (ec == NULL)
		die("rdma_create_event_channel");
	if (pdata_bytes < MAX_PDATA && strcmp(mode, "serve") == 0 && optind == argc - 1) {
		serve(conns, v6, reject, leave);
		return 0;
	}
	if (pdata_bytes < MAX_PDATA && strcmp(mode, "connect") == 0 && optind < argc - 1)
		return client(argv[1 + optind], argv + optind + 2);
	fprintf(stderr, "see the head of siwtool.c\n");
	return 1;
}
