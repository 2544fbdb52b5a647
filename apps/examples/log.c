/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A log on another machine's medium, and its fence: one writer at a time can reach the memory.
 *
 *     log server DEV OUR-ADDRESS/PREFIX FILE
 *     log client DEV OUR-ADDRESS/PREFIX SERVER TEXT [stay]
 *
 * The client opens the log, prints its records and appends TEXT. Then it leaves, or stays connected
 * until its log ends (stay). The server runs until it is killed. No code of it runs for a record,
 * but it is the fence:
 *
 * 1. Each connection gets a grant of its own: one registration of the memory, with a new STag. A
 *    writer that connects again is in its second life. It gets another grant, too, because
 *    operations of its first life may still be under way.
 * 2. The former grant ends first. weft_log_host_grant() makes its STag invalid and calls granted()
 *    when no operation that came by it can touch the memory or its medium any more.
 * 3. A grant ends with its connection.
 *
 * The client does not need to know whether another writer is alive: the server decides. This one
 * lets a new client take over at once. With take_over = false it would refuse the new one (-EBUSY).
 */

#include "example.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/random.h>

#include <weft/log.h>
#include <weft/log_host.h>

#define FILE_BYTES (1 << 20)

/* ---- The server: the fence ---- */

static struct host {
	struct example *ex;
	struct weft_log_host *memory;
	struct weft_log_grant grant; /**< of the connection ex->qp */
} host;

/** The connection has ended, or a new client takes over. */
static void
end_grant(void)
{
	if (host.ex->qp == NULL)
		return;
	weft_qp_destroy(host.ex->qp);
	host.ex->qp = NULL;
	MUST(weft_log_host_end(host.memory, host.grant.stag) == 0);
	printf("grant 0x%08x has ended\n", host.grant.stag);
}

/** No operation of an earlier grant can touch the memory any more. */
static void
granted(void *arg, const struct weft_log_grant *grant, int status)
{
	struct weft_connreq *connreq = arg;
	struct weft_conn_attr ca = {.size = sizeof(ca),
	                            .private_data = &host.grant,
	                            .private_data_bytes = sizeof(host.grant)};

	if (status == -ECANCELED) { /* another client came meanwhile */
		weft_reject(connreq, NULL, 0);
		return;
	}
	MUST(status == 0);
	host.grant = *grant;
	printf("grant 0x%08x\n", grant->stag);
	fflush(stdout);
	example_qp(host.ex, weft_connreq_worker(connreq));
	MUST(weft_accept(connreq, host.ex->qp, &ca) == 0);
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
	                                    WEFT_ACCESS_FLUSH_PERSISTENT};
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(EXAMPLE_PORT)};
	struct weft_listen_attr la = {.size = sizeof(la), .evq = ex->evq};
	struct weft_listener *listener;
	struct weft_persist *medium;

	host.ex = ex;
	MUST(weft_persist_open(&pa, &medium) == 0);
	ma.addr = medium->base;
	ma.persist = medium;
	MUST(weft_log_host_create(ex->pd, &ma, &host.memory) == 0);
	MUST(weft_listen(ex->ctx, (struct sockaddr *)&any, sizeof(any), &la, &listener) == 0);
	printf("waiting for a client\n");
	fflush(stdout);
	for (;;) {
		struct weft_event ev = example_any_event(ex);

		if (ev.type == WEFT_EV_CONNECT_REQUEST) {
			end_grant();
			MUST(weft_log_host_grant(host.memory, true, granted, ev.connreq) == 0);
		} else if (ev.qp == ex->qp && ev.type != WEFT_EV_ESTABLISHED) {
			end_grant();
		}
	}
}

/* ---- The client: the writer ---- */

static struct writer {
	struct weft_log *log;
	struct weft_log_at at; /**< the next record to read */
	bool joined, open, read, durable;
} writer;

static void
log_event(void *user, const struct weft_log_event *ev)
{
	(void)user;
	switch (ev->type) {
	case WEFT_LOG_EV_JOINED:
		writer.joined = true;
		break;
	case WEFT_LOG_EV_OPEN:
		writer.at = ev->head;
		writer.open = true;
		break;
	case WEFT_LOG_EV_FAILED:
		fprintf(stderr, "the log has ended: %s\n", strerror(-ev->status));
		exit(1);
	default:
		break;
	}
}

