/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What differs between a set of exports and those that there are, and whether it can be
 * changed. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "conf_index.h"
#include "key_file.h"
#include "target.h"
#include "target_apply.h"
#include "target_file.h"
#include "target_media.h"
#include "target_runtime_check.h"
#include "target_state.h"
#include "target_volume.h"
#include "ui.h"

/* ---- The plan ---- */

/** A set of exports, found by their names. */
struct plan_set {
	const struct conf_export *set;
	uint32_t n;
	struct conf_index index;
};

/** -ENOMEM. */
static int
set_begin(struct plan_set *s, const struct conf_export *set, uint32_t n)
{
	s->set = set;
	s->n = n;
	return conf_index_make(&s->index, set, n);
}

static const struct conf_export *
set_find(const struct plan_set *s, const char *name)
{
	const uint32_t i = conf_index_find(&s->index, s->set, s->n, name);

	return i < s->n ? &s->set[i] : NULL;
}

/** What a plan looks names up in: the set that is wanted, the state, and the configuration as it
 * was read last. */
struct plan_sets {
	struct plan_set want, state, latest;
};

static struct apply_change *
plan_add(struct apply_plan *p, enum apply_kind kind, struct target_export *ex)
{
	struct apply_change *c = &p->changes[p->n++];

	c->kind = kind;
	c->ex = ex;
	return c;
}

/** The export that the target serves of one of the state; NULL: it serves another of this name. */
static struct target_export *
served_of(struct target *t, const char *name)
{
	struct target_export *ex = target_export_find(t, name);

	return ex != NULL && ex->conf->of_state ? ex : NULL;
}

/** Whether the configuration, as it was read last, has no export of this name. */
static int
plan_name(struct target *t, const struct plan_sets *sets, const char *name, char *err,
          size_t err_size)
{
	const struct target_export *ex = target_export_find(t, name);
	const struct conf_export *e = set_find(&sets->latest, name);

	if (ex != NULL && !ex->conf->of_state)
		e = ex->conf;
	if (e == NULL || e->of_state)
		return 0;
	return RUNTIME_FAIL(-EEXIST, "export %s is one of %s:%d; change it there, and say reload",
	                    name, t->conf.file, e->line);
}

/** Both sets have the export. */
static int
plan_both(struct target *t, struct apply_plan *p, const struct plan_sets *sets,
          const struct conf_export *was, struct conf_export *now, char *err, size_t err_size)
{
	struct target_export *ex = served_of(t, was->name);
	enum apply_kind kind = APPLY_SET;
	struct apply_change *c;

	/* A section that does not say a size leaves it. */
	if (now->size_bytes == 0)
		now->size_bytes = was->size_bytes;
	if (runtime_same(was, now))
		return 0;
	if (ex == NULL)
		return plan_name(t, sets, was->name, err, err_size) != 0
		               ? -EEXIST
		               : RUNTIME_FAIL(-EBUSY, "export %s is not there; restart the target",
		                              was->name);
	if (strcmp(was->path, now->path) != 0 || strcmp(was->image, now->image) != 0 ||
	    was->format != now->format || was->checksums != now->checksums)
		return RUNTIME_FAIL(-EINVAL,
		                    "export %s: path, image, format and checksums are as the "
		                    "medium was made; give the export another name",
		                    was->name);
	if (was->size_bytes != now->size_bytes)
		kind = now->size_bytes < opening_medium_bytes(was) && target_is_volume(ex)
		               ? APPLY_SHRINK
		               : APPLY_REOPEN;
	else if (runtime_change(was, now) == RUNTIME_MORE &&
	         (target_export_up(ex) || ex->volume != NULL))
		kind = APPLY_REOPEN;
	c = plan_add(p, kind, ex);
	c->was = *was;
	c->now = *now;
	return 0;
}

static int
plan_changes(struct target *t, struct apply_plan *p, const struct plan_sets *sets, char *err,
             size_t err_size)
{
	const struct state *s = t->state;
	struct apply_change *c;
	int rc = 0;

	for (uint32_t i = 0; i < s->nexports; i++)
		if (set_find(&sets->want, s->exports[i].name) == NULL) {
			c = plan_add(p, APPLY_DELETE, served_of(t, s->exports[i].name));
			c->was = s->exports[i];
			c->held = state_is_held(s, c->was.name);
		}
	for (uint32_t i = 0; rc == 0 && i < p->want.nexports; i++) {
		struct conf_export *now = &p->want.exports[i];
		const struct conf_export *was = set_find(&sets->state, now->name);

		if (was != NULL) {
			rc = plan_both(t, p, sets, was, now, err, err_size);
			continue;
		}
		rc = plan_name(t, sets, now->name, err, err_size);
		if (rc == 0)
			plan_add(p, APPLY_CREATE, NULL)->now = *now;
	}
	return rc;
}

