/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the volumes of one worker share: memory, channels, and their poller. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "target.h"
#include "target_nvmf.h"
#include "target_round.h"
#include "target_say.h"
#include "target_volume.h"
#include "target_volume_client.h"
#include "target_volume_scrub.h"
#include "target_volume_window.h"
#include "ui.h"

#define PIECE_BYTES 65536U
/* So often channels without operations are polled: LOOK_CHANS of them, then the next ones, because
 * some microseconds go for each one that is not in the processor's caches. */
#define IDLE_LOOK_NS (20 * 1000000ULL)
#define LOOK_CHANS   8U
/* Scrubs of one poll, and of one in which idle channels are looked at, which also a worker without
 * work has. */
#define POLL_SCRUBS 16U
#define LOOK_SCRUBS 256U
#define TOLD_CHANS  16 /* channels of which a device's descriptor tells at once */
#define MIB         (1ULL << 20)
#define DOUBT_MB_S  50                 /* a scrub of groups in doubt is at least so fast */
#define STALL_NS    (500 * 1000000ULL) /* a device that ends nothing for so long has stalled */

/* ---- The poller ---- */

/**
 * A device that has ended nothing for a while keeps memory of READs, and windows. Their clients get
 * all of their share for READs of other volumes, and no client waits for these windows. Answers
 * that the peer has not taken are no matter of the device.
 */
static void
chan_set_apart(struct target_vchan *vc, const struct weft_vol_stats *s)
{
	struct weft_staging_req *req;
	uint64_t ended = 0;

	for (unsigned int i = 0; i < WEFT_VOL_KINDS; i++)
		ended += s->ops[i] + s->errors[i];
	if (s->under_way == 0 || ended != vc->ended) {
		vc->ended = ended;
		vc->ended_ns = vc->vw->now_ns;
		target_vwindows_stall(vc, false);
		return;
	}
	if (vc->vw->now_ns - vc->ended_ns < STALL_NS)
		return;
	target_vwindows_stall(vc, true);
	LIST_FOREACH (req, &vc->staging.held, group_link)
		if (target_vread_is_under_way(req->owner))
			weft_staging_set_apart(vc->vw->staging, req);
}

static void
chan_count(struct target_vchan *vc)
{
	struct weft_vol_stats s;

	weft_vol_query_stats(vc->chan, &s);
	atomic_store_explicit(&vc->damaged, s.damaged, memory_order_relaxed);
	atomic_store_explicit(&vc->told_lost, s.told_lost, memory_order_relaxed);
	atomic_store_explicit(&vc->late, s.late, memory_order_relaxed);
	atomic_store_explicit(&vc->range_waits, s.range_waits, memory_order_relaxed);
	atomic_store_explicit(&vc->in_doubt, s.unverified, memory_order_relaxed);
	chan_set_apart(vc, &s);
}

static void
vworker_show(struct target_vworker *vw)
{
	struct weft_vol_windows_stats w;
	struct weft_staging_stats s;

	weft_vol_windows_query(vw->windows, &w);
	weft_staging_query(vw->staging, &s);
	const uint64_t now[TARGET_VSHOWN] = {
	        [TARGET_VSHOWN_STAGING_FREE] = s.free_bytes,
	        [TARGET_VSHOWN_STAGING_LEAST_FREE] = s.min_free_bytes,
	        [TARGET_VSHOWN_STAGING_GRANTS] = s.grants,
	        [TARGET_VSHOWN_STAGING_WAITS] = s.waits,
	        [TARGET_VSHOWN_STAGING_WAITING] = s.waiting,
	        [TARGET_VSHOWN_STAGING_CLIENTS] = s.clients,
	        [TARGET_VSHOWN_WINDOWS] = w.slots,
	        [TARGET_VSHOWN_WINDOWS_OPEN] = w.open,
	        [TARGET_VSHOWN_WINDOWS_OPENED] = w.opened,
	        [TARGET_VSHOWN_WINDOWS_MOVED] = w.moved,
	        [TARGET_VSHOWN_WINDOWS_OVERLAP] = w.refused_overlap,
	        [TARGET_VSHOWN_FLUSHES] = w.flushes,
	        [TARGET_VSHOWN_FLUSH_ERRORS] = w.flush_errors,
	        [TARGET_VSHOWN_FLUSHED] = w.flushed_octets,
	        [TARGET_VSHOWN_AHEAD] = w.ahead,
	        [TARGET_VSHOWN_AHEAD_REFUSED] = w.ahead_refused,
	        [TARGET_VSHOWN_VERIFIED] = w.verified_octets,
	};

	for (unsigned int i = 0; i < TARGET_VSHOWN; i++)
		atomic_store_explicit(&vw->shown[i], now[i], memory_order_relaxed);
}

