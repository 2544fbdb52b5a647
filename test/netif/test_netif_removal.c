/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A device is removed while its port is in use: how it is noticed, what its interfaces do
 * from then on, what happens to the port, and accesses to registers that are gone. This program
 * wraps the calls by which a removal is noticed.
 */

#define ALLOW_EXPERIMENTAL_API /* rte_dev_event_callback_process() */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_ethdev.h>

#include "fake.h"
#include "netif_bar.h"
#include "netif_priv.h"
#include "netif_txq.h"
#include "weft_device.h"
#include "weft_netif.h"
#include "weft_netif_addr.h"
#include "weft_netif_group.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_port.h"
#include "weft_netif_removal.h"
#include "weft_netif_sleep.h"
#include "weft_netif_stats.h"
#include "weft_netif_tx.h"

/* ---- What is wrapped ---- */

static struct {
	bool pci;            /**< the device is one of PCI */
	_Atomic uint32_t at; /**< answers given */
	const enum weft_device_answer *answers;
	unsigned int nanswers; /**< the last one is given from then on */
	_Atomic int found;     /**< what the driver says when it is asked */
	rte_eth_dev_cb_fn on_port;
} nic;

int __wrap_weft_device_open(const struct weft_device_roots *at, const char *dev, int *fd);
enum weft_device_answer __wrap_weft_device_ask(int fd);
int __wrap_rte_eth_dev_is_removed(uint16_t port_id);
int __wrap_rte_eth_dev_callback_register(uint16_t port_id, enum rte_eth_event_type event,
                                         rte_eth_dev_cb_fn fn, void *arg);
int __real_rte_eal_alarm_set(uint64_t us, rte_eal_alarm_callback fn, void *arg);
int __wrap_rte_eal_alarm_set(uint64_t us, rte_eal_alarm_callback fn, void *arg);

int
__wrap_weft_device_open(const struct weft_device_roots *at, const char *dev, int *fd)
{
	CHECK(at == &weft_device_kernel && dev != NULL);
	*fd = nic.pci ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
	return nic.pci ? 0 : -EINVAL;
}

enum weft_device_answer
__wrap_weft_device_ask(int fd)
{
	uint32_t at = atomic_load(&nic.at);

	CHECK(fd >= 0);
	if (at + 1 < nic.nanswers)
		atomic_store(&nic.at, at + 1);
	return nic.answers[at];
}

int
__wrap_rte_eth_dev_is_removed(uint16_t port_id)
{
	(void)port_id;
	return atomic_load(&nic.found);
}

int
__wrap_rte_eth_dev_callback_register(uint16_t port_id, enum rte_eth_event_type event,
                                     rte_eth_dev_cb_fn fn, void *arg)
{
	CHECK_EQ(port_id, RTE_ETH_ALL);
	CHECK_EQ(event, RTE_ETH_EVENT_INTR_RMV);
	CHECK(arg == NULL);
	nic.on_port = fn;
	return 0;
}

/** A second is 2 ms. */
int
__wrap_rte_eal_alarm_set(uint64_t us, rte_eal_alarm_callback fn, void *arg)
{
	return __real_rte_eal_alarm_set(us >= 1000000 ? 2000 : us, fn, arg);
}

/* ---- Interfaces ---- */

static struct fake f, g;

static void
send_one(struct fake *x)
{
	struct rte_mbuf *m = weft_netif_alloc(x->nif, WEFT_NETIF_HEADROOM);

	CHECK(m != NULL);
	memset(rte_pktmbuf_append(m, 60), 0, 60);
	CHECK_EQ(netif_enqueue(x->nif, m, true), 0);
	weft_netif_flush(x->nif, x->now_ns);
}

