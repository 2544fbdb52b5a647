/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: region. Register, deregister, fill, dump. */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "script.h"

WORD(tok_register, verb, "register");
WORD(tok_deregister, verb, "deregister");
WORD(tok_fill, verb, "fill");
WORD(tok_dump, verb, "dump");
WORD(tok_memory, noun, "memory");
WORD(tok_file, noun, "file");
WORD(tok_fast, noun, "fast");

#define RIGHTS                                                                                     \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY |              \
	 WEFT_ACCESS_MW_BIND)

/** A free number, or 0 after a message. */
static unsigned int
region_number(struct cmdline *cl)
{
	for (unsigned int n = 1; n <= CONSOLE_MAX_REGIONS; n++)
		if (!con.regions[n].used)
			return n;
	console_fail(cl, "register: %d regions are the most", CONSOLE_MAX_REGIONS);
	return 0;
}

/** Take the number for a region of this memory. */
static void
region_take(unsigned int n, uint64_t bytes, uint32_t access)
{
	struct console_region *r = &con.regions[n];

	r->used = true;
	r->mem = r->persist->base;
	r->bytes = bytes;
	r->access = access;
	vars_result("region", "%u", n);
}

/** rights_text: the peer's rights; NULL: all that the medium allows. */
static void
region_register(struct cmdline *cl, uint64_t bytes, const char *path, const char *rights_text)
{
	struct weft_mr_attr ma = {.size = sizeof(ma), .access = RIGHTS, .hash = "crc32c"};
	const unsigned int n = region_number(cl);
	struct console_region *r = &con.regions[n];
	int rc;

	if (n == 0 ||
	    (rights_text != NULL && !console_rights(cl, "register", rights_text, &ma.access)))
		return;
	memset(r, 0, sizeof(*r));
	if (!console_medium(cl, bytes, path, &r->persist))
		return;
	if (rights_text == NULL && r->persist->ops->persistent)
		ma.access |= WEFT_ACCESS_FLUSH_PERSISTENT;
	ma.addr = r->persist->base;
	ma.len_bytes = bytes;
	ma.persist = r->persist;
	rc = weft_mr_reg(con.pd, &ma, &r->mr);
	if (rc != 0) {
		weft_persist_close(r->persist);
		console_fail(cl, "register: %s", strerror(-rc));
		return;
	}
	region_take(n, bytes, ma.access);
	vars_result("stag", "0x%08x", weft_mr_stag(r->mr));
	cmdline_printf(cl, "region %u: stag 0x%08x, offset 0, %" PRIu64 " bytes, %s\n", n,
	               weft_mr_stag(r->mr), bytes, r->persist->mechanism);
}

static void
cmd_register_memory(void *arg, struct cmdline *cl, void *data)
{
	(void)data;
	region_register(cl, ((struct cmd_args *)arg)->a, NULL, NULL);
}

static void
cmd_register_memory_rights(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;

	(void)data;
	region_register(cl, a->a, NULL, a->s2);
}

static void
cmd_register_file(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;

	(void)data;
	region_register(cl, a->a, a->s1, NULL);
}

static void
cmd_register_file_rights(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;

	(void)data;
	region_register(cl, a->a, a->s1, a->s2);
}

/** Memory, and a region that a work request makes valid. */
static void
region_reserve(struct cmdline *cl, uint64_t bytes, const char *path)
{
	const unsigned int n = region_number(cl);
	struct console_region *r = &con.regions[n];
	int rc;

	if (n == 0)
		return;
	memset(r, 0, sizeof(*r));
	if (!console_medium(cl, bytes, path, &r->persist))
		return;
	rc = weft_mr_alloc(con.pd, &r->mr);
	if (rc != 0) {
		weft_persist_close(r->persist);
		console_fail(cl, "register: %s", strerror(-rc));
		return;
	}
	region_take(n, bytes, 0);
	r->fast = true;
	cmdline_printf(cl, "region %u: reserved, %" PRIu64 " bytes, %s\n", n, bytes,
	               r->persist->mechanism);
}

static void
cmd_register_fast(void *arg, struct cmdline *cl, void *data)
{
	(void)data;
	region_reserve(cl, ((struct cmd_args *)arg)->a, NULL);
}

static void
cmd_register_fast_file(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;

	(void)data;
	region_reserve(cl, a->a, a->s2);
}

static void
region_freed(void *arg)
{
	atomic_store_explicit((atomic_bool *)arg, true, memory_order_release);
}

static bool
flag_set(void *arg)
{
	return atomic_load_explicit((atomic_bool *)arg, memory_order_acquire);
}

