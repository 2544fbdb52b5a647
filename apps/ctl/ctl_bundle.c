/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-ctl support-bundle: what the search for a fault needs, in one file. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "ui.h"

#define FOLDER   "weft-support/"
#define RATES_MS 200 /* for so long rates are measured */

static const char readme[] =
        "A support bundle of weft-target, written by weft-ctl support-bundle.\n"
        "\n"
        "versions.txt        weft-target, weft-ctl, DPDK, kernel\n"
        "configuration.ini   the configuration's file, without comments and without the values\n"
        "                    of keys whose name has key, secret, passw or token in it\n"
        "exports.ini         likewise, the exports that were made at run time\n"
        "log.txt             the last 512 lines of weft-target's log; those of the library and\n"
        "                    of DPDK are in the system's log alone\n"
        "*.json              what weft-ctl shows: status, exports, clients, connections, limits,\n"
        "                    slow operations, counters of ports and workers\n"
        "slow-N.pcapng       packets of a slow operation, with what clients wrote and read: those\n"
        "                    that were kept because a capture ran (weft-ctl capture start)\n"
        "*.error             why a call failed, whose content is missing\n"
        "\n"
        "No key of a client or of a hash is in it. It has names and addresses of clients, paths\n"
        "and names of exports. Lines of the log, and reasons why an export is not served, may\n"
        "name files of keys. Look at it before you give it away.\n";

struct bundle {
	struct ctl_tar tar;
	time_t at_s;
	json_t *names;
	unsigned int failed; /* calls */
	char errors[256];    /* their files, for people */
	bool packets;        /* it has packets */
};

static void
add(struct bundle *b, const char *name, const char *text, size_t len)
{
	char path[96];

	snprintf(path, sizeof(path), FOLDER "%s", name);
	ctl_tar_add(&b->tar, path, text, len, b->at_s);
	(void)json_array_append_new(b->names, json_string(path));
}

/** Add a text of a result. */
static void
add_text(struct bundle *b, const char *name, const json_t *result, const char *field)
{
	const json_t *v = json_object_get(result, field);

	if (json_is_string(v))
		add(b, name, json_string_value(v), json_string_length(v));
}

/** Add the packets of slow operations that are kept; not those that are forgotten meanwhile. */
static void
add_packets(struct bundle *b, int fd, const json_t *slow)
{
	const struct ctl_method *m = ctl_method_find("slow.packets");
	json_t *rows = json_object_get(slow, "slow"), *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *number = json_string_value(json_object_get(row, "number")), *text;
		json_t *params, *result;
		struct ctl_fault f = {0};
		uint8_t *data;
		char name[64];
		size_t len;

		if (number == NULL || json_integer_value(json_object_get(row, "packets")) == 0)
			continue;
		params = json_pack("{s:s}", "number", number);
		result = ctl_call(fd, m, params, &f);
		json_decref(params);
		text = json_string_value(json_object_get(result, m->saves));
		data = text != NULL ? ctl_base64(text, &len) : NULL;
		snprintf(name, sizeof(name), "slow-%.40s.pcapng", number);
		if (data != NULL && strchr(name, '/') == NULL) {
			add(b, name, (const char *)data, len);
			b->packets = true;
		}
		free(data);
		json_decref(result);
	}
}

/** Make a call and add its result, or why there is none. Returns the result. */
static json_t *
add_call(struct bundle *b, int fd, const char *method)
{
	const struct ctl_method *m = ctl_method_find(method);
	json_t *params = json_object(), *result;
	struct ctl_fault f = {0};
	char name[64];
	char *text;

	for (unsigned int i = 0; i < m->nparams; i++)
		if (strcmp(m->params[i].name, "interval_ms") == 0)
			json_object_set_new(params, "interval_ms", json_integer(RATES_MS));
	result = ctl_call(fd, m, params, &f);
	json_decref(params);
	if (result == NULL) {
		const size_t n = strlen(b->errors);

		snprintf(name, sizeof(name), "%s.error", method);
		add(b, name, f.text, strlen(f.text));
		snprintf(b->errors + n, sizeof(b->errors) - n, "%s%s", n > 0 ? ", " : "", name);
		b->failed++;
		return NULL;
	}
	/* What has a file of its own is left out here. */
	if (strcmp(method, "support") != 0) {
		text = json_dumps(result, JSON_INDENT(2));
		if (text == NULL)
			ui_die("out of memory");
		snprintf(name, sizeof(name), "%s.json", method);
		add(b, name, text, strlen(text));
		free(text);
	}
	return result;
}

