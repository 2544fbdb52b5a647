/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The test harness: runs a table of cases and prints TAP. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_eal.h>
#include <rte_errno.h>

#include "weft_test.h"

static jmp_buf case_end;
static bool in_case;
static char verdict[1024];
static enum { V_OK, V_FAIL, V_SKIP } outcome;
static bool seed_given;
static uint64_t seed_value;
static const char *program;
static bool seed_noted;
static uint64_t noted_seed;
static unsigned int case_index;

bool test_bail_aborts;

void
test_fail(const char *file, int line, const char *fmt, ...)
{
	char msg[768];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	snprintf(verdict, sizeof(verdict), "%s:%d: %s", file, line, msg);
	outcome = V_FAIL;
	if (!in_case) {
		printf("Bail out! %s\n", verdict);
		fflush(stdout);
		if (test_bail_aborts)
			abort();
		_exit(1);
	}
	longjmp(case_end, 1);
}

void
test_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(verdict, sizeof(verdict), fmt, ap);
	va_end(ap);
	outcome = V_SKIP;
	longjmp(case_end, 1);
}

void
test_note(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

uint64_t
test_seed(uint64_t dflt)
{
	return seed_given ? seed_value : dflt;
}

bool
test_seed_given(void)
{
	return seed_given;
}

uint64_t
test_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

unsigned int
test_case_index(void)
{
	return case_index;
}

void
test_seed_note(uint64_t seed)
{
	seed_noted = true;
	noted_seed = seed;
}

void
test_check_mem(const char *file, int line, const char *what, const void *a, const void *b,
               size_t len)
{
	const uint8_t *x = a, *y = b;

	for (size_t i = 0; i < len; i++)
		if (x[i] != y[i])
			test_fail(file, line, "%s: octet %zu of %zu: 0x%02x != 0x%02x", what, i,
			          len, x[i], y[i]);
}

void
test_eal_init(void)
{
	static bool done;
	static char lcores[32];
	/* EAL permutes this array and keeps pointers into it. */
	static const char *const args[] = {
	        "weft-test",
	        "--no-huge",
	        "--no-pci",
	        "--no-shconf",
	        "--no-telemetry",
	        "-m",
	        "256",
	        "--log-level",
	        "lib.eal:error",
	        "--lcores",
	        lcores,
#ifdef __SANITIZE_THREAD__
	        "--mbuf-pool-ops-name",
	        "tsan_pool",
#endif
	};
	static char copy[RTE_DIM(args)][40], *argv[RTE_DIM(args) + 1];
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	if (done)
		return;
	/* One lcore that may run on every CPU, because several tests run at the same time. */
	snprintf(lcores, sizeof(lcores), n > 1 ? "0@0-%ld" : "0@0", n - 1);
	for (unsigned int i = 0; i < RTE_DIM(args); i++) {
		snprintf(copy[i], sizeof(copy[i]), "%s", args[i]);
		argv[i] = copy[i];
	}
	if (rte_eal_init(RTE_DIM(args), argv) < 0)
		test_fail(__FILE__, __LINE__, "rte_eal_init: %s", rte_strerror(rte_errno));
	done = true;
}

static bool
selected(const char *name, char **want, int nwant)
{
	if (nwant == 0)
		return true;
	for (int i = 0; i < nwant; i++)
		if (strncmp(name, want[i], strlen(want[i])) == 0)
			return true;
	return false;
}

int
test_main(int argc, char **argv, const struct weft_test_case *cases, unsigned int n)
{
	const char *env = getenv("WEFT_TEST_SEED");
	char *want[64];
	volatile int nwant = 0;
	/* volatile: the values must survive longjmp(). */
	volatile unsigned int number = 0, failed = 0;

	program = argv[0];
	if (env != NULL && *env != '\0') {
		seed_given = true;
		seed_value = strtoull(env, NULL, 0);
	}
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (unsigned int i = 0; i < n; i++)
			printf("%s\n", cases[i].name);
		return 0;
	}
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
			seed_given = true;
			seed_value = strtoull(argv[++i], NULL, 0);
		} else if (nwant < 64) {
			want[nwant++] = argv[i];
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (volatile unsigned int i = 0; i < n; i++) {
		if (!selected(cases[i].name, want, nwant))
			continue;
		number++;
		case_index = i;
		outcome = V_OK;
		verdict[0] = '\0';
		seed_noted = false;
		in_case = true;
		if (setjmp(case_end) == 0)
			cases[i].fn();
		in_case = false;
		switch (outcome) {
		case V_OK:
			printf("ok %u %s\n", number, cases[i].name);
			break;
		case V_SKIP:
			printf("ok %u %s # SKIP %s\n", number, cases[i].name, verdict);
			break;
		case V_FAIL:
			failed++;
			printf("not ok %u %s\n# %s\n", number, cases[i].name, verdict);
			if (seed_noted)
				printf("# replay: %s '%s' --seed %" PRIu64 "\n", program,
				       cases[i].name, noted_seed);
			break;
		}
	}
	printf("1..%u\n", number);
	return failed == 0 ? 0 : 1;
}

uint8_t *
test_heap_copy(const void *p, size_t n)
{
	uint8_t *copy = malloc(n > 0 ? n : 1);

	CHECK(copy != NULL);
	memcpy(copy, p, n);
	return copy;
}