/** Poll scrubs, as many as have their turn. */
static void
poll_scrubs(struct target_vworker *vw, uint64_t now_ns, unsigned int most)
{
	struct target_vscrub *first = TAILQ_FIRST(&vw->scrubs), *s;

	for (unsigned int i = 0; i < most && (s = TAILQ_FIRST(&vw->scrubs)) != NULL; i++) {
		/* Of a medium that is away each group would be one that cannot be read. */
		if (atomic_load_explicit(&s->vc->ex->file, memory_order_relaxed) ==
		    TARGET_FILE_HERE) {
			(void)weft_vol_scrub_poll(&s->mend, now_ns);
			(void)weft_vol_scrub_poll(&s->scrub, now_ns);
		}
		TAILQ_REMOVE(&vw->scrubs, s, link);
		TAILQ_INSERT_TAIL(&vw->scrubs, s, link);
		if (TAILQ_FIRST(&vw->scrubs) == first)
			return;
	}
}

/** Poll channels with operations. One that gets its first one meanwhile has its turn in the next
 * round. */
static unsigned int
poll_busy(struct target_vworker *vw, uint64_t now_ns)
{
	const struct target_vchan *last = TAILQ_LAST(&vw->busy, target_vchans);
	struct target_vchan *vc;
	unsigned int done = 0;

	TAILQ_FOREACH (vc, &vw->busy, busy_link) {
		if (vc->told || !weft_vol_is_idle(vc->chan))
			done += weft_vol_poll(vc->chan, now_ns);
		vc->told = false;
		if (vc == last)
			break;
	}
	return done;
}

/** Look at channels: at all that have, or had, operations since the last look, and at some of the
 * others, which are polled, as their devices' states may have changed. */
static unsigned int
look_chans(struct target_vworker *vw, uint64_t now_ns)
{
	const uint32_t n = target_nexports(vw->tw->t);
	struct target_vchan *vc, *next;
	unsigned int done = 0;

	for (vc = TAILQ_FIRST(&vw->busy); vc != NULL; vc = next) {
		next = TAILQ_NEXT(vc, busy_link);
		chan_count(vc);
		if (!weft_vol_is_idle(vc->chan))
			continue;
		TAILQ_REMOVE(&vw->busy, vc, busy_link);
		vc->busy = false;
	}
	for (uint32_t i = 0; i < n && i < LOOK_CHANS; i++) {
		vw->look_at = vw->look_at + 1 < n ? vw->look_at + 1 : 0;
		vc = &vw->chan[vw->look_at];
		if (vc->chan == NULL || vc->busy)
			continue;
		chan_count(vc);
		done += weft_vol_poll(vc->chan, now_ns);
	}
	return done;
}

static unsigned int
vworker_poll(void *arg, uint64_t now_ns)
{
	struct target_vworker *vw = arg;
	const bool look = now_ns >= vw->look_ns;
	unsigned int done = 0;
	eventfd_t v;

	vw->now_ns = now_ns;
	if (look) {
		vw->look_ns = now_ns + IDLE_LOOK_NS;
		(void)eventfd_read(vw->wake_fd, &v);
		vworker_show(vw);
		target_vuntaken_look(vw, now_ns);
	}
	poll_scrubs(vw, now_ns, look ? LOOK_SCRUBS : POLL_SCRUBS);
	if (look)
		done += look_chans(vw, now_ns);
	done += poll_busy(vw, now_ns);
	return done + target_vwindows_poll(vw) + weft_staging_poll(vw->staging);
}

static void
chan_to_busy(struct target_vchan *vc)
{
	if (vc->busy)
		return;
	TAILQ_INSERT_TAIL(&vc->vw->busy, vc, busy_link);
	vc->busy = true;
	/* It had nothing to end, for as long as it was not looked at. */
	vc->ended_ns = vc->vw->now_ns;
}

/** Channels without operations of which the device tells something: they are polled, or what is
 * told would stay and let the worker never sleep. */
static bool
chans_told(struct target_vworker *vw)
{
	struct epoll_event ev[TOLD_CHANS];
	const int n = epoll_wait(vw->epoll_fd, ev, TOLD_CHANS, 0);
	bool any = false;

	for (int i = 0; i < n; i++) {
		struct target_vchan *vc = ev[i].data.ptr;

		if (vc == NULL)
			continue;
		chan_to_busy(vc);
		vc->told = any = true;
	}
	return any;
}

