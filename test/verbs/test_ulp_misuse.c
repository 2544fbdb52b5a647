/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Misuse of handles and attributes that a library on top of verbs defines (weft/ulp.h). */

#include <errno.h>

#include "misuse.h"

static struct weft_handle_kind thing_kind = {.name = "thing"};
static struct weft_handle_kind other_kind = {.name = "other thing"};

struct thing {
	struct weft_handle h;
	uint64_t content;
};

static struct thing *
thing_new(void)
{
	struct thing *t = calloc(1, sizeof(*t));

	CHECK(t != NULL);
	weft_handle_init(&t->h, &thing_kind);
	return t;
}

static void
thing_destroy(struct thing *t)
{
	CHECK_EQ(weft_handle_claim(t, &thing_kind, __func__), 0);
	weft_handle_end(&t->h, &thing_kind);
	weft_handle_free(&t->h, sizeof(t->h));
}

static void
test_weft_handle_ok(void)
{
	struct thing *t = thing_new();

	CHECK(weft_handle_ok(t, &thing_kind));
	CHECK(!weft_handle_ok(t, &other_kind));
	CHECK(!weft_handle_ok(NULL, &thing_kind));
	CHECK(!weft_handle_ok((char *)t + 1, &thing_kind));
	thing_destroy(t);
	CHECK(!weft_handle_ok(t, &thing_kind));
}

static void
test_weft_handle_check(void)
{
	struct thing *t = thing_new();

	CHECK_EQ(weft_handle_check(t, &thing_kind, __func__), 0);
	CHECK_EQ(weft_handle_check(t, &other_kind, __func__), -EINVAL);
	CHECK_EQ(weft_handle_check(NULL, &thing_kind, __func__), -EINVAL);
	CHECK_EQ(weft_handle_check((char *)t + 1, &thing_kind, __func__), -EINVAL);
	thing_destroy(t);
	CHECK_EQ(weft_handle_check(t, &thing_kind, __func__), -EINVAL);
	/* The memory of the last WEFT_HANDLES_KEPT destroyed handles is kept. The memory of earlier
	 * ones is freed. */
	for (unsigned int i = 0; i < WEFT_HANDLES_KEPT - 1; i++)
		thing_destroy(thing_new());
	CHECK_EQ(weft_handle_check(t, &thing_kind, __func__), -EINVAL);
}

static void
test_weft_handle_claim(void)
{
	struct thing *t = thing_new();

	CHECK_EQ(weft_handle_claim(t, &other_kind, __func__), -EINVAL);
	CHECK_EQ(weft_handle_claim(NULL, &thing_kind, __func__), -EINVAL);
	CHECK_EQ(weft_handle_claim(t, &thing_kind, __func__), 0);
	CHECK(weft_handle_ok(t, &thing_kind));
	weft_handle_unclaim(&t->h, &thing_kind);
	thing_destroy(t);
	CHECK_EQ(weft_handle_claim(t, &thing_kind, __func__), -EINVAL);
	t = thing_new();
	weft_handle_undo(&t->h);
	CHECK(!weft_handle_ok(t, &thing_kind));
	weft_handle_free(&t->h, sizeof(t->h));
}

#define MISUSE_CHECK(call, type, kind)                                                             \
	MISUSE(call)                                                                               \
	{                                                                                          \
		struct type *h;                                                                    \
                                                                                                   \
		EACH_BAD(m, h, kind)                                                               \
		CHECK_EQ(call(h, __func__), -EINVAL);                                              \
		CHECK_EQ(call(m->live[MISUSE_##kind], __func__), 0);                               \
	}

MISUSE_CHECK(weft_ctx_check, weft_ctx, CTX)
MISUSE_CHECK(weft_pd_check, weft_pd, PD)
MISUSE_CHECK(weft_qp_check, weft_qp, QP)
MISUSE_CHECK(weft_worker_check, weft_worker, WORKER)

static void
check_elsewhere(void *arg)
{
	CHECK_EQ(weft_worker_check_thread(arg, __func__), -EPERM);
	CHECK_EQ(weft_worker_check(arg, __func__), 0);
}

MISUSE(weft_worker_check_thread)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	CHECK_EQ(weft_worker_check_thread(h, __func__), 0);
	CHECK_EQ(weft_worker_check_thread(m->w, __func__), 0);
	misuse_elsewhere(check_elsewhere, m->w);
}

struct thing_attr {
	size_t size;
	uint64_t a, b;
};

static void
test_weft_attr_copy(void)
{
	struct thing_attr good = {sizeof(good), 1, 2}, copy;

	BAD_ATTR(thing_attr, good, weft_attr_copy(&copy, sizeof(copy), a));
	CHECK_EQ(weft_attr_copy(&copy, sizeof(copy), NULL), -EINVAL);
	CHECK(misuse_zero(&copy, sizeof(copy)));
	CHECK_EQ(weft_attr_copy(&copy, sizeof(copy), &good), 0);
	CHECK_EQ(copy.b, 2);
	/* a caller with an older version of the structure */
	good.size = offsetof(struct thing_attr, b);
	CHECK_EQ(weft_attr_copy(&copy, sizeof(copy), &good), 0);
	CHECK_EQ(copy.a, 1);
	CHECK_EQ(copy.b, 0);
}

#define CASE(call)                                                                                 \
	{                                                                                          \
#call, test_##call                                                                 \
	}

WEFT_TEST_MAIN(CASE(weft_handle_ok), CASE(weft_handle_check), CASE(weft_handle_claim),
               CASE(weft_ctx_check), CASE(weft_pd_check), CASE(weft_qp_check),
               CASE(weft_worker_check), CASE(weft_worker_check_thread), CASE(weft_attr_copy))
