/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CONF_READER_H
#define WEFT_APPS_CONF_READER_H

/** @file One load of a configuration, while it reads; private to conf*.c. */

#include "conf_index.h"
#include "conf_key.h"

#define CONF_LINE_MAX 2000

/** State of one load. inih splits lines into section, key and value; conf_read_line() finds what
 * inih would ignore. */
struct conf_reader {
	struct conf *conf;
	const char *name;        /* of the file, for messages */
	char dir[CONF_PATH_MAX]; /* where relative paths start */
	const char *text, *end;
	char line_text[CONF_LINE_MAX + 1];
	int line; /* of line_text */
	bool cut; /* inih got only the beginning of line_text */
	/* the present section */
	const struct conf_section *sec;
	void *sec_base;
	char sec_title[CONF_LINE_MAX + 1]; /* "port p0" */
	int sec_line;
	int key_line[CONF_KEYS_MAX];      /* 0: not seen */
	int once_line[CONF_SECTIONS_MAX]; /* where a section without a name was, 0: nowhere yet */
	struct conf_index index;          /* of the exports */
	/* the first fault */
	int fault_line;
	char *err;
	size_t err_size;
};

/** Report a fault of the present section, unless there was one before. key may be NULL.
 * conf_fault.c */
void conf_fault(struct conf_reader *l, int line, const char *key, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
/** The line of this key in the present section; that of the section if the key was not given.
 * conf_fault.c */
int conf_line_of(const struct conf_reader *l, const char *key);
/** Check the present section at its end; without one nothing is done. conf_check.c */
void conf_check_section(struct conf_reader *l);

/** The configuration under check as a whole, and where its first fault is described. */
struct whole {
	struct conf *c;
	char *err;
	size_t err_size;
};

/** Describe a fault of it; line 0: of the whole file. Returns -EINVAL. conf_fault.c */
int conf_whole_fail(const struct whole *h, int line, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/* conf_nvmf.c */
void conf_check_nvmf(struct conf_reader *l, const struct conf_nvmf *n);
void conf_check_subsys(struct conf_reader *l, struct conf_subsys *s);
/** Subsystems, their exports, and their memory. */
int conf_whole_nvmf(const struct whole *h);

#endif /* WEFT_APPS_CONF_READER_H */
