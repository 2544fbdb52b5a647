/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_HASH_H
#define WEFT_HASH_H

/**
 * @file Hash drivers: how a range is hashed for an RDMA Verify. Installed; stands alone. A driver
 * is one const ops table and one WEFT_HASH_REGISTER() line in a folder of drivers/hash
 * (docs/drivers.md). Functions run on a polling core, a slice at a time, and never block.
 *
 * The calls below are refused what they cannot use, NULL above all. The driver's own functions,
 * which are called for each slice, check nothing but the key: who calls them directly hands in a
 * state that init() made, once to final().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

#define WEFT_HASH_MAX_BYTES     64  /**< longest result of any driver */
#define WEFT_HASH_KEY_MAX_BYTES 256 /**< longest key of any driver */
#define WEFT_HASH_STATE_BYTES   256 /**< room for a running computation */

/** A running computation; the driver lays its own state over it. Copyable only by the driver. */
struct weft_hash_state {
	uint64_t opaque[WEFT_HASH_STATE_BYTES / 8];
};

struct weft_hash_ops {
	/** [required] The name in registrations and configuration: "crc32c". */
	const char *name;
	/** [required] Octets of the result, 1..WEFT_HASH_MAX_BYTES. */
	uint32_t result_bytes;
	/** Octets of a key that the hash needs, at least and at most; 0 and 0: it takes none. */
	uint32_t key_min_bytes, key_max_bytes;
	/** Octets of one update() on a worker, so that it takes some 10 us at most; 0: 32 KiB are
	 * fine. */
	uint32_t slice_bytes;
	/**
	 * May be NULL. What must be made once in a process before init() can be quick. Called
	 * whenever a context is created and a region registered, by any thread: again and again,
	 * then at no cost. An error makes registrations that name the hash fail with -EOPNOTSUPP.
	 */
	int (*prepare)(void);
	/**
	 * [required] Start. key: keyed hashes only, else NULL/0 (-EINVAL when it does not fit); the
	 * caller's, good until this returns. May allocate (-ENOMEM), once a Verify; final() frees.
	 */
	int (*init)(struct weft_hash_state *st, const void *key, size_t key_bytes);
	/** [required] Take in the next octets; allocates nothing. */
	void (*update)(struct weft_hash_state *st, const void *data, size_t len_bytes);
	/**
	 * [required] Write result_bytes octets, in the order they go on the wire; frees the state.
	 * Follows each init() that gave 0, wherever the computation stands: one that is given up
	 * ends so, too.
	 */
	void (*final)(struct weft_hash_state *st, void *result);
};

/**
 * -EEXIST (name taken), -EINVAL (NULL, an empty required slot, sizes of keys that make no sense),
 * -ENOSPC (32 drivers). Before main(): no other thread may look at the drivers meanwhile, which is
 * not checked.
 */
int weft_hash_register(const struct weft_hash_ops *ops);
/** NULL when there is no such driver, or no name. Any thread. */
const struct weft_hash_ops *weft_hash_find(const char *name);
/** The i-th driver, NULL past the last. Any thread. */
const struct weft_hash_ops *weft_hash_get(unsigned int i);
/** Whether such a key, NULL/0 for none, suits the hash; 0 or -EINVAL (also: no hash). Any thread.
 */
int weft_hash_check_key(const struct weft_hash_ops *ops, const void *key, size_t key_bytes);
/**
 * One call for a range in memory. result needs ops->result_bytes. -EINVAL (needs a key; NULL for
 * the hash, the result, or data of some length), -ENOMEM, or the driver's. Any thread.
 */
int weft_hash_once(const struct weft_hash_ops *ops, const void *data, size_t len_bytes,
                   void *result);
/** The same with a key; NULL/0 for a hash that takes none. */
int weft_hash_once_keyed(const struct weft_hash_ops *ops, const void *key, size_t key_bytes,
                         const void *data, size_t len_bytes, void *result);

/** Put one into the driver's source; a clash or an empty slot stops the program at start-up. */
#define WEFT_HASH_REGISTER(id, ops)                                                                \
	static void __attribute__((constructor)) weft_hash_ctor_##id(void)                         \
	{                                                                                          \
		weft_hash_register_or_die(&(ops));                                                 \
	}
void weft_hash_register_or_die(const struct weft_hash_ops *ops);

WEFT_API_END

#endif /* WEFT_HASH_H */
