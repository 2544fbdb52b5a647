/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The registries of hash and persist drivers, and opening a medium by the name of a driver.
 */

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "medium_priv.h"
#include <weft/ulp.h>
#include "weft_handle.h"

WEFT_LOG_REGISTER(medium)

#define MEDIUM_MAX_DRIVERS 32
/** octets hashed once at start-up; the longest key, too */
#define MEDIUM_WARM_BYTES WEFT_HASH_KEY_MAX_BYTES

/* Filled by constructors, before main() and before any other thread; constant afterwards. */
static const struct weft_hash_ops *medium_hash[MEDIUM_MAX_DRIVERS];
static const struct weft_persist_ops *medium_persist[MEDIUM_MAX_DRIVERS];
static unsigned int medium_nhash, medium_npersist;

/** A constructor cannot return an error, and logging is not available yet. */
static void
medium_or_die(int r, const char *kind, const char *name)
{
	if (r == 0)
		return;
	fprintf(stderr, "weft: %s driver \"%s\" cannot be registered: %s\n", kind,
	        name == NULL ? "(no name)" : name, strerror(-r));
	abort();
}

/* ---- Hash ---- */

int
weft_hash_register(const struct weft_hash_ops *ops)
{
	if (ops == NULL || ops->name == NULL || ops->name[0] == '\0' || ops->result_bytes == 0 ||
	    ops->result_bytes > WEFT_HASH_MAX_BYTES || ops->init == NULL || ops->update == NULL ||
	    ops->final == NULL)
		return -EINVAL;
	if (ops->key_min_bytes > ops->key_max_bytes ||
	    ops->key_max_bytes > WEFT_HASH_KEY_MAX_BYTES ||
	    (ops->key_min_bytes == 0) != (ops->key_max_bytes == 0))
		return -EINVAL;
	if (weft_hash_find(ops->name) != NULL)
		return -EEXIST;
	if (medium_nhash == MEDIUM_MAX_DRIVERS)
		return -ENOSPC;
	medium_hash[medium_nhash++] = ops;
	return 0;
}

void
weft_hash_register_or_die(const struct weft_hash_ops *ops)
{
	medium_or_die(weft_hash_register(ops), "hash", ops == NULL ? NULL : ops->name);
}

const struct weft_hash_ops *
weft_hash_find(const char *name)
{
	for (unsigned int i = 0; name != NULL && i < medium_nhash; i++) {
		if (strcmp(medium_hash[i]->name, name) == 0)
			return medium_hash[i];
	}
	return NULL;
}

const struct weft_hash_ops *
weft_hash_get(unsigned int i)
{
	return i < medium_nhash ? medium_hash[i] : NULL;
}

int
weft_hash_check_key(const struct weft_hash_ops *ops, const void *key, size_t key_bytes)
{
	if (ops == NULL || (key == NULL && key_bytes > 0))
		return -EINVAL;
	return key_bytes < ops->key_min_bytes || key_bytes > ops->key_max_bytes ? -EINVAL : 0;
}

int
weft_hash_once_keyed(const struct weft_hash_ops *ops, const void *key, size_t key_bytes,
                     const void *data, size_t len_bytes, void *result)
{
	struct weft_hash_state st;
	int r = weft_hash_check_key(ops, key, key_bytes);

	if (result == NULL || (data == NULL && len_bytes > 0))
		return -EINVAL;
	if (r == 0)
		r = weft_medium_hash_prepare(ops);
	if (r == 0)
		r = ops->init(&st, key_bytes > 0 ? key : NULL, key_bytes);
	if (r != 0)
		return r;
	ops->update(&st, data, len_bytes);
	ops->final(&st, result);
	return 0;
}

int
weft_hash_once(const struct weft_hash_ops *ops, const void *data, size_t len_bytes, void *result)
{
	return weft_hash_once_keyed(ops, NULL, 0, data, len_bytes, result);
}

int
weft_medium_hash_prepare(const struct weft_hash_ops *ops)
{
	return ops->prepare != NULL ? ops->prepare() : 0;
}