static uint64_t
vworker_next_ns(void *arg)
{
	struct target_vworker *vw = arg;
	const struct target_vchan *vc;
	uint64_t next_ns = vw->look_ns;
	eventfd_t v;
	bool told;

	/* The worker is about to sleep: what has been told by now is seen here. */
	if (eventfd_read(vw->wake_fd, &v) == 0)
		return 0;
	told = chans_told(vw);
	/* Also of a channel that was told of: a driver arms its descriptor when it is asked. */
	TAILQ_FOREACH (vc, &vw->busy, busy_link) {
		const uint64_t one = weft_vol_next_ns(vc->chan);

		next_ns = one < next_ns ? one : next_ns;
	}
	return told ? 0 : next_ns;
}

static void
chan_busy(struct weft_vol_chan *c)
{
	chan_to_busy(weft_vol_chan_owner(c));
}

/** Another worker has ended an operation for which one of ours waits. Any thread. */
static void
chan_wake(struct weft_vol_chan *c)
{
	struct target_vchan *vc = weft_vol_chan_owner(c);

	(void)eventfd_write(vc->vw->wake_fd, 1);
}

/* ---- Memory ---- */

static uint32_t
volumes_wanted(const struct target *t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->conf.nexports; i++)
		n += t->conf.exports[i].format == CONF_FORMAT_VOLUME;
	return n;
}

static void
vworker_free(struct target_vworker *vw)
{
	weft_poller_remove(&vw->poller);
	if (weft_vol_windows_destroy(vw->windows) != 0 || weft_staging_destroy(vw->staging) != 0)
		target_log(UI_WARNING "memory of volumes is in use still");
	if (vw->epoll_fd >= 0)
		close(vw->epoll_fd);
	if (vw->wake_fd >= 0)
		close(vw->wake_fd);
	weft_spare_end(&vw->spare_vios);
	target_table_free(vw, sizeof(*vw));
}

struct poller_call {
	struct target_worker *tw;
	struct target_vworker *vw;
	int rc;
	atomic_bool done; /**< a release behind rc and the worker's `volumes` */
};

static void
poller_call(void *arg)
{
	struct poller_call *call = arg;

	call->rc = weft_poller_add(call->tw->w, &call->vw->poller);
	/* Only now do others see it: it is complete. */
	if (call->rc == 0)
		call->tw->volumes = call->vw;
	atomic_store_explicit(&call->done, true, memory_order_release);
}

/** A poller is added on its worker's thread, when that polls. */
static int
vworker_add_poller(struct target_worker *tw, struct target_vworker *vw)
{
	struct poller_call call = {.tw = tw, .vw = vw};
	int rc;

	if (!tw->t->running) {
		poller_call(&call);
		return call.rc;
	}
	while ((rc = weft_worker_call(tw->w, poller_call, &call)) == -EAGAIN)
		usleep(1000);
	while (rc == 0 && !atomic_load_explicit(&call.done, memory_order_acquire))
		usleep(1000);
	return rc != 0 ? rc : call.rc;
}

static int
vworker_up(struct target *t, struct target_worker *tw, uint8_t *memory, uint64_t bytes)
{
	const struct weft_staging_attr sa = {.memory = memory,
	                                     .bytes = bytes / PIECE_BYTES * PIECE_BYTES,
	                                     .piece_bytes = PIECE_BYTES,
	                                     .max_req_bytes = MIB};
	const struct weft_vol_windows_attr wa = {
	        .bytes = bytes / t->conf.target.window_bytes * t->conf.target.window_bytes,
	        .window_bytes = (uint32_t)t->conf.target.window_bytes,
	        .numa_node = t->numa_node,
	};
	struct target_vworker *vw = target_table_make(sizeof(*vw));
	struct epoll_event ev = {.events = EPOLLIN};
	int rc = 0;

	if (vw == NULL)
		return -ENOMEM;
	vw->tw = tw;
	LIST_INIT(&vw->clients);
	TAILQ_INIT(&vw->untaken);
	TAILQ_INIT(&vw->used);
	TAILQ_INIT(&vw->turns);
	TAILQ_INIT(&vw->ending);
	TAILQ_INIT(&vw->busy);
	TAILQ_INIT(&vw->scrubs);
	vw->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	vw->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (vw->epoll_fd < 0 || vw->wake_fd < 0 ||
	    epoll_ctl(vw->epoll_fd, EPOLL_CTL_ADD, vw->wake_fd, &ev) != 0)
		rc = -errno;
	/* A device that hangs keeps what it has. The others then have the other half. */
	if (volumes_wanted(t) > 1 || t->state != NULL || t->running) {
		vw->volume_staging_bytes = sa.bytes / 2;
		vw->volume_windows = (uint32_t)(wa.bytes / wa.window_bytes / 2);
	}
	if (rc == 0)
		rc = weft_staging_create(&sa, &vw->staging);
	if (rc == 0)
		rc = weft_vol_windows_create(&wa, &vw->windows);
	vw->poller = (struct weft_poller){
	        .poll = vworker_poll, .next_ns = vworker_next_ns, .fd = vw->epoll_fd, .arg = vw};
	if (rc == 0)
		target_metrics_attach_windows(vw);
	if (rc == 0)
		rc = vworker_add_poller(tw, vw);
	if (rc != 0) {
		vworker_free(vw);
		return rc;
	}
	return 0;
}

