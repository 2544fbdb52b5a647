/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Both ends of one connection of librdmacm, as each end's id names them:
 * ends server PORT | ends client ADDRESS PORT SOURCE SOURCE_PORT | ends leaver ADDRESS PORT |
 * ends binds.
 * Server and client print their id's "source > destination".
 * SOURCE - : the id is not bound before its address is resolved.
 * The leaver destroys its queue pair when it has read a line, and prints the event that comes then.
 * The last one binds to a port of any address, prints it, and listens when it has read a line.
 * An event that is not expected is printed, with its status, and ends the program with 1.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(x)                                                                                    \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			perror(#x);                                                                \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static struct rdma_event_channel *ch;

static struct sockaddr_in
at(const char *address, const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

	MUST(inet_pton(AF_INET, address, &a.sin_addr) == 1);
	return a;
}

static struct rdma_cm_id *
next_event(enum rdma_cm_event_type want)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	MUST(rdma_get_cm_event(ch, &ev) == 0);
	if (ev->event != want) {
		fprintf(stderr, "%s, status %d\n", rdma_event_str(ev->event), ev->status);
		exit(1);
	}
	id = ev->id;
	MUST(rdma_ack_cm_event(ev) == 0);
	return id;
}

static void
tell(struct rdma_cm_id *id)
{
	const struct sockaddr_in *s = (const void *)rdma_get_local_addr(id);
	const struct sockaddr_in *d = (const void *)rdma_get_peer_addr(id);
	char src[INET_ADDRSTRLEN], dst[INET_ADDRSTRLEN];

	MUST(s->sin_family == AF_INET && d->sin_family == AF_INET);
	printf("%s:%u > %s:%u\n", inet_ntop(AF_INET, &s->sin_addr, src, sizeof(src)),
	       ntohs(rdma_get_src_port(id)), inet_ntop(AF_INET, &d->sin_addr, dst, sizeof(dst)),
	       ntohs(rdma_get_dst_port(id)));
	fflush(stdout);
}

static void
with_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {
	        .qp_type = IBV_QPT_RC,
	        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};

	MUST(rdma_create_qp(id, NULL, &a) == 0);
}

static void
server(const char *port)
{
	struct sockaddr_in a = at("0.0.0.0", port);
	struct rdma_conn_param p = {0};
	struct rdma_cm_id *lsn, *id;

	MUST(rdma_create_id(ch, &lsn, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(lsn, (struct sockaddr *)&a) == 0);
	MUST(rdma_listen(lsn, 1) == 0);
	id = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
	tell(id);
	with_qp(id);
	MUST(rdma_accept(id, &p) == 0);
	next_event(RDMA_CM_EVENT_ESTABLISHED);
	next_event(RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	MUST(rdma_destroy_id(id) == 0 && rdma_destroy_id(lsn) == 0);
}

/** An id that connects. arg: ADDRESS PORT SOURCE SOURCE_PORT. */
static struct rdma_cm_id *
connecting(char **arg)
{
	struct sockaddr_in to = at(arg[0], arg[1]), from;
	struct rdma_conn_param p = {0};
	struct rdma_cm_id *id;

	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0);
	if (strcmp(arg[2], "-") != 0) {
		from = at(arg[2], arg[3]);
		MUST(rdma_bind_addr(id, (struct sockaddr *)&from) == 0);
	}
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 5000) == 0);
	next_event(RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_resolve_route(id, 5000) == 0);
	next_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
	with_qp(id);
	MUST(rdma_connect(id, &p) == 0);
	return id;
}

static void
client(char **arg)
{
	struct rdma_cm_id *id = connecting(arg);

	next_event(RDMA_CM_EVENT_ESTABLISHED);
	tell(id);
	MUST(rdma_disconnect(id) == 0);
	rdma_destroy_qp(id);
	MUST(rdma_destroy_id(id) == 0);
}

static void
leaver(char *address, char *port)
{
	char *arg[] = {address, port, (char[]){"-"}, (char[]){"0"}};
	struct rdma_cm_id *id = connecting(arg);

	MUST(getchar() == '\n');
	rdma_destroy_qp(id);
	next_event(RDMA_CM_EVENT_ESTABLISHED);
}

static void
binds(void)
{
	struct sockaddr_in a = at("0.0.0.0", "0");
	struct rdma_cm_id *id;

	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(id, (struct sockaddr *)&a) == 0);
	printf("bound %u\n", ntohs(rdma_get_src_port(id)));
	fflush(stdout);
	MUST(getchar() == '\n' && rdma_listen(id, 1) == 0);
	printf("listens\n");
	fflush(stdout);
	MUST(getchar() == '\n' && rdma_destroy_id(id) == 0);
}

int
main(int argc, char **argv)
{
	MUST((ch = rdma_create_event_channel()) != NULL);
	if (argc == 3)
		server(argv[2]);
	else if (argc == 6)
		client(argv + 2);
	else if (argc == 4)
		leaver(argv[2], argv[3]);
	else if (argc == 2)
		binds();
	else
		return 2;
	rdma_destroy_event_channel(ch);
	return 0;
}
