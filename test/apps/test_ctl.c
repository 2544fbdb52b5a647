/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Requests of the control socket: what is taken, what is refused and how, and the page. */

#include <stdlib.h>
#include <string.h>

#include "ctl_request.h"
#include "weft_test.h"

/** The code of the first fault of a line; CTL_OK: a request. */
static enum ctl_code
code_of(const char *text, size_t len, struct ctl_request *r)
{
	struct ctl_fault f = {0};
	json_t *v = ctl_parse(text, len, &f);

	*r = (struct ctl_request){0};
	if (v == NULL)
		return f.code;
	(void)ctl_request(json_is_array(v) ? json_array_get(v, 0) : v, r, &f);
	json_decref(v);
	/* Each fault says why in one line. */
	CHECK((f.code == CTL_OK) == (f.text[0] == '\0') && strchr(f.text, '\n') == NULL);
	return f.code;
}

#define HEAD "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":"

static void
test_faults(void)
{
	static const struct {
		const char *text;
		enum ctl_code code;
	} t[] = {
	        {HEAD "\"status\"}", CTL_OK},
	        {HEAD "\"status\",\"params\":{}}", CTL_OK},
	        {HEAD "\"status\",\"params\":[]}", CTL_OK},
	        {HEAD "\"exports\",\"params\":{\"name\":\"x\"}}", CTL_OK},
	        {HEAD "\"exports\",\"params\":[\"x\"]}", CTL_OK},
	        {HEAD "\"drain\",\"params\":[\"x\",5]}", CTL_OK},
	        {"{\"jsonrpc\":\"2.0\",\"method\":\"status\"}", CTL_OK},
	        {"", CTL_BAD_JSON},
	        {"{", CTL_BAD_JSON},
	        {"{} {}", CTL_BAD_JSON},
	        {"{\"id\":1,\"id\":2}", CTL_BAD_JSON},
	        {"\"\xff\"", CTL_BAD_JSON},
	        {"[]", CTL_BAD_REQUEST},
	        {"1", CTL_BAD_REQUEST},
	        {"[1]", CTL_BAD_REQUEST},
	        {"{}", CTL_BAD_REQUEST},
	        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"status\"}", CTL_BAD_REQUEST},
	        {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"status\"}", CTL_BAD_REQUEST},
	        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", CTL_BAD_REQUEST},
	        {HEAD "\"nix\"}", CTL_NO_METHOD},
	        {HEAD "\"status\",\"params\":3}", CTL_BAD_PARAMS},
	        {HEAD "\"status\",\"params\":{\"name\":\"x\"}}", CTL_BAD_PARAMS},
	        {HEAD "\"status\",\"params\":[1]}", CTL_BAD_PARAMS},
	        {HEAD "\"exports\",\"params\":{\"name\":1}}", CTL_BAD_PARAMS},
	        {HEAD "\"offline\"}", CTL_BAD_PARAMS},
	        {HEAD "\"drain\",\"params\":{\"name\":\"x\",\"timeout_ms\":-1}}", CTL_BAD_PARAMS},
	        {HEAD "\"drain\",\"params\":{\"name\":\"x\",\"timeout_ms\":1.5}}", CTL_BAD_PARAMS},
	};
	struct ctl_request r;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		enum ctl_code code = code_of(t[i].text, strlen(t[i].text), &r);

		CHECK_MSG(code == t[i].code, "%s: %d, not %d", t[i].text, code, t[i].code);
		if (code == CTL_OK)
			CHECK(r.method != NULL && json_is_object(r.params));
		ctl_request_free(&r);
	}
}

/* Every beginning of a request is no request, and an octet 0 inside ends nothing. */
static void
test_cut(void)
{
	static const char text[] = HEAD "\"exports\",\"params\":{\"name\":\"x\"}}";
	char zero[sizeof(text)];
	struct ctl_request r;

	for (size_t len = 0; len < sizeof(text) - 1; len++) {
		CHECK_EQ(code_of(text, len, &r), CTL_BAD_JSON);
		ctl_request_free(&r);
	}
	for (size_t at = 0; at < sizeof(text) - 1; at++) {
		memcpy(zero, text, sizeof(text));
		zero[at] = '\0';
		CHECK_EQ(code_of(zero, sizeof(text) - 1, &r), CTL_BAD_JSON);
		ctl_request_free(&r);
	}
}

