/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Detects that another process has written the medium's first page: compares it with what the
 * last check found, unless this driver has written it since. The kernel's reports
 * (weft_medium_watch()) miss some ways of writing, and are not always available. A process that
 * replaces the content by another file's writes the first page, too.
 */

#include <stdlib.h>
#include <string.h>

#include "file_priv.h"

void
file_seal_open(struct file_priv *f)
{
	void *pages;

	if (f->md.bytes < WEFT_MEDIUM_PAGE ||
	    posix_memalign(&pages, WEFT_MEDIUM_PAGE, 2 * WEFT_MEDIUM_PAGE) != 0)
		return;
	f->seal = pages;
	(void)file_seal_look(f);
}

void
file_seal_close(struct file_priv *f)
{
	free(f->seal);
	f->seal = NULL;
}

int
file_seal_look(struct file_priv *f)
{
	struct weft_bounce page = {0};
	const uint8_t *now;

	if (f->seal == NULL)
		return 0;
	page.mem = f->seal + WEFT_MEDIUM_PAGE;
	/* A read error shows in a Verify. */
	if (weft_bounce_read(&page, 0, &f->md, 0, WEFT_MEDIUM_PAGE, &now) != 0)
		return 0;
	if (f->sealed && memcmp(f->seal, now, WEFT_MEDIUM_PAGE) != 0)
		return weft_medium_lose(&f->md, -ESTALE);
	memcpy(f->seal, now, WEFT_MEDIUM_PAGE);
	f->sealed = true;
	return 0;
}
