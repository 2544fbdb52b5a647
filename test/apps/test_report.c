/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reports of the programs: histogram, JSON, readable numbers, and weft:// addresses. */

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "hist.h"
#include "json.h"
#include "ui.h"
#include "url.h"
#include "weft_test.h"

static struct hist h, g;

static void
check_near(uint64_t got, uint64_t want)
{
	uint64_t diff = got > want ? got - want : want - got;

	CHECK_MSG(diff <= want / 128, "%" PRIu64 " is not near %" PRIu64, got, want);
}

static void
test_hist(void)
{
	memset(&h, 0, sizeof(h));
	CHECK_EQ(hist_pct(&h, 50), 0);
	CHECK_EQ(hist_mode(&h), 0);
	hist_add(&h, 1234567);
	for (int p = 0; p <= 100; p += 10)
		CHECK_EQ(hist_pct(&h, p), 1234567);
	CHECK_EQ(hist_mode(&h), 1234567);
	memset(&h, 0, sizeof(h));
	/* Small values are exact. */
	for (uint64_t v = 1; v <= 100; v++)
		hist_add(&h, v);
	CHECK_EQ(hist_pct(&h, 0), 1);
	CHECK_EQ(hist_pct(&h, 1), 1);
	CHECK_EQ(hist_pct(&h, 50), 50);
	CHECK_EQ(hist_pct(&h, 99), 99);
	CHECK_EQ(hist_pct(&h, 99.5), 100);
	CHECK_EQ(hist_pct(&h, 100), 100);
	CHECK(fabs(hist_mean(&h) - 50.5) < 1e-9);
	CHECK(fabs(hist_stdev(&h) - 28.86607) < 1e-4);
	memset(&h, 0, sizeof(h));
	memset(&g, 0, sizeof(g));
	for (uint64_t v = 1; v <= 100000; v++)
		hist_add(v % 2 ? &h : &g, v * 1000);
	hist_merge(&h, &g);
	CHECK_EQ(h.n, 100000);
	CHECK_EQ(h.min, 1000);
	CHECK_EQ(h.max, 100000000);
	for (int p = 1; p < 100; p++)
		check_near(hist_pct(&h, p), (uint64_t)p * 1000000);
	check_near(hist_pct(&h, 99.9), 99900000);
	/* The largest values. */
	memset(&h, 0, sizeof(h));
	hist_add(&h, 0);
	hist_add(&h, UINT64_MAX);
	hist_add(&h, UINT64_MAX - 1);
	CHECK_EQ(hist_pct(&h, 10), 0);
	check_near(hist_pct(&h, 60), UINT64_MAX);
	CHECK_EQ(hist_pct(&h, 100), (long long)UINT64_MAX);
}

/* Every value is in a bucket whose middle differs by at most 1/128. */
static void
test_hist_buckets(void)
{
	for (int bit = 0; bit < 64; bit++) {
		for (int d = -3; d <= 3; d++) {
			uint64_t v = (1ULL << bit) + (uint64_t)(int64_t)d;

			memset(&h, 0, sizeof(h));
			hist_add(&h, v);
			h.min = 0; /* otherwise the answer is clamped to the sample */
			h.max = UINT64_MAX;
			hist_add(&h, UINT64_MAX);
			check_near(hist_pct(&h, 50), v);
		}
	}
}

static char *
json_sample(void (*fill)(struct json *j))
{
	static char *text;
	size_t len;
	struct json j;
	FILE *f;

	free(text);
	text = NULL;
	f = open_memstream(&text, &len);
	CHECK(f != NULL);
	json_start(&j, f);
	fill(&j);
	json_finish(&j);
	fclose(f);
	return text;
}

static void
fill_all(struct json *j)
{
	json_obj(j, NULL);
	json_str(j, "s", "a\"b\\c\n\t\x01/");
	json_str(j, "null", NULL);
	json_u64(j, "u", UINT64_MAX);
	json_i64(j, "i", INT64_MIN);
	json_dbl(j, "d", 1.25, 2);
	json_dbl(j, "nan", NAN, 2);
	json_dbl(j, "inf", INFINITY, 2);
	json_bool(j, "t", true);
	json_arr(j, "a");
	json_u64(j, NULL, 1);
	json_obj(j, NULL);
	json_obj_end(j);
	json_arr(j, NULL);
	json_arr_end(j);
	json_arr_end(j);
	json_bool(j, "f", false);
	json_obj_end(j);
}

