/* SPDX-License-Identifier: BSD-3-Clause */
/** @file One export as text, apart from a whole configuration: parsed, and printed. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conf_key.h"

int
conf_parse_export(const char *name, const char *text, struct conf_export *out, char *err,
                  size_t err_size)
{
	struct conf *c = calloc(1, sizeof(*c));
	int rc = -ENOMEM;

	if (c != NULL)
		rc = conf_load_sections(name, text, strlen(text), c, err, err_size);
	else
		snprintf(err, err_size, "%s: out of memory", name);
	if (rc == 0 && c->nexports != 1) {
		snprintf(err, err_size, "%s: not one [export NAME]", name);
		rc = -EINVAL;
	}
	if (rc == 0)
		*out = c->exports[0];
	if (c != NULL)
		conf_free(c);
	free(c);
	return rc;
}

static void
print_choice(FILE *out, const char *choices, uint32_t n)
{
	while (n > 0 && (choices = strchr(choices, '|')) != NULL) {
		choices++;
		n--;
	}
	fprintf(out, "%.*s", choices != NULL ? (int)strcspn(choices, "|") : 0, choices);
}

static void
print_rights(FILE *out, uint32_t rights)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} all[] = {{CONF_RIGHT_READ, "read"},
	           {CONF_RIGHT_WRITE, "write"},
	           {CONF_RIGHT_FLUSH, "flush"},
	           {CONF_RIGHT_VERIFY, "verify"}};
	const char *sep = "";

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (rights & all[i].bit) {
			fprintf(out, "%s%s", sep, all[i].name);
			sep = ",";
		}
}

static void
print_listen(FILE *out, const struct conf_listen *l, uint32_t n)
{
	char text[ADDR_STR_MAX];

	for (uint32_t i = 0; i < n; i++)
		fprintf(out, "%s%s", i > 0 ? "," : "",
		        conf_net_str(&l[i].addr, l[i].prefix_len, text));
}

static void
print_value(FILE *out, const struct conf_key *k, const void *at, const void *at2)
{
	switch (k->type) {
	case CONF_T_U32:
		fprintf(out, "%" PRIu32, *(const uint32_t *)at);
		break;
	case CONF_T_I32:
		fprintf(out, "%" PRId32, *(const int32_t *)at);
		break;
	case CONF_T_BOOL:
		fputs(*(const bool *)at ? "yes" : "no", out);
		break;
	case CONF_T_SIZE:
		fprintf(out, "%" PRIu64, *(const uint64_t *)at);
		break;
	case CONF_T_CHOICE:
		print_choice(out, k->choices, *(const uint32_t *)at);
		break;
	case CONF_T_RIGHTS:
		print_rights(out, *(const uint32_t *)at);
		break;
	case CONF_T_LISTEN:
		print_listen(out, at, *(const uint32_t *)at2);
		break;
	default: /* texts; an export has no key of another type */
		fputs(at, out);
		break;
	}
}

void
conf_print_export(FILE *out, const struct conf_export *e)
{
	const struct conf_section *s = conf_sections;
	struct conf_export dflt = {0};

	while (strcmp(s->name, "export") != 0)
		s++;
	conf_section_defaults(s, &dflt);
	fprintf(out, "[export %s]\n", e->name);
	for (unsigned int i = 0; i < s->nkeys; i++) {
		const struct conf_key *k = &s->keys[i];
		const void *at = (const char *)e + k->off, *at2 = (const char *)e + k->off2;

		/* A default is left out. Rights are not: those of a volatile export differ. */
		if (k->type == CONF_T_LISTEN
		            ? *(const uint32_t *)at2 == 0
		            : k->type != CONF_T_RIGHTS &&
		                      memcmp(at, (const char *)&dflt + k->off, k->size) == 0)
			continue;
		fprintf(out, "%s = ", k->name);
		print_value(out, k, at, at2);
		fputc('\n', out);
	}
}

void
conf_print_access(FILE *out, const struct conf_export *e)
{
	if (e->allow_clients[0] != '\0')
		fprintf(out, "allow_clients=%s", e->allow_clients);
	if (e->nallow_from > 0)
		fprintf(out, "%sallow_from=", e->allow_clients[0] != '\0' ? " " : "");
	print_listen(out, e->allow_from, e->nallow_from);
}

void
conf_print_limits(FILE *out, const struct conf_export *e)
{
	const struct {
		const char *key;
		uint64_t n;
	} all[] = {{"max_bytes_per_s", e->max_bytes_per_s},
	           {"max_ops_per_s", e->max_ops_per_s},
	           {"client_bytes_per_s", e->client_bytes_per_s},
	           {"client_ops_per_s", e->client_ops_per_s},
	           {"max_conns", e->max_conns}};
	const char *sep = "";

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].n != 0) {
			fprintf(out, "%s%s=%" PRIu64, sep, all[i].key, all[i].n);
			sep = " ";
		}
}