static void
test_interface(void)
{
	const struct weft_ip peer = weft_ip_from_v4(rte_cpu_to_be_32(FAKE_PEER));
	uint8_t frame[FAKE_FRAME];
	unsigned int ntx;
	int fd;

	memset(&f, 0, sizeof(f));
	fake_start(&f, NULL);
	CHECK(weft_netif_reaches(f.nif, NULL, &peer, false));
	f.tx_room = 0;
	for (unsigned int i = 0; i < 3; i++)
		send_one(&f);
	f.tx_room = FAKE_QUEUE;
	f.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	CHECK_EQ(weft_netif_sleep_begin(f.nif, &fd), WEFT_NETIF_WAKES_UNPROVEN);
	CHECK(f.armed);
	ntx = f.ntx;
	weft_netif_remove(f.nif);
	CHECK(!f.armed);
	/* The end of that sleep reads no descriptor, which may be another file's now. */
	CHECK_EQ(write(f.wake_fd, &(uint64_t){1}, 8), 8);
	weft_netif_sleep_end(f.nif, true);
	CHECK_EQ(read(f.wake_fd, &(uint64_t){0}, 8), 8);
	CHECK_EQ(weft_netif_stats(f.nif)->dev_removed, 1);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_removed, 3);
	weft_netif_remove(f.nif);
	CHECK_EQ(weft_netif_stats(f.nif)->tx_removed, 3);
	/* The device is neither read nor written, and its interrupt is not armed. */
	fake_rx(&f, frame, fake_build(frame, &(struct fake_pkt){.data = 10}), FAKE_FLAT, 0);
	send_one(&f);
	fake_pass(&f, 5 * WEFT_NS_PER_S);
	CHECK_EQ(f.nrx, 1);
	CHECK_EQ(f.nup, 0);
	CHECK_EQ(f.ntx, ntx);
	CHECK(weft_netif_stats(f.nif)->tx_removed >= 4);
	CHECK_EQ(weft_netif_tx_room(f.nif), WEFT_NETIF_TXQ);
	CHECK_EQ(weft_netif_sleep_begin(f.nif, &fd), WEFT_NETIF_WAKES);
	CHECK_EQ(fd, -1);
	weft_netif_sleep_end(f.nif, false);
	CHECK(!f.armed);
	CHECK(!weft_netif_reaches(f.nif, NULL, &peer, true));
	rte_pktmbuf_free(f.rxq[0]);
	f.nrx = 0;
	close(f.wake_fd);
	fake_stop(&f);
}

/** Member 1 sends by member 0, whose device is gone first, or last. */
static void
test_members(void)
{
	struct weft_netif_group_attr ga = {.members = 2, .rx_queues = 1, .tx_queues = 1};

	for (unsigned int first = 0; first < 2; first++) {
		struct weft_netif_attr a;
		struct weft_netif_group *group;

		CHECK_EQ(weft_netif_group_create(&ga, &group), 0);
		memset(&f, 0, sizeof(f));
		memset(&g, 0, sizeof(g));
		a = fake_attr(&f);
		a.group = group;
		fake_start(&f, &a);
		a = fake_attr(&g);
		a.group = group;
		a.group_index = 1;
		fake_create(&g, &a);
		fake_poll(&g);
		fake_drop(&g);
		send_one(&g);
		fake_poll(&f);
		CHECK(f.ntx > 0);
		fake_drop(&f);
		weft_netif_remove(first == 0 ? f.nif : g.nif);
		send_one(&g);
		send_one(&f);
		weft_netif_remove(first == 0 ? g.nif : f.nif);
		send_one(&g);
		fake_pass(&f, 2 * WEFT_NS_PER_S);
		fake_pass(&g, 2 * WEFT_NS_PER_S);
		CHECK_EQ(f.ntx, first);
		fake_drop(&f);
		fake_stop(&g);
		fake_stop(&f);
		weft_netif_group_destroy(group);
	}
}

/* ---- How a removal is noticed ---- */

static struct {
	_Atomic uint32_t n;
	const char *how;
} told;

static struct weft_netif_port port;

static void
on_removed(void *arg, const char *how)
{
	CHECK(arg == &port);
	told.how = how;
	atomic_fetch_add(&told.n, 1);
}

