/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Addresses of ids: binding, the way to a peer, and what can be asked of both. */

#include "ucm_priv.h"

#include "addr.h"
#include "config.h"
#include "device.h"
#include "portd.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define ADDR_FIRST_PORT 49152 /* RFC 6335 s6: dynamic ports */

static const struct conf_port *
addr_ports(uint32_t *n)
{
	const struct conf *c = wv_config();

	*n = c != NULL ? c->nports : 0;
	return c != NULL ? c->ports : NULL;
}

static __be16 *
addr_port(struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)(void *)a)->sin6_port
	                                : &((struct sockaddr_in *)(void *)a)->sin_port;
}

static bool
addr_is_loopback(const struct sockaddr_storage *a)
{
	static const uint8_t loopback[16] = {[15] = 1};

	if (a->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >>
		               24 ==
		       127;
	return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, loopback,
	              sizeof(loopback)) == 0;
}

/**
 * An address of the loopback interface stands for the port's first of its family, as the kernel
 * takes its first device. libfabric looks for devices by such addresses, and passes the answer on.
 */
static void
addr_unloop(struct sockaddr_storage *a)
{
	const __be16 port = *addr_port(a);
	uint32_t n;
	const struct conf_port *p = addr_ports(&n);

	for (uint32_t i = 0; n > 0 && addr_is_loopback(a) && i < p[0].nnets; i++)
		if (p[0].nets[i].addr.ss_family == a->ss_family) {
			*a = p[0].nets[i].addr;
			*addr_port(a) = port;
			return;
		}
}

/** The number of the port that has the address; -1: none. */
static int
addr_owner(const struct sockaddr_storage *a)
{
	uint32_t n;
	const struct conf_port *p = addr_ports(&n);

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < p[i].nnets; k++)
			if (addr_same_host(a, &p[i].nets[k].addr))
				return (int)i;
	return -1;
}

bool
cm_addr_is_ours(const struct sockaddr_storage *a)
{
	return addr_owner(a) >= 0;
}

unsigned int
cm_addr_device(const struct sockaddr_storage *a)
{
	const int i = addr_owner(a);

	return i > 0 ? (unsigned int)i : 0;
}

bool
cm_addr_one_family(const struct wv_cm_id *id)
{
	return addr_is_any(&id->src) && (id->src.ss_family == AF_INET || id->af_only);
}

uint16_t
cm_addr_port(const struct wv_cm_id *id)
{
	struct sockaddr_storage a = id->src;

	return be16toh(*addr_port(&a));
}

uint32_t
cm_addr_all(const struct wv_cm_id *id, struct sockaddr_storage *out, uint32_t most)
{
	struct sockaddr_storage src = id->src;
	uint32_t n, found = 0;
	const struct conf_port *p = addr_ports(&n);

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < p[i].nnets && found < most; k++)
			if (p[i].nets[k].addr.ss_family == src.ss_family) {
				out[found] = p[i].nets[k].addr;
				*addr_port(&out[found++]) = *addr_port(&src);
			}
	return found;
}

/** The address from which a peer is reached: in its network, or by a gateway. NULL: none. */
static const struct sockaddr_storage *
addr_toward(const struct sockaddr_storage *to)
{
	uint32_t n;
	const struct conf_port *p = addr_ports(&n);

	for (uint32_t gateway = 0; gateway < 2; gateway++)
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t k = 0; k < p[i].nnets; k++) {
				const struct conf_net *net = &p[i].nets[k];

				if (net->addr.ss_family != to->ss_family)
					continue;
				if (gateway == 0 ? addr_same_net(to, &net->addr, net->prefix_len)
				                 : net->gateway.ss_family != 0)
					return &net->addr;
			}
	return NULL;
}

/** If the id is bound to any address: give it the one from which its peer is reached. */
static void
addr_from_toward(struct wv_cm_id *id)
{
	const struct sockaddr_storage *from = addr_is_any(&id->src) ? addr_toward(&id->dst) : NULL;

	if (from != NULL) {
		const __be16 port = *addr_port(&id->src);

		id->src = *from;
		*addr_port(&id->src) = port;
	}
}

/* ---- Binding ---- */

struct addr_clash {
	const struct wv_cm_id *id;
	struct sockaddr_storage addr;
};

static bool
addr_clashes(const struct wv_cm_id *other, const void *arg)
{
	const struct addr_clash *c = arg;
	struct sockaddr_storage a = other->src, b = c->addr;

	/* Ids of accepted connections share their listener's port. */
	if (other == c->id || other->state == CM_NEW || other->ps != c->id->ps || other->accepted ||
	    (other->reuse && c->id->reuse && other->state != CM_LISTEN))
		return false;
	/* As the kernel's cma_check_port(): an address of IPv4 is of its family alone. */
	if (a.ss_family != b.ss_family && (a.ss_family == AF_INET || other->af_only) &&
	    (b.ss_family == AF_INET || c->id->af_only))
		return false;
	return *addr_port(&a) == *addr_port(&b) &&
	       (addr_is_any(&a) || addr_is_any(&b) || addr_same_host(&a, &b));
}