static const char *
text_of(const json_t *result, const char *field)
{
	const char *s = json_string_value(json_object_get(result, field));

	return s != NULL ? s : "not known";
}

static void
add_support(struct bundle *b, const json_t *support, const json_t *status)
{
	json_t *counters = json_object_get(support, "counters");
	char *text = counters != NULL ? json_dumps(counters, JSON_INDENT(2)) : NULL;
	char versions[1024];

	if (text != NULL)
		add(b, "counters.json", text, strlen(text));
	free(text);
	snprintf(versions, sizeof(versions),
	         "weft-target %s\nweft-ctl %s\nDPDK %s\nkernel of the target %s\n",
	         text_of(status, "version"), WEFT_VERSION, text_of(support, "dpdk"),
	         text_of(support, "kernel"));
	add(b, "versions.txt", versions, strlen(versions));
	add_text(b, "configuration.ini", support, "configuration");
	add_text(b, "exports.ini", support, "exports");
	add_text(b, "log.txt", support, "log");
}

/** A name as a JSON string, which has to be UTF-8: of another name, '?' for what is not ASCII.
 * NULL: no memory. */
static json_t *
name_json(const char *name)
{
	json_t *v = json_string(name);
	char *plain = v == NULL ? strdup(name) : NULL;

	for (char *at = plain; at != NULL && *at != '\0'; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	if (plain != NULL)
		v = json_string(plain);
	free(plain);
	return v;
}

static void
say(const struct bundle *b, const char *file, bool json)
{
	json_t *r;
	char *text;
	char bytes[32];

	if (!json) {
		printf("%s: %zu files, %s. It has names and addresses of clients%s; look at it "
		       "before you give it away.\n",
		       file, json_array_size(b->names),
		       ui_bytes(b->tar.bytes, bytes, sizeof(bytes)),
		       b->packets ? ", and packets with data of clients" : "");
		return;
	}
	r = json_pack("{s:o, s:I, s:O}", "file", name_json(file), "bytes", (json_int_t)b->tar.bytes,
	              "files", b->names);
	text = r != NULL ? json_dumps(r, JSON_COMPACT) : NULL;
	if (text == NULL)
		ui_die("out of memory");
	puts(text);
	free(text);
	json_decref(r);
}

static const char *unfinished; /* the file that is being written */

/* The target does not answer, or there is no memory: half of a file is not left behind. */
static void
drop_unfinished(void)
{
	if (unfinished != NULL)
		(void)unlink(unfinished);
}

int
ctl_bundle(int fd, const char *file, bool json)
{
	static const char *const methods[] = {"exports", "clients", "connections", "limits",
	                                      "slow"};
	struct bundle b = {.at_s = time(NULL), .names = json_array()};
	json_t *status, *support;
	int rc = ctl_tar_begin(&b.tar, file);

	if (rc == -EEXIST) {
		ui_msg("%s: is there already; name a new file", file);
		return ctl_error_find(CTL_EXISTS)->exit;
	}
	if (rc != 0)
		ui_die("%s: %s", file, strerror(-rc));
	unfinished = file;
	(void)atexit(drop_unfinished);
	add(&b, "README", readme, strlen(readme));
	status = add_call(&b, fd, "status");
	support = add_call(&b, fd, "support");
	add_support(&b, support, status);
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		json_t *result = add_call(&b, fd, methods[i]);

		if (strcmp(methods[i], "slow") == 0)
			add_packets(&b, fd, result);
		json_decref(result);
	}
	rc = ctl_tar_end(&b.tar);
	close(fd);
	if (rc == 0) {
		unfinished = NULL;
		say(&b, file, json);
	}
	json_decref(b.names);
	json_decref(status);
	json_decref(support);
	if (rc != 0)
		ui_die("%s: cannot be written: %s", file, strerror(-rc));
	if (b.failed > 0)
		ui_msg("%u %s failed; see %s in it", b.failed, b.failed == 1 ? "call" : "calls",
		       b.errors);
	return fflush(stdout) == 0 && b.failed == 0 ? CTL_EXIT_OK : CTL_EXIT_FAILED;
}
