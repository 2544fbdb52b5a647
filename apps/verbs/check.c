/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The ABI: sizes and offsets of the installed headers at build time, versions at start. */

#include "check.h"

#include "config.h"
#include "newer.h"

#include <assert.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Inline functions of programs use these, so they are the same in every version of the library;
 * what is new is put where older programs do not look. */
#if defined(__x86_64__) || defined(__aarch64__)
static_assert(sizeof(struct ibv_context_ops) == 32 * 8, "ibv_context_ops");
static_assert(offsetof(struct ibv_context, ops) == 8, "ibv_context.ops");
static_assert(offsetof(struct ibv_context, cmd_fd) == 264, "ibv_context.cmd_fd");
static_assert(offsetof(struct ibv_context, async_fd) == 268, "ibv_context.async_fd");
static_assert(offsetof(struct ibv_context, abi_compat) == sizeof(struct ibv_context) - 8,
              "ibv_context.abi_compat");
static_assert(offsetof(struct verbs_context, context) - offsetof(struct verbs_context, sz) == 8,
              "verbs_context.sz");
static_assert(sizeof(struct verbs_context) - offsetof(struct verbs_context, query_port) ==
                      sizeof(struct verbs_context),
              "verbs_context: query_port is its newest member");
static_assert(sizeof(struct ibv_wc) == 48, "ibv_wc");
static_assert(sizeof(struct ibv_sge) == 16, "ibv_sge");
static_assert(sizeof(struct ibv_send_wr) == 128, "ibv_send_wr");
static_assert(sizeof(struct ibv_recv_wr) == 32, "ibv_recv_wr");
static_assert(sizeof(struct ibv_mr) == 48 && sizeof(struct ibv_pd) == 16, "ibv_mr, ibv_pd");
static_assert(sizeof(struct ibv_cq) == 128, "ibv_cq");
static_assert(offsetof(struct ibv_cq_ex, comp_mask) == 128 &&
                      offsetof(struct ibv_cq_ex, start_poll) == 144,
              "ibv_cq_ex");
static_assert(sizeof(struct ibv_qp) == 160, "ibv_qp");
static_assert(offsetof(struct ibv_qp_ex, comp_mask) == 160 &&
                      offsetof(struct ibv_qp_ex, wr_atomic_cmp_swp) == 184,
              "ibv_qp_ex");
static_assert(offsetof(struct ibv_qp_ex, wr_atomic_write) == 184 + 20 * 8, "wr_atomic_write");
/* Version 45 put wr_flush behind it. */
static_assert(sizeof(struct ibv_qp_ex) >= 184 + 21 * 8 &&
                      sizeof(struct ibv_qp_ex) <= sizeof(struct wv_qp_ex),
              "ibv_qp_ex: its newest member is known");
static_assert(offsetof(struct wv_qp_ex, v45.wr_flush) == 184 + 21 * 8, "wr_flush");
#endif

/* The kernel's ABI of connection management. */
static_assert(RDMA_USER_CM_ABI_VERSION == 4, "rdma_cm");
static_assert(sizeof(struct rdma_ucm_cmd_hdr) == 8, "rdma_ucm_cmd_hdr");
static_assert(sizeof(struct rdma_ucm_event_resp) == 336, "rdma_ucm_event_resp");
static_assert(sizeof(struct rdma_ucm_conn_param) == 272, "rdma_ucm_conn_param");
static_assert(sizeof(struct rdma_ucm_query_route_resp) == 208, "rdma_ucm_query_route_resp");

/** What was tested: the last number of the libraries' file names, and of rdma-core. */
static const char *const check_known[] = {"44.0"};

struct check {
	bool ok;
};

static int
check_one(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *base = strrchr(info->dlpi_name, '/');
	struct check *c = arg;
	char file[4096], *version;

	(void)size;
	base = base != NULL ? base + 1 : info->dlpi_name;
	if (strncmp(base, "libibverbs.so", 13) != 0 && strncmp(base, "librdmacm.so", 12) != 0)
		return 0;
	if (realpath(info->dlpi_name, file) == NULL)
		return 0;
	/* libibverbs.so.1.14.44.0: the ABI, then rdma-core's version. */
	version = strstr(file, ".so.");
	if (version != NULL && (version = strchr(version + 4, '.')) != NULL &&
	    (version = strchr(version + 1, '.')) != NULL)
		for (size_t i = 0; i < sizeof(check_known) / sizeof(check_known[0]); i++)
			if (strcmp(version + 1, check_known[i]) == 0)
				return 0;
	fprintf(stderr,
	        "weft: %s is of a version that was not tested (known: 44.0); set "
	        "" WV_ENV_ANY_VERSION "=1 to use it all the same\n",
	        file);
	c->ok = false;
	return 1;
}

static bool check_ok;

static void
check_once(void)
{
	const char *any = getenv(WV_ENV_ANY_VERSION);
	struct check c = {.ok = true};

	if (any == NULL || strcmp(any, "1") != 0)
		(void)dl_iterate_phdr(check_one, &c);
	check_ok = c.ok;
}

bool
wv_check_versions(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, check_once);
	return check_ok;
}