static void
cmd_deregister(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct console_region *r = console_region(cl, a->a);
	static atomic_bool freed;
	int rc;

	(void)data;
	if (r == NULL)
		return;
	atomic_store_explicit(&freed, false, memory_order_relaxed);
	rc = weft_mr_dereg(r->mr, region_freed, &freed);
	if (rc != 0) {
		console_fail(cl, "deregister: region %" PRIu64 ": %s", a->a,
		             rc == -EBUSY ? "windows are bound to it; 'show windows' lists them"
		                          : strerror(-rc));
		return;
	}
	if (!console_wait(cl, 5000, flag_set, &freed)) {
		console_fail(cl, "deregister: operations are still using region %" PRIu64, a->a);
		return;
	}
	weft_persist_close(r->persist);
	r->used = false;
}

/** The region and a range in it, or NULL after a message. */
static struct console_region *
range(struct cmdline *cl, const struct cmd_args *a)
{
	struct console_region *r = console_region(cl, a->a);

	if (r == NULL)
		return NULL;
	if (a->b > r->bytes || a->c > r->bytes - a->b) {
		console_wrong(cl, "region %" PRIu64 " has %" PRIu64 " bytes", a->a, r->bytes);
		return NULL;
	}
	return r;
}

static void
cmd_fill(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct console_region *r = range(cl, a);
	size_t n = strlen(a->s1);

	(void)data;
	if (r == NULL)
		return;
	for (uint64_t i = 0; i < a->c; i++)
		r->mem[a->b + i] = (uint8_t)a->s1[i % n];
	weft_persist_mark(r->persist, a->b, a->c);
}

static void
cmd_dump(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct console_region *r = range(cl, a);

	(void)data;
	if (r == NULL)
		return;
	console_drain(cl);
	for (uint64_t i = 0; i < a->c; i += 16) {
		uint64_t n = a->c - i < 16 ? a->c - i : 16;

		cmdline_printf(cl, "%08" PRIx64 " ", a->b + i);
		for (uint64_t k = 0; k < 16; k++)
			if (k < n)
				cmdline_printf(cl, " %02x", r->mem[a->b + i + k]);
			else
				cmdline_printf(cl, "   ");
		cmdline_printf(cl, "  ");
		for (uint64_t k = 0; k < n; k++) {
			int c = r->mem[a->b + i + k];

			cmdline_printf(cl, "%c", isprint(c) ? c : '.');
		}
		cmdline_printf(cl, "\n");
	}
}

static CMD(cmd_reg_mem, cmd_register_memory, "register memory BYTES: a region of ordinary memory",
           (void *)&tok_register, (void *)&tok_memory, (void *)&tok_a);
static CMD(cmd_reg_mem_rights, cmd_register_memory_rights,
           "register memory BYTES RIGHTS: with these rights of the peer only, such as read,verify",
           (void *)&tok_register, (void *)&tok_memory, (void *)&tok_a, (void *)&tok_s2);
static CMD(cmd_reg_file, cmd_register_file,
           "register file PATH BYTES: durable in a file, which is created or has that size",
           (void *)&tok_register, (void *)&tok_file, (void *)&tok_s1, (void *)&tok_a);
static CMD(cmd_reg_file_rights, cmd_register_file_rights,
           "register file PATH BYTES RIGHTS: read, write, atomic, flush, visible, verify",
           (void *)&tok_register, (void *)&tok_file, (void *)&tok_s1, (void *)&tok_a,
           (void *)&tok_s2);
static CMD(cmd_reg_fast, cmd_register_fast,
           "register fast BYTES: memory that 'post fast-register' makes valid, part by part",
           (void *)&tok_register, (void *)&tok_fast, (void *)&tok_a);
static CMD(cmd_reg_fast_file, cmd_register_fast_file,
           "register fast BYTES PATH: the same, durable in a file", (void *)&tok_register,
           (void *)&tok_fast, (void *)&tok_a, (void *)&tok_s2);
static CMD(cmd_dereg, cmd_deregister, "deregister REGION: invalidate its STag and free it",
           (void *)&tok_deregister, (void *)&tok_region);
static CMD(cmd_fill_, cmd_fill, "fill REGION OFFSET BYTES TEXT: write a repeating text into it",
           (void *)&tok_fill, (void *)&tok_region, (void *)&tok_b, (void *)&tok_c, (void *)&tok_s1);
static CMD(cmd_dump_, cmd_dump, "dump REGION OFFSET BYTES: show its content", (void *)&tok_dump,
           (void *)&tok_region, (void *)&tok_b, (void *)&tok_c);

cmdline_parse_inst_t *const cmds_mem[] = {
        &cmd_reg_mem,       &cmd_reg_mem_rights, &cmd_reg_file, &cmd_reg_file_rights, &cmd_reg_fast,
        &cmd_reg_fast_file, &cmd_dereg,          &cmd_fill_,    &cmd_dump_,           NULL};
