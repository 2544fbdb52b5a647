/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The device of connection management: its descriptors, and which command is whose. */

#include "ucm_priv.h"

#include "check.h"
#include "engine.h"
#include "portd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
wv_ucm_open(void)
{
	struct cm_chan *c;
	int rc;

	if (!wv_check_versions()) {
		errno = ENOSYS;
		return -1;
	}
	c = calloc(1, sizeof(*c));
	rc = c == NULL ? -ENOMEM : wv_fdq_init(&c->q);
	if (rc == 0)
		TAILQ_INIT(&c->ids);
	if (rc == 0 && !cm_chan_set(c->q.fd, c)) {
		wv_fdq_fini(&c->q);
		rc = -EMFILE;
	}
	if (rc < 0) {
		free(c);
		errno = -rc;
		return -1;
	}
	return c->q.fd;
}

/** Both locks, in their order. Returns whether there is an engine. */
static bool
ucm_lock(void)
{
	const bool up = wv_engine_is_up();

	if (up)
		wv_lock();
	pthread_mutex_lock(&cm_lock);
	return up;
}

static void
ucm_unlock(bool up)
{
	pthread_mutex_unlock(&cm_lock);
	if (up)
		wv_unlock();
}

static void
chan_free(struct cm_chan *c)
{
	wv_fdq_fini(&c->q);
	free(c);
}

int
wv_ucm_close(int fd)
{
	const bool up = ucm_lock();
	struct cm_chan *c = cm_chan_of(fd);
	struct wv_cm_id *id;
	bool unused;

	if (c == NULL) {
		ucm_unlock(up);
		errno = EBADF;
		return -1;
	}
	while ((id = TAILQ_FIRST(&c->ids)) != NULL)
		cm_id_destroy(id);
	(void)cm_chan_set(fd, NULL);
	/* Now: the number may be another file's when the last thread leaves. */
	wv_fdq_close(&c->q);
	c->closed = true;
	unused = c->waiting == 0;
	ucm_unlock(up);
	/* Else the last thread that uses it does so. One that waits there does so for ever, as in
	 * the kernel. */
	if (unused)
		chan_free(c);
	return 0;
}

/** The channel of a command that takes the lock itself; it stays until ucm_leave(). NULL: none. */
static struct cm_chan *
ucm_enter(int fd)
{
	struct cm_chan *c;

	pthread_mutex_lock(&cm_lock);
	c = cm_chan_of(fd);
	if (c != NULL)
		c->waiting++;
	pthread_mutex_unlock(&cm_lock);
	return c;
}

static void
ucm_leave(void *chan)
{
	struct cm_chan *c = chan;
	bool last;

	pthread_mutex_lock(&cm_lock);
	last = --c->waiting == 0 && c->closed;
	pthread_mutex_unlock(&cm_lock);
	if (last)
		chan_free(c);
}

/* ---- Commands ---- */

/** cm_do_*() of ucm_priv.h. */
typedef int ucm_fn(struct cm_chan *chan, const void *cmd, size_t out);

static int
ucm_no_multicast(struct cm_chan *chan, const void *cmd, size_t out)
{
	(void)chan;
	(void)cmd;
	(void)out;
	return -EOPNOTSUPP;
}

static const struct {
	ucm_fn *fn;
	size_t least; /**< octets that every version of the structure has */
	bool own_lock, engine;
} ucm_commands[] = {
        [RDMA_USER_CM_CMD_CREATE_ID] = {cm_do_create, sizeof(struct rdma_ucm_create_id), 0, 0},
        [RDMA_USER_CM_CMD_DESTROY_ID] = {cm_do_destroy, sizeof(struct rdma_ucm_destroy_id), 0, 0},
        [RDMA_USER_CM_CMD_BIND_IP] = {cm_do_bind_ip, sizeof(struct rdma_ucm_bind_ip), 0, 0},
        [RDMA_USER_CM_CMD_RESOLVE_IP] = {cm_do_resolve_ip, sizeof(struct rdma_ucm_resolve_ip), 0,
                                         0},
        [RDMA_USER_CM_CMD_RESOLVE_ROUTE] = {cm_do_resolve_route,
                                            sizeof(struct rdma_ucm_resolve_route), 0, 0},
        [RDMA_USER_CM_CMD_QUERY_ROUTE] = {cm_do_query_route, sizeof(struct rdma_ucm_query), 0, 0},
        [RDMA_USER_CM_CMD_CONNECT] = {cm_do_connect, offsetof(struct rdma_ucm_connect, ece), 0, 1},
        [RDMA_USER_CM_CMD_LISTEN] = {cm_do_listen, sizeof(struct rdma_ucm_listen), 0, 1},
        [RDMA_USER_CM_CMD_ACCEPT] = {cm_do_accept, offsetof(struct rdma_ucm_accept, ece), 0, 1},
        [RDMA_USER_CM_CMD_REJECT] = {cm_do_reject, sizeof(struct rdma_ucm_reject), 0, 1},
        [RDMA_USER_CM_CMD_DISCONNECT] = {cm_do_disconnect, sizeof(struct rdma_ucm_disconnect), 0,
                                         1},
        [RDMA_USER_CM_CMD_INIT_QP_ATTR] = {cm_do_init_qp_attr, sizeof(struct rdma_ucm_init_qp_attr),
                                           0, 0},
        [RDMA_USER_CM_CMD_GET_EVENT] = {cm_do_get_event, sizeof(struct rdma_ucm_get_event), 1, 0},
        [RDMA_USER_CM_CMD_SET_OPTION] = {cm_do_set_option, sizeof(struct rdma_ucm_set_option), 0,
                                         0},
        [RDMA_USER_CM_CMD_NOTIFY] = {cm_do_notify, sizeof(struct rdma_ucm_notify), 0, 0},
        [RDMA_USER_CM_CMD_JOIN_IP_MCAST] = {ucm_no_multicast, 0, 0, 0},
        [RDMA_USER_CM_CMD_LEAVE_MCAST] = {ucm_no_multicast, 0, 0, 0},
        [RDMA_USER_CM_CMD_MIGRATE_ID] = {cm_do_migrate, sizeof(struct rdma_ucm_migrate_id), 0, 0},
        [RDMA_USER_CM_CMD_QUERY] = {cm_do_query, sizeof(struct rdma_ucm_query), 0, 0},
        [RDMA_USER_CM_CMD_BIND] = {cm_do_bind, sizeof(struct rdma_ucm_bind), 0, 0},
        [RDMA_USER_CM_CMD_RESOLVE_ADDR] = {cm_do_resolve_addr, sizeof(struct rdma_ucm_resolve_addr),
                                           0, 0},
        [RDMA_USER_CM_CMD_JOIN_MCAST] = {ucm_no_multicast, 0, 0, 0},
};

