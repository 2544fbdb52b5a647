/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_HASH_H
#define WEFT_HASH_H

/**
 * @file Hash drivers: how a range is hashed for an RDMA Verify. Installed; stands alone.
 *
 * A driver is one const ops table and one WEFT_HASH_REGISTER() line in a folder of drivers/hash
 * (docs/drivers.md). The driver's functions run on a polling core, one slice at a time, and never
 * block.
 *
 * The functions weft_hash_*() of this header refuse invalid arguments, for example NULL. The
 * functions of a driver check only the key, because they are called for every slice. A direct
 * caller of them passes a state that init() has made, and passes it to final() exactly once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

#define WEFT_HASH_MAX_BYTES     64  /**< longest result of any driver */
#define WEFT_HASH_KEY_MAX_BYTES 256 /**< longest key of any driver */
#define WEFT_HASH_STATE_BYTES   256 /**< room for a running computation */

/** A running computation. The driver stores its own state in it. Only the driver may copy it. */
struct weft_hash_state {
	uint64_t opaque[WEFT_HASH_STATE_BYTES / 8];
};

struct weft_hash_ops {
	/** [required] The name in registrations and configuration: "crc32c". */
	const char *name;
	/** [required] Octets of the result, 1..WEFT_HASH_MAX_BYTES. */
	uint32_t result_bytes;
	/** Shortest and longest key in octets; 0 and 0: the hash takes no key. */
	uint32_t key_min_bytes, key_max_bytes;
	/**
	 * Octets of one update() on a worker, chosen so that it takes about 10 us at most. 0: 32
	 * KiB.
	 */
	uint32_t slice_bytes;
	/**
	 * May be NULL. Does what must be done once in a process so that init() is quick. Called by
	 * any thread, each time a context is created and each time a region is registered; a
	 * repeated call must be cheap. If it returns an error, registrations that name the hash
	 * fail with -EOPNOTSUPP.
	 */
	int (*prepare)(void);
	/**
	 * [required] Start a computation. key belongs to the caller and is valid until the function
	 * returns. It is NULL/0 for a hash without a key. -EINVAL: the key does not fit. May
	 * allocate memory, once for each Verify (-ENOMEM); final() frees it.
	 */
	int (*init)(struct weft_hash_state *st, const void *key, size_t key_bytes);
	/** [required] Hash the next octets. Allocates nothing. */
	void (*update)(struct weft_hash_state *st, const void *data, size_t len_bytes);
	/**
	 * [required] Write result_bytes octets in wire order, and free the state. Called once for
	 * each successful init(), also when the computation is given up before its end.
	 */
	void (*final)(struct weft_hash_state *st, void *result);
};

/**
 * Register a driver, before main(). No other thread may look up drivers at the same time; this is
 * not checked. -EEXIST: the name is taken. -EINVAL: NULL, an empty required slot, or key_min_bytes
 * and key_max_bytes do not fit each other. -ENOSPC: 32 drivers are registered.
 */
int weft_hash_register(const struct weft_hash_ops *ops);
/** Find a driver by name; NULL if there is none, or name is NULL. Any thread. */
const struct weft_hash_ops *weft_hash_find(const char *name);
/** The i-th driver; NULL behind the last. Any thread. */
const struct weft_hash_ops *weft_hash_get(unsigned int i);
/**
 * Whether the key fits the hash (NULL/0: no key). 0, or -EINVAL (also if ops is NULL). Any thread.
 */
int weft_hash_check_key(const struct weft_hash_ops *ops, const void *key, size_t key_bytes);
/**
 * Hash one range of memory. result has room for ops->result_bytes. Any thread. -EINVAL: the hash
 * needs a key; ops or result is NULL; data is NULL and len_bytes is not 0. -ENOMEM, or the driver's
 * error.
 */
int weft_hash_once(const struct weft_hash_ops *ops, const void *data, size_t len_bytes,
                   void *result);
/** The same with a key; NULL/0 for a hash without a key. */
int weft_hash_once_keyed(const struct weft_hash_ops *ops, const void *key, size_t key_bytes,
                         const void *data, size_t len_bytes, void *result);

/**
 * Register a driver at start-up; stands once in the driver's source. The program ends at start-up
 * if the registration fails.
 */
#define WEFT_HASH_REGISTER(id, ops)                                                                \
	static void __attribute__((constructor)) weft_hash_ctor_##id(void)                         \
	{                                                                                          \
		weft_hash_register_or_die(&(ops));                                                 \
	}
void weft_hash_register_or_die(const struct weft_hash_ops *ops);

WEFT_API_END

#endif /* WEFT_HASH_H */
