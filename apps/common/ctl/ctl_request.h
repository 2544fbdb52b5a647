/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CTL_REQUEST_H
#define WEFT_APPS_CTL_REQUEST_H

/**
 * @file JSON-RPC 2.0 as text: a line is a request, or an array of requests (a batch), and so is an
 * answer. No I/O; any thread. What the other side sends is data: nothing here asserts.
 */

#include "ctl_api.h"

#define CTL_BATCH_MAX 32U /**< requests of one batch */

/** One request, checked. */
struct ctl_request {
	const struct ctl_method *method;
	json_t *params; /**< an object; owned */
	json_t *id;     /**< owned; NULL: a notification, which is not answered */
};

/**
 * Parse a line of `len` octets, without its newline. An array (of a batch) or one value; the
 * caller owns it. NULL: f says why.
 */
json_t *ctl_parse(const char *text, size_t len, struct ctl_fault *f);
/**
 * Check one request of what ctl_parse() gave, and fill in *r. False: f says why; *r has the id
 * that the answer needs, which is JSON's null unless it was readable.
 */
bool ctl_request(const json_t *value, struct ctl_request *r, struct ctl_fault *f);
/** Release what the request owns. */
void ctl_request_free(struct ctl_request *r);

/** An answer as an object. Takes `result` and references `id`. NULL: no memory. */
json_t *ctl_answer(json_t *id, json_t *result);
json_t *ctl_answer_fault(json_t *id, const struct ctl_fault *f);
/** The text of an answer, with a newline; the caller frees it. NULL: no memory. */
char *ctl_text(const json_t *answer, size_t *len);

#endif /* WEFT_APPS_CTL_REQUEST_H */
