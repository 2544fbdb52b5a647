/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Ids of connection management: their life, their options, their move to another channel. */

#include "ucm_priv.h"

#include "device.h"
#include "qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
cm_do_create(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_create_id *c = cmd;
	struct rdma_ucm_create_id_resp *r = (void *)(uintptr_t)c->response;
	struct wv_cm_id *id;

	if (out < sizeof(*r))
		return -ENOSPC;
	if (c->ps != RDMA_PS_TCP && c->ps != RDMA_PS_UDP && c->ps != RDMA_PS_IB &&
	    c->ps != RDMA_PS_IPOIB)
		return -EINVAL;
	id = cm_id_new(chan, c->ps);
	if (id == NULL)
		return -ENOMEM;
	id->uid = c->uid;
	/* As the kernel's ucma_get_qp_type(). */
	id->datagrams = c->ps == RDMA_PS_UDP || c->ps == RDMA_PS_IPOIB ||
	                (c->ps == RDMA_PS_IB && c->qp_type != IBV_QPT_RC);
	r->id = id->id;
	return 0;
}

int
cm_do_destroy(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_destroy_id *c = cmd;
	struct rdma_ucm_destroy_id_resp *r = (void *)(uintptr_t)c->response;
	struct wv_cm_id *id = cm_id_find(chan, c->id);

	if (out < sizeof(*r))
		return -ENOSPC;
	if (id == NULL)
		return -ENOENT;
	r->events_reported = id->reported;
	cm_id_destroy(id);
	return 0;
}

int
cm_do_migrate(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_migrate_id *c = cmd;
	struct rdma_ucm_migrate_resp *r = (void *)(uintptr_t)c->response;
	struct cm_chan *from = cm_chan_of((int)c->fd);
	struct wv_cm_id *id = from != NULL ? cm_id_find(from, c->id) : NULL;

	if (out < sizeof(*r))
		return -ENOSPC;
	if (id == NULL)
		return -ENOENT;
	if (from != chan)
		cm_id_move(id, chan);
	r->events_reported = id->reported;
	return 0;
}

int
cm_do_set_option(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_set_option *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);
	const void *value = (const void *)(uintptr_t)c->optval;
	int on;

	(void)out;
	if (id == NULL)
		return -ENOENT;
	if (value == NULL && c->optlen > 0)
		return -EFAULT;
	if (c->level != RDMA_OPTION_ID)
		return -ENOSYS; /* routes of InfiniBand */
	switch (c->optname) {
	case RDMA_OPTION_ID_TOS:
		if (c->optlen != sizeof(uint8_t))
			return -EINVAL;
		id->dscp = WEFT_DSCP((unsigned int)*(const uint8_t *)value >> 2);
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		if (c->optlen != sizeof(on))
			return -EINVAL;
		memcpy(&on, value, sizeof(on));
		if (c->optname == RDMA_OPTION_ID_REUSEADDR)
			id->reuse = on != 0;
		else if (id->state != CM_NEW && id->state != CM_BOUND)
			return -EINVAL; /* as the kernel's rdma_set_afonly() */
		else
			id->af_only = on != 0;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		/* Of RoCE and InfiniBand; TCP measures its own. As the kernel's
		 * rdma_set_ack_timeout(), which takes any value for any device. */
		return c->optlen != sizeof(uint8_t) || id->datagrams ? -EINVAL : 0;
	default:
		return -ENOSYS;
	}
}

int
cm_do_notify(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_notify *c = cmd;
	const struct wv_cm_id *id = cm_id_find(chan, c->id);

	(void)out;
	if (id == NULL)
		return -ENOENT;
	/* As the kernel's rdma_notify(): COMM_EST tells a device of InfiniBand that a message came
	 * before its CM's. Others ignore each event, if the id listens, connects or is asked to. */
	return id->device && id->state >= CM_LISTEN ? 0 : -EINVAL;
}

int
cm_do_init_qp_attr(struct cm_chan *chan, const void *cmd, size_t out)
{
	const struct rdma_ucm_init_qp_attr *c = cmd;
	struct wv_cm_id *id = cm_id_find(chan, c->id);
	struct ib_uverbs_qp_attr *r = (void *)(uintptr_t)c->response;

	if (out < sizeof(*r))
		return -ENOSPC;
	if (id == NULL)
		return -ENOENT;
	if (c->qp_state > IBV_QPS_ERR)
		return -EINVAL;
	memset(r, 0, sizeof(*r));
	r->qp_state = c->qp_state;
	r->port_num = WV_PORT;
	/* As the kernel's iw_cm_init_qp_attr(): a QP gets to RTS by its connection. */
	r->qp_attr_mask = IBV_QP_PORT;
	if (c->qp_state == IBV_QPS_INIT || c->qp_state == IBV_QPS_RTR) {
		r->qp_attr_mask |= IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
		r->qp_access_flags =
		        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	}
	return 0;
}
