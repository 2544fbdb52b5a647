/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The memory behind a region, and the peer's rights to it. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "console.h"

#define REGION_MAX_BYTES (1ull << 34)

static const struct {
	const char *name;
	uint32_t access;
} rights[] = {
        {"read", WEFT_ACCESS_REMOTE_READ},      {"write", WEFT_ACCESS_REMOTE_WRITE},
        {"atomic", WEFT_ACCESS_REMOTE_ATOMIC},  {"flush", WEFT_ACCESS_FLUSH_PERSISTENT},
        {"visible", WEFT_ACCESS_FLUSH_VISIBLE}, {"verify", WEFT_ACCESS_VERIFY},
};

#define NRIGHTS (sizeof(rights) / sizeof(rights[0]))

bool
console_rights(struct cmdline *cl, const char *what, const char *text, uint32_t *access)
{
	*access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_MW_BIND;
	for (const char *p = text; *p != '\0';) {
		const size_t n = strcspn(p, ",");
		uint32_t right = 0;

		for (unsigned int i = 0; i < NRIGHTS; i++)
			if (strlen(rights[i].name) == n && strncmp(rights[i].name, p, n) == 0)
				right = rights[i].access;
		if (right == 0) {
			console_fail(cl,
			             "%s: '%.*s' is no right; they are read, write, atomic, "
			             "flush, visible, verify, with commas between",
			             what, (int)n, p);
			return false;
		}
		*access |= right;
		p += n + (p[n] == ',');
	}
	return true;
}

const char *
console_rights_str(uint32_t access, char buf[48])
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < NRIGHTS; i++)
		if ((access & rights[i].access) != 0)
			n += (size_t)snprintf(buf + n, 48 - n, " %s", rights[i].name);
	return buf;
}

bool
console_medium(struct cmdline *cl, uint64_t bytes, const char *path, struct weft_persist **persist)
{
	struct weft_persist_attr pa = {.size = sizeof(pa),
	                               .driver = path != NULL ? "auto" : "volatile",
	                               .path = path,
	                               .bytes = bytes,
	                               .create = true,
	                               .numa_node = -1};
	struct stat st;
	int rc;

	if (bytes == 0 || bytes > REGION_MAX_BYTES) {
		console_fail(cl, "register: the size must be from 1 to %llu", REGION_MAX_BYTES);
		return false;
	}
	/* A file of another size holds other data, and opening it would extend it. */
	if (path != NULL && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	    (uint64_t)st.st_size != bytes) {
		console_fail(
		        cl, "register: %s exists and has %lld bytes; name a new file, or that size",
		        path, (long long)st.st_size);
		return false;
	}
	rc = weft_persist_open(&pa, persist);
	if (rc != 0)
		console_fail(cl, "register: %s: %s", path != NULL ? path : "memory", strerror(-rc));
	return rc == 0;
}
