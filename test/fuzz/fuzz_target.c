/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file weft-target's volumes behind version 2 of the export program. The target's own parts run
 * over the simulated network (test/target/target_rig.h). The input makes connections, calls with
 * valid, nearly valid and arbitrary arguments, with data in chunks or without, RDMA to windows, and
 * ends connections. The device "fault" ends requests in any order, late, with errors, or keeps them
 * until the input lets them go. The input also revokes rights, and lets the client's link fail.
 *
 * In every case each call is answered once while its connection lasts. What a READ returns as done
 * has the length that was asked for. At the end, when the device has answered, nothing is left at
 * the target: no connection, grant, window, region, staging memory or operation.
 *
 * The first octet of an input selects the target: workers, checksums, the memory of windows. A
 * target serves many inputs. An input must leave nothing behind in it but the volume's octets.
 */

#include "fuzz.h"

#include "target_rig.h"
#include "weft_test.h"

#define CONNS     4u
#define CALLS     96u
#define OPS       160u
#define WRS       64u
#define WINDOWS   16u
#define KINDS     4u
#define RENEW     256u
#define DISK      (16u << 20)
#define ANSWER_NS (120 * RIG_S)

static struct fuzz_target {
	struct fuzz_in in;
	struct rig_conn k[CONNS];
	bool made[CONNS];
	weft_volrpc_grant grant[8]; /**< of any connection; the last ones */
	weft_volrpc_window window[WINDOWS];
	unsigned int ngrants, nwindows, ncalls, nwrs;
	struct rig_call call[CALLS];
	uint8_t raw[CALLS][256];
	char name[CALLS][260];
	struct rig_wr wr[WRS];
	unsigned int by_status[256], failed;
} * z;

static const struct rig_attr kinds_of_rig[KINDS] = {
        {.workers = 1, .bytes = DISK, .target = "staging = 8M\nwindow = 64K\nrevoke_ms = 100\n"},
        {.workers = 2, .bytes = DISK, .target = "staging = 8M\nwindow = 1M\nrevoke_ms = 0\n"},
        {.workers = 1,
         .bytes = DISK,
         .target = "staging = 4M\nwindow = 1M\nrevoke_ms = 50\nkeepalive_ms = 500\n",
         .export = "checksums = yes\nscrub = 1\n"},
        {.workers = 2,
         .bytes = DISK,
         .target = "staging = 8M\nwindow = 1M\nkeepalive_ms = 500\n",
         .export = "rights = read,write\nhash = sha256\n"},
};

/** A target takes long to make, so one of each kind serves many inputs. */
static void
stacks(unsigned int kind)
{
	static struct rig kept[KINDS];
	static unsigned int inputs[KINDS], is;

	kept[is] = rig;
	rig = kept[kind];
	is = kind;
	if (inputs[kind] % RENEW == 0) {
		if (inputs[kind] > 0)
			rig_close();
		rig_open(&kinds_of_rig[kind]);
	}
	inputs[kind]++;
}

/* ---- Values ---- */

static uint64_t
edge(uint64_t bytes)
{
	const uint64_t v[] = {0,
	                      1,
	                      511,
	                      512,
	                      4095,
	                      4096,
	                      65535,
	                      65536,
	                      131072,
	                      1u << 20,
	                      (1u << 20) + 1,
	                      bytes - 4096,
	                      bytes - 1,
	                      bytes,
	                      bytes + 1,
	                      UINT32_MAX,
	                      (uint64_t)UINT32_MAX + 1,
	                      INT64_MAX,
	                      UINT64_MAX - 4095,
	                      UINT64_MAX};
	const uint8_t how = fuzz_u8(&z->in);

	if (how < 160)
		return v[how % RTE_DIM(v)];
	if (how < 240)
		return (uint64_t)(how - 160) * 4096;
	return fuzz_u32(&z->in);
}

static uint64_t
volume_bytes(void)
{
	return weft_vol_info(rig.t->exports[0].volume->vol)->super.bytes;
}

static uint32_t
any_handle(void)
{
	const uint8_t how = fuzz_u8(&z->in);

	if (z->ngrants == 0 || how >= 250)
		return fuzz_u32(&z->in);
	return z->grant[how % RTE_MIN(z->ngrants, RTE_DIM(z->grant))].handle;
}

static const weft_volrpc_window *
any_window(void)
{
	static weft_volrpc_window none;
	const uint8_t how = fuzz_u8(&z->in);

	none.window = how;
	if (z->nwindows == 0 || how >= 250)
		return &none;
	return &z->window[how % RTE_MIN(z->nwindows, WINDOWS)];
}

