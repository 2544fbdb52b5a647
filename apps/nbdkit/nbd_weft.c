/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file nbdkit-weft-plugin: a volume of a weft-target as an NBD server on this host, so that qemu,
 * nbdfuse, fio, nbdcopy and nbd-client use it (docs/nbd.md).
 */

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "key_file.h"
#include "link.h"
#include "ui.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

#define WEFT_PIECES 128

static struct link_attr attr = {.timeout_ns = 60000000000ULL};
static const char *config, *dev, *address, *export_url;
static unsigned int mtu;
static struct link vol;
static bool vol_open;

/* ---- Parameters ---- */

static int
weft_config(const char *key, const char *value)
{
	int yes;
	double s;
	char *end;

	if (strcmp(key, "export") == 0) {
		export_url = value;
	} else if (strcmp(key, "config") == 0) {
		config = value;
	} else if (strcmp(key, "dev") == 0) {
		dev = value;
	} else if (strcmp(key, "address") == 0) {
		address = value;
	} else if (strcmp(key, "mtu") == 0) {
		return nbdkit_parse_unsigned("mtu", value, &mtu);
	} else if (strcmp(key, "auth") == 0) {
		auth_arg_take(&attr.auth, value);
	} else if (strcmp(key, "verify") == 0) {
		yes = nbdkit_parse_bool(value);
		if (yes < 0)
			return -1;
		attr.verify = yes;
	} else if (strcmp(key, "readonly") == 0) {
		yes = nbdkit_parse_bool(value);
		if (yes < 0)
			return -1;
		attr.read_only = yes;
	} else if (strcmp(key, "timeout") == 0) {
		s = strtod(value, &end);
		if (end == value || *end != '\0' || !(s > 0 && s <= 86400)) {
			nbdkit_error("timeout=%s: give seconds, up to 86400", value);
			return -1;
		}
		attr.timeout_ns = (uint64_t)(s * 1e9);
	} else {
		nbdkit_error("unknown parameter '%s'; known are export, config, dev, address, mtu, "
		             "auth, verify, readonly and timeout",
		             key);
		return -1;
	}
	return 0;
}

static int
weft_config_complete(void)
{
	char err[CONF_ERR_MAX + CONF_PATH_MAX];
	int rc;

	if (export_url == NULL) {
		nbdkit_error("no export; give export=weft://HOST[:PORT]/NAME");
		return -1;
	}
	if (url_parse(export_url, &attr.url, err, sizeof(err)) != 0 ||
	    attr.url.export_name[0] == '\0') {
		nbdkit_error("export=%s: give weft://HOST[:PORT]/NAME", export_url);
		return -1;
	}
	if (config == NULL && dev == NULL)
		config = getenv("WEFT_CONFIG");
	if ((config != NULL) == (dev != NULL) || (dev != NULL && address == NULL)) {
		nbdkit_error(
		        "give config=FILE.ini, or dev=DEVICE and address=CIDR, for the port of "
		        "this host");
		return -1;
	}
	if (config != NULL) {
		rc = conf_load(config, &attr.conf, err, sizeof(err));
	} else {
		conf_defaults(&attr.conf);
		rc = conf_add_port(&attr.conf, "port", dev, address, mtu != 0 ? mtu : 1500, err,
		                   sizeof(err));
		if (rc == 0)
			rc = conf_finish(&attr.conf, err, sizeof(err));
	}
	if (rc != 0)
		nbdkit_error("%s", err);
	return rc != 0 ? -1 : 0;
}

#define weft_config_help                                                                           \
	"export=weft://HOST[:PORT]/NAME  (required) the volume\n"                                  \
	"config=FILE                     ports of this host, or\n"                                 \
	"dev=DEVICE address=CIDR [mtu=N] one port of this host\n"                                  \
	"auth=NAME:KEYFILE               authenticate to the target\n"                             \
	"verify=BOOL                     read each write back from the medium [false]\n"           \
	"readonly=BOOL                   ask for the right to read alone [false]\n"                \
	"timeout=SECONDS                 wait so long for a lost target [60]"

