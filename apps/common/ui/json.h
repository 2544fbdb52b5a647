/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_JSON_H
#define WEFT_APPS_JSON_H

/** @file A JSON writer. It sets commas, nesting and escapes itself, and indents. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	unsigned int depth;
	uint64_t more; /**< bit d: an element was written at depth d */
};

/** Octets of the well-formed UTF-8 sequence at s (RFC 3629 s4), 0 when there is none. */
unsigned int json_utf8_len(const unsigned char *s);

#define JSON_ESCAPED 6 /* octets, at most */

/**
 * The first character of v, not the end, as it stands in a JSON string: an octet that is not UTF-8
 * is U+FFFD. Returns the octets of v that it is.
 */
unsigned int json_escape(const char *v, char out[JSON_ESCAPED + 1]);

/** In all calls key is NULL inside an array and at the top. */
void json_start(struct json *j, FILE *out);
void json_obj(struct json *j, const char *key);
void json_obj_end(struct json *j);
void json_arr(struct json *j, const char *key);
void json_arr_end(struct json *j);
/** Octets that are not UTF-8 become U+FFFD; NULL becomes null. */
void json_str(struct json *j, const char *key, const char *v);
void json_u64(struct json *j, const char *key, uint64_t v);
void json_i64(struct json *j, const char *key, int64_t v);
/** A number that is not finite becomes null. */
void json_dbl(struct json *j, const char *key, double v, int decimals);
void json_bool(struct json *j, const char *key, bool v);
/** Write the final newline. */
void json_finish(struct json *j);

#endif /* WEFT_APPS_JSON_H */