static struct rig_conn *
any_conn(uint8_t how)
{
	const unsigned int i = how % CONNS;

	if (!z->made[i] || (z->k[i].gone && z->k[i].rpc == NULL)) {
		rig_connect(&z->k[i], i % RIG_NODES);
		z->made[i] = true;
		rig_run(RIG_MS);
	}
	return &z->k[i];
}

/* ---- Calls ---- */

static void
call_ended(struct rig_call *c)
{
	if (c->rpc != WEFT_RPC_OK || c->raw != NULL) {
		z->failed += c->rpc != WEFT_RPC_OK;
		if (fuzz_verbose())
			fprintf(stderr, "\tprocedure %u: %s\n", c->proc,
			        weft_rpc_status_str(c->rpc));
		/* Nothing but the end of a connection may leave a call without an answer. */
		FUZZ_CHECK(c->rpc != WEFT_RPC_TIMEDOUT);
		return;
	}
	z->by_status[c->status & 255]++;
	FUZZ_CHECK(c->status == WEFT_VOLRPC_OK || c->why[0] != '\0');
	if (c->status != WEFT_VOLRPC_OK)
		return;
	if (c->proc == WEFT_VOLRPC_READ)
		FUZZ_CHECK(c->read_bytes == c->args.read.args.count);
	if (c->proc == WEFT_VOLRPC_OPEN)
		z->grant[z->ngrants++ % RTE_DIM(z->grant)] = c->grant;
	if (c->proc == WEFT_VOLRPC_WINDOW_OPEN)
		z->window[z->nwindows++ % WINDOWS] = c->win;
}

static struct rig_call *
new_call(void)
{
	struct rig_call *c;

	if (z->ncalls >= CALLS)
		return NULL;
	c = &z->call[z->ncalls++];
	c->then = call_ended;
	c->timeout_us = (ANSWER_NS + 100 * RIG_S) / 1000;
	return c;
}

/** Arguments of any octets, for any procedure. */
static void
call_raw(struct rig_conn *k, uint8_t proc)
{
	struct rig_call *c = new_call();
	const uint8_t *from;
	size_t n;

	if (c == NULL)
		return;
	from = fuzz_octets(&z->in, fuzz_u8(&z->in), &n);
	memcpy(z->raw[c - z->call], from, n);
	/* A handle that is open, so that more than the first word is looked at. */
	if (n >= 4 && z->ngrants > 0 && (proc & 0x80)) {
		const uint32_t h = htonl(z->grant[0].handle);

		memcpy(z->raw[c - z->call], &h, 4);
	}
	c->proc = proc & 31;
	c->raw = z->raw[c - z->call];
	c->raw_bytes = (uint32_t)n & ~3u;
	rig_call(k, c);
}

static void
call_open(struct rig_conn *k, struct rig_call *c, uint8_t how)
{
	static const uint32_t rights[] = {0, RIG_RIGHTS, WEFT_EXPORT_READ, WEFT_EXPORT_WRITE, ~0u};
	char *name = z->name[c - z->call];

	strcpy(name, RIG_NAME);
	if ((how & 0x70) == 0x70)
		memset(name, 'v', how & 0x80 ? 255 : 2);
	c->args.open =
	        (weft_volrpc_open_args){.name = name, .rights = rights[how % RTE_DIM(rights)]};
	if (how == 0xff)
		c->args.open.cred.cred_val = name, c->args.open.cred.cred_len = 1;
	rig_call(k, c);
}

