/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file I/O commands: data, ranges, lengths, order, memory, connections that end, and what survives
 * a power failure.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "nvmf_rig.h"
#include "nvmf_share.h"
#include "test_xorshift.h"

#define NEVER(status) ((status) | WEFT_NVMF_DNR)
#define FUA           (1U << 30)
#define MIB           (1U << 20)

static struct nv n;
static struct nv_queue a, io;
static uint8_t out[2 * MIB], in[2 * MIB];

static void
open_queues(void)
{
	nv_start(&n);
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_io(&n, 1, &io, &a, 1);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 7 + i / 512);
}

static void
start(void)
{
	memset(&n, 0, sizeof(n));
	open_queues();
}

static void
end(void)
{
	nv_close(&io);
	nv_close(&a);
	nv_end(&n);
}

static uint16_t
rd(uint64_t slba, uint32_t blocks, uint32_t flags)
{
	memset(in, 0x5a, (size_t)blocks * 512);
	return nv_rw(&io, WEFT_NVMF_IO_READ, slba, blocks, in, blocks * 512, flags);
}

static uint16_t
wr(uint64_t slba, uint32_t blocks, const uint8_t *data, uint32_t flags)
{
	return nv_rw(&io, WEFT_NVMF_IO_WRITE, slba, blocks, (void *)(uintptr_t)data, blocks * 512,
	             flags);
}

static uint16_t
simple(uint8_t opcode, uint32_t nsid, uint64_t slba, uint32_t blocks, uint32_t flags)
{
	struct weft_nvmf_sqe sqe =
	        nv_sqe(opcode, nsid, (uint32_t)slba, (uint32_t)(slba >> 32), (blocks - 1) | flags);

	return nv_do(&io, &sqe, NULL, 0);
}

static void
test_read_write(void)
{
	static const uint32_t lengths[] = {1, 2, 7, 8, 9, 64, 65, 255, 2048};

	start();
	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const uint32_t len = lengths[i];

		CHECK_EQ(wr(i * 3, len, out + i * 512, 0), 0);
		CHECK_EQ(io.invalidated, NV_KEY);
		CHECK_EQ(rd(i * 3, len, 0), 0);
		CHECK_MEM(in, out + i * 512, len * 512);
		CHECK_EQ(wr(i * 3, len, out, FUA), 0);
		CHECK_EQ(rd(i * 3, len, FUA), 0);
		CHECK_MEM(in, out, len * 512);
	}
	end();
}

static void
test_in_capsule(void)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_WRITE, 1, 5, 0, 7);
	struct weft_nvmf_sgl sgl = {.kind = WEFT_NVMF_SGL_CAPSULE, .bytes = 4096};

	start();
	nv_sgl_encode(&sgl, &sqe);
	CHECK_EQ(nv_send(&io, &sqe, out, 4096), 0);
	CHECK_EQ(nv_wait(&io, sqe.cid), 0);
	CHECK_EQ(rd(5, 8, 0), 0);
	CHECK_MEM(in, out, 4096);
	/* at an offset */
	sqe = nv_sqe(WEFT_NVMF_IO_WRITE, 1, 5, 0, 0);
	sgl.addr = 1024;
	sgl.bytes = 512;
	nv_sgl_encode(&sgl, &sqe);
	CHECK_EQ(nv_send(&io, &sqe, out, 1536), 0);
	CHECK_EQ(nv_wait(&io, sqe.cid), 0);
	CHECK_EQ(rd(5, 1, 0), 0);
	CHECK_MEM(in, out + 1024, 512);
	/* it is not all there */
	CHECK_EQ(nv_send(&io, &sqe, out, 1535), 0);
	CHECK_EQ(nv_wait(&io, sqe.cid), NEVER(WEFT_NVMF_SGL_LENGTH));
	CHECK_EQ(nv_send(&io, &sqe, out, 1023), 0);
	CHECK_EQ(nv_wait(&io, sqe.cid), NEVER(WEFT_NVMF_SGL_OFFSET));
	/* a Read's data does not come in a capsule */
	sqe.opcode = WEFT_NVMF_IO_READ;
	CHECK_EQ(nv_send(&io, &sqe, out, 1536), 0);
	CHECK_EQ(nv_wait(&io, sqe.cid), NEVER(WEFT_NVMF_SGL_TYPE));
	/* a capsule that is longer than told, or shorter than a command, ends the connection */
	CHECK_EQ(nv_send(&io, &sqe, out, 4097), -EPROTO);
	CHECK_EQ(weft_nvmf_command(io.q, out, 63), -EPROTO);
	end();
}

