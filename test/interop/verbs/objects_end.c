/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Cases of the program objects: how connections end, and what is left of them. */

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "objects.h"

/** The connection has ended; a second rdma_disconnect() would wait for ever, as with the kernel. */
static void
late_close(struct end *e)
{
	MUST(ibv_dereg_mr(e->mr) == 0);
	rdma_destroy_ep(e->id);
	free(e->mem);
}

/** Ask the server for its last message; both receives are posted. */
static struct end
late_open(void)
{
	const struct ask a = {.order = BYE};
	struct end e;

	client_open(&e);
	post_recv(&e, NULL, 3);
	post_recv(&e, NULL, 4);
	post_send_inline(&e, &a, sizeof(a));
	return e;
}

/** Whether the event of the end is there, within `ms`; it is taken. */
static bool
late_told(const struct end *e, int ms)
{
	struct pollfd p = {.fd = e->id->channel->fd, .events = POLLIN};
	struct rdma_cm_event *ev;

	if (poll(&p, 1, ms) == 0)
		return false;
	MUST(rdma_get_cm_event(e->id->channel, &ev) == 0);
	MUST(ev->event == RDMA_CM_EVENT_DISCONNECTED && rdma_ack_cm_event(ev) == 0);
	return true;
}

static void
late_message(const struct end *e)
{
	wc_ok(e->id->send_cq, IBV_WC_SEND);
	MUST(wc_ok(e->id->recv_cq, IBV_WC_RECV).wr_id == 3);
	MUST(memcmp(e->mem + (size_t)3 * MSG, "bye", 4) == 0);
}

/**
 * A program that was away finds the last message and the end of the connection. It learns of the
 * message first: libfabric destroys the queue pair with its completions when it reads the event.
 */
void
case_late(void)
{
	struct end e = late_open();

	/* away: no call that weft knows */
	usleep(400000);
	MUST(!late_told(&e, 0));
	late_message(&e);
	MUST(late_told(&e, 10000));
	late_close(&e);
	/* a program that sleeps until the event comes gets it before it has polled */
	e = late_open();
	MUST(late_told(&e, 10000));
	late_message(&e);
	late_close(&e);
	/* and so does one that disconnects by itself */
	e = late_open();
	usleep(400000);
	MUST(rdma_disconnect(e.id) == 0);
	MUST(e.id->event->event == RDMA_CM_EVENT_DISCONNECTED);
	late_message(&e);
	late_close(&e);
	done("the end of a connection comes behind its last message");
}

/** In error without a connection: requests complete as flushed, except those that are wrong. */
void
case_flushed(void)
{
	static const struct {
		enum ibv_wr_opcode op;
		enum ibv_wc_opcode wc;
	} ops[] = {{IBV_WR_SEND, IBV_WC_SEND},
	           {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
	           {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE},
	           {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
	           {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP},
	           {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD},
	           {IBV_WR_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE},
	           {IBV_WR_LOCAL_INV, IBV_WC_LOCAL_INV}};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr attr = plain();
	struct end e = {.id = client_id()};

	MUST(rdma_create_qp(e.id, NULL, &attr) == 0);
	end_memory(&e);
	MUST(ibv_modify_qp(e.id->qp, &err, IBV_QP_STATE) == 0);
	for (uint32_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		struct ibv_wc wc;

		MUST(post(&e, ops[i].op, 8 * i, 8, 0, 0) == 0);
		wc = wc_any(e.id->send_cq);
		MUST(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 8 * i &&
		     wc.opcode == ops[i].wc && wc.qp_num == e.id->qp->qp_num);
	}
	MUST(post(&e, IBV_WR_SEND_WITH_IMM, 0, 8, 0, 0) == EINVAL);
	MUST(post(&e, IBV_WR_ATOMIC_WRITE, 0, 4, 0, 0) == EINVAL);
	post_recv(&e, NULL, 1);
	MUST(wc_any(e.id->recv_cq).status == IBV_WC_WR_FLUSH_ERR);
	MUST(ibv_dereg_mr(e.mr) == 0);
	rdma_destroy_ep(e.id);
	free(e.mem);
	done("a queue pair in error without a connection flushes what is posted");
}

/** Events of a queue pair: of a peer's wrong access, and of the end of one with a shared queue. */
void
case_async(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	const struct ask wrong = {.order = READ_MINE, .addr = 8, .rkey = 8, .len = 8};
	struct ibv_qp_init_attr attr = plain();
	struct ibv_async_event ev;
	struct ibv_srq *srq;
	struct end e;

	client_open(&e);
	post_send_inline(&e, &wrong, sizeof(wrong));
	ev = async_event(e.id->verbs, 10000);
	MUST(ev.event_type == IBV_EVENT_QP_ACCESS_ERR && ev.element.qp == e.id->qp);
	ibv_ack_async_event(&ev);
	MUST(late_told(&e, 10000));
	late_close(&e);
	e = (struct end){.id = client_id()};
	srq = attr.srq = ibv_create_srq(e.id->pd, &sa);
	MUST(srq != NULL && rdma_create_qp(e.id, NULL, &attr) == 0);
	client_up(&e);
	MUST(rdma_disconnect(e.id) == 0);
	ev = async_event(e.id->verbs, 10000);
	MUST(ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && ev.element.qp == e.id->qp);
	ibv_ack_async_event(&ev);
	rdma_destroy_qp(e.id);
	MUST(ibv_destroy_srq(srq) == 0);
	late_close(&e);
	done("events: a wrong access of the peer, the last receive of a shared queue");
}

static struct rdma_cm_id *
option_id(struct rdma_event_channel *ch, int reuse)
{
	struct rdma_cm_id *id;

	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, sizeof(reuse)) ==
	     0);
	return id;
}

