/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Identify (NVMe Base 2.0 s5.17): controller, namespace, list of namespaces, descriptors.
 */

#include "nvmf_cmd.h"

/* fields of Identify Controller */
#define CTRL_SN        4
#define CTRL_MN        24
#define CTRL_FR        64
#define CTRL_RAB       72
#define CTRL_CMIC      76
#define CTRL_MDTS      77
#define CTRL_CNTLID    78
#define CTRL_VER       80
#define CTRL_RTD3E     88
#define CTRL_OAES      92
#define CTRL_CTRATT    96
#define CTRL_CNTRLTYPE 111
#define CTRL_CRDT1     128
#define CTRL_ACL       258
#define CTRL_AERL      259
#define CTRL_FRMW      260
#define CTRL_LPA       261
#define CTRL_ELPE      262
#define CTRL_WCTEMP    266
#define CTRL_CCTEMP    268
#define CTRL_KAS       320
#define CTRL_ANATT     342
#define CTRL_ANACAP    343
#define CTRL_ANAGRPMAX 344
#define CTRL_NANAGRPID 348
#define CTRL_SQES      512
#define CTRL_CQES      513
#define CTRL_MAXCMD    514
#define CTRL_NN        516
#define CTRL_ONCS      520
#define CTRL_FUSES     522
#define CTRL_VWC       525
#define CTRL_SGLS      536
#define CTRL_MNAN      540
#define CTRL_SUBNQN    768
#define CTRL_IOCCSZ    1792
#define CTRL_IORCSZ    1796
#define CTRL_MSDBD     1803
#define CTRL_MP        2048

#define CMIC_SHARED    0x03 /**< several ports, several controllers */
#define CMIC_ANA       0x08
#define OAES_NS        (1U << 8)
#define OAES_ANA       (1U << 11)
#define ANACAP         0x57 /**< optimized, not, inaccessible, change; ANAGRPID does not change */
#define ONCS_COMPARE   0x01
#define ONCS_DSM       0x04
#define ONCS_ZEROES    0x08
#define ONCS_RESV      0x20
#define ONCS_VERIFY    0x80
#define SGLS_BASIC     0x00000001U /**< SGLs, no alignment of data */
#define SGLS_KEYED     0x00000004U
#define SGLS_OFFSET    0x00100000U /**< data in the capsule, at an offset */
#define SGLS_TRANSPORT 0x00200000U /**< data wherever the transport has it */

/* fields of Identify Namespace */
#define NS_NSZE   0
#define NS_NCAP   8
#define NS_NUSE   16
#define NS_NSFEAT 24
#define NS_NMIC   30
#define NS_RESCAP 31
#define NS_DLFEAT 33
#define NS_NAWUN  34
#define NS_NAWUPF 36
#define NS_NACWU  38
#define NS_NABSN  40
#define NS_NABSPF 44
#define NS_NPWG   64
#define NS_NPWA   66
#define NS_NPDG   68
#define NS_NPDA   70
#define NS_NOWS   72
#define NS_ANAGRP 92
#define NS_NSATTR 99
#define NS_NGUID  104
#define NS_LBAF0  128

#define RESCAP_PERSIST     0x01
#define RESCAP_ALL         0xfe /**< all types; IEKEY is as since version 1.3 */
#define NSFEAT_OWN_ATOMICS 0x02
#define NSFEAT_OPTIMAL     0x10
#define DLFEAT_ZEROS       0x01
#define DLFEAT_DEALLOCATES 0x08 /**< Write Zeroes may deallocate (DEAC) */

#define NIDT_UUID 3
#define NIDT_CSI  4

uint16_t
nvmf_identify_start(struct nvmf_slot *s)
{
	const struct weft_nvmf_subsys *sub = s->queue->ctrl->subsys;
	const uint8_t cns = (uint8_t)s->sqe.cdw[10];
	const uint32_t nsid = s->sqe.nsid;

	s->need_bytes = WEFT_NVMF_PAGE_BYTES;
	if (cns == WEFT_NVMF_CNS_CTRL)
		return WEFT_NVMF_OK;
	if (sub->discovery)
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	switch (cns) {
	case WEFT_NVMF_CNS_NS:
		if (nsid == 0 || nsid > sub->max_nsid)
			return NVMF_NEVER(WEFT_NVMF_INVALID_NS);
		return WEFT_NVMF_OK;
	case WEFT_NVMF_CNS_ACTIVE:
		if (nsid >= WEFT_NVMF_NSID_ALL - 1)
			return NVMF_NEVER(WEFT_NVMF_INVALID_NS);
		return WEFT_NVMF_OK;
	case WEFT_NVMF_CNS_DESCRIPTORS:
		if (nsid == 0 || nsid > sub->max_nsid)
			return NVMF_NEVER(WEFT_NVMF_INVALID_NS);
		if (nvmf_ns_active(sub, nsid) == NULL)
			return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
		return WEFT_NVMF_OK;
	default:
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	}
}

