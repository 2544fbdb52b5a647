/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A host of NVMe over RDMA that a test commands by lines on standard input. Its codec is the
 * unit tests' (test/nvmf/nvmf_host.c). One controller, with an admin queue and one I/O queue; a
 * command at a time; blocks of 512 octets.
 *
 *     nvmf_probe DEV CIDR HOST SUBNQN HOSTNQN [PORT]
 *
 * Lines: connect; id; ns NSID; list; write|fua|read NSID LBA BLOCKS SEED; flush NSID; events; event
 * (wait for one); changed (log page 04h); resv OPCODE CDW10 KEY KEY (a reservation command of
 * namespace 1); report NSID; discover; reset (CC.EN 0); close; stay (until the target
 * ends it); hang NSID (write 1 MiB, and stop this process while the target reads it, after the
 * answer). Each is answered by one line: the word, the status of NVMe in hexadecimal (ffff: there
 * was no answer), and what was found.
 */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "nvmf_host.h"
#include "probe.h"
#include "ui.h"

#define DEPTH      16U
#define MAX_BYTES  (1U << 20)
#define TIMEOUT_NS 20000000000ULL
#define NO_ANSWER  0xffffU
#define LBA_BYTES  512U
#define AER_CID    100
#define CC_ON      0x460001U
#define HANG_POLLS 20U

struct hqueue {
	struct weft_qp *qp;
	bool up, gone, answered;
	struct weft_nvmf_cqe cqe;
	uint8_t in[DEPTH][WEFT_NVMF_CQE_BYTES];
};

static struct probe {
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_mr *mr;
	struct sockaddr_storage to;
	const char *subnqn, *hostnqn;
	struct hqueue admin, io;
	bool event;
	uint32_t event_is;
	uint16_t cntlid;
	uint8_t capsule[WEFT_NVMF_SQE_BYTES];
	_Alignas(4096) uint8_t data[MAX_BYTES];
} pr;

static void
post_recv(struct hqueue *q, uint64_t i)
{
	struct weft_sge sge = {q->in[i], WEFT_NVMF_CQE_BYTES, 0};
	struct weft_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

	(void)weft_post_recv(q->qp, &wr, 1);
}

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		struct hqueue *q = wc[i].qp_user;
		struct weft_nvmf_cqe cqe;

		if (wc[i].opcode != WEFT_WC_RECV || wc[i].status != WEFT_WC_SUCCESS ||
		    q->qp == NULL)
			continue;
		nv_cqe_decode(q->in[wc[i].wr_id], &cqe);
		if (cqe.cid == AER_CID) {
			pr.event = true;
			pr.event_is = (uint32_t)cqe.result;
		} else {
			q->cqe = cqe;
			q->answered = true;
		}
		post_recv(q, wc[i].wr_id);
	}
}

static void
on_event(void *user, const struct weft_event *ev)
{
	struct hqueue *q = ev->user;

	(void)user;
	if (q == NULL)
		return;
	q->up = q->up || ev->type == WEFT_EV_ESTABLISHED;
	if (ev->type == WEFT_EV_DISCONNECTED || ev->type == WEFT_EV_CONNECT_ERROR ||
	    ev->type == WEFT_EV_REJECTED)
		q->gone = true;
}

/* ---- Commands ---- */

static void
send_sqe(struct hqueue *q, struct weft_nvmf_sqe *sqe, uint32_t bytes)
{
	const struct weft_nvmf_sgl sgl = {.kind = WEFT_NVMF_SGL_KEYED,
	                                  .bytes = bytes,
	                                  .addr = bytes > 0 ? (uintptr_t)pr.data : 0,
	                                  .key = bytes > 0 ? weft_mr_stag(pr.mr) : 0};
	struct weft_sge sge = {pr.capsule, WEFT_NVMF_SQE_BYTES, 0};
	const struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sge, .num_sge = 1};

	nv_sgl_encode(&sgl, sqe);
	nv_sqe_encode(sqe, pr.capsule);
	q->answered = false;
	if (q->qp == NULL || q->gone || weft_post_send(q->qp, &wr, 1) != 1)
		q->gone = true;
}

/** Send a command with `bytes` octets of pr.data. Returns its status. */
static uint16_t
command(struct hqueue *q, struct weft_nvmf_sqe sqe, uint32_t bytes)
{
	static uint16_t cid;

	sqe.cid = ++cid % AER_CID;
	send_sqe(q, &sqe, bytes);
	return probe_wait(pr.w, &q->answered, &q->gone, TIMEOUT_NS) ? q->cqe.status : NO_ANSWER;
}

