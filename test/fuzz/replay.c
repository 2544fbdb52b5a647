/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A fuzz entry without libFuzzer: every file of the given folders and files is executed once.
 * One TAP line for each folder or file. A crash ends the program, as in libFuzzer.
 */

#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

#define REPLAY_MAX_BYTES (1u << 20)

static bool
replay_file(const char *path)
{
	FILE *f = fopen(path, "re");
	uint8_t *all = malloc(REPLAY_MAX_BYTES), *exact;
	size_t len;

	if (f == NULL || all == NULL) {
		perror(path);
		free(all);
		if (f != NULL)
			fclose(f);
		return false;
	}
	len = fread(all, 1, REPLAY_MAX_BYTES, f);
	fclose(f);
	/* of exact length, so that the sanitizer detects a read beyond it */
	exact = malloc(len > 0 ? len : 1);
	memcpy(exact, all, len);
	free(all);
	/* the last line before a crash names the input */
	if (getenv("WEFT_FUZZ_VERBOSE") != NULL)
		fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	return true;
}

static unsigned int
replay_dir(const char *path, bool *ok)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	unsigned int n = 0;

	if (dir == NULL) {
		*ok = false;
		return 0;
	}
	while ((d = readdir(dir)) != NULL) {
		char file[PATH_MAX];

		if (d->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s", path, d->d_name);
		*ok &= replay_file(file);
		n++;
	}
	closedir(dir);
	return n;
}

int
main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++) {
		struct stat st;
		unsigned int n = 1;
		bool ok = true;

		if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
			n = replay_dir(argv[i], &ok);
		else
			ok = replay_file(argv[i]);
		ok &= n > 0;
		failed += !ok;
		printf("%sok %d %u inputs\n", ok ? "" : "not ", i, n);
	}
	printf("1..%d\n", argc - 1);
	return failed != 0;
}
