/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_H
#define WEFT_TEST_H

/**
 * @file
 * The test harness: a table of cases, TAP on standard output, and checks that report the line and
 * the values. A failed check ends its case. The program continues with the next case.
 *
 *     static void test_something(void) { CHECK_EQ(1 + 1, 2); }
 *     WEFT_TEST_MAIN({"something", test_something}, ...)
 *
 * The program's arguments select cases by a prefix of their names. --list prints the names. --seed
 * N (or WEFT_TEST_SEED) replays a seeded case, which reads the seed with test_seed().
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

/** End the case as failed. fmt is as for printf(). */
void test_fail(const char *file, int line, const char *fmt, ...)
        __attribute__((noreturn, format(printf, 3, 4)));
/** End the case as skipped. fmt gives the reason, as for printf(). */
void test_skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/** True: a check that fails outside a case calls abort(), so that a fuzzer keeps the input. */
extern bool test_bail_aborts;
/** Print a line of diagnostics after the result of the case. */
void test_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** The seed given on the command line or in WEFT_TEST_SEED, or `dflt`. */
uint64_t test_seed(uint64_t dflt);
/** Whether a seed was given. A seeded case then runs with this seed only. */
bool test_seed_given(void);
/** Record the seed of the run that follows. If the case fails, the report has the command that
 * replays it. */
void test_seed_note(uint64_t seed);
/** Start EAL once per process, without NIC, root rights, hugepages or files. If EAL does not start,
 * the program fails. */
void test_eal_init(void);
/** Time in microseconds, for the deadline of a wait for another thread: a number of turns says
 * nothing where the other thread gets no processor. */
uint64_t test_now_us(void);
#define TEST_WAIT_US 20000000u /**< a wait that ends without result after this is a failure */
/** Index of the running case, for tables of cases that are made at run time. */
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

/** Check that two buffers are equal. A failure reports the first octet that differs. */
void test_check_mem(const char *file, int line, const char *what, const void *a, const void *b,
                    size_t len);
#define CHECK_MEM(a, b, len) test_check_mem(__FILE__, __LINE__, #a " == " #b, (a), (b), (len))

#define WEFT_TEST_MAIN(...)                                                                        \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		static const struct weft_test_case cases[] = {__VA_ARGS__};                        \
		return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));             \
	}

/** A copy of exactly n octets on the heap, so that a sanitizer detects an access beyond them. The
 * caller frees it. */
uint8_t *test_heap_copy(const void *p, size_t n);

#endif /* WEFT_TEST_H */
