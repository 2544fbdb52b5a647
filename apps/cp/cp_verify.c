/* SPDX-License-Identifier: BSD-3-Clause */
/** @file --verify-only of an object: the hashes of the local file's blocks beside those of the
 * object, as the target's Verify makes them of its medium. The commit word has to be the same
 * before and after. */

#include "cp_compare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

#define VERIFY_TRIES 20 /* tries, when a writer commits during each of them */

struct verify {
	struct cp_session *s;
	struct cp_source file;
	struct cp_hash hash;
	struct cp_found found;
	struct expfmt_commit word;
	struct expfmt_slot slot;
};

/** One comparison; -EAGAIN, without a message: the object was replaced meanwhile. */
static int
verify_once(struct verify *v, struct cp_report *r)
{
	struct cp_session *s = v->s;
	struct expfmt_commit again;
	enum expfmt_check c = EXPFMT_OK;
	uint64_t data_to;
	int rc = cp_read_word(s, false, &v->word);

	if (rc != 0)
		return rc;
	if (v->word.generation == 0) {
		s->exit = CP_EXIT_DIFFERS;
		return cp_fail(s, -EILSEQ, "%s: differs: export %s holds nothing yet", v->file.path,
		               s->url.export_name);
	}
	data_to = s->grant.slot_to[v->word.slot] + EXPFMT_HEADER_BYTES;
	rc = cp_read_ctl(s, s->grant.slot_to[v->word.slot], EXPFMT_HEADER_BYTES, CP_CTL_HEADER);
	if (rc == 0)
		c = expfmt_slot_decode(s->ctl + CP_CTL_HEADER, s->grant.capacity_bytes, &v->slot);
	if (rc == 0 && c == EXPFMT_OK)
		rc = cp_compare(s, &v->file, &v->hash, data_to, v->slot.length_bytes, false, false,
		                r, &v->found);
	if (rc == 0)
		rc = cp_read_word(s, false, &again);
	if (rc != 0)
		return rc;
	if (again.generation != v->word.generation || again.slot != v->word.slot)
		return -EAGAIN;
	if (c != EXPFMT_OK || v->slot.generation != v->word.generation)
		return cp_fail(s, -EIO, "%s: export %s is damaged: generation %" PRIu64 ": %s",
		               s->where, s->url.export_name, v->word.generation,
		               c != EXPFMT_OK ? expfmt_check_str(c)
		                              : "its header is of another generation");
	return cp_source_check(s, &v->file);
}

static int
verify_until_still(struct verify *v, struct cp_report *r)
{
	struct cp_session *s = v->s;
	int rc = -EAGAIN;

	for (unsigned int i = 0; rc == -EAGAIN && i < VERIFY_TRIES; i++) {
		if (i > 0 && (v->file.stream || cp_source_rewind(s, &v->file) != 0))
			break;
		rc = verify_once(v, r);
		r->tries = i + 1;
	}
	if (rc == -EAGAIN)
		cp_fail(s, rc, "%s: export %s was replaced while it was compared; try again",
		        s->where, s->url.export_name);
	return rc;
}

int
cp_verify(struct cp_session *s, const char *path, struct cp_report *r)
{
	struct verify *v = calloc(1, sizeof(*v));
	struct weft_qp_info info;
	uint64_t begin_ns;
	int rc;

	if (v == NULL)
		return cp_fail(s, -ENOMEM, "not enough memory");
	v->s = s;
	r->op = "verify";
	rc = cp_source_open(s, &v->file, path, "nothing was compared");
	if (rc == 0)
		rc = cp_connect(s);
	if (rc == 0)
		rc = cp_open(s, WEFT_EXPORT_READ | WEFT_EXPORT_VERIFY, 0);
	if (rc == 0)
		rc = cp_hash_find(s, s->grant.hash, &v->hash);
	begin_ns = ui_now_ns();
	if (rc == 0)
		rc = verify_until_still(v, r);
	if (rc == 0) {
		weft_qp_query(s->qp, &info);
		r->retransmits = info.retrans_segs;
		r->bytes = v->found.equal_bytes;
		r->blocks = v->found.blocks;
		r->generation = v->word.generation;
		r->slot = v->word.slot;
		r->transfer_ns = ui_now_ns() - begin_ns;
		memcpy(r->crc, v->slot.data_crc, sizeof(r->crc));
		cp_close(s);
	}
	if (rc == 0 && v->found.differ_bytes > 0)
		rc = cp_fail_differs(s, v->file.path, &v->found);
	if (rc != -EMEDIUMTYPE)
		cp_end(s);
	cp_source_close(&v->file);
	free(v);
	return rc;
}
