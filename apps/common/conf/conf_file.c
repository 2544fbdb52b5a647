/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Loads a configuration: reads lines and fills struct conf, or reports the first fault in
 * one line. */

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf_reader.h"
#include "file_open.h"

#define CONF_FILE_MAX (16u << 20)

/* ---- Section headers ---- */

static void
conf_section_unknown(struct conf_reader *l)
{
	char all[256] = "";

	for (unsigned int i = 0; i < conf_nsections; i++) {
		size_t n = strlen(all);

		snprintf(all + n, sizeof(all) - n, "%s[%s%s]", i > 0 ? ", " : "",
		         conf_sections[i].name,
		         conf_sections[i].nqn     ? " NQN"
		         : conf_sections[i].named ? " NAME"
		                                  : "");
	}
	conf_fault(l, l->line, NULL, "unknown section; there are %s", all);
}

static void
conf_section_twice(struct conf_reader *l, int first_line)
{
	conf_fault(l, l->line, NULL,
	           "second section of this name, the first is on line %d; rename or join them",
	           first_line);
}

/** The section of this kind that has the name; NULL: none. */
static char *
conf_section_find(const struct conf_reader *l, const struct conf_section *s, char *array,
                  uint32_t count, const char *name)
{
	uint32_t i = 0;

	if (s->grows) {
		i = conf_index_find(&l->index, l->conf->exports, count, name);
		return i < count ? (char *)&l->conf->exports[i] : NULL;
	}
	while (i < count && strcmp(array + i * s->elem_bytes + s->name_off, name) != 0)
		i++;
	return i < count ? array + i * s->elem_bytes : NULL;
}

static void
conf_section_named(struct conf_reader *l, const struct conf_section *s, const char *name)
{
	uint32_t *count = (uint32_t *)((char *)l->conf + s->count_off);
	char *array = (char *)l->conf + s->off, *elem;
	int rc = 0;

	if (*name == '\0') {
		conf_fault(l, l->line, NULL, "no name; write [%s %s]", s->name,
		           s->nqn ? "NQN" : "NAME");
		return;
	}
	if (s->nqn && !conf_is_nqn(name)) {
		conf_fault(l, l->line, NULL,
		           "no NQN; write nqn.YYYY-MM.DOMAIN:NAME, as "
		           "nqn.2026-01.org.example:disk, of at most %d octets",
		           CONF_NQN_MAX);
		return;
	}
	if (!s->nqn && strlen(name) > CONF_NAME_MAX) {
		conf_fault(l, l->line, NULL, "name too long; %d octets at most", CONF_NAME_MAX);
		return;
	}
	for (const char *p = name; !s->nqn && *p != '\0'; p++) {
		if (!isascii((unsigned char)*p) ||
		    (!isalnum((unsigned char)*p) && strchr("._-", *p) == NULL)) {
			conf_fault(l, l->line, NULL,
			           "bad name; use letters, digits, '.', '_' and '-' only");
			return;
		}
	}
	elem = conf_section_find(l, s, array, *count, name);
	if (elem != NULL) {
		conf_section_twice(l, *(int *)(elem + s->line_off));
		return;
	}
	if (*count == s->max) {
		conf_fault(l, l->line, NULL, "too many; %u sections [%s NAME] at most", s->max,
		           s->name);
		return;
	}
	if (s->grows) {
		rc = conf_exports_room(&l->conf->exports, *count);
		array = (char *)l->conf->exports;
	}
	if (rc == 0 && s->grows)
		rc = conf_index_add(&l->index, l->conf->exports, *count, name);
	if (rc != 0) {
		conf_fault(l, l->line, NULL, "out of memory");
		return;
	}
	elem = array + *count * s->elem_bytes;
	(*count)++;
	memset(elem, 0, s->elem_bytes);
	strcpy(elem + s->name_off, name);
	*(int *)(elem + s->line_off) = l->line;
	conf_section_defaults(s, elem);
	l->sec = s;
	l->sec_base = elem;
}