static void
fill_utf8(struct json *j)
{
	json_arr(j, NULL);
	json_str(j, NULL, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"); /* well-formed: unchanged */
	json_str(j, NULL,
	         "\xff"
	         "a"
	         "\xc3"); /* no lead octet, truncated */
	json_str(j, NULL,
	         /* overlong, surrogate, out of range */
	         "\xc0\x80|\xed\xa0\x80|\xf4\x90\x80\x80|\xe0\x80\x80");
	json_arr_end(j);
}

static void
fill_empty(struct json *j)
{
	json_arr(j, NULL);
	json_arr_end(j);
}

static void
test_json(void)
{
	CHECK_STR(json_sample(fill_all), "{\n"
	                                 "  \"s\": \"a\\\"b\\\\c\\n\\t\\u0001/\",\n"
	                                 "  \"null\": null,\n"
	                                 "  \"u\": 18446744073709551615,\n"
	                                 "  \"i\": -9223372036854775808,\n"
	                                 "  \"d\": 1.25,\n"
	                                 "  \"nan\": null,\n"
	                                 "  \"inf\": null,\n"
	                                 "  \"t\": true,\n"
	                                 "  \"a\": [\n"
	                                 "    1,\n"
	                                 "    {},\n"
	                                 "    []\n"
	                                 "  ],\n"
	                                 "  \"f\": false\n"
	                                 "}\n");
	CHECK_STR(json_sample(fill_empty), "[]\n");
	CHECK_STR(json_sample(fill_utf8),
	          "[\n"
	          "  \"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\",\n"
	          "  \"\\ufffda\\ufffd\",\n"
	          "  \"\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd\\ufffd|"
	          "\\ufffd\\ufffd\\ufffd\"\n"
	          "]\n");
}

static void
test_figures(void)
{
	char b[32];
	uint64_t v;

	CHECK_STR(ui_bytes(0, b, sizeof(b)), "0 B");
	CHECK_STR(ui_bytes(1023, b, sizeof(b)), "1023 B");
	CHECK_STR(ui_bytes(1024, b, sizeof(b)), "1.00 KiB");
	CHECK_STR(ui_bytes(3 << 19, b, sizeof(b)), "1.50 MiB");
	CHECK_STR(ui_bytes(UINT64_MAX, b, sizeof(b)), "16.00 EiB");
	CHECK_STR(ui_time(999, b, sizeof(b)), "999 ns");
	CHECK_STR(ui_time(12345, b, sizeof(b)), "12.3 us");
	CHECK_STR(ui_time(4560000, b, sizeof(b)), "4.56 ms");
	CHECK_STR(ui_time(1230000000, b, sizeof(b)), "1.23 s");
	CHECK_EQ(ui_parse_u64("42", 1, 100, &v), 0);
	CHECK_EQ(v, 42);
	CHECK_EQ(ui_parse_u64("0", 1, 100, &v), -ERANGE);
	CHECK_EQ(ui_parse_u64("101", 1, 100, &v), -ERANGE);
	CHECK_EQ(ui_parse_u64("99999999999999999999", 0, UINT64_MAX, &v), -ERANGE);
	CHECK_EQ(ui_parse_u64("", 0, 100, &v), -EINVAL);
	CHECK_EQ(ui_parse_u64("-1", 0, 100, &v), -EINVAL);
	CHECK_EQ(ui_parse_u64("+1", 0, 100, &v), -EINVAL);
	CHECK_EQ(ui_parse_u64(" 1", 0, 100, &v), -EINVAL);
	CHECK_EQ(ui_parse_u64("1x", 0, 100, &v), -EINVAL);
}

static void
test_url(void)
{
	static const struct {
		const char *text, *host, *export_name;
		int port;
	} good[] = {
	        {"weft://10.0.0.1/demo", "10.0.0.1", "demo", 7471},
	        {"weft://10.0.0.1:99/demo", "10.0.0.1", "demo", 99},
	        {"weft://[fd00::1]/x", "[fd00::1]", "x", 7471},
	        {"weft://[fe80::1]:65535", "[fe80::1]", "", 65535},
	        {"weft://host.example:65535/a.b-c_d", "host.example", "a.b-c_d", 65535},
	        {"weft://h", "h", "", 7471},
	        {"weft://h/", "h", "", 7471},
	        {"weft://h:1", "h", "", 1},
	};
	static const struct {
		const char *text, *why;
	} bad[] = {
	        {"/etc/passwd", "does not begin with weft://"},
	        {"weft:/x/y", "does not begin with weft://"},
	        {"weft://", "no host"},
	        {"weft:///x", "no host"},
	        {"weft://:7471/x", "no host"},
	        {"weft://h:/x", "bad port (1 to 65535)"},
	        {"weft://h:0/x", "bad port (1 to 65535)"},
	        {"weft://h:65536/x", "bad port (1 to 65535)"},
	        {"weft://h:12345678901234567890/x", "bad port (1 to 65535)"},
	        {"weft://h:7a/x", "bad port (1 to 65535)"},
	        {"weft://h:1:2/x", "bad port (1 to 65535)"},
	        {"weft://[::1/x", "bad IPv6 address ([fd00::1])"},
	        {"weft://[::1]x/x", "bad IPv6 address ([fd00::1])"},
	        {"weft://[]/x", "bad IPv6 address ([fd00::1])"},
	        {"weft://[fd00::1::2]:1/x", "bad IPv6 address ([fd00::1])"},
	        {"weft://[10.0.0.1]/x", "bad IPv6 address ([fd00::1])"},
	        {"weft://[fd00::1]:0/x", "bad port (1 to 65535)"},
	        {"weft://u@h/x", "bad host"},
	        {"weft://h h/x", "bad host"},
	        {"weft://h/a/b", "an export's name has no '/'"},
	};
	char err[512], want[512], longer[1024];
	struct url u;

	for (unsigned int i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CHECK_MSG(url_parse(good[i].text, &u, err, sizeof(err)) == 0, "%s", err);
		CHECK_STR(u.host, good[i].host);
		CHECK_STR(u.export_name, good[i].export_name);
		CHECK_EQ(u.port, good[i].port);
	}
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(url_parse(bad[i].text, &u, err, sizeof(err)), -EINVAL);
		snprintf(want, sizeof(want), "%s: %s; write weft://HOST[:PORT]/EXPORT", bad[i].text,
		         bad[i].why);
		CHECK_STR(err, want);
	}
	snprintf(longer, sizeof(longer), "weft://%0256d/x", 1);
	CHECK_EQ(url_parse(longer, &u, err, sizeof(err)), -EINVAL);
	snprintf(longer, sizeof(longer), "weft://h/%0256d", 1);
	CHECK_EQ(url_parse(longer, &u, err, sizeof(err)), -EINVAL);
	CHECK(url_is("weft://x"));
	CHECK(!url_is("./weft://x"));
}