/** As the kernel's cma_check_port(): all want to share, and none listens. */
static void
option_reuse(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7310)};
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id[4];

	MUST(ch != NULL);
	for (int i = 0; i < 4; i++)
		id[i] = option_id(ch, i != 2);
	MUST(rdma_bind_addr(id[0], (struct sockaddr *)&a) == 0);
	MUST(rdma_bind_addr(id[1], (struct sockaddr *)&a) == 0);
	MUST(rdma_bind_addr(id[2], (struct sockaddr *)&a) == -1 && errno == EADDRINUSE);
	MUST(rdma_listen(id[0], 1) == 0);
	MUST(rdma_listen(id[1], 1) == -1 && errno == EADDRINUSE);
	MUST(rdma_bind_addr(id[3], (struct sockaddr *)&a) == -1 && errno == EADDRINUSE);
	for (int i = 0; i < 4; i++)
		MUST(rdma_destroy_id(id[i]) == 0);
	rdma_destroy_event_channel(ch);
}

/** As the kernel's rdma_set_ack_timeout(): any value, but of a datagram's id. */
static void
option_ack_timeout(struct rdma_event_channel *ch, struct rdma_cm_id *id)
{
	const uint8_t values[] = {0, 14, 255};
	uint16_t two = 14;
	struct rdma_cm_id *ud;

	for (unsigned int i = 0; i < sizeof(values); i++)
		MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
		                     (void *)(uintptr_t)&values[i], 1) == 0);
	MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &two, sizeof(two)) ==
	             -1 &&
	     errno == EINVAL);
	MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, NULL, 1) == -1 &&
	     errno == EFAULT);
	MUST(rdma_create_id(ch, &ud, NULL, RDMA_PS_UDP) == 0);
	MUST(rdma_set_option(ud, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &two, 1) == -1 &&
	     errno == EINVAL);
	MUST(rdma_destroy_id(ud) == 0);
}

/** Whether rdma_notify() is taken, whatever the event; else it is EINVAL. */
static bool
notified(struct rdma_cm_id *id)
{
	int rc = rdma_notify(id, IBV_EVENT_COMM_EST);

	MUST(rc == 0 || (rc == -1 && errno == EINVAL));
	MUST(rdma_notify(id, IBV_EVENT_QP_FATAL) == rc);
	return rc == 0;
}

/** As the kernel's rdma_notify() of a device that is not InfiniBand's: of an id that has a device,
 * and listens or connects. */
static void
option_notify(struct rdma_event_channel *ch)
{
	struct sockaddr_in any = {.sin_family = AF_INET}, own;
	struct ibv_qp_init_attr attr = plain();
	struct rdma_cm_id *lsn;
	struct end e = {.id = client_id()};

	MUST(!notified(e.id));
	MUST(rdma_create_qp(e.id, NULL, &attr) == 0);
	own = *(struct sockaddr_in *)(void *)rdma_get_local_addr(e.id);
	client_up(&e);
	MUST(notified(e.id));
	MUST(ask(&e, TELL_SUM, 0).value == 0);
	own.sin_port = 0;
	for (unsigned int i = 0; i < 2; i++) {
		MUST(rdma_create_id(ch, &lsn, NULL, RDMA_PS_TCP) == 0 && !notified(lsn));
		MUST(rdma_bind_addr(lsn, (struct sockaddr *)(i == 0 ? &own : &any)) == 0);
		MUST(!notified(lsn) && rdma_listen(lsn, 1) == 0 && notified(lsn) == (i == 0));
		MUST(rdma_destroy_id(lsn) == 0);
	}
	client_close(&e);
}

