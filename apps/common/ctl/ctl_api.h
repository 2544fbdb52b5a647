/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CTL_API_H
#define WEFT_APPS_CTL_API_H

/**
 * @file The methods of weft-target's control socket as one table: names, parameters, results,
 * errors. The server checks requests by it, weft-ctl makes its commands, its help and its tables
 * from it, and docs/control.md holds what ctl_print_reference() prints.
 *
 * To add a method: a row in ctl_table.c; its handler in apps/target/target_control_methods.c. A
 * test compares the rows of an answer with the table.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#define CTL_SOCKET     "/run/weft/control.sock" /**< where the socket is by default */
#define CTL_LINE_MAX   (4U << 20)               /**< octets of a request, with its newline */
#define CTL_ANSWER_MAX (16U << 20)              /**< octets of an answer */
#define CTL_TEXT_MAX   512                      /**< a line for people */

/** What a parameter or a field of a result is. */
enum ctl_type {
	CTL_STR,
	CTL_COUNT,       /**< a number that is none of those below */
	CTL_BYTES,       /**< octets */
	CTL_MS,          /**< milliseconds */
	CTL_S,           /**< seconds */
	CTL_BYTES_PER_S, /**< result: octets in a second, or null */
	CTL_PER_S,       /**< result: a number in a second, or null */
	CTL_BOOL,
	CTL_TEXT,  /**< result: a text of several lines, which weft-ctl prints as it is */
	CTL_NAMES, /**< an array of texts */
	CTL_SIZE,  /**< parameter: octets as a number, or a text as "16M" */
	CTL_KEYS,  /**< parameter: an object of texts, the keys of [export NAME] */
};

/** How the command line of weft-ctl gives a parameter. */
enum ctl_given {
	CTL_WORD,   /**< the next word */
	CTL_OPTION, /**< --NAME VALUE */
	CTL_PAIRS,  /**< all words that are left, KEY=VALUE */
	CTL_FILE,   /**< the next word names a file, or is "-"; its content is given */
};

struct ctl_param {
	const char *name;
	enum ctl_type type;
	enum ctl_given given;
	bool required;
	const char *help; /**< Markdown */
};

/** A field of a result. */
struct ctl_field {
	const char *name;
	enum ctl_type type;
	bool wide; /**< weft-ctl shows it with --wide or as JSON alone */
	const char *help;
	bool grows; /**< it counts since a start: `weft-ctl watch` shows its rate */
};

struct ctl_method {
	const char *name;    /**< in a request: "export.create" */
	const char *command; /**< of weft-ctl: "export create" */
	const char *help;    /**< one sentence and more, Markdown */
	bool changes;        /**< it changes something, and is logged */
	const char *saves;   /**< field in base64 that weft-ctl writes into a new file; or NULL */
	uint32_t limit_ms;   /**< the server answers within this time */
	const struct ctl_param *params;
	unsigned int nparams;
	const struct ctl_field *fields; /**< of the result itself */
	unsigned int nfields;
	const char *rows_name; /**< the member of the result that is an array of objects; or NULL */
	const struct ctl_field *rows;
	unsigned int nrows;
};

extern const struct ctl_method ctl_methods[];
extern const unsigned int ctl_nmethods;

/** Why a request failed; `code` of JSON-RPC's error object. */
enum ctl_code {
	CTL_OK = 0,
	CTL_BAD_JSON = -32700,
	CTL_BAD_REQUEST = -32600,
	CTL_NO_METHOD = -32601,
	CTL_BAD_PARAMS = -32602,
	CTL_INTERNAL = -32603,
	CTL_FAILED = -32000,
	CTL_DENIED = -32001,
	CTL_NOT_FOUND = -32002,
	CTL_BUSY = -32003,
	CTL_EXISTS = -32004,
	CTL_LATE = -32005,
	CTL_FULL = -32006,
	CTL_TOO_LONG = -32007,
};

struct ctl_error {
	enum ctl_code code;
	const char *name; /**< `data.name` of the error object */
	int exit;         /**< exit status of weft-ctl */
	const char *help;
};

extern const struct ctl_error ctl_errors[];
extern const unsigned int ctl_nerrors;

/* Exit statuses of weft-ctl that no error of the target has. */
#define CTL_EXIT_OK          0
#define CTL_EXIT_FAILED      1
#define CTL_EXIT_USAGE       2
#define CTL_EXIT_UNREACHABLE 3
#define CTL_EXIT_DIFFERS     10 /**< the result's field `differs` is true */

/** A failure, as it is answered. */
struct ctl_fault {
	enum ctl_code code;
	char text[CTL_TEXT_MAX]; /**< one line: what, where, what to do */
};

/** Fill in a failure. Returns false. */
bool ctl_fail(struct ctl_fault *f, enum ctl_code code, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/** NULL: there is no such method. */
const struct ctl_method *ctl_method_find(const char *name);
/** The row of a code; that of CTL_FAILED for an unknown one. */
const struct ctl_error *ctl_error_find(int code);

/**
 * Check the parameters of a request against the table: their names, their types, and that none is
 * missing. *params is an object; an array is replaced by the object that it stands for. False: f
 * says why.
 */
bool ctl_check(const struct ctl_method *m, json_t **params, struct ctl_fault *f);

/* ---- ctl_page.c ---- */

/** The words behind the method's command, as "NAME [--timeout_ms N]". Returns buf. */
const char *ctl_usage(const struct ctl_method *m, char *buf, size_t size);
/** The type as a reader of the page sees it. */
const char *ctl_type_str(enum ctl_type type);
/** Print the reference in Markdown; docs/control.md holds exactly this text behind its marker. */
void ctl_print_reference(FILE *out);

#endif /* WEFT_APPS_CTL_API_H */