static void
test_printable(void)
{
	static const struct {
		const char *in, *out;
	} t[] = {
	        {"plain text", "plain text"},
	        {"\033[2J\r\n\x7f", "?[2J???"},
	        {"Gr\xc3\xbc\xc3\x9f"
	         "e",
	         "Gr\xc3\xbc\xc3\x9f"
	         "e"},
	        {"\xc2\x9b"
	         "1m",
	         "??1m"},
	        {"\x9b"
	         "1m\x80\x85",
	         "?1m??"},
	        {"\xed\xa0\x80 \xe2\x82", "??? ??"},
	        {"\xe2\x82\xac \xf0\x9f\x92\xbe", "\xe2\x82\xac \xf0\x9f\x92\xbe"},
	};
	char buf[64];

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		CHECK_STR(ui_printable(t[i].in, buf, sizeof(buf)), t[i].out);
		/* In place as well. */
		strcpy(buf, t[i].in);
		CHECK_STR(ui_printable(buf, buf, sizeof(buf)), t[i].out);
	}
	CHECK_STR(ui_printable("cut here", buf, 4), "cut");
	CHECK_STR(ui_printable("cu\xc3\xbc", buf, 4), "cu");
}

WEFT_TEST_MAIN({"printable", test_printable}, {"hist", test_hist},
               {"hist_buckets", test_hist_buckets}, {"json", test_json}, {"figures", test_figures},
               {"url", test_url})
