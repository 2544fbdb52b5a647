/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The interface of block devices (weft/block.h), over a driver whose every step the test
 * makes.
 */

#include <errno.h>
#include <stdlib.h>

#include "block_script.h"
#include "weft_base.h"
#include "weft_test.h"

#define DISK_BYTES (1U << 20)

static uint8_t memory[65536] __attribute__((aligned(4096)));
static struct iovec whole = {memory, 4096};

/** A request, and what its callbacks saw. */
struct seen {
	struct weft_block_req req;
	unsigned int done, late;
	unsigned int at; /**< when done() was called: a number that grows */
};

static unsigned int clock_of_calls;
static struct weft_block_state told;
static unsigned int ntold, told_at;

static void
on_done(struct weft_block_req *req)
{
	struct seen *s = req->owner;

	s->done++;
	s->at = ++clock_of_calls;
}

static void
on_late(struct weft_block_req *req)
{
	((struct seen *)req->owner)->late++;
}

static void
on_event(struct weft_block_chan *c, const struct weft_block_state *state)
{
	CHECK(c->owner == &told);
	told = *state;
	ntold++;
	told_at = ++clock_of_calls;
}

static struct seen *
make(struct seen *s, enum weft_block_op op, uint64_t off)
{
	*s = (struct seen){.req = {.op = op,
	                           .off_bytes = off,
	                           .len_bytes = 4096,
	                           .iov = &whole,
	                           .iovs = 1,
	                           .done = on_done,
	                           .late = on_late,
	                           .owner = s}};
	if (op == WEFT_BLOCK_FLUSH)
		s->req.len_bytes = 0;
	return s;
}

static struct weft_block *
disk(void)
{
	struct weft_block_attr a = {.size = sizeof(a), .driver = "script", .bytes = DISK_BYTES};
	struct weft_block *b;

	script_reset();
	ntold = 0;
	CHECK_EQ(weft_block_open(&a, &b), 0);
	return b;
}

static struct weft_block_chan *
channel(struct weft_block *b, uint32_t depth)
{
	struct weft_block_chan_attr a = {
	        .size = sizeof(a), .depth = depth, .event = on_event, .owner = &told};
	struct weft_block_chan *c;

	CHECK_EQ(weft_block_chan_open(b, &a, &c), 0);
	return c;
}

static void
end(struct weft_block *b, struct weft_block_chan *c)
{
	CHECK_EQ(weft_block_chan_close(c), 0);
	CHECK_EQ(weft_block_close(b), 0);
}

static void
submit(struct weft_block_chan *c, struct seen *s)
{
	CHECK_EQ(weft_block_submit(c, &s->req), 0);
	CHECK_EQ(s->done, 0); /* never inside the submission */
}

/* ---- Registry and open ---- */

static void
test_registry(void)
{
	static struct weft_block_ops whole_ops;
	const struct weft_block_ops *script_ops = weft_block_find("script");
	struct weft_block_ops o;
	unsigned int n = 0;

	CHECK(script_ops != NULL && weft_block_find("mem") != NULL);
	CHECK(weft_block_find("tape") == NULL && weft_block_find(NULL) == NULL);
	while (weft_block_get(n) != NULL)
		n++;
	CHECK_EQ(weft_block_register(NULL), -EINVAL);
	whole_ops = *script_ops;
	whole_ops.name = "other";
#define WITHOUT(slot)                                                                              \
	o = whole_ops;                                                                             \
	o.slot = NULL;                                                                             \
	CHECK_EQ(weft_block_register(&o), -EINVAL)
	WITHOUT(name);
	WITHOUT(open);
	WITHOUT(close);
	WITHOUT(submit);
#undef WITHOUT
	CHECK_EQ(weft_block_register(script_ops), -EEXIST);
	CHECK(weft_block_get(n) == NULL);
	CHECK_EQ(weft_block_register(&whole_ops), 0);
	CHECK(weft_block_get(n) == &whole_ops && weft_block_get(n + 1) == NULL);
}