/*
 * Hash once and ignore the result. The first use of a library function resolves its symbol and
 * takes page faults, which costs tens of microseconds that must not be spent in a poll.
 */
static int
medium_hash_warm(const struct weft_hash_ops *ops)
{
	static const uint8_t zero[MEDIUM_WARM_BYTES];
	uint8_t result[WEFT_HASH_MAX_BYTES];

	return weft_hash_once_keyed(ops, ops->key_min_bytes > 0 ? zero : NULL, ops->key_min_bytes,
	                            zero, sizeof(zero), result);
}

void
weft_medium_hash_prepare_all(void)
{
	for (unsigned int i = 0; i < medium_nhash; i++) {
		int r = medium_hash_warm(medium_hash[i]);

		if (r != 0)
			WEFT_LOG(medium, WARNING, "hash %s cannot be used: %s",
			         medium_hash[i]->name, strerror(-r));
	}
}

/* ---- Persist ---- */

static_assert(offsetof(struct weft_persist, handle) == 0 &&
                      sizeof(((struct weft_persist *)0)->handle) == sizeof(struct weft_handle),
              "a medium begins with its handle");

int
weft_persist_register(const struct weft_persist_ops *ops)
{
	if (ops == NULL || ops->name == NULL || ops->name[0] == '\0' || ops->open == NULL ||
	    ops->close == NULL || ops->flush == NULL)
		return -EINVAL;
	if (ops->persistent && ops->read_back == NULL)
		return -EINVAL;
	if (ops->read_back != NULL && ops->read_back_max_bytes == 0)
		return -EINVAL;
	if (strcmp(ops->name, "auto") == 0 || weft_persist_find(ops->name) != NULL)
		return -EEXIST;
	if (medium_npersist == MEDIUM_MAX_DRIVERS)
		return -ENOSPC;
	medium_persist[medium_npersist++] = ops;
	return 0;
}

void
weft_persist_register_or_die(const struct weft_persist_ops *ops)
{
	medium_or_die(weft_persist_register(ops), "persist", ops == NULL ? NULL : ops->name);
}

const struct weft_persist_ops *
weft_persist_find(const char *name)
{
	for (unsigned int i = 0; name != NULL && i < medium_npersist; i++) {
		if (strcmp(medium_persist[i]->name, name) == 0)
			return medium_persist[i];
	}
	return NULL;
}

const struct weft_persist_ops *
weft_persist_get(unsigned int i)
{
	return i < medium_npersist ? medium_persist[i] : NULL;
}

const char *
weft_persist_option(const struct weft_persist_attr *attr)
{
	const char *colon;

	if (attr == NULL || attr->driver == NULL)
		return "";
	colon = strchr(attr->driver, ':');
	return colon == NULL ? "" : colon + 1;
}

/**
 * Find a driver by the name in front of the colon; NULL also if it does not have the option behind
 * the colon.
 */
static const struct weft_persist_ops *
medium_find_for(const struct weft_persist_attr *attr)
{
	const char *option = weft_persist_option(attr);
	size_t n = strcspn(attr->driver, ":");

	for (unsigned int i = 0; i < medium_npersist; i++) {
		const struct weft_persist_ops *ops = medium_persist[i];

		if (strlen(ops->name) != n || strncmp(ops->name, attr->driver, n) != 0)
			continue;
		if (attr->driver[n] == '\0')
			return ops;
		for (const char *const *o = ops->options; o != NULL && *o != NULL; o++)
			if (strcmp(*o, option) == 0)
				return ops;
	}
	return NULL;
}

/** Warn if the memory is not on the requested NUMA node, or on several, or on an unknown one. */
static void
medium_check_node(const char *what, int asked, int is)
{
	if (asked < 0 || is == asked)
		return;
	if (is >= 0)
		WEFT_LOG(medium, WARNING, "%s: memory is on NUMA node %d, not on %d as asked", what,
		         is, asked);
	else
		WEFT_LOG(medium, WARNING,
		         "%s: memory is on several NUMA nodes or on an unknown one, not on %d as "
		         "asked",
		         what, asked);
}

