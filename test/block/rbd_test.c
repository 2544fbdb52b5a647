/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Shared by the tests of the block driver "rbd". */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rbd_test.h"
#include "weft_test.h"

/** WEFT_RBD is a program of this build. */
static void
rbd_use(const char *program)
{
	char self[512], path[600];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	CHECK(n > 0);
	self[n] = '\0';
	CHECK(strrchr(self, '/') != NULL);
	*strrchr(self, '/') = '\0';
	/* The test's own program is in test, or in a folder of it. */
	snprintf(path, sizeof(path), "%s/%s", self, program);
	if (access(path, X_OK) != 0)
		snprintf(path, sizeof(path), "%s/../%s", self, program);
	CHECK_MSG(access(path, X_OK) == 0, "no %s", path);
	setenv("WEFT_RBD", path, 1);
}

void
rbd_fake_folder(const char *folder)
{
	rbd_use("block/rbd_fake");
	setenv("WEFT_RBD_FAKE", folder, 1);
	rbd_fake_faults(NULL);
}

void
rbd_real(void)
{
	rbd_use("../apps/rbd/weft-rbd");
}

void
rbd_fake_faults(const char *faults)
{
	setenv("WEFT_RBD_FAKE_DO", faults == NULL ? "" : faults, 1);
}
