/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Keeps the packets of slow operations (target_slow_pcap.h). */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "addr.h"
#include "target.h"
#include "target_capture.h"
#include "target_pcap.h"
#include "target_slow.h"
#include "target_slow_pcap.h"
#include "ui.h"

#define NS_PER_MS 1000000ULL
#define NS_PER_S  1000000000ULL
#define LOOK_MS   200U             /* between two looks */
#define PART      9U               /* and at least so many times as long as a look takes */
#define SETTLE_NS (20 * NS_PER_MS) /* the capture has written what is so old */
#define MARGIN_NS (10 * NS_PER_MS)
#define ANSWER_NS (500 * NS_PER_MS)
#define END_NS    (500 * NS_PER_MS) /* the last look has so long: the program's thread waits */
#define WANTS_MAX (SLOW_PCAP_ALL / SLOW_PCAP_BYTES) /* of a worker, in one look */

struct kept {
	uint32_t worker;
	uint64_t number;
	struct pcap_took took;
	bool used;
};

/** The copy of a worker's slow operations. The worker has it while asked != answered. */
struct ask {
	struct target_worker *tw;
	struct slow_ring copy;
	uint32_t asked;
	atomic_uint answered; /**< a release behind the copy */
	uint64_t next;        /**< number of the first operation that was not looked at */
};

struct slow_pcap {
	struct target *t;
	pthread_t thread;
	bool running; /**< the program's thread */
	/** By ui_now_ns(); UINT64_MAX: no end is asked for. What the thread does not have by then
	 * it leaves. Relaxed. */
	atomic_ullong until_ns;
	pthread_mutex_t lock; /**< of what follows */
	pthread_cond_t wake;
	bool ends;
	struct kept kept[SLOW_PCAP_KEPT]; /**< in a circle */
	uint32_t at;                      /**< where the next one goes */
	size_t bytes;
	/* the thread alone */
	struct ask ask[CONF_WORKERS_MAX];
};

/* ---- What is kept; under the lock ---- */

static void
drop(struct slow_pcap *sp, struct kept *k)
{
	sp->bytes -= k->took.cap;
	free(k->took.buf);
	*k = (struct kept){0};
}

/** Keep what was taken, and own it. The oldest ones go where there is no room. */
static void
keep(struct slow_pcap *sp, uint32_t worker, uint64_t number, const struct pcap_took *took)
{
	struct kept *k = &sp->kept[sp->at];

	if (k->used)
		drop(sp, k);
	sp->bytes += took->cap;
	for (uint32_t i = 1; sp->bytes > SLOW_PCAP_ALL && i < SLOW_PCAP_KEPT; i++) {
		struct kept *old = &sp->kept[(sp->at + i) % SLOW_PCAP_KEPT];

		if (old->used)
			drop(sp, old);
	}
	*k = (struct kept){.worker = worker, .number = number, .took = *took, .used = true};
	sp->at = (sp->at + 1) % SLOW_PCAP_KEPT;
}

static const struct kept *
find(const struct slow_pcap *sp, uint32_t worker, uint64_t number)
{
	for (uint32_t i = 0; i < SLOW_PCAP_KEPT; i++)
		if (sp->kept[i].used && sp->kept[i].worker == worker &&
		    sp->kept[i].number == number)
			return &sp->kept[i];
	return NULL;
}

struct slow_pcap_info
slow_pcap_look(struct target *t, uint32_t worker, uint64_t number)
{
	struct slow_pcap *sp = atomic_load_explicit(&t->slow_pcap, memory_order_acquire);
	struct slow_pcap_info info = {0};
	const struct kept *k;

	if (sp == NULL)
		return info;
	pthread_mutex_lock(&sp->lock);
	k = find(sp, worker, number);
	if (k != NULL)
		info = (struct slow_pcap_info){
		        .looked = true, .packets = k->took.packets, .left = k->took.left};
	pthread_mutex_unlock(&sp->lock);
	return info;
}

uint8_t *
slow_pcap_copy(struct target *t, uint32_t worker, uint64_t number, size_t *len)
{
	struct slow_pcap *sp = atomic_load_explicit(&t->slow_pcap, memory_order_acquire);
	const struct kept *k;
	uint8_t *copy = NULL;

	if (sp == NULL)
		return NULL;
	pthread_mutex_lock(&sp->lock);
	k = find(sp, worker, number);
	if (k != NULL && k->took.packets > 0 && (copy = malloc(k->took.len)) != NULL) {
		memcpy(copy, k->took.buf, k->took.len);
		*len = k->took.len;
	}
	pthread_mutex_unlock(&sp->lock);
	return copy;
}

/* ---- A look; the thread ---- */

static void
ask_run(void *arg)
{
	struct ask *a = arg;

	memcpy(&a->copy, a->tw->slow, sizeof(a->copy));
	atomic_fetch_add_explicit(&a->answered, 1, memory_order_release);
}

