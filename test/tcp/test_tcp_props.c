/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A connection keeps its properties on every network: thousands of networks are drawn from
 * seeds. `test_tcp_props CASE --seed N` runs one of them again. With WEFT_TCP_TRACE set it prints
 * the segments.
 */

#include "props.h"
#include "props_cases.h"

void
props_each(unsigned int runs, void (*run)(struct props *p))
{
	uint64_t first = test_seed(1), n = test_seed_given() ? 1 : PROPS_RUNS(runs);

	for (uint64_t seed = first; seed < first + n; seed++) {
		props_begin(seed);
		run(&props);
	}
}

/* ---- Any path, any faults, any attributes ---- */

static void
run_stream(struct props *p)
{
	unsigned int conns = props_chance(p, 80) ? 1 : 1 + (unsigned int)props_rand(p, 3);

	props_draw_path(p);
	props_draw_faults(p, 20);
	props_draw_attr(p);
	props_up(p);
	props_draw_app(p, &p->net.accept_as, 250000);
	for (unsigned int i = 0; i < conns; i++)
		props_connect(p, 250000);
	CHECK_MSG(net_run_closed(&p->net, 4000 * WEFT_NS_PER_S), "%s %s, sent %" PRIu64 " %" PRIu64,
	          weft_tcp_state_name(net_state(&p->net.app[0])),
	          weft_tcp_state_name(net_state(&p->net.app[1])), p->net.app[0].sent,
	          p->net.app[1].sent);
	CHECK_EQ(p->net.accepted, conns);
	for (unsigned int i = 0; i < conns; i++) {
		const struct net_app *a = &p->net.app[i], *b = NULL;

		/* the connections differ in the number of octets that arrived */
		for (unsigned int j = conns; j < 2 * conns; j++)
			if (p->net.app[j].received == a->to_send)
				b = &p->net.app[j];
		CHECK_MSG(b != NULL, "nobody has the %" PRIu64 " octets of connection %u",
		          a->to_send, i);
		props_check_complete(p, a, b);
	}
	props_down(p);
}

static void
test_stream(void)
{
	props_each(8000, run_stream);
}

WEFT_TEST_MAIN({"stream", test_stream}, {"outage", test_outage}, {"economy", test_economy},
               {"starve", test_starve}, {"abort", test_abort}, {"both_open", test_both_open},
               {"mtu", test_mtu}, {"restart", test_restart}, {"blind", test_blind},
               {"flood", test_flood}, {"window", test_window})
