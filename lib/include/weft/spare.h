/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_SPARE_H
#define WEFT_SPARE_H

/**
 * @file Freed objects of one kind that are kept for their next use, of one thread.
 *
 * For objects of more than a kilobyte that each message needs: for those malloc() has no list of
 * the thread, and joins and splits memory each time. With AddressSanitizer nothing is kept, so that
 * it still sees an object that is used after it was freed. A tool for libraries on top of weft, as
 * weft/ulp.h. Installed; stands alone.
 */

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define WEFT_SPARE_NONE 1
/** Octets that nothing may use before they are unpoisoned, for memory that is kept all the same. */
#define WEFT_POISON(p, n)   __asan_poison_memory_region(p, n)
#define WEFT_UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
#define WEFT_SPARE_NONE     0
#define WEFT_POISON(p, n)   ((void)(p), (void)(n))
#define WEFT_UNPOISON(p, n) ((void)(p), (void)(n))
#endif

/** All zero: empty. */
struct weft_spare {
	void *first; /**< each begins with the address of the next one */
	unsigned int n;
};

/** Memory of `bytes` octets, which are zero, and of one octet for 0; free() it. NULL: no memory.
 * For small objects of each message: calloc() of glibc does not use the thread's list of freed
 * memory, malloc() does. */
static inline void *
weft_spare_zeroed(size_t bytes)
{
	void *p = malloc(bytes != 0 ? bytes : 1);

	return p != NULL ? memset(p, 0, bytes) : NULL;
}

/** An object of `bytes` octets, which are zero; all objects of a list have the same length, of a
 * pointer or more. NULL: no memory. */
static inline void *
weft_spare_get(struct weft_spare *s, size_t bytes)
{
	void *p = s->first;

	if (p == NULL)
		return calloc(1, bytes);
	memcpy(&s->first, p, sizeof(s->first));
	s->n--;
	return memset(p, 0, bytes);
}

/** Free the object, or keep it while there are fewer than `max`. */
static inline void
weft_spare_put(struct weft_spare *s, void *p, unsigned int max)
{
	if (WEFT_SPARE_NONE || s->n >= max) {
		free(p);
		return;
	}
	memcpy(p, &s->first, sizeof(s->first));
	s->first = p;
	s->n++;
}

/** Free what is kept. */
static inline void
weft_spare_end(struct weft_spare *s)
{
	void *p, *next;

	for (p = s->first; p != NULL; p = next) {
		memcpy(&next, p, sizeof(next));
		free(p);
	}
	*s = (struct weft_spare){0};
}

#endif /* WEFT_SPARE_H */
