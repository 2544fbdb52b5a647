/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The block driver "script". */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "block_script.h"
#include "weft_test.h"

struct script script;

void
script_reset(void)
{
	script = (struct script){
	        .room = UINT32_MAX, .can = 0x1ff, .next_ns = UINT64_MAX, .mem_align = 1};
	script.can &= ~(uint32_t)WEFT_BLOCK_CAN_UNALIGNED;
}

void
script_end(unsigned int i, int status)
{
	struct weft_block_req *req;

	CHECK(i < script.n);
	req = script.got[i];
	script.n--;
	memmove(&script.got[i], &script.got[i + 1], (script.n - i) * sizeof(script.got[0]));
	weft_block_done(req, status, 0);
}

static int
script_open(struct weft_block *b, const struct weft_block_attr *attr, uint64_t *bytes)
{
	if (script.open_status != 0)
		return weft_block_refuse(attr, script.open_status, "the script says no");
	*bytes = attr->bytes;
	b->info = (struct weft_block_info){
	        .can = script.can,
	        .block_bytes = 512,
	        .physical_bytes = 4096,
	        .optimal_bytes = 4096,
	        .max_bytes = 65536,
	        .max_iovs = 4,
	        .mem_align_bytes = script.mem_align,
	        .atomic_bytes = 512,
	        .compare_write_bytes = 512,
	        .discard_bytes = 512,
	        .max_discard_bytes = 1U << 20,
	        .max_zeroes_bytes = 1U << 19,
	        .persistent = true,
	        .volatile_cache = true,
	        .mechanism = "a script",
	};
	return 0;
}

static void
script_close(struct weft_block *b)
{
	(void)b;
}

static int
script_chan_open(struct weft_block_chan *c)
{
	(void)c;
	return script.chan_status;
}

static int
script_submit(struct weft_block_chan *c, struct weft_block_req *req)
{
	(void)c;
	script.submits++;
	if (script.refuse != 0)
		return script.refuse;
	if (script.room == 0)
		return -EAGAIN;
	script.room--;
	CHECK(script.n < SCRIPT_MAX);
	script.got[script.n++] = req;
	return 0;
}

static void
script_cancel(struct weft_block_chan *c, struct weft_block_req *req)
{
	(void)c;
	script.cancels++;
	for (unsigned int i = 0; script.cancel_works && i < script.n; i++) {
		if (script.got[i] == req) {
			script_end(i, -ECANCELED);
			return;
		}
	}
}

static int
script_fence(struct weft_block *b)
{
	(void)b;
	script.fences++;
	return script.fence_status;
}

static uint64_t
script_next_ns(const struct weft_block_chan *c)
{
	(void)c;
	return script.next_ns;
}

static const char *const script_options[] = {"speed", "x.", NULL};

static const struct weft_block_ops script_ops = {
        .name = "script",
        .options = script_options,
        .open = script_open,
        .close = script_close,
        .chan_open = script_chan_open,
        .submit = script_submit,
        .cancel = script_cancel,
        .fence = script_fence,
        .next_ns = script_next_ns,
};

WEFT_BLOCK_REGISTER(script, script_ops)
