/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The device of connection management: its descriptors, and which command is whose. */

#include "ucm_priv.h"

#include "check.h"
#include "engine.h"

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

int
wv_ucm_close(int fd)
{
	struct cm_chan *c = cm_chan_of(fd);
	struct wv_cm_id *id;
	bool up, waiting;

	if (c == NULL) {
		errno = EBADF;
		return -1;
	}
	up = ucm_lock();
	while ((id = TAILQ_FIRST(&c->ids)) != NULL)
		cm_id_destroy(id);
	(void)cm_chan_set(fd, NULL);
	waiting = c->waiting > 0;
	ucm_unlock(up);
	/* As in the kernel: a thread that waits there does so for ever. */
	if (waiting)
		return 0;
	wv_fdq_fini(&c->q);
	free(c);
	return 0;
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
	struct rdma_ucm_resolve_addr resolve;
	struct rdma_ucm_connect connect;
	uint64_t octets[128];
};

ssize_t
wv_ucm_write(int fd, const void *buf, size_t n)
{
	struct cm_chan *c = cm_chan_of(fd);
	struct rdma_ucm_cmd_hdr hdr;
	union ucm_any cmd = {0};
	size_t len;
	bool up;
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
	if (ucm_commands[hdr.cmd].engine && (rc = wv_engine_up()) < 0) {
		errno = -rc;
		return -1;
	}
	if (ucm_commands[hdr.cmd].own_lock) {
		rc = ucm_commands[hdr.cmd].fn(c, &cmd, hdr.out);
	} else {
		up = ucm_lock();
		rc = ucm_commands[hdr.cmd].fn(c, &cmd, hdr.out);
		ucm_unlock(up);
	}
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	return (ssize_t)n;
}