/** Bring the changes into the order in which they are done: by their kinds, those of a kind as they
 * are. */
static int
plan_order(struct apply_plan *p)
{
	struct apply_change *in_order = calloc(p->n + 1, sizeof(*in_order));
	uint32_t n = 0;

	if (in_order == NULL)
		return -ENOMEM;
	for (enum apply_kind kind = 0; kind < APPLY_KINDS; kind++)
		for (uint32_t i = 0; i < p->n; i++)
			if (p->changes[i].kind == kind)
				in_order[n++] = p->changes[i];
	free(p->changes);
	p->changes = in_order;
	return 0;
}

static int
plan_all(struct target *t, struct apply_plan *p, char *err, size_t err_size)
{
	struct plan_sets sets = {0};
	int rc;

	p->changes = calloc(t->state->nexports + p->want.nexports + 1, sizeof(p->changes[0]));
	rc = p->changes != NULL ? 0 : -ENOMEM;
	if (rc == 0)
		rc = set_begin(&sets.want, p->want.exports, p->want.nexports);
	if (rc == 0)
		rc = set_begin(&sets.state, t->state->exports, t->state->nexports);
	if (rc == 0)
		rc = set_begin(&sets.latest, t->latest->exports, t->latest->nexports);
	if (rc == -ENOMEM)
		snprintf(err, err_size, "out of memory");
	if (rc == 0)
		rc = plan_changes(t, p, &sets, err, err_size);
	conf_index_free(&sets.want.index);
	conf_index_free(&sets.state.index);
	conf_index_free(&sets.latest.index);
	return rc;
}

void
apply_plan_free(struct apply_plan *p)
{
	if (p == NULL)
		return;
	conf_free(&p->want);
	free(p->changes);
	free(p);
}

int
apply_plan(struct target *t, const char *text, struct apply_plan *p, char *err, size_t err_size)
{
	int rc = runtime_state(t, err, err_size);

	if (rc == 0)
		rc = state_parse_set(t->state, text, &p->want, err, err_size);
	if (rc == 0)
		rc = plan_all(t, p, err, err_size);
	if (rc == 0 && plan_order(p) != 0)
		rc = RUNTIME_FAIL(-ENOMEM, "out of memory");
	return rc;
}

/* ---- The check ---- */

/** What the set needs of a file system. */
struct apply_room {
	dev_t dev;
	uint64_t need_bytes;
};

/** Whether the file systems have the blocks that objects and logs reserve, those of the set
 * together. */
static int
check_space(const struct conf_export *now, struct apply_room *rooms, uint32_t *n, char *err,
            size_t err_size)
{
	char dir[CONF_PATH_MAX], b1[32], b2[32];
	struct statvfs fs;
	struct stat st;
	uint64_t have = 0, need, free_bytes;
	uint32_t i = 0;

	/* The file of a volume is sparse. */
	if (now->path[0] == '\0' || now->format == CONF_FORMAT_VOLUME ||
	    now->persist == CONF_PERSIST_VOLATILE)
		return 0;
	snprintf(dir, sizeof(dir), "%s", now->path);
	if (stat(now->path, &st) == 0) {
		if (!S_ISREG(st.st_mode))
			return 0; /* a device has all its blocks */
		have = (uint64_t)st.st_blocks * 512;
	} else if (stat(dirname(dir), &st) != 0) {
		return 0; /* the check of the export says so */
	}
	if (statvfs(dir, &fs) != 0)
		return 0;
	need = now->size_bytes > have ? now->size_bytes - have : 0;
	while (i < *n && rooms[i].dev != st.st_dev)
		i++;
	if (i == *n)
		rooms[(*n)++] = (struct apply_room){.dev = st.st_dev};
	if (need > UINT64_MAX - rooms[i].need_bytes)
		return RUNTIME_FAIL(-EFBIG, "export %s: cannot be that large", now->name);
	rooms[i].need_bytes += need;
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	return rooms[i].need_bytes <= free_bytes
	               ? 0
	               : RUNTIME_FAIL(-ENOSPC,
	                              "export %s: %s: the set needs %s more there, and %s are free",
	                              now->name, now->path,
	                              ui_bytes(rooms[i].need_bytes, b1, sizeof(b1)),
	                              ui_bytes(free_bytes, b2, sizeof(b2)));
}

/** Whether the plan deletes an export. */
static bool
plan_deletes(const struct plan_set *want, const struct conf_export *e)
{
	return e->of_state && set_find(want, e->name) == NULL;
}

/** Whether the file or image of a creation is that of another export of the set, or of the
 * configuration. */
