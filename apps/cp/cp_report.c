/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The report of a transfer, as text and as JSON. */

#include "cp.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "json.h"
#include "ui.h"

static double
mb_per_s(const struct cp_report *r)
{
	return r->transfer_ns == 0 ? 0 : (double)r->bytes * 1e3 / (double)r->transfer_ns;
}

static bool
is_verify(const struct cp_report *r)
{
	return r->op[0] == 'v';
}

static bool
is_push(const struct cp_report *r)
{
	return r->op[1] == 'u' && r->op[2] == 's';
}

static const char *
crc_hex(const struct cp_report *r, char buf[2 * EXPFMT_CRC_BYTES + 1])
{
	for (unsigned int i = 0; i < EXPFMT_CRC_BYTES; i++)
		sprintf(buf + 2 * (size_t)i, "%02x", r->crc[i]);
	return buf;
}

static void
report_json(const struct cp_report *r, FILE *out)
{
	char hex[2 * EXPFMT_CRC_BYTES + 1];
	struct json j;

	json_start(&j, out);
	json_obj(&j, NULL);
	json_str(&j, "op", r->op);
	json_str(&j, "source", r->source);
	json_str(&j, "destination", r->destination);
	json_u64(&j, "bytes", r->bytes);
	if (r->resume)
		json_u64(&j, "resumed_bytes", r->resumed_bytes);
	json_dbl(&j, "seconds", (double)r->transfer_ns / 1e9, 6);
	json_dbl(&j, "total_seconds", (double)r->total_ns / 1e9, 6);
	json_dbl(&j, "mb_per_s", mb_per_s(r), 2);
	json_u64(&j, "blocks", r->blocks);
	json_u64(&j, "block_bytes", r->block_bytes);
	json_u64(&j, "depth", r->depth);
	json_obj(&j, "block_latency_us");
	json_dbl(&j, "p50", (double)hist_pct(&r->lat, 50) / 1e3, 1);
	json_dbl(&j, "p99", (double)hist_pct(&r->lat, 99) / 1e3, 1);
	json_dbl(&j, "max", (double)r->lat.max / 1e3, 1);
	json_obj_end(&j);
	if (is_push(r))
		json_str(&j, "way", r->fetched ? "pull" : "push");
	if (is_push(r) && !r->volume && !r->there) {
		json_dbl(&j, "commit_us", (double)r->commit_ns / 1e3, 1);
		json_dbl(&j, "commit_from_post_us", (double)r->commit_post_ns / 1e3, 1);
	}
	json_str(&j, "hash", r->hash);
	if (r->volume) {
		json_u64(&j, "offset", r->offset_bytes);
		json_u64(&j, "hole_bytes", r->holes_bytes);
	} else {
		json_str(&j, "object_crc32c", crc_hex(r, hex));
	}
	if (!is_verify(r)) {
		json_bool(&j, "verified", r->verified);
		json_bool(&j, "flushed", r->flushed);
	}
	json_bool(&j, "persistent", r->persistent);
	json_str(&j, "mechanism", r->mechanism);
	if (!r->volume) {
		json_u64(&j, "generation", r->generation);
		json_u64(&j, "slot", r->slot);
		json_u64(&j, "tries", r->tries);
	}
	json_u64(&j, "retransmits", r->retransmits);
	json_obj_end(&j);
	json_finish(&j);
}

