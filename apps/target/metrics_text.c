/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A text in the exposition format of Prometheus, version 0.0.4. */

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "metrics_read.h"

#define TEXT_FIRST (64U << 10)
#define TEXT_MAX   (64U << 20) /**< no text of ours is longer */

bool
metrics_text_room(struct metrics_text *tx, size_t n)
{
	size_t cap = tx->cap != 0 ? tx->cap : TEXT_FIRST;
	char *buf;

	if (tx->failed)
		return false;
	if (tx->cap - tx->len >= n)
		return true;
	while (cap - tx->len < n && cap < TEXT_MAX)
		cap *= 2;
	buf = cap - tx->len >= n ? realloc(tx->buf, cap) : NULL;
	if (buf == NULL) {
		tx->failed = true;
		return false;
	}
	tx->buf = buf;
	tx->cap = cap;
	return true;
}

static void
text_put(struct metrics_text *tx, const char *s, size_t n)
{
	if (metrics_text_room(tx, n)) {
		memcpy(tx->buf + tx->len, s, n);
		tx->len += n;
	}
}

void
metrics_text_append(struct metrics_text *tx, const struct metrics_text *other)
{
	if (other->failed)
		tx->failed = true;
	else if (other->len > 0)
		text_put(tx, other->buf, other->len);
}

static void
text_str(struct metrics_text *tx, const char *s)
{
	text_put(tx, s, strlen(s));
}

/** A number with at least `digits` digits. */
static void
text_number(struct metrics_text *tx, uint64_t v, unsigned int digits)
{
	char buf[24], *p = buf + sizeof(buf);

	while (v > 0 || digits > 0) {
		*--p = (char)('0' + v % 10);
		v /= 10;
		digits -= digits > 0;
	}
	text_put(tx, p, (size_t)(buf + sizeof(buf) - p));
}

static void
text_seconds(struct metrics_text *tx, uint64_t ns)
{
	text_number(tx, ns / 1000000000, 1);
	text_put(tx, ".", 1);
	text_number(tx, ns % 1000000000, 9);
}

void
metrics_text_family(struct metrics_text *tx, enum metrics_family f)
{
	static const char *const type[] = {
	        [METRICS_GAUGE] = " gauge\n",
	        [METRICS_COUNTER] = " counter\n",
	        [METRICS_HISTOGRAM] = " histogram\n",
	};
	const struct metrics_family_row *row = &metrics_families[f];

	tx->now = f;
	text_str(tx, "# HELP ");
	text_str(tx, row->name);
	text_str(tx, " ");
	text_str(tx, row->help); /* the table has no octet that is escaped in a HELP line */
	text_str(tx, "\n# TYPE ");
	text_str(tx, row->name);
	text_str(tx, type[row->type]);
}

/** NAME SUFFIX { labels, le } and a blank. */
static void
text_name(struct metrics_text *tx, const char *suffix, const char *labels, const char *le)
{
	text_str(tx, metrics_families[tx->now].name);
	text_str(tx, suffix);
	if (labels[0] != '\0' || le != NULL) {
		text_put(tx, "{", 1);
		text_str(tx, labels);
		if (le != NULL) {
			text_str(tx, labels[0] != '\0' ? ",le=\"" : "le=\"");
			text_str(tx, le);
			text_put(tx, "\"", 1);
		}
		text_put(tx, "}", 1);
	}
	text_put(tx, " ", 1);
}

void
metrics_text_u64(struct metrics_text *tx, const char *labels, uint64_t value)
{
	text_name(tx, "", labels, NULL);
	text_number(tx, value, 1);
	text_put(tx, "\n", 1);
}

void
metrics_text_ns(struct metrics_text *tx, const char *labels, uint64_t ns)
{
	text_name(tx, "", labels, NULL);
	text_seconds(tx, ns);
	text_put(tx, "\n", 1);
}

void
metrics_text_hist(struct metrics_text *tx, const char *labels, const uint64_t n[METRICS_BUCKETS],
                  uint64_t sum_ns, unsigned int step)
{
	/* 2^i us in seconds */
	static const char *const le[METRICS_BUCKETS] = {
	        "1e-06",    "2e-06",    "4e-06",    "8e-06",    "1.6e-05",  "3.2e-05",  "6.4e-05",
	        "0.000128", "0.000256", "0.000512", "0.001024", "0.002048", "0.004096", "0.008192",
	        "0.016384", "0.032768", "0.065536", "0.131072", "0.262144", "0.524288", "1.048576",
	        "2.097152", "4.194304", "8.388608", "+Inf"};
	uint64_t below = 0;

	for (unsigned int i = 0; i < METRICS_BUCKETS; i++) {
		below += n[i];
		if (i % step != 0 && i + 1 < METRICS_BUCKETS)
			continue;
		text_name(tx, "_bucket", labels, le[i]);
		text_number(tx, below, 1);
		text_put(tx, "\n", 1);
	}
	text_name(tx, "_sum", labels, NULL);
	text_seconds(tx, sum_ns);
	text_str(tx, "\n");
	text_name(tx, "_count", labels, NULL);
	text_number(tx, below, 1);
	text_str(tx, "\n");
}

/** Octets of the UTF-8 character at s, which ends with 0 (RFC 3629); 0: it is none. */
static unsigned int
utf8_len(const unsigned char *s)
{
	const unsigned int n = s[0] < 0x80                    ? 1
	                       : s[0] >= 0xc2 && s[0] <= 0xdf ? 2
	                       : s[0] >= 0xe0 && s[0] <= 0xef ? 3
	                       : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
	                                                      : 0;

	for (unsigned int i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* overlong, surrogates, beyond U+10FFFF */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

/** Append a value as a label has it; room for at least one escape and a quote is left. Returns the
 * new end. */
static char *
label_value(char *p, const char *end, const char *s)
{
	while (*s != '\0' && end - p > 6) {
		const unsigned int n = utf8_len((const unsigned char *)s);

		if (*s == '\n' || *s == '"' || *s == '\\') {
			*p++ = '\\';
			*p++ = *s == '\n' ? 'n' : *s;
			s++;
		} else if (n == 0 || (n == 1 && (unsigned char)*s < 0x20)) {
			*p++ = '?';
			s++;
		} else {
			memcpy(p, s, n);
			p += n;
			s += n;
		}
	}
	return p;
}

const char *
metrics_labels(char buf[METRICS_LABELS_MAX], ...)
{
	const char *const end = buf + METRICS_LABELS_MAX;
	const char *name;
	char *p = buf;
	va_list ap;

	va_start(ap, buf);
	while ((name = va_arg(ap, const char *)) != NULL) {
		const char *value = va_arg(ap, const char *);

		if ((size_t)(end - p) < strlen(name) + 12)
			break;
		if (p > buf)
			*p++ = ',';
		p = stpcpy(p, name);
		p = stpcpy(p, "=\"");
		p = label_value(p, end, value);
		*p++ = '"';
	}
	va_end(ap);
	*p = '\0';
	return buf;
}
