/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A field of a result as a file. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "ui.h"

/** -1: no character of base64. */
static int
value_of(char c)
{
	static const char digits[] =
	        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c != '\0' ? strchr(digits, c) : NULL;

	return at != NULL ? (int)(at - digits) : -1;
}

uint8_t *
ctl_base64(const char *text, size_t *len)
{
	const size_t n = strlen(text);
	const size_t pad = n >= 4 ? (text[n - 1] == '=') + (text[n - 2] == '=') : 0;
	uint8_t *out = malloc(n / 4 * 3 + 1);

	*len = n / 4 * 3 - pad;
	for (size_t i = 0; out != NULL && i < n; i += 4) {
		uint32_t bits = 0;

		for (size_t k = 0; k < 4; k++) {
			const bool padded = i + k >= n - pad;
			const int v = n % 4 != 0 ? -1 : padded ? 0 : value_of(text[i + k]);

			if (v < 0) {
				free(out);
				return NULL;
			}
			bits = bits << 6 | (uint32_t)v;
		}
		for (size_t k = 0; k < 3 && i / 4 * 3 + k < *len; k++)
			out[i / 4 * 3 + k] = (uint8_t)(bits >> (16 - 8 * k));
	}
	return out;
}

static int
write_all(int fd, const uint8_t *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int
ctl_save(const struct ctl_method *m, const json_t *result, const char *file)
{
	const char *text = json_string_value(json_object_get(result, m->saves));
	const bool std = strcmp(file, "-") == 0;
	size_t len = 0;
	uint8_t *data = text != NULL ? ctl_base64(text, &len) : NULL;
	char bytes[32];
	int fd, rc;

	if (data == NULL)
		ui_die("%s: the answer has no file", m->command);
	fd = std ? STDOUT_FILENO : open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST) {
		ui_msg("%s: is there already; name a new file", file);
		free(data);
		return ctl_error_find(CTL_EXISTS)->exit;
	}
	if (fd < 0)
		ui_die("%s: %s", file, strerror(errno));
	rc = write_all(fd, data, len);
	if (!std && close(fd) != 0 && rc == 0)
		rc = -errno;
	free(data);
	if (rc != 0 && !std)
		(void)unlink(file);
	if (rc != 0)
		ui_die("%s: cannot be written: %s", file, strerror(-rc));
	if (!std)
		printf("%s: %lld packets, %s\n", file,
		       (long long)json_integer_value(json_object_get(result, "packets")),
		       ui_bytes(len, bytes, sizeof(bytes)));
	return fflush(stdout) == 0 ? CTL_EXIT_OK : CTL_EXIT_FAILED;
}