static void
identify_text(uint8_t *to, const char *text, size_t room)
{
	memset(to, ' ', room);
	memcpy(to, text, strnlen(text, room));
}

static uint32_t
identify_log2(uint32_t v)
{
	uint32_t n = 0;

	while (v > 1) {
		v >>= 1;
		n++;
	}
	return n;
}

static void
identify_ctrl(const struct nvmf_slot *s, uint8_t *p)
{
	const struct nvmf_ctrl *c = s->queue->ctrl;
	const struct weft_nvmf_subsys *sub = c->subsys;
	const struct weft_nvmf_attr *a = &c->target->attr;
	const uint32_t kinds = s->queue->attr.ops->sgl_kinds;
	uint32_t sgls = SGLS_BASIC | SGLS_OFFSET;

	if ((kinds & 1U << WEFT_NVMF_SGL_KEYED) != 0)
		sgls |= SGLS_KEYED;
	if ((kinds & 1U << WEFT_NVMF_SGL_TRANSPORT) != 0)
		sgls |= SGLS_TRANSPORT;
	identify_text(p + CTRL_SN, sub->serial, 20);
	identify_text(p + CTRL_MN, sub->model, 40);
	identify_text(p + CTRL_FR, a->firmware, 8);
	p[CTRL_RAB] = 6;
	p[CTRL_MDTS] = (uint8_t)identify_log2(a->mdts_bytes / WEFT_NVMF_PAGE_BYTES);
	weft_nvmf_put16(p + CTRL_CNTLID, c->cntlid);
	weft_nvmf_put32(p + CTRL_VER, NVMF_VERSION);
	weft_nvmf_put32(p + CTRL_OAES, sub->discovery ? 1U << 31
	                               : sub->ana.on  ? OAES_NS | OAES_ANA
	                                              : OAES_NS);
	/* a 128-bit host identifier; any command restarts the Keep Alive timer */
	weft_nvmf_put32(p + CTRL_CTRATT, 0x41);
	p[CTRL_CNTRLTYPE] = sub->discovery ? 2 : 1;
	p[CTRL_AERL] = NVMF_AERS - 1;
	p[CTRL_ELPE] = NVMF_ERRORS - 1;
	weft_nvmf_put16(p + CTRL_KAS, NVMF_KAS_MS / 100);
	weft_nvmf_put16(p + CTRL_MAXCMD, (uint16_t)a->depth);
	weft_nvmf_put32(p + CTRL_SGLS, sgls);
	memcpy(p + CTRL_SUBNQN, sub->nqn, strlen(sub->nqn));
	/* parts of log pages by their offset */
	p[CTRL_LPA] = 0x04;
	if (sub->discovery)
		return;
	p[CTRL_CMIC] = CMIC_SHARED;
	if (sub->ana.on) {
		p[CTRL_CMIC] |= CMIC_ANA;
		p[CTRL_ANATT] = NVMF_ANATT_S;
		p[CTRL_ANACAP] = ANACAP;
		weft_nvmf_put32(p + CTRL_ANAGRPMAX, sub->max_nsid);
		weft_nvmf_put32(p + CTRL_NANAGRPID, sub->max_nsid);
	}
	weft_nvmf_put32(p + CTRL_RTD3E, 10000000); /* us */
	weft_nvmf_put16(p + CTRL_CRDT1, NVMF_RETRY_MS / 100);
	p[CTRL_ACL] = NVMF_ABORTS - 1;
	p[CTRL_FRMW] = 0x03; /* one slot, read-only */
	p[CTRL_LPA] = 0x06;
	weft_nvmf_put16(p + CTRL_WCTEMP, 0x157);
	weft_nvmf_put16(p + CTRL_CCTEMP, 0x175);
	p[CTRL_SQES] = 0x66;
	p[CTRL_CQES] = 0x44;
	weft_nvmf_put32(p + CTRL_NN, sub->max_nsid);
	weft_nvmf_put16(p + CTRL_ONCS,
	                ONCS_COMPARE | ONCS_DSM | ONCS_ZEROES | ONCS_RESV | ONCS_VERIFY);
	weft_nvmf_put16(p + CTRL_FUSES, 1); /* Compare and Write */
	/* A host asks once, and a namespace with a cache may come later: there is always one. Flush
	 * has to name a namespace. */
	p[CTRL_VWC] = 0x05;
	weft_nvmf_put32(p + CTRL_MNAN, sub->max_nsid);
	weft_nvmf_put32(p + CTRL_IOCCSZ, (WEFT_NVMF_SQE_BYTES + a->inline_bytes) / 16);
	weft_nvmf_put32(p + CTRL_IORCSZ, WEFT_NVMF_CQE_BYTES / 16);
	p[CTRL_MSDBD] = 1;
	weft_nvmf_put16(p + CTRL_MP, 2500); /* 25 W: the field may not be 0 with one power state */
}