static int
check_media_of(struct target *t, const struct apply_plan *p, const struct plan_set *want,
               struct media *m, char *err, size_t err_size)
{
	const struct conf_export *has;
	int rc = 0;

	/* Two that are there may have the same one: then one of them is not served. */
	for (uint32_t i = 0; rc != -ENOMEM && i < target_nexports(t); i++)
		if (!target_export_gone(&t->exports[i]) && !plan_deletes(want, t->exports[i].conf))
			rc = media_add(m, t->exports[i].conf, &has);
	if (rc != -ENOMEM)
		rc = 0;
	for (uint32_t i = 0; rc == 0 && i < p->n; i++) {
		const struct conf_export *now = &p->changes[i].now;

		if (p->changes[i].kind != APPLY_CREATE)
			continue;
		rc = media_add(m, now, &has);
		if (rc == -EEXIST)
			return RUNTIME_FAIL(-EEXIST, "export %s: %s: export %s has it", now->name,
			                    target_place(now), has->name);
	}
	return rc == 0 ? 0 : RUNTIME_FAIL(-ENOMEM, "out of memory");
}

static int
check_media(struct target *t, const struct apply_plan *p, char *err, size_t err_size)
{
	struct plan_set want;
	struct media m;
	int rc;

	media_begin(&m);
	rc = set_begin(&want, p->want.exports, p->want.nexports);
	rc = rc == 0 ? check_media_of(t, p, &want, &m, err, err_size)
	             : RUNTIME_FAIL(-ENOMEM, "out of memory");
	conf_index_free(&want.index);
	media_end(&m);
	return rc;
}

static int
check_create(struct target *t, const struct conf_export *now, uint64_t *taken, char *err,
             size_t err_size)
{
	int rc = runtime_fresh_size(now, err, err_size);

	if (rc == 0)
		rc = runtime_medium_rc(target_export_check(now, taken, err, err_size));
	if (rc == 0 && now->format == CONF_FORMAT_VOLUME &&
	    conf_check_volumes(&t->conf, err, err_size) != 0)
		rc = -ENODEV;
	return rc;
}

/** Whether the object of an export, which no client uses, has room with another size. */
static int
check_object(const struct target_export *ex, const struct conf_export *now, char *err,
             size_t err_size)
{
	const uint8_t *base = ex->persist->base;
	struct expfmt_commit word;
	struct expfmt_super super;
	struct expfmt_slot slot;

	if (expfmt_layout(now->size_bytes, ex->super.uuid, &super) != 0)
		return RUNTIME_FAIL(-EINVAL,
		                    "export %s: %" PRIu64 " octets are too few for an export",
		                    now->name, now->size_bytes);
	expfmt_commit_decode(base + EXPFMT_COMMIT_OFF, &word);
	if (word.generation == 0)
		return 0;
	if (expfmt_slot_decode(base + ex->super.slot_off[word.slot], ex->super.capacity_bytes,
	                       &slot) != EXPFMT_OK)
		return RUNTIME_FAIL(-EIO,
		                    "export %s: the object is damaged; push it again before a "
		                    "resize",
		                    now->name);
	return slot.length_bytes <= super.capacity_bytes
	               ? 0
	               : RUNTIME_FAIL(-EFBIG,
	                              "export %s has an object of %" PRIu64
	                              " octets; of this size it has room for %" PRIu64,
	                              now->name, slot.length_bytes, super.capacity_bytes);
}

static int
check_resize(const struct apply_change *c, const struct apply_wish *w, char *err, size_t err_size)
{
	const uint64_t have = runtime_resizable(c->ex, err, err_size);

	if (have == 0)
		return target_export_up(c->ex) ? -EINVAL : -EBUSY;
	if (c->now.size_bytes < have && !w->shrink)
		return RUNTIME_FAIL(-EINVAL,
		                    "export %s has %" PRIu64 " octets; what is beyond %" PRIu64
		                    " would be lost; say --shrink if it may be",
		                    c->now.name, have, c->now.size_bytes);
	return c->ex->persist != NULL ? check_object(c->ex, &c->now, err, err_size) : 0;
}

