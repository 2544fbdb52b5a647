/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: window, and local work: fast registration, binding, invalidation. */

#include <inttypes.h>
#include <string.h>

#include "post.h"
#include "script.h"

WORD(tok_allocate, verb, "allocate");
WORD(tok_free, verb, "free");
WORD(tok_noun_window, noun, "window");
WORD(tok_fast_register, noun, "fast-register");
WORD(tok_invalidate, noun, "invalidate");
WORD(tok_bind, noun, "bind");
WORD(tok_show, verb, "show");
WORD(tok_windows, noun, "windows");

static void
cmd_allocate(void *arg, struct cmdline *cl, void *data)
{
	unsigned int n = 1;
	int rc;

	(void)arg;
	(void)data;
	while (n <= CONSOLE_MAX_WINDOWS && con.windows[n].used)
		n++;
	if (n > CONSOLE_MAX_WINDOWS) {
		console_fail(cl, "allocate: %d windows are the most", CONSOLE_MAX_WINDOWS);
		return;
	}
	rc = weft_mw_alloc(con.pd, &con.windows[n].mw);
	if (rc != 0) {
		console_fail(cl, "allocate: %s", strerror(-rc));
		return;
	}
	con.windows[n].used = true;
	vars_result("window", "%u", n);
	cmdline_printf(cl, "window %u: not bound\n", n);
}

static void
cmd_free(void *arg, struct cmdline *cl, void *data)
{
	struct console_window *w = console_window(cl, ((struct cmd_args *)arg)->a);

	(void)data;
	if (w == NULL)
		return;
	if (post_chained(w->mw)) {
		console_fail(cl, "free: the chain binds this window");
		return;
	}
	weft_mw_dealloc(w->mw);
	w->used = false;
}

/** A range of a region that is to be registered or bound. False after a message. */
static bool
range_ok(struct cmdline *cl, const struct console_region *r, uint64_t off, uint64_t len)
{
	if (off <= r->bytes && len <= r->bytes - off)
		return true;
	console_wrong(cl, "region %u has %" PRIu64 " bytes", (unsigned int)(r - con.regions),
	              r->bytes);
	return false;
}

/** Post what gives an STag, which is known before: the next one of its region or window. */
static bool
post_stag(struct cmdline *cl, struct console_qp *q, struct weft_wr *wr,
          const struct post_options *o, const void *object, uint32_t stag)
{
	if (o->times > 1 || post_chained(object)) {
		console_fail(cl, "post: it has been given an STag already; invalidate that first");
		return false;
	}
	if (!post_wr(cl, q, wr, o))
		return false;
	vars_result("stag", "0x%08x", stag);
	cmdline_printf(cl, "stag 0x%08x\n", stag);
	return true;
}

static void
cmd_fast_register(void *arg, struct cmdline *cl, void *data)
{
	const struct post_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_FAST_REG};
	struct console_region *r;
	struct post_options o;
	struct console_qp *q;
	uint32_t access;

	if (!post_options(cl, a->rest, data, &o) || (q = console_qp(cl, a->c.a)) == NULL ||
	    (r = console_region_named(cl, a->c.s1)) == NULL || !range_ok(cl, r, a->c.b, a->c.c) ||
	    !console_rights(cl, "fast-register", a->c.s2, &access))
		return;
	if (!r->fast) {
		console_fail(cl,
		             "post: region %s was registered as a whole; 'register fast' "
		             "reserves one for this",
		             a->c.s1);
		return;
	}
	wr.fast_reg.mr = r->mr;
	wr.fast_reg.addr = r->mem + a->c.b;
	wr.fast_reg.len_bytes = a->c.c;
	wr.fast_reg.access = access;
	wr.fast_reg.persist = r->persist;
	wr.fast_reg.hash = "crc32c";
	wr.fast_reg.stream = o.stream;
	if (post_stag(cl, q, &wr, &o, r->mr, weft_mr_next_stag(r->mr)))
		r->access = access;
}

