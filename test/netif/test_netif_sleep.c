/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The receive interrupt of a port: armed for a sleep, believed for what it does. */

#include <sys/eventfd.h>
#include <unistd.h>

#include "fake.h"
#include "weft_netif.h"
#include "weft_netif_sleep.h"
#include "weft_netif_stats.h"

static struct fake f;

static void
start(bool interrupt)
{
	memset(&f, 0, sizeof(f));
	fake_start(&f, NULL);
	if (interrupt)
		f.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

static void
stop(void)
{
	if (f.wake_fd > 0)
		close(f.wake_fd);
	fake_stop(&f);
}

/** One sleep: what ended it, and what the poll behind it found. */
static enum weft_netif_wakes
sleep_once(bool readable, bool timed_out, uint64_t packets)
{
	int fd;
	enum weft_netif_wakes w = weft_netif_sleep_begin(f.nif, &fd);

	CHECK_EQ(fd, w == WEFT_NETIF_WAKES_NEVER ? -1 : f.wake_fd);
	CHECK_EQ(f.armed, w != WEFT_NETIF_WAKES_NEVER);
	if (readable)
		CHECK_EQ(write(f.wake_fd, &(uint64_t){1}, 8), 8);
	weft_netif_sleep_end(f.nif, readable);
	CHECK(!f.armed);
	weft_netif_sleep_judge(f.nif, readable, timed_out, packets);
	return w;
}

static void
test_none(void)
{
	start(false);
	for (unsigned int i = 0; i < 10; i++)
		CHECK_EQ(sleep_once(false, true, 1), WEFT_NETIF_WAKES_NEVER);
	stop();
}

/** The interrupt is believed from the first sleep on that it ended with a packet. Its counter is
 * read, so that it does not end the next sleep. */
static void
test_proven(void)
{
	uint64_t v;

	start(true);
	CHECK_EQ(sleep_once(false, true, 0), WEFT_NETIF_WAKES_UNPROVEN);
	CHECK_EQ(sleep_once(true, false, 0), WEFT_NETIF_WAKES_UNPROVEN);
	CHECK_EQ(sleep_once(true, false, 3), WEFT_NETIF_WAKES_UNPROVEN);
	CHECK_EQ(read(f.wake_fd, &v, sizeof(v)), -1);
	CHECK_EQ(sleep_once(false, true, 0), WEFT_NETIF_WAKES);
	CHECK_EQ(weft_netif_stats(f.nif)->rx_wakes, 2);
	CHECK_EQ(f.arms, 4);
	stop();
}

/** A port that has packets at the end of three sleeps in a row is not believed any more. */
static void
test_lies(void)
{
	for (unsigned int proven = 0; proven < 2; proven++) {
		start(true);
		if (proven)
			sleep_once(true, false, 1);
		/* Something else ended the sleep: a packet may have come by chance. */
		for (unsigned int i = 0; i < 10; i++)
			CHECK(sleep_once(false, false, 1) != WEFT_NETIF_WAKES_NEVER);
		sleep_once(false, true, 1);
		sleep_once(false, true, 1);
		/* A real wake clears the doubt. */
		sleep_once(true, false, 1);
		sleep_once(false, true, 1);
		sleep_once(false, true, 0);
		sleep_once(false, true, 1);
		CHECK_EQ(sleep_once(false, true, 1), WEFT_NETIF_WAKES);
		CHECK_EQ(sleep_once(false, true, 1), WEFT_NETIF_WAKES_NEVER);
		CHECK_EQ(sleep_once(false, true, 0), WEFT_NETIF_WAKES_NEVER);
		stop();
	}
}

WEFT_TEST_MAIN({"none", test_none}, {"proven", test_proven}, {"lies", test_lies})
