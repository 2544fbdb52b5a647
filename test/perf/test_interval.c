/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The ratio of two samples and its interval, against values found in another way: counting
 * all arrangements, tables of Mann and Whitney's test, and simulation. */

#include <math.h>

#include "interval.h"
#include "test_xorshift.h"
#include "weft_test.h"

#define NEAR(a, b) CHECK_MSG(fabs((a) - (b)) < 1e-9, "%.12g and %.12g", (double)(a), (double)(b))

static void
test_median(void)
{
	double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};

	NEAR(interval_median(odd, 3), 2);
	NEAR(interval_median(even, 4), 2.5);
	NEAR(interval_median(one, 1), 7);
}

/** Figures whose pairs have ratios that are all different: A is 2^i, B is f * 3^j. */
static void
powers(double *a, unsigned int na, double *b, unsigned int nb, double f)
{
	for (unsigned int i = 0; i < na; i++)
		a[i] = pow(2, i);
	for (unsigned int j = 0; j < nb; j++)
		b[j] = f * pow(3, j);
}

/** Number of pairs left out at one end, found from the interval's end. */
static unsigned int
cut_of(unsigned int na, unsigned int nb, struct interval *is)
{
	double a[64], b[64];
	unsigned int n = 0;

	powers(a, na, b, nb, 1.1);
	CHECK_EQ(interval_ratio(a, na, b, nb, is), 0);
	CHECK(is->valid && is->bounded);
	for (unsigned int i = 0; i < na; i++)
		for (unsigned int j = 0; j < nb; j++)
			n += b[j] / a[i] <= is->low;
	return n;
}

/** Of all ways in which na values of A lie among nb of B, count those with at most `u` pairs in
 * which A's is the greater one. */
static double
share_up_to(unsigned int na, unsigned int nb, unsigned int u)
{
	unsigned int all = 0, few = 0;

	for (uint32_t mask = 0; mask < 1u << (na + nb); mask++) {
		unsigned int pairs = 0, below = 0;

		if ((unsigned int)__builtin_popcount(mask) != na)
			continue;
		for (unsigned int i = 0; i < na + nb; i++) {
			if (mask >> i & 1)
				pairs += below;
			else
				below++;
		}
		all++;
		few += pairs <= u;
	}
	return (double)few / all;
}

/** The interval leaves out as many pairs as it may: one more would leave too little confidence. */
static void
test_counted(void)
{
	for (unsigned int na = 5; na <= 8; na++) {
		for (unsigned int nb = 5; nb <= 9; nb++) {
			struct interval is;
			const unsigned int cut = cut_of(na, nb, &is);

			CHECK(cut > 0);
			NEAR(is.level, 1 - 2 * share_up_to(na, nb, cut - 1));
			CHECK(is.level >= 0.95);
			CHECK(2 * share_up_to(na, nb, cut) > 0.05);
		}
	}
}

/** Critical values of U at 5 %, two-sided, from printed tables: one less than the pairs left
 * out. */
static void
test_tables(void)
{
	static const unsigned int t[][3] = {{5, 5, 2},    {5, 8, 6},    {7, 7, 8},
	                                    {8, 8, 13},   {10, 10, 23}, {10, 15, 39},
	                                    {15, 15, 64}, {20, 20, 127}};
	struct interval is;

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		CHECK_EQ(cut_of(t[i][0], t[i][1], &is), t[i][2] + 1);
		CHECK_EQ(cut_of(t[i][1], t[i][0], &is), t[i][2] + 1);
	}
}

/** Above 60 rounds the normal approximation continues what is exact up to there. */
static void
test_many(void)
{
	struct interval exact, near;
	const unsigned int cut60 = cut_of(60, 60, &exact), cut61 = cut_of(60, 61, &near);
	/* mean and deviation of U for 60 and 60, by their formulas */
	const double u = 1800 - 1.96 * sqrt(60.0 * 60 * 121 / 12);

	CHECK_MSG(fabs(cut60 - u) <= 2, "%u and %.1f", cut60, u);
	CHECK_MSG(cut61 >= cut60 && cut61 <= cut60 + 30, "%u and %u", cut61, cut60);
	CHECK(exact.level >= 0.95 && exact.level < 0.952);
}

