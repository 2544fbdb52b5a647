/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The owner table of weft-portd: every order of claims, ends and TIME-WAITs. */

#include <errno.h>
#include <stdlib.h>

#include "portd_table.h"
#include "weft_test.h"

#define DEAD_NS 1000U

static struct portd_table *
table_new(uint32_t max_claims, uint32_t max_blocks)
{
	const struct portd_table_attr attr = {
	        .max_claims = max_claims, .max_blocks = max_blocks, .dead_ns = DEAD_NS};
	struct portd_table *t = NULL;

	CHECK_EQ(portd_table_create(&attr, &t), 0);
	return t;
}

static void
join(struct portd_table *t, uint32_t proc, uint64_t now_ns)
{
	uint16_t first = 0, last = 0;

	CHECK_EQ(portd_table_join(t, proc, now_ns, &first, &last), 0);
	CHECK(first >= PORTD_DYNAMIC_FIRST);
	CHECK_EQ(last - first + 1U, PORTD_BLOCK_PORTS);
	CHECK_EQ(portd_table_owner(t, first), proc);
	CHECK_EQ(portd_table_owner(t, last), proc);
}

static void
test_claims(void)
{
	struct portd_table *t = table_new(2, 1);
	uint32_t claims, blocks;

	CHECK_EQ(portd_table_claim(t, 0, 7174, 0), -EINVAL); /* it has not come */
	join(t, 0, 0);
	join(t, 1, 0);
	CHECK_EQ(portd_table_owner(t, 7174), PORTD_NO_PROC);
	CHECK_EQ(portd_table_claim(t, 0, 0, 0), -EINVAL);
	CHECK_EQ(portd_table_claim(t, 0, 7174, 0), 0);
	CHECK_EQ(portd_table_claim(t, 0, 7174, 0), 0);
	CHECK_EQ(portd_table_claim(t, 1, 7174, 0), -EADDRINUSE);
	CHECK_EQ(portd_table_owner(t, 7174), 0);
	CHECK_EQ(portd_table_claim(t, 0, 1, 0), 0);
	CHECK_EQ(portd_table_claim(t, 0, 2, 0), -ENOSPC);
	portd_table_has(t, 0, &claims, &blocks);
	CHECK_EQ(claims, 2);
	CHECK_EQ(blocks, 1);
	CHECK_EQ(portd_table_release(t, 1, 7174), -ENOENT);
	CHECK_EQ(portd_table_release(t, 0, 7174), 0);
	CHECK_EQ(portd_table_release(t, 0, 7174), -ENOENT);
	CHECK_EQ(portd_table_claim(t, 1, 7174, 0), 0);
	CHECK_EQ(portd_table_claim(t, 0, 2, 0), 0);
	portd_table_destroy(t);
}

static void
test_end(void)
{
	struct portd_table *t = table_new(8, 1);

	join(t, 0, 0);
	join(t, 1, 0);
	CHECK_EQ(portd_table_claim(t, 0, 7174, 0), 0);
	portd_table_leave(t, 0, 500);
	CHECK_EQ(portd_table_owner(t, 7174), PORTD_NO_PROC);
	CHECK(portd_table_dead(t, 7174, 500));
	CHECK(portd_table_dead(t, 7174, 500 + DEAD_NS - 1));
	CHECK(!portd_table_dead(t, 7174, 500 + DEAD_NS));
	/* A process that gets the number of another one has none of its ports. */
	join(t, 0, 500);
	CHECK_EQ(portd_table_release(t, 0, 7174), -ENOENT);
	/* A server that is started again has its port at once. */
	CHECK_EQ(portd_table_claim(t, 1, 7174, 0), 0);
	CHECK(!portd_table_dead(t, 7174, 500));
	CHECK_EQ(portd_table_claim(t, 0, 7174, 0), -EADDRINUSE);
	portd_table_leave(t, 7, 0); /* not here */
	CHECK_EQ(portd_table_owner(t, 7174), 1);
	portd_table_destroy(t);
}

