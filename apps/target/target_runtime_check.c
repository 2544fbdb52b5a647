/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a change of the table of exports is checked for, whichever request asks for it. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "target_runtime_check.h"
#include "target_volume.h"

int
runtime_state(const struct target *t, char *err, size_t err_size)
{
	return t->state != NULL
	               ? 0
	               : RUNTIME_FAIL(-EROFS,
	                              "exports cannot be made or changed at run time without "
	                              "a state directory; name one ([target] state)");
}

bool
runtime_same(const struct conf_export *a, const struct conf_export *b)
{
	char *one = NULL, *two = NULL;
	size_t n1, n2;
	FILE *f1 = open_memstream(&one, &n1), *f2 = open_memstream(&two, &n2);
	bool same = false;

	if (f1 != NULL && f2 != NULL) {
		conf_print_export(f1, a);
		conf_print_export(f2, b);
	}
	if (f1 != NULL && fclose(f1) == 0 && f2 != NULL && fclose(f2) == 0)
		same = strcmp(one, two) == 0;
	free(one);
	free(two);
	return same;
}

int
runtime_access(const struct target *t, const struct conf_export *now, char *err, size_t err_size)
{
	return now->allow_clients[0] == '\0' || t->conf.target.host_auth != CONF_HOST_AUTH_NONE
	               ? 0
	               : RUNTIME_FAIL(
	                         -EINVAL,
	                         "export %s: allow_clients: no client has a name without [target] "
	                         "host_auth; set it, or name addresses (allow_from)",
	                         now->name);
}

int
runtime_medium_rc(int rc)
{
	return rc == -ENOENT || rc == -EINVAL ? -ENODEV : rc;
}

enum runtime_change
runtime_change(const struct conf_export *was, const struct conf_export *now)
{
	struct conf_export but_rights = *now;

	if (strcmp(was->path, now->path) != 0 || strcmp(was->image, now->image) != 0 ||
	    was->size_bytes != now->size_bytes || was->format != now->format ||
	    was->checksums != now->checksums)
		return RUNTIME_MEDIUM;
	if (runtime_same(was, now))
		return RUNTIME_NOTHING;
	but_rights.rights = was->rights;
	conf_export_soft(&but_rights, was);
	return runtime_same(was, &but_rights) ? RUNTIME_RIGHTS : RUNTIME_MORE;
}

int
runtime_rights(const struct target_export *ex, const struct conf_export *now, char *err,
               size_t err_size)
{
	struct weft_block_info info = {.persistent = true};

	if (ex->volume != NULL)
		weft_block_query(ex->volume->block, &info);
	if ((now->rights & CONF_RIGHT_FLUSH) &&
	    (!info.persistent || (ex->persist != NULL && !ex->persist->ops->persistent)))
		return RUNTIME_FAIL(
		        -EINVAL,
		        "export %s: its medium cannot promise flush; leave it out of rights",
		        now->name);
	/* A snapshot grants less than its rights, whatever these say. */
	if (ex->volume != NULL && ex->volume->read_only &&
	    (weft_vol_info(ex->volume->vol)->super.ro_compat & WEFT_VOL_RO_COMPAT_SNAPSHOT) == 0 &&
	    (now->rights & (CONF_RIGHT_WRITE | CONF_RIGHT_FLUSH)) != 0)
		return RUNTIME_FAIL(
		        -EINVAL,
		        "export %s: its medium was read-only when it was opened; take it "
		        "offline, set rights, and say online",
		        now->name);
	return 0;
}

bool
runtime_same_medium(const struct conf_export *a, const struct conf_export *b)
{
	return target_export_same_file(a, b) ||
	       (a->image[0] != '\0' && strcmp(a->image, b->image) == 0);
}

int
runtime_fresh_size(const struct conf_export *conf, char *err, size_t err_size)
{
	const uint64_t have = conf->size_bytes != 0 ? opening_medium_bytes(conf) : 0;

	return have == 0 || have == conf->size_bytes
	               ? 0
	               : RUNTIME_FAIL(-ENODEV,
	                              "export %s: %s holds an export of %" PRIu64
	                              " octets; leave size out, and resize it then",
	                              conf->name, target_place(conf), have);
}

uint64_t
runtime_resizable(const struct target_export *ex, char *err, size_t err_size)
{
	const char *name = ex->conf->name;
	uint64_t have;

	if (!target_export_up(ex))
		return RUNTIME_FAIL(0, "export %s is not served; say online, then resize it", name);
	have = opening_medium_bytes(ex->conf);
	if (have == 0 || target_is_log(ex) ||
	    (ex->volume != NULL && weft_vol_info(ex->volume->vol)->sums))
		return RUNTIME_FAIL(0,
		                    "export %s: memory, images, logs and volumes with checksums "
		                    "keep their size; make another export, and copy",
		                    name);
	return have;
}