static void
test_options(void)
{
	char reason[96], value[8];
	struct weft_block_attr a = {.size = sizeof(a),
	                            .driver = "script",
	                            .bytes = DISK_BYTES,
	                            .reason = reason,
	                            .reason_bytes = sizeof(reason)};
	static const struct {
		const char *options, *reason;
	} bad[] = {
	        {"speed", "option \"speed\" of driver script is not KEY=VALUE"},
	        {"speed=1,,", "option \"\" of driver script is not KEY=VALUE"},
	        {"=3", "option \"=3\" of driver script is not KEY=VALUE"},
	        {"speed=1,size=2", "driver script has no option \"size\""},
	        {"spee=1", "driver script has no option \"spee\""},
	        {"x.=1", "driver script has no option \"x.\""},
	        {"speed=1,x.a=2,speed=3", "option \"speed\" is given twice"},
	};
	struct weft_block *b = NULL;

	script_reset();
	for (unsigned int i = 0; i < RTE_DIM(bad); i++) {
		a.options = bad[i].options;
		CHECK_EQ(weft_block_open(&a, &b), -EINVAL);
		CHECK_STR(reason, bad[i].reason);
	}
	a.options = "x.a=2,speed=fast,x.b=";
	CHECK_EQ(weft_block_option(&a, "speed", value, sizeof(value)), 4);
	CHECK_STR(value, "fast");
	CHECK_EQ(weft_block_option(&a, "x.b", value, sizeof(value)), 0);
	CHECK_STR(value, "");
	CHECK_EQ(weft_block_option(&a, "spee", value, sizeof(value)), -ENOENT);
	CHECK_EQ(weft_block_option(&a, "speed", value, 4), -ENAMETOOLONG);
	CHECK_EQ(weft_block_open(&a, &b), 0);
	CHECK_STR(reason, "");
	CHECK_EQ(weft_block_close(b), 0);
	a.options = NULL;
	a.driver = "tape";
	CHECK_EQ(weft_block_open(&a, &b), -ENODEV);
	CHECK_STR(reason, "there is no block driver \"tape\"");
	a.driver = "script";
	a.bytes = DISK_BYTES + 1;
	CHECK_EQ(weft_block_open(&a, &b), -EINVAL);
	CHECK(strstr(reason, "multiple of the logical block") != NULL);
	script.open_status = -EACCES;
	CHECK_EQ(weft_block_open(&a, &b), -EACCES);
	CHECK_STR(reason, "the script says no");
}

/** Everything that a submission can have wrong, one after the other. */
static void
test_checks(void)
{
	struct weft_block *b = disk();
	struct weft_block_chan *c = channel(b, 4);
	struct iovec two[5] = {
	        {memory, 1024}, {memory, 1024}, {memory, 1024}, {memory, 512}, {memory, 512}};
	struct weft_block_extent x;
	struct seen s;

#define WRONG(errno_, op_, ...)                                                                    \
	do {                                                                                       \
		make(&s, op_, 0);                                                                  \
		__VA_ARGS__;                                                                       \
		CHECK_EQ(weft_block_submit(c, &s.req), errno_);                                    \
	} while (0)
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.done = NULL);
	WRONG(-EINVAL, WEFT_BLOCK_OPS, );
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.flags = WEFT_BLOCK_FUA);
	WRONG(-EINVAL, WEFT_BLOCK_WRITE, s.req.flags = WEFT_BLOCK_MEDIUM);
	WRONG(-EINVAL, WEFT_BLOCK_WRITE, s.req.flags = 0x80000000);
	WRONG(-EINVAL, WEFT_BLOCK_FLUSH, s.req.len_bytes = 512);
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.off_bytes = DISK_BYTES);
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.off_bytes = UINT64_MAX - 511);
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.off_bytes = 256);
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.len_bytes = 4095);
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.iov = NULL);
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.iovs = 0);
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.iov = two; s.req.iovs = 5); /* too many */
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.iov = two; s.req.iovs = 3); /* too short */
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.iov = two; s.req.iovs = 4; s.req.len_bytes = 3072);
	WRONG(-EINVAL, WEFT_BLOCK_COMPARE_WRITE, s.req.expect = memory); /* longer than 512 */
	WRONG(-EINVAL, WEFT_BLOCK_DISCARD, s.req.len_bytes = DISK_BYTES + 512);
	WRONG(-EINVAL, WEFT_BLOCK_ZEROES, s.req.len_bytes = (1U << 19) + 512);
	WRONG(-EINVAL, WEFT_BLOCK_EXTENTS, );
	WRONG(-EINVAL, WEFT_BLOCK_EXTENTS, s.req.extents = &x);
	whole.iov_len = 131072;
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.len_bytes = 131072); /* longer than 64 KiB */
	whole.iov_len = 512;
	WRONG(-EINVAL, WEFT_BLOCK_COMPARE_WRITE, s.req.len_bytes = 512);
	whole.iov_len = 4096;
	CHECK_EQ(script.submits, 0);
	make(&s, WEFT_BLOCK_READ, 0);
	submit(c, &s);
	CHECK_EQ(weft_block_submit(c, &s.req), -EBUSY);
	CHECK_EQ(weft_block_chan_close(c), -EBUSY);
	CHECK_EQ(weft_block_close(b), -EBUSY);
	script_end(0, 0);
	CHECK_EQ(weft_block_submit(c, &s.req), -EBUSY); /* until done() */
	CHECK_EQ(weft_block_chan_close(c), -EBUSY);
	CHECK_EQ(weft_block_poll(c, 1), 1);
	CHECK_EQ(s.done, 1);
	CHECK_EQ(s.req.status, 0);
	CHECK_EQ(s.req.done_bytes, 4096);
	end(b, c);
}

