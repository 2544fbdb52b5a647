/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What show, rates and clear do with the objects of a noun: choose, subtract, print. */

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach.h"
#include "console.h"
#include "show.h"
#include "show_noun.h"
#include "show_own.h"
#include "show_print.h"
#include "table.h"
#include "ui.h"

#define WORD_MAX      128
#define CONDITIONS    8
#define NOUNS_MAX     64
#define RATE_FIRST_MS 1000

struct tel_client show_tel = {.fd = -1};

/** What is remembered of a noun: its objects by name (key_of()). */
struct memory {
	json_t *last; /**< at the last `rates` */
	uint64_t last_ns;
	json_t *zero; /**< at the last `clear` */
};

static struct memory memory[NOUNS_MAX];

/** KEY OP VALUE behind `where`. */
struct condition {
	char key[WORD_MAX], value[WORD_MAX];
	char op; /**< '=', '!', '<' or '>' */
};

struct request {
	const struct show_noun *n;
	char object[WORD_MAX]; /**< empty: all */
	bool detail, rates, json;
	unsigned int nconditions;
	struct condition where[CONDITIONS];
};

/* ---- Words ---- */

static bool
usage(struct cmdline *cl, const struct show_noun *n, const char *fmt, const char *arg)
{
	char why[WORD_MAX + 64];

	snprintf(why, sizeof(why), fmt, arg);
	console_fail(cl,
	             "%s: %s; usage: show %s [OBJECT] [detail] [rates] [json] [where KEY=VALUE]",
	             n->name, why, n->name);
	return false;
}

static bool
parse_condition(struct request *r, const char *word)
{
	struct condition *c = &r->where[r->nconditions];
	const size_t n = strcspn(word, "=!<>");
	const char *value = word + n;
	char *end;

	if (n == 0 || *value == '\0' || r->nconditions == CONDITIONS)
		return false;
	c->op = *value++;
	if (c->op == '!' && *value++ != '=')
		return false;
	snprintf(c->key, sizeof(c->key), "%.*s", (int)n, word);
	snprintf(c->value, sizeof(c->value), "%s", value);
	r->nconditions++;
	/* Only numbers are less or greater. */
	strtod(value, &end);
	return c->op == '=' || c->op == '!' || (*value != '\0' && *end == '\0');
}

static bool
parse(struct cmdline *cl, struct request *r, const char *words)
{
	char word[WORD_MAX];
	bool where = false;

	while (table_word(&words, word, sizeof(word))) {
		if (strpbrk(word, "=<>") != NULL) {
			if (!parse_condition(r, word))
				return usage(cl, r->n, "'%s' is not KEY=VALUE, or KEY<NUMBER",
				             word);
		} else if (strcmp(word, "where") == 0) {
			where = true;
		} else if (strcmp(word, "detail") == 0) {
			r->detail = true;
		} else if (strcmp(word, "json") == 0) {
			r->json = true;
		} else if (strcmp(word, "rates") == 0) {
			r->rates = true;
		} else if (r->object[0] == '\0') {
			snprintf(r->object, sizeof(r->object), "%s", word);
		} else {
			return usage(cl, r->n, "'%s' was not expected", word);
		}
	}
	if (where && r->nconditions == 0)
		return usage(cl, r->n, "%s what?", "where");
	if (r->rates && r->n->counters == NULL)
		return usage(cl, r->n, "it has no counters, so no %s", "rates");
	return true;
}

/* ---- Objects ---- */