/** A number of blocks, 0-based. */
static uint16_t
identify_blocks(const struct nvmf_ns *ns, uint64_t bytes)
{
	const uint64_t n = bytes >> ns->lba_shift;

	return (uint16_t)(n == 0 ? 0 : NVMF_MIN(n - 1, UINT16_MAX));
}

static void
identify_ns(const struct nvmf_slot *s, uint8_t *p)
{
	const struct nvmf_ctrl *c = s->queue->ctrl;
	const struct nvmf_ns *ns = nvmf_ns_active(c->subsys, s->sqe.nsid);
	const struct weft_vol_info *i;
	uint16_t piece;

	if (ns == NULL)
		return;
	i = &ns->info;
	piece = identify_blocks(ns, i->atomic_bytes);
	weft_nvmf_put64(p + NS_NSZE, ns->blocks);
	weft_nvmf_put64(p + NS_NCAP, ns->blocks);
	weft_nvmf_put64(p + NS_NUSE, ns->blocks);
	p[NS_NSFEAT] = NSFEAT_OWN_ATOMICS | NSFEAT_OPTIMAL;
	p[NS_NMIC] = 1; /* several controllers may use it */
	p[NS_RESCAP] = RESCAP_ALL | (c->target->attr.resv.persists ? RESCAP_PERSIST : 0);
	p[NS_DLFEAT] = DLFEAT_DEALLOCATES | (ns->attr.discard_zeroes ? DLFEAT_ZEROS : 0);
	/* Others see a command's whole write or nothing of it. After a power cut that holds within
	 * a piece of the device. */
	weft_nvmf_put16(p + NS_NAWUN, identify_blocks(ns, c->target->attr.mdts_bytes));
	weft_nvmf_put16(p + NS_NAWUPF, piece);
	weft_nvmf_put16(p + NS_NABSPF, piece);
	weft_nvmf_put16(p + NS_NACWU, identify_blocks(ns, NVMF_MIN(i->compare_bytes,
	                                                           c->target->attr.mdts_bytes)));
	/* what is not read first */
	piece = identify_blocks(ns, NVMF_MAX(i->block_bytes, 1U << ns->lba_shift));
	weft_nvmf_put16(p + NS_NPWG, piece);
	weft_nvmf_put16(p + NS_NPWA, piece);
	weft_nvmf_put16(p + NS_NPDG, piece);
	weft_nvmf_put16(p + NS_NPDA, piece);
	weft_nvmf_put16(p + NS_NOWS, piece);
	if (ns->subsys->ana.on)
		weft_nvmf_put32(p + NS_ANAGRP, ns->nsid);
	p[NS_NSATTR] = atomic_load_explicit(&ns->read_only, memory_order_relaxed);
	memcpy(p + NS_NGUID, i->super.uuid, 16);
	weft_nvmf_put32(p + NS_LBAF0, ns->lba_shift << 16);
}

static void
identify_active(const struct nvmf_slot *s, uint8_t *p)
{
	const struct weft_nvmf_subsys *sub = s->queue->ctrl->subsys;
	uint32_t n = 0;

	for (uint32_t i = s->sqe.nsid + 1; i <= sub->max_nsid && n < 1024; i++)
		if (nvmf_ns_active(sub, i) != NULL)
			weft_nvmf_put32(p + 4 * n++, i);
}

static void
identify_descriptors(const struct nvmf_slot *s, uint8_t *p)
{
	const struct nvmf_ns *ns = nvmf_ns_active(s->queue->ctrl->subsys, s->sqe.nsid);

	if (ns == NULL)
		return;
	p[0] = NIDT_UUID;
	p[1] = 16;
	memcpy(p + 4, ns->info.super.uuid, 16);
	p[20] = NIDT_CSI;
	p[21] = 1; /* the NVM command set is 0 */
}

void
nvmf_identify_run(struct nvmf_slot *s)
{
	uint8_t page[WEFT_NVMF_PAGE_BYTES] = {0};

	/* a namespace may be replaced meanwhile */
	nvmf_lock(s->queue->group->target);
	switch ((uint8_t)s->sqe.cdw[10]) {
	case WEFT_NVMF_CNS_CTRL:
		identify_ctrl(s, page);
		break;
	case WEFT_NVMF_CNS_NS:
		identify_ns(s, page);
		break;
	case WEFT_NVMF_CNS_ACTIVE:
		identify_active(s, page);
		break;
	default:
		identify_descriptors(s, page);
	}
	nvmf_unlock(s->queue->group->target);
	nvmf_put(s, 0, page, sizeof(page));
	nvmf_complete(s, WEFT_NVMF_OK);
}