/** A device answers for what it cannot do, and for memory that is not aligned. */
static void
test_abilities(void)
{
	struct weft_block_attr a = {.size = sizeof(a), .driver = "script", .bytes = DISK_BYTES};
	struct iovec odd = {memory + 64, 4096};
	struct weft_block_extent x;
	struct weft_block_chan *c;
	struct weft_block *b;
	struct seen s;

	script_reset();
	script.can = WEFT_BLOCK_CAN_WRITE;
	script.mem_align = 512;
	CHECK_EQ(weft_block_open(&a, &b), 0);
	c = channel(b, 4);
	WRONG(-EOPNOTSUPP, WEFT_BLOCK_WRITE, s.req.flags = WEFT_BLOCK_FUA);
	WRONG(-EOPNOTSUPP, WEFT_BLOCK_READ, s.req.flags = WEFT_BLOCK_MEDIUM);
	WRONG(-EOPNOTSUPP, WEFT_BLOCK_DISCARD, );
	WRONG(-EOPNOTSUPP, WEFT_BLOCK_ZEROES, );
	WRONG(-EOPNOTSUPP, WEFT_BLOCK_COMPARE_WRITE, s.req.expect = memory);
	WRONG(-EOPNOTSUPP, WEFT_BLOCK_EXTENTS, s.req.extents = &x; s.req.max_extents = 1);
	WRONG(-EINVAL, WEFT_BLOCK_READ, s.req.iov = &odd);
	end(b, c);
	a.read_only = true;
	script_reset();
	CHECK_EQ(weft_block_open(&a, &b), 0);
	CHECK((b->info.can & WEFT_BLOCK_CAN_WRITE) == 0);
	c = channel(b, 4);
	WRONG(-EROFS, WEFT_BLOCK_WRITE, );
	WRONG(-EROFS, WEFT_BLOCK_DISCARD, );
	WRONG(-EROFS, WEFT_BLOCK_ZEROES, );
	WRONG(-EROFS, WEFT_BLOCK_COMPARE_WRITE, );
	make(&s, WEFT_BLOCK_READ, 0);
	submit(c, &s);
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 1), 1);
	end(b, c);
}

/* ---- Requests ---- */

/** What exceeds the depth, or the driver's room, waits in order. */
static void
test_waiting(void)
{
	struct weft_block *b = disk();
	struct weft_block_chan *c = channel(b, 2);
	struct weft_block_stats st;
	struct seen s[6];

	for (unsigned int i = 0; i < 6; i++)
		submit(c, make(&s[i], WEFT_BLOCK_WRITE, i * 4096));
	CHECK_EQ(script.n, 2);
	weft_block_query_stats(b, &st);
	CHECK_EQ(st.under_way, 2);
	CHECK_EQ(st.waiting, 4);
	CHECK_EQ(weft_block_next_ns(c), UINT64_MAX);
	script_end(1, 0);
	script_end(0, -EIO);
	CHECK_EQ(weft_block_next_ns(c), 0);
	CHECK_EQ(weft_block_poll(c, 1), 2);
	CHECK(s[1].at < s[0].at && s[0].req.status == -EIO && s[1].req.status == 0);
	CHECK_EQ(script.n, 2);
	CHECK(script.got[0] == &s[2].req && script.got[1] == &s[3].req);
	/* no room: it is offered again in each poll, and stays the first */
	script.room = 0;
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 2), 1);
	CHECK_EQ(script.n, 1);
	CHECK_EQ(weft_block_next_ns(c), 0);
	script.room = 2;
	CHECK_EQ(weft_block_poll(c, 3), 0);
	CHECK(script.n == 2 && script.got[1] == &s[4].req);
	/* an error of submit() is the request's */
	script_end(0, 0);
	script.refuse = -ENXIO;
	CHECK_EQ(weft_block_poll(c, 4), 2);
	CHECK_EQ(s[5].req.status, -ENXIO);
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 5), 1);
	weft_block_query_stats(b, &st);
	CHECK_EQ(st.requests[WEFT_BLOCK_WRITE], 4);
	CHECK_EQ(st.errors[WEFT_BLOCK_WRITE], 2);
	CHECK_EQ(st.octets[WEFT_BLOCK_WRITE], 4 * 4096);
	CHECK_EQ(st.under_way + st.waiting, 0);
	CHECK_EQ(st.oldest_ns, UINT64_MAX);
	CHECK_EQ(st.max_ns, 5);
	CHECK_EQ(weft_block_chan_close(c), 0);
	weft_block_query_stats(b, &st); /* the counters of a closed channel stay */
	CHECK_EQ(st.requests[WEFT_BLOCK_WRITE], 4);
	CHECK_EQ(st.channels, 0);
	CHECK_EQ(weft_block_close(b), 0);
}