static void
test_refusals(void)
{
	struct weft_nvmf_sqe sqe;
	uint64_t blocks;

	start();
	blocks = weft_vol_info(n.vol.vol)->bytes / 512;
	CHECK_EQ(rd(blocks - 1, 1, 0), 0);
	CHECK_EQ(rd(blocks - 1, 2, 0), NEVER(WEFT_NVMF_LBA_RANGE));
	CHECK_EQ(rd(blocks, 1, 0), NEVER(WEFT_NVMF_LBA_RANGE));
	CHECK_EQ(rd(UINT64_MAX, 1, 0), NEVER(WEFT_NVMF_LBA_RANGE));
	CHECK_EQ(rd(UINT64_MAX, 2, 0), NEVER(WEFT_NVMF_LBA_RANGE));
	CHECK_EQ(wr(blocks, 1, out, 0), NEVER(WEFT_NVMF_LBA_RANGE));
	CHECK_EQ(simple(WEFT_NVMF_IO_WRITE_ZEROES, 1, blocks - 7, 8, 0),
	         NEVER(WEFT_NVMF_LBA_RANGE));
	CHECK_EQ(simple(WEFT_NVMF_IO_VERIFY, 1, blocks - 7, 8, 0), NEVER(WEFT_NVMF_LBA_RANGE));
	/* MDTS */
	CHECK_EQ(rd(0, 2048, 0), 0);
	CHECK_EQ(rd(0, 2049, 0), NEVER(WEFT_NVMF_INVALID_FIELD));
	/* namespaces: 0, all, beyond NN, none */
	for (unsigned int i = 0; i < 5; i++) {
		static const uint32_t nsid[] = {0, WEFT_NVMF_NSID_ALL, 9, 0x10001, 2};
		static const uint8_t ops[] = {0, 1, 2, 5, 8, 9, 12};

		for (unsigned int k = 0; k < sizeof(ops); k++)
			CHECK_EQ(simple(ops[k], nsid[i], 0, 1, 0),
			         NEVER(nsid[i] == 2 ? WEFT_NVMF_INVALID_FIELD
			                            : WEFT_NVMF_INVALID_NS));
	}
	/* lengths that are not the command's */
	sqe = nv_sqe(WEFT_NVMF_IO_READ, 1, 0, 0, 7);
	CHECK_EQ(nv_do(&io, &sqe, in, 4095), NEVER(WEFT_NVMF_SGL_LENGTH));
	CHECK_EQ(nv_do(&io, &sqe, in, 4097), NEVER(WEFT_NVMF_SGL_LENGTH));
	CHECK_EQ(nv_do(&io, &sqe, in, 0), NEVER(WEFT_NVMF_SGL_LENGTH));
	/* PRPs; a directive; a fused Read; both bits of FUSE */
	nv_keyed(&sqe, in, 4096);
	sqe.psdt = 0;
	CHECK_EQ(nv_do(&io, &sqe, NULL, 0), NEVER(WEFT_NVMF_INVALID_FIELD));
	sqe.psdt = 1;
	sqe.cdw[12] |= 1U << 20;
	CHECK_EQ(nv_do(&io, &sqe, NULL, 0), NEVER(WEFT_NVMF_INVALID_FIELD));
	sqe.cdw[12] = 7;
	sqe.fuse = 1;
	CHECK_EQ(nv_do(&io, &sqe, NULL, 0), NEVER(WEFT_NVMF_INVALID_FIELD));
	sqe.fuse = 3;
	CHECK_EQ(nv_do(&io, &sqe, NULL, 0), NEVER(WEFT_NVMF_INVALID_FIELD));
	sqe.fuse = 0;
	sqe.cdw[9] = 0;
	CHECK_EQ(nv_do(&io, &sqe, NULL, 0), NEVER(WEFT_NVMF_SGL_TYPE));
	/* Copy, Write Uncorrectable, vendors' */
	for (unsigned int i = 0; i < 256; i++)
		if (i != 0 && i != 1 && i != 2 && i != 5 && i != 8 && i != 9 && i != 12 &&
		    i != 13 && i != 14 && i != 17 && i != 21 && i != WEFT_NVMF_OP_FABRICS)
			CHECK_EQ(simple((uint8_t)i, 1, 0, 1, 0), NEVER(WEFT_NVMF_INVALID_OPCODE));
	end();
}

static void
test_read_only(void)
{
	memset(&n, 0, sizeof(n));
	n.ns.read_only = true;
	open_queues();
	CHECK_EQ(rd(0, 8, 0), 0);
	CHECK_EQ(wr(0, 8, out, 0), NEVER(WEFT_NVMF_READ_ONLY));
	CHECK_EQ(simple(WEFT_NVMF_IO_WRITE_ZEROES, 1, 0, 8, 0), NEVER(WEFT_NVMF_READ_ONLY));
	CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0), 0);
	CHECK_EQ(nv_identify(&a, 0, 1, in), 0);
	CHECK_EQ(in[99], 1);
	end();
}

static uint16_t
dsm(uint32_t ranges, uint32_t attributes)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_DSM, 1, ranges - 1, attributes, 0);

	return nv_do(&io, &sqe, in, ranges * 16);
}

static void
range(uint32_t i, uint64_t slba, uint32_t blocks)
{
	weft_nvmf_put32(in + 16 * i, 0);
	weft_nvmf_put32(in + 16 * i + 4, blocks);
	weft_nvmf_put64(in + 16 * i + 8, slba);
}

static void
test_zeroes_and_dsm(void)
{
	static const uint8_t zeros[4096];

	start();
	CHECK_EQ(wr(0, 64, out, 0), 0);
	CHECK_EQ(simple(WEFT_NVMF_IO_WRITE_ZEROES, 1, 8, 8, 0), 0);
	CHECK_EQ(rd(0, 24, 0), 0);
	CHECK_MEM(in, out, 4096);
	CHECK_MEM(in + 4096, zeros, 4096);
	CHECK_MEM(in + 8192, out + 8192, 4096);
	CHECK_EQ(simple(WEFT_NVMF_IO_WRITE_ZEROES, 1, 16, 8, 1U << 25 | FUA), 0);
	CHECK_EQ(rd(16, 8, 0), 0);
	CHECK_MEM(in, zeros, 4096);
	/* no range is touched if one of them is wrong */
	range(0, 0, 8);
	range(1, weft_vol_info(n.vol.vol)->bytes / 512, 1);
	CHECK_EQ(dsm(2, 4), NEVER(WEFT_NVMF_LBA_RANGE));
	range(1, UINT64_MAX, UINT32_MAX);
	CHECK_EQ(dsm(2, 4), NEVER(WEFT_NVMF_LBA_RANGE));
	CHECK_EQ(rd(0, 8, 0), 0);
	CHECK_MEM(in, out, 4096);
	/* advice without AD changes nothing; length 0 is nothing, also as the last one */
	range(0, 0, 8);
	CHECK_EQ(dsm(1, 3), 0);
	CHECK_EQ(rd(0, 8, 0), 0);
	CHECK_MEM(in, out, 4096);
	range(0, 5, 0);
	range(1, 0, 8);
	range(2, 0, 0);
	CHECK_EQ(dsm(3, 4), 0);
	CHECK_EQ(rd(0, 8, 0), 0);
	CHECK_MEM(in, zeros, 4096);
	/* as Linux does it: one range in the memory of 256; no more than these, no less than one */
	CHECK_EQ(wr(0, 8, out, 0), 0);
	range(0, 0, 4);
	range(1, 4, 4);
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_DSM, 1, 0, 4, 0);
	CHECK_EQ(nv_do(&io, &sqe, in, 4096), 0);
	CHECK_EQ(nv_do(&io, &sqe, in, 4097), NEVER(WEFT_NVMF_SGL_LENGTH));
	CHECK_EQ(nv_do(&io, &sqe, in, 15), NEVER(WEFT_NVMF_SGL_LENGTH));
	CHECK_EQ(rd(0, 8, 0), 0);
	CHECK_MEM(in, zeros, 2048);
	CHECK_MEM(in + 2048, out + 2048, 2048);
	/* all 256 of them */
	CHECK_EQ(wr(512, 512, out, 0), 0);
	for (uint32_t i = 0; i < 256; i++)
		range(i, 512 + 2 * i, 1);
	CHECK_EQ(dsm(256, 4), 0);
	CHECK_EQ(rd(512, 512, 0), 0);
	for (uint32_t i = 0; i < 512; i++)
		CHECK_MEM(in + i * 512, i % 2 == 0 ? zeros : out + i * 512, 512);
	end();
}

