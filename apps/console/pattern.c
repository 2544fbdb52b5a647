/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Patterns: a word, a quoted text or a POSIX extended regular expression, looked for in what
 * a command prints. */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "script.h"

/** How long the pattern at the front of p is, with its quotes or slashes; 0: it does not end. */
static size_t
pattern_len(const char *p)
{
	size_t n;

	if (p[0] != '"' && p[0] != '/')
		return strcspn(p, " \t\n");
	for (n = 1; p[n] != '\0' && p[n] != p[0]; n++)
		if (p[0] == '/' && p[n] == '\\' && p[n + 1] != '\0')
			n++;
	return p[n] == p[0] ? n + 1 : 0;
}

/** In place: a regular expression says \/ for a slash. */
static void
slashes(char *text)
{
	char *to = text;

	for (const char *from = text; *from != '\0'; from++)
		if (from[0] != '\\' || from[1] != '/')
			*to++ = *from;
	*to = '\0';
}

const char *
pattern_take(const char **p, struct pattern *pt)
{
	static char why[VAR_BYTES];
	const size_t n = pattern_len(*p);
	const bool bare = (*p)[0] != '"' && (*p)[0] != '/';
	char text[VAR_BYTES];
	const char *bad;
	int rc;

	if (n == 0)
		return (*p)[0] == '\0' ? "a text or a /regular expression/ is missing"
		                       : "the text to look for has no closing quote or slash";
	if (!bare && (*p)[n] != '\0' && !isspace((unsigned char)(*p)[n]))
		return "no blank behind the closing quote or slash";
	bad = vars_expand(*p + !bare, n - (bare ? 0 : 2), text, sizeof(text) - 2);
	if (bad != NULL)
		return bad;
	if (text[0] == '\0')
		return "the text to look for is empty";
	pt->regex = (*p)[0] == '/';
	if (pt->regex) {
		slashes(text);
		rc = regcomp(&pt->re, text, REG_EXTENDED | REG_NEWLINE);
		if (rc != 0) {
			snprintf(why, sizeof(why), "not a regular expression: ");
			regerror(rc, &pt->re, why + strlen(why), sizeof(why) - strlen(why));
			return why;
		}
	}
	snprintf(pt->text, sizeof(pt->text), pt->regex ? "/%s/" : "%s", text);
	*p += n;
	*p += strspn(*p, " \t");
	return NULL;
}

bool
pattern_in(const struct pattern *pt, const char *text)
{
	return pt->regex ? regexec(&pt->re, text, 0, NULL, 0) == 0 : strstr(text, pt->text) != NULL;
}

bool
pattern_get(const struct pattern *pt, const char *text, char *out, size_t size)
{
	regmatch_t m[2];

	if (!pt->regex || regexec(&pt->re, text, 2, m, 0) != 0)
		return false;
	if (pt->re.re_nsub > 0 && m[1].rm_so >= 0)
		m[0] = m[1];
	snprintf(out, size, "%.*s", (int)(m[0].rm_eo - m[0].rm_so), text + m[0].rm_so);
	return true;
}

void
pattern_free(struct pattern *pt)
{
	if (pt->regex)
		regfree(&pt->re);
}

bool
word_take(const char **p, const char *word)
{
	const size_t n = strlen(word);

	if (strncmp(*p, word, n) != 0 || ((*p)[n] != '\0' && !isspace((unsigned char)(*p)[n])))
		return false;
	*p += n;
	*p += strspn(*p, " \t");
	return true;
}