static void
call_any(struct rig_conn *k, uint8_t proc)
{
	const uint64_t bytes = volume_bytes();
	struct rig_call *c = new_call();
	uint8_t how;

	if (c == NULL)
		return;
	how = fuzz_u8(&z->in);
	/* What the corpora say of the procedures before it stays. */
	c->proc = proc == WEFT_VOLRPC_LIST_FROM ? proc : proc % (WEFT_VOLRPC_CLONE + 1);
	c->no_chunks = (how & 0x40) != 0;
	if (c->proc == WEFT_VOLRPC_OPEN) {
		call_open(k, c, how);
		return;
	}
	switch (c->proc) {
	case WEFT_VOLRPC_NULL:
	case WEFT_VOLRPC_LIST:
		break;
	case WEFT_VOLRPC_LIST_FROM:
		c->args.list.from = (how & 0x80) != 0 ? UINT32_MAX : how & 0x3f;
		break;
	case WEFT_VOLRPC_CLOSE:
		c->args.close.handle = any_handle();
		break;
	case WEFT_VOLRPC_READ:
		c->args.read.args.handle = any_handle();
		c->args.read.args.off = edge(bytes);
		c->args.read.args.count = (u_int)RTE_MIN(edge(bytes), (uint64_t)RIG_MEM);
		c->args.read.into = k->n->mem;
		break;
	case WEFT_VOLRPC_WRITE:
		c->args.write.handle = any_handle();
		c->args.write.off = edge(bytes);
		c->args.write.flags = how & 0x3f;
		c->args.write.data.data_len =
		        (u_int)RTE_MIN(edge(bytes), (uint64_t)WEFT_VOLRPC_IO_MAX);
		c->args.write.data.data_val = (char *)k->n->mem + (how & 0x80 ? 1 : 0);
		break;
	case WEFT_VOLRPC_COMPARE_WRITE:
		c->args.compare.handle = any_handle();
		c->args.compare.off = edge(bytes);
		c->args.compare.flags = how & 0x3f;
		c->args.compare.data.data_len =
		        (u_int)RTE_MIN(edge(bytes), (uint64_t)WEFT_VOLRPC_COMPARE_MAX);
		c->args.compare.expect.expect_len = c->args.compare.data.data_len;
		c->args.compare.data.data_val = (char *)k->n->mem;
		c->args.compare.expect.expect_val = (char *)k->n->mem + (how & 0x80 ? 4096 : 0);
		break;
	case WEFT_VOLRPC_WINDOW_OPEN:
		c->args.window.handle = any_handle();
		c->args.window.off = edge(bytes);
		c->args.window.len = (u_int)edge(bytes);
		c->args.window.rights =
		        how & 0x80 ? fuzz_u8(&z->in)
		                   : WEFT_EXPORT_READ | WEFT_EXPORT_WRITE | WEFT_EXPORT_FLUSH;
		c->args.window.flags = how & 0x3f;
		break;
	case WEFT_VOLRPC_WINDOW_MOVE:
		c->args.move.window = any_window()->window;
		c->args.move.off = edge(bytes);
		c->args.move.len = (u_int)edge(bytes);
		c->args.move.flags = how & 0x3f;
		break;
	case WEFT_VOLRPC_WINDOW_CLOSE:
		c->args.wclose.window = any_window()->window;
		break;
	case WEFT_VOLRPC_SNAPSHOT:
	case WEFT_VOLRPC_SNAPSHOTS:
	case WEFT_VOLRPC_SNAPSHOT_REMOVE:
	case WEFT_VOLRPC_CLONE: {
		static char names[][8] = {"", "a", "b", "c", ".a", "a/b", "a b", "d"};

		c->args.snap.handle = any_handle();
		c->args.snap.name = names[how & 7];
		c->args.snap.from = names[how & 0x80 ? how >> 3 & 7 : 0];
		break;
	}
	default:
		c->args.range.handle = any_handle();
		c->args.range.off = edge(bytes);
		c->args.range.len = edge(bytes);
		c->args.range.flags = how & 0x3f;
		break;
	}
	rig_call(k, c);
}

/* ---- RDMA, the device, the ends ---- */

static void
do_rdma(struct rig_conn *k, uint8_t how)
{
	const weft_volrpc_window *w = any_window();
	const uint32_t len = 1 + (uint32_t)(edge(4096) & 0xffff);
	const uint64_t to = how & 0x80 ? edge(65536) : w->to;

	if (z->nwrs >= WRS || !k->up || k->gone)
		return;
	(void)rig_rdma(k, w->stag, to, k->n->mem, len, (how & 0x40) != 0, &z->wr[z->nwrs++]);
}

static void
do_device(uint8_t how)
{
	struct weft_block_fault_hit hit = {.count = 1 + (how >> 6) * 5, .skip = how >> 3 & 3};
	static const int errors[] = {-EIO, -ENOSPC, -EOPNOTSUPP, -EBADMSG};
	struct weft_block_fault_cfg cfg = {0};
	const uint8_t more = fuzz_u8(&z->in);

	hit.ops = more & 0x80 ? 1u << (more % WEFT_BLOCK_OPS) : 0;
	switch (how & 7) {
	case 0:
		weft_block_fault_stick(rig.block, &hit);
		break;
	case 1:
	case 2:
		weft_block_fault_stick(rig.block, NULL);
		break;
	case 3:
		weft_block_fault_fail(rig.block, &hit, errors[more & 3]);
		break;
	case 4:
		weft_block_fault_fail(rig.block, NULL, 0);
		break;
	case 5:
		cfg.error_ppm = more * 1000;
		cfg.delay_max_ns = RIG_MS;
		weft_block_fault_set(rig.block, &cfg);
		break;
	case 6:
		cfg.busy_ppm = 200000;
		cfg.delay_max_ns = 100000 * (uint64_t)more;
		cfg.leak_ppm = 10000;
		weft_block_fault_set(rig.block, &cfg);
		break;
	default:
		weft_block_fault_set(rig.block, &cfg);
		break;
	}
}