/** Change an octet of the medium behind the volume's back. */
static void
damage(uint64_t off_bytes)
{
	const uint64_t at = weft_vol_info(n.vol.vol)->super.data_at + off_bytes / 512 * 512;
	struct iovec iov = {in, 512};
	struct weft_block_req req = {
	        .op = WEFT_BLOCK_READ, .off_bytes = at, .len_bytes = 512, .iov = &iov, .iovs = 1};

	CHECK_EQ(weft_block_wait(n.vol.block, &req), 0);
	in[off_bytes % 512] ^= 1;
	req.op = WEFT_BLOCK_WRITE;
	CHECK_EQ(weft_block_wait(n.vol.block, &req), 0);
}

static void
test_compare_and_verify(void)
{
	start();
	CHECK_EQ(wr(3, 2048, out, 0), 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_COMPARE, 3, 2048, out, MIB, 0), 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_COMPARE, 3, 2048, out, MIB, FUA), 0);
	for (size_t at = 0; at < MIB; at += MIB / 8 - 1) {
		out[at] ^= 1;
		CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_COMPARE, 3, 2048, out, MIB, 0), 0x4285);
		out[at] ^= 1;
	}
	CHECK_EQ(simple(WEFT_NVMF_IO_VERIFY, 1, 0, 4096, 0), 0);
	end();
	/* with checksums: damage is found by Read and by Verify */
	memset(&n, 0, sizeof(n));
	n.sums = true;
	n.disk_bytes = 32U << 20;
	open_queues();
	CHECK_EQ(wr(0, 2048, out, 0), 0);
	CHECK_EQ(simple(WEFT_NVMF_IO_VERIFY, 1, 0, 2048, 0), 0);
	damage(1500 * 512 + 3);
	CHECK_EQ(simple(WEFT_NVMF_IO_VERIFY, 1, 0, 2048, 0), NEVER(WEFT_NVMF_READ_FAULT));
	CHECK_EQ(simple(WEFT_NVMF_IO_VERIFY, 1, 0, 1024, 0), 0);
	CHECK_EQ(rd(1500, 1, 0), NEVER(WEFT_NVMF_READ_FAULT));
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_COMPARE, 1500, 1, out, 512, 0),
	         NEVER(WEFT_NVMF_READ_FAULT));
	end();
}

/** Two halves of a fused pair; the statuses of both. */
static void
fused(uint64_t slba, uint32_t blocks, const uint8_t *expect, const uint8_t *data, uint16_t *first,
      uint16_t *second)
{
	struct weft_nvmf_sqe c = nv_sqe(WEFT_NVMF_IO_COMPARE, 1, (uint32_t)slba, 0, blocks - 1);
	struct weft_nvmf_sqe w = nv_sqe(WEFT_NVMF_IO_WRITE, 1, (uint32_t)slba, 0, blocks - 1);

	c.fuse = 1;
	w.fuse = 2;
	nv_keyed(&c, (void *)(uintptr_t)expect, blocks * 512);
	nv_keyed(&w, (void *)(uintptr_t)data, blocks * 512);
	CHECK_EQ(nv_send(&io, &c, NULL, 0), 0);
	CHECK_EQ(nv_send(&io, &w, NULL, 0), 0);
	*first = nv_wait(&io, c.cid);
	*second = nv_wait(&io, w.cid);
}

