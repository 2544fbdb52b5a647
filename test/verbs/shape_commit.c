/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Shape 5: transactions. A target grants access to a part of a file. A client replaces a
 * record in the file again and again. At any crash the file holds the whole old record or the whole
 * new one.
 *
 * The record has several places. The commit word counts the replacements, and so tells which place
 * is valid. The client writes another place and then changes the word, all in one weft_commit().
 * With n places, n - 1 transactions may be outstanding: none of them writes the valid place.
 */

#include <fcntl.h>

#include "shape.h"

#define PLACE_BYTES 4096
#define PLACES      4
#define FILE_BYTES  ((1 + PLACES) * PLACE_BYTES) /* the word and the places */

/** The client's access to the target's memory, sent in the private data of weft_accept(). */
struct grant {
	uint32_t stag, bytes;
};

struct end {
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp *qp;
	struct grant grant;
	bool up, down;
	/* of the client */
	char record[PLACES][PLACE_BYTES];
	uint64_t posted, done;
};

/* ---- The target: grants memory and takes no part in the transactions ---- */

static struct weft_mr *
target_lend(struct shape *s, struct weft_persist *file)
{
	struct weft_mr_attr a = {
	        .size = sizeof(a),
	        .addr = file->base,
	        .len_bytes = FILE_BYTES,
	        .access = WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |
	                  WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_VERIFY,
	        .persist = file,
	        .hash = "crc32c",
	};
	struct weft_mr *mr;

	MUST(weft_mr_reg(s->pd, &a, &mr) == 0);
	return mr;
}

static void
events(struct shape *s, struct end *e)
{
	struct weft_conn_attr ca = {.size = sizeof(ca),
	                            .private_data = &e->grant,
	                            .private_data_bytes = sizeof(e->grant)};
	struct weft_event ev;

	while (weft_evq_poll(e->evq, &ev) == 1) {
		switch (ev.type) {
		case WEFT_EV_CONNECT_REQUEST:
			e->qp = shape_qp(s, weft_connreq_worker(ev.connreq), e->cq, e->evq, e);
			MUST(weft_accept(ev.connreq, e->qp, &ca) == 0);
			break;
		case WEFT_EV_ESTABLISHED:
			if (ev.private_data_bytes == sizeof(e->grant))
				memcpy(&e->grant, ev.private_data, sizeof(e->grant));
			e->up = true;
			break;
		case WEFT_EV_DISCONNECTED:
			e->down = true;
			break;
		default:
			printf("# %s: %s\n", weft_event_str(ev.type), strerror(-ev.status));
			MUST(false);
		}
	}
}

/* ---- The client ---- */

/** Write the record to a place that is not valid, verify it on the medium, and make it valid. */
static void
client_commit(struct end *e)
{
	uint64_t n = ++e->posted;
	char *record = e->record[n % PLACES];
	uint8_t hash[4];
	struct weft_sge sg = {.addr = record, .len_bytes = PLACE_BYTES};
	struct weft_commit_range range = {.sg_list = &sg,
	                                  .num_sge = 1,
	                                  .stag = e->grant.stag,
	                                  .to = PLACE_BYTES * (1 + n % PLACES),
	                                  .expect = hash,
	                                  .expect_bytes = sizeof(hash)};
	struct weft_commit c = {.wr_id = n,
	                        .ranges = &range,
	                        .num_ranges = 1,
	                        .word = {.stag = e->grant.stag, .to = 0}};

	snprintf(record, PLACE_BYTES, "record %llu", (unsigned long long)n);
	MUST(weft_commit_hash("crc32c", NULL, 0, &sg, 1, hash, sizeof(hash)) == sizeof(hash));
	memcpy(c.word.data, &n, sizeof(n));
	MUST(weft_commit(e->qp, &c) == 0);
}

static void
client_turn(struct end *e)
{
	struct weft_wc wc;

	while (weft_cq_poll(e->cq, &wc, 1) == 1) {
		if (wc.status != WEFT_WC_SUCCESS)
			printf("# %s: %s of range %u\n", weft_wc_status_str(wc.status),
			       weft_commit_step_str(wc.commit.step), wc.commit.range);
		MUST(wc.status == WEFT_WC_SUCCESS && wc.wr_id == e->done + 1);
		/* no failure of the target can undo this transaction any more */
		e->done = wc.wr_id;
		if (e->done == SHAPE_ROUNDS)
			MUST(weft_disconnect(e->qp) == 0);
	}
	while (e->up && e->posted < SHAPE_ROUNDS && e->posted < e->done + PLACES - 1)
		client_commit(e);
}

/** Check the record in the file itself, not in the target's memory. */
static void
check_file(const char *path)
{
	char want[64], got[64];
	uint64_t word;
	int fd = open(path, O_RDONLY);

	MUST(fd >= 0);
	MUST(pread(fd, &word, sizeof(word), 0) == sizeof(word) && word == SHAPE_ROUNDS);
	snprintf(want, sizeof(want), "record %llu", (unsigned long long)word);
	MUST(pread(fd, got, sizeof(got), PLACE_BYTES * (1 + (off_t)(word % PLACES))) ==
	     sizeof(got));
	MUST(strcmp(got, want) == 0);
	close(fd);
}

int
main(void)
{
	static struct end server, client;
	char path[] = "/tmp/weft-shape.XXXXXX";
	struct weft_persist_attr fa = {.size = sizeof(fa),
	                               .driver = "file",
	                               .path = path,
	                               .bytes = FILE_BYTES,
	                               .create = true,
	                               .numa_node = -1};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in sa = shape_addr(1);
	struct weft_persist *file;
	struct weft_listener *lsn;
	struct weft_mr *mr;
	struct shape s;
	int fd = mkstemp(path);

	MUST(fd >= 0 && close(fd) == 0);
	shape_env();
	shape_open(&s);
	shape_queues(&s, false, &server.cq, &server.evq);
	shape_queues(&s, false, &client.cq, &client.evq);
	MUST(weft_persist_open(&fa, &file) == 0);
	mr = target_lend(&s, file);
	server.grant = (struct grant){.stag = weft_mr_stag(mr), .bytes = FILE_BYTES};
	la.evq = server.evq;
	MUST(weft_listen(s.ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &lsn) == 0);
	client.qp = shape_qp(&s, s.client, client.cq, client.evq, &client);
	MUST(weft_connect(client.qp, (struct sockaddr *)&sa, sizeof(sa), NULL) == 0);
	while (!client.down || !server.down) {
		unsigned int n = weft_worker_poll(s.server) + weft_worker_poll(s.client);

		events(&s, &server);
		events(&s, &client);
		client_turn(&client);
		if (n == 0)
			usleep(20);
	}
	MUST(client.done == SHAPE_ROUNDS);
	check_file(path);
	weft_ctx_destroy(s.ctx);
	weft_persist_close(file);
	weft_env_fini();
	unlink(path);
	shape_ok("transactions");
	return 0;
}