static int
medium_open_by(const struct weft_persist_ops *ops, const struct weft_persist_attr *attr,
               struct weft_persist **out)
{
	struct medium_guard *guard = NULL;
	struct weft_persist *p;
	int r;

	if (ops == NULL)
		return -ENODEV;
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return -ENOMEM;
	p->ops = ops;
	p->numa_node = -1;
	r = ops->open(p, attr);
	if (r == 0 && ops->mapped) {
		r = medium_guard_add(p->base, p->bytes, &guard);
		if (r != 0)
			ops->close(p);
	}
	if (r == 0) {
		r = medium_marked_add(p);
		if (r != 0) {
			medium_guard_del(guard);
			ops->close(p);
		}
	}
	p->guard = guard;
	if (r != 0) {
		free(p);
		return r;
	}
	weft_handle_init(WEFT_HANDLE_OF(p), WEFT_KIND(MEDIUM));
	WEFT_LOG(medium, INFO, "%s: %" PRIu64 " bytes, %s, NUMA node %d",
	         attr->path == NULL ? ops->name : attr->path, p->bytes, p->mechanism, p->numa_node);
	medium_check_node(attr->path == NULL ? ops->name : attr->path, attr->numa_node,
	                  p->numa_node);
	*out = p;
	return 0;
}

int
weft_persist_open(const struct weft_persist_attr *attr, struct weft_persist **out)
{
	const struct weft_persist_ops *pmem = weft_persist_find("pmem");
	struct weft_persist_attr a;
	int r = weft_attr_copy(&a, sizeof(a), attr);

	if (r < 0 || a.driver == NULL || out == NULL)
		return -EINVAL;
	if (strcmp(a.driver, "auto") != 0)
		return medium_open_by(medium_find_for(&a), &a, out);
	/* With "auto", pmem returns -ENOTSUP for everything that is not persistent memory. */
	r = pmem == NULL ? -ENOTSUP : medium_open_by(pmem, &a, out);
	return r == -ENOTSUP ? medium_open_by(weft_persist_find("file"), &a, out) : r;
}

int
weft_persist_check(struct weft_persist *p)
{
	if (WEFT_HANDLE_BAD(p, MEDIUM))
		return -EINVAL;
	return p->ops->check != NULL ? p->ops->check(p) : 0;
}

void
weft_persist_close(struct weft_persist *p)
{
	if (p == NULL || WEFT_HANDLE_CLAIM(p, MEDIUM) < 0)
		return;
	medium_marked_del(p);
	medium_guard_del(p->guard);
	p->ops->close(p);
	/* A late weft_persist_mark() finds no pages. */
	p->base = p->dirty = NULL;
	p->bytes = 0;
	weft_handle_end(WEFT_HANDLE_OF(p), WEFT_KIND(MEDIUM));
	weft_handle_free(WEFT_HANDLE_OF(p), offsetof(struct weft_persist, numa_node));
}

static void
medium_flush_done(struct weft_persist_req *req)
{
	*(bool *)req->owner = true;
}

int
weft_persist_flush_wait(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes)
{
	bool done = false;
	struct weft_persist_req req = {
	        .off_bytes = off_bytes,
	        .len_bytes = len_bytes,
	        .flags = WEFT_FLUSH_VISIBLE,
	        .done = medium_flush_done,
	        .owner = &done,
	};
	struct weft_exec *e;
	int r;

	if (WEFT_HANDLE_BAD(p, MEDIUM))
		return -EINVAL;
	if (p->ops->persistent)
		req.flags |= WEFT_FLUSH_PERSISTENT;
	r = weft_exec_create(0, &e);
	if (r != 0)
		return r;
	r = p->ops->flush(p, e, &req);
	while (r == 0 && !done)
		weft_exec_poll(e);
	weft_exec_destroy(e);
	return r != 0 ? r : req.status;
}