static void
test_fused(void)
{
	struct weft_nvmf_ns_stats stats;
	struct weft_nvmf_sqe c, w;
	uint16_t first, second;

	start();
	CHECK_EQ(wr(0, 128, out, 0), 0);
	fused(0, 128, out, out + 512, &first, &second);
	CHECK_EQ(first, 0);
	CHECK_EQ(second, 0);
	CHECK_EQ(rd(0, 128, 0), 0);
	CHECK_MEM(in, out + 512, 65536);
	/* a Write that was fused is a Write */
	CHECK_EQ(weft_nvmf_ns_query(n.subsys, 1, &stats), 0);
	CHECK_EQ(stats.writes, 2);
	CHECK_EQ(stats.written_bytes, 2 * 65536);
	fused(0, 8, out, out, &first, &second);
	CHECK_EQ(first, 0x4285);
	CHECK_EQ(second, WEFT_NVMF_FUSED_FAILED);
	CHECK_EQ(rd(0, 128, 0), 0);
	CHECK_MEM(in, out + 512, 65536);
	/* longer than ACWU; beyond the end */
	fused(0, 129, out, out, &first, &second);
	CHECK_EQ(first, NEVER(WEFT_NVMF_ATOMIC_EXCEEDED));
	CHECK_EQ(second, WEFT_NVMF_FUSED_FAILED);
	fused(UINT32_MAX, 1, out, out, &first, &second);
	CHECK_EQ(first, NEVER(WEFT_NVMF_LBA_RANGE));
	CHECK_EQ(second, WEFT_NVMF_FUSED_FAILED);
	/* ranges that differ */
	c = nv_sqe(WEFT_NVMF_IO_COMPARE, 1, 0, 0, 0);
	w = nv_sqe(WEFT_NVMF_IO_WRITE, 1, 1, 0, 0);
	c.fuse = 1;
	w.fuse = 2;
	nv_keyed(&c, out, 512);
	nv_keyed(&w, out, 512);
	CHECK_EQ(nv_send(&io, &c, NULL, 0), 0);
	CHECK_EQ(nv_send(&io, &w, NULL, 0), 0);
	CHECK_EQ(nv_wait(&io, c.cid), NEVER(WEFT_NVMF_INVALID_FIELD));
	CHECK_EQ(nv_wait(&io, w.cid), WEFT_NVMF_FUSED_FAILED);
	/* the second one's data has another length: it fails, and the first one with it */
	w.cdw[10] = 0;
	nv_keyed(&w, out, 511);
	CHECK_EQ(nv_send(&io, &c, NULL, 0), 0);
	CHECK_EQ(nv_send(&io, &w, NULL, 0), 0);
	CHECK_EQ(nv_wait(&io, c.cid), WEFT_NVMF_FUSED_FAILED);
	CHECK_EQ(nv_wait(&io, w.cid), NEVER(WEFT_NVMF_SGL_LENGTH));
	/* a second one alone; a first one that another command, or another first one, follows */
	CHECK_EQ(nv_send(&io, &w, NULL, 0), 0);
	CHECK_EQ(nv_wait(&io, w.cid), NEVER(WEFT_NVMF_FUSED_MISSING));
	CHECK_EQ(nv_send(&io, &c, NULL, 0), 0);
	CHECK_EQ(rd(0, 1, 0), 0);
	CHECK_EQ(nv_wait(&io, c.cid), NEVER(WEFT_NVMF_FUSED_MISSING));
	CHECK_EQ(nv_send(&io, &c, NULL, 0), 0);
	first = c.cid;
	CHECK_EQ(nv_send(&io, &c, NULL, 0), 0);
	CHECK_EQ(nv_wait(&io, first), NEVER(WEFT_NVMF_FUSED_MISSING));
	/* the second one, or another command, is damaged on its way */
	CHECK_EQ(nv_send(&io, &c, NULL, 0), 0);
	io.spoil = true;
	CHECK_EQ(nv_send(&io, &w, NULL, 0), 0);
	CHECK_EQ(nv_wait(&io, w.cid), WEFT_NVMF_TRANSPORT_ERROR);
	CHECK_EQ(nv_wait(&io, c.cid), WEFT_NVMF_FUSED_FAILED);
	CHECK_EQ(nv_send(&io, &c, NULL, 0), 0);
	io.spoil = true;
	w.fuse = 0;
	CHECK_EQ(nv_send(&io, &w, NULL, 0), 0);
	w.fuse = 2;
	CHECK_EQ(nv_wait(&io, w.cid), WEFT_NVMF_TRANSPORT_ERROR);
	CHECK_EQ(nv_wait(&io, c.cid), NEVER(WEFT_NVMF_FUSED_MISSING));
	/* the host goes with a first one waiting, and with a second one's data on its way */
	nv_close(&io);
	nv_io(&n, 1, &io, &a, 1);
	nv_keyed(&w, out, 512);
	CHECK_EQ(nv_send(&io, &c, NULL, 0), 0);
	io.hold_pulls = true;
	CHECK_EQ(nv_send(&io, &w, NULL, 0), 0);
	CHECK_EQ(io.pulls, 1);
	io.pulls = 0;
	weft_nvmf_pulled(io.pull[0], 0);
	CHECK_EQ(io.pulls, 1);
	end();
}

/** Many hosts' worth of commands: they wait for memory, and all are served. */
static void
test_memory(void)
{
	struct weft_nvmf_sqe sqe[16];
	struct weft_nvmf_stats stats;
	uint16_t status;

	start();
	io.hold_pulls = true;
	for (unsigned int i = 0; i < 16; i++) {
		sqe[i] = nv_sqe(WEFT_NVMF_IO_WRITE, 1, i * 64, 0, 2047);
		nv_keyed(&sqe[i], out, MIB);
		CHECK_EQ(nv_send(&io, &sqe[i], NULL, 0), 0);
	}
	/* three quarters of 4 MiB are this namespace's, in areas */
	CHECK(io.pulls >= 2 && io.pulls <= 3);
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.memory_waits, 16 - io.pulls);
	/* commands without data, and the admin queue, go on */
	CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0), 0);
	CHECK_EQ(nv_identify(&a, 1, 0, in), 0);
	/* one that waits is aborted */
	for (unsigned int i = 0; i < 15; i++) {
		while (io.pulls == 0)
			nv_poll(&n);
		struct weft_nvmf_cmd *cmd = io.pull[0];

		memmove(io.pull, io.pull + 1, --io.pulls * sizeof(io.pull[0]));
		weft_nvmf_pulled(cmd, i == 3 ? -EIO : 0);
		CHECK_EQ(nv_wait(&io, sqe[i].cid), i == 3 ? WEFT_NVMF_TRANSFER_ERROR : 0);
		CHECK(!nv_answered(&io, sqe[i + 1].cid, &status));
	}
	end();
}