static void
test_empty(void)
{
	struct weft_block *b = disk();
	struct weft_block_chan *c = channel(b, 2);
	struct seen s;

	make(&s, WEFT_BLOCK_WRITE, DISK_BYTES)->req.len_bytes = 0;
	submit(c, &s);
	CHECK_EQ(script.submits, 0);
	CHECK_EQ(weft_block_poll(c, 1), 1);
	CHECK_EQ(s.req.status, 0);
	end(b, c);
}

/** Flushes that come while one is with the driver are done by one more. */
static void
test_merged_flushes(void)
{
	struct weft_block *b = disk();
	struct weft_block_chan *c = channel(b, 8);
	struct weft_block_stats st;
	struct seen f[5];

	for (unsigned int i = 0; i < 4; i++)
		submit(c, make(&f[i], WEFT_BLOCK_FLUSH, 0));
	CHECK_EQ(script.n, 1);
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 1), 1);
	CHECK(f[0].done == 1 && f[1].done == 0);
	CHECK(script.n == 1 && script.got[0] == &f[1].req);
	submit(c, make(&f[4], WEFT_BLOCK_FLUSH, 0)); /* too late for the second */
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 2), 3);
	CHECK(f[1].done + f[2].done + f[3].done == 3 && f[4].done == 0);
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 3), 1);
	weft_block_query_stats(b, &st);
	CHECK_EQ(script.submits, 3);
	CHECK_EQ(st.merged, 2);
	CHECK_EQ(st.requests[WEFT_BLOCK_FLUSH], 5);
	/* a canceled flush takes none with it */
	script.cancel_works = true;
	for (unsigned int i = 0; i < 4; i++)
		submit(c, make(&f[i], WEFT_BLOCK_FLUSH, 0));
	CHECK_EQ(weft_block_cancel(c, &f[2].req), 0);
	CHECK_EQ(weft_block_cancel(c, &f[0].req), 0);
	CHECK_EQ(weft_block_poll(c, 4), 2);
	CHECK(f[0].req.status == -ECANCELED && f[2].req.status == -ECANCELED);
	CHECK(script.n == 1 && script.got[0] == &f[1].req);
	CHECK_EQ(weft_block_cancel(c, &f[1].req), 0); /* with f[3] merged into it */
	CHECK_EQ(weft_block_poll(c, 5), 1);
	CHECK(script.n == 1 && script.got[0] == &f[3].req);
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 6), 1);
	CHECK_EQ(f[3].req.status, 0);
	weft_block_query_state(b, &told);
	CHECK_EQ(told.lost_flushes, 0);
	end(b, c);
}

/** A backend that reports a failure once: everything that it concerns fails, on each channel. */
static void
test_failed_flush(void)
{
	struct weft_block *b = disk();
	struct weft_block_chan *c = channel(b, 8), *d = channel(b, 8);
	struct seen f[4], w[4];

	submit(c, make(&w[0], WEFT_BLOCK_WRITE, 0));
	submit(c, make(&w[1], WEFT_BLOCK_WRITE, 4096));
	submit(c, make(&f[0], WEFT_BLOCK_FLUSH, 0));
	submit(c, make(&f[1], WEFT_BLOCK_FLUSH, 0));
	submit(d, make(&f[2], WEFT_BLOCK_FLUSH, 0));
	submit(d, make(&w[2], WEFT_BLOCK_READ, 0));
	CHECK_EQ(script.n, 5);
	/* The other channel's flush succeeds first, and is held while the first one is under way.
	 */
	script_end(3, 0);
	CHECK_EQ(weft_block_poll(d, 1), 0);
	CHECK_EQ(weft_block_next_ns(d), 100001);
	/* the first one fails; a write and a read end in the same poll */
	script_end(2, -ENOSPC);
	script_end(1, 0);
	script_end(1, 0);
	CHECK_EQ(weft_block_poll(c, 2), 2);
	CHECK_EQ(ntold, 1);
	CHECK(told_at < f[0].at); /* the owner learns of it before */
	CHECK_EQ(told.lost_flushes, 1);
	CHECK_EQ(told.lost_status, -ENOSPC);
	CHECK_EQ(f[0].req.status, -ENOSPC);
	CHECK_EQ(w[1].req.status, -ENOSPC); /* may be among what was lost */
	CHECK_EQ(weft_block_poll(d, 2), 2);
	CHECK_EQ(ntold, 2);
	CHECK_EQ(f[2].req.status, -ENOSPC); /* for the first one's cause */
	CHECK_EQ(w[2].req.status, 0);       /* a read */
	/* the flush behind was submitted before its owner knew */
	script_end(1, 0);
	CHECK_EQ(weft_block_poll(c, 3), 1);
	CHECK_EQ(f[1].req.status, -ENOSPC);
	/* so was a write that is still under way, but not one with FUA that reports for itself */
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 4), 1);
	CHECK_EQ(w[0].req.status, -ENOSPC);
	/* the next ones are as good as new */
	submit(c, make(&w[0], WEFT_BLOCK_WRITE, 0));
	submit(d, make(&f[2], WEFT_BLOCK_FLUSH, 0));
	script_end(0, 0);
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 5) + weft_block_poll(d, 5), 2);
	CHECK(w[0].req.status == 0 && f[2].req.status == 0);
	CHECK_EQ(weft_block_chan_close(d), 0);
	end(b, c);
}