static int
volumes_make(struct target *t, char *err, size_t err_size)
{
	const uint64_t half = t->conf.target.staging_bytes / 2;
	uint64_t each;
	void *at;
	int rc = 0;

	target_volume_set_workers(t->stack.nworkers);
	/* It is there if an earlier call failed for one of the workers. */
	if (t->staging == NULL) {
		at = target_staging_make(half);
		if (at == NULL) {
			snprintf(err, err_size, "[target] staging: not enough memory; choose less");
			return -ENOMEM;
		}
		t->staging = at;
	}
	each = half / t->stack.nworkers / PIECE_BYTES * PIECE_BYTES;
	for (uint32_t i = 0; i < t->stack.nworkers && rc == 0; i++) {
		struct target_worker *tw = &t->workers[i];

		tw->t = t;
		tw->w = t->stack.workers[i];
		if (tw->volumes == NULL)
			rc = vworker_up(t, tw, t->staging + i * each, each);
	}
	if (rc != 0)
		snprintf(err, err_size, "memory of volumes: %s", strerror(-rc));
	return rc;
}

int
target_volumes_up(struct target *t, char *err, size_t err_size)
{
	return volumes_wanted(t) > 0 ? volumes_make(t, err, err_size) : 0;
}

int
target_volumes_more(struct target *t, char *err, size_t err_size)
{
	bool ready = t->staging != NULL;
	int rc;

	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		ready = ready && t->workers[i].volumes != NULL;
	rc = ready ? 0 : conf_check_volumes(&t->conf, err, err_size);
	return ready || rc != 0 ? rc : volumes_make(t, err, err_size);
}

void
target_volumes_down(struct target *t)
{
	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		struct target_vworker *vw = t->workers[i].volumes;

		if (vw != NULL)
			vworker_free(vw);
		t->workers[i].volumes = NULL;
	}
	target_staging_free(t->staging, t->conf.target.staging_bytes / 2);
	t->staging = NULL;
}

/* ---- Channels ---- */

static void
scrub_damage(struct weft_vol_scrub *s, uint64_t off_bytes, uint64_t blocks)
{
	const struct target_vchan *vc = ((const struct target_vscrub *)s->owner)->vc;

	target_log_export(
	        UI_ERR "export %s: DAMAGED: %llu blocks from offset %llu on do not have their "
	               "checksum",
	        vc->ex->conf->name, (unsigned long long)blocks, (unsigned long long)off_bytes);
	target_bad_range_keep(vc->ex, (struct target_bad_range){.off_bytes = off_bytes,
	                                                        .len_bytes = blocks * 4096,
	                                                        .status = -EBADMSG});
}

static void
scrub_failed(struct weft_vol_scrub *s, uint64_t off_bytes, int status)
{
	const struct target_vscrub *both = s->owner;
	const struct target_vchan *vc = both->vc;

	target_log_export(UI_ERR "export %s: the scrub cannot read at offset %llu: %s",
	                  vc->ex->conf->name, (unsigned long long)off_bytes, strerror(-status));
	/* A scrub of groups in doubt asks for them again and again. */
	if (s == &both->mend || !target_is_bad_range(status))
		return;
	target_bad_range_keep(vc->ex, (struct target_bad_range){.off_bytes = off_bytes,
	                                                        .len_bytes = 0,
	                                                        .status = status});
}