/** Time passes for the groups, and the device ends nothing. */
static void
stuck_for(uint64_t ms)
{
	for (uint64_t i = 0; i < ms; i++) {
		n.vol.now_ns += 1000000;
		CHECK(weft_nvmf_group_next_ns(n.group[1]) <= n.vol.now_ns + 100000000);
		(void)weft_nvmf_group_poll(n.group[1], n.vol.now_ns);
	}
}

/** A device that ends nothing keeps the memory of its commands, but not the controller's share. */
static void
test_stuck(void)
{
	struct weft_nvmf_sqe sqe[3], small = nv_sqe(WEFT_NVMF_IO_WRITE, 3, 4096, 0, 0);
	struct nv_queue b, other;
	struct weft_nvmf_ns_attr attr;

	start();
	attr = n.ns;
	attr.nsid = 3;
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), 0);
	CHECK_EQ(weft_nvmf_group_attach(n.group[1], n.subsys, 3, n.vol.chan[1]), 0);
	nv_admin(&n, 0, &b, NV_SUBSYS);
	nv_io(&n, 1, &other, &b, 1);
	for (unsigned int i = 0; i < 3; i++) {
		sqe[i] = nv_sqe(WEFT_NVMF_IO_WRITE, i < 2 ? 1 : 3, i * 2048, 0, 2047);
		nv_keyed(&sqe[i], out, MIB);
	}
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(nv_send(&io, &sqe[i], NULL, 0), 0);
	/* another controller has memory: of 4 MiB a half is each one's share */
	other.hold_pulls = true;
	nv_keyed(&small, out, 512);
	CHECK_EQ(nv_send(&other, &small, NULL, 0), 0);
	CHECK_EQ(other.pulls, 1);
	io.hold_pulls = true;
	CHECK_EQ(nv_send(&io, &sqe[2], NULL, 0), 0);
	stuck_for(400);
	CHECK_EQ(io.pulls, 0);
	stuck_for(400);
	CHECK_EQ(io.pulls, 1);
	weft_nvmf_pulled(io.pull[0], 0);
	weft_nvmf_pulled(other.pull[0], 0);
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ(nv_wait(&io, sqe[i].cid), 0);
	CHECK_EQ(nv_wait(&other, small.cid), 0);
	nv_close(&other);
	nv_close(&b);
	CHECK_EQ(weft_nvmf_group_detach(n.group[1], n.subsys, 3), 0);
	end();
}

/** The host goes at every moment: nothing is answered, nothing is left. */
static void
test_lost(void)
{
	start();
	for (unsigned int round = 0; round < 40; round++) {
		struct weft_nvmf_sqe sqe[8];
		const unsigned int before = io.answers;

		io.hold_pulls = round % 3 == 1;
		io.hold_answers = round % 3 == 2;
		for (unsigned int i = 0; i < 8; i++) {
			static const uint8_t op[] = {1, 2, 5, 1};

			sqe[i] = nv_sqe(op[i % 4], 1, i, 0, 255);
			nv_keyed(&sqe[i], i % 2 == 0 ? in : out, 131072);
			CHECK_EQ(nv_send(&io, &sqe[i], NULL, 0), 0);
		}
		for (unsigned int i = 0; i < round / 3; i++)
			nv_poll(&n);
		io.answers = before;
		nv_close(&io);
		nv_io(&n, round % NV_GROUPS, &io, &a, 1);
	}
	CHECK_EQ(rd(0, 8, 0), 0);
	end();
}

/** More commands than the queue has entries are a fault; answers that are not sent are not. */
static void
test_overrun(void)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_WRITE, 1, 0, 0, 0);
	struct weft_nvmf_stats stats;

	start();
	nv_keyed(&sqe, out, 512);
	io.hold_answers = true;
	for (unsigned int i = 0; i < 32; i++) {
		CHECK_EQ(nv_send(&io, &sqe, NULL, 0), 0);
		CHECK_EQ(nv_wait(&io, sqe.cid), 0);
	}
	CHECK_EQ(nv_send(&io, &sqe, NULL, 0), -EAGAIN);
	while (io.sends > 0)
		weft_nvmf_sent(io.send[--io.sends]);
	io.hold_answers = false;
	io.hold_pulls = true;
	for (unsigned int i = 0; i < 32; i++)
		CHECK_EQ(nv_send(&io, &sqe, NULL, 0), 0);
	CHECK_EQ(nv_send(&io, &sqe, NULL, 0), -EPROTO);
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.protocol_errors, 1);
	end();
}

static void
open_fault(bool cache, bool write_through, uint64_t seed)
{
	memset(&n, 0, sizeof(n));
	n.seed = seed;
	n.ns.volatile_cache = cache;
	n.ns.write_through = write_through;
	open_queues();
}

/** An I/O queue, the second of the group, of a controller of another host. */
static void
other_host(struct nv_queue *admin, struct nv_queue *q)
{
	nv_open(&n, 0, admin);
	CHECK_EQ(nv_connect(admin, NV_SUBSYS, NV_OTHER, 0xffff, 0, 31, 0), 0);
	CHECK_EQ(nv_property_set(admin, WEFT_NVMF_PROP_CC, 0x460001), 0);
	nv_open(&n, 0, q);
	CHECK_EQ(nv_connect(q, NV_SUBSYS, NV_OTHER, admin->cntlid, 1, 31, 0), 0);
}

/** A flush of the device that fails is told to each host that has unflushed writes, by its next
 * Flush, whichever queue wrote; and not to others. Hosts send again what fails without DNR, and
 * would take the second Flush for a success. */