/** A dead port that is claimed and given back is dead for the rest of its time. */
static void
test_dead_again(void)
{
	struct portd_table *t = table_new(8, 2);
	uint16_t first, last;

	join(t, 0, 0);
	join(t, 1, 0);
	CHECK_EQ(portd_table_claim(t, 0, 7174, 0), 0);
	portd_table_leave(t, 0, 500);
	CHECK_EQ(portd_table_claim(t, 1, 7174, 500), 0);
	CHECK_EQ(portd_table_release(t, 1, 7174), 0);
	CHECK(portd_table_dead(t, 7174, 500 + DEAD_NS - 1));
	CHECK(!portd_table_dead(t, 7174, 500 + DEAD_NS));
	/* A dynamic port likewise: its block is not given meanwhile. */
	CHECK_EQ(portd_table_join(t, 0, 500, &first, &last), 0);
	CHECK_EQ(portd_table_claim(t, 0, 65535, 500), 0);
	portd_table_leave(t, 0, 600);
	CHECK_EQ(portd_table_claim(t, 1, 65535, 600), 0);
	CHECK_EQ(portd_table_release(t, 1, 65535), 0);
	CHECK(portd_table_dead(t, 65535, 600));
	portd_table_destroy(t);
}

/** Peers of active opens of a process that has ended find no other process at their port. */
static void
test_dead_block(void)
{
	struct portd_table *t = table_new(8, 2);
	uint16_t first, last;

	CHECK_EQ(portd_table_join(t, 0, 0, &first, &last), 0);
	join(t, 1, 0);
	portd_table_leave(t, 0, 500);
	CHECK_EQ(portd_table_claim(t, 1, first, 500 + DEAD_NS - 1), -EADDRINUSE);
	CHECK_EQ(portd_table_owner(t, first), PORTD_NO_PROC);
	CHECK_EQ(portd_table_claim(t, 1, first, 500 + DEAD_NS), 0);
	CHECK_EQ(portd_table_release(t, 1, first), 0);
	CHECK_EQ(portd_table_claim(t, 1, last, 500 + DEAD_NS), 0);
	portd_table_destroy(t);
}

/** A claim among the dynamic ports takes a block from the process' share. */
static void
test_touched(void)
{
	struct portd_table *t = table_new(200, 3);
	uint16_t first, last;

	join(t, 0, 0);
	for (uint16_t i = 0; i < PORTD_BLOCK_PORTS; i++) /* the last block: one of its share */
		CHECK_EQ(portd_table_claim(t, 0, (uint16_t)(65535 - i), 0), 0);
	CHECK_EQ(portd_table_claim(t, 0, 60000, 0), 0);
	CHECK_EQ(portd_table_claim(t, 0, 59000, 0), -ENOSPC);
	CHECK_EQ(portd_table_more(t, 0, 0, &first, &last), -ENOSPC);
	CHECK_EQ(portd_table_claim(t, 0, 60001, 0), 0); /* of a block that it has touched */
	CHECK_EQ(portd_table_claim(t, 0, 7174, 0), 0);  /* of none */
	CHECK_EQ(portd_table_release(t, 0, 60000), 0);
	CHECK_EQ(portd_table_claim(t, 0, 59000, 0), -ENOSPC);
	CHECK_EQ(portd_table_release(t, 0, 60001), 0);
	CHECK_EQ(portd_table_claim(t, 0, 59000, 0), 0);
	CHECK_EQ(portd_table_release(t, 0, 59000), 0);
	CHECK_EQ(portd_table_more(t, 0, 0, &first, &last), 0);
	/* Another process pays for its own claims, also in the same block. */
	join(t, 1, 0);
	CHECK_EQ(portd_table_release(t, 0, 65535), 0);
	CHECK_EQ(portd_table_claim(t, 1, 65535, 0), 0);
	CHECK_EQ(portd_table_more(t, 1, 0, &first, &last), 0);
	CHECK_EQ(portd_table_more(t, 1, 0, &first, &last), -ENOSPC);
	portd_table_destroy(t);
}

/** Processes that take all they may leave a block for each that may still come. */
static void
test_room(void)
{
	const struct portd_table_attr attr = {
	        .max_claims = 1024, .max_blocks = 64, .max_procs = 32, .dead_ns = DEAD_NS};
	struct portd_table *t = NULL;
	uint16_t first, last;

	CHECK_EQ(portd_table_create(&attr, &t), 0);
	for (uint32_t proc = 0; proc < 4; proc++) {
		join(t, proc, 0);
		while (portd_table_more(t, proc, 0, &first, &last) == 0)
			;
		for (uint32_t b = 0; b < PORTD_BLOCKS; b++)
			(void)portd_table_claim(
			        t, proc, (uint16_t)(PORTD_DYNAMIC_FIRST + b * PORTD_BLOCK_PORTS),
			        0);
	}
	for (uint32_t proc = 4; proc < 32; proc++)
		join(t, proc, 0);
	CHECK_EQ(portd_table_join(t, 32, 0, &first, &last), -ENOSPC);
	/* What a process leaves is kept, and then free again. */
	portd_table_leave(t, 0, 0);
	CHECK_EQ(portd_table_more(t, 31, 0, &first, &last), -ENOSPC);
	join(t, 0, DEAD_NS);
	CHECK_EQ(portd_table_more(t, 31, DEAD_NS, &first, &last), 0);
	portd_table_destroy(t);
}