/** The backend's only error goes to a request with FUA of another channel, which is polled late. */
static void
test_fua_holds(void)
{
	static const enum weft_block_op ops[] = {WEFT_BLOCK_WRITE, WEFT_BLOCK_ZEROES};
	static const int statuses[] = {0, -EIO, -ENOSPC, -ECANCELED};
	struct weft_block *b = disk();
	struct weft_block_chan *c = channel(b, 4), *d = channel(b, 4);
	struct seen fua[3], f;

	for (unsigned int i = 0; i < RTE_DIM(ops) * RTE_DIM(statuses); i++) {
		const int status = statuses[i % RTE_DIM(statuses)];

		for (unsigned int k = 0; k < 2; k++) {
			make(&fua[k], ops[i / RTE_DIM(statuses)], k * 4096)->req.flags =
			        WEFT_BLOCK_FUA;
			submit(d, &fua[k]);
		}
		submit(c, make(&f, WEFT_BLOCK_FLUSH, 0));
		script_end(2, 0);
		/* One that begins behind the end of the flush does not matter to it. */
		make(&fua[2], ops[i / RTE_DIM(statuses)], 8192)->req.flags = WEFT_BLOCK_FUA;
		submit(d, &fua[2]);
		CHECK_EQ(weft_block_poll(c, 1), 0);
		script_end(0, 0);
		CHECK_EQ(weft_block_poll(c, 2), 0); /* the second one is under way */
		script_end(0, status);
		CHECK_EQ(weft_block_poll(c, 3), 1);
		CHECK_EQ(f.req.status, status == -ECANCELED ? 0 : status);
		CHECK_EQ(weft_block_poll(d, 3), 2);
		CHECK(fua[0].req.status == 0 && fua[0].req.done_bytes == 4096);
		CHECK(fua[1].req.status == status &&
		      fua[1].req.done_bytes == (status == 0 ? 4096 : 0));
		script_end(0, 0);
		CHECK_EQ(weft_block_poll(d, 4), 1);
	}
	/* One that the driver had no room for is not under way. */
	script.room = 0;
	make(&fua[0], WEFT_BLOCK_WRITE, 0)->req.flags = WEFT_BLOCK_FUA;
	submit(d, &fua[0]);
	script.room = 4;
	submit(c, make(&f, WEFT_BLOCK_FLUSH, 0));
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 5), 1);
	CHECK_EQ(weft_block_poll(d, 5), 0);
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(d, 6), 1);
	CHECK_EQ(weft_block_chan_close(d), 0);
	end(b, c);
}

/** Errors of a backend do not say what weft's own of the same number say. */
static void
test_driver_errors(void)
{
	static const int from[] = {-ENODEV, -ETIMEDOUT, -ESHUTDOWN, -EILSEQ, 5};
	static const struct {
		int status;
		unsigned int lost;
	} fua[] = {{-ECANCELED, 0}, {-EINVAL, 0}, {-ENOSPC, 1}, {-EDQUOT, 1}, {-EIO, 1}};
	unsigned int lost = 0;
	struct weft_block *b = disk();
	struct weft_block_chan *c = channel(b, 2);
	struct weft_block_state state;
	struct iovec iov = {memory, 512};
	struct seen s;

	for (unsigned int i = 0; i < RTE_DIM(from); i++) {
		submit(c, make(&s, WEFT_BLOCK_WRITE, 0));
		script_end(0, from[i]);
		CHECK_EQ(weft_block_poll(c, 1), 1);
		CHECK_EQ(s.req.status, -EIO);
	}
	make(&s, WEFT_BLOCK_COMPARE_WRITE, 0);
	s.req.len_bytes = 512;
	s.req.iov = &iov;
	s.req.expect = memory;
	submit(c, &s);
	script_end(0, -EILSEQ);
	CHECK_EQ(weft_block_poll(c, 1), 1);
	CHECK_EQ(s.req.status, -EILSEQ);
	/* A write that was to be durable contains a flush, whose error may be that of others. */
	for (unsigned int i = 0; i < RTE_DIM(fua); i++) {
		make(&s, WEFT_BLOCK_WRITE, 0)->req.flags = WEFT_BLOCK_FUA;
		submit(c, &s);
		script_end(0, fua[i].status);
		CHECK_EQ(weft_block_poll(c, 1), 1);
		weft_block_query_state(b, &state);
		CHECK_EQ(state.lost_flushes, lost += fua[i].lost);
		CHECK_EQ(state.lost_status, fua[i].lost == 0 ? 0 : fua[i].status);
	}
	submit(c, make(&s, WEFT_BLOCK_FLUSH, 0));
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 1), 1);
	CHECK_EQ(s.req.status, 0);
	end(b, c);
}

