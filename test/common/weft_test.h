/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_H
#define WEFT_TEST_H

/**
 * @file
 * The test harness: a table of cases, TAP on standard output, checks that name
 * the line and the values. A failed check ends its case, not the program.
 *
 *     static void test_something(void) { CHECK_EQ(1 + 1, 2); }
 *     WEFT_TEST_MAIN({"something", test_something}, ...)
 *
 * Arguments of the program select cases by name (prefix); --list prints the names. --seed N (or
 * WEFT_TEST_SEED) replays a seeded case; test_seed() gives it.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct weft_test_case {
	const char *name;
	void (*fn)(void);
};

/** End the case as failed; printf-like. */
void test_fail(const char *file, int line, const char *fmt, ...)
        __attribute__((noreturn, format(printf, 3, 4)));
/** End the case as skipped; say why. */
void test_skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/** Outside a case, a failed check aborts: a fuzzer then keeps the input. */
extern bool test_bail_aborts;
/** A line of diagnostics behind the case's result. */
void test_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** The seed given on the command line, or `dflt`. */
uint64_t test_seed(uint64_t dflt);
/** Whether a seed was given (then a seeded case runs just that one). */
bool test_seed_given(void);
/** The seed of the run that follows: a failure of the case is reported with the command that
 * replays it. */
void test_seed_note(uint64_t seed);
/** EAL without NIC, root, hugepages or files; once per process; fails the program if it cannot. */
void test_eal_init(void);
/** Which of the cases is running: for tables made at run time. */
unsigned int test_case_index(void);
int test_main(int argc, char **argv, const struct weft_test_case *cases, unsigned int n);

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			test_fail(__FILE__, __LINE__, "CHECK(%s)", #cond);                         \
	} while (0)

#define CHECK_MSG(cond, fmt, ...)                                                                  \
	do {                                                                                       \
		if (!(cond))                                                                       \
			test_fail(__FILE__, __LINE__, "CHECK(%s): " fmt, #cond, ##__VA_ARGS__);    \
	} while (0)

#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long a_ = (long long)(a), b_ = (long long)(b);                                \
		if (a_ != b_)                                                                      \
			test_fail(__FILE__, __LINE__, "%s == %s: %lld (0x%llx) != %lld (0x%llx)",  \
			          #a, #b, a_, (unsigned long long)a_, b_, (unsigned long long)b_); \
	} while (0)

#define CHECK_STR(a, b)                                                                            \
	do {                                                                                       \
		const char *a_ = (a), *b_ = (b);                                                   \
		if (strcmp(a_, b_) != 0)                                                           \
			test_fail(__FILE__, __LINE__, "%s == %s: \"%s\" != \"%s\"", #a, #b, a_,    \
			          b_);                                                             \
	} while (0)

/** Octets equal; says where they first differ. */
void test_check_mem(const char *file, int line, const char *what, const void *a, const void *b,
                    size_t len);
#define CHECK_MEM(a, b, len) test_check_mem(__FILE__, __LINE__, #a " == " #b, (a), (b), (len))

#define WEFT_TEST_MAIN(...)                                                                        \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		static const struct weft_test_case cases[] = {__VA_ARGS__};                        \
		return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));             \
	}

#endif /* WEFT_TEST_H */
