/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A record on another machine's medium that is replaced whole or not at all, whatever dies when.
 *
 *     commit server DEV OUR-ADDRESS/PREFIX FILE
 *     commit client DEV OUR-ADDRESS/PREFIX SERVER TEXT
 *
 * The file has a commit word and two places for the record. The word counts the commits; the place
 * that counts is word % 2. The client writes the other place and then changes the word, all in one
 * weft_commit(): Write, Flush, Verify, Atomic Write of the word, Flush of the word. No code of the
 * server runs for it.
 *
 * A client builds on the word of the client before it. This takes three steps ("Before building on
 * a commit word" in weft/commit.h): the server ends the former client's grant (end_grant()), the
 * client flushes the word, and then reads it (last_commit()). The server serves one client after
 * the other, until it is killed.
 */

#include "example.h"

#define WORD_TO     0
#define PLACE_BYTES 4096
#define PLACE_TO(n) (PLACE_BYTES * (1 + (n) % 2))
#define FILE_BYTES  (3 * PLACE_BYTES)

static void
freed(void *arg)
{
	*(bool *)arg = true;
}

/**
 * Step 1. The former client's operations may still be under way: a Write or an Atomic Write that
 * arrived, a Flush on a slow medium. An Atomic Write is not conditional, so a late one would
 * replace the word of the next client. Only the owner of the memory can end this: it deregisters
 * the region, whose STag is invalid from then on, and waits for freed(). The next client gets
 * another registration, with an STag of its own.
 */
static void
end_grant(struct example *ex, struct weft_mr *mr)
{
	bool is_free = false;

	weft_qp_destroy(ex->qp);
	MUST(weft_mr_dereg(mr, freed, &is_free) == 0);
	example_wait(ex, &is_free);
}

static void
server(struct example *ex, const char *path)
{
	struct weft_persist_attr pa = {.size = sizeof(pa),
	                               .driver = "file",
	                               .path = path,
	                               .bytes = FILE_BYTES,
	                               .create = true,
	                               .numa_node = -1};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = FILE_BYTES,
	                          .access = WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |
	                                    WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_VERIFY,
	                          .hash = "crc32c"};
	struct weft_persist *medium;
	struct weft_mr *mr;
	uint64_t word;
	uint32_t stag;

	MUST(weft_persist_open(&pa, &medium) == 0);
	memcpy(&word, (char *)medium->base + WORD_TO, sizeof(word));
	printf("the medium has commit %llu: %s\n", (unsigned long long)word,
	       (char *)medium->base + PLACE_TO(word));
	ma.addr = medium->base;
	ma.persist = medium;
	for (;;) {
		MUST(weft_mr_reg(ex->pd, &ma, &mr) == 0);
		stag = weft_mr_stag(mr);
		example_accept(ex, NULL, 0, &stag, sizeof(stag));
		(void)example_event(ex, WEFT_EV_DISCONNECTED);
		end_grant(ex, mr);
	}
}

/**
 * Steps 2 and 3: the number of the last commit. The word may be in the server's memory and not on
 * its medium: the client before us may have died between its Atomic Write and the Flush behind it.
 * To build on such a word is wrong, since a power cut takes it back. So it is flushed first, and
 * then read.
 */
static uint64_t
last_commit(struct example *ex, uint32_t stag)
{
	static uint64_t word;
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = &word,
	                          .len_bytes = sizeof(word),
	                          .access = WEFT_ACCESS_LOCAL_WRITE};
	struct weft_sge sink = {.addr = &word, .len_bytes = sizeof(word)};
	struct weft_mr *mr;

	MUST(weft_mr_reg(ex->pd, &ma, &mr) == 0);
	sink.lkey = weft_mr_stag(mr);

	struct weft_wr wr[] = {
	        {.opcode = WEFT_WR_FLUSH,
	         .flags = WEFT_WR_SIGNALED,
	         .flush = {.stag = stag,
	                   .to = WORD_TO,
	                   .len_bytes = sizeof(word),
	                   .flags = WEFT_FLUSH_PERSISTENT}},
	        {.opcode = WEFT_WR_READ,
	         .flags = WEFT_WR_SIGNALED,
	         .sg_list = &sink,
	         .num_sge = 1,
	         .rdma = {.stag = stag, .to = WORD_TO}},
	};

	MUST(weft_post_send(ex->qp, wr, 2) == 2);
	(void)example_completion(ex);
	(void)example_completion(ex);
	return word;
}

static void
client(struct example *ex, const char *host, const char *text)
{
	static char record[PLACE_BYTES];
	struct weft_sge sg = {.addr = record, .len_bytes = sizeof(record)};
	struct weft_commit_range range = {.sg_list = &sg, .num_sge = 1};
	struct weft_commit commit = {.ranges = &range, .num_ranges = 1, .word = {.to = WORD_TO}};
	uint8_t hash[4];
	uint64_t next;
	uint32_t stag;

	example_connect(ex, host, &stag, sizeof(stag));
	next = last_commit(ex, stag) + 1;
	snprintf(record, sizeof(record), "%s", text);
	/* A range is not atomic: what a crash leaves of it is any part. So it goes where nothing
	 * counts. */
	range.stag = commit.word.stag = stag;
	range.to = PLACE_TO(next);
	/* What the medium must have before the word may change. */
	MUST(weft_commit_hash("crc32c", NULL, 0, &sg, 1, hash, sizeof(hash)) == sizeof(hash));
	range.expect = hash;
	range.expect_bytes = sizeof(hash);
	memcpy(commit.word.data, &next, sizeof(next));
	MUST(weft_commit(ex->qp, &commit) == 0);
	(void)example_completion(ex);
	/* From here on no crash of either side undoes it. */
	printf("commit %llu is durable: %s\n", (unsigned long long)next, record);
	MUST(weft_disconnect(ex->qp) == 0);
	(void)example_event(ex, WEFT_EV_DISCONNECTED);
}

int
main(int argc, char **argv)
{
	struct example ex = {0};

	if (argc < 5 || (strcmp(argv[1], "server") == 0) != (argc == 5)) {
		fputs("usage: commit server DEV CIDR FILE | commit client DEV CIDR SERVER TEXT\n",
		      stderr);
		return 2;
	}
	example_open(&ex, argv[2], argv[3]);
	if (argc == 5)
		server(&ex, argv[4]);
	else
		client(&ex, argv[4], argv[5]);
	example_close(&ex);
	return 0;
}
