/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the medium's first page held when it was last looked at, since this driver last wrote it. If
 * it holds something else now, somebody else has written it, by whatever way: what the kernel tells
 * of that (weft_medium_watch()) leaves some out, and may not be had. Who puts another file's
 * content in place of this one's writes the first page, too.
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
	/* What cannot be read is told by a Verify. */
	if (weft_bounce_read(&page, 0, &f->md, 0, WEFT_MEDIUM_PAGE, &now) != 0)
		return 0;
	if (f->sealed && memcmp(f->seal, now, WEFT_MEDIUM_PAGE) != 0)
		return weft_medium_lose(&f->md, -ESTALE);
	memcpy(f->seal, now, WEFT_MEDIUM_PAGE);
	f->sealed = true;
	return 0;
}
