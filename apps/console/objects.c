/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Arguments that name an object, which Tab completes: QPs, regions, windows, SRQs, ports. */

#include <stddef.h>
#include <stdio.h>

#include "console.h"

/** The i-th number of those that are used. -1: there are fewer. */
static int
used_number(const bool *used, size_t stride, unsigned int most, int i)
{
	for (unsigned int n = 1; n <= most; n++)
		if (*(const bool *)((const char *)used + n * stride) && i-- == 0)
			return (int)n;
	return -1;
}

static int
qp_at(int i)
{
	return used_number(&con.qps[0].used, sizeof(con.qps[0]), CONSOLE_MAX_QPS, i);
}

static int
region_at(int i)
{
	return used_number(&con.regions[0].used, sizeof(con.regions[0]), CONSOLE_MAX_REGIONS, i);
}

static int
window_at(int i)
{
	return used_number(&con.windows[0].used, sizeof(con.windows[0]), CONSOLE_MAX_WINDOWS, i);
}

static int
srq_at(int i)
{
	return used_number(&con.srqs[0].used, sizeof(con.srqs[0]), CONSOLE_MAX_SRQS, i);
}

static int
log_at(int i)
{
	return used_number(&con.logs[0], sizeof(con.logs[0]), CONSOLE_MAX_LOGS, i);
}

static int
rpc_at(int i)
{
	return used_number(&con.rpcs[0], sizeof(con.rpcs[0]), CONSOLE_MAX_RPCS, i);
}

static int
count(int (*at)(int i))
{
	int n = 0;

	while (at(n) >= 0)
		n++;
	return n;
}

static int
number_elt(int n, char *buf, unsigned int size)
{
	return n >= 0 && snprintf(buf, size, "%d", n) < (int)size ? 0 : -1;
}

static int
qps_nb(cmdline_parse_token_hdr_t *tk)
{
	(void)tk;
	return count(qp_at);
}

static int
qps_elt(cmdline_parse_token_hdr_t *tk, int i, char *buf, unsigned int size)
{
	(void)tk;
	return number_elt(qp_at(i), buf, size);
}

static int
regions_nb(cmdline_parse_token_hdr_t *tk)
{
	(void)tk;
	return count(region_at);
}

static int
regions_elt(cmdline_parse_token_hdr_t *tk, int i, char *buf, unsigned int size)
{
	(void)tk;
	return number_elt(region_at(i), buf, size);
}

static int
windows_nb(cmdline_parse_token_hdr_t *tk)
{
	(void)tk;
	return count(window_at);
}

static int
windows_elt(cmdline_parse_token_hdr_t *tk, int i, char *buf, unsigned int size)
{
	(void)tk;
	return number_elt(window_at(i), buf, size);
}

static int
srqs_nb(cmdline_parse_token_hdr_t *tk)
{
	(void)tk;
	return count(srq_at);
}

static int
srqs_elt(cmdline_parse_token_hdr_t *tk, int i, char *buf, unsigned int size)
{
	(void)tk;
	return number_elt(srq_at(i), buf, size);
}

static int
logs_nb(cmdline_parse_token_hdr_t *tk)
{
	(void)tk;
	return count(log_at);
}

static int
logs_elt(cmdline_parse_token_hdr_t *tk, int i, char *buf, unsigned int size)
{
	(void)tk;
	return number_elt(log_at(i), buf, size);
}

static int
rpcs_nb(cmdline_parse_token_hdr_t *tk)
{
	(void)tk;
	return count(rpc_at);
}

static int
rpcs_elt(cmdline_parse_token_hdr_t *tk, int i, char *buf, unsigned int size)
{
	(void)tk;
	return number_elt(rpc_at(i), buf, size);
}

static int
workers_nb(cmdline_parse_token_hdr_t *tk)
{
	(void)tk;
	return (int)con.stack.nworkers;
}

static int
workers_elt(cmdline_parse_token_hdr_t *tk, int i, char *buf, unsigned int size)
{
	(void)tk;
	return number_elt((uint32_t)i < con.stack.nworkers ? i : -1, buf, size);
}

static int
ports_nb(cmdline_parse_token_hdr_t *tk)
{
	(void)tk;
	return (int)con.stack.nports;
}

static int
ports_elt(cmdline_parse_token_hdr_t *tk, int i, char *buf, unsigned int size)
{
	(void)tk;
	if (i < 0 || (uint32_t)i >= con.stack.nports)
		return -1;
	return snprintf(buf, size, "%s", weft_port_name(con.stack.ports[i])) < (int)size ? 0 : -1;
}

static struct cmdline_token_ops qp_ops = {cmdline_parse_num, qps_nb, qps_elt, cmdline_get_help_num};
static struct cmdline_token_ops region_ops = {cmdline_parse_num, regions_nb, regions_elt,
                                              cmdline_get_help_num};
static struct cmdline_token_ops window_ops = {cmdline_parse_num, windows_nb, windows_elt,
                                              cmdline_get_help_num};
static struct cmdline_token_ops srq_ops = {cmdline_parse_num, srqs_nb, srqs_elt,
                                           cmdline_get_help_num};
static struct cmdline_token_ops log_ops = {cmdline_parse_num, logs_nb, logs_elt,
                                           cmdline_get_help_num};
static struct cmdline_token_ops rpc_ops = {cmdline_parse_num, rpcs_nb, rpcs_elt,
                                           cmdline_get_help_num};
static struct cmdline_token_ops worker_ops = {cmdline_parse_num, workers_nb, workers_elt,
                                              cmdline_get_help_num};
static struct cmdline_token_ops region_text_ops = {cmdline_parse_string, regions_nb, regions_elt,
                                                   cmdline_get_help_string};
static struct cmdline_token_ops port_ops = {cmdline_parse_string, ports_nb, ports_elt,
                                            cmdline_get_help_string};

cmdline_parse_token_num_t tok_qp = {{&qp_ops, offsetof(struct cmd_args, a)}, {RTE_UINT64}};
cmdline_parse_token_num_t tok_region = {{&region_ops, offsetof(struct cmd_args, a)}, {RTE_UINT64}};
cmdline_parse_token_num_t tok_window = {{&window_ops, offsetof(struct cmd_args, a)}, {RTE_UINT64}};
cmdline_parse_token_num_t tok_window_b = {{&window_ops, offsetof(struct cmd_args, b)},
                                          {RTE_UINT64}};
cmdline_parse_token_num_t tok_srq = {{&srq_ops, offsetof(struct cmd_args, a)}, {RTE_UINT64}};
cmdline_parse_token_num_t tok_srq_b = {{&srq_ops, offsetof(struct cmd_args, b)}, {RTE_UINT64}};
cmdline_parse_token_num_t tok_log_a = {{&log_ops, offsetof(struct cmd_args, a)}, {RTE_UINT64}};
cmdline_parse_token_num_t tok_log_rest = {{&log_ops, offsetof(struct rest_args, a)}, {RTE_UINT64}};
cmdline_parse_token_num_t tok_rpc_a = {{&rpc_ops, offsetof(struct cmd_args, a)}, {RTE_UINT64}};
cmdline_parse_token_num_t tok_worker_a = {{&worker_ops, offsetof(struct cmd_args, a)},
                                          {RTE_UINT64}};
cmdline_parse_token_string_t tok_region_s1 = {{&region_text_ops, offsetof(struct cmd_args, s1)},
                                              {NULL}};
cmdline_parse_token_string_t tok_port_s1 = {{&port_ops, offsetof(struct cmd_args, s1)}, {NULL}};