/** Whether there is time left. */
static bool
in_time(void *arg)
{
	struct slow_pcap *sp = arg;

	return ui_now_ns() < atomic_load_explicit(&sp->until_ns, memory_order_relaxed);
}

/** Have the worker copy its operations. False: it has not done so in time; it will. */
static bool
ask(struct slow_pcap *sp, struct ask *a)
{
	const uint64_t until = ui_now_ns() + ANSWER_NS;

	if (atomic_load_explicit(&a->answered, memory_order_acquire) == a->asked) {
		if (weft_worker_call(a->tw->w, ask_run, a) != 0)
			return false;
		a->asked++;
	}
	while (atomic_load_explicit(&a->answered, memory_order_acquire) != a->asked) {
		if (ui_now_ns() >= until || !in_time(sp))
			return false;
		usleep(200);
	}
	return true;
}

/** "10.0.0.7:58063", "[fd00::7]:58063" */
static bool
peer_of(const char *text, struct sockaddr_storage *out)
{
	const char *colon = strrchr(text, ':');
	char host[64];
	uint64_t port;
	size_t n;

	if (colon == NULL || ui_parse_u64(colon + 1, 0, UINT16_MAX, &port) != 0)
		return false;
	n = (size_t)(colon - text);
	if (n >= 2 && text[0] == '[') {
		text++;
		n -= 2;
	}
	snprintf(host, sizeof(host), "%.*s", (int)n, text);
	return addr_parse(host, (uint16_t)port, out) == 0;
}

/** A file of a capture, and when it was written to last. */
struct file {
	char path[CAPTURE_PATH_MAX + 16];
	uint64_t at_ns;
};

