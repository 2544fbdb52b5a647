/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Prints rows in perftest's columns, within the width of a terminal. */

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "perf.h"
#include "table.h"
#include "wrap.h"

#define TABLE_COLUMNS 11
#define TABLE_INDENT  8 /**< of a row's second line */

bool perf_gbits;

/** One column: its heading is as wide as its figures, unless these are very large. */
struct table_cell {
	const char *head;
	char text[32];
};

/** Print a row. Each text but the first ends where its heading ends; one that is wider moves the
 * next ones only as far as the blanks between them do not suffice. */
static void
table_line(FILE *f, const struct table_cell *cells, unsigned int n, bool head)
{
	const unsigned int width = wrap_width(f);
	size_t at = 0, end = 0;

	for (unsigned int i = 0; i < n; i++) {
		const char *text = head ? cells[i].head : cells[i].text;
		const size_t w = strlen(cells[i].head), len = strlen(text);
		size_t pad = 1;

		if (i > 0 && width != 0 && end + 1 + w > width) {
			fputc('\n', f);
			at = 0;
			end = TABLE_INDENT - 1;
		}
		end += 1 + w;
		/* The first column begins in the second place of the line, as perftest's does. */
		if (i > 0 && end > at + len)
			pad = end - at - len;
		if (len > 0) {
			fprintf(f, "%*s%s", (int)pad, "", text);
			at += pad + len;
		}
	}
	fputc('\n', f);
	fflush(f);
}

static struct table_cell *
table_put(struct table_cell *cells, unsigned int *n, const char *head)
{
	struct table_cell *c = &cells[(*n)++];

	c->head = head;
	c->text[0] = '\0';
	return c;
}

static void
table_put_dbl(struct table_cell *cells, unsigned int *n, const char *head, double v, int decimals)
{
	struct table_cell *c = table_put(cells, n, head);

	snprintf(c->text, sizeof(c->text), "%.*f", decimals, v);
}

static double
bw(double mbps)
{
	return perf_gbits ? mbps * 8 / 1e3 : mbps;
}

static const char *
head_average(void)
{
	return perf_gbits ? "BW average[Gb/sec]" : "BW average[MB/sec]";
}

/** The columns of a result. */
static unsigned int
table_cells(const struct perf_result *r, struct table_cell *cells)
{
	struct table_cell *c;
	unsigned int n = 0;

	table_put_dbl(cells, &n, "#bytes", perf_mean_bytes(&r->job), 0);
	c = table_put(cells, &n, "#iterations");
	snprintf(c->text, sizeof(c->text), "%" PRIu64, r->iterations);
	if (r->job.latency) {
		table_put_dbl(cells, &n, "t_min[usec]", r->lat_min_us, 2);
		table_put_dbl(cells, &n, "t_max[usec]", r->lat_max_us, 2);
		table_put_dbl(cells, &n, "t_typical[usec]", r->lat_typical_us, 2);
		table_put_dbl(cells, &n, "t_avg[usec]", r->lat_avg_us, 2);
		table_put_dbl(cells, &n, "t_stdev[usec]", r->lat_stdev_us, 2);
		table_put_dbl(cells, &n, "99% percentile[usec]", r->lat_p99_us, 2);
		table_put_dbl(cells, &n, "99.9% percentile[usec]", r->lat_p999_us, 2);
	} else {
		table_put_dbl(cells, &n, perf_gbits ? "BW peak[Gb/sec]" : "BW peak[MB/sec]",
		              bw(r->peak_mbps), 2);
		table_put_dbl(cells, &n, head_average(), bw(r->avg_mbps), 2);
		table_put_dbl(cells, &n, "MsgRate[Mpps]", r->mmsgs, 6);
	}
	c = table_put(cells, &n, "cycles/msg");
	if (isnan(r->cycles_per_msg))
		strcpy(c->text, "-");
	else
		snprintf(c->text, sizeof(c->text), "%.0f", r->cycles_per_msg);
	if (r->round != 0) {
		c = table_put(cells, &n, "round");
		snprintf(c->text, sizeof(c->text), "%" PRIu32, r->round);
	}
	return n;
}

void
perf_print_head(FILE *f, const struct perf_job *job, bool rounds)
{
	struct table_cell cells[TABLE_COLUMNS];
	const struct perf_result none = {.job = *job, .round = rounds};

	table_line(f, cells, table_cells(&none, cells), true);
}

void
perf_print_row(FILE *f, const struct perf_result *r)
{
	struct table_cell cells[TABLE_COLUMNS];

	table_line(f, cells, table_cells(r, cells), false);
}

static void
print_direction(FILE *f, const char *name, double mbps, double mmsgs)
{
	struct table_cell cells[TABLE_COLUMNS];
	unsigned int n = 0;

	table_put(cells, &n, "#bytes");
	strcpy(table_put(cells, &n, "#iterations")->text, name);
	table_put(cells, &n, "BW peak[MB/sec]");
	table_put_dbl(cells, &n, head_average(), bw(mbps), 2);
	table_put_dbl(cells, &n, "MsgRate[Mpps]", mmsgs, 6);
	table_line(f, cells, n, false);
}

void
perf_print_both(FILE *f, const struct perf_result *r)
{
	print_direction(f, "sent", r->sent_mbps, r->sent_mmsgs);
	print_direction(f, "received", r->received_mbps, r->received_mmsgs);
}
