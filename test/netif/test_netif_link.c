/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Announcements are sent when the link is up, and again after it was down. */

#include "../../lib/netif/netif_addr.h"
#include "../../lib/netif/netif_priv.h"
#include "fake.h"
#include "weft_netif_stats.h"

static struct fake f;
static uint8_t buf[FAKE_FRAME * 8];
static bool link_up;
static unsigned int asked;

static bool
dev_link(void *dev)
{
	CHECK(dev == &f);
	asked++;
	return link_up;
}

static struct weft_netif_dev dev;

static void
create(void)
{
	struct weft_netif_attr a = fake6_attr(&f);

	dev = *a.dev;
	dev.link = dev_link;
	a.dev = &dev;
	asked = 0;
	fake_create(&f, &a);
}

/* Number of frames of each kind sent since the last call. */
struct said {
	unsigned int arps, reports, probes, adverts;
};

static struct said
said(void)
{
	struct said s = {0};

	for (unsigned int i = 0; i < f.ntx; i++) {
		fake_sent(&f, i, buf);
		if (weft_get_be16(buf + 12) == 0x0806)
			s.arps++;
		else if (buf[20] == 0)
			s.reports++;
		else if (buf[54] == 135)
			s.probes++;
		else if (buf[54] == 136)
			s.adverts++;
	}
	fake_drop(&f);
	return s;
}

static void
check_said(unsigned int arps, unsigned int reports, unsigned int probes, unsigned int adverts)
{
	struct said s = said();

	CHECK_EQ(s.arps, arps);
	CHECK_EQ(s.reports, reports);
	CHECK_EQ(s.probes, probes);
	CHECK_EQ(s.adverts, adverts);
}

/* RFC 4862 s5.4: before the link was up no other host could object. */
static void
test_late(void)
{
	link_up = false;
	create();
	fake_poll(&f);
	fake_pass(&f, 5 * WEFT_NS_PER_S);
	check_said(0, 0, 0, 0);
	CHECK_EQ(f.nif->vlan[0].local->state, NET_OPTIMISTIC);
	CHECK(asked <= 51);
	CHECK_EQ(f.sched.wheel.armed, 0); /* an idle stack is idle */
	link_up = true;
	fake_pass(&f, 200 * WEFT_NS_PER_MS);
	check_said(1, 1, 2, 0);
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	check_said(0, 1, 0, 2);
	CHECK_EQ(f.nif->vlan[0].local->state, NET_PREFERRED);
	CHECK_EQ(weft_netif_stats(f.nif)->link_ups, 1);
	fake_stop(&f);
}

static unsigned int link_ups;

static void
on_link_up(void *arg, struct weft_netif *nif, uint64_t now_ns)
{
	(void)arg;
	CHECK(nif == f.nif && now_ns == weft_netif_link_back_ns(nif));
	link_ups++;
}

/* The link of net_memif is its peer: its loss is no excuse for the peer's silence. */
static void
test_quiet(void)
{
	for (unsigned int quiet = 0; quiet < 2; quiet++) {
		link_up = true;
		link_ups = 0;
		create();
		f.nif->link_quiet = quiet;
		f.nif->ops.link_up = on_link_up;
		fake_poll(&f);
		fake_pass(&f, 3 * WEFT_NS_PER_S);
		CHECK(weft_netif_link_up(f.nif));
		CHECK_EQ(weft_netif_link_back_ns(f.nif), 0);
		link_up = false;
		fake_pass(&f, 2 * WEFT_NS_PER_S);
		CHECK_EQ(weft_netif_link_up(f.nif), quiet);
		link_up = true;
		fake_pass(&f, 2 * WEFT_NS_PER_S);
		CHECK_EQ(link_ups, !quiet);
		CHECK(weft_netif_link_up(f.nif));
		CHECK_EQ(weft_netif_link_back_ns(f.nif) != 0, !quiet);
		fake_stop(&f);
	}
}

/* RFC 5227 s2.3, RFC 4861 s7.2.6, RFC 3810 s6.1: the link may now lead to another switch. */
static void
test_back(void)
{
	link_up = true;
	create();
	fake_poll(&f);
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	said();
	asked = 0;
	fake_pass(&f, 20 * WEFT_NS_PER_S);
	check_said(0, 0, 0, 0);
	CHECK(asked >= 19 && asked <= 21);
	for (unsigned int i = 0; i < 2; i++) {
		link_up = false;
		fake_pass(&f, 5 * WEFT_NS_PER_S);
		check_said(0, 0, 0, 0);
		link_up = true;
		fake_pass(&f, 500 * WEFT_NS_PER_MS);
		check_said(1, 1, 0, 2);
		fake_pass(&f, 3 * WEFT_NS_PER_S);
		check_said(0, 1, 0, 0);
	}
	CHECK_EQ(weft_netif_stats(f.nif)->link_ups, 3);
	CHECK_EQ(f.sched.wheel.armed, 0);
	fake_stop(&f);
}

/* The link goes down during duplicate address detection: it is repeated. */
static void
test_amid(void)
{
	link_up = true;
	create();
	fake_poll(&f);
	check_said(1, 1, 2, 0);
	fake_pass(&f, 100 * WEFT_NS_PER_MS);
	f.nif->link_due_ns = f.now_ns; /* due soon enough to notice it */
	link_up = false;
	fake_pass(&f, 2 * WEFT_NS_PER_S);
	said();
	CHECK_EQ(f.nif->net[1].state, NET_OPTIMISTIC);
	link_up = true;
	fake_pass(&f, 200 * WEFT_NS_PER_MS);
	check_said(1, 1, 2, 0);
	fake_pass(&f, 2 * WEFT_NS_PER_S);
	CHECK_EQ(f.nif->net[1].state, NET_PREFERRED);
	fake_stop(&f);
}

/* A bonded port whose frames take another way: announced as after an interruption, and counted
 * apart. It is asked often enough for LACP. */
static void
test_moved(void)
{
	link_up = true;
	create();
	f.nif->link_often = true;
	fake_poll(&f);
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	said();
	asked = 0;
	fake_pass(&f, 10 * WEFT_NS_PER_S);
	CHECK(asked >= 100 && asked <= 210);
	check_said(0, 0, 0, 0);
	f.nif->link_moved = true;
	fake_pass(&f, 60 * WEFT_NS_PER_MS);
	f.nif->link_moved = false;
	CHECK(said().arps >= 1);
	CHECK(weft_netif_stats(f.nif)->link_moves >= 1);
	CHECK_EQ(weft_netif_stats(f.nif)->link_ups, 1);
	CHECK_EQ(weft_netif_stats(f.nif)->link_downs, 0);
	link_up = false;
	fake_pass(&f, WEFT_NS_PER_S);
	link_up = true;
	fake_pass(&f, WEFT_NS_PER_S);
	CHECK_EQ(weft_netif_stats(f.nif)->link_ups, 2);
	CHECK_EQ(weft_netif_stats(f.nif)->link_downs, 1);
	fake_pass(&f, 3 * WEFT_NS_PER_S);
	fake_stop(&f);
}

WEFT_TEST_MAIN({"late", test_late}, {"quiet", test_quiet}, {"back", test_back}, {"amid", test_amid},
               {"a bonded port that uses another slave announces itself", test_moved})
