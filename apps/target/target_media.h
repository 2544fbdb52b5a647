/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_MEDIA_H
#define WEFT_APPS_TARGET_MEDIA_H

/** @file The media of many exports: whether one of them has the medium of another one. Each file is
 * looked at once. Blocks for the file system; the program's thread. */

#include <stdint.h>

#include "conf_export.h"

struct media_row;

struct media {
	struct media_row *row; /**< a hash table */
	uint32_t size, n;
};

/** An empty set; media_end() frees it. */
void media_begin(struct media *m);
void media_end(struct media *m);
/** Add an export, which has to stay. 0; -EEXIST, with *has: this export of the set has its medium;
 * -ENOMEM. An export without a medium of its own has none that another one may not have. */
int media_add(struct media *m, const struct conf_export *e, const struct conf_export **has);

#endif /* WEFT_APPS_TARGET_MEDIA_H */