/** With weft-portd: of the ports that the process has. */
static int
addr_choose_ours(struct wv_cm_id *id, struct sockaddr_storage *a, uint16_t start)
{
	struct addr_clash clash = {.id = id, .addr = *a};
	const uint32_t n = wv_portd_dynamic();

	for (uint32_t i = 0; i < n; i++) {
		*addr_port(&clash.addr) = htobe16(wv_portd_nth((start + i) % n));
		if (cm_id_each(addr_clashes, &clash) == NULL) {
			*a = clash.addr;
			return 0;
		}
	}
	return wv_portd_more() == -EAGAIN ? -EAGAIN : -EADDRNOTAVAIL;
}

static int
addr_choose_port(struct wv_cm_id *id, struct sockaddr_storage *a)
{
	struct addr_clash clash = {.id = id, .addr = *a};
	uint16_t start = 0;

	if (getrandom(&start, sizeof(start), GRND_NONBLOCK) < 0)
		start = (uint16_t)id->id;
	if (wv_portd_on())
		return addr_choose_ours(id, a, start);
	for (uint32_t i = 0; i < 65536 - ADDR_FIRST_PORT; i++) {
		*addr_port(&clash.addr) = htobe16(
		        (uint16_t)(ADDR_FIRST_PORT + (start + i) % (65536 - ADDR_FIRST_PORT)));
		if (cm_id_each(addr_clashes, &clash) == NULL) {
			*a = clash.addr;
			return 0;
		}
	}
	return -EADDRNOTAVAIL;
}

static int
addr_bind(struct wv_cm_id *id, const struct sockaddr_storage *given)
{
	struct addr_clash clash = {.id = id};
	struct sockaddr_storage a = *given;
	const bool named = *addr_port(&a) != 0;
	int rc = 0;

	if (id->state != CM_NEW)
		return -EINVAL;
	if (a.ss_family != AF_INET && a.ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	addr_unloop(&a);
	clash.addr = a;
	if (!addr_is_any(&a) && !cm_addr_is_ours(&a))
		return -EADDRNOTAVAIL;
	if (*addr_port(&a) == 0)
		rc = addr_choose_port(id, &a);
	else if (cm_id_each(addr_clashes, &clash) != NULL)
		rc = -EADDRINUSE;
	if (rc == 0)
		rc = wv_portd_bind(be16toh(*addr_port(&a)));
	if (rc < 0)
		return rc;
	id->bound = be16toh(*addr_port(&a));
	id->named = named;
	id->src = a;
	id->state = CM_BOUND;
	id->device = !addr_is_any(&a);
	return 0;
}

int
cm_bind_any(struct wv_cm_id *id, sa_family_t family)
{
	const struct sockaddr_storage any = {.ss_family = family};

	return addr_bind(id, &any);
}

/** The address of a command, of at most n octets. */
static int
addr_get(struct sockaddr_storage *a, const void *from, size_t n)
{
	memset(a, 0, sizeof(*a));
	if (n > sizeof(*a))
		return -EINVAL;
	memcpy(a, from, n);
	if (a->ss_family == AF_INET)
		memset((char *)a + sizeof(struct sockaddr_in), 0,
		       sizeof(*a) - sizeof(struct sockaddr_in));
	return (a->ss_family == AF_INET && n >= sizeof(struct sockaddr_in)) ||
	                       (a->ss_family == AF_INET6 && n >= sizeof(struct sockaddr_in6))
	               ? 0
	               : -EINVAL;
}

int
cm_do_bind_ip(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_bind_ip *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);
	struct sockaddr_storage a;

	(void)out;
	if (addr_get(&a, &c->addr, sizeof(c->addr)) < 0)
		return -EINVAL;
	return id == NULL ? -ENOENT : addr_bind(id, &a);
}

int
cm_do_bind(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_bind *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);
	struct sockaddr_storage a;

	(void)out;
	/* Also AF_IB, by which librdmacm finds out whether the kernel has it. */
	if (c->reserved != 0 || addr_get(&a, &c->addr, c->addr_size) < 0)
		return -EINVAL;
	return id == NULL ? -ENOENT : addr_bind(id, &a);
}

/* ---- The way to a peer ---- */