/* ---- Late, canceled, fenced ---- */

static void
test_late(void)
{
	struct weft_block *b = disk();
	struct weft_block_chan *c = channel(b, 2);
	struct weft_block_stats st;
	struct seen s[3], f[3];

	CHECK_EQ(weft_block_poll(c, 100), 0);
	for (unsigned int i = 0; i < 3; i++)
		make(&s[i], WEFT_BLOCK_WRITE, i * 4096)->req.deadline_ns = 200 + i;
	submit(c, &s[0]);
	submit(c, &s[1]);
	submit(c, &s[2]);
	CHECK_EQ(weft_block_next_ns(c), 200);
	CHECK_EQ(weft_block_poll(c, 199), 0);
	CHECK_EQ(weft_block_poll(c, 200), 0);
	CHECK(s[0].late == 1 && s[0].done == 0 && s[1].late == 0);
	CHECK_EQ(weft_block_next_ns(c), 201);
	/* the driver did not have it: it ends, and nothing lands */
	CHECK_EQ(weft_block_poll(c, 300), 1);
	CHECK(s[1].late == 1 && s[2].late == 0 && s[2].done == 1);
	CHECK_EQ(s[2].req.status, -ETIMEDOUT);
	CHECK_EQ(weft_block_poll(c, 400), 0);
	CHECK_EQ(s[0].late, 1);
	CHECK_EQ(weft_block_next_ns(c), UINT64_MAX);
	weft_block_query_stats(b, &st);
	CHECK_EQ(st.late, 3);
	CHECK_EQ(st.oldest_ns, 100);
	CHECK_EQ(st.under_way, 2);
	script_end(0, 0);
	script_end(0, -EIO);
	CHECK_EQ(weft_block_poll(c, 500), 2);
	CHECK(s[0].req.status == 0 && s[1].req.status == -EIO);
	/* flushes: with the driver, merged with it, behind it */
	for (unsigned int i = 0; i < 3; i++) {
		make(&f[i], WEFT_BLOCK_FLUSH, 0)->req.deadline_ns = 600;
		submit(c, &f[i]);
	}
	CHECK_EQ(weft_block_poll(c, 600), 2);
	CHECK(f[0].late == 1 && f[0].done == 0);
	CHECK(f[1].req.status == -ETIMEDOUT && f[2].req.status == -ETIMEDOUT);
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 700), 1);
	/* the driver's backend gave up before the deadline */
	make(&s[0], WEFT_BLOCK_WRITE, 0);
	submit(c, &s[0]);
	weft_block_late(&s[0].req);
	CHECK_EQ(weft_block_poll(c, 800), 0);
	CHECK_EQ(s[0].late, 1);
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 900), 1);
	end(b, c);
}

static void
test_cancel(void)
{
	struct weft_block *b = disk();
	struct weft_block_chan *c = channel(b, 1), *d = channel(b, 1);
	struct seen s[2];

	submit(c, make(&s[0], WEFT_BLOCK_WRITE, 0));
	submit(c, make(&s[1], WEFT_BLOCK_WRITE, 0));
	CHECK_EQ(weft_block_cancel(d, &s[0].req), -ENOENT);
	CHECK_EQ(weft_block_cancel(c, &s[1].req), 0);
	CHECK_EQ(weft_block_cancel(c, &s[0].req), 0);
	CHECK_EQ(script.cancels, 1);
	CHECK_EQ(weft_block_poll(c, 1), 1);
	CHECK_EQ(s[1].req.status, -ECANCELED);
	CHECK_EQ(weft_block_cancel(c, &s[1].req), -ENOENT);
	/* the driver could not: the result is what became of it */
	script_end(0, 0);
	CHECK_EQ(weft_block_cancel(c, &s[0].req), 0);
	CHECK_EQ(weft_block_poll(c, 2), 1);
	CHECK_EQ(s[0].req.status, 0);
	CHECK_EQ(weft_block_chan_close(d), 0);
	end(b, c);
}