static void
test_blocks(void)
{
	struct portd_table *t = table_new(8, PORTD_BLOCKS);
	uint16_t first, last;

	join(t, 0, 0);
	/* A claim among the dynamic ports spoils its block alone. */
	CHECK_EQ(portd_table_claim(t, 0, 65535, 0), 0);
	for (unsigned int i = 0; i < PORTD_BLOCKS - 2; i++)
		CHECK_EQ(portd_table_more(t, 0, 0, &first, &last), 0);
	CHECK_EQ(portd_table_more(t, 0, 0, &first, &last), -ENOSPC);
	CHECK_EQ(portd_table_join(t, 1, 0, &first, &last), -ENOSPC);
	CHECK_EQ(portd_table_claim(t, 1, 80, 0), -EINVAL); /* it did not come in */
	/* A port of a block is the process' own, to claim and to give back. */
	CHECK_EQ(portd_table_claim(t, 0, PORTD_DYNAMIC_FIRST, 0), 0);
	CHECK_EQ(portd_table_release(t, 0, PORTD_DYNAMIC_FIRST), 0);
	CHECK_EQ(portd_table_owner(t, PORTD_DYNAMIC_FIRST), 0);
	CHECK_EQ(portd_table_release(t, 0, 65535), 0);
	CHECK_EQ(portd_table_join(t, 1, 0, &first, &last), 0);
	CHECK_EQ(last, 65535);
	portd_table_leave(t, 0, 0);
	CHECK_EQ(portd_table_join(t, 2, DEAD_NS - 1, &first, &last), -ENOSPC);
	CHECK_EQ(portd_table_join(t, 2, DEAD_NS, &first, &last), 0);
	portd_table_destroy(t);
}

static void
test_limits(void)
{
	const struct portd_table_attr none = {.max_claims = 1};
	struct portd_table *t;
	uint16_t first, last;

	CHECK_EQ(portd_table_create(&none, &t), -EINVAL);
	t = table_new(1, 2);
	CHECK_EQ(portd_table_join(t, PORTD_TABLE_PROCS, 0, &first, &last), -EINVAL);
	join(t, PORTD_TABLE_PROCS - 1, 0);
	CHECK_EQ(portd_table_join(t, PORTD_TABLE_PROCS - 1, 0, &first, &last), -EALREADY);
	CHECK_EQ(portd_table_more(t, PORTD_TABLE_PROCS - 1, 0, &first, &last), 0);
	CHECK_EQ(portd_table_more(t, PORTD_TABLE_PROCS - 1, 0, &first, &last), -ENOSPC);
	CHECK_EQ(portd_table_more(t, 0, 0, &first, &last), -EINVAL);
	CHECK_EQ(portd_table_release(t, 0, 5), -EINVAL);
	portd_table_destroy(t);
}

/* ---- Every order, and random ones, beside a model ---- */

#define MODEL_PROCS 3
#define MODEL_PORTS 4

/** The same in the plainest way: who claimed which of a few ports, and until when it is dead. */
struct model {
	bool here[MODEL_PROCS];
	int owner[MODEL_PORTS]; /* -1: none */
	uint64_t dead_ns[MODEL_PORTS];
};

static const uint16_t model_port[MODEL_PORTS] = {1, 7174, 18515, 49151};

static void
model_init(struct model *m)
{
	*m = (struct model){0};
	for (unsigned int i = 0; i < MODEL_PORTS; i++)
		m->owner[i] = -1;
}

static int
model_claim(struct model *m, unsigned int p, unsigned int i)
{
	if (!m->here[p])
		return -EINVAL;
	if (m->owner[i] == (int)p)
		return 0;
	if (m->owner[i] >= 0)
		return -EADDRINUSE;
	m->owner[i] = (int)p;
	return 0;
}

