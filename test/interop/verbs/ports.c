/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A program of libibverbs and librdmacm on a machine with several devices: ports ADDRESS...
 * It says which devices there are, connects to each address, and says at which device. Then it
 * waits until the last device has lost its link, and uses the first connection.
 */

#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PORT "7211"
#define MOST 8

#define MUST(x)                                                                                    \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "line %d: ", __LINE__);                                    \
			perror(#x);                                                                \
			_Exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void
devices(void)
{
	struct ibv_port_attr port;
	struct ibv_device_attr attr;
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct ifaddrs *ifa;
	union ibv_gid gid;
	int n;

	list = ibv_get_device_list(&n);
	MUST(list != NULL);
	for (int i = 0; i < n; i++) {
		ctx = ibv_open_device(list[i]);
		MUST(ctx != NULL && ibv_query_port(ctx, 1, &port) == 0);
		MUST(ibv_query_port(ctx, 2, &port) != 0 && ibv_query_gid(ctx, 1, 0, &gid) == 0);
		MUST(ibv_query_device(ctx, &attr) == 0);
		MUST(attr.node_guid == ibv_get_device_guid(list[i]) && attr.phys_port_cnt == 1);
		printf("device %s %016llx %02x%02x\n", ibv_get_device_name(list[i]),
		       (unsigned long long)be64toh(attr.node_guid), gid.raw[14], gid.raw[15]);
		MUST(ibv_close_device(ctx) == 0);
	}
	ibv_free_device_list(list);
	MUST(getifaddrs(&ifa) == 0);
	for (struct ifaddrs *a = ifa; a != NULL; a = a->ifa_next)
		if (strncmp(a->ifa_name, "weft", 4) == 0)
			printf("interface %s\n", a->ifa_name);
	freeifaddrs(ifa);
}

static struct rdma_cm_id *
connect_to(const char *to)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *res;
	struct ibv_qp_init_attr attr = {
	        .qp_type = IBV_QPT_RC,
	        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	struct rdma_cm_id *id;

	MUST(rdma_getaddrinfo(to, PORT, &hints, &res) == 0);
	MUST(rdma_create_ep(&id, res, NULL, &attr) == 0 && rdma_connect(id, NULL) == 0);
	rdma_freeaddrinfo(res);
	printf("%s by %s\n", to, id->verbs->device->name);
	return id;
}

/** What is made of objects of two devices is refused. */
static void
mixed(struct rdma_cm_id *a, struct rdma_cm_id *b)
{
	struct ibv_qp_init_attr attr = {
	        .qp_type = IBV_QPT_RC,
	        .send_cq = b->send_cq,
	        .recv_cq = a->recv_cq,
	        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	struct ibv_qp_init_attr_ex ex = {.qp_type = IBV_QPT_RC,
	                                 .comp_mask = IBV_QP_INIT_ATTR_PD |
	                                              IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	                                 .send_ops_flags = IBV_QP_EX_WITH_SEND,
	                                 .pd = a->pd,
	                                 .send_cq = a->send_cq,
	                                 .recv_cq = a->recv_cq,
	                                 .cap = attr.cap};
	struct ibv_comp_channel *channel = ibv_create_comp_channel(a->verbs);
	static char memory[4096];
	struct ibv_mr *mr = ibv_reg_mr(a->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);

	MUST(channel != NULL && mr != NULL);
	MUST(ibv_create_qp(a->pd, &attr) == NULL && errno == EINVAL);
	MUST(ibv_create_qp_ex(b->verbs, &ex) == NULL && errno == EINVAL);
	MUST(ibv_create_cq(b->verbs, 4, NULL, channel, 0) == NULL && errno == EINVAL);
	MUST(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, b->pd, NULL, 0, 0) ==
	             IBV_REREG_MR_ERR_INPUT &&
	     errno == EINVAL);
	MUST(ibv_dereg_mr(mr) == 0 && ibv_destroy_comp_channel(channel) == 0);
}

/** The next asynchronous event, within `ms`; -1: none. */
static int
async(struct rdma_cm_id *id, int ms)
{
	struct pollfd p = {.fd = id->verbs->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	if (poll(&p, 1, ms) == 0)
		return -1;
	MUST(ibv_get_async_event(id->verbs, &ev) == 0);
	ibv_ack_async_event(&ev);
	return (int)ev.event_type;
}

int
main(int argc, char **argv)
{
	struct rdma_cm_id *id[MOST];
	const int n = argc - 1;
	struct rdma_cm_event *ev;
	static uint8_t mem[64];
	struct ibv_port_attr port;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	MUST(n <= MOST);
	devices();
	for (int i = 0; i < n; i++)
		id[i] = connect_to(argv[i + 1]);
	printf("ready\n");
	fflush(stdout);
	if (n < 2)
		return 0;
	mixed(id[0], id[n - 1]);
	MUST(async(id[n - 1], 20000) == IBV_EVENT_PORT_ERR);
	MUST(ibv_query_port(id[n - 1]->verbs, 1, &port) == 0 && port.state == IBV_PORT_DOWN);
	MUST(rdma_get_cm_event(id[n - 1]->channel, &ev) == 0);
	MUST(ev->event == RDMA_CM_EVENT_DISCONNECTED && rdma_ack_cm_event(ev) == 0);
	/* the others hear nothing, and go on */
	for (int i = 0; i < n - 1; i++) {
		MUST(async(id[i], 500) == -1);
		MUST(ibv_query_port(id[i]->verbs, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE);
	}
	mr = rdma_reg_msgs(id[0], mem, sizeof(mem));
	MUST(mr != NULL);
	MUST(rdma_post_send(id[0], NULL, mem, sizeof(mem), mr, IBV_SEND_SIGNALED) == 0);
	MUST(rdma_get_send_comp(id[0], &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	printf("goes on\n");
	return 0;
}
