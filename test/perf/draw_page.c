/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Writes the page of a document of weft-perf --json: draw_page FILE. */

#include "doc.h"
#include "page.h"

int
main(int argc, char **argv)
{
	char why[512] = "which file?";
	json_t *doc = argc == 2 ? doc_load(argv[1], why, sizeof(why)) : NULL;
	int rc;

	if (doc == NULL) {
		fprintf(stderr, "draw_page: %s\n", why);
		return 1;
	}
	rc = page_write(stdout, doc);
	json_decref(doc);
	return rc != 0;
}
