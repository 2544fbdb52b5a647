/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Reservations as a state that commands change: see nvmf_resv_state.h.
 */

#include <errno.h>
#include <string.h>

#include "nvmf_resv_state.h"
#include "weft_nvmf_wire.h"

#define RESV_MAGIC   0x7665737274666577ULL /**< "weftresv" */
#define RESV_VERSION 1U
#define NEVER(sc)    ((uint16_t)((sc) | WEFT_NVMF_DNR))

/* a saved state */
#define AT_MAGIC      0
#define AT_VERSION    8
#define AT_UUID       12
#define AT_GENERATION 28
#define AT_HOSTS      32
#define AT_HOLDER     36
#define AT_TYPE       40
#define AT_PERSIST    41
#define HOST_BYTES    24U
#define CRC_BYTES     4U

static bool
resv_all_hold(const struct nvmf_resv_state *r)
{
	return r->type == NVMF_RESV_WRITE_ALL || r->type == NVMF_RESV_ACCESS_ALL;
}

uint32_t
nvmf_resv_find(const struct nvmf_resv_state *r, const uint8_t *hostid)
{
	for (uint32_t i = 0; i < r->hosts; i++)
		if (memcmp(r->host[i].hostid, hostid, sizeof(r->host[i].hostid)) == 0)
			return i;
	return NVMF_RESV_HOSTS;
}

bool
nvmf_resv_holds(const struct nvmf_resv_state *r, uint32_t i)
{
	return r->type != NVMF_RESV_NONE && (resv_all_hold(r) || r->holder == i);
}

static void
resv_tell(struct nvmf_resv_told *told, const uint8_t *hostid, enum nvmf_resv_notice notice)
{
	memcpy(told->at[told->n].hostid, hostid, sizeof(told->at[0].hostid));
	told->at[told->n++].notice = (uint8_t)notice;
}

/** All registrants but this host. */
static void
resv_tell_others(const struct nvmf_resv_state *r, const uint8_t *hostid,
                 enum nvmf_resv_notice notice, struct nvmf_resv_told *told)
{
	for (uint32_t i = 0; i < r->hosts; i++)
		if (memcmp(r->host[i].hostid, hostid, sizeof(r->host[i].hostid)) != 0)
			resv_tell(told, r->host[i].hostid, notice);
}

/** Take a registration away. The reservation ends with its only holder. */
static void
resv_remove(struct nvmf_resv_state *r, uint32_t i)
{
	if (nvmf_resv_holds(r, i) && (!resv_all_hold(r) || r->hosts == 1))
		r->type = NVMF_RESV_NONE;
	memmove(&r->host[i], &r->host[i + 1], (--r->hosts - i) * sizeof(r->host[0]));
	if (r->holder > i)
		r->holder--;
	if (r->type == NVMF_RESV_NONE)
		r->holder = 0;
}

/** The registrant of the command, if its key is right. NVMF_RESV_HOSTS: a conflict. */
static uint32_t
resv_registrant(const struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd)
{
	const uint32_t i = nvmf_resv_find(r, cmd->hostid);

	return i < NVMF_RESV_HOSTS && (cmd->ignore_key || r->host[i].key == cmd->key)
	               ? i
	               : NVMF_RESV_HOSTS;
}

/* ---- Register (s8.19.3, s8.19.4) ---- */

static uint16_t
resv_add(struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd)
{
	if (r->hosts == NVMF_RESV_HOSTS)
		return NEVER(WEFT_NVMF_INTERNAL);
	memcpy(r->host[r->hosts].hostid, cmd->hostid, sizeof(r->host[0].hostid));
	r->host[r->hosts++].key = cmd->other;
	return WEFT_NVMF_OK;
}

/** The end of a registration. Where others had access by it, they are told of its end. */
static void
resv_unregister(struct nvmf_resv_state *r, uint32_t i, const uint8_t *hostid,
                struct nvmf_resv_told *told)
{
	const uint8_t was = r->type;

	resv_remove(r, i);
	if (r->type == NVMF_RESV_NONE &&
	    (was == NVMF_RESV_WRITE_REG || was == NVMF_RESV_ACCESS_REG))
		resv_tell_others(r, hostid, NVMF_NOTICE_RELEASED, told);
}

uint16_t
nvmf_resv_register(struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd,
                   struct nvmf_resv_told *told)
{
	const uint32_t i = nvmf_resv_find(r, cmd->hostid);
	uint16_t status = WEFT_NVMF_OK;