static const char *
plain(const json_t *v, char buf[WORD_MAX])
{
	if (json_is_integer(v))
		snprintf(buf, WORD_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else
		snprintf(buf, WORD_MAX, "%s", json_is_string(v) ? json_string_value(v) : "");
	return buf;
}

/** The name of an object by all keys of the noun's ident. */
static const char *
key_of(const struct show_noun *n, const json_t *row, char *buf, size_t size)
{
	const char *list = n->ident != NULL ? n->ident : "";
	char word[64], text[WORD_MAX];
	size_t at = 0;

	buf[0] = '\0';
	while (at < size && table_word(&list, word, sizeof(word)))
		at += (size_t)snprintf(buf + at, size - at, "%s ",
		                       plain(json_object_get(row, word), text));
	return buf;
}

static bool
is_place(const char *key)
{
	return strcmp(key, "worker") == 0 || strcmp(key, "context") == 0 ||
	       strcmp(key, "interface") == 0;
}

/**
 * Whether a key by which people name objects has this value: the last one of ident, or one that is
 * no place; or "W/N", the first and the last.
 */
static bool
is_object(const struct show_noun *n, const json_t *row, const char *name)
{
	const char *list = n->ident != NULL ? n->ident : "";
	char word[64], first[WORD_MAX] = "", text[WORD_MAX] = "", pair[2 * WORD_MAX + 2];
	bool match = false, last = false;

	while (table_word(&list, word, sizeof(word))) {
		plain(json_object_get(row, word), text);
		last = strcmp(text, name) == 0;
		match = match || (!is_place(word) && last);
		if (first[0] == '\0')
			snprintf(first, sizeof(first), "%s", text);
	}
	snprintf(pair, sizeof(pair), "%s/%s", first, text);
	return match || last || strcmp(pair, name) == 0;
}

static bool
holds(const struct condition *c, const json_t *row)
{
	const json_t *v = table_value(row, c->key);
	char text[WORD_MAX];
	double x, y;

	if (c->op == '=' || c->op == '!')
		return (fnmatch(c->value, plain(v, text), FNM_CASEFOLD) == 0) == (c->op == '=');
	x = json_number_value(v);
	y = strtod(c->value, NULL);
	return c->op == '<' ? x < y : x > y;
}

/** Whether at least one object has the key of each condition. */
static bool
keys_known(struct cmdline *cl, const struct request *r, const json_t *rows)
{
	for (unsigned int i = 0; i < r->nconditions; i++) {
		bool known = json_array_size(rows) == 0;
		json_t *row;
		size_t k;

		json_array_foreach(rows, k, row) known =
		        known || table_value(row, r->where[i].key) != NULL;
		if (!known)
			return usage(cl, r->n, "there is no key '%s' (json shows them)",
			             r->where[i].key);
	}
	return true;
}

/** The objects that were asked for; the caller owns the array. NULL after a message. */
static json_t *
choose(struct cmdline *cl, const struct request *r, const json_t *rows)
{
	json_t *out, *row;
	size_t i;

	if (!keys_known(cl, r, rows))
		return NULL;
	out = json_array();
	json_array_foreach(rows, i, row)
	{
		bool wanted = r->object[0] == '\0' || is_object(r->n, row, r->object);

		for (unsigned int k = 0; k < r->nconditions && wanted; k++)
			wanted = holds(&r->where[k], row);
		if (wanted)
			json_array_append(out, row);
	}
	if (r->object[0] == '\0' || json_array_size(out) > 0 || r->nconditions > 0)
		return out;
	json_decref(out);
	usage(cl, r->n, "there is no '%s'", r->object);
	return NULL;
}

/* ---- Counters ---- */

/** The objects as they are now. NULL: err says why. */
static json_t *
fetch_quietly(const struct show_noun *n, char err[TEL_ERR_MAX])
{
	json_t *rows;

	if (show_tel.fd < 0 && !con.attached && attach_self(&show_tel) != 0) {
		snprintf(err, TEL_ERR_MAX, "this process has no telemetry");
		return NULL;
	}
	rows = json_array();
	if (n->fetch(&show_tel, n, rows, err) == 0) {
		if (!con.attached)
			show_own_numbers(n, rows);
		return rows;
	}
	json_decref(rows);
	return NULL;
}

/** The same; NULL after a message. */
static json_t *
fetch(struct cmdline *cl, const struct show_noun *n)
{
	char err[TEL_ERR_MAX] = "";
	json_t *rows = fetch_quietly(n, err);

	if (rows == NULL)
		console_fail(cl, "%s: %s", n->name, err);
	if (rows == NULL && show_tel.lost && con.attached)
		con.quit = con.lost = true;
	return rows;
}

/** The objects by name, to be compared with later ones. */
static json_t *
by_name(const struct show_noun *n, const json_t *rows)
{
	json_t *all = json_object(), *row;
	char key[4 * WORD_MAX];
	size_t i;

	json_array_foreach(rows, i, row)
	        json_object_set_new(all, key_of(n, row, key, sizeof(key)), json_deep_copy(row));
	return all;
}

static void
remember(json_t **place, json_t *rows)
{
	json_decref(*place);
	*place = rows;
}

/** Subtract the counters of `zero`. A counter that is smaller now began anew. */
static void
subtract(const struct show_noun *n, json_t *rows, const json_t *zero)
{
	char name[4 * WORD_MAX];
	json_t *row, *v;
	const char *key;
	size_t i;

	if (zero == NULL)
		return;
	json_array_foreach(rows, i, row)
	{
		const json_t *old = json_object_get(zero, key_of(n, row, name, sizeof(name)));

		json_object_foreach(row, key, v)
		{
			const json_int_t was = json_integer_value(json_object_get(old, key));

			if (show_noun_grows(n, key, v) && json_is_integer(v) &&
			    json_integer_value(v) >= was)
				json_integer_set(v, json_integer_value(v) - was);
		}
	}
}

/** What the counters grew by a second since `old`: objects with KEY_per_s. */
static json_t *
per_second(const struct show_noun *n, const json_t *rows, const json_t *old, double seconds)
{
	json_t *out = json_array(), *row, *v;
	char name[4 * WORD_MAX], rate[WORD_MAX];
	const char *key;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const json_t *was = json_object_get(old, key_of(n, row, name, sizeof(name)));
		json_t *o = json_object();

		json_object_foreach(row, key, v)
		{
			const json_int_t before = json_integer_value(json_object_get(was, key));
			json_int_t now = json_integer_value(v);

			if (!show_noun_grows(n, key, v)) {
				json_object_set(o, key, v);
				continue;
			}
			now -= now >= before ? before : 0;
			snprintf(rate, sizeof(rate), "%s_per_s", key);
			json_object_set_new(o, rate, json_real((double)now / seconds));
		}
		json_object_set_new(o, "seconds", json_real(seconds));
		json_array_append_new(out, o);
	}
	return out;
}