static void
cmd_bind(void *arg, struct cmdline *cl, void *data)
{
	const struct post_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_BIND_MW};
	struct console_window *w;
	struct console_region *r;
	struct post_options o;
	struct console_qp *q;

	if (!post_options(cl, a->rest, data, &o) || (q = console_qp(cl, a->c.a)) == NULL ||
	    (w = console_window(cl, a->c.b)) == NULL ||
	    (r = console_region_named(cl, a->c.s1)) == NULL || !range_ok(cl, r, a->c.c, a->c.d) ||
	    !console_rights(cl, "bind", a->c.s2, &wr.bind_mw.access))
		return;
	wr.bind_mw.access &= ~(uint32_t)(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_MW_BIND);
	wr.bind_mw.mw = w->mw;
	wr.bind_mw.mr = r->mr;
	wr.bind_mw.addr = r->mem + a->c.c;
	wr.bind_mw.len_bytes = a->c.d;
	post_stag(cl, q, &wr, &o, w->mw, weft_mw_next_stag(w->mw));
}

static void
cmd_invalidate(void *arg, struct cmdline *cl, void *data)
{
	const struct post_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_LOCAL_INV, .local_inv.stag = (uint32_t)a->c.b};
	struct post_options o;
	struct console_qp *q;

	if (post_options(cl, a->rest, data, &o) && (q = console_qp(cl, a->c.a)) != NULL)
		post_wr(cl, q, &wr, &o);
}

static void
show_windows(void *arg, struct cmdline *cl, void *data)
{
	struct weft_mw_info in;
	char names[48];
	bool any = false;

	(void)arg;
	(void)data;
	console_drain(cl);
	for (unsigned int n = 1; n <= CONSOLE_MAX_WINDOWS; n++) {
		if (!con.windows[n].used)
			continue;
		any = true;
		weft_mw_query(con.windows[n].mw, &in);
		if (in.stag == 0)
			cmdline_printf(cl, "window %u: never bound\n", n);
		else
			cmdline_printf(cl,
			               "window %u: stag 0x%08x, %s, %" PRIu64 " bytes, rights%s\n",
			               n, in.stag, in.valid ? "bound" : "not bound", in.len_bytes,
			               console_rights_str(in.access, names));
	}
	if (!any)
		cmdline_printf(cl, "no windows\n");
}

static CMD(cmd_allocate_, cmd_allocate, "allocate window: a memory window, which is not bound yet",
           (void *)&tok_allocate, (void *)&tok_noun_window);
static CMD(cmd_free_, cmd_free, "free window WINDOW: its STag becomes invalid", (void *)&tok_free,
           (void *)&tok_noun_window, (void *)&tok_window);
static CMD(cmd_windows_, show_windows, "show windows: STags, sizes, rights", (void *)&tok_show,
           (void *)&tok_windows);
POST_CMD(post_fast, cmd_fast_register,
         "post fast-register QP REGION OFFSET BYTES RIGHTS [OPTIONS]: make a part of it valid",
         (void *)&tok_fast_register, (void *)&tok_qp, (void *)&tok_region_s1, (void *)&tok_b,
         (void *)&tok_c, (void *)&tok_s2);
POST_CMD(post_bind, cmd_bind,
         "post bind QP WINDOW REGION OFFSET BYTES RIGHTS [OPTIONS]: bind a window to a part of it",
         (void *)&tok_bind, (void *)&tok_qp, (void *)&tok_window_b, (void *)&tok_region_s1,
         (void *)&tok_c, (void *)&tok_d, (void *)&tok_s2);
POST_CMD(post_inv, cmd_invalidate,
         "post invalidate QP STAG [OPTIONS]: of a fast region, or of a window bound to this QP",
         (void *)&tok_invalidate, (void *)&tok_qp, (void *)&tok_b);

cmdline_parse_inst_t *const cmds_window[] = {&cmd_allocate_, &cmd_free_, &cmd_windows_, NULL};
cmdline_parse_inst_t *const cmds_local[] = {
        &post_fast, &post_fast_rest, &post_bind, &post_bind_rest, &post_inv, &post_inv_rest, NULL};