static int
model_release(struct model *m, unsigned int p, unsigned int i)
{
	if (!m->here[p])
		return -EINVAL;
	if (m->owner[i] != (int)p)
		return -ENOENT;
	m->owner[i] = -1;
	return 0;
}

static void
model_leave(struct model *m, unsigned int p, uint64_t now_ns)
{
	for (unsigned int i = 0; i < MODEL_PORTS; i++)
		if (m->here[p] && m->owner[i] == (int)p) {
			m->owner[i] = -1;
			m->dead_ns[i] = now_ns + DEAD_NS;
		}
	m->here[p] = false;
}

/** One event of process p: it comes, claims or gives back a port, or ends. */
static void
both(struct portd_table *t, struct model *m, unsigned int event, unsigned int p, unsigned int i,
     uint64_t now_ns)
{
	uint16_t first, last;

	switch (event) {
	case 0:
		CHECK_EQ(portd_table_join(t, p, now_ns, &first, &last), m->here[p] ? -EALREADY : 0);
		m->here[p] = true;
		break;
	case 1:
		CHECK_EQ(portd_table_claim(t, p, model_port[i], now_ns), model_claim(m, p, i));
		break;
	case 2:
		CHECK_EQ(portd_table_release(t, p, model_port[i]), model_release(m, p, i));
		break;
	default:
		portd_table_leave(t, p, now_ns);
		model_leave(m, p, now_ns);
		break;
	}
	for (unsigned int k = 0; k < MODEL_PORTS; k++) {
		CHECK_EQ((int)portd_table_owner(t, model_port[k]), m->owner[k]);
		CHECK_EQ(portd_table_dead(t, model_port[k], now_ns),
		         m->owner[k] < 0 && now_ns < m->dead_ns[k]);
	}
}

#define ORDER_EVENTS 5
#define ORDER_KINDS  9 /* 4 events of two processes, and the end of a TIME-WAIT */

/** All sequences of ORDER_EVENTS events of two processes and one port. */
static void
test_orders(void)
{
	unsigned int all = 1;

	for (unsigned int i = 0; i < ORDER_EVENTS; i++)
		all *= ORDER_KINDS;
	for (unsigned int o = 0; o < all; o++) {
		struct portd_table *t = table_new(8, 2);
		uint64_t now_ns = 1;
		struct model m;

		model_init(&m);
		both(t, &m, 0, 0, 1, now_ns);
		both(t, &m, 0, 1, 1, now_ns);
		for (unsigned int i = 0, rest = o; i < ORDER_EVENTS; i++, rest /= ORDER_KINDS) {
			const unsigned int kind = rest % ORDER_KINDS;

			now_ns += kind == ORDER_KINDS - 1 ? DEAD_NS : 1;
			if (kind < ORDER_KINDS - 1)
				both(t, &m, kind / 2, kind % 2, 1, now_ns);
		}
		portd_table_destroy(t);
	}
}

static uint64_t
draw(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static void
test_model(void)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		const uint64_t used = test_seed_given() ? test_seed(seed) : seed;
		struct portd_table *t = table_new(8, 2);
		uint64_t s = used * 0x9e3779b97f4a7c15ULL + 1, now_ns = 1;
		struct model m;

		test_seed_note(used);
		model_init(&m);
		for (unsigned int i = 0; i < 4000; i++) {
			const uint64_t r = draw(&s);

			now_ns += (r >> 40) % 8 == 0 ? DEAD_NS / 2 : (r >> 44) % 3;
			both(t, &m, r % 16 == 0 ? 3 : (r >> 4) % 3, (r >> 8) % MODEL_PROCS,
			     (r >> 16) % MODEL_PORTS, now_ns);
		}
		portd_table_destroy(t);
	}
}

WEFT_TEST_MAIN({"a port has one owner, who claims it and gives it back", test_claims},
               {"the ports of a process that ends are dead for the time of TIME-WAIT", test_end},
               {"a dead port that is given back is dead again", test_dead_again},
               {"a dead port of a block cannot be claimed", test_dead_block},
               {"claims among the dynamic ports count as blocks", test_touched},
               {"a block is left for each process that may still come", test_room},
               {"blocks of dynamic ports", test_blocks},
               {"limits of a process and of the table", test_limits},
               {"every order of five events of two processes", test_orders},
               {"a model agrees with random events", test_model})
