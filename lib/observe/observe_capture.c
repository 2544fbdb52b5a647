/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Captures of a port: the pcapng file and the thread that writes it. */

#define ALLOW_EXPERIMENTAL_API /* rte_pcapng */

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <rte_pcapng.h>

#include "observe_priv.h"
#include <weft/ulp.h>
#include <weft/capture.h>
#include "weft_netif_capture.h"
#include "weft_netif_port.h"

#define CAPTURE_QUEUE     2048
#define CAPTURE_QUEUE_MAX 65536
#define CAPTURE_BURST     64
#define CAPTURE_WAIT_US   1000 /**< pause when the queue is empty */

WEFT_LOG_REGISTER(observe)

struct weft_capture {
	LIST_ENTRY(weft_capture) link;
	struct weft_port *port;
	struct weft_netif_capture *nc;
	rte_pcapng_t *file;
	int fd; /**< descriptor of `file`; closed by rte_pcapng_close() */
	uint64_t max_bytes;
	pthread_t thread;
	_Atomic uint32_t stop;
	/* written by the thread, read by others */
	_Atomic uint64_t packets, file_bytes, late;
	_Atomic int error;
};

/** Take one burst from the queue and write it. Returns the number of packets taken. */
static unsigned int
capture_write(struct weft_capture *cap)
{
	struct rte_mbuf *m[CAPTURE_BURST];
	unsigned int n = weft_netif_capture_drain(cap->nc, m, CAPTURE_BURST), k = 0;
	uint64_t bytes = atomic_load_explicit(&cap->file_bytes, memory_order_relaxed);
	ssize_t rc = 0;

	while (k < n && atomic_load_explicit(&cap->error, memory_order_relaxed) == 0 &&
	       (cap->max_bytes == 0 || bytes + m[k]->pkt_len <= cap->max_bytes))
		bytes += m[k++]->pkt_len;
	if (k > 0)
		rc = rte_pcapng_write_packets(cap->file, m, (uint16_t)k);
	if (rc < 0) {
		rc = errno != 0 ? -errno : -EIO;
		atomic_store_explicit(&cap->error, (int)rc, memory_order_relaxed);
		WEFT_LOG(observe, ERR, "capture of %s ends: %s", weft_port_name(cap->port),
		         strerror((int)-rc));
		k = 0;
	} else {
		atomic_store_explicit(&cap->file_bytes, bytes, memory_order_relaxed);
	}
	atomic_fetch_add_explicit(&cap->packets, k, memory_order_relaxed);
	atomic_fetch_add_explicit(&cap->late, n - k, memory_order_relaxed);
	rte_pktmbuf_free_bulk(m, n);
	return n;
}

static void *
capture_main(void *arg)
{
	struct weft_capture *cap = arg;

	for (;;) {
		/* Read `stop` before the queue, so packets queued before the stop are written. */
		bool stop = atomic_load_explicit(&cap->stop, memory_order_acquire) != 0;

		if (capture_write(cap) > 0)
			continue;
		if (stop)
			return NULL;
		usleep(CAPTURE_WAIT_US);
	}
}

static void
capture_attach(struct weft_port *port, struct weft_netif_capture *nc)
{
	struct weft_netif *nif;

	for (unsigned int i = 0; (nif = weft_engine_port_netif(port, i)) != NULL; i++)
		weft_netif_set_capture(nif, nc);
}

static int
capture_open(struct weft_capture *cap, const char *path)
{
	struct utsname un;
	struct stat sb;

	/* O_NONBLOCK: a FIFO without a reader must not block, here or in capture_end(). */
	cap->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0600);
	if (cap->fd < 0)
		return -errno;
	if (fstat(cap->fd, &sb) != 0 || !S_ISREG(sb.st_mode)) {
		close(cap->fd);
		return -EINVAL;
	}
	if (uname(&un) != 0)
		un = (struct utsname){.sysname = "", .machine = ""};
	cap->file = rte_pcapng_fdopen(cap->fd, un.sysname, un.machine, "weft " WEFT_VERSION, NULL);
	if (cap->file == NULL) {
		close(cap->fd);
		return -EIO;
	}
	atomic_init(&cap->file_bytes, (uint64_t)RTE_MAX(lseek(cap->fd, 0, SEEK_CUR), (off_t)0));
	return 0;
}

static int
capture_thread(struct weft_capture *cap)
{
	sigset_t old;
	int rc;

	weft_block_signals(&old);
	rc = pthread_create(&cap->thread, NULL, capture_main, cap);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		(void)pthread_setname_np(cap->thread, "weft-capture");
	return -rc;
}

static int
capture_end_from(const struct sockaddr_storage *ss, struct weft_netif_capture_end *e)
{
	static const struct weft_ip any6;

	if (ss->ss_family == 0)
		return 0;
	if (weft_ip_from_sockaddr((const struct sockaddr *)ss, &e->addr, &e->port) != 0)
		return -EINVAL;
	if (weft_ip_is_v4(&e->addr) && weft_ip_v4(&e->addr) == 0)
		e->addr = any6;
	return 0;
}

