/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Whether exports are served (apps/target/target_served.c), as workers and as other threads
 * ask: /readyz (metrics_health.c) asks the kernel for no file, however many exports there are. */

#include <string.h>
#include <sys/stat.h>

#include "metrics_read.h"
#include "target.h"
#include "target_volume.h"
#include "ui.h"
#include "weft_test.h"

#define EXPORTS 1000U

static struct target t;
static struct conf_export conf[EXPORTS];
static unsigned int nasked;
static uint32_t links; /* that the kernel says each file has */

int __wrap_fstat64(int fd, struct stat *st);

int
__wrap_fstat64(int fd, struct stat *st)
{
	CHECK(fd == 100);
	*st = (struct stat){.st_nlink = links};
	nasked++;
	return 0;
}

bool
weft_port_removed(const struct weft_port *port)
{
	(void)port;
	return false;
}

uint32_t
target_volume_may(const struct target_export *ex, uint32_t may)
{
	(void)ex;
	return may;
}

static void
set_up(void)
{
	memset(&t, 0, sizeof(t));
	pthread_mutex_init(&t.exports_lock, NULL);
	t.conf.nports = 1;
	for (uint32_t i = 0; i < EXPORTS; i++) {
		struct target_export *ex = &t.exports[i];

		snprintf(conf[i].name, sizeof(conf[i].name), "e%u", i);
		ex->conf = &conf[i];
		ex->file_fd = 100;
		ex->rights = CONF_RIGHT_READ;
		pthread_mutex_init(&ex->lock, NULL);
		atomic_store(&ex->up, true);
	}
	atomic_store(&t.nexports, EXPORTS);
	links = 1;
	nasked = 0;
}

/** A file was removed, and the watch of the files has not seen it: an OPEN is refused at once. What
 * shows exports knows it when the watch has seen it. */
static void
test_removed(void)
{
	struct target_export *ex = &t.exports[7];
	char why[64];

	set_up();
	CHECK_EQ(target_may(ex), CONF_RIGHT_READ);
	CHECK(!target_export_why(ex, why, sizeof(why)));
	links = 0;
	CHECK_EQ(target_may(ex), 0);
	CHECK(target_export_why(ex, why, sizeof(why)));
	CHECK_STR(why, "its file was removed");
	nasked = 0;
	CHECK_EQ(target_seen_may(ex), CONF_RIGHT_READ);
	CHECK(!target_export_seen_why(ex, why, sizeof(why)));
	atomic_store(&ex->file, TARGET_FILE_REMOVED);
	CHECK_EQ(target_seen_may(ex), 0);
	CHECK(target_export_seen_why(ex, why, sizeof(why)));
	CHECK_STR(why, "its file was removed");
	atomic_store(&ex->up, false);
	CHECK(target_export_seen_why(ex, why, sizeof(why)));
	CHECK(strncmp(why, "offline", 7) == 0);
	CHECK_EQ(nasked, 0);
}

/** /readyz names each export that is not served, and makes no call of the kernel for a file. */
static void
test_readyz(void)
{
	char text[4096];

	set_up();
	CHECK(metrics_ready(&t, text, sizeof(text)));
	CHECK_STR(text, "");
	atomic_store(&t.exports[3].file, TARGET_FILE_CUT);
	atomic_store(&t.exports[4].up, false);
	atomic_store(&t.exports[5].held, TARGET_HELD_OFFLINE);
	atomic_store(&t.exports[6].gone, true);
	CHECK(metrics_ready(&t, text, sizeof(text)));
	CHECK_STR(text, "export e3: its file is lost\nexport e4: offline\n"
	                "export e5: taken out of service by its operator\n");
	CHECK_EQ(nasked, 0);
	for (uint32_t i = 0; i < EXPORTS; i++)
		atomic_store(&t.exports[i].up, false);
	CHECK(!metrics_ready(&t, text, sizeof(text)));
	CHECK_EQ(nasked, 0);
}

/** A file system that does not answer: what is known of the files gets no newer. */
static void
test_silent(void)
{
	char text[4096];

	set_up();
	atomic_store(&t.watch_since_ns, ui_now_ns() - 9000000000u);
	CHECK(metrics_ready(&t, text, sizeof(text)));
	CHECK_STR(text, "");
	atomic_store(&t.watch_since_ns, ui_now_ns() - 70500000000u);
	CHECK(!metrics_ready(&t, text, sizeof(text)));
	CHECK_STR(text, "a file system has not answered for 70 s\n");
	CHECK(!metrics_is_ready(&t, EXPORTS, EXPORTS));
	atomic_store(&t.watch_since_ns, 0);
	CHECK(metrics_ready(&t, text, sizeof(text)));
	CHECK_EQ(nasked, 0);
}

WEFT_TEST_MAIN({"a file that was removed", test_removed}, {"/readyz asks for no file", test_readyz},
               {"a file system that does not answer", test_silent})