void
case_options(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct ibv_qp_init_attr attr = plain();
	struct end e = {.id = client_id()};
	uint8_t tos = 0x68; /* DSCP AF31 */
	int on = 1;

	MUST(rdma_set_option(e.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) == 0);
	MUST(rdma_set_option(e.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, sizeof(on)) == -1 &&
	     errno == EINVAL);
	MUST(rdma_set_option(e.id, RDMA_OPTION_ID, 99, &on, sizeof(on)) == -1 && errno == ENOSYS);
	MUST(ch != NULL);
	option_ack_timeout(ch, e.id);
	MUST(rdma_create_qp(e.id, NULL, &attr) == 0);
	client_up(&e);
	MUST(ask(&e, TELL_SUM, 0).value == 0);
	client_close(&e);
	option_notify(ch);
	option_reuse();
	rdma_destroy_event_channel(ch);
	done("options of ids: type of service, timeout, ports that are shared until one listens; "
	     "rdma_notify()");
}

/** Take the events of these ids until `n` of one kind have come; the others must be of no kind. */
static void
backlog_events(struct rdma_event_channel *ch, enum rdma_cm_event_type type, unsigned int n)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_event *ev;

	for (; n > 0; n--) {
		MUST(poll(&p, 1, 20000) == 1 && rdma_get_cm_event(ch, &ev) == 0);
		MUST(ev->event == type);
		if (type == RDMA_CM_EVENT_ESTABLISHED)
			MUST(rdma_disconnect(ev->id) == 0);
		MUST(rdma_ack_cm_event(ev) == 0);
		if (type == RDMA_CM_EVENT_ESTABLISHED)
			backlog_events(ch, RDMA_CM_EVENT_DISCONNECTED, 1);
	}
}

/** The server serves one client at a time: the requests of the others wait, as many as it said. */
void
case_backlog(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_conn_param cp = {.responder_resources = 1, .initiator_depth = 1};
	struct rdma_cm_id *id[BACKLOG + 2];
	struct ibv_qp_init_attr attr = plain();
	struct pollfd p = {.events = POLLIN};
	struct end e;

	client_open(&e);
	MUST(ch != NULL);
	p.fd = ch->fd;
	for (unsigned int i = 0; i < BACKLOG + 2; i++) {
		id[i] = client_id();
		MUST(rdma_create_qp(id[i], NULL, &attr) == 0);
		MUST(rdma_migrate_id(id[i], ch) == 0);
		MUST(rdma_connect(id[i], &cp) == 0);
	}
	backlog_events(ch, RDMA_CM_EVENT_REJECTED, 2);
	MUST(poll(&p, 1, 300) == 0);
	client_close(&e);
	backlog_events(ch, RDMA_CM_EVENT_ESTABLISHED, BACKLOG);
	for (unsigned int i = 0; i < BACKLOG + 2; i++)
		rdma_destroy_ep(id[i]);
	rdma_destroy_event_channel(ch);
	done("a backlog: so many requests wait, the others are rejected");
}

/** A host that is not there: the address has a network, so what tells is the connection. */
void
case_absent(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7199)};
	struct rdma_conn_param cp = {.responder_resources = 1, .initiator_depth = 1};
	struct ibv_qp_init_attr attr = plain();
	struct rdma_cm_id *id;

	MUST(inet_pton(AF_INET, "10.9.0.77", &a.sin_addr) == 1);
	MUST(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 2000) == 0);
	MUST(rdma_resolve_route(id, 2000) == 0 && rdma_create_qp(id, NULL, &attr) == 0);
	MUST(rdma_connect(id, &cp) == -1);
	MUST(id->event->event == RDMA_CM_EVENT_UNREACHABLE && id->event->status < 0);
	rdma_destroy_ep(id);
	done("a host that is not there is unreachable");
}

/* ---- A connection that waits ---- */

/** Set the type of service of an id. tos: a number, or NULL to leave it. */
static void
service_type(struct rdma_cm_id *id, const char *tos)
{
	uint8_t value;

	if (tos == NULL)
		return;
	value = (uint8_t)strtoul(tos, NULL, 0);
	MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &value, sizeof(value)) == 0);
}

int
wait_idle(const char *end, const char *address, const char *const tos[2])
{
	struct ibv_qp_init_attr attr = plain();
	struct rdma_cm_id *id, *listener;
	struct rdma_addrinfo *res;
	struct ibv_cq *cq;
	void *user;

	if (strcmp(end, "server") == 0) {
		res = info(address, RAI_PASSIVE);
		MUST(rdma_create_ep(&listener, res, NULL, &attr) == 0);
		rdma_freeaddrinfo(res);
		service_type(listener, tos[0]);
		MUST(rdma_listen(listener, 1) == 0 && rdma_get_request(listener, &id) == 0);
		service_type(id, tos[1]);
		MUST(rdma_accept(id, NULL) == 0);
	} else {
		id = client_id();
		service_type(id, tos[0]);
		MUST(rdma_create_qp(id, NULL, &attr) == 0 && rdma_connect(id, NULL) == 0);
	}
	MUST(ibv_req_notify_cq(id->recv_cq, 0) == 0);
	printf("waits\n");
	fflush(stdout);
	MUST(ibv_get_cq_event(id->recv_cq_channel, &cq, &user) == 0);
	return 1;
}