	told->n = 0;
	if (cmd->action > NVMF_RREGA_REPLACE ||
	    (cmd->action != NVMF_RREGA_UNREGISTER && cmd->other == 0))
		return NEVER(WEFT_NVMF_INVALID_FIELD);
	if (cmd->action == NVMF_RREGA_REGISTER) {
		if (i == NVMF_RESV_HOSTS)
			status = resv_add(r, cmd);
		else if (r->host[i].key != cmd->other)
			return NEVER(WEFT_NVMF_CONFLICT);
	} else if (cmd->action == NVMF_RREGA_REPLACE && i == NVMF_RESV_HOSTS && cmd->ignore_key) {
		/* as with SCSI: Register and Ignore Existing Key */
		status = resv_add(r, cmd);
	} else if (resv_registrant(r, cmd) == NVMF_RESV_HOSTS) {
		return NEVER(WEFT_NVMF_CONFLICT);
	} else if (cmd->action == NVMF_RREGA_REPLACE) {
		r->host[i].key = cmd->other;
	} else {
		resv_unregister(r, i, cmd->hostid, told);
	}
	r->generation++;
	return status;
}

/* ---- Acquire (s8.19.5 to s8.19.7) ---- */

static void
resv_hold(struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd)
{
	r->type = cmd->type;
	r->holder = resv_all_hold(r) ? 0 : nvmf_resv_find(r, cmd->hostid);
}

/** Take away all registrations of a key, or (any) of all hosts; that of the command's host stays if
 * `keep`. Returns how many. */
static uint32_t
resv_remove_key(struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd, bool any, bool keep,
                struct nvmf_resv_told *told)
{
	uint32_t n = 0, i = 0;

	while (i < r->hosts) {
		const bool self =
		        memcmp(r->host[i].hostid, cmd->hostid, sizeof(r->host[i].hostid)) == 0;

		if ((!any && r->host[i].key != cmd->other) || (self && keep)) {
			i++;
			continue;
		}
		if (!self)
			resv_tell(told, r->host[i].hostid, NVMF_NOTICE_UNREGISTERED);
		resv_remove(r, i);
		n++;
	}
	return n;
}

/** The reservation is the command's host's from now on. */
static void
resv_take(struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd, bool any,
          struct nvmf_resv_told *told)
{
	const uint8_t was = r->type;

	(void)resv_remove_key(r, cmd, any, true, told);
	resv_hold(r, cmd);
	if (was != cmd->type)
		resv_tell_others(r, cmd->hostid, NVMF_NOTICE_RELEASED, told);
}

static uint16_t
resv_preempt(struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd,
             struct nvmf_resv_told *told)
{
	uint32_t n;

	if (cmd->other == 0 && !resv_all_hold(r))
		return NEVER(WEFT_NVMF_INVALID_FIELD);
	if (cmd->other == 0) {
		resv_take(r, cmd, true, told);
	} else if (r->type != NVMF_RESV_NONE && !resv_all_hold(r) &&
	           r->host[r->holder].key == cmd->other) {
		/* the holder may preempt itself, which changes the type in one step */
		resv_take(r, cmd, false, told);
	} else {
		n = resv_remove_key(r, cmd, false, false, told);
		if (n == 0)
			return NEVER(WEFT_NVMF_CONFLICT);
	}
	r->generation++;
	return WEFT_NVMF_OK;
}

uint16_t
nvmf_resv_acquire(struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd,
                  struct nvmf_resv_told *told)
{
	uint32_t i;

	told->n = 0;
	/* IEKEY is of Register alone since version 1.3 (RESCAP bit 7) */
	if (cmd->action > NVMF_RACQA_PREEMPT_ABORT || cmd->ignore_key ||
	    cmd->type == NVMF_RESV_NONE || cmd->type >= NVMF_RESV_TYPES)
		return NEVER(WEFT_NVMF_INVALID_FIELD);
	i = resv_registrant(r, cmd);
	if (i == NVMF_RESV_HOSTS)
		return NEVER(WEFT_NVMF_CONFLICT);
	if (cmd->action != NVMF_RACQA_ACQUIRE)
		return resv_preempt(r, cmd, told);
	if (r->type == NVMF_RESV_NONE)
		resv_hold(r, cmd);
	else if (!nvmf_resv_holds(r, i) || r->type != cmd->type)
		return NEVER(WEFT_NVMF_CONFLICT);
	return WEFT_NVMF_OK;
}

/* ---- Release (s8.19.8, s8.19.9) ---- */

uint16_t
nvmf_resv_release(struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd,
                  struct nvmf_resv_told *told)
{
	const uint8_t was = r->type;
	uint32_t i;

