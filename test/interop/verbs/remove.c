/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A preloaded library that removes the port's device when the test says so: when the file
 * WEFT_TEST_REMOVE is there, it tells what a driver of DPDK tells when its device was unplugged.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <rte_ethdev.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void *
remove_thread(void *path)
{
	const struct timespec nap = {.tv_nsec = 5000000};
	int (*tell)(struct rte_eth_dev * dev, enum rte_eth_event_type event, void *ret);
	struct rte_eth_dev *devices;

	while (access(path, F_OK) != 0)
		nanosleep(&nap, NULL);
	*(void **)&tell = dlsym(RTLD_DEFAULT, "rte_eth_dev_callback_process");
	devices = dlsym(RTLD_DEFAULT, "rte_eth_devices");
	if (tell == NULL || devices == NULL)
		abort();
	(void)tell(devices, RTE_ETH_EVENT_INTR_RMV, NULL);
	return NULL;
}

static void __attribute__((constructor)) remove_start(void)
{
	char *path = getenv("WEFT_TEST_REMOVE");
	pthread_t thread;

	if (path != NULL && pthread_create(&thread, NULL, remove_thread, path) != 0)
		abort();
}