static void
do_revoke(uint8_t how)
{
	struct target_export *ex = &rig.t->exports[0];

	atomic_store(&ex->rights, how & 0x10 ? ex->conf->rights : how & WEFT_EXPORT_READ);
	target_export_revoke(rig.t, ex);
}

static void
step(uint8_t op)
{
	struct rig_conn *k;
	uint8_t how;

	switch (op & 7) {
	case 0:
	case 1:
	case 2:
		k = any_conn(op >> 6);
		call_any(k, fuzz_u8(&z->in));
		break;
	case 3:
		k = any_conn(op >> 6);
		call_raw(k, fuzz_u8(&z->in));
		break;
	case 4:
		k = any_conn(op >> 6);
		do_rdma(k, fuzz_u8(&z->in));
		break;
	case 5:
		do_device(fuzz_u8(&z->in));
		break;
	case 6:
		how = fuzz_u8(&z->in);
		if ((how & 3) == 0)
			do_revoke(how);
		else if ((how & 3) == 1)
			rig_link(how >> 7, (how & 0x40) != 0);
		else if (z->made[op >> 6])
			rig_disconnect(&z->k[op >> 6]);
		break;
	default:
		how = fuzz_u8(&z->in);
		rig_run(how < 200 ? how * 10000ULL : (how - 199) * 20 * RIG_MS);
		return;
	}
	if (!(op & 0x20))
		rig_run(100000);
}

static bool
all_answered(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < CONNS; i++)
		if (z->k[i].under_way > 0)
			return false;
	return true;
}

static void
finish(uint8_t how)
{
	const struct weft_block_fault_cfg cfg = {0};
	struct target_export *ex = &rig.t->exports[0];

	for (unsigned int i = 0; i < RIG_NODES; i++)
		rig_link(i, true);
	if (how & 1) { /* the connections end first, with what the device has still under way */
		for (unsigned int i = 0; i < CONNS; i++)
			if (z->made[i])
				rig_disconnect(&z->k[i]);
		rig_run(RIG_MS);
	}
	weft_block_fault_set(rig.block, &cfg);
	weft_block_fault_fail(rig.block, NULL, 0);
	weft_block_fault_stick(rig.block, NULL);
	if (!rig_until(ANSWER_NS, all_answered, NULL)) {
		for (unsigned int i = 0; i < z->ncalls; i++)
			if (!z->call[i].done)
				fprintf(stderr,
				        "no answer: procedure %u, %u octets, connection %u\n",
				        z->call[i].proc, z->call[i].raw_bytes,
				        (unsigned int)(z->call[i].conn - z->k));
		FUZZ_CHECK(false);
	}
	for (unsigned int i = 0; i < z->ncalls; i++)
		FUZZ_CHECK(z->call[i].done);
	for (unsigned int i = 0; i < CONNS; i++)
		if (z->made[i])
			rig_disconnect(&z->k[i]);
	rig_run(RIG_MS);
	atomic_store(&ex->rights, ex->conf->rights);
	if (!rig_until(60 * RIG_S, rig_is_clean, NULL)) {
		fprintf(stderr, "left: %s\n", rig_left());
		FUZZ_CHECK(false);
	}
	rig_run(RIG_MS);
}

/** For writers of inputs: what an input has reached. */
static void
tell(void)
{
	if (!fuzz_verbose())
		return;
	fprintf(stderr, "\t%u calls, %u without an answer, %u grants, %u windows;", z->ncalls,
	        z->failed, z->ngrants, z->nwindows);
	for (unsigned int i = 0; i < 256; i++)
		if (z->by_status[i] > 0)
			fprintf(stderr, " status %u: %u", i, z->by_status[i]);
	fprintf(stderr, "\n");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (rte_log_get_global_level() > RTE_LOG_ERR) {
		test_eal_init();
		test_bail_aborts = true;
		rte_log_set_global_level(RTE_LOG_EMERG);
	}
	z = calloc(1, sizeof(*z));
	FUZZ_CHECK(z != NULL);
	z->in = (struct fuzz_in){data, size > 0 ? size - 1 : 0};
	stacks(fuzz_u8(&z->in) % KINDS);
	for (unsigned int i = 0; i < OPS && z->in.left > 0; i++)
		step(fuzz_u8(&z->in));
	finish(size > 0 ? data[size - 1] : 0);
	tell();
	free(z);
	return 0;
}
