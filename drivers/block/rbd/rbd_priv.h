/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RBD_PRIV_H
#define RBD_PRIV_H

/**
 * @file What the sources of the block driver "rbd" share. rbd_spawn.c starts the process weft-rbd,
 * rbd_watch.c has the thread that watches it, rbd_chan.c the rings of a channel, block_rbd.c is the
 * driver. rbd_proto.h is what driver and process say to each other.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "rbd_proto.h"
#include "weft_base.h"
#include <weft/block.h>

#define RBD_ARG_BYTES       256
#define RBD_DEFAULT_TIMEOUT 30U /* weft-rbd has the same */
/** Time in which a process answers: librbd may give up on what a request waits for, and then on the
 * request. */
#define RBD_ANSWER_S(d) (2ULL * (d)->timeout_s + 2)

/** How far a device is on its way down. It only grows. */
enum rbd_phase {
	RBD_UP,
	RBD_DEAD,   /**< the process has ended: the driver's memory is the driver's alone */
	RBD_FENCED, /**< and the cluster refuses what the process may have left on its way */
};

/** A process that was started, or -1. */
struct rbd_proc {
	pid_t pid;
	int pidfd;
};

struct rbd_chan;

/** An open image. */
struct rbd_disk {
	struct weft_block *block;
	struct rbd_proc proc;
	struct rbd_hello hello;
	uint64_t most_bytes; /**< the length that was asked for; UINT64_MAX: the image's own */
	int call_fd, event_fd;
	int wake_fd; /**< eventfd: rbd_watch_main() is to look at the members below */
	struct rbd_page *page;
	pthread_mutex_t call_lock; /**< one call at a time, by set-up threads */
	pthread_t watcher;
	bool watched;     /**< the thread runs */
	atomic_bool stop; /**< the watcher is to end */
	/** Why the process is to be killed: it or the cluster has failed; NULL: it is not. */
	_Atomic(const char *) fail;
	atomic_bool give_up; /**< likewise, if requests do not end soon: the device is fenced */
	_Atomic int phase;   /**< enum rbd_phase */
	/** a change has failed since the last flush that said so */
	atomic_bool lost;
	_Atomic uint32_t changing; /**< changes that the process has */
	pthread_mutex_t chan_lock; /**< for the table; held for a few instructions */
	struct rbd_chan *chan[RBD_MAX_CHANS];
	/* for the process that blocklists this one */
	char conf[RBD_ARG_BYTES], id[RBD_ARG_BYTES], keyring[RBD_ARG_BYTES];
	char timeout[16];
	unsigned int timeout_s;
	char path[RBD_ARG_BYTES]; /**< for log lines */
	char program[512];
};

/** What is known of a tag that is in use. */
struct rbd_tag {
	struct weft_block_req *req; /**< NULL: canceled, only the slots are still in use */
	uint32_t run;
	uint16_t slots;
	bool busy;        /**< the process has it */
	bool changes;     /**< it may change the image */
	bool unknown;     /**< the process has answered that it does not know the result */
	bool patient;     /**< it may take longer than RBD_ANSWER_S() */
	uint64_t seen_ns; /**< when rbd_look() has found it first; 0: not yet */
	uint16_t slot[RBD_REQ_SLOTS];
};