/** A ratio that is known: B is A times 1.25 in each round. */
static void
test_known_ratio(void)
{
	double a[7], b[7];
	struct interval is;

	for (unsigned int i = 0; i < 7; i++) {
		a[i] = 100 + i;
		b[i] = a[i] * 1.25;
	}
	CHECK_EQ(interval_ratio(a, 7, b, 7, &is), 0);
	NEAR(is.ratio, 1.25);
	CHECK(is.low < 1.25 && is.high > 1.25 && is.low > 1.19 && is.high < 1.32);
	/* exchanged, ratio and interval are the reciprocals */
	CHECK_EQ(interval_ratio(b, 7, a, 7, &is), 0);
	NEAR(is.ratio, 0.8);
	CHECK(is.high < 1 / 1.19 && is.low > 1 / 1.32);
}

static void
test_equal(void)
{
	double a[] = {5, 5, 5, 5, 5};
	struct interval is;

	CHECK_EQ(interval_ratio(a, 5, a, 5, &is), 0);
	CHECK(is.valid && is.bounded);
	NEAR(is.ratio, 1);
	NEAR(is.low, 1);
	NEAR(is.high, 1);
}

static void
test_few(void)
{
	double a[] = {1, 2, 3, 4, 5}, b[] = {2, 4, 6, 8, 10};
	struct interval is;

	CHECK_EQ(interval_ratio(a, 4, b, 5, &is), 0);
	CHECK(is.valid && !is.bounded);
	CHECK_EQ(interval_ratio(a, 5, b, 4, &is), 0);
	CHECK(is.valid && !is.bounded);
	CHECK_EQ(interval_ratio(a, 1, b, 1, &is), 0);
	NEAR(is.ratio, 2);
	CHECK_EQ(interval_ratio(a, 5, b, 5, &is), 0);
	CHECK(is.bounded);
}

static void
test_no_ratio(void)
{
	double good[] = {1, 1, 1, 1, 1}, bad[] = {1, 1, 0, 1, 1};
	const double worse[] = {0, -1, INFINITY, NAN};
	struct interval is;

	for (unsigned int i = 0; i < 4; i++) {
		bad[2] = worse[i];
		CHECK_EQ(interval_ratio(good, 5, bad, 5, &is), 0);
		CHECK(!is.valid && !is.bounded);
		CHECK_EQ(interval_ratio(bad, 5, good, 5, &is), 0);
		CHECK(!is.valid && !is.bounded);
	}
	CHECK_EQ(interval_ratio(good, 5, good, 0, &is), 0);
	CHECK(!is.valid);
}

/** 4000 comparisons with a known factor and skewed noise: the interval has the factor as often as
 * it promises. */
static void
test_coverage(void)
{
	const uint64_t seed = test_seed(19);
	uint64_t x = seed;
	unsigned int in = 0, runs = 4000;

	test_seed_note(seed);
	for (unsigned int r = 0; r < runs; r++) {
		double a[7], b[5];
		struct interval is;

		for (unsigned int i = 0; i < 12; i++) {
			const double u = (double)(test_xorshift(&x) >> 11) / 9007199254740992.0;
			const double v = 100 * exp(-log(1 - u) * 0.05);

			if (i < 7)
				a[i] = v;
			else
				b[i - 7] = 1.07 * v;
		}
		CHECK_EQ(interval_ratio(a, 7, b, 5, &is), 0);
		in += is.low <= 1.07 && 1.07 <= is.high;
	}
	/* 95.2 % are promised for 7 and 5 rounds; four standard deviations are 1.4 % */
	CHECK_MSG(in >= runs * 0.938 && in <= runs * 0.966, "%u of %u", in, runs);
}

WEFT_TEST_MAIN({"median", test_median}, {"all arrangements counted", test_counted},
               {"printed tables", test_tables}, {"many rounds", test_many},
               {"a known ratio", test_known_ratio}, {"equal figures", test_equal},
               {"too few rounds have no interval", test_few},
               {"figures without a ratio", test_no_ratio},
               {"the interval has the ratio as often as it says", test_coverage})