/** Open and watch a port. answers NULL: it is no PCI device. */
static void
watch(const enum weft_device_answer *answers, unsigned int n)
{
	struct weft_netif_port_attr pa = {.dev = "net_null50", .mbufs = 1024, .queues = 1};

	test_eal_init();
	memset(&told, 0, sizeof(told));
	nic.pci = answers != NULL;
	nic.answers = answers;
	nic.nanswers = n;
	atomic_store(&nic.at, 0);
	atomic_store(&nic.found, 0);
	CHECK_EQ(weft_netif_port_open(&pa, &port), 0);
	CHECK_EQ(weft_netif_port_watch(&port, on_removed, &port), 0);
	CHECK(weft_netif_port_link(&port));
}

static bool
await(bool (*done)(void))
{
	for (unsigned int i = 0; i < 5000 && !done(); i++)
		usleep(1000);
	return done();
}

static bool
is_told(void)
{
	return atomic_load(&told.n) > 0;
}

static bool
is_given_back(void)
{
	uint16_t id;

	return rte_eth_dev_get_port_by_name("net_null50", &id) != 0;
}

/** Once it is noticed, ethdev is not asked any more, and the port is given back when it is let go.
 */
static void
removed(const char *how)
{
	CHECK(await(is_told));
	CHECK_STR(told.how, how);
	CHECK(!weft_netif_port_link(&port));
	CHECK_EQ(weft_netif_port_missed(&port), 0);
	usleep(20000);
	CHECK_EQ(atomic_load(&told.n), 1);
	CHECK(!is_given_back());
	weft_netif_port_give_back(&port);
}

static void
gone(void)
{
	CHECK(await(is_given_back));
	CHECK(!weft_netif_port_link(&port));
	weft_netif_port_close(&port);
	CHECK(!weft_netif_port_link(&port));
}

static void
test_bus(void)
{
	for (unsigned int i = 0; i < 3; i++) {
		watch(NULL, 0);
		rte_dev_event_callback_process("net_null5", RTE_DEV_EVENT_REMOVE);
		rte_dev_event_callback_process("net_null50", RTE_DEV_EVENT_ADD);
		CHECK(!is_told());
		rte_dev_event_callback_process("net_null50", RTE_DEV_EVENT_REMOVE);
		rte_dev_event_callback_process("net_null50", RTE_DEV_EVENT_REMOVE);
		removed("the kernel asks for it");
		gone();
	}
	/* Unplugged and closed before the interfaces have let go. */
	watch(NULL, 0);
	rte_dev_event_callback_process("net_null50", RTE_DEV_EVENT_REMOVE);
	CHECK(is_told());
	weft_netif_port_close(&port);
	CHECK(is_given_back());
	/* Without a watch nobody is told. */
	watch(NULL, 0);
	weft_netif_port_unwatch(&port);
	weft_netif_port_unwatch(&port);
	rte_dev_event_callback_process("net_null50", RTE_DEV_EVENT_REMOVE);
	CHECK(!is_told());
	CHECK(weft_netif_port_link(&port));
	weft_netif_port_close(&port);
}

static void
test_driver(void)
{
	static const enum weft_device_answer there[] = {WEFT_DEVICE_ANSWERS};

	watch(NULL, 0);
	nic.on_port((uint16_t)(port.port_id + 1), RTE_ETH_EVENT_INTR_RMV, NULL, NULL);
	CHECK(!is_told());
	nic.on_port(port.port_id, RTE_ETH_EVENT_INTR_RMV, NULL, NULL);
	removed("its driver reports it");
	gone();

	watch(there, 1);
	usleep(20000);
	CHECK(!is_told());
	atomic_store(&nic.found, 1);
	removed("its driver finds it gone");
	gone();
}

/** A device that is reset is silent for a moment. */
static void
test_silent(void)
{
#define A WEFT_DEVICE_ANSWERS
#define S WEFT_DEVICE_SILENT
	static const enum weft_device_answer reset[] = {A, S, S, A, S, A};
	static const enum weft_device_answer out[] = {A, S, S, A, S, S, S};

#undef A
#undef S

	watch(reset, RTE_DIM(reset));
	usleep(60000);
	CHECK(!is_told());
	weft_netif_port_close(&port);
	CHECK(is_given_back());

	watch(out, RTE_DIM(out));
	removed("it answers no read");
	CHECK_EQ(atomic_load(&nic.at), RTE_DIM(out) - 1);
	gone();
}