static void
test_fence(void)
{
	struct weft_block_chan_attr ca = {.size = sizeof(ca)};
	struct weft_block *b = disk();
	struct weft_block_chan *c = channel(b, 2), *d = channel(b, 2), *e;
	struct seen s[3];

	for (unsigned int i = 0; i < 3; i++)
		submit(c, make(&s[i], WEFT_BLOCK_WRITE, i * 4096));
	script.fence_status = -EINPROGRESS;
	CHECK_EQ(weft_block_fence(b), -EINPROGRESS);
	CHECK_EQ(weft_block_chan_open(b, &ca, &e), -ESHUTDOWN);
	/* A channel that has not been polled may be giving the driver a request right now. */
	CHECK_EQ(weft_block_poll(c, 1), 1);
	CHECK_EQ(s[2].req.status, -ESHUTDOWN);
	CHECK_EQ(script.cancels, 2);
	CHECK_EQ(told.fenced, 1);
	make(&s[2], WEFT_BLOCK_WRITE, 0);
	submit(c, &s[2]);
	CHECK_EQ(weft_block_poll(c, 2), 1);
	CHECK_EQ(s[2].req.status, -ESHUTDOWN);
	script_end(0, 0);
	script_end(0, 0);
	CHECK_EQ(weft_block_fence(b), -EINPROGRESS);
	CHECK_EQ(weft_block_poll(c, 3), 2);
	CHECK_EQ(s[0].req.status, 0);
	CHECK_EQ(script.fences, 0);
	CHECK_EQ(weft_block_fence(b), -EINPROGRESS); /* the other channel */
	CHECK_EQ(weft_block_poll(d, 3), 0);
	CHECK_EQ(weft_block_fence(b), -EINPROGRESS); /* the backend */
	CHECK_EQ(script.fences, 1);
	script.fence_status = 0;
	CHECK_EQ(weft_block_fence(b), 0);
	CHECK_EQ(weft_block_fence(b), 0);
	CHECK_EQ(script.fences, 2);
	CHECK_EQ(weft_block_chan_close(d), 0);
	end(b, c);
}

/** The state reaches each channel; several changes are one call. */
static void
test_state(void)
{
	struct weft_block *b = disk();
	struct weft_block_chan *c = channel(b, 1);
	struct seen s[2];

	submit(c, make(&s[0], WEFT_BLOCK_WRITE, 0));
	submit(c, make(&s[1], WEFT_BLOCK_WRITE, 0));
	weft_block_set_state(b, DISK_BYTES, 0); /* nothing new */
	CHECK_EQ(weft_block_poll(c, 1), 0);
	CHECK_EQ(ntold, 0);
	weft_block_set_state(b, 2 * DISK_BYTES, 0);
	weft_block_set_state(b, 2 * DISK_BYTES, -ENOENT);
	CHECK_EQ(weft_block_poll(c, 1), 1);
	CHECK(ntold == 1 && told.bytes == 2 * DISK_BYTES && told.status == -ENOENT);
	CHECK_EQ(s[1].req.status, -ENODEV); /* it waited */
	CHECK_EQ(weft_block_check(b), -ENOENT);
	make(&s[1], WEFT_BLOCK_READ, 0);
	submit(c, &s[1]);
	CHECK_EQ(weft_block_poll(c, 2), 1);
	CHECK_EQ(s[1].req.status, -ENODEV);
	script_end(0, -EIO);
	CHECK_EQ(weft_block_poll(c, 3), 1);
	CHECK_EQ(s[0].req.status, -EIO);
	weft_block_set_state(b, 2 * DISK_BYTES, 0);
	make(&s[1], WEFT_BLOCK_READ, 2 * DISK_BYTES - 4096);
	submit(c, &s[1]);
	script_end(0, 0);
	CHECK_EQ(weft_block_poll(c, 4), 1);
	CHECK(ntold == 2 && told.status == 0 && s[1].req.status == 0);
	end(b, c);
}

static void
on_done_again(struct weft_block_req *req)
{
	struct seen *s = req->owner;

	s->done++;
	CHECK_EQ(weft_block_poll(req->chan, 9), 0); /* does nothing in here */
	CHECK_EQ(weft_block_chan_close(req->chan), -EBUSY);
	CHECK_EQ(weft_block_submit(req->chan, req), 0);
}

