/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Fabrics commands (NVMe over Fabrics 1.1 s3): Connect, Property Get, Property Set.
 */

#include "nvmf_auth.h"

/* offsets of Connect's fields, as a refusal names them; IN_DATA: of its data */
#define AT_QID     0x2aU
#define AT_SQSIZE  0x2cU
#define IN_DATA    0x10000U
#define AT_HOSTID  (IN_DATA | 0x00)
#define AT_CNTLID  (IN_DATA | 0x10)
#define AT_SUBNQN  (IN_DATA | 0x100)
#define AT_HOSTNQN (IN_DATA | 0x200)

#define CATTR_NO_FLOW  0x4U
#define CONNECT_ATR    (1U << 17) /**< of the answer: authentication is required */
#define CNTLID_DYNAMIC 0xffffU
#define CAP_CQR        (1ULL << 16)
#define CAP_TO_500MS   30ULL
#define CAP_CSS_NVM    (1ULL << 37)
#define PROPERTY_8     1U /**< ATTRIB: eight octets */

/* ---- Connect ---- */

static uint16_t
connect_refuse(struct nvmf_slot *s, uint32_t field)
{
	s->result = field;
	return NVMF_NEVER(WEFT_NVMF_CONNECT_PARAM);
}

static uint16_t
fabrics_connect_start(struct nvmf_slot *s)
{
	const struct weft_nvmf_queue *q = s->queue;
	const uint32_t qid = s->sqe.cdw[10] >> 16, sqsize = s->sqe.cdw[11] & 0xffff;

	s->in = true;
	s->need_bytes = WEFT_NVMF_CONNECT_BYTES;
	if (q->ctrl != NULL)
		return NVMF_NEVER(WEFT_NVMF_SEQUENCE);
	if ((s->sqe.cdw[10] & 0xffff) != 0)
		return NVMF_NEVER(WEFT_NVMF_CONNECT_FORMAT);
	if (q->attr.qid >= 0 && qid != (uint32_t)q->attr.qid)
		return connect_refuse(s, AT_QID);
	if (sqsize == 0 || sqsize >= q->attr.depth ||
	    (qid > 0 && sqsize >= q->group->target->attr.depth))
		return connect_refuse(s, AT_SQSIZE);
	return WEFT_NVMF_OK;
}

/** A new controller. With the lock. Returns a status. *unproven: it is that of a host that has not
 * proved its name. */
static uint16_t
connect_admin(struct nvmf_slot *s, const struct weft_nvmf_connect *d, bool *unproven)
{
	struct weft_nvmf_queue *q = s->queue;
	struct weft_nvmf *t = q->group->target;
	struct weft_nvmf_subsys *sub = nvmf_subsys_find(t, d->subnqn);
	struct nvmf_auth *auth;
	struct nvmf_ctrl *c;

	if (d->cntlid != CNTLID_DYNAMIC)
		return connect_refuse(s, AT_CNTLID);
	if (sub == NULL)
		return connect_refuse(s, AT_SUBNQN);
	*unproven = nvmf_host_ok(sub, d->hostnqn) && sub->proven_only && q->proven == NULL;
	if (!nvmf_host_ok(sub, d->hostnqn) || *unproven)
		return NVMF_NEVER(WEFT_NVMF_CONNECT_HOST);
	if (nvmf_auth_begin(q, sub, d->hostnqn, &auth) != WEFT_NVMF_OK)
		return WEFT_NVMF_CONNECT_BUSY;
	c = nvmf_ctrl_new(q, sub, d);
	if (c == NULL) {
		nvmf_auth_free(auth);
		return WEFT_NVMF_CONNECT_BUSY;
	}
	q->auth = auth;
	nvmf_ctrl_join(c, q, 0);
	nvmf_ctrl_keep_alive(c, s->sqe.cdw[12]);
	return WEFT_NVMF_OK;
}