static void
report_text(const struct cp_report *r, FILE *out)
{
	char hex[2 * EXPFMT_CRC_BYTES + 1], b[3][32];
	char hash[WEFT_TEXT_MAX + 1], mech[WEFT_TEXT_MAX + 1];
	char from[PATH_MAX], to[PATH_MAX];

	fprintf(out, "%s -> %s\n", ui_printable(r->source, from, sizeof(from)),
	        ui_printable(r->destination, to, sizeof(to)));
	fprintf(out, "  %-12s %" PRIu64 " octets (%s) in %.6f s, %.1f MB/s\n",
	        is_verify(r) ? "equal"
	        : is_push(r) ? "pushed"
	                     : "pulled",
	        r->bytes, ui_bytes(r->bytes, b[0], sizeof(b[0])), (double)r->transfer_ns / 1e9,
	        mb_per_s(r));
	if (r->resume)
		fprintf(out, "  %-12s %" PRIu64 " octets (%s) were there, by %s%s\n", "resumed",
		        r->resumed_bytes, ui_bytes(r->resumed_bytes, b[0], sizeof(b[0])),
		        ui_printable(r->hash, hash, sizeof(hash)),
		        r->there ? ": the export has this file already" : "");
	if (r->blocks > 0)
		fprintf(out,
		        "  %-12s %" PRIu64
		        " of up to %s, %u in flight, %s: p50 %s, p99 %s, max %s\n",
		        "blocks", r->blocks, ui_bytes(r->block_bytes, b[0], sizeof(b[0])), r->depth,
		        is_verify(r)  ? "post to Verify Response"
		        : !is_push(r) ? "post to completion"
		        : r->fetched  ? (r->verified ? "call to Verify Response" : "call to reply")
		        : r->verified ? "post to Verify Response"
		                      : "post to Flush Response",
		        ui_time(hist_pct(&r->lat, 50), (char[32]){0}, 32),
		        ui_time(hist_pct(&r->lat, 99), b[1], sizeof(b[1])),
		        ui_time(r->lat.max, b[2], sizeof(b[2])));
	if (r->volume) {
		fprintf(out, "  %-12s from octet %" PRIu64 " on%s%s\n", "volume", r->offset_bytes,
		        r->holes_bytes > 0 ? ", with holes of " : "",
		        r->holes_bytes > 0 ? ui_bytes(r->holes_bytes, b[0], sizeof(b[0])) : "");
	} else if (r->there || is_verify(r)) {
		/* nothing was committed */
	} else if (is_push(r) && r->fetched) {
		fprintf(out, "  %-12s %s after the last block's reply\n", "commit",
		        ui_time(r->commit_ns, b[0], sizeof(b[0])));
	} else if (is_push(r)) {
		if (r->blocks == 0)
			fprintf(out, "  %-12s %s after its post\n", "commit",
			        ui_time(r->commit_post_ns, b[1], sizeof(b[1])));
		else if (r->commit_same_poll)
			fprintf(out,
			        "  %-12s together with the last block's %s Response (%s after its "
			        "post)\n",
			        "commit", r->verified ? "Verify" : "Flush",
			        ui_time(r->commit_post_ns, b[1], sizeof(b[1])));
		else
			fprintf(out,
			        "  %-12s %s after the last block's %s Response (%s after its "
			        "post)\n",
			        "commit", ui_time(r->commit_ns, b[0], sizeof(b[0])),
			        r->verified ? "Verify" : "Flush",
			        ui_time(r->commit_post_ns, b[1], sizeof(b[1])));
	}
	if (is_push(r)) {
		if (r->verified)
			fprintf(out, "  %-12s every block%s, %s, by %s\n", "verified",
			        r->volume ? "" : " and the header",
			        r->persistent ? "on the medium"
			                      : "in the target's memory (no medium)",
			        ui_printable(r->hash, hash, sizeof(hash)));
		else
			fprintf(out, "  %-12s nothing (--no-verify)\n", "verified");
	} else if (is_verify(r)) {
		fprintf(out, "  %-12s every block, %s, by %s\n", "verified",
		        r->persistent ? "on the medium" : "in the target's memory (no medium)",
		        ui_printable(r->hash, hash, sizeof(hash)));
	} else if (!r->volume) {
		fprintf(out, "  %-12s object CRC32c good, commit word unchanged (%u %s)\n",
		        "checked", r->tries, r->tries == 1 ? "try" : "tries");
	}
	if (!r->volume)
		fprintf(out, "  %-12s crc32c %s, generation %" PRIu64 ", slot %u\n", "object",
		        crc_hex(r, hex), r->generation, r->slot);
	fprintf(out, "  %-12s %s%s\n", "persistence",
	        ui_printable(r->mechanism, mech, sizeof(mech)),
	        !r->persistent              ? " (not persistent)"
	        : is_push(r) && !r->flushed ? " (nothing was flushed)"
	                                    : "");
	fprintf(out, "  %-12s %" PRIu64 " segments\n", "retransmitted", r->retransmits);
	fflush(out);
}

void
cp_report_print(const struct cp_report *r, bool json, FILE *out)
{
	if (json)
		report_json(r, out);
	else
		report_text(r, out);
}
