/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_APPLY_H
#define WEFT_APPS_TARGET_APPLY_H

/**
 * @file A set of exports in place of all that were made at run time, all or nothing.
 *
 * A plan says what differs, a change for each export (target_apply_plan.c). It is checked as a
 * whole before the first change. Then what has to be closed is closed, exports.ini is replaced,
 * which is the one step that a crash sees, and what the file says is done (target_apply.c). After a
 * crash in between, the next start does it: an opening makes a file, and gives it its size. A
 * failure puts exports.ini back, and takes back what was done.
 *
 * The program's thread. -errno as target_runtime.h, with one line in err.
 */

#include <jansson.h>

#include "target_export.h"

struct target;

/** In the order in which they are done. */
enum apply_kind {
	APPLY_DELETE,
	APPLY_CREATE,
	APPLY_REOPEN, /**< opened again, perhaps with another size */
	/** What applies at once, or the export is not open. Behind what fails more often: it
	 * revokes grants, and these cannot be put back. */
	APPLY_SET,
	APPLY_SHRINK, /**< opened again; what the volume has beyond its new size is lost */
	APPLY_KINDS,
};

struct apply_change {
	enum apply_kind kind;
	struct conf_export was, now;
	struct target_export *ex; /**< NULL: none has it yet, or the target does not serve it */
	bool held;                /**< of a deletion: it was kept out of service */
	bool shut, done;
	uint8_t doomed[16]; /**< of a deletion: the volume whose reservations go; zeros: none */
};

struct apply_plan {
	struct conf want;             /**< its exports alone */
	struct apply_change *changes; /**< n */
	uint32_t n;
};

struct apply_wish {
	const char *text; /**< sections [export NAME] */
	/** Names of all exports that are deleted, with commas; NULL: none may be. */
	const char *confirm;
	bool shrink; /**< exports may become smaller */
	bool dry;    /**< check, and change nothing */
};

/* ---- target_apply_plan.c ---- */

/** Find what differs. The plan is one that calloc() made, and apply_plan_free() frees. */
int apply_plan(struct target *t, const char *text, struct apply_plan *p, char *err,
               size_t err_size);
/** Whether the plan can be carried out, as far as that is visible without a change. */
int apply_check(struct target *t, const struct apply_plan *p, const struct apply_wish *w, char *err,
                size_t err_size);

/** Does nothing for NULL. */
void apply_plan_free(struct apply_plan *p);

/* ---- target_apply.c ---- */

/** Carry it out. */
int apply_do(struct target *t, struct apply_plan *p, char *err, size_t err_size);

/* ---- target_apply_print.c ---- */

/** The changes as rows of `diff` and `apply`. NULL: no memory. */
json_t *apply_rows(const struct apply_plan *p);

#endif /* WEFT_APPS_TARGET_APPLY_H */