/** The driver of a device that the kernel has removed is left alone. */
static void
test_abandoned(void)
{
	static const enum weft_device_answer out[] = {WEFT_DEVICE_ANSWERS, WEFT_DEVICE_REMOVED};

	for (unsigned int late = 0; late < 2; late++) {
		watch(out, RTE_DIM(out));
		CHECK_EQ(weft_netif_port_abandoned(), late > 0);
		if (late == 0)
			removed("the kernel has removed it");
		CHECK(await(is_told));
		usleep(20000);
		weft_netif_port_close(&port);
		CHECK(weft_netif_port_abandoned());
		CHECK(!is_given_back());
		CHECK_EQ(rte_eth_dev_stop(port.port_id), 0);
		CHECK_EQ(rte_eal_hotplug_remove("vdev", "net_null50"), 0);
	}
}

/* ---- Registers ---- */

#define BAR_BYTES (4 * 4096)

/** A file in the place of a device's registers, mapped. */
static volatile uint32_t *
map_bar(char dir[64], int *fd)
{
	char path[128];
	void *p;

	snprintf(dir, 64, "/tmp/weft-bar-%ld", (long)getpid());
	CHECK_EQ(mkdir(dir, 0700), 0);
	snprintf(path, sizeof(path), "%s/0000:09:00.0", dir);
	CHECK_EQ(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/0000:09:00.0/resource0", dir);
	*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(*fd >= 0);
	CHECK_EQ(ftruncate(*fd, BAR_BYTES), 0);
	p = mmap(NULL, BAR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	CHECK(p != MAP_FAILED);
	return p;
}

static void
unmap_bar(const char *dir, volatile uint32_t *bar, int fd)
{
	char path[128];

	munmap((void *)(uintptr_t)bar, BAR_BYTES);
	close(fd);
	snprintf(path, sizeof(path), "%s/0000:09:00.0/resource0", dir);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	rmdir(dir);
}

static void
test_registers(void)
{
	volatile uint32_t *bar;
	char dir[64];
	int fd, status;
	pid_t pid;

	/* A sanitizer's own handler ends the process in another way than the signal does. */
	CHECK(signal(SIGBUS, SIG_DFL) != SIG_ERR);
	bar = map_bar(dir, &fd);
	netif_bar_watch(3, "0000:09:00.1");
	netif_bar_watch(4, "0000:09:00.0");
	bar[5] = 7;
	CHECK(!netif_bar_faulted(4));
	CHECK_EQ(ftruncate(fd, 0), 0);
	CHECK_EQ(bar[5], UINT32_MAX);
	CHECK(netif_bar_faulted(4));
	CHECK(!netif_bar_faulted(3));
	/* Writes go nowhere; each page is replaced when it is used. */
	bar[6] = 1;
	bar[3 * 1024 + 1] = 2;
	CHECK_EQ(bar[3 * 1024], UINT32_MAX);
	CHECK_EQ(bar[2 * 1024 + 9], UINT32_MAX);
	unmap_bar(dir, bar, fd);
	netif_bar_forget(4);
	CHECK(!netif_bar_faulted(4));

	/* Any other fault ends the process as before. */
	bar = map_bar(dir, &fd);
	CHECK_EQ(ftruncate(fd, 0), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)bar[0];
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	unmap_bar(dir, bar, fd);
}

WEFT_TEST_MAIN({"an interface without its device sends and receives nothing", test_interface},
               {"members of a group lose their device one by one", test_members},
               {"the bus tells of a removal", test_bus},
               {"the driver tells of a removal", test_driver},
               {"a device that answers no read", test_silent},
               {"registers that are gone read as ones", test_registers},
               {"a device that the kernel has removed is left alone", test_abandoned})