static bool
never(void *arg)
{
	(void)arg;
	return false;
}

/** The rates since the last time; the first time, of one second. NULL after a message. */
static json_t *
fetch_rates(struct cmdline *cl, const struct show_noun *n)
{
	struct memory *m = &memory[show_noun_index(n)];
	json_t *rows, *out;
	uint64_t now_ns;

	if (m->last == NULL) {
		rows = fetch(cl, n);
		if (rows == NULL)
			return NULL;
		m->last_ns = ui_now_ns();
		remember(&m->last, by_name(n, rows));
		json_decref(rows);
		console_wait(cl, RATE_FIRST_MS, never, NULL);
	}
	rows = fetch(cl, n);
	if (rows == NULL)
		return NULL;
	now_ns = ui_now_ns();
	out = per_second(n, rows, m->last, (double)(now_ns - m->last_ns) / 1e9);
	m->last_ns = now_ns;
	remember(&m->last, by_name(n, rows));
	json_decref(rows);
	return out;
}

/* ---- Printing ---- */

/** Append the columns of rates: counters of the noun's `rates` have _per_s behind them. */
static void
rate_columns(const struct show_noun *n, const json_t *row, char *buf, size_t size)
{
	const char *list = n->rates;
	char word[64], rate[80];
	size_t at = 0;

	buf[0] = '\0';
	while (at < size && table_word(&list, word, sizeof(word))) {
		snprintf(rate, sizeof(rate), "%s_per_s", word);
		at += (size_t)snprintf(buf + at, size - at, "%s ",
		                       json_object_get(row, rate) != NULL ? rate : word);
	}
}

