/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Shared by the tests of block drivers. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "block_test.h"
#include "weft_test.h"

void
disk_open(struct disk *d, const struct weft_block_attr *attr, uint32_t depth)
{
	struct weft_block_chan_attr ca = {.size = sizeof(ca), .depth = depth};
	struct weft_block_attr a = *attr;
	struct weft_block_state state;
	char reason[128] = "";
	int r;

	memset(d, 0, sizeof(*d));
	a.size = sizeof(a);
	a.reason = reason;
	a.reason_bytes = sizeof(reason);
	r = weft_block_open(&a, &d->b);
	CHECK_MSG(r == 0, "%s: %s (%s)", a.driver, strerror(-r), reason);
	CHECK_EQ(weft_block_chan_open(d->b, &ca, &d->c), 0);
	weft_block_query(d->b, &d->info);
	weft_block_query_state(d->b, &state);
	d->bytes = state.bytes;
}

void
disk_close(struct disk *d)
{
	CHECK_EQ(weft_block_chan_close(d->c), 0);
	CHECK_EQ(weft_block_close(d->b), 0);
}

unsigned int
disk_poll(struct disk *d)
{
	if (d->step_ns == 0)
		return weft_block_poll(d->c, test_now_us() * 1000);
	d->now_ns += d->step_ns;
	return weft_block_poll(d->c, d->now_ns);
}

void
disk_turn(struct disk *d)
{
	struct pollfd p = {.fd = weft_block_chan_fd(d->c), .events = POLLIN};

	if (disk_poll(d) == 0 && p.fd >= 0 && weft_block_next_ns(d->c) != 0)
		poll(&p, 1, 10);
}

static void
disk_done(struct weft_block_req *req)
{
	*(bool *)req->owner = true;
}

int
disk_do(struct disk *d, struct weft_block_req *req)
{
	uint64_t end = test_now_us() + TEST_WAIT_US;
	bool done = false;
	int r;

	req->done = disk_done;
	req->owner = &done;
	r = weft_block_submit(d->c, req);
	if (r != 0)
		return r;
	while (!done) {
		CHECK_MSG(test_now_us() < end, "a request does not end");
		disk_turn(d);
	}
	return req->status;
}

int
disk_io(struct disk *d, enum weft_block_op op, uint32_t flags, uint64_t off, void *data,
        uint64_t len)
{
	struct iovec iov = {data, len};
	struct weft_block_req req = {.op = op,
	                             .flags = flags,
	                             .off_bytes = off,
	                             .len_bytes = len,
	                             .iov = &iov,
	                             .iovs = 1};

	return disk_do(d, &req);
}

static void *memories[64];
static unsigned int nmemories;

void
disk_memory_free(void)
{
	while (nmemories > 0)
		free(memories[--nmemories]);
}

uint8_t *
disk_memory(uint64_t bytes)
{
	void *p;

	CHECK(nmemories < 64);
	CHECK_EQ(posix_memalign(&p, 4096, bytes), 0);
	if (nmemories == 0)
		atexit(disk_memory_free);
	memories[nmemories++] = p;
	memset(p, 0, bytes);
	return p;
}

uint64_t
draw(struct draw *d, uint64_t n)
{
	d->state ^= d->state >> 12;
	d->state ^= d->state << 25;
	d->state ^= d->state >> 27;
	return n == 0 ? 0 : ((d->state * 0x2545f4914f6cdd1dULL) >> 11) % n;
}

void
fill(uint8_t *data, uint64_t len, uint64_t off, uint64_t version)
{
	for (uint64_t i = 0; i < len; i++)
		data[i] = (uint8_t)((off + i) / 8 * 31 + version * 0x9d + (off + i) % 8);
}