static void
scrub_doubt(struct weft_vol_scrub *s, uint64_t groups)
{
	const struct target_vchan *vc = ((const struct target_vscrub *)s->owner)->vc;

	if (groups > 0)
		target_log_export(UI_WARNING
		                  "export %s: what is read of %llu groups of 4 MiB is not compared "
		                  "with its checksums, which are in doubt; they are made again of "
		                  "what is there now, at %llu MiB a second",
		                  vc->ex->conf->name, (unsigned long long)groups,
		                  (unsigned long long)(s->bytes_per_s / MIB));
	else
		target_log_export("export %s: no checksums are in doubt any more: all that is read "
		                  "is compared",
		                  vc->ex->conf->name);
}

/** On the first worker, of a volume with checksums. */
static void
chan_scrub(struct target_vchan *vc, uint64_t now_ns)
{
	const uint64_t mb_s = vc->ex->conf->scrub_mb_s;
	struct target_vscrub *s = vc->scrubs;

	s->vc = vc;
	s->scrub = (struct weft_vol_scrub){.bytes_per_s = mb_s * MIB,
	                                   .damage = scrub_damage,
	                                   .failed = scrub_failed,
	                                   .owner = s};
	if (mb_s > 0)
		weft_vol_scrub_start(&s->scrub, vc->chan, now_ns);
	s->mend = (struct weft_vol_scrub){.bytes_per_s =
	                                          (mb_s > DOUBT_MB_S ? mb_s : DOUBT_MB_S) * MIB,
	                                  .damage = scrub_damage,
	                                  .failed = scrub_failed,
	                                  .doubt = scrub_doubt,
	                                  .owner = s,
	                                  .only_doubted = true};
	weft_vol_scrub_start(&s->mend, vc->chan, now_ns);
	TAILQ_INSERT_TAIL(&vc->vw->scrubs, s, link);
	s->polled = true;
}

/** On the worker, or it is stopped. What is under way of it ends later. */
static void
chan_scrub_stop(struct target_vchan *vc)
{
	struct target_vscrub *s = vc->scrubs;

	if (vc->chan == NULL || s == NULL || !s->polled)
		return;
	weft_vol_scrub_stop(&s->mend);
	weft_vol_scrub_stop(&s->scrub);
	TAILQ_REMOVE(&vc->vw->scrubs, s, link);
	s->polled = false;
}

/** A channel that is handed to its worker, or taken back. */
struct chan_call {
	struct target_round round;
	struct target_vchan *vc;
	struct weft_vol_chan *chan;
};

static void
chan_take(void *arg)
{
	struct chan_call *call = arg;
	struct target_vchan *vc = call->vc;
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = vc};
	const int fd = weft_vol_chan_fd(call->chan);
	const bool ok = fd < 0 || epoll_ctl(vc->vw->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;

	vc->chan = call->chan;
	if (vc->scrubs != NULL)
		chan_scrub(vc, weft_worker_now_ns(vc->vw->tw->w));
	target_round_done(&call->round, ok);
}