/** A queue of a controller that lives. With the lock. Returns a status. *unproven likewise. */
static uint16_t
connect_io(struct nvmf_slot *s, const struct weft_nvmf_connect *d, uint16_t qid, bool *unproven)
{
	struct weft_nvmf_queue *q = s->queue;
	struct weft_nvmf *t = q->group->target;
	struct nvmf_ctrl *c;
	uint32_t most;

	LIST_FOREACH (c, &t->ctrls, link)
		if (c->cntlid == d->cntlid)
			break;
	if (c == NULL)
		return connect_refuse(s, AT_CNTLID);
	if (strcmp(c->subsys->nqn, d->subnqn) != 0)
		return connect_refuse(s, AT_SUBNQN);
	if (strcmp(c->hostnqn, d->hostnqn) != 0)
		return connect_refuse(s, AT_HOSTNQN);
	if (memcmp(c->hostid, d->hostid, sizeof(d->hostid)) != 0)
		return connect_refuse(s, AT_HOSTID);
	most = atomic_load_explicit(&c->granted, memory_order_acquire);
	if (qid > (most == 0 ? t->attr.max_io_queues : most) || c->subsys->discovery)
		return connect_refuse(s, AT_QID);
	if (c->admin != NULL && nvmf_auth_lacks(c->admin))
		return NVMF_NEVER(WEFT_NVMF_AUTH_REQUIRED);
	/* A host that connects again may be faster than the end of its old queue: no DNR. */
	if (atomic_load_explicit(&c->state, memory_order_acquire) != NVMF_CTRL_READY ||
	    c->ioq[qid - 1] != NULL || c->admin == NULL)
		return WEFT_NVMF_SEQUENCE;
	/* a controller that has its admin queue by TLS has all its queues by TLS */
	*unproven = (c->admin->proven != NULL || c->subsys->proven_only) && q->proven == NULL;
	if (*unproven)
		return NVMF_NEVER(WEFT_NVMF_CONNECT_HOST);
	if (nvmf_auth_begin(q, c->subsys, d->hostnqn, &q->auth) != WEFT_NVMF_OK)
		return WEFT_NVMF_CONNECT_BUSY;
	nvmf_ctrl_join(c, q, qid);
	return WEFT_NVMF_OK;
}

static void
connect_count(struct weft_nvmf_stats *stats, uint16_t status)
{
	if (status == WEFT_NVMF_OK)
		stats->connects++;
	else if (status == NVMF_NEVER(WEFT_NVMF_CONNECT_HOST))
		stats->refused_host++;
	else if (status == WEFT_NVMF_CONNECT_BUSY)
		stats->refused_limit++;
	else
		stats->refused_param++;
}

static void
fabrics_connect(struct nvmf_slot *s)
{
	struct weft_nvmf_queue *q = s->queue;
	struct weft_nvmf *t = q->group->target;
	const uint16_t qid = (uint16_t)(s->sqe.cdw[10] >> 16);
	uint8_t data[WEFT_NVMF_CONNECT_BYTES];
	struct weft_nvmf_connect d;
	bool unproven = false;
	uint16_t status;
	uint32_t wrong;

	nvmf_get(s, 0, data, sizeof(data));
	wrong = weft_nvmf_connect_decode(data, &d);
	nvmf_lock(t);
	if (q->ctrl != NULL) /* two Connects were under way */
		status = NVMF_NEVER(WEFT_NVMF_SEQUENCE);
	else if (wrong != 0)
		status = connect_refuse(s, IN_DATA | wrong);
	else if (q->proven != NULL && strcmp(q->proven->hostnqn, d.hostnqn) != 0)
		status = connect_refuse(s, AT_HOSTNQN);
	else if (q->proven != NULL && strcmp(q->proven->subnqn, d.subnqn) != 0)
		status = connect_refuse(s, AT_SUBNQN);
	else if (qid == 0)
		status = connect_admin(s, &d, &unproven);
	else
		status = connect_io(s, &d, qid, &unproven);
	connect_count(&t->stats, status);
	if (status == WEFT_NVMF_OK) {
		q->size = (s->sqe.cdw[11] & 0xffff) + 1;
		q->no_flow = (s->sqe.cdw[11] >> 16 & CATTR_NO_FLOW) != 0;
		s->result = q->ctrl->cntlid | (q->auth != NULL ? CONNECT_ATR : 0);
	}
	nvmf_unlock(t);
	if (unproven && q->group->attr.unproven != NULL)
		q->group->attr.unproven(q->group, d.hostnqn, d.subnqn);
	nvmf_complete(s, status);
}