/** An owner that submits in done() to a driver that is done at once does not keep the worker. */
static void
test_again(void)
{
	struct weft_block_attr a = {.size = sizeof(a), .driver = "mem", .bytes = DISK_BYTES};
	struct weft_block *b;
	struct weft_block_chan *c;
	struct seen s;

	CHECK_EQ(weft_block_open(&a, &b), 0);
	c = channel(b, 2);
	make(&s, WEFT_BLOCK_WRITE, 0)->req.done = on_done_again;
	submit(c, &s);
	for (unsigned int i = 1; i < 4; i++) {
		CHECK_EQ(weft_block_poll(c, i), 1);
		CHECK_EQ(s.done, i);
	}
	s.req.done = on_done;
	CHECK_EQ(weft_block_poll(c, 9), 1);
	end(b, c);
}

static void
test_wait(void)
{
	struct weft_block_attr a = {.size = sizeof(a), .driver = "mem", .bytes = DISK_BYTES};
	struct weft_block_req req = {
	        .op = WEFT_BLOCK_WRITE, .len_bytes = 4096, .iov = &whole, .iovs = 1};
	struct weft_block *b;

	CHECK_EQ(weft_block_open(&a, &b), 0);
	memset(memory, 7, 4096);
	CHECK_EQ(weft_block_wait(b, &req), 0);
	CHECK_EQ(req.done_bytes, 4096);
	memset(memory, 0, 4096);
	req.op = WEFT_BLOCK_READ;
	CHECK_EQ(weft_block_wait(b, &req), 0);
	CHECK_EQ(memory[4095], 7);
	req.off_bytes = DISK_BYTES;
	CHECK_EQ(weft_block_wait(b, &req), -EINVAL);
	CHECK_EQ(weft_block_close(b), 0);
}

static void
test_channels(void)
{
	struct weft_block_attr a = {
	        .size = sizeof(a), .driver = "script", .bytes = DISK_BYTES, .channels = 2};
	struct weft_block_chan_attr ca = {.size = sizeof(ca)};
	struct weft_block_chan *c[2], *d;
	struct weft_block *b;

	script_reset();
	CHECK_EQ(weft_block_open(&a, &b), 0);
	CHECK_EQ(weft_block_mem_add(b, memory, sizeof(memory)), 0);
	script.chan_status = -EMFILE;
	CHECK_EQ(weft_block_chan_open(b, &ca, &d), -EMFILE);
	script.chan_status = 0;
	CHECK_EQ(weft_block_chan_open(b, &ca, &c[0]), 0);
	CHECK_EQ(c[0]->depth, 128);
	CHECK_EQ(weft_block_mem_add(b, memory, sizeof(memory)), -EBUSY);
	CHECK_EQ(weft_block_chan_open(b, &ca, &c[1]), 0);
	CHECK_EQ(weft_block_chan_open(b, &ca, &d), -ENOSPC);
	CHECK_EQ(weft_block_chan_close(c[0]), 0);
	CHECK_EQ(weft_block_chan_close(c[1]), 0);
	CHECK_EQ(weft_block_close(b), 0);
}

static void
test_classes(void)
{
	CHECK_EQ(weft_block_class_of(0), WEFT_BLOCK_OK);
	CHECK_EQ(weft_block_class_of(-EILSEQ), WEFT_BLOCK_MISMATCH);
	CHECK_EQ(weft_block_class_of(-ETIMEDOUT), WEFT_BLOCK_GIVEN_UP);
	CHECK_EQ(weft_block_class_of(-EDQUOT), WEFT_BLOCK_SPACE);
	CHECK_EQ(weft_block_class_of(-ENODEV), WEFT_BLOCK_OFFLINE);
	CHECK_EQ(weft_block_class_of(-ESHUTDOWN), WEFT_BLOCK_FENCED);
	CHECK_EQ(weft_block_class_of(-EOPNOTSUPP), WEFT_BLOCK_CALLER);
	CHECK_EQ(weft_block_class_of(-ENXIO), WEFT_BLOCK_MEDIUM_FAILED);
}

WEFT_TEST_MAIN({"drivers are found by name, and an incomplete one is refused", test_registry},
               {"a wrong option is refused with the reason", test_options},
               {"a request that does not fit the device is not taken", test_checks},
               {"a device refuses what it cannot do", test_abilities},
               {"requests beyond the depth wait in order", test_waiting},
               {"an empty range is done without the driver", test_empty},
               {"flushes under way are merged", test_merged_flushes},
               {"a failed flush fails all that it concerns", test_failed_flush},
               {"a flush waits for requests with FUA", test_fua_holds},
               {"an error of a backend does not say that nothing was changed", test_driver_errors},
               {"a late request is told once and stays under way", test_late},
               {"a canceled request ends, with what became of it", test_cancel},
               {"a fence ends when nothing is under way", test_fence},
               {"the state reaches the channels", test_state},
               {"a request that is submitted in done() has its turn later", test_again},
               {"a request with a wait", test_wait}, {"channels are counted", test_channels},
               {"each status has a class", test_classes})
