/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Runs the scenarios of scripts/ (see README.md there), with one TAP line each. */

#include <dirent.h>
#include <stdlib.h>

#include "script.h"

struct line {
	const char *text;
	int number;
};

struct file {
	const char *name;
	struct line *lines;
	unsigned int nlines, prelude; /**< lines before the first scenario */
};

struct scenario {
	const struct file *file;
	unsigned int first, end; /**< lines in the file */
};

static struct scenario *scenarios;
static struct weft_test_case *cases;
static unsigned int ncases;

static void *
grow(void *p, size_t n)
{
	p = realloc(p, n);
	if (p == NULL)
		abort();
	return p;
}

/** Run lines [i, end). `repeat N` runs the lines up to its `end` N times. */
static unsigned int
run_lines(struct sc *s, const struct file *f, unsigned int i, unsigned int end, bool nested)
{
	for (; i < end; i++) {
		const char *p = f->lines[i].text;

		s->line = f->lines[i].number;
		if (sc_word(&p, "repeat")) {
			long long n = sc_int(s, &p);
			unsigned int after = i;

			for (long long k = 0; k < n; k++)
				after = run_lines(s, f, i + 1, end, true);
			i = after;
		} else if (sc_word(&p, "end")) {
			if (!nested)
				SC_FAIL(s, "script: end without repeat");
			return i;
		} else {
			sc_statement(s, p);
		}
	}
	if (nested)
		SC_FAIL(s, "script: repeat without end");
	return i;
}

static void
run_scenario(void)
{
	const struct scenario *sn = &scenarios[test_case_index()];
	static struct sc_cap caps[SC_CAPS];
	static struct sc s;

	sc_abandon(&s);
	memset(&s, 0, sizeof(s));
	s.file = sn->file->name;
	s.caps = caps;
	s.f = &s.flow[0];
	for (unsigned int i = 0; i < SC_FLOWS; i++)
		s.flow[i] = (struct sc_flow){.peer_port = (uint16_t)(SC_PEER_PORT + i),
		                             .our_port = SC_PORT,
		                             .irs = SC_IRS,
		                             .last_wnd = 65535};
	run_lines(&s, sn->file, 0, sn->file->prelude, false);
	run_lines(&s, sn->file, sn->first, sn->end, false);
	sc_finish(&s);
}

static void
add_line(struct file *f, char *text, int number)
{
	const char *p;
	char *hash = strchr(text, '#');

	if (hash != NULL)
		*hash = '\0';
	for (size_t n = strlen(text); n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL; n--)
		text[n - 1] = '\0';
	p = text;
	sc_space(&p);
	if (*p == '\0')
		return;
	if (sc_word(&p, "scenario")) {
		sc_space(&p);
		scenarios = grow(scenarios, (ncases + 1) * sizeof(*scenarios));
		cases = grow(cases, (ncases + 1) * sizeof(*cases));
		if (ncases > 0 && scenarios[ncases - 1].file == f)
			scenarios[ncases - 1].end = f->nlines;
		else
			f->prelude = f->nlines;
		scenarios[ncases] = (struct scenario){.file = f, .first = f->nlines};
		cases[ncases++] = (struct weft_test_case){strdup(p), run_scenario};
		return;
	}
	f->lines = grow(f->lines, (f->nlines + 1) * sizeof(f->lines[0]));
	f->lines[f->nlines++] = (struct line){strdup(p), number};
}

static void
load(const char *path, const char *name)
{
	struct file *f = grow(NULL, sizeof(*f));
	FILE *in = fopen(path, "r");
	char text[512];
	int number = 0;

	if (in == NULL) {
		printf("Bail out! %s\n", path);
		exit(1);
	}
	*f = (struct file){.name = name};
	while (fgets(text, sizeof(text), in) != NULL)
		add_line(f, text, ++number);
	fclose(in);
	if (ncases > 0 && scenarios[ncases - 1].file == f)
		scenarios[ncases - 1].end = f->nlines;
}

static int
is_script(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 4 && strcmp(d->d_name + n - 4, ".pkt") == 0;
}

int
main(int argc, char **argv)
{
	const char *dir = getenv("WEFT_SCRIPTS");
	struct dirent **d;
	int n;

	if (dir == NULL)
		dir = WEFT_SCRIPT_DIR;
	n = scandir(dir, &d, is_script, alphasort);
	for (int i = 0; i < n; i++) {
		char path[512];

		snprintf(path, sizeof(path), "%s/%s", dir, d[i]->d_name);
		load(path, strdup(d[i]->d_name));
		free(d[i]);
	}
	if (n >= 0)
		free(d);
	if (ncases == 0) {
		printf("Bail out! no scenarios in %s\n", dir);
		return 1;
	}
	return test_main(argc, argv, cases, ncases);
}