static struct weft_nvmf_sqe
sqe_of(uint8_t opcode, uint32_t nsid, uint32_t cdw10, uint32_t cdw11, uint32_t cdw12)
{
	struct weft_nvmf_sqe sqe = {.opcode = opcode, .nsid = nsid};

	sqe.cdw[10] = cdw10;
	sqe.cdw[11] = cdw11;
	sqe.cdw[12] = cdw12;
	return sqe;
}

static uint16_t
fabrics(struct hqueue *q, uint8_t fctype, uint32_t cdw10, uint32_t cdw11, uint32_t cdw12,
        uint32_t bytes)
{
	struct weft_nvmf_sqe sqe = sqe_of(WEFT_NVMF_OP_FABRICS, 0, cdw10, cdw11, cdw12);

	sqe.fctype = fctype;
	return command(q, sqe, bytes);
}

static uint16_t
identify(uint32_t cns, uint32_t nsid)
{
	return command(&pr.admin, sqe_of(WEFT_NVMF_ADMIN_IDENTIFY, nsid, cns, 0, 0), 4096);
}

static uint16_t
get_log(uint8_t lid, uint32_t bytes)
{
	return command(&pr.admin,
	               sqe_of(WEFT_NVMF_ADMIN_GET_LOG, 0, lid | (bytes / 4 - 1) << 16, 0, 0),
	               bytes);
}

/* ---- Connections ---- */

static void
queue_close(struct hqueue *q, bool in_order)
{
	struct weft_qp *qp = q->qp;

	if (qp == NULL)
		return;
	/* a target that was killed answers nothing */
	if (!q->gone && (in_order ? weft_disconnect(qp) : weft_abort(qp)) == 0)
		(void)probe_wait(pr.w, &q->gone, NULL, TIMEOUT_NS);
	q->qp = NULL;
	weft_qp_destroy(qp);
}

/** A queue as Linux makes it. Returns the status of its Connect. */
static uint16_t
queue_open(struct hqueue *q, uint16_t qid, uint16_t cntlid)
{
	struct weft_nvmf_connect c = {.cntlid = cntlid};
	uint8_t private_data[32] = {0};
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = pr.w,
	                          .send_cq = pr.cq,
	                          .recv_cq = pr.cq,
	                          .evq = pr.evq,
	                          .sq_depth = DEPTH,
	                          .rq_depth = DEPTH,
	                          .ird = 16,
	                          .user = q};
	struct weft_conn_attr ca = {.size = sizeof(ca),
	                            .private_data = private_data,
	                            .private_data_bytes = sizeof(private_data),
	                            .ird = WEFT_DEPTH(16),
	                            .ord = WEFT_DEPTH(0)};

	memset(q, 0, sizeof(*q));
	weft_nvmf_put16(private_data + 2, qid);
	weft_nvmf_put16(private_data + 4, DEPTH);
	weft_nvmf_put16(private_data + 6, DEPTH - 1);
	if (weft_qp_create(pr.pd, &qa, &q->qp) != 0)
		ui_die("no queue pair");
	for (uint64_t i = 0; i < DEPTH; i++)
		post_recv(q, i);
	if (weft_connect(q->qp, (struct sockaddr *)&pr.to, addr_len(&pr.to), &ca) != 0 ||
	    !probe_wait(pr.w, &q->up, &q->gone, TIMEOUT_NS)) {
		q->gone = true;
		return NO_ANSWER;
	}
	snprintf(c.subnqn, sizeof(c.subnqn), "%s", pr.subnqn);
	snprintf(c.hostnqn, sizeof(c.hostnqn), "%s", pr.hostnqn);
	/* a host of another name is another host */
	memset(c.hostid, 7, sizeof(c.hostid));
	for (size_t i = 0; c.hostnqn[i] != '\0'; i++)
		c.hostid[i % sizeof(c.hostid)] += (uint8_t)c.hostnqn[i];
	nv_connect_encode(&c, pr.data);
	return fabrics(q, WEFT_NVMF_FC_CONNECT, (uint32_t)qid << 16, DEPTH - 1, 5000,
	               WEFT_NVMF_CONNECT_BYTES);
}

static void
do_close(bool in_order)
{
	queue_close(&pr.io, in_order);
	queue_close(&pr.admin, in_order);
}

static uint16_t
do_connect(void)
{
	const bool discovery = strcmp(pr.subnqn, WEFT_NVMF_DISCOVERY_NQN) == 0;
	uint16_t status;

	do_close(false);
	pr.event = false;
	status = queue_open(&pr.admin, 0, 0xffff);
	pr.cntlid = (uint16_t)pr.admin.cqe.result;
	if (status == 0)
		status = fabrics(&pr.admin, WEFT_NVMF_FC_PROPERTY_SET, 0, WEFT_NVMF_PROP_CC, CC_ON,
		                 0);
	return status != 0 || discovery ? status : queue_open(&pr.io, 1, pr.cntlid);
}

