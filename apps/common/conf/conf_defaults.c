/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The defaults of sections, from the table of keys. */

#include <stdlib.h>
#include <string.h>

#include "conf_key.h"

void
conf_section_defaults(const struct conf_section *s, void *base)
{
	char why[CONF_ERR_MAX];

	for (unsigned int i = 0; i < s->nkeys; i++)
		if (s->keys[i].dflt != NULL &&
		    conf_value(&s->keys[i], base, s->keys[i].dflt, "", why, sizeof(why)) != 0)
			abort(); /* the table contradicts itself */
}

void
conf_defaults(struct conf *c)
{
	memset(c, 0, sizeof(*c));
	for (unsigned int i = 0; i < conf_nsections; i++)
		if (!conf_sections[i].named)
			conf_section_defaults(&conf_sections[i], (char *)c + conf_sections[i].off);
}

void
conf_free(struct conf *c)
{
	free(c->exports);
	c->exports = NULL;
	c->nexports = 0;
}

void
conf_named_defaults(const char *name, void *base)
{
	for (unsigned int i = 0; i < conf_nsections; i++)
		if (strcmp(conf_sections[i].name, name) == 0)
			conf_section_defaults(&conf_sections[i], base);
}
