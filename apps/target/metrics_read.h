/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_METRICS_READ_H
#define WEFT_APPS_METRICS_READ_H

/**
 * @file The metrics thread: it reads what is counted, and serves it. From below:
 *
 * - metrics_families.c: the table of all metrics, which documentation is made from
 * - metrics_text.c: a text in the exposition format of Prometheus, version 0.0.4
 * - metrics_clients.c: sums of each client, which workers copy when they are asked to
 * - metrics_health.c: whether the target lives, is ready, and can be stopped
 * - metrics_shown.c: what is shown of each export, kept from scrape to scrape
 * - metrics_exports.c, metrics_render.c: all metrics as a text
 * - metrics_http.c: the thread, and HTTP
 *
 * The thread takes exports_lock for the names of exports, as other threads that are no workers do.
 * It takes no lock that a worker takes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "metrics_count.h"

/* ---- metrics_families.c ---- */

enum metrics_type { METRICS_GAUGE, METRICS_COUNTER, METRICS_HISTOGRAM };

enum metrics_family {
	METRICS_F_INFO,
	METRICS_F_START,
	METRICS_F_READY,
	METRICS_F_SAFE,
	METRICS_F_CONNS,
	METRICS_F_AUTH_PASSED,
	METRICS_F_AUTH_REFUSED,
	METRICS_F_AUTH_LATE,
	METRICS_F_EX_INFO,
	METRICS_F_EX_UP,
	METRICS_F_EX_HELD,
	METRICS_F_EX_CAPACITY,
	METRICS_F_EX_GRANTS,
	METRICS_F_EX_READS,
	METRICS_F_EX_READ_BYTES,
	METRICS_F_EX_WRITES,
	METRICS_F_EX_WRITE_BYTES,
	METRICS_F_EX_FLUSHES,
	METRICS_F_EX_FLUSHED,
	METRICS_F_EX_REFUSED,
	METRICS_F_EX_FAILED,
	METRICS_F_EX_BAD,
	METRICS_F_EX_LOST,
	METRICS_F_EX_DAMAGED,
	METRICS_F_EX_LATE,
	METRICS_F_EX_RANGE,
	METRICS_F_EX_SECONDS,
	METRICS_F_STAGE,
	METRICS_F_SLOWEST,
	METRICS_F_CL_CONNS,
	METRICS_F_CL_GRANTS,
	METRICS_F_CL_WINDOWS,
	METRICS_F_CL_RECV,
	METRICS_F_CL_SENT,
	METRICS_F_CL_RECV_MSGS,
	METRICS_F_CL_SENT_MSGS,
	METRICS_F_CL_LEFT,
	METRICS_F_W_POLLS,
	METRICS_F_W_BUSY,
	METRICS_F_W_POLL,
	METRICS_F_W_CONNS,
	METRICS_F_W_ALL_CONNS,
	METRICS_F_W_SEGS_IN,
	METRICS_F_W_SEGS_OUT,
	METRICS_F_W_RETRANS,
	METRICS_F_W_RTOS,
	METRICS_F_W_CRC,
	METRICS_F_W_MSGS_IN,
	METRICS_F_W_MSGS_OUT,
	METRICS_F_W_TERM_IN,
	METRICS_F_W_TERM_OUT,
	METRICS_F_W_REFUSED,
	METRICS_F_W_CALLS,
	METRICS_F_W_CALLS_MAX,
	METRICS_F_W_STAGING,
	METRICS_F_W_STAGING_WAIT,
	METRICS_F_W_WINDOWS,
	METRICS_F_W_WINDOWS_MAX,
	METRICS_F_P_UP,
	METRICS_F_P_SPEED,
	METRICS_F_P_RX,
	METRICS_F_P_RX_BYTES,
	METRICS_F_P_TX,
	METRICS_F_P_TX_BYTES,
	METRICS_F_P_BAD,
	METRICS_F_P_DROPPED,
	METRICS_F_P_MISSED,
	METRICS_F_SELF_CONNS,
	METRICS_F_SELF_REQUESTS,
	METRICS_F_SELF_REFUSED,
	METRICS_F_SELF_CLOSED,
	METRICS_F_SELF_LATE,
	METRICS_F_SELF_SECONDS,
	METRICS_NFAMILIES
};

struct metrics_family_row {
	const char *name, *unit;
	const char *labels; /**< names, with blanks between */
	const char *help;
	enum metrics_type type;
};

extern const struct metrics_family_row metrics_families[METRICS_NFAMILIES];
extern const char *const metrics_op_names[METRICS_OPS];
extern const char *const metrics_stage_names[METRICS_STAGES];

/* ---- metrics_text.c ---- */

/** A text that grows. Without memory it is `failed`, and writing to it does nothing. */
struct metrics_text {
	char *buf;
	size_t len, cap;
	bool failed;
	enum metrics_family now; /**< whose samples follow */
};

#define METRICS_LABELS_MAX 256U