	told->n = 0;
	if (cmd->action > NVMF_RRELA_CLEAR || cmd->ignore_key)
		return NEVER(WEFT_NVMF_INVALID_FIELD);
	i = resv_registrant(r, cmd);
	if (i == NVMF_RESV_HOSTS)
		return NEVER(WEFT_NVMF_CONFLICT);
	if (cmd->action == NVMF_RRELA_CLEAR) {
		resv_tell_others(r, cmd->hostid, NVMF_NOTICE_PREEMPTED, told);
		r->hosts = r->holder = 0;
		r->type = NVMF_RESV_NONE;
		r->generation++;
		return WEFT_NVMF_OK;
	}
	/* what is not its own does not change, and that is no error */
	if (!nvmf_resv_holds(r, i))
		return WEFT_NVMF_OK;
	if (cmd->type != was)
		return NEVER(WEFT_NVMF_INVALID_FIELD);
	r->type = NVMF_RESV_NONE;
	r->holder = 0;
	if (was != NVMF_RESV_WRITE && was != NVMF_RESV_ACCESS)
		resv_tell_others(r, cmd->hostid, NVMF_NOTICE_RELEASED, told);
	return WEFT_NVMF_OK;
}

/* ---- Who may what ---- */

enum nvmf_resv_may
nvmf_resv_may(const struct nvmf_resv_state *r, const uint8_t *hostid)
{
	const uint32_t i = hostid == NULL ? NVMF_RESV_HOSTS : nvmf_resv_find(r, hostid);

	switch (r->type) {
	case NVMF_RESV_NONE:
		return NVMF_MAY_ALL;
	case NVMF_RESV_WRITE:
		return r->holder == i ? NVMF_MAY_ALL : NVMF_MAY_READ;
	case NVMF_RESV_ACCESS:
		return r->holder == i ? NVMF_MAY_ALL : NVMF_MAY_NOTHING;
	case NVMF_RESV_WRITE_REG:
	case NVMF_RESV_WRITE_ALL:
		return i < NVMF_RESV_HOSTS ? NVMF_MAY_ALL : NVMF_MAY_READ;
	default:
		return i < NVMF_RESV_HOSTS ? NVMF_MAY_ALL : NVMF_MAY_NOTHING;
	}
}

/* ---- A saved state ---- */

size_t
nvmf_resv_save(const struct nvmf_resv_state *r, const uint8_t uuid[16],
               uint8_t out[NVMF_RESV_SAVED_BYTES])
{
	size_t at = NVMF_RESV_HEAD_BYTES;

	memset(out, 0, NVMF_RESV_SAVED_BYTES);
	weft_nvmf_put64(out + AT_MAGIC, RESV_MAGIC);
	weft_nvmf_put32(out + AT_VERSION, RESV_VERSION);
	memcpy(out + AT_UUID, uuid, 16);
	weft_nvmf_put32(out + AT_GENERATION, r->generation);
	weft_nvmf_put32(out + AT_HOSTS, r->hosts);
	weft_nvmf_put32(out + AT_HOLDER, r->holder);
	out[AT_TYPE] = r->type;
	out[AT_PERSIST] = r->persist;
	for (uint32_t i = 0; i < r->hosts; i++, at += HOST_BYTES) {
		memcpy(out + at, r->host[i].hostid, 16);
		weft_nvmf_put64(out + at + 16, r->host[i].key);
	}
	weft_nvmf_put32(out + at, weft_nvmf_crc32(out, at));
	return at + CRC_BYTES;
}

int
nvmf_resv_load(const uint8_t *in, size_t bytes, const uint8_t uuid[16], struct nvmf_resv_state *out)
{
	struct nvmf_resv_state r = {0};
	size_t at = NVMF_RESV_HEAD_BYTES;

	if (bytes < NVMF_RESV_HEAD_BYTES + CRC_BYTES ||
	    weft_nvmf_get64(in + AT_MAGIC) != RESV_MAGIC ||
	    weft_nvmf_get32(in + AT_VERSION) != RESV_VERSION || memcmp(in + AT_UUID, uuid, 16) != 0)
		return -EBADMSG;
	r.generation = weft_nvmf_get32(in + AT_GENERATION);
	r.hosts = weft_nvmf_get32(in + AT_HOSTS);
	r.holder = weft_nvmf_get32(in + AT_HOLDER);
	r.type = in[AT_TYPE];
	r.persist = in[AT_PERSIST] != 0;
	if (r.hosts > NVMF_RESV_HOSTS || r.type >= NVMF_RESV_TYPES || in[AT_PERSIST] > 1 ||
	    bytes != at + (size_t)HOST_BYTES * r.hosts + CRC_BYTES ||
	    (r.type == NVMF_RESV_NONE ? r.holder != 0 : r.holder >= r.hosts))
		return -EBADMSG;
	for (uint32_t i = 0; i < r.hosts; i++, at += HOST_BYTES) {
		if (nvmf_resv_find(&r, in + at) < i)
			return -EBADMSG;
		memcpy(r.host[i].hostid, in + at, 16);
		r.host[i].key = weft_nvmf_get64(in + at + 16);
	}
	if (weft_nvmf_get32(in + at) != weft_nvmf_crc32(in, at))
		return -EBADMSG;
	*out = r;
	return 0;
}