static int
addr_resolve_to(struct wv_cm_id *id, const struct sockaddr_storage *src,
                const struct sockaddr_storage *to)
{
	struct sockaddr_storage unlooped = *to;
	const struct sockaddr_storage *from, *dst = &unlooped;
	int rc = 0;

	if (dst->ss_family != AF_INET && dst->ss_family != AF_INET6)
		return -EINVAL;
	if (id->state == CM_NEW)
		rc = src->ss_family != 0 ? addr_bind(id, src) : cm_bind_any(id, dst->ss_family);
	if (rc < 0)
		return rc;
	if (id->state != CM_BOUND)
		return -EINVAL;
	/* A port has no way to itself, and a gateway none to the loopback interface. With
	 * weft-portd other processes have this address, too. */
	if (wv_portd_on())
		addr_unloop(&unlooped);
	from = addr_is_loopback(dst) ? NULL : addr_toward(dst);
	if (from == NULL || (!addr_is_any(&id->src) && id->src.ss_family != dst->ss_family)) {
		id->state = CM_BOUND;
		return -ENETUNREACH;
	}
	id->dst = *dst;
	addr_from_toward(id);
	id->device = true;
	id->state = CM_ADDR;
	cm_event_put(cm_event_new(id, CM_EV_ADDR_RESOLVED, 0));
	return 0;
}

int
cm_do_resolve_ip(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_resolve_ip *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);
	struct sockaddr_storage src, dst;

	(void)out;
	if (c->src_addr.sin6_family == 0)
		memset(&src, 0, sizeof(src));
	else if (addr_get(&src, &c->src_addr, sizeof(c->src_addr)) < 0)
		return -EINVAL;
	if (addr_get(&dst, &c->dst_addr, sizeof(c->dst_addr)) < 0)
		return -EINVAL;
	return id == NULL ? -ENOENT : addr_resolve_to(id, &src, &dst);
}

int
cm_do_resolve_addr(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_resolve_addr *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);
	struct sockaddr_storage src = {0}, dst;

	(void)out;
	if (c->reserved != 0 ||
	    (c->src_size != 0 && addr_get(&src, &c->src_addr, c->src_size) < 0) ||
	    addr_get(&dst, &c->dst_addr, c->dst_size) < 0)
		return -EINVAL;
	return id == NULL ? -ENOENT : addr_resolve_to(id, &src, &dst);
}

int
cm_do_resolve_route(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_resolve_route *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);

	(void)out;
	if (id == NULL)
		return -ENOENT;
	if (id->state != CM_ADDR)
		return -EINVAL;
	id->state = CM_ROUTE;
	cm_event_put(cm_event_new(id, CM_EV_ROUTE_RESOLVED, 0));
	return 0;
}

/* ---- Queries ---- */

int
cm_do_query_route(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_query *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);
	struct rdma_ucm_query_route_resp r = {.ibdev_index = UINT32_MAX};

	if (out < offsetof(struct rdma_ucm_query_route_resp, ibdev_index))
		return -ENOSPC;
	if (id == NULL)
		return -ENOENT;
	memcpy(&r.src_addr, &id->src, sizeof(r.src_addr));
	memcpy(&r.dst_addr, &id->dst, sizeof(r.dst_addr));
	if (id->device) {
		r.node_guid = wv_device_guid(cm_addr_device(&id->src));
		r.port_num = WV_PORT;
		r.ib_route[0].pkey = htobe16(0xffff);
	}
	memcpy((void *)(uintptr_t)c->response, &r, out < sizeof(r) ? out : sizeof(r));
	return 0;
}

static int
addr_query(const struct wv_cm_id *id, void *to, size_t out)
{
	struct rdma_ucm_query_addr_resp r = {.pkey = htobe16(0xffff), .ibdev_index = UINT32_MAX};

	if (out < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
		return -ENOSPC;
	memcpy(&r.src_addr, &id->src, sizeof(id->src));
	memcpy(&r.dst_addr, &id->dst, sizeof(id->dst));
	r.src_size = id->src.ss_family != 0 ? (uint16_t)addr_len(&id->src) : 0;
	r.dst_size = id->dst.ss_family != 0 ? (uint16_t)addr_len(&id->dst) : 0;
	if (id->device) {
		r.node_guid = wv_device_guid(cm_addr_device(&id->src));
		r.port_num = WV_PORT;
	}
	memcpy(to, &r, out < sizeof(r) ? out : sizeof(r));
	return 0;
}

int
cm_do_query(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_query *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);
	void *to = (void *)(uintptr_t)c->response;

	if (id == NULL)
		return -ENOENT;
	switch (c->option) {
	case RDMA_USER_CM_QUERY_ADDR:
		return addr_query(id, to, out);
	case RDMA_USER_CM_QUERY_PATH: {
		const struct rdma_ucm_query_path_resp none = {0};

		if (out < sizeof(none))
			return -ENOSPC;
		memcpy(to, &none, sizeof(none));
		return 0;
	}
	case RDMA_USER_CM_QUERY_GID:
		return -EOPNOTSUPP; /* asked only where AF_IB is known */
	default:
		return -ENOSYS;
	}
}