/* ---- The end of the device ---- */

/** The next event of a channel, which must be one of these two; which one. */
static unsigned int
cm_either(struct rdma_event_channel *ch, enum rdma_cm_event_type one, enum rdma_cm_event_type two,
          const struct rdma_cm_id *id)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	unsigned int which;

	MUST(poll(&p, 1, 10000) == 1 && rdma_get_cm_event(ch, &ev) == 0);
	MUST((ev->event == one || ev->event == two) && ev->id == id);
	which = ev->event == two;
	MUST(rdma_ack_cm_event(ev) == 0);
	return which;
}

int
device_removed(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_conn_param cp = {0};
	struct ibv_qp_init_attr attr = plain();
	struct rdma_cm_id *listener, *late;
	struct ibv_port_attr port;
	struct sockaddr_in own;
	struct end e;

	client_open(&e);
	late = client_id();
	MUST(rdma_create_qp(late, NULL, &attr) == 0);
	MUST(ch != NULL && rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP) == 0);
	own = *(struct sockaddr_in *)(void *)rdma_get_local_addr(e.id);
	own.sin_port = 0;
	MUST(rdma_bind_addr(listener, (struct sockaddr *)&own) == 0);
	MUST(rdma_listen(listener, 1) == 0);
	printf("remove it\n");
	fflush(stdout);
	/* in any order: the connection ends, and the device is gone */
	MUST(cm_either(e.id->channel, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_DEVICE_REMOVAL,
	               e.id) != cm_either(e.id->channel, RDMA_CM_EVENT_DISCONNECTED,
	                                  RDMA_CM_EVENT_DEVICE_REMOVAL, e.id));
	(void)cm_either(ch, RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_DEVICE_REMOVAL, listener);
	(void)cm_either(late->channel, RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_DEVICE_REMOVAL,
	                late);
	while (async_event(e.id->verbs, 10000).event_type != IBV_EVENT_DEVICE_FATAL)
		;
	MUST(ibv_query_port(e.id->verbs, 1, &port) == 0 && port.state == IBV_PORT_DOWN);
	MUST(rdma_connect(late, &cp) == -1);
	/* what the program has can be given back */
	MUST(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(ch);
	rdma_destroy_ep(late);
	MUST(ibv_dereg_mr(e.mr) == 0);
	rdma_destroy_ep(e.id);
	free(e.mem);
	return 0;
}

/* ---- The end of the process ---- */

static struct end left;
static struct ibv_qp *left_qp;
static struct rdma_cm_id *left_listener;

/** As the destructor of a static object of C++, which runs behind weft's own end. */
static void
leave_late(void)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_pd *pd = left_qp->pd;
	struct ibv_context *ctx = pd->context;
	struct ibv_port_attr port;
	struct ibv_wc wc;

	/* what is asked for is refused */
	MUST(post(&left, IBV_WR_RDMA_WRITE, 4096, 8, left.told.addr, left.told.rkey) == EPERM);
	MUST(ibv_modify_qp(left_qp, &err, IBV_QP_STATE) == EPERM);
	MUST(ibv_alloc_pd(ctx) == NULL && errno == EPERM);
	MUST(ibv_query_port(ctx, 1, &port) == 0);
	MUST(ibv_poll_cq(left.id->recv_cq, 1, &wc) == 0);
	MUST(rdma_disconnect(left.id) == -1);
	/* what is given back is gone */
	MUST(ibv_dereg_mr(left.mr) == 0);
	rdma_destroy_qp(left.id);
	MUST(ibv_destroy_qp(left_qp) == 0);
	rdma_destroy_ep(left.id);
	rdma_destroy_ep(left_listener);
	MUST(ibv_open_device(ctx->device) == NULL && errno == ENODEV);
	printf("left\n");
}

int
leave_open(void)
{
	struct ibv_qp_init_attr attr = plain();
	struct rdma_addrinfo *res;

	MUST(atexit(leave_late) == 0);
	client_open(&left);
	attr.send_cq = attr.recv_cq = left.id->recv_cq;
	MUST((left_qp = ibv_create_qp(left.id->pd, &attr)) != NULL);
	res = info(NULL, RAI_PASSIVE);
	MUST(rdma_create_ep(&left_listener, res, NULL, NULL) == 0);
	MUST(rdma_listen(left_listener, 4) == 0);
	rdma_freeaddrinfo(res);
	return 0;
}
