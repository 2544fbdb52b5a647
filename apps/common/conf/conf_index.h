/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CONF_INDEX_H
#define WEFT_APPS_CONF_INDEX_H

/**
 * @file Exports in an array, found by their names. A target may have thousands of them, and a
 * comparison with each one for each one takes seconds then. Names are the operator's, so the table
 * has no secret key.
 */

#include "conf_export.h"

/** A table of numbers of exports, by their names; {0}: it is empty. The array may move, but an
 * export keeps its number and its name. */
struct conf_index {
	uint32_t *place; /**< number of an export, and 1; 0: free */
	uint32_t size;   /**< a power of 2, at least twice as many as there are exports; or 0 */
};

/** Make an index of the n exports. -ENOMEM. */
int conf_index_make(struct conf_index *x, const struct conf_export *set, uint32_t n);
/** Add the export of number n, which is about to get this name; all below n are in the index.
 * -ENOMEM: it is as it was. */
int conf_index_add(struct conf_index *x, const struct conf_export *set, uint32_t n,
                   const char *name);
/** The number of the export of this name, of n; n: there is none. */
uint32_t conf_index_find(const struct conf_index *x, const struct conf_export *set, uint32_t n,
                         const char *name);
void conf_index_free(struct conf_index *x);

/** Have room for one export more in an array of n that malloc() made, or NULL of none: the array
 * may move. An array that grows by this alone has room for a power of 2. -ENOMEM. */
int conf_exports_room(struct conf_export **set, uint32_t n);
/** A number of a name, as good as random: of two names mostly two. */
uint32_t conf_name_hash(const char *name);

#endif /* WEFT_APPS_CONF_INDEX_H */