/* line_text begins with '['. */
static void
conf_section_start(struct conf_reader *l)
{
	char *close = strchr(l->line_text, ']'), *title = l->sec_title, *name;
	size_t n = close != NULL ? (size_t)(close - l->line_text) - 1 : strlen(l->line_text + 1);
	const char *rest;

	conf_check_section(l);
	if (l->fault_line != 0)
		return;
	l->sec = NULL;
	l->sec_base = NULL;
	l->sec_line = l->line;
	memset(l->key_line, 0, sizeof(l->key_line));
	memcpy(title, l->line_text + 1, n);
	title[n] = '\0';
	if (close == NULL) {
		conf_fault(l, l->line, NULL, "no closing ]; write [SECTION] alone on its line");
		return;
	}
	rest = close + 1 + strspn(close + 1, " \t\r");
	if (*rest != '\0' && *rest != ';' && *rest != '#') {
		conf_fault(l, l->line, NULL,
		           "something behind the ]; write [SECTION] alone on its line");
		return;
	}
	/* "[port  p0 ]" is "[port p0]". */
	while (n > 0 && isspace((unsigned char)title[n - 1]))
		title[--n] = '\0';
	memmove(title, title + strspn(title, " \t"), strlen(title + strspn(title, " \t")) + 1);
	name = title + strcspn(title, " \t");
	n = (size_t)(name - title);
	name += strspn(name, " \t");
	for (unsigned int i = 0; i < conf_nsections; i++) {
		const struct conf_section *s = &conf_sections[i];

		if (strlen(s->name) != n || memcmp(s->name, title, n) != 0)
			continue;
		if (s->named) {
			conf_section_named(l, s, name);
			return;
		}
		if (*name != '\0') {
			conf_fault(l, l->line, NULL, "takes no name; write [%s]", s->name);
			return;
		}
		if (l->once_line[i] != 0) {
			conf_section_twice(l, l->once_line[i]);
			return;
		}
		l->once_line[i] = l->line;
		l->sec = s;
		l->sec_base = (char *)l->conf + s->off;
		return;
	}
	conf_section_unknown(l);
}

/* ---- Lines and keys ---- */

/* End of the key by inih's rules: the first = or : that is not in a comment. NULL: none. */
static char *
conf_separator(char *line)
{
	for (char *p = line; *p != '\0'; p++) {
		if (*p == '=' || *p == ':')
			return p;
		if (*p == ';' && p > line && isspace((unsigned char)p[-1]))
			return NULL;
	}
	return NULL;
}

static void
conf_junk(struct conf_reader *l, int line)
{
	conf_fault(
	        l, line, NULL,
	        "neither a [SECTION], nor key = value, nor a comment; begin comments with # or ;");
}

/*
 * inih's reader: one physical line, without leading blanks (inih would take those for the
 * continuation of the line before). A line longer than inih's buffer goes in cut; conf_handler()
 * has the rest of it.
 */
static char *
conf_read_line(char *buf, int size, void *stream)
{
	struct conf_reader *l = stream;
	const char *nl;
	size_t n;

	if (l->text == l->end || l->fault_line != 0)
		return NULL;
	l->line++;
	nl = memchr(l->text, '\n', (size_t)(l->end - l->text));
	n = (size_t)((nl != NULL ? nl : l->end) - l->text);
	while (n > 0 && (*l->text == ' ' || *l->text == '\t')) {
		l->text++;
		n--;
	}
	if (n > CONF_LINE_MAX) {
		conf_fault(l, l->line, NULL, "line too long; %d octets at most", CONF_LINE_MAX);
		return NULL;
	}
	memcpy(l->line_text, l->text, n);
	l->line_text[n] = '\0';
	l->text = nl != NULL ? nl + 1 : l->end;
	if (strlen(l->line_text) != n) {
		conf_fault(l, l->line, NULL, "an octet 0 in the line; this is no text file");
		return NULL;
	}
	if (l->line_text[0] == '[') {
		conf_section_start(l);
		if (l->fault_line != 0)
			return NULL;
	} else if (strchr(";#\r", l->line_text[0]) == NULL &&
	           conf_separator(l->line_text) == NULL) {
		conf_junk(l, l->line);
		return NULL;
	}
	l->cut = n + 2 > (size_t)size;
	if (l->cut)
		n = (size_t)size - 2;
	memcpy(buf, l->line_text, n);
	buf[n] = '\n';
	buf[n + 1] = '\0';
	return buf;
}

/* The value of a line of which inih saw only the beginning, by inih's rules. */
static const char *
conf_whole_value(struct conf_reader *l)
{
	char *v = conf_separator(l->line_text) + 1, *p;

	v += strspn(v, " \t");
	for (p = v; *p != '\0'; p++)
		if (*p == ';' && p > v && isspace((unsigned char)p[-1]))
			break;
	*p = '\0';
	while (p > v && isspace((unsigned char)p[-1]))
		*--p = '\0';
	return v;
}