/* ---- Properties ---- */

static uint64_t
property_cap(const struct weft_nvmf *t)
{
	return (t->attr.depth - 1) | CAP_CQR | CAP_TO_500MS << 24 | CAP_CSS_NVM;
}

/** A property and its length in octets. False: there is no such property. */
static bool
property_read(struct nvmf_ctrl *c, uint32_t at, uint64_t *value, uint32_t *bytes)
{
	*bytes = 4;
	switch (at) {
	case WEFT_NVMF_PROP_CAP:
		*value = property_cap(c->target);
		*bytes = 8;
		return true;
	case WEFT_NVMF_PROP_CAP + 4:
		*value = property_cap(c->target) >> 32;
		return true;
	case WEFT_NVMF_PROP_VS:
		*value = NVMF_VERSION;
		return true;
	case WEFT_NVMF_PROP_CC:
		*value = c->cc;
		return true;
	case WEFT_NVMF_PROP_CSTS:
		*value = nvmf_ctrl_csts(c);
		return true;
	default:
		return false;
	}
}

static uint16_t
fabrics_property_start(struct nvmf_slot *s)
{
	if (s->queue->ctrl == NULL)
		return WEFT_NVMF_SEQUENCE;
	/* A shutdown flushes the volumes of the host whose name was told. */
	if (nvmf_auth_lacks(s->queue))
		return NVMF_NEVER(WEFT_NVMF_AUTH_REQUIRED);
	return s->queue->qid == 0 ? WEFT_NVMF_OK : NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
}

static void
fabrics_property_get(struct nvmf_slot *s)
{
	const uint32_t want = (s->sqe.cdw[10] & 7) == PROPERTY_8 ? 8 : 4;
	uint64_t value = 0;
	uint32_t bytes;

	if ((s->sqe.cdw[10] & 7) > PROPERTY_8 ||
	    !property_read(s->queue->ctrl, s->sqe.cdw[11], &value, &bytes) || want > bytes) {
		nvmf_complete(s, NVMF_NEVER(WEFT_NVMF_CONNECT_PARAM));
		return;
	}
	s->result = want == 8 ? value : (uint32_t)value;
	nvmf_complete(s, WEFT_NVMF_OK);
}

static void
fabrics_property_set(struct nvmf_slot *s)
{
	/* CC alone can be written, and has four octets */
	if ((s->sqe.cdw[10] & 7) != 0 || s->sqe.cdw[11] != WEFT_NVMF_PROP_CC)
		nvmf_complete(s, NVMF_NEVER(WEFT_NVMF_CONNECT_PARAM));
	else
		nvmf_complete(s, nvmf_ctrl_configure(s->queue->ctrl, s->sqe.cdw[12]));
}

static const struct nvmf_row fabrics_rows[] = {
        [WEFT_NVMF_FC_PROPERTY_SET] = {.name = "property set",
                                       .start = fabrics_property_start,
                                       .run = fabrics_property_set},
        [WEFT_NVMF_FC_CONNECT] = {.name = "connect",
                                  .start = fabrics_connect_start,
                                  .run = fabrics_connect},
        [WEFT_NVMF_FC_PROPERTY_GET] = {.name = "property get",
                                       .start = fabrics_property_start,
                                       .run = fabrics_property_get},
        [WEFT_NVMF_FC_AUTH_SEND] = {.name = "authentication send",
                                    .start = nvmf_auth_send_start,
                                    .run = nvmf_auth_send},
        [WEFT_NVMF_FC_AUTH_RECEIVE] = {.name = "authentication receive",
                                       .start = nvmf_auth_receive_start,
                                       .run = nvmf_auth_receive},
};

const struct nvmf_row *
nvmf_fabrics_row(uint8_t fctype)
{
	if (fctype >= sizeof(fabrics_rows) / sizeof(fabrics_rows[0]) ||
	    fabrics_rows[fctype].name == NULL)
		return NULL;
	return &fabrics_rows[fctype];
}
