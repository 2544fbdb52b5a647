/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Escapes texts for HTML and XML. */

#include "markup.h"

void
markup_text(FILE *f, const char *s)
{
	for (; *s != '\0'; s++) {
		const unsigned char c = (unsigned char)*s;

		/* U+FFFE and U+FFFF, which XML forbids, are EF BF BE and EF BF BF. */
		if (c == 0xef && (unsigned char)s[1] == 0xbf && (unsigned char)s[2] >= 0xbe) {
			fputs("&#65533;", f);
			s += 2;
		} else if (c == '&') {
			fputs("&amp;", f);
		} else if (c == '<') {
			fputs("&lt;", f);
		} else if (c == '>') {
			fputs("&gt;", f);
		} else if (c == '"') {
			fputs("&quot;", f);
		} else if (c == '\'') {
			fputs("&#39;", f);
		} else if (c < 0x20 && c != '\n' && c != '\t') {
			fputs("&#65533;", f);
		} else {
			fputc(c, f);
		}
	}
}
