/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_TARGET_H
#define FAKE_TARGET_H

/**
 * @file A target that serves one volume, a byte array, by weft_volrpc.x, and fails as a test says.
 * It keeps to the protocol, and no more: nothing is durable, and no other client is there.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/volume.h>

#include "volrpc.h"

#define FAKE_NAME      "disk"
#define FAKE_BYTES     1000003u /**< of the volume: no multiple of anything */
#define FAKE_IO        65536u
#define FAKE_BLOCK     4096u
#define FAKE_WINDOWS   8
#define FAKE_HELD      WEFT_RPC_MAX_CALLS
#define FAKE_PROCS     (WEFT_VOLRPC_VERIFIER + 1)
#define FAKE_SNAPSHOTS 40
#define FAKE_ALL       0x56u /**< all rights */

struct fake_window {
	uint32_t id; /**< 0: free */
	uint64_t off;
	uint32_t len;
};

struct fake_target {
	uint8_t *mem;
	bool *hole; /**< each block */
	weft_volrpc_grant grant;
	uint64_t verifier;
	bool open;
	struct fake_window window[FAKE_WINDOWS];
	uint32_t last_window;
	char snapshot[FAKE_SNAPSHOTS][WEFT_VOLUME_SNAP_NAME]; /**< ""; free */
	unsigned int served[FAKE_PROCS];                      /**< calls */
	unsigned int now, most; /**< calls that it has and has not answered; the most of them */
	/* A fault: calls of this procedure, behind `skip` others, are refused with `fault`. */
	uint32_t bad_proc;
	unsigned int skip, times;
	weft_volrpc_status status;
	weft_volrpc_fault fault;      /**< with `why` "" if it is NULL */
	enum weft_rpc_status refusal; /**< instead of an answer; WEFT_RPC_OK: there is one */
	/** Called when a call has arrived, before it is served; args as the procedure's. */
	void (*seen)(uint32_t proc, const void *args);
	/** Change a good answer, before it leaves; res as the procedure's. */
	void (*spoil)(uint32_t proc, void *res);
	bool deaf; /**< it does nothing with what comes, and answers at fake_release() */
	/** Answers wait until fake_release(). Another thread may set it, and count them. */
	atomic_bool hold;
	atomic_uint nheld;
	struct weft_rpc_req *held[FAKE_HELD];
};

/** The program, whose user is a struct fake_target. */
extern const struct weft_rpc_program fake_program;
/** The same without snapshots and without a verifier. */
extern const struct weft_rpc_program fake_older;

void fake_open(struct fake_target *f);
void fake_close(struct fake_target *f);
/** Answer the calls that were held, the latest one first. */
void fake_release(struct fake_target *f);
/** Refuse `times` calls of a procedure behind `skip` ones. */
void fake_refuse(struct fake_target *f, uint32_t proc, unsigned int skip, unsigned int times,
                 weft_volrpc_status status, const char *why);

#endif /* FAKE_TARGET_H */