/** The stack has threads, so it starts behind nbdkit's fork. */
static int
weft_after_fork(void)
{
	char why[LINK_WHY] = "";

	ui_init("nbdkit-weft-plugin");
	if (link_open(&vol, &attr, why) != 0) {
		nbdkit_error("%s: %s", export_url, why);
		return -1;
	}
	vol_open = true;
	return 0;
}

static void
weft_unload(void)
{
	if (vol_open)
		link_close(&vol);
	explicit_bzero(&attr.auth, sizeof(attr.auth));
}

/* ---- What it is ---- */

static void *
weft_open(int readonly)
{
	(void)readonly;
	return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t
weft_get_size(void *handle)
{
	(void)handle;
	return (int64_t)vol.info.bytes;
}

static int
weft_can_write(void *handle)
{
	(void)handle;
	return (vol.info.rights & WEFT_VOLUME_RIGHT_WRITE) != 0;
}

static int
weft_can_flush(void *handle)
{
	(void)handle;
	return (vol.info.rights & WEFT_VOLUME_RIGHT_FLUSH) != 0;
}

static int
weft_can_fua(void *handle)
{
	return weft_can_flush(handle) ? NBDKIT_FUA_NATIVE : NBDKIT_FUA_NONE;
}

static int
weft_can_extents(void *handle)
{
	(void)handle;
	return (vol.info.can & WEFT_VOLUME_HOLES) != 0;
}

/** All connections of nbdkit have one link, so a flush of one covers the writes of all. */
static int
weft_yes(void *handle)
{
	(void)handle;
	return 1;
}

static int
weft_can_cache(void *handle)
{
	(void)handle;
	return NBDKIT_CACHE_NONE;
}

static int
weft_block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	(void)handle;
	*minimum = 1;
	*preferred = vol.info.block_bytes > 4096 ? vol.info.block_bytes : 4096;
	*maximum = 32U << 20;
	return 0;
}

/* ---- Operations ---- */

static int
weft_failed(const char *what, uint64_t offset, const struct weft_volume_req *req, int rc)
{
	nbdkit_error("%s at %llu: %s", what, (unsigned long long)offset,
	             req->why[0] != '\0' ? req->why : strerror(-rc));
	nbdkit_set_error(rc == -ENOSPC                      ? ENOSPC
	                 : rc == -EINVAL                    ? EINVAL
	                 : rc == -EACCES                    ? EPERM
	                 : rc == -ENOTCONN || rc == -ENODEV ? ESHUTDOWN
	                                                    : EIO);
	return -1;
}

static uint32_t
weft_flags(uint32_t flags)
{
	return flags & NBDKIT_FLAG_FUA ? WEFT_VOLUME_F_DURABLE : 0;
}

static int
weft_pread(void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct weft_volume_req req = {
	        .op = WEFT_VOLUME_OP_READ, .off_bytes = offset, .len_bytes = count, .data = buf};
	int rc = link_op(&vol, &req);

	(void)handle;
	(void)flags;
	return rc == 0 ? 0 : weft_failed("read", offset, &req, rc);
}

/** Compare what the medium holds with what was written: one range of the volume. */
static int
weft_verify_range(const void *buf, uint32_t count, uint64_t offset)
{
	const struct weft_hash_ops *hash = weft_hash_find(vol.info.hash);
	struct weft_volume_req req = {
	        .op = WEFT_VOLUME_OP_VERIFY, .off_bytes = offset, .len_bytes = count};
	uint8_t want[WEFT_HASH_MAX_BYTES];
	int rc;

	if (hash == NULL || weft_hash_once(hash, buf, count, want) != 0) {
		nbdkit_error("verify=yes: the hash %s has a key, or is not known here",
		             vol.info.hash);
		return -1;
	}
	rc = link_op(&vol, &req);
	if (rc != 0)
		return weft_failed("verify", offset, &req, rc);
	if (memcmp(want, req.hash, hash->result_bytes) == 0)
		return 0;
	nbdkit_error("verify at %llu: the medium does not hold what was written",
	             (unsigned long long)offset);
	nbdkit_set_error(EIO);
	return -1;
}

