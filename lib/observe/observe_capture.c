/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Captures of a port: the pcapng file and the thread that writes it. */

#define ALLOW_EXPERIMENTAL_API /* rte_pcapng */

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
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
	char *path;          /**< of a ring, without the number */
	uint32_t ring_files; /**< 0: one file */
	uint64_t ring_bytes; /**< in this file of the ring */
	pthread_t thread;
	_Atomic uint32_t stop;
	/* written by the thread, read by others */
	_Atomic uint64_t packets, file_bytes, late, files;
	_Atomic int error;
};

static int capture_open(struct weft_capture *cap, const char *path, int flags);

/** Open the next file of a ring, and end the one before. -errno; ENAMETOOLONG. */
static int
capture_next(struct weft_capture *cap)
{
	const uint64_t n = atomic_load_explicit(&cap->files, memory_order_relaxed);
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s.%" PRIu64, cap->path, n % cap->ring_files) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	if (cap->file != NULL)
		rte_pcapng_close(cap->file);
	cap->file = NULL;
	/* The name is chosen here, and used long after the start: no link is followed. */
	return capture_open(cap, path, O_NOFOLLOW);
}

/** The write failed: the capture takes no more packets. */
static void
capture_broken(struct weft_capture *cap, int rc)
{
	atomic_store_explicit(&cap->error, rc, memory_order_relaxed);
	WEFT_LOG(observe, ERR, "capture of %s ends: %s", weft_port_name(cap->port), strerror(-rc));
}

/** With a ring: begin the next file if this packet does not fit into the file. */
static void
capture_turn(struct weft_capture *cap, uint32_t len)
{
	int rc;

	if (cap->ring_files == 0 || cap->ring_bytes + len <= cap->max_bytes ||
	    atomic_load_explicit(&cap->error, memory_order_relaxed) != 0)
		return;
	rc = capture_next(cap);
	if (rc < 0)
		capture_broken(cap, rc);
}

/** How many of these packets the file has room for, and their octets. */
static unsigned int
capture_fit(const struct weft_capture *cap, struct rte_mbuf **m, unsigned int n, uint64_t *len)
{
	const uint64_t have =
	        cap->ring_files > 0 ? cap->ring_bytes
	                            : atomic_load_explicit(&cap->file_bytes, memory_order_relaxed);
	unsigned int k = 0;

	*len = 0;
	while (k < n && atomic_load_explicit(&cap->error, memory_order_relaxed) == 0 &&
	       (cap->max_bytes == 0 || have + *len + m[k]->pkt_len <= cap->max_bytes))
		*len += m[k++]->pkt_len;
	return k;
}

/** Give packets that were just drained the time of day. It is read for each burst: a frequency of
 * the TSC that was measured once is some ms off after a day. */
static void
capture_stamp(struct rte_mbuf **m, unsigned int n)
{
	struct weft_engine_moment now;

	if (n == 0)
		return;
	now = weft_engine_moment_now();
	for (unsigned int i = 0; i < n; i++)
		weft_netif_capture_stamp(m[i],
		                         weft_engine_moment_of(&now, weft_netif_capture_tsc(m[i])));
}

/** Take one burst from the queue and write it. Returns the number of packets taken. */
static unsigned int
capture_write(struct weft_capture *cap)
{
	struct rte_mbuf *m[CAPTURE_BURST];
	unsigned int n = weft_netif_capture_drain(cap->nc, m, CAPTURE_BURST), done = 0, k;
	uint64_t len;

	capture_stamp(m, n);
	do {
		if (done < n)
			capture_turn(cap, m[done]->pkt_len);
		k = capture_fit(cap, m + done, n - done, &len);
		if (k == 0)
			break;
		if (rte_pcapng_write_packets(cap->file, m + done, (uint16_t)k) < 0) {
			capture_broken(cap, errno != 0 ? -errno : -EIO);
			break;
		}
		done += k;
		cap->ring_bytes += len;
		atomic_fetch_add_explicit(&cap->file_bytes, len, memory_order_relaxed);
		atomic_fetch_add_explicit(&cap->packets, k, memory_order_relaxed);
	} while (cap->ring_files > 0 && done < n);
	atomic_fetch_add_explicit(&cap->late, n - done, memory_order_relaxed);
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
capture_open(struct weft_capture *cap, const char *path, int flags)
{
	struct utsname un;
	struct stat sb;

	/* O_NONBLOCK: a FIFO without a reader must not block, here or in capture_end(). */
	cap->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | flags, 0600);
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
	cap->ring_bytes = (uint64_t)RTE_MAX(lseek(cap->fd, 0, SEEK_CUR), (off_t)0);
	atomic_fetch_add_explicit(&cap->file_bytes, cap->ring_bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&cap->files, 1, memory_order_relaxed);
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

/** The filter of these attributes. -EINVAL. */
static int
capture_filter_of(const struct weft_capture_attr *a, struct weft_netif_capture_filter *f)
{
	memset(f, 0, sizeof(*f));
	if (a->port > UINT16_MAX || a->keep_unknown > 1)
		return -EINVAL;
	f->port = (uint16_t)a->port;
	f->opcodes = a->opcodes;
	f->keep_unknown = a->keep_unknown != 0;
	return capture_end_from(&a->local, &f->local) < 0 ||
	                       capture_end_from(&a->remote, &f->remote) < 0
	               ? -EINVAL
	               : 0;
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
	    a.ring_files > WEFT_CAPTURE_FILES_MAX ||
	    (a.ring_files > 0 && a.max_bytes < WEFT_CAPTURE_FILE_MIN) ||
	    capture_filter_of(&a, &na.filter) < 0)
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
	cap->ring_files = a.ring_files;
	cap->path = strdup(a.path);
	if (cap->path == NULL) {
		free(cap);
		return -ENOMEM;
	}
	rc = weft_netif_capture_create(&na, &cap->nc);
	if (rc < 0)
		goto free_cap;
	rc = a.ring_files > 0 ? capture_next(cap) : capture_open(cap, a.path, 0);
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
	free(cap->path);
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

int
weft_capture_filter(struct weft_port *port, const struct weft_capture_attr *attr)
{
	struct weft_netif_capture_filter filter;
	struct weft_capture_attr a;
	struct weft_capture *cap;
	int rc;

	if (WEFT_HANDLE_BAD(port, PORT))
		return -EINVAL;
	rc = weft_attr_copy(&a, sizeof(a), attr);
	if (rc == 0)
		rc = capture_filter_of(&a, &filter);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&capture_lock);
	cap = capture_of(port);
	if (cap != NULL) {
		capture_attach(port, NULL);
		weft_netif_capture_set_filter(cap->nc, &filter);
		capture_attach(port, cap->nc);
	} else {
		rc = -ENOENT;
	}
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
	        .files = atomic_load_explicit(&cap->files, memory_order_relaxed),
	        .unknown = ns.unknown,
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
	/* NULL: the next file of a ring could not be opened. */
	if (cap->file != NULL)
		rte_pcapng_close(cap->file);
	weft_netif_capture_destroy(cap->nc);
	free(cap->path);
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