/** Connect, and join the target by the grant that the server gives this connection. */
static void
join(struct example *ex, const char *server_host)
{
	struct weft_log_super blank = {.size = sizeof(blank), .log_id = "example's log 1"};
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(EXAMPLE_PORT)};
	struct weft_qp_attr qa = {.size = sizeof(qa)};
	struct weft_log_target target = {.size = sizeof(target), .format = &blank};
	struct weft_log_grant grant;
	struct weft_event ev;

	MUST(inet_pton(AF_INET, server_host, &sa.sin_addr) == 1);
	weft_log_qp_attr(writer.log, &qa);
	qa.evq = ex->evq;
	MUST(weft_qp_create(ex->pd, &qa, &target.qp) == 0);
	MUST(weft_connect(target.qp, (struct sockaddr *)&sa, sizeof(sa), NULL) == 0);
	ev = example_event(ex, WEFT_EV_ESTABLISHED);
	MUST(ev.private_data_bytes == sizeof(grant));
	memcpy(&grant, ev.private_data, sizeof(grant));
	target.stag = grant.stag;
	target.to = grant.to;
	target.len_bytes = grant.len_bytes;
	/* A blank memory is formatted: a target that is formatted anew is another target. */
	MUST(getrandom(blank.target_id, sizeof(blank.target_id), 0) == sizeof(blank.target_id));
	MUST(weft_log_join(writer.log, &target) >= 0);
	example_wait(ex, &writer.joined);
}

static void
print_records(void *arg, struct weft_log_chunk *chunk)
{
	struct weft_log_record rec;

	(void)arg;
	MUST(chunk->status == 0);
	while (weft_log_chunk_next(chunk, &rec) == 1)
		printf("record %llu: %.*s\n", (unsigned long long)rec.at.seq, (int)rec.len_bytes,
		       (const char *)rec.data);
	writer.at = chunk->at;
	writer.read = true;
}

static void
read_all(struct example *ex)
{
	static char buf[8192];
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = buf,
	                          .len_bytes = sizeof(buf),
	                          .access = WEFT_ACCESS_LOCAL_WRITE};
	struct weft_sge sink = {.addr = buf, .len_bytes = sizeof(buf)};
	struct weft_mr *mr;
	int rc;

	MUST(weft_mr_reg(ex->pd, &ma, &mr) == 0);
	sink.lkey = weft_mr_stag(mr);
	while ((rc = weft_log_read(writer.log, &writer.at, &sink, print_records, NULL)) == 0) {
		example_wait(ex, &writer.read);
		writer.read = false;
	}
	MUST(rc == -ENODATA);
}

static void
durable(void *arg, const struct weft_log_at *at, int status)
{
	MUST(status == 0);
	printf("record %llu is durable: %s\n", (unsigned long long)at->seq, (const char *)arg);
	fflush(stdout);
	writer.durable = true;
}

static void
client(struct example *ex, const char *server_host, char *text, bool stay)
{
	struct weft_log_attr la = {.size = sizeof(la),
	                           .ctx = ex->ctx,
	                           .pd = ex->pd,
	                           .worker = ex->worker,
	                           .on_event = log_event};
	struct weft_sge sg = {.addr = text, .len_bytes = (uint32_t)strlen(text)};
	struct weft_log_append append = {
	        .sg_list = &sg, .num_sge = 1, .durable = durable, .arg = text};

	MUST(weft_log_create(&la, &writer.log) == 0);
	join(ex, server_host);
	MUST(weft_log_open(writer.log) == 0);
	example_wait(ex, &writer.open);
	read_all(ex);
	MUST(weft_log_append(writer.log, &append, NULL) == 0);
	example_wait(ex, &writer.durable);
	while (stay)
		(void)example_any_event(ex);
	weft_log_destroy(writer.log);
}

int
main(int argc, char **argv)
{
	struct example ex = {0};
	bool is_server = argc == 5 && strcmp(argv[1], "server") == 0;

	if (!is_server && (argc < 6 || strcmp(argv[1], "client") != 0)) {
		fputs("usage: log server DEV CIDR FILE | log client DEV CIDR SERVER TEXT [stay]\n",
		      stderr);
		return 2;
	}
	example_open(&ex, argv[2], argv[3]);
	if (is_server)
		server(&ex, argv[4]);
	else
		client(&ex, argv[4], argv[5], argc > 6);
	example_close(&ex);
	return 0;
}