static void
test_lost_flush(void)
{
	const struct weft_block_fault_hit flush = {.ops = 1U << WEFT_BLOCK_FLUSH};
	struct nv_queue b, bio, io2;
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_FLUSH, 1, 0, 0, 0);
	struct weft_nvmf_stats stats;

	open_fault(true, false, 5);
	nv_io(&n, 0, &io2, &a, 2);
	other_host(&b, &bio);
	CHECK_EQ(nv_identify(&a, 1, 0, in), 0);
	CHECK_EQ(in[525], 5);
	CHECK_EQ(wr(0, 8, out, 0), 0);
	weft_block_fault_fail(n.vol.block, &flush, -EIO);
	CHECK_EQ(nv_do(&bio, &sqe, NULL, 0), NEVER(WEFT_NVMF_WRITE_FAULT));
	/* the device flushes again, but what it had is gone */
	CHECK_EQ(nv_do(&bio, &sqe, NULL, 0), 0);
	CHECK_EQ(nv_do(&io2, &sqe, NULL, 0), NEVER(WEFT_NVMF_WRITE_FAULT));
	CHECK_EQ(nv_do(&io2, &sqe, NULL, 0), 0);
	CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0), 0);
	/* told once to the one whose Flush has failed */
	CHECK_EQ(wr(0, 8, out, 0), 0);
	weft_block_fault_fail(n.vol.block, &flush, -EIO);
	CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0), NEVER(WEFT_NVMF_WRITE_FAULT));
	CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0), 0);
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.lost_flushes_told, 1);
	nv_close(&bio);
	nv_close(&b);
	nv_close(&io2);
	end();
}

/** Without a volatile cache, what was deallocated is durable when it is answered. */
static void
test_dsm_durable(void)
{
	const struct weft_block_fault_hit flush = {.ops = 1U << WEFT_BLOCK_FLUSH};
	struct weft_block_stats before, after;

	for (unsigned int through = 0; through < 2; through++) {
		open_fault(true, through, 5);
		CHECK_EQ(wr(0, 8, out, 0), 0);
		weft_block_fault_fail(n.vol.block, &flush, -EIO);
		range(0, 0, 8);
		CHECK_EQ(dsm(1, 4), through ? WEFT_NVMF_WRITE_FAULT : 0);
		CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0),
		         through ? 0 : NEVER(WEFT_NVMF_WRITE_FAULT));
		/* one flush for all ranges, behind the last one that is not empty */
		weft_block_query_stats(n.vol.block, &before);
		for (uint32_t i = 0; i < 5; i++)
			range(i, i * 16, i < 4 ? 8 : 0);
		CHECK_EQ(dsm(5, 4), 0);
		weft_block_query_stats(n.vol.block, &after);
		CHECK_EQ(after.requests[WEFT_BLOCK_FLUSH] - before.requests[WEFT_BLOCK_FLUSH],
		         through);
		CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0), 0);
		end();
	}
}

/** A flush is lost behind the first of three ranges: the flush of the last one does not bring back
 * what the first one has done. */
static void
test_dsm_lost(void)
{
	const struct weft_block_fault_hit flush = {.ops = 1U << WEFT_BLOCK_FLUSH};
	const struct weft_block_fault_hit write = {.ops = 1U << WEFT_BLOCK_WRITE};
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_DSM, 1, 2, 4, 0);
	struct weft_nvmf_sqe other = nv_sqe(WEFT_NVMF_IO_WRITE, 1, 16, 0, 7);
	struct nv_queue b, bio;
	uint16_t status;

	open_fault(true, true, 5);
	other_host(&b, &bio);
	CHECK_EQ(wr(0, 64, out, 0), 0);
	for (uint32_t i = 0; i < 3; i++)
		range(i, i * 16, 8);
	/* the second range waits for the write of another host, which is stuck */
	weft_block_fault_stick(n.vol.block, &write);
	nv_keyed(&other, out, 4096);
	CHECK_EQ(nv_send(&bio, &other, NULL, 0), 0);
	nv_keyed(&sqe, in, 48);
	CHECK_EQ(nv_send(&io, &sqe, NULL, 0), 0);
	for (unsigned int i = 0; i < 100; i++)
		nv_poll(&n);
	CHECK(!nv_answered(&io, sqe.cid, &status));
	weft_block_fault_fail(n.vol.block, &flush, -EIO);
	/* a Read with FUA flushes, and does not wait for what is elsewhere */
	CHECK_EQ(rd(48, 8, FUA), NEVER(WEFT_NVMF_READ_FAULT));
	weft_block_fault_stick(n.vol.block, NULL);
	(void)nv_wait(&bio, other.cid);
	CHECK_EQ(nv_wait(&io, sqe.cid), WEFT_NVMF_WRITE_FAULT);
	range(0, 0, 8);
	range(1, 16, 8);
	CHECK_EQ(dsm(2, 4), 0);
	nv_close(&bio);
	nv_close(&b);
	end();
}

/** The loss is told to the host on another path, and after it has connected again. */
static void
test_lost_flush_of_host(void)
{
	const struct weft_block_fault_hit flush = {.ops = 1U << WEFT_BLOCK_FLUSH};
	struct nv_queue a2, path, b, bio;
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_FLUSH, 1, 0, 0, 0);

	open_fault(true, false, 5);
	other_host(&b, &bio);
	nv_admin(&n, 0, &a2, NV_SUBSYS);
	nv_io(&n, 0, &path, &a2, 1);
	CHECK_EQ(wr(0, 8, out, 0), 0);
	weft_block_fault_fail(n.vol.block, &flush, -EIO);
	CHECK_EQ(nv_do(&bio, &sqe, NULL, 0), NEVER(WEFT_NVMF_WRITE_FAULT));
	CHECK_EQ(nv_do(&path, &sqe, NULL, 0), NEVER(WEFT_NVMF_WRITE_FAULT));
	CHECK_EQ(nv_do(&path, &sqe, NULL, 0), 0);
	nv_close(&path);
	nv_close(&a2);
	/* all controllers of the host are gone when the flush is lost */
	CHECK_EQ(wr(0, 8, out, 0), 0);
	nv_close(&io);
	nv_close(&a);
	weft_block_fault_fail(n.vol.block, &flush, -EIO);
	CHECK_EQ(nv_do(&bio, &sqe, NULL, 0), NEVER(WEFT_NVMF_WRITE_FAULT));
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_io(&n, 1, &io, &a, 1);
	CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0), NEVER(WEFT_NVMF_WRITE_FAULT));
	CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0), 0);
	nv_close(&bio);
	nv_close(&b);
	end();
}

