/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the device and its port can be asked. */

#include "query.h"

#include "api.h"
#include "device.h"
#include "engine.h"
#include "newer.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <time.h>

/** "wft": no OUI, as siw's is none. Programs take 0 for a device that does not answer. */
#define QUERY_VENDOR 0x776674

static void
query_fill(const struct ibv_context *context, struct ibv_device_attr *a)
{
	const __be64 guid = wv_device_guid(wv_context_number(context));
	struct weft_ctx_info info = {0};

	wv_lock();
	if (!wv_engine_over())
		weft_ctx_query(wv_engine.ctx, &info);
	wv_unlock();
	*a = (struct ibv_device_attr){
	        .node_guid = guid,
	        .sys_image_guid = guid,
	        .max_mr_size = UINT64_MAX,
	        .page_size_cap = 0xfffffffffffff000ULL,
	        .vendor_id = QUERY_VENDOR,
	        .vendor_part_id = 1,
	        .max_qp = (int)info.max_qps,
	        .max_qp_wr = WV_MAX_QP_WR,
	        .device_cap_flags = IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |
	                            IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_PORT_ACTIVE_EVENT |
	                            IBV_DEVICE_SYS_IMAGE_GUID,
	        .max_sge = WEFT_MAX_SGE,
	        .max_sge_rd = 1,
	        .max_cq = 65536,
	        .max_cqe = WV_MAX_CQE,
	        .max_mr = (int)info.max_regions,
	        .max_pd = 65536,
	        .max_qp_rd_atom = WV_MAX_RD_ATOM,
	        .max_res_rd_atom = WV_MAX_RD_ATOM * (int)info.max_qps,
	        .max_qp_init_rd_atom = WV_MAX_RD_ATOM,
	        .atomic_cap = IBV_ATOMIC_HCA,
	        .max_mw = (int)info.max_regions,
	        .max_srq = 65536,
	        .max_srq_wr = WV_MAX_SRQ_WR,
	        .max_srq_sge = WEFT_MAX_SGE,
	        .max_pkeys = 1,
	        .phys_port_cnt = 1,
	};
	strncpy(a->fw_ver, WEFT_VERSION, sizeof(a->fw_ver) - 1);
}

WV_API int
ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	query_fill(context, attr);
	return 0;
}

int
wv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex a = {0};

	if (input != NULL && input->comp_mask != 0)
		return EINVAL;
	if (attr_size < sizeof(a.orig_attr))
		return EINVAL;
	query_fill(context, &a.orig_attr);
	a.device_cap_flags_ex =
	        a.orig_attr.device_cap_flags | WV_DEVICE_FLUSH_GLOBAL | WV_DEVICE_ATOMIC_WRITE;
	a.completion_timestamp_mask = UINT64_MAX;
	a.hca_core_clock = 1000000; /* kHz: timestamps are nanoseconds */
	a.phys_port_cnt_ex = 1;
	memset(attr, 0, attr_size);
	memcpy(attr, &a, attr_size < sizeof(a) ? attr_size : sizeof(a));
	return 0;
}

int
wv_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	(void)context;
	if ((values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK) != 0)
		return EINVAL;
	if (values->comp_mask != 0)
		clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
	return 0;
}

static enum ibv_mtu
query_mtu(unsigned int bytes)
{
	return bytes >= 4096   ? IBV_MTU_4096
	       : bytes >= 2048 ? IBV_MTU_2048
	       : bytes >= 1024 ? IBV_MTU_1024
	       : bytes >= 512  ? IBV_MTU_512
	                       : IBV_MTU_256;
}

int
wv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct weft_port_stats st = {0};
	struct ibv_port_attr a;
	struct weft_ctx_info info = {0};
	bool up;

	if (port != WV_PORT)
		return EINVAL;
	wv_lock();
	if (!wv_engine_over()) {
		(void)weft_port_stats(wv_engine.ports[wv_context_number(context)], &st);
		weft_ctx_query(wv_engine.ctx, &info);
	}
	wv_unlock();
	/* A port in shared memory has its link when the peer comes, so programs may begin. */
	up = !st.removed && (st.link_up || (!st.link_returns && st.link_ups == 0));
	a = (struct ibv_port_attr){
	        .state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
	        .max_mtu = IBV_MTU_4096,
	        .active_mtu = query_mtu(st.mtu_bytes),
	        .gid_tbl_len = 1,
	        .max_msg_sz =
	                (uint32_t)(info.max_message_bytes < UINT32_MAX ? info.max_message_bytes
	                                                               : UINT32_MAX),
	        .pkey_tbl_len = 1,
	        .active_width = 2, /* 4X */
	        .active_speed = 4, /* 10 Gb/s */
	        .phys_state = up ? 5 : 3,
	        .link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof(a) ? size : sizeof(a));
	return 0;
}

/* The old form of the structure ends before `port_cap_flags2`. */
#undef ibv_query_port
WV_API int
ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return wv_query_port(context, port, (struct ibv_port_attr *)(void *)attr,
	                     offsetof(struct ibv_port_attr, port_cap_flags2));
}

/** The link-local address that the port's MAC makes (RFC 4291 appendix A), as the default GID of
 * Ethernet devices: tools show no GID whose last eight octets are zero. */
static void
query_gid(const struct ibv_context *context, union ibv_gid *gid)
{
	struct weft_port_stats st = {0};

	wv_lock();
	if (!wv_engine_over())
		(void)weft_port_stats(wv_engine.ports[wv_context_number(context)], &st);
	wv_unlock();
	memset(gid, 0, sizeof(*gid));
	gid->raw[0] = 0xfe;
	gid->raw[1] = 0x80;
	memcpy(&gid->raw[8], st.mac, 3);
	gid->raw[8] ^= 2;
	gid->raw[11] = 0xff;
	gid->raw[12] = 0xfe;
	memcpy(&gid->raw[13], &st.mac[3], 3);
}

WV_API int
ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != WV_PORT || index != 0) {
		errno = EINVAL;
		return -1;
	}
	query_gid(context, gid);
	return 0;
}

WV_API int
_ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                  struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry e = {
	        .gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_IB};

	if (flags != 0)
		return EINVAL;
	if (port != WV_PORT)
		return EINVAL;
	if (index != 0)
		return ENODATA;
	query_gid(context, &e.gid);
	memset(entry, 0, entry_size);
	memcpy(entry, &e, entry_size < sizeof(e) ? entry_size : sizeof(e));
	return 0;
}

WV_API ssize_t
_ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
                     uint32_t flags, size_t entry_size)
{
	int rc;

	if (max_entries == 0)
		return -EINVAL;
	rc = _ibv_query_gid_ex(context, WV_PORT, 0, entries, flags, entry_size);
	return rc == 0 ? 1 : -rc;
}

/* Of libibverbs, for drivers and pyverbs; not in its headers. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);

WV_API int
ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	(void)context;
	if (port != WV_PORT || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*type = 0; /* of IB and iWARP */
	return 0;
}

WV_API int
ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	if (port != WV_PORT || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(0xffff);
	return 0;
}

WV_API int
ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	(void)context;
	if (port != WV_PORT || pkey != htobe16(0xffff)) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}
