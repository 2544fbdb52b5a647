/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Rows of test_conform_term.c: memory whose medium is gone (weft/guard.h). The operation
 * itself meets the fault, or an earlier access did. test_conform_term.c includes this file.
 */

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "medium_priv.h"

static struct {
	struct medium_guard *guard;
	uint8_t *map;
	int fd;
} lost;

/** Make cf.lw a region on a file that has been cut to no length. */
static uint32_t
lost_stag(bool before)
{
	lost.fd = memfd_create("weft-test", 0);
	CHECK(lost.fd >= 0 && ftruncate(lost.fd, CF_BYTES) == 0);
	lost.map = mmap(NULL, CF_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, lost.fd, 0);
	CHECK(lost.map != MAP_FAILED);
	CHECK_EQ(medium_guard_add(lost.map, CF_BYTES, &lost.guard), 0);
	CHECK_EQ(weft_guard_install(), 0);
	rig_unreg(&rig.b, cf.lw);
	cf.lw = rig_reg(&rig.b, lost.map, CF_BYTES, CF_BASE,
	                WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                        WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_ATOMIC |
	                        WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY,
	                NULL, &rig_hash);
	CHECK_EQ(ftruncate(lost.fd, 0), 0);
	if (before)
		CHECK(weft_guard_probe(lost.map, 1));
	return cf.lw->stag;
}

static void
lost_end(void)
{
	if (lost.map == NULL)
		return;
	CHECK_EQ(weft_guard_remove(), 0);
	medium_guard_del(lost.guard);
	munmap(lost.map, CF_BYTES);
	close(lost.fd);
	lost.map = NULL;
}

/* clang-format off */
static void lost_write(void) { TAGGED(lost_stag(false), CF_BASE, 4); }
static void lost_write_before(void) { TAGGED(lost_stag(true), CF_BASE + 4096, 4); }
static void lost_read(void) { CF_READ(1, lost_stag(false), CF_BASE, 4); }
static void lost_read_before(void) { CF_READ(1, lost_stag(true), CF_BASE + 4096, 4); }
static void lost_atomic(void) { cf_atomic(1, lost_stag(false), CF_BASE, 1, 52); }
static void lost_atomic_before(void) { cf_atomic(1, lost_stag(true), CF_BASE + 4096, 1, 52); }
static void lost_flush(void) { flush_of(lost_stag(true), CF_BASE, 4, 2); }
static void lost_flush_region(void) { flush_of(lost_stag(true), 0, 0, 6); }
static void lost_verify(void) { verify(lost_stag(false), CF_BASE, 4, 0); }
static void lost_verify_before(void) { verify(lost_stag(true), CF_BASE + 4096, 4, 0); }
static void lost_awrite(void) { awrite(lost_stag(false), CF_BASE, 8, 8); }
static void lost_awrite_before(void) { awrite(lost_stag(true), CF_BASE + 4096, 8, 8); }
/* clang-format on */
