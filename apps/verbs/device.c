/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The devices: their list, opening and closing. */

#include "device.h"

#include "api.h"
#include "async.h"
#include "check.h"
#include "config.h"
#include "engine.h"
#include "port_link.h"
#include "qp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_device devices[CONF_PORTS_MAX];
static pthread_once_t devices_once = PTHREAD_ONCE_INIT;

static void
devices_name(void)
{
	for (unsigned int i = 0; i < CONF_PORTS_MAX; i++) {
		struct ibv_device *d = &devices[i];

		d->node_type = IBV_NODE_RNIC;
		d->transport_type = IBV_TRANSPORT_IWARP;
		snprintf(d->name, sizeof(d->name), WV_DEVICE_NAME, i);
		snprintf(d->dev_name, sizeof(d->dev_name), "uverbs-" WV_DEVICE_NAME, i);
		snprintf(d->dev_path, sizeof(d->dev_path),
		         "/sys/class/infiniband_verbs/uverbs-" WV_DEVICE_NAME, i);
		snprintf(d->ibdev_path, sizeof(d->ibdev_path),
		         "/sys/class/infiniband/" WV_DEVICE_NAME, i);
	}
}

static unsigned int
device_number(const struct ibv_device *dev)
{
	return (unsigned int)(dev - devices);
}

WV_API struct ibv_device **
ibv_get_device_list(int *num)
{
	struct ibv_device **list = calloc(CONF_PORTS_MAX + 1, sizeof(*list));
	const struct conf *c;
	int n = 0;

	if (num != NULL)
		*num = 0;
	if (list == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	pthread_once(&devices_once, devices_name);
	c = wv_config();
	if (c != NULL && wv_check_versions())
		for (; (uint32_t)n < c->nports; n++)
			list[n] = &devices[n];
	if (num != NULL)
		*num = n;
	return list;
}

WV_API void
ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

WV_API const char *
ibv_get_device_name(struct ibv_device *dev)
{
	return dev->name;
}

WV_API int
ibv_get_device_index(struct ibv_device *dev)
{
	(void)dev;
	/* "Unknown": librdmacm then tells devices apart by their GUIDs. */
	return -1;
}

WV_API __be64
ibv_get_device_guid(struct ibv_device *dev)
{
	return wv_device_guid(device_number(dev));
}

WV_API struct ibv_context *
ibv_open_device(struct ibv_device *dev)
{
	struct wv_context *c;
	int rc = wv_engine_up();

	if (rc < 0) {
		errno = -rc;
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return NULL;
	rc = wv_fdq_init(&c->async);
	if (rc < 0) {
		free(c);
		errno = -rc;
		return NULL;
	}
	c->vctx.sz = sizeof(c->vctx);
	c->vctx.context.device = dev;
	c->number = device_number(dev);
	c->vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	c->vctx.context.cmd_fd = -1;
	c->vctx.context.async_fd = c->async.fd;
	c->vctx.context.num_comp_vectors = 1;
	c->users = 1;
	pthread_mutex_init(&c->vctx.context.mutex, NULL);
	wv_calls_set(&c->vctx);
	wv_lock();
	wv_async_join(c);
	wv_link_watch();
	wv_unlock();
	return &c->vctx.context;
}

WV_API int
ibv_close_device(struct ibv_context *context)
{
	struct wv_context *c = wv_context(context);

	if (wv_engine_orphan())
		return 0;
	/* As the kernel does, which destroys the objects of the context. Here the program still has
	 * the memory of its objects, which are dead. */
	wv_lock();
	c->closed = true;
	wv_async_leave(c);
	wv_fdq_close(&c->async);
	wv_qp_abort_context(context);
	wv_unlock();
	wv_context_put(context);
	return 0;
}

/* Of libibverbs, for librdmacm and drivers; not in its headers. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* An attribute file of this device does not exist; the others' do, or do not. */
WV_API int
ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	static const char abi[] = "4\n"; /* RDMA_USER_CM_ABI_VERSION */
	char path[512];
	ssize_t len;
	FILE *f;

	if (strcmp(file, "class/misc/rdma_cm/abi_version") == 0 && size > sizeof(abi)) {
		strcpy(buf, abi);
		buf[1] = '\0';
		return 1;
	}
	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
		return -1;
	f = fopen(path, "re");
	if (f == NULL)
		return -1;
	len = (ssize_t)fread(buf, 1, size, f);
	fclose(f);
	if (len > 0 && buf[len - 1] == '\n')
		buf[--len] = '\0';
	else if (len < (ssize_t)size)
		buf[len] = '\0';
	else
		return -1;
	return (int)len;
}