static int
earlier_first(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/** The packets of the files of a capture. False: there was no time for all files. */
static bool
look_files(struct slow_pcap *sp, const struct capture *c, struct pcap_want *w, unsigned int n)
{
	struct file *f = calloc(c->files, sizeof(*f));
	uint64_t from = UINT64_MAX;
	unsigned int nfiles = 0;
	bool whole = true;
	struct stat st;

	if (f == NULL)
		return true;
	for (unsigned int i = 0; i < n; i++)
		from = w[i].from_ns < from ? w[i].from_ns : from;
	for (uint32_t i = 0; i < c->files; i++) {
		struct file *one = &f[nfiles];

		if (c->files == 1)
			snprintf(one->path, sizeof(one->path), "%s", c->path);
		else
			snprintf(one->path, sizeof(one->path), "%s.%u", c->path, i);
		if (stat(one->path, &st) != 0)
			continue;
		one->at_ns = (uint64_t)st.st_mtim.tv_sec * NS_PER_S + (uint64_t)st.st_mtim.tv_nsec;
		/* The file system's clock is the tick's. */
		nfiles += one->at_ns + MARGIN_NS >= from;
	}
	qsort(f, nfiles, sizeof(*f), earlier_first);
	for (unsigned int i = 0; whole && i < nfiles; i++) {
		int fd = open(f[i].path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

		/* One that the ring begins anew meanwhile gives what it gave until then. */
		if (fd >= 0) {
			whole = pcap_take(fd, w, n, in_time, sp) != -ECANCELED;
			close(fd);
		}
	}
	free(f);
	return whole;
}

/** Look for the packets of operations of one worker. */
static void
look_ops(struct slow_pcap *sp, uint32_t worker, struct pcap_want *w, const uint64_t *number,
         unsigned int n)
{
	struct capture c;
	bool whole = true;

	for (uint32_t i = 0; whole && i < sp->t->stack.nports; i++) {
		pthread_mutex_lock(&sp->t->captures.lock);
		c = sp->t->captures.of[i];
		pthread_mutex_unlock(&sp->t->captures.lock);
		if (c.path[0] != '\0')
			whole = look_files(sp, &c, w, n);
	}
	pthread_mutex_lock(&sp->lock);
	for (unsigned int i = 0; i < n; i++)
		if (whole)
			keep(sp, worker, number[i], &w[i].took);
		else /* some of its packets would look like all */
			free(w[i].took.buf);
	pthread_mutex_unlock(&sp->lock);
}

/** The first operation with this number or a later one; NULL: none. */
static const struct slow_op *
op_from(const struct slow_ring *r, uint64_t number)
{
	const struct slow_op *best = NULL;

	for (uint32_t i = 0; i < SLOW_KEPT; i++)
		if (r->ops[i].op != NULL && r->ops[i].number >= number &&
		    (best == NULL || r->ops[i].number < best->number))
			best = &r->ops[i];
	return best;
}

static void
look(struct slow_pcap *sp, uint32_t worker, struct ask *a)
{
	const uint64_t now = ui_now_ns();
	struct pcap_want w[WANTS_MAX];
	uint64_t number[WANTS_MAX], to_real;
	const struct slow_op *s;
	struct timespec ts;
	unsigned int n = 0;

	if (!ask(sp, a))
		return;
	clock_gettime(CLOCK_REALTIME, &ts);
	to_real = (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec - ui_now_ns();
	while (n < WANTS_MAX && (s = op_from(&a->copy, a->next)) != NULL &&
	       s->at_ns + SETTLE_NS <= now) {
		a->next = s->number + 1;
		w[n] = (struct pcap_want){
		        .from_ns = to_real + s->at_ns - s->total_ns - MARGIN_NS,
		        .until_ns = to_real + s->at_ns + MARGIN_NS,
		        .took.max = SLOW_PCAP_BYTES,
		};
		number[n] = s->number;
		n += peer_of(s->peer, &w[n].peer);
	}
	if (n > 0)
		look_ops(sp, worker, w, number, n);
}

/** Wait for a time, or for the end. Returns whether it is the end. */
static bool
rest(struct slow_pcap *sp, uint64_t ns)
{
	struct timespec at;
	bool ends;

	clock_gettime(CLOCK_REALTIME, &at);
	ns += (uint64_t)at.tv_nsec;
	at.tv_sec += (time_t)(ns / NS_PER_S);
	at.tv_nsec = (long)(ns % NS_PER_S);
	pthread_mutex_lock(&sp->lock);
	while (!sp->ends && pthread_cond_timedwait(&sp->wake, &sp->lock, &at) == 0)
		;
	ends = sp->ends;
	pthread_mutex_unlock(&sp->lock);
	return ends;
}

static void *
slow_pcap_main(void *arg)
{
	struct slow_pcap *sp = arg;
	uint64_t took = 0;
	bool ends = false;

	while (!ends) {
		const uint64_t ns = took * PART;
		uint64_t began;

		ends = rest(sp, ns > LOOK_MS * NS_PER_MS ? ns : LOOK_MS * NS_PER_MS);
		/* At the end, those that have just ended are looked at, too. */
		if (ends)
			usleep(SETTLE_NS / 1000);
		began = ui_now_ns();
		for (uint32_t i = 0; i < sp->t->stack.nworkers; i++)
			look(sp, i, &sp->ask[i]);
		took = ui_now_ns() - began;
	}
	return NULL;
}

/* ---- Begin and end; the program's thread ---- */

static struct slow_pcap *
slow_pcap_make(struct target *t)
{
	struct slow_pcap *sp = calloc(1, sizeof(*sp));

	if (sp == NULL)
		return NULL;
	sp->t = t;
	pthread_mutex_init(&sp->lock, NULL);
	pthread_cond_init(&sp->wake, NULL);
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		sp->ask[i].tw = &t->workers[i];
	return sp;
}

void
slow_pcap_begin(struct target *t)
{
	struct slow_pcap *sp = atomic_load_explicit(&t->slow_pcap, memory_order_relaxed);

	if (t->metrics == NULL) /* nothing is measured */
		return;
	if (sp == NULL) {
		sp = slow_pcap_make(t);
		atomic_store_explicit(&t->slow_pcap, sp, memory_order_release);
	}
	if (sp == NULL || sp->running)
		return;
	sp->ends = false;
	atomic_store_explicit(&sp->until_ns, UINT64_MAX, memory_order_relaxed);
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		sp->ask[i].next =
		        atomic_load_explicit(&t->workers[i].slow->seen, memory_order_relaxed);
	sp->running = pthread_create(&sp->thread, NULL, slow_pcap_main, sp) == 0;
	if (sp->running)
		(void)pthread_setname_np(sp->thread, "weft-slow");
	else
		ui_msg("capture: no thread for the packets of slow operations: they are not kept");
}

void
slow_pcap_end(struct target *t)
{
	struct slow_pcap *sp = atomic_load_explicit(&t->slow_pcap, memory_order_relaxed);

	if (sp == NULL || !sp->running)
		return;
	atomic_store_explicit(&sp->until_ns, ui_now_ns() + END_NS, memory_order_relaxed);
	pthread_mutex_lock(&sp->lock);
	sp->ends = true;
	pthread_cond_signal(&sp->wake);
	pthread_mutex_unlock(&sp->lock);
	(void)pthread_join(sp->thread, NULL);
	sp->running = false;
}

void
slow_pcap_free(struct target *t)
{
	struct slow_pcap *sp = atomic_load_explicit(&t->slow_pcap, memory_order_relaxed);

	if (sp == NULL)
		return;
	for (uint32_t i = 0; i < SLOW_PCAP_KEPT; i++)
		free(sp->kept[i].took.buf);
	pthread_cond_destroy(&sp->wake);
	pthread_mutex_destroy(&sp->lock);
	free(sp);
	atomic_store_explicit(&t->slow_pcap, NULL, memory_order_relaxed);
}