/** This driver's part of a channel. */
struct rbd_chan {
	struct rbd_disk *disk;
	struct weft_block_chan *chan;
	uint32_t number;
	uint32_t tags, slots;
	void *base; /**< memory shared with the process */
	uint64_t base_bytes;
	struct rbd_ring *ring;
	struct rbd_sqe *sq;
	struct rbd_cqe *cq;
	uint8_t *data;
	int bell_fd;      /**< eventfd: the process has results, or the watcher has news */
	int kick_fd;      /**< eventfd: the process has requests */
	uint32_t sq_tail; /**< the driver's indexes: the shared ones are not read back */
	uint32_t cq_head;
	uint32_t kicked;          /**< sq_tail when the process was told */
	uint32_t run;             /**< counts uses of tags */
	uint32_t copied;          /**< octets copied since the poll began */
	uint64_t now_ns, look_ns; /**< of the last poll; next look for what is not answered */
	bool more;                /**< the last poll has left something for the next one */
	bool broken; /**< the process has written nonsense: its ring is not read any more */
	bool armed;  /**< the bell may have been asked for */
	int seen;    /**< enum rbd_phase, of which the requests know */
	struct weft_block_req *first, *last; /**< taken, and waiting for a tag and slots */
	struct rbd_tag *tag;
	uint32_t *free_tag, nfree_tags;
	uint16_t *free_slot;
	uint32_t nfree_slots;
};

/** This driver's part of a request, in weft_block_req.drv. */
struct rbd_req {
	struct weft_block_req *next; /**< in the queue of its channel */
	uint32_t tag;                /**< UINT32_MAX: it waits in the queue */
};
static_assert(sizeof(struct rbd_req) <= sizeof(((struct weft_block_req *)0)->drv),
              "a request of rbd fits the room that requests have for drivers");

static inline struct rbd_req *
rbd_req_of(struct weft_block_req *req)
{
	return (struct rbd_req *)(void *)req->drv;
}

/* ---- rbd_spawn.c: set-up threads, and the watcher ---- */

/** Find weft-rbd. -ENOTSUP, with the reason. */
int rbd_find_program(struct rbd_disk *d, const struct weft_block_attr *attr);
/** Start weft-rbd for an image, and wait until it is open. Fills d->hello. Undoes what it did if it
 * fails, and says why. */
int rbd_start(struct rbd_disk *d, const struct weft_block_attr *attr, bool take_over);
/** Start a process that blocklists the client of d, and wait for it, 20 s at most. 0 or -errno. */
int rbd_blocklist(const struct rbd_disk *d);
/** Wait until the process has ended, `ms` at most, and take its exit status, for which -1 stands if
 * it is not known. 0 or -ETIMEDOUT. */
int rbd_wait_exit(struct rbd_proc *p, int ms, int *status);
/** SIGKILL. */
void rbd_kill(const struct rbd_proc *p);
/** New memory to share, all zeros, that cannot be made shorter. Sets *fd. -ENOMEM or -errno. */
int rbd_memory(uint64_t bytes, void **base, int *fd);
/** A call with its answer. fds: three descriptors to send along, or NULL. -EIO: the process is
 * gone, or it does not answer; -EPROTO: nonsense. Set-up thread. */
int rbd_call(struct rbd_disk *d, const struct rbd_call *call, const int *fds);
/** Close the image, and end the process, which has no request; a process that does not end is
 * killed. Set-up thread. */
void rbd_stop(struct rbd_disk *d);

/* ---- rbd_watch.c ---- */

int rbd_watch(struct rbd_disk *d);
/** End the watcher. If the process is dead, one attempt to blocklist it is finished first. */
void rbd_unwatch(struct rbd_disk *d);
/** Any thread. The process has to be killed, and its client blocklisted. */
void rbd_fail(struct rbd_disk *d, const char *why);
/** Any thread. The same, unless what the process has ends soon. */
void rbd_give_up(struct rbd_disk *d);

/* ---- rbd_chan.c: the channel's thread ---- */

int rbd_chan_open(struct weft_block_chan *chan);
void rbd_chan_close(struct weft_block_chan *chan);
int rbd_submit(struct weft_block_chan *chan, struct weft_block_req *req);
void rbd_poll(struct weft_block_chan *chan, uint64_t now_ns);
void rbd_cancel(struct weft_block_chan *chan, struct weft_block_req *req);
int rbd_fd(const struct weft_block_chan *chan);
uint64_t rbd_next_ns(const struct weft_block_chan *chan);

#endif /* RBD_PRIV_H */