/** The largest structure of a command, and its alignment. */
union ucm_any {
	struct rdma_ucm_accept accept;
	struct rdma_ucm_bind bind;
	struct rdma_ucm_bind_ip bind_ip;
	struct rdma_ucm_resolve_addr resolve;
	struct rdma_ucm_connect connect;
	uint64_t octets[128];
};

/** The thread may be cancelled where fn waits. */
static int
ucm_run_waiting(ucm_fn *fn, struct cm_chan *const c, const void *cmd, size_t out)
{
	int rc;

	if (c == NULL)
		return -EBADF;
	pthread_cleanup_push(ucm_leave, c);
	rc = fn(c, cmd, out);
	pthread_cleanup_pop(1);
	return rc;
}

/** Another thread may close the descriptor: the channel is looked up under the lock. */
static int
ucm_run(int fd, uint32_t number, const void *cmd, size_t out)
{
	ucm_fn *const fn = ucm_commands[number].fn;
	struct cm_chan *c;
	bool up;
	int rc;

	if (ucm_commands[number].own_lock)
		return ucm_run_waiting(fn, ucm_enter(fd), cmd, out);
	wv_portd_begin();
	do {
		up = ucm_lock();
		c = cm_chan_of(fd);
		rc = c != NULL ? fn(c, cmd, out) : -EBADF;
		ucm_unlock(up);
	} while (rc == -EAGAIN && wv_portd_ask());
	wv_portd_end();
	return rc;
}

static bool
ucm_is_ip(sa_family_t family)
{
	return family == AF_INET || family == AF_INET6;
}

/**
 * Whether the command binds to an address. librdmacm tries one of AF_IB in each program, to find
 * out whether there are any.
 */
static bool
ucm_binds(uint32_t number, const union ucm_any *cmd)
{
	return (number == RDMA_USER_CM_CMD_BIND && ucm_is_ip(cmd->bind.addr.ss_family)) ||
	       (number == RDMA_USER_CM_CMD_BIND_IP && ucm_is_ip(cmd->bind_ip.addr.sin6_family));
}

/**
 * Open the device, if the command is to find it open. 0 or -errno.
 *
 * A program may tell a peer its port between rdma_bind_addr() and rdma_listen() (qperf does). If
 * the latter opened the device, which takes a while, the peer's SYN could come in that time, and
 * the stack would refuse it as soon as it runs, before there is a listener. That the device cannot
 * be opened is told by the commands that need it.
 */
static int
ucm_engine(uint32_t number, const union ucm_any *cmd)
{
	if (ucm_commands[number].engine)
		return wv_engine_up();
	if (ucm_binds(number, cmd))
		(void)wv_engine_up();
	return 0;
}

ssize_t
wv_ucm_write(int fd, const void *buf, size_t n)
{
	struct rdma_ucm_cmd_hdr hdr;
	union ucm_any cmd = {0};
	size_t len;
	int rc;

	if (n < sizeof(hdr)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(&hdr, buf, sizeof(hdr));
	len = n - sizeof(hdr);
	if (hdr.cmd >= sizeof(ucm_commands) / sizeof(ucm_commands[0]) || hdr.in > len ||
	    ucm_commands[hdr.cmd].fn == NULL || hdr.in < ucm_commands[hdr.cmd].least) {
		errno = hdr.cmd >= sizeof(ucm_commands) / sizeof(ucm_commands[0]) ||
		                        ucm_commands[hdr.cmd].fn == NULL
		                ? ENOSYS
		                : EINVAL;
		return -1;
	}
	len = hdr.in < sizeof(cmd) ? hdr.in : sizeof(cmd);
	memcpy(&cmd, (const char *)buf + sizeof(hdr), len);
	rc = ucm_engine(hdr.cmd, &cmd);
	if (rc == 0)
		rc = ucm_run(fd, hdr.cmd, &cmd, hdr.out);
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	return (ssize_t)n;
}