static int
conf_handler(void *user, const char *section, const char *name, const char *value)
{
	struct conf_reader *l = user;
	char why[CONF_ERR_MAX], all[256] = "";

	(void)section; /* l->sec: inih cuts long ones */
	if (l->fault_line != 0)
		return 0;
	if (l->sec == NULL) {
		conf_fault(l, l->line, name, "outside any section; put it below a [SECTION] line");
		return 0;
	}
	if (l->cut)
		value = conf_whole_value(l);
	for (unsigned int i = 0; i < l->sec->nkeys; i++) {
		const struct conf_key *k = &l->sec->keys[i];

		if (strcmp(k->name, name) == 0) {
			if (l->key_line[i] != 0) {
				conf_fault(l, l->line, name,
				           "given twice, first on line %d; keep one",
				           l->key_line[i]);
				return 0;
			}
			l->key_line[i] = l->line;
			if (conf_value(k, l->sec_base, value, l->dir, why, sizeof(why)) != 0) {
				conf_fault(l, l->line, name, "%s", why);
				return 0;
			}
			return 1;
		}
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i > 0 ? ", " : "",
		         k->name);
	}
	conf_fault(l, l->line, name, "unknown key; there are %s", all);
	return 0;
}

/* ---- The file ---- */

int
conf_load_sections(const char *name, const char *text, size_t len, struct conf *c, char *err,
                   size_t err_size)
{
	struct conf_reader *l = calloc(1, sizeof(*l));
	const char *slash = strrchr(name, '/');
	int junk;

	if (l == NULL) {
		snprintf(err, err_size, "%s: out of memory", name);
		return -ENOMEM;
	}
	conf_defaults(c);
	snprintf(c->file, sizeof(c->file), "%s", name);
	*l = (struct conf_reader){.conf = c,
	                          .name = name,
	                          .text = text,
	                          .end = text + len,
	                          .err = err,
	                          .err_size = err_size};
	if (slash != NULL && slash != name)
		snprintf(l->dir, sizeof(l->dir), "%.*s", (int)(slash - name), name);
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		l->text += 3; /* a byte order mark */
	junk = ini_parse_stream(conf_read_line, l, conf_handler, l);
	if (junk < 0)
		conf_fault(l, l->line, NULL, "out of memory");
	else if (junk > 0)
		conf_junk(l, junk);
	conf_check_section(l);
	junk = l->fault_line;
	conf_index_free(&l->index);
	free(l);
	if (junk != 0)
		conf_free(c);
	return junk != 0 ? -EINVAL : 0;
}

int
conf_load_string(const char *name, const char *text, size_t len, struct conf *c, char *err,
                 size_t err_size)
{
	int rc = conf_load_sections(name, text, len, c, err, err_size);

	if (rc == 0) {
		rc = conf_finish(c, err, err_size);
		if (rc != 0)
			conf_free(c);
	}
	return rc;
}

int
conf_load(const char *path, struct conf *c, char *err, size_t err_size)
{
	char why[CONF_ERR_MAX], *text;
	size_t len = 0;
	ssize_t n = 0;
	/* A target reads the file again at SIGHUP, so a file that can be read only once is
	 * refused. */
	int fd = file_open(path, why, sizeof(why)), rc;

	conf_defaults(c); /* a failure leaves no exports */
	if (fd < 0) {
		snprintf(err, err_size, "%s: %s", path, why);
		return fd;
	}
	text = malloc(CONF_FILE_MAX + 1);
	while (text != NULL && len <= CONF_FILE_MAX &&
	       (n = read(fd, text + len, CONF_FILE_MAX + 1 - len)) > 0)
		len += (size_t)n;
	rc = text == NULL ? -ENOMEM : n < 0 ? -errno : 0;
	close(fd);
	if (rc != 0)
		snprintf(err, err_size, "%s: cannot be read: %s", path, strerror(-rc));
	else if (len > CONF_FILE_MAX)
		rc = -EFBIG, snprintf(err, err_size,
		                      "%s: larger than 16 MiB; is it a configuration file?", path);
	else
		rc = conf_load_string(path, text, len, c, err, err_size);
	free(text);
	return rc;
}