static void
chan_leave(void *arg)
{
	struct chan_call *call = arg;
	struct target_vchan *vc = call->vc;
	const int fd = weft_vol_chan_fd(vc->chan);

	bool ok;

	chan_scrub_stop(vc);
	ok = weft_vol_is_idle(vc->chan);
	if (ok) {
		if (fd >= 0)
			(void)epoll_ctl(vc->vw->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		call->chan = vc->chan;
		vc->chan = NULL;
		if (vc->busy)
			TAILQ_REMOVE(&vc->vw->busy, vc, busy_link);
		vc->busy = false;
	}
	target_round_done(&call->round, ok);
}

/** No worker has the channels. */
static void
scrubs_free(struct target *t, const struct target_export *ex)
{
	struct target_vchan *vc = target_vchan_of(&t->workers[0], ex);

	free(vc->scrubs);
	vc->scrubs = NULL;
}

int
target_volume_attach(struct target *t, struct target_export *ex, char *err, size_t err_size)
{
	struct chan_call calls[CONF_WORKERS_MAX] = {0};
	struct target_volume *v = ex->volume;
	int rc;

	rc = weft_block_mem_add(v->block, t->staging, t->conf.target.staging_bytes / 2);
	if (rc == 0)
		rc = target_nvmf_memory(t, v->block);
	for (uint32_t i = 0; i < t->stack.nworkers && rc == 0; i++) {
		const struct weft_persist *m =
		        weft_vol_windows_medium(t->workers[i].volumes->windows);

		rc = weft_block_mem_add(v->block, m->base, m->bytes);
	}
	for (uint32_t i = 0; i < t->stack.nworkers && rc == 0; i++) {
		struct target_vchan *vc = target_vchan_of(&t->workers[i], ex);
		const struct weft_vol_chan_attr a = {
		        .wake = chan_wake, .busy = chan_busy, .owner = vc};

		vc->ex = ex;
		vc->vw = t->workers[i].volumes;
		calls[i].vc = vc;
		if (i == 0 && weft_vol_info(v->vol)->sums) {
			vc->scrubs = calloc(1, sizeof(*vc->scrubs));
			rc = vc->scrubs != NULL ? 0 : -ENOMEM;
		}
		if (rc == 0)
			rc = weft_vol_chan_open(v->vol, &a, &calls[i].chan);
	}
	if (rc == 0 && target_round(t, calls, sizeof(calls[0]), chan_take)) {
		target_nvmf_enter(t, ex);
		return 0;
	}
	if (rc == 0) {
		(void)target_volume_detach(t, ex);
		rc = -ENOMEM;
	} else {
		for (uint32_t i = 0; i < t->stack.nworkers; i++)
			(void)weft_vol_chan_close(calls[i].chan);
		scrubs_free(t, ex);
	}
	snprintf(err, err_size, "export %s: cannot be reached by the workers: %s", ex->conf->name,
	         strerror(-rc));
	return rc;
}

/** Of a stopped worker: what its poller does. The volumes' clock goes on from its last poll. */
static void
vworker_turn(struct target_vworker *vw, uint64_t *then_ns)
{
	const uint64_t now = ui_now_ns();

	(void)vworker_poll(vw, vw->now_ns + (now - *then_ns));
	*then_ns = now;
}

int
target_volume_detach(struct target *t, struct target_export *ex)
{
	struct chan_call calls[CONF_WORKERS_MAX] = {0};
	const uint64_t end_ns = ui_now_ns() + TARGET_NVMF_LEAVE_MS * 1000000ULL;
	uint64_t then_ns[CONF_WORKERS_MAX];
	int rc = -EBUSY;

	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		calls[i].vc = target_vchan_of(&t->workers[i], ex);
		then_ns[i] = ui_now_ns();
	}
	/* A round may take long, so the time is bounded and not their number. */
	do {
		for (uint32_t i = 0; !t->running && i < t->stack.nworkers; i++)
			vworker_turn(t->workers[i].volumes, &then_ns[i]);
		if (target_nvmf_leave(t, ex) &&
		    target_round(t, calls, sizeof(calls[0]), chan_leave))
			rc = 0;
		else
			usleep(1000);
		for (uint32_t i = 0; i < t->stack.nworkers; i++) {
			(void)weft_vol_chan_close(calls[i].chan);
			calls[i].chan = NULL;
		}
	} while (rc == -EBUSY && ui_now_ns() < end_ns);
	if (rc == 0)
		scrubs_free(t, ex);
	return rc;
}

static void
vworker_stop_scrubs(struct target_vworker *vw)
{
	for (uint32_t k = 0; k < target_nexports(vw->tw->t); k++)
		chan_scrub_stop(&vw->chan[k]);
}

static bool
vworker_is_idle(const struct target_vworker *vw)
{
	for (uint32_t k = 0; k < target_nexports(vw->tw->t); k++)
		if (!weft_vol_is_idle(vw->chan[k].chan))
			return false;
	return true;
}

void
target_volumes_drain(struct target *t, unsigned int timeout_ms)
{
	uint64_t then_ns[CONF_WORKERS_MAX], end_ns = ui_now_ns() + timeout_ms * 1000000ULL;
	bool idle = false;

	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		then_ns[i] = ui_now_ns();
		if (t->workers[i].volumes != NULL)
			vworker_stop_scrubs(t->workers[i].volumes);
	}
	while (!idle && ui_now_ns() < end_ns) {
		idle = true;
		for (uint32_t i = 0; i < t->stack.nworkers; i++) {
			struct target_vworker *vw = t->workers[i].volumes;

			if (vw == NULL)
				continue;
			vworker_turn(vw, &then_ns[i]);
			idle = idle && vworker_is_idle(vw);
		}
		if (!idle)
			usleep(1000);
	}
	if (!idle)
		target_log(UI_ERR
		           "a volume's medium does not answer: what is under way there is given up "
		           "on");
}