/** Leave out the counters, or with `rates` the rates, that are zero. */
static void
drop_zeros(const struct show_noun *n, json_t *rows, bool rates)
{
	json_t *row, *v;
	const char *key;
	void *tmp;
	size_t i;

	json_array_foreach(rows, i, row) json_object_foreach_safe(
	        row, tmp, key, v) if (json_number_value(v) == 0 && json_is_number(v) &&
	                              (rates ? json_is_real(v) : show_noun_grows(n, key, v)))
	        json_object_del(row, key);
}

static void
print(struct cmdline *cl, const struct request *r, json_t *rows)
{
	const bool blocks = r->detail || r->object[0] != '\0';
	char columns[512];

	if (r->json) {
		show_print_json(cl, rows);
		return;
	}
	if (json_array_size(rows) == 0) {
		cmdline_printf(cl, "no %s%s\n", r->n->name, r->nconditions > 0 ? " like that" : "");
		return;
	}
	if (r->rates && r->n->rates != NULL && !blocks) {
		rate_columns(r->n, json_array_get(rows, 0), columns, sizeof(columns));
		table_print(cl, rows, columns, false);
		return;
	}
	if (!blocks && (r->rates || r->n->columns == NULL))
		drop_zeros(r->n, rows, r->rates);
	if (!r->rates && strcmp(r->n->name, "polls") == 0)
		show_print_polls(cl, rows);
	else
		table_print(cl, rows, blocks || r->rates ? NULL : r->n->columns, blocks);
}

bool
show_run(struct cmdline *cl, const char *noun, const char *words)
{
	struct request r = {.n = show_noun_find(noun)};
	json_t *rows, *chosen;

	if (r.n == NULL) {
		console_fail(cl, "show: there is no '%s'; 'show nouns' lists what there is", noun);
		return false;
	}
	if (!parse(cl, &r, words))
		return false;
	rows = r.rates ? fetch_rates(cl, r.n) : fetch(cl, r.n);
	if (rows == NULL)
		return false;
	if (!r.rates)
		subtract(r.n, rows, memory[show_noun_index(r.n)].zero);
	chosen = choose(cl, &r, rows);
	if (chosen != NULL)
		print(cl, &r, chosen);
	json_decref(rows);
	json_decref(chosen);
	return chosen != NULL;
}

bool
show_clear(struct cmdline *cl, const char *noun)
{
	const struct show_noun *only = noun != NULL ? show_noun_find(noun) : NULL;

	if (noun != NULL && (only == NULL || only->counters == NULL)) {
		console_fail(cl, "clear: '%s' has no counters; usage: clear [NOUN]", noun);
		return false;
	}
	for (const struct show_noun *n = show_nouns; n->name != NULL; n++) {
		char err[TEL_ERR_MAX];
		json_t *rows;

		if (n->counters == NULL || (only != NULL && n != only))
			continue;
		/* Not every program has all nouns: exports are a target's. */
		rows = only == NULL && !show_tel.lost ? fetch_quietly(n, err) : fetch(cl, n);
		if (rows == NULL && only == NULL && !show_tel.lost)
			continue;
		if (rows == NULL)
			return false;
		remember(&memory[show_noun_index(n)].zero, by_name(n, rows));
		json_decref(rows);
	}
	/* The program ended meanwhile: this says so. */
	return !show_tel.lost || show_run(cl, "workers", "");
}

bool
show_keys(const char *noun, char *buf, size_t size)
{
	const struct show_noun *n = show_noun_find(noun);
	char err[TEL_ERR_MAX];
	json_t *rows = n != NULL ? fetch_quietly(n, err) : NULL, *seen, *row, *v;
	const char *key;
	size_t at = 0, i;

	buf[0] = '\0';
	if (rows == NULL)
		return false;
	seen = json_object();
	json_array_foreach(rows, i, row) json_object_update_missing(seen, row);
	json_object_foreach(seen, key, v) if (at + strlen(key) + 3 < size) at +=
	        (size_t)snprintf(buf + at, size - at, "%s= ", key);
	json_decref(seen);
	json_decref(rows);
	return at > 0;
}

void
show_list(struct cmdline *cl)
{
	for (const struct show_noun *n = show_nouns; n->name != NULL; n++)
		cmdline_printf(cl, "  %-12s  %s\n", n->name, n->help);
}
