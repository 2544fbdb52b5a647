/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_QUERY_H
#define WEFT_APPS_VERBS_QUERY_H

/** @file Queries that programs make by the tables of a context. They return errno. */

#include <infiniband/verbs.h>

int wv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                       struct ibv_device_attr_ex *attr, size_t attr_size);
int wv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                  size_t size);
int wv_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

#endif /* WEFT_APPS_VERBS_QUERY_H */