/** Room for n octets more; false: no memory, and it is failed. */
bool metrics_text_room(struct metrics_text *tx, size_t n);
/** Append another text; one that has failed lets this one fail. */
void metrics_text_append(struct metrics_text *tx, const struct metrics_text *other);
/** Begin a family: its HELP and TYPE lines. */
void metrics_text_family(struct metrics_text *tx, enum metrics_family f);
/** A sample of the family that was begun. labels: of metrics_labels(), or "". */
void metrics_text_u64(struct metrics_text *tx, const char *labels, uint64_t value);
/** The same, of nanoseconds as seconds. */
void metrics_text_ns(struct metrics_text *tx, const char *labels, uint64_t ns);
/** The samples of a histogram: n[i] are below 2^i us. A step of 2 shows every second bucket. */
void metrics_text_hist(struct metrics_text *tx, const char *labels,
                       const uint64_t n[METRICS_BUCKETS], uint64_t sum_ns, unsigned int step);
/** Write pairs of name and value, up to a NULL, as `a="x",b="y"`. Octets that a label may not have
 * are escaped, or '?' where they are no UTF-8. Returns buf. */
const char *metrics_labels(char buf[METRICS_LABELS_MAX], ...) __attribute__((sentinel));

/* ---- metrics_clients.c ---- */

#define METRICS_CLIENTS_MAX 1024U /**< clients that are shown */
/** A worker that has not polled for so long does not live. */
#define METRICS_LIVE_NS 3000000000U

struct metrics_client {
	char key[HOST_AUTH_NAME_MAX + ADDR_STR_MAX + 1];
	uint32_t conns, grants, windows;
	uint64_t seen[METRICS_SUMS]; /**< what the workers have said last */
	uint64_t sum[METRICS_SUMS];  /**< what is shown */
};

struct metrics_clients;

/** NULL: no memory. */
struct metrics_clients *metrics_clients_make(struct metrics *m);
/** No call of a worker is under way, or workers are stopped. */
void metrics_clients_free(struct metrics_clients *mc);
/** Ask the workers, and wait for them a moment. */
void metrics_clients_refresh(struct metrics_clients *mc);
/** What was seen last, by key; *left_out: how many clients are not among them. */
const struct metrics_client *metrics_clients_all(const struct metrics_clients *mc, uint32_t *n,
                                                 uint32_t *left_out, uint64_t *late);
/** Whether every worker polls: each has answered, or was asked just now. Asks those that have
 * answered, and waits for them a moment. *silent: one that does not. */
bool metrics_clients_alive(struct metrics_clients *mc, uint32_t *silent, uint64_t *silent_ns);
/** No call of a worker is under way any more. False: one does not poll. Waits a moment. */
bool metrics_clients_rest(struct metrics_clients *mc);

/* ---- metrics_shown.c ---- */

/** Of all exports, as metrics_shown_read() has found them. */
struct metrics_exports_sum {
	uint32_t exports, served;
	bool busy; /**< one has grants, or operations under way */
};

struct metrics_shown;

/** NULL: no memory. */
struct metrics_shown *metrics_shown_make(struct metrics *m);
/** Does nothing for NULL. */
void metrics_shown_free(struct metrics_shown *ms);
/** Read what is shown of each export. False: no memory. */
bool metrics_shown_read(struct metrics_shown *ms);
const struct metrics_exports_sum *metrics_shown_sum(const struct metrics_shown *ms);
/** Write the families of exports, and that of their operations. */
void metrics_shown_write(struct metrics_shown *ms, struct metrics_text *tx);
/** Name of the export in a slot, as it was read; "": none. */
const char *metrics_shown_name(const struct metrics_shown *ms, unsigned int slot);
/** Add a histogram to sums. */
void metrics_hist_sum(const struct metrics_hist *h, uint64_t n[METRICS_BUCKETS], uint64_t *sum_ns,
                      uint64_t *count);

/* ---- metrics_health.c ---- */

/** Whether a target that is like that is ready: it does not end, it has a port, and it serves an
 * export if it has any. */
bool metrics_is_ready(const struct target *t, uint32_t exports, uint32_t served);

/** Each writes lines for people; true: yes. */
bool metrics_ready(struct target *t, char *buf, size_t size);
bool metrics_safe_to_stop(struct target *t, char *buf, size_t size);

/* ---- metrics_exports.c, metrics_render.c ---- */

/** What the thread knows of itself. */
struct metrics_self {
	uint32_t conns;
	uint64_t requests, refused, slow, idle, pushed_out, render_ns;
};

/** All families of exports and operations. */
void metrics_render_exports(const struct metrics *m, struct metrics_shown *ms,
                            struct metrics_text *tx, uint64_t now_ns);
/** All metrics. */
void metrics_render(struct metrics *m, struct metrics_shown *ms, const struct metrics_clients *mc,
                    const struct metrics_self *self, struct metrics_text *tx);

/* ---- metrics_http.c ---- */

/** Listen where the configuration says, and start the thread. The program's thread; -errno with one
 * line in err. */
int metrics_http_open(struct metrics *m, struct metrics_http **out, char *err, size_t err_size);
/** End the thread. Does nothing for NULL. */
void metrics_http_close(struct metrics_http *h);
/** "127.0.0.1:9471" */
const char *metrics_http_at(const struct metrics_http *h);

#endif /* WEFT_APPS_METRICS_READ_H */