static int
weft_verify(const void *buf, uint32_t count, uint64_t offset)
{
	const uint8_t *at = buf;
	int rc = 0;

	for (uint32_t n; count > 0 && rc == 0; count -= n, at += n, offset += n) {
		n = count < vol.info.range_bytes ? count : vol.info.range_bytes;
		rc = weft_verify_range(at, n, offset);
	}
	return rc;
}

static int
weft_pwrite(void *handle, const void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_WRITE,
	                              .flags = weft_flags(flags),
	                              .off_bytes = offset,
	                              .len_bytes = count,
	                              .data = (void *)(uintptr_t)buf};
	int rc;

	(void)handle;
	/* What is read back must be on the medium. */
	if (attr.verify)
		req.flags |= WEFT_VOLUME_F_DURABLE;
	rc = link_op(&vol, &req);
	if (rc != 0)
		return weft_failed("write", offset, &req, rc);
	return attr.verify ? weft_verify(buf, count, offset) : 0;
}

static int
weft_flush(void *handle, uint32_t flags)
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_FLUSH};
	int rc = link_op(&vol, &req);

	(void)handle;
	(void)flags;
	return rc == 0 ? 0 : weft_failed("flush", 0, &req, rc);
}

static int
weft_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_DISCARD,
	                              .flags = weft_flags(flags),
	                              .off_bytes = offset,
	                              .len_bytes = count};
	int rc = link_op(&vol, &req);

	(void)handle;
	return rc == 0 ? 0 : weft_failed("trim", offset, &req, rc);
}

static int
weft_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct weft_volume_req req = {
	        .op = WEFT_VOLUME_OP_ZEROES,
	        .flags =
	                weft_flags(flags) | (flags & NBDKIT_FLAG_MAY_TRIM ? 0 : WEFT_VOLUME_F_KEEP),
	        .off_bytes = offset,
	        .len_bytes = count};
	int rc = link_op(&vol, &req);

	(void)handle;
	return rc == 0 ? 0 : weft_failed("zero", offset, &req, rc);
}

static int
weft_extents(void *handle, uint32_t count, uint64_t offset, uint32_t flags,
             struct nbdkit_extents *extents)
{
	struct weft_volume_piece piece[WEFT_PIECES];
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_EXTENTS,
	                              .off_bytes = offset,
	                              .len_bytes = count,
	                              .pieces = piece,
	                              .max_pieces = flags & NBDKIT_FLAG_REQ_ONE ? 1 : WEFT_PIECES};
	int rc = link_op(&vol, &req);

	(void)handle;
	if (rc != 0)
		return weft_failed("extents", offset, &req, rc);
	for (uint32_t i = 0; i < req.found; i++)
		if (nbdkit_add_extent(extents, piece[i].off_bytes, piece[i].len_bytes,
		                      piece[i].hole ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO
		                                    : 0) != 0)
			return -1;
	return 0;
}

static struct nbdkit_plugin plugin = {
        .name = "weft",
        .longname = "weft volumes",
        .version = WEFT_VERSION,
        .description = "A volume of a weft-target, reached over RDMA (iWARP) in user space",
        .magic_config_key = "export",
        .config = weft_config,
        .config_complete = weft_config_complete,
        .config_help = weft_config_help,
        .after_fork = weft_after_fork,
        .unload = weft_unload,
        .open = weft_open,
        .get_size = weft_get_size,
        .block_size = weft_block_size,
        .can_write = weft_can_write,
        .can_flush = weft_can_flush,
        .can_fua = weft_can_fua,
        .can_trim = weft_can_write,
        .can_zero = weft_can_write,
        .can_extents = weft_can_extents,
        .can_multi_conn = weft_yes,
        .can_cache = weft_can_cache,
        .pread = weft_pread,
        .pwrite = weft_pwrite,
        .flush = weft_flush,
        .trim = weft_trim,
        .zero = weft_zero,
        .extents = weft_extents,
        .errno_is_preserved = 0,
};

NBDKIT_REGISTER_PLUGIN(plugin)