/** A shutdown whose flush fails says so, and the next Flush tells the loss. */
static void
test_shutdown_fails(void)
{
	const struct weft_block_fault_hit flush = {.ops = 1U << WEFT_BLOCK_FLUSH};
	uint64_t v;

	open_fault(true, false, 5);
	CHECK_EQ(wr(0, 8, out, 0), 0);
	nv_close(&io);
	weft_block_fault_fail(n.vol.block, &flush, -EIO);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x464001), 0);
	do {
		nv_poll(&n);
		CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	} while ((v & WEFT_NVMF_CSTS_SHST_END) == 0);
	CHECK_EQ(v, WEFT_NVMF_CSTS_RDY | WEFT_NVMF_CSTS_CFS | WEFT_NVMF_CSTS_SHST_END);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460000), 0);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), 0);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, WEFT_NVMF_CSTS_RDY);
	nv_io(&n, 1, &io, &a, 1);
	CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0), NEVER(WEFT_NVMF_WRITE_FAULT));
	CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0), 0);
	end();
}

/** What is kept of hosts that have gone is bounded; of those that have flushed nothing is kept. */
static void
test_losses_kept(void)
{
	struct nv_queue b, bio;
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_FLUSH, 1, 0, 0, 0);
	struct weft_nvmf_stats stats;
	char nqn[64];

	open_fault(true, false, 5);
	for (unsigned int i = 0; i < 67; i++) {
		snprintf(nqn, sizeof(nqn), "nqn.2026-01.org.example:host%u", i);
		nv_open(&n, 0, &b);
		CHECK_EQ(nv_connect(&b, NV_SUBSYS, nqn, 0xffff, 0, 31, 0), 0);
		CHECK_EQ(nv_property_set(&b, WEFT_NVMF_PROP_CC, 0x460001), 0);
		nv_open(&n, 0, &bio);
		CHECK_EQ(nv_connect(&bio, NV_SUBSYS, nqn, b.cntlid, 1, 31, 0), 0);
		CHECK_EQ(nv_rw(&bio, WEFT_NVMF_IO_WRITE, i, 1, out, 512, 0), 0);
		if (i == 1)
			CHECK_EQ(nv_do(&bio, &sqe, NULL, 0), 0);
		nv_close(&bio);
		nv_close(&b);
	}
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.losses_forgotten, 2);
	end();
}

static void
test_medium_errors(void)
{
	struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_READ};

	open_fault(true, false, 5);
	weft_block_fault_fail(n.vol.block, &hit, -EIO);
	CHECK_EQ(rd(0, 8, 0), NEVER(WEFT_NVMF_READ_FAULT));
	hit.ops = 1U << WEFT_BLOCK_WRITE;
	weft_block_fault_fail(n.vol.block, &hit, -EIO);
	CHECK_EQ(wr(0, 8, out, 0), WEFT_NVMF_WRITE_FAULT);
	weft_block_fault_fail(n.vol.block, &hit, -ENOSPC);
	CHECK_EQ(wr(0, 8, out, 0), NEVER(WEFT_NVMF_CAPACITY));
	CHECK_EQ(nv_log(&a, WEFT_NVMF_LOG_SMART, false, 0, in, 512), 0);
	CHECK_EQ(weft_nvmf_get64(in + 160), 2);
	end();
}

/**
 * The power fails: what was promised is there. Each round writes blocks with a mark, some with FUA,
 * flushes now and then, and notes for each block the last mark that was promised to be durable.
 */
static void
power_round(uint64_t seed, bool cache, bool write_through, bool wce_off)
{
	uint32_t last[64] = {0}, sure[64] = {0}, mark = 0;
	struct weft_nvmf_sqe sqe;
	uint64_t r = seed * 2 + 1;

	open_fault(cache, write_through, seed);
	CHECK_EQ(nv_identify(&a, 1, 0, in), 0);
	CHECK_EQ(in[525] & 1, 1);
	if (wce_off) {
		sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 6, 0, 0);
		CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	}
	for (unsigned int i = 0; i < 200; i++) {
		const unsigned int block = (unsigned int)rig_draw(&r, 64);
		const bool fua = rig_draw(&r, 4) == 0;

		memset(in, 0, 512);
		weft_nvmf_put32(in, ++mark);
		weft_nvmf_put32(in + 508, mark);
		CHECK_EQ(wr(block, 1, in, fua ? FUA : 0), 0);
		last[block] = mark;
		if (fua || wce_off || write_through || !cache)
			sure[block] = mark;
		if (rig_draw(&r, 25) == 0) {
			CHECK_EQ(simple(WEFT_NVMF_IO_FLUSH, 1, 0, 1, 0), 0);
			memcpy(sure, last, sizeof(sure));
		}
	}
	weft_block_fault_cut(n.vol.block);
	nv_poll(&n);
	weft_block_fault_boot(n.vol.block);
	nv_close(&io);
	nv_io(&n, 0, &io, &a, 1);
	CHECK_EQ(rd(0, 64, 0), 0);
	for (unsigned int b = 0; b < 64; b++) {
		CHECK_EQ(weft_nvmf_get32(in + b * 512), weft_nvmf_get32(in + b * 512 + 508));
		CHECK_MSG(weft_nvmf_get32(in + b * 512) >= sure[b], "block %u: %u, promised %u", b,
		          weft_nvmf_get32(in + b * 512), sure[b]);
	}
	end();
}