/* The deepest nesting does not use up the stack; a long batch is refused. */
static void
test_large(void)
{
	char *text = malloc(CTL_LINE_MAX);
	struct ctl_request r;
	size_t n = 0;

	memset(text, '[', CTL_LINE_MAX);
	CHECK_EQ(code_of(text, CTL_LINE_MAX, &r), CTL_BAD_JSON);
	ctl_request_free(&r);
	n += (size_t)sprintf(text, "[1");
	for (unsigned int i = 1; i <= CTL_BATCH_MAX; i++)
		n += (size_t)sprintf(text + n, ",1");
	n += (size_t)sprintf(text + n, "]");
	CHECK_EQ(code_of(text, n, &r), CTL_BAD_REQUEST);
	ctl_request_free(&r);
	free(text);
}

/* A notification has no id; a broken request gets null, or the id that it has. */
static void
test_ids(void)
{
	struct ctl_request r;

	CHECK_EQ(code_of("{\"jsonrpc\":\"2.0\",\"method\":\"status\"}", 35, &r), CTL_OK);
	CHECK(r.id == NULL);
	ctl_request_free(&r);
	CHECK_EQ(code_of("{\"id\":\"a\"}", 10, &r), CTL_BAD_REQUEST);
	CHECK_STR(json_string_value(r.id), "a");
	ctl_request_free(&r);
	CHECK_EQ(code_of("{}", 2, &r), CTL_BAD_REQUEST);
	CHECK(json_is_null(r.id));
	ctl_request_free(&r);
}

/* A fault whose text is no UTF-8 is an answer all the same. */
static void
test_answers(void)
{
	struct ctl_fault f;
	json_t *id = json_integer(7), *a;
	size_t len;
	char *text;

	ctl_fail(&f, CTL_NOT_FOUND, "no \xff");
	a = ctl_answer_fault(id, &f);
	text = ctl_text(a, &len);
	CHECK_STR(text,
	          "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32002,\"message\":\"no ?\","
	          "\"data\":{\"name\":\"not_found\"}}}\n");
	CHECK_EQ(len, strlen(text));
	free(text);
	json_decref(a);
	json_decref(id);
}

/* The table has what its readers rely on. */
static void
test_table(void)
{
	for (unsigned int i = 0; i < ctl_nmethods; i++) {
		const struct ctl_method *m = &ctl_methods[i];

		CHECK(ctl_method_find(m->name) == m);
		CHECK(m->limit_ms >= 1000 && m->nrows <= 40);
		CHECK(m->nfields > 0 || m->rows_name != NULL);
		for (unsigned int k = 0; k < m->nrows; k++) {
			const char *n = m->rows[k].name, *end = strstr(n, "_bytes");

			/* weft-ctl leaves the unit out. */
			CHECK(m->rows[k].type != CTL_BYTES || (end != NULL && end[6] == '\0'));
		}
		/* A rate has a rate's type. */
		for (unsigned int k = 0; k < m->nrows; k++) {
			const char *n = m->rows[k].name, *end = strstr(n, "_per_s");
			const enum ctl_type type = m->rows[k].type;

			CHECK((type == CTL_BYTES_PER_S || type == CTL_PER_S) ==
			      (end != NULL && end[6] == '\0'));
		}
		/* Words of the command line are unambiguous. */
		for (unsigned int k = 1; k < m->nparams; k++)
			CHECK(m->params[k - 1].given != CTL_PAIRS &&
			      (m->params[k].given != CTL_WORD || !m->params[k].required ||
			       m->params[k - 1].required));
	}
	CHECK_EQ(ctl_error_find(1)->code, CTL_FAILED);
}

static void
test_page(void)
{
	char *want = NULL, *have = calloc(1, 1 << 17);
	size_t want_len = 0, n;
	FILE *out = open_memstream(&want, &want_len), *doc = fopen(DOCS_DIR "/control.md", "r");

	CHECK(out != NULL && doc != NULL && have != NULL);
	ctl_print_reference(out);
	fclose(out);
	n = fread(have, 1, (1 << 17) - 1, doc);
	fclose(doc);
	CHECK_MSG(n > want_len && strcmp(have + n - want_len, want) == 0,
	          "docs/control.md does not end with the output of weft-ctl --reference");
	free(have);
	free(want);
}

WEFT_TEST_MAIN({"faults of requests", test_faults}, {"requests that are cut", test_cut},
               {"requests that are large", test_large}, {"ids", test_ids},
               {"answers", test_answers}, {"the table of methods", test_table},
               {"the page has the table", test_page})