/** What an export that is there gets. */
static int
check_change(const struct apply_change *c, const struct apply_wish *w, char *err, size_t err_size)
{
	char why[CONF_ERR_MAX];
	struct key_file key;
	int rc = 0;

	if (c->kind != APPLY_SET && target_export_users(c->ex) > 0)
		return RUNTIME_FAIL(-EBUSY,
		                    "export %s: clients have %u grants and calls; drain it first",
		                    c->now.name, target_export_users(c->ex));
	if (c->was.size_bytes != c->now.size_bytes)
		rc = check_resize(c, w, err, err_size);
	if (rc == 0 && c->now.hash_key_file[0] != '\0') {
		if (key_file_read(c->now.hash_key_file, &key, why, sizeof(why)) != 0)
			rc = RUNTIME_FAIL(-ENODEV, "export %s: hash_key_file %s: %s", c->now.name,
			                  c->now.hash_key_file, why);
		explicit_bzero(&key, sizeof(key));
	}
	/* What is opened again may get another medium: its opening checks the rights. */
	return rc == 0 && c->kind == APPLY_SET ? runtime_rights(c->ex, &c->now, err, err_size) : rc;
}

/** Octets of the names of deleted exports in one line. */
#define CONFIRM_TEXT 400

static bool
in_list(const char *list, const char *name)
{
	const size_t len = strlen(name);

	while (list != NULL && *list != '\0') {
		const size_t n = strcspn(list, ",");

		if (n == len && memcmp(list, name, n) == 0)
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

/** Whether the operator has named all exports that are deleted. Others are no fault: said twice,
 * they are gone. */
static int
check_confirm(const struct apply_plan *p, const char *confirm, char *err, size_t err_size)
{
	char names[CONFIRM_TEXT] = "";
	uint32_t deleted = 0;
	bool all = true;
	size_t len = 0;

	for (; deleted < p->n && p->changes[deleted].kind == APPLY_DELETE; deleted++) {
		const char *name = p->changes[deleted].was.name;

		all = all && in_list(confirm, name);
		if (len < sizeof(names))
			len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
			                        len > 0 ? "," : "", name);
	}
	/* The list is of no use when it is cut. */
	if (len >= sizeof(names))
		return all ? 0
		           : RUNTIME_FAIL(-EINVAL,
		                          "%u exports would be deleted that are not all confirmed; "
		                          "nothing was changed; diff shows them; if that is meant, "
		                          "say --confirm with all of their names",
		                          deleted);
	return all ? 0
	           : RUNTIME_FAIL(-EINVAL,
	                          "exports would be deleted that are not confirmed; nothing was "
	                          "changed; if that is meant, say --confirm %s",
	                          names);
}

/** As many exports as there may be, those of the configuration included. */
static int
check_count(struct target *t, const struct apply_plan *p, char *err, size_t err_size)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < target_nexports(t); i++)
		n += !target_export_gone(&t->exports[i]);
	for (uint32_t i = 0; i < p->n; i++) {
		n += p->changes[i].kind == APPLY_CREATE;
		n -= p->changes[i].kind == APPLY_DELETE && p->changes[i].ex != NULL;
	}
	if (n > CONF_EXPORTS_MAX)
		atomic_fetch_add_explicit(&t->exports_refused, 1, memory_order_relaxed);
	return n <= CONF_EXPORTS_MAX
	               ? 0
	               : RUNTIME_FAIL(-ENOSPC,
	                              "there would be %u exports, those of %s included; %u at most",
	                              n, t->conf.file, CONF_EXPORTS_MAX);
}

int
apply_check(struct target *t, const struct apply_plan *p, const struct apply_wish *w, char *err,
            size_t err_size)
{
	struct apply_room *rooms = calloc(p->n + 1, sizeof(*rooms)); /* mostly one is used */
	uint32_t nrooms = 0, shrinks = 0;
	uint64_t taken = 0;
	int rc = w->dry ? 0 : check_confirm(p, w->confirm, err, err_size);

	if (rc == 0 && rooms == NULL)
		rc = RUNTIME_FAIL(-ENOMEM, "out of memory");
	if (rc == 0)
		rc = check_count(t, p, err, err_size);
	if (rc == 0)
		rc = check_media(t, p, err, err_size);
	for (uint32_t i = 0; rc == 0 && i < p->n; i++) {
		const struct apply_change *c = &p->changes[i];

		shrinks += c->kind == APPLY_SHRINK;
		if (c->kind == APPLY_DELETE)
			continue;
		rc = runtime_access(t, &c->now, err, err_size);
		if (rc == 0)
			rc = c->kind == APPLY_CREATE
			             ? check_create(t, &c->now, &taken, err, err_size)
			             : check_change(c, w, err, err_size);
		if (rc == 0 && (c->kind == APPLY_CREATE || c->kind == APPLY_REOPEN))
			rc = check_space(&c->now, rooms, &nrooms, err, err_size);
	}
	free(rooms);
	/* What was cut off cannot come back if the next one fails. */
	if (rc == 0 && shrinks > 1)
		rc = RUNTIME_FAIL(-EINVAL,
		                  "%u volumes would become smaller; one at most in a set, as what "
		                  "is cut off cannot be put back if another one fails",
		                  shrinks);
	return rc;
}