static void
test_power(void)
{
	const uint64_t first = test_seed(1);

	for (uint64_t seed = first; seed < first + (test_seed_given() ? 1 : 25); seed++) {
		test_seed_note(seed);
		power_round(seed, true, false, false);
		power_round(seed, true, true, false);
		power_round(seed, true, false, true);
	}
}

/** Time passes for the groups. */
static void
pass(uint64_t ms)
{
	for (uint64_t i = 0; i < ms; i += 50)
		nv_pass(&n, 50);
}

/** Hosts that keep memory of which another one has none. */
static void
test_kept(void)
{
	struct nv_queue admin[3], q[3];
	struct weft_nvmf_sqe sqe[4];
	struct weft_nvmf_stats stats;

	start();
	for (unsigned int i = 0; i < 3; i++) {
		nv_admin(&n, 0, &admin[i], NV_SUBSYS);
		nv_io(&n, 1, &q[i], &admin[i], 1);
		q[i].hold_pulls = true;
	}
	for (unsigned int i = 0; i < 4; i++) {
		const uint32_t blocks = i == 1 || i == 2 ? 1024 : 2048;

		sqe[i] = nv_sqe(WEFT_NVMF_IO_WRITE, 1, i * 1024, 0, blocks - 1);
		nv_keyed(&sqe[i], out, blocks * 512);
	}
	/* all that the namespace may have; the hosts take their time, and may */
	CHECK_EQ(nv_send(&q[0], &sqe[0], NULL, 0), 0);
	CHECK_EQ(nv_send(&q[0], &sqe[1], NULL, 0), 0);
	CHECK_EQ(nv_send(&q[1], &sqe[2], NULL, 0), 0);
	CHECK(q[0].pulls == 2 && q[1].pulls == 1);
	pass(60000);
	CHECK(!q[0].closed && !q[1].closed);
	/* a third one comes */
	CHECK_EQ(nv_send(&q[2], &sqe[3], NULL, 0), 0);
	CHECK_EQ(q[2].pulls, 0);
	pass(4900);
	CHECK(!q[0].closed && !q[1].closed);
	pass(300);
	/* the one that has most ends, and nothing else before that has happened */
	CHECK(q[0].closed && !q[1].closed);
	pass(2000);
	CHECK(!q[1].closed && q[2].pulls == 0);
	nv_close(&q[0]);
	nv_poll(&n);
	CHECK_EQ(q[2].pulls, 1);
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.memory_expired, 1);
	pass(60000);
	CHECK(!q[1].closed && !admin[0].closed);
	weft_nvmf_pulled(q[1].pull[0], 0);
	weft_nvmf_pulled(q[2].pull[0], 0);
	CHECK_EQ(nv_wait(&q[1], sqe[2].cid), 0);
	CHECK_EQ(nv_wait(&q[2], sqe[3].cid), 0);
	for (unsigned int i = 0; i < 3; i++) {
		nv_close(&q[i]);
		nv_close(&admin[i]);
	}
	end();
}

/** Addresses that have one share of the memory. */
static void
test_shares(void)
{
	static const struct {
		const char *text;
		unsigned int share;
	} of[] = {{"10.0.0.1", 0},       {"::ffff:10.0.0.1", 0},   {"10.0.0.2", 1},
	          {"2001:db8::1", 2},    {"2001:db8::2:0:0:1", 2}, {"2001:db8:0:1::1", 3},
	          {"fe80::1", 4},        {"fe80::2", 4},           {"fe80:1::2", 4},
	          {"::ffff:10.0.0.2", 1}};
	struct nvmf_share *s[sizeof(of) / sizeof(of[0])], *none;
	struct sockaddr_storage from = {.ss_family = AF_UNIX};
	struct nvmf_shares all = LIST_HEAD_INITIALIZER(all);

	CHECK_EQ(nvmf_share_get(&all, NULL, &none), 0);
	CHECK(none == NULL);
	CHECK_EQ(nvmf_share_get(&all, &from, &none), 0);
	CHECK(none == NULL);
	nvmf_share_put(none);
	for (unsigned int i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&from;
		struct sockaddr_in *v4 = (struct sockaddr_in *)&from;

		memset(&from, 0, sizeof(from));
		from.ss_family = strchr(of[i].text, ':') == NULL ? AF_INET : AF_INET6;
		v4->sin_port = (uint16_t)(i + 1);
		CHECK_EQ(inet_pton(from.ss_family, of[i].text,
		                   from.ss_family == AF_INET ? (void *)&v4->sin_addr
		                                             : (void *)&v6->sin6_addr),
		         1);
		CHECK_EQ(nvmf_share_get(&all, &from, &s[i]), 0);
		for (unsigned int k = 0; k < i; k++)
			CHECK_MSG((s[k] == s[i]) == (of[k].share == of[i].share), "%s, %s",
			          of[k].text, of[i].text);
	}
	for (unsigned int i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		nvmf_share_put(s[i]);
	CHECK(LIST_EMPTY(&all));
}

WEFT_TEST_MAIN({"read and write", test_read_write}, {"in the capsule", test_in_capsule},
               {"refusals: every field", test_refusals}, {"read-only", test_read_only},
               {"write zeroes, dataset management", test_zeroes_and_dsm},
               {"compare, verify", test_compare_and_verify}, {"fused", test_fused},
               {"memory", test_memory}, {"shares", test_shares}, {"memory that is kept", test_kept},
               {"memory: a stuck device", test_stuck}, {"lost at every moment", test_lost},
               {"overrun", test_overrun}, {"a lost flush is told", test_lost_flush},
               {"a lost flush is told to the host, on any controller", test_lost_flush_of_host},
               {"dataset management is durable", test_dsm_durable},
               {"dataset management: a flush is lost between its ranges", test_dsm_lost},
               {"a shutdown whose flush fails", test_shutdown_fails},
               {"unflushed writes of hosts that have gone", test_losses_kept},
               {"errors of the medium", test_medium_errors}, {"power", test_power})