/* ---- Lines ---- */

static void
fill(uint8_t *p, uint32_t bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static void
do_io(const char *word, uint32_t nsid, uint32_t lba, uint32_t blocks, uint32_t seed)
{
	static uint8_t want[MAX_BYTES];
	const bool is_read = strcmp(word, "read") == 0;
	const uint32_t bytes = blocks * LBA_BYTES, fua = strcmp(word, "fua") == 0 ? 1U << 30 : 0;
	uint16_t status;

	if (blocks == 0 || bytes > MAX_BYTES)
		ui_die("%s: 1 to %u blocks", word, MAX_BYTES / LBA_BYTES);
	fill(want, bytes, seed);
	if (is_read)
		memset(pr.data, 0x5a, bytes);
	else
		memcpy(pr.data, want, bytes);
	status = command(&pr.io,
	                 sqe_of(is_read ? WEFT_NVMF_IO_READ : WEFT_NVMF_IO_WRITE, nsid, lba, 0,
	                        (blocks - 1) | fua),
	                 bytes);
	printf("%s %04x%s\n", word, status,
	       !is_read || status != 0             ? ""
	       : memcmp(pr.data, want, bytes) == 0 ? " same"
	                                           : " differs");
}

static void
do_hang(uint32_t nsid)
{
	struct weft_nvmf_sqe sqe =
	        sqe_of(WEFT_NVMF_IO_WRITE, nsid, 0, 0, MAX_BYTES / LBA_BYTES - 1);

	printf("hang 0000\n");
	fflush(stdout);
	send_sqe(&pr.io, &sqe, MAX_BYTES);
	/* enough for the command, too few for all of its data */
	for (unsigned int i = 0; i < HANG_POLLS; i++)
		(void)weft_worker_poll(pr.w);
	(void)raise(SIGSTOP);
}

static void
do_identify(void)
{
	const uint16_t status = identify(WEFT_NVMF_CNS_CTRL, 0);

	printf("id %04x %.20s %.40s vwc %u nn %u\n", status, pr.data + 4, pr.data + 24,
	       pr.data[525] & 1U, weft_nvmf_get32(pr.data + 516));
}

static void
do_ns(uint32_t nsid)
{
	const uint16_t status = identify(WEFT_NVMF_CNS_NS, nsid);

	printf("ns %04x blocks %" PRIu64 " lba %u ro %u nguid ", status, weft_nvmf_get64(pr.data),
	       1U << (weft_nvmf_get32(pr.data + 128) >> 16 & 0xff), pr.data[99] & 1U);
	for (unsigned int i = 0; i < 16; i++)
		printf("%02x", pr.data[104 + i]);
	putchar('\n');
}

/** Numbers of a page, up to the first 0. */
static void
print_list(const char *word, uint16_t status)
{
	printf("%s %04x", word, status);
	for (unsigned int i = 0; status == 0 && i < 1024; i++) {
		const uint32_t nsid = weft_nvmf_get32(pr.data + 4 * i);

		if (nsid == 0)
			break;
		printf(" %u", nsid);
	}
	putchar('\n');
}

static void
do_discover(void)
{
	const uint16_t status = get_log(WEFT_NVMF_LOG_DISCOVERY, 16384);
	const uint64_t n = status == 0 ? weft_nvmf_get64(pr.data + 8) : 0;

	printf("discover %04x", status);
	for (uint64_t i = 0; i < n && i < 15; i++) {
		const char *e = (const char *)pr.data + 1024 * (i + 1);

		printf(" %.*s:%.*s=%s", (int)strcspn(e + 512, " "), e + 512,
		       (int)strcspn(e + 32, " "), e + 32, e + 256);
	}
	putchar('\n');
}

/** Ask for events of namespaces. */
static void
do_events(void)
{
	struct weft_nvmf_sqe aer = sqe_of(WEFT_NVMF_ADMIN_AER, 0, 0, 0, 0);
	const uint16_t status =
	        command(&pr.admin, sqe_of(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 0xb, 0x100, 0), 0);

	pr.event = false;
	aer.cid = AER_CID;
	send_sqe(&pr.admin, &aer, 0);
	printf("events %04x\n", status);
}

/** A reservation command with two keys. */
static void
do_resv(uint32_t opcode, uint32_t cdw10, uint32_t key, uint32_t other)
{
	memset(pr.data, 0, 16);
	weft_nvmf_put64(pr.data, key);
	weft_nvmf_put64(pr.data + 8, other);
	printf("resv %04x\n", command(&pr.io, sqe_of((uint8_t)opcode, 1, cdw10, 0, 0), 16));
}

static void
do_report(uint32_t nsid)
{
	const uint16_t status =
	        command(&pr.io, sqe_of(WEFT_NVMF_IO_RESV_REPORT, nsid, 31, 1, 0), 128);

	printf("report %04x gen %u type %u hosts %u persist %u key %u\n", status,
	       weft_nvmf_get32(pr.data), pr.data[4], weft_nvmf_get16(pr.data + 5), pr.data[9],
	       weft_nvmf_get32(pr.data + 64 + 8));
}

static void
do_line(char *line)
{
	char word[16] = "";
	uint32_t n[4] = {0};
	uint16_t status;
	bool got;

	if (sscanf(line, "%15s %u %u %u %u", word, &n[0], &n[1], &n[2], &n[3]) < 1)
		return;
	if (strcmp(word, "connect") == 0) {
		status = do_connect();
		printf("connect %04x %u\n", status, pr.cntlid);
	} else if (strcmp(word, "id") == 0)
		do_identify();
	else if (strcmp(word, "ns") == 0)
		do_ns(n[0]);
	else if (strcmp(word, "list") == 0)
		print_list(word, identify(WEFT_NVMF_CNS_ACTIVE, 0));
	else if (strcmp(word, "changed") == 0)
		print_list(word, get_log(WEFT_NVMF_LOG_CHANGED_NS, 4096));
	else if (strcmp(word, "flush") == 0)
		printf("flush %04x\n",
		       command(&pr.io, sqe_of(WEFT_NVMF_IO_FLUSH, n[0], 0, 0, 0), 0));
	else if (strcmp(word, "resv") == 0)
		do_resv(n[0], n[1], n[2], n[3]);
	else if (strcmp(word, "report") == 0)
		do_report(n[0]);
	else if (strcmp(word, "hang") == 0)
		do_hang(n[0]);
	else if (strcmp(word, "events") == 0)
		do_events();
	else if (strcmp(word, "event") == 0) {
		got = probe_wait(pr.w, &pr.event, &pr.admin.gone, TIMEOUT_NS);
		printf("event %04x %08x\n", got ? 0 : NO_ANSWER, pr.event_is);
	} else if (strcmp(word, "discover") == 0)
		do_discover();
	else if (strcmp(word, "reset") == 0)
		printf("reset %04x\n", fabrics(&pr.admin, WEFT_NVMF_FC_PROPERTY_SET, 0,
		                               WEFT_NVMF_PROP_CC, CC_ON & ~1U, 0));
	else if (strcmp(word, "stay") == 0) {
		got = probe_wait(pr.w, &pr.io.gone, NULL, TIMEOUT_NS) &&
		      probe_wait(pr.w, &pr.admin.gone, NULL, TIMEOUT_NS);
		printf("stay %04x\n", got ? 0 : NO_ANSWER);
	} else if (strcmp(word, "close") == 0) {
		do_close(true);
		printf("close 0000\n");
	} else if (strcmp(word, "write") == 0 || strcmp(word, "fua") == 0 ||
	           strcmp(word, "read") == 0)
		do_io(word, n[0], n[1], n[2], n[3]);
	else
		ui_die("%s: no such word", word);
}

int
main(int argc, char **argv)
{
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 1024, .on_wc = on_wc};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = pr.data,
	                          .len_bytes = sizeof(pr.data),
	                          .base_to = (uintptr_t)pr.data,
	                          .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                                    WEFT_ACCESS_REMOTE_WRITE};
	struct stack st = {0};
	char line[256];

	ui_init("nvmf_probe");
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 6)
		ui_die("nvmf_probe DEV CIDR HOST SUBNQN HOSTNQN [PORT]");
	pr.subnqn = argv[4];
	pr.hostnqn = argv[5];
	if (addr_parse(argv[3], (uint16_t)(argc > 6 ? atoi(argv[6]) : 4420), &pr.to) != 0)
		ui_die("%s: no address", argv[3]);
	probe_up(&st, "nvmf_probe", argv[1], argv[2]);
	pr.w = st.workers[0];
	if (weft_pd_alloc(st.ctx, &pr.pd) != 0 || weft_cq_create(st.ctx, &ca, &pr.cq) != 0 ||
	    weft_evq_create(st.ctx, &ea, &pr.evq) != 0 || weft_mr_reg(pr.pd, &ma, &pr.mr) != 0)
		ui_die("no objects");
	puts("ready");
	while (probe_next_line(pr.w, line, sizeof(line)))
		do_line(line);
	do_close(true);
	weft_ctx_destroy(st.ctx);
	st.ctx = NULL;
	stack_down(&st);
	return 0;
}