/** The program, the telemetry thread and teardown use captures from different threads. */
static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, weft_capture) captures = LIST_HEAD_INITIALIZER(captures); /**< by the lock */

/** The capture of a port, which has at most one; NULL: none. The caller holds the lock. */
static struct weft_capture *
capture_of(const struct weft_port *port)
{
	struct weft_capture *cap;

	LIST_FOREACH (cap, &captures, link)
		if (cap->port == port)
			return cap;
	return NULL;
}

static int
capture_begin(struct weft_port *port, const struct weft_capture_attr *attr)
{
	const struct weft_netif_port *dev = weft_engine_port_dev(port);
	struct weft_netif_capture_attr na = {.port_id = dev->port_id, .mtu_bytes = dev->mtu_bytes};
	struct weft_capture_attr a;
	struct weft_capture *cap;
	int rc = weft_attr_copy(&a, sizeof(a), attr);

	if (rc < 0)
		return rc;
	if (a.path == NULL || a.queue_packets > CAPTURE_QUEUE_MAX ||
	    capture_end_from(&a.local, &na.local) < 0 ||
	    capture_end_from(&a.remote, &na.remote) < 0)
		return -EINVAL;
	if (capture_of(port) != NULL)
		return -EBUSY;
	na.snaplen_bytes = a.snaplen_bytes;
	na.queue_packets = rte_align32pow2(a.queue_packets != 0 ? a.queue_packets : CAPTURE_QUEUE);
	cap = calloc(1, sizeof(*cap));
	if (cap == NULL)
		return -ENOMEM;
	cap->port = port;
	cap->max_bytes = a.max_bytes;
	rc = weft_netif_capture_create(&na, &cap->nc);
	if (rc < 0)
		goto free_cap;
	rc = capture_open(cap, a.path);
	if (rc < 0)
		goto free_nc;
	rc = capture_thread(cap);
	if (rc < 0)
		goto close_file;
	LIST_INSERT_HEAD(&captures, cap, link);
	capture_attach(port, cap->nc);
	return 0;
close_file:
	rte_pcapng_close(cap->file);
free_nc:
	weft_netif_capture_destroy(cap->nc);
free_cap:
	free(cap);
	return rc;
}

int
weft_capture_start(struct weft_port *port, const struct weft_capture_attr *attr)
{
	int rc;

	if (WEFT_HANDLE_BAD(port, PORT))
		return -EINVAL;
	pthread_mutex_lock(&capture_lock);
	rc = capture_begin(port, attr);
	pthread_mutex_unlock(&capture_lock);
	return rc;
}

static void
capture_figures(const struct weft_capture *cap, struct weft_capture_stats *st)
{
	struct weft_netif_capture_stats ns;

	weft_netif_capture_stats(cap->nc, &ns);
	*st = (struct weft_capture_stats){
	        .packets = atomic_load_explicit(&cap->packets, memory_order_relaxed),
	        .file_bytes = atomic_load_explicit(&cap->file_bytes, memory_order_relaxed),
	        .dropped = ns.dropped + atomic_load_explicit(&cap->late, memory_order_relaxed),
	        .error = atomic_load_explicit(&cap->error, memory_order_relaxed),
	};
}

int
weft_capture_stats(struct weft_port *port, struct weft_capture_stats *st)
{
	struct weft_capture *cap;
	int rc = -ENOENT;

	if (WEFT_HANDLE_BAD(port, PORT) || st == NULL)
		return -EINVAL;
	pthread_mutex_lock(&capture_lock);
	cap = capture_of(port);
	if (cap != NULL) {
		capture_figures(cap, st);
		rc = 0;
	}
	pthread_mutex_unlock(&capture_lock);
	return rc;
}

static void
capture_end(struct weft_capture *cap, struct weft_capture_stats *st)
{
	capture_attach(cap->port, NULL);
	LIST_REMOVE(cap, link);
	atomic_store_explicit(&cap->stop, 1, memory_order_release);
	(void)pthread_join(cap->thread, NULL);
	if (st != NULL)
		capture_figures(cap, st);
	rte_pcapng_close(cap->file);
	weft_netif_capture_destroy(cap->nc);
	free(cap);
}

int
weft_capture_stop(struct weft_port *port, struct weft_capture_stats *st)
{
	struct weft_capture *cap;
	int rc = -ENOENT;

	if (WEFT_HANDLE_BAD(port, PORT))
		return -EINVAL;
	pthread_mutex_lock(&capture_lock);
	cap = capture_of(port);
	if (cap != NULL) {
		capture_end(cap, st);
		rc = 0;
	}
	pthread_mutex_unlock(&capture_lock);
	return rc;
}

void
observe_capture_end(struct weft_port *port)
{
	(void)weft_capture_stop(port, NULL);
}
