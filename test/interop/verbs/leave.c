/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A program of libibverbs and librdmacm whose queue pairs go while their peer does nothing,
 * or goes on to send. It knows nothing of weft.
 *
 *     leave server ADDRESS            prints what it gets
 *     leave many ADDRESS PID          queue pairs are destroyed while PID, the server, is stopped
 *     leave stuck ADDRESS PID         the same, with requests that the server does not take
 *     leave cancel ADDRESS PID        a thread that destroys such a queue pair is cancelled
 *     leave last ADDRESS PID          the last message, then exit() while PID is stopped
 *     leave _exit ADDRESS PID         the same with _exit()
 *     leave quick_exit ADDRESS PID    the same with quick_exit()
 *     leave children ADDRESS          children end by _exit(), then a message is sent
 *     leave handler ADDRESS           _exit() in a signal handler, mostly within a call
 *     leave written ADDRESS           the server goes on to write
 */

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT  "7211"
#define MANY  20
#define BYTES (256u * 1024)
#define DEPTH 64
#define LAST  8000u /**< octets that TCP takes before the peer has acknowledged any */

#define MUST(x)                                                                                    \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "line %d: ", __LINE__);                                    \
			perror(#x);                                                                \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/** Private data of a client: the memory into which the server writes; no key: it writes nothing. */
struct told {
	uint64_t addr;
	uint32_t rkey;
};

static const char *to;

static struct ibv_qp_init_attr
plain(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr){
	        .send_cq = cq,
	        .recv_cq = cq,
	        .qp_type = IBV_QPT_RC,
	        .cap = {.max_send_wr = DEPTH,
	                .max_recv_wr = DEPTH,
	                .max_send_sge = 1,
	                .max_recv_sge = 1},
	};
}

static uint8_t *
pages(void)
{
	uint8_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED);
	return p;
}

static uint32_t
sum(const uint8_t *p, uint32_t len)
{
	uint32_t s = 1;

	for (uint32_t i = 0; i < len; i++)
		s = s * 31 + p[i];
	return s;
}

/* ---- The server: a thread for each client ---- */

static void *
serve(void *arg)
{
	struct rdma_cm_id *id = arg;
	struct ibv_qp_init_attr attr = plain(NULL);
	struct told told = {0};
	uint8_t *mem = pages(), *numbers = pages();
	struct ibv_mr *mr, *own;
	struct ibv_wc wc = {0};
	uint64_t n = 0;

	if (id->event->param.conn.private_data_len >= sizeof(told))
		memcpy(&told, id->event->param.conn.private_data, sizeof(told));
	MUST(rdma_create_qp(id, NULL, &attr) == 0);
	mr = ibv_reg_mr(id->pd, mem, BYTES, IBV_ACCESS_LOCAL_WRITE);
	own = ibv_reg_mr(id->pd, numbers, BYTES, IBV_ACCESS_LOCAL_WRITE);
	MUST(mr != NULL && own != NULL);
	MUST(rdma_post_recv(id, NULL, mem, BYTES, mr) == 0 && rdma_accept(id, NULL) == 0);
	while (told.rkey != 0 && wc.status == IBV_WC_SUCCESS) {
		memcpy(numbers, &n, sizeof(n));
		if (rdma_post_write(id, NULL, numbers, 8, own, IBV_SEND_SIGNALED, told.addr,
		                    told.rkey) != 0)
			break;
		n++;
		while (ibv_poll_cq(id->send_cq, 1, &wc) == 0)
			;
	}
	while (told.rkey == 0 && ibv_poll_cq(id->recv_cq, 1, &wc) == 0)
		usleep(100);
	if (told.rkey == 0 && wc.status == IBV_WC_SUCCESS)
		printf("got %u %08x\n", wc.byte_len, sum(mem, wc.byte_len));
	fflush(stdout);
	return NULL;
}

static void
server(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *res;
	struct rdma_cm_id *listener, *id;
	pthread_t t;

	MUST(rdma_getaddrinfo(to, PORT, &hints, &res) == 0);
	MUST(rdma_create_ep(&listener, res, NULL, NULL) == 0 && rdma_listen(listener, MANY) == 0);
	for (;;) {
		MUST(rdma_get_request(listener, &id) == 0);
		MUST(pthread_create(&t, NULL, serve, id) == 0);
	}
}

/* ---- The client ---- */

/** Connect a queue pair with objects of its own, which the program destroys by itself. */
static struct rdma_cm_id *
client(struct ibv_pd **pd, struct ibv_cq **cq, const struct told *told)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *res;
	struct rdma_conn_param p = {.private_data = told,
	                            .private_data_len = told != NULL ? sizeof(*told) : 0,
	                            .responder_resources = 1,
	                            .initiator_depth = 1};
	struct ibv_qp_init_attr attr;
	struct rdma_cm_id *id;

	MUST(rdma_getaddrinfo(to, PORT, &hints, &res) == 0);
	MUST(rdma_create_ep(&id, res, NULL, NULL) == 0);
	rdma_freeaddrinfo(res);
	if (*pd == NULL)
		*pd = ibv_alloc_pd(id->verbs);
	if (*cq == NULL)
		*cq = ibv_create_cq(id->verbs, MANY * DEPTH, NULL, NULL, 0);
	MUST(*pd != NULL && *cq != NULL);
	attr = plain(*cq);
	MUST(rdma_create_qp(id, *pd, &attr) == 0);
	if (told == NULL || told->rkey == 0)
		MUST(rdma_connect(id, &p) == 0);
	return id;
}

static uint64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static struct rdma_cm_id *stays;
static atomic_uint calls;
static atomic_bool over;

/** Another thread of the program: calls that every device answers at once. */
static void *
other(void *arg)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	while (!atomic_load(&over)) {
		MUST(ibv_query_qp(stays->qp, &attr, IBV_QP_STATE, &init) == 0);
		atomic_fetch_add(&calls, 1);
		usleep(100);
	}
	return arg;
}

/** How often the calling thread has given its processor away to wait for something. */
static long
naps(void)
{
	struct rusage use;

	MUST(getrusage(RUSAGE_THREAD, &use) == 0);
	return use.ru_nvcsw;
}

/** posted: requests of each that a stopped server does not take. */
static void
many(pid_t server_pid, unsigned int posted)
{
	struct rdma_cm_id *id[MANY];
	struct ibv_pd *pd = NULL;
	struct ibv_cq *cq = NULL;
	uint8_t *mem = pages();
	unsigned int before, during;
	struct ibv_mr *mr;
	uint64_t first_ms = 0, ms;
	long slept;
	pthread_t t;

	for (unsigned int i = 0; i < MANY; i++)
		id[i] = client(&pd, &cq, NULL);
	stays = id[MANY - 1];
	mr = ibv_reg_mr(pd, mem, BYTES, IBV_ACCESS_LOCAL_WRITE);
	MUST(mr != NULL && pthread_create(&t, NULL, other, NULL) == 0);
	MUST(kill(server_pid, SIGSTOP) == 0);
	for (unsigned int i = 0; i < MANY - 1; i++)
		for (unsigned int k = 0; k < posted; k++)
			MUST(rdma_post_send(id[i], NULL, mem, BYTES, mr, 0) == 0);
	usleep(20000);
	before = atomic_load(&calls);
	slept = naps();
	ms = now_ms();
	for (unsigned int i = 0; i < MANY - 1; i++) {
		MUST(ibv_destroy_qp(id[i]->qp) == 0);
		if (i == 0)
			first_ms = now_ms() - ms;
	}
	ms = now_ms() - ms;
	slept = naps() - slept;
	during = atomic_load(&calls) - before;
	/* what they were made of; the last one uses domain and queue */
	MUST(munmap(mem, BYTES) == 0 && ibv_dereg_mr(mr) == 0);
	MUST(ibv_dealloc_pd(pd) != 0 && ibv_destroy_cq(cq) != 0);
	atomic_store(&over, true);
	MUST(pthread_join(t, NULL) == 0 && ibv_destroy_qp(stays->qp) == 0);
	MUST(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
	MUST(kill(server_pid, SIGCONT) == 0);
	printf("%u queue pairs in %llu ms, the first in %llu ms, %ld naps, %u calls of another\n",
	       MANY - 1, (unsigned long long)ms, (unsigned long long)first_ms, slept, during);
}

static void *
destroy(void *arg)
{
	struct rdma_cm_id *id = arg;

	MUST(ibv_destroy_qp(id->qp) == 0);
	for (;;)
		pause();
}

/** A thread that waits in ibv_destroy_qp() is cancelled: it finishes that first. */
static void
cancelled(pid_t server_pid)
{
	struct ibv_pd *pd = NULL;
	struct ibv_cq *cq = NULL;
	struct rdma_cm_id *id = client(&pd, &cq, NULL);
	uint8_t *mem = pages();
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, BYTES, IBV_ACCESS_LOCAL_WRITE);
	pthread_t t;

	MUST(mr != NULL && kill(server_pid, SIGSTOP) == 0);
	for (unsigned int k = 0; k < 40; k++)
		MUST(rdma_post_send(id, NULL, mem, BYTES, mr, 0) == 0);
	MUST(pthread_create(&t, NULL, destroy, id) == 0);
	usleep(50000);
	MUST(pthread_cancel(t) == 0 && pthread_join(t, NULL) == 0);
	MUST(ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
	MUST(kill(server_pid, SIGCONT) == 0);
}

/** A process that lets the server go on, some time after an octet comes by the pipe it returns. */
static int
later(pid_t server_pid)
{
	int ends[2];
	char c;

	MUST(pipe(ends) == 0);
	if (fork() == 0) {
		MUST(read(ends[0], &c, 1) == 1);
		usleep(100000);
		MUST(kill(server_pid, SIGCONT) == 0);
		_exit(0);
	}
	return ends[1];
}

static void
on_alarm(int sig)
{
	(void)sig;
	_exit(0);
}

/** The process ends by end() right after its last message, while the server is stopped. */
static void
last(pid_t server_pid, void (*end)(int status))
{
	const int go = later(server_pid);
	struct ibv_pd *pd = NULL;
	struct ibv_cq *cq = NULL;
	struct rdma_cm_id *id = client(&pd, &cq, NULL);
	uint8_t *mem = pages();
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_wc wc;
	int n;

	for (uint32_t i = 0; i < LAST; i++)
		mem[i] = (uint8_t)(i * 7 + i / 256);
	MUST(mr != NULL && kill(server_pid, SIGSTOP) == 0);
	MUST(rdma_post_send(id, NULL, mem, LAST, mr, IBV_SEND_SIGNALED) == 0);
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	MUST(n == 1 && wc.status == IBV_WC_SUCCESS);
	printf("sent %u %08x\n", LAST, sum(mem, LAST));
	MUST(ibv_destroy_qp(id->qp) == 0);
	MUST(munmap(mem, BYTES) == 0 && ibv_dereg_mr(mr) == 0);
	MUST(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
	MUST(fflush(stdout) == 0 && write(go, "", 1) == 1);
	end(0);
}

/** Children share the port, and those of vfork() all memory: their end is not the parent's. */
static void
children(void)
{
	struct ibv_pd *pd = NULL;
	struct ibv_cq *cq = NULL;
	struct rdma_cm_id *id = client(&pd, &cq, NULL);
	uint8_t *mem = pages();
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_wc wc;
	pid_t child;
	int n, status;

	MUST(mr != NULL);
	child = fork();
	if (child == 0)
		_exit(7);
	MUST(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
	child = vfork();
	if (child == 0)
		_exit(8);
	MUST(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 8);
	MUST(rdma_post_send(id, NULL, mem, LAST, mr, IBV_SEND_SIGNALED) == 0);
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	MUST(n == 1 && wc.status == IBV_WC_SUCCESS);
	printf("sent %u %08x\n", LAST, sum(mem, LAST));
	fflush(stdout);
	_exit(0);
}

/** The process ends in a signal handler, mostly within a call that polls. */
static void
handler(void)
{
	const struct itimerval soon = {.it_value.tv_usec = 20000};
	struct ibv_pd *pd = NULL;
	struct ibv_cq *cq = NULL;
	struct ibv_wc wc;

	(void)client(&pd, &cq, NULL);
	MUST(signal(SIGALRM, on_alarm) != SIG_ERR && setitimer(ITIMER_REAL, &soon, NULL) == 0);
	while (ibv_poll_cq(cq, 1, &wc) == 0)
		;
}

/** The region stays registered when its queue pair has gone. */
static void
written(void)
{
	volatile uint64_t *mem = (volatile uint64_t *)(void *)pages();
	struct told told = {.addr = (uintptr_t)mem};
	struct rdma_conn_param p = {.private_data = &told, .private_data_len = sizeof(told)};

	for (unsigned int i = 0; i < 5; i++) {
		struct ibv_pd *pd = NULL;
		struct ibv_cq *cq = NULL;
		struct rdma_cm_id *id;
		struct ibv_mr *mr;
		struct ibv_wc wc;
		uint64_t seen;

		told.rkey = 1;
		id = client(&pd, &cq, &told);
		mr = ibv_reg_mr(pd, (void *)(uintptr_t)mem, BYTES,
		                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		MUST(mr != NULL);
		told.rkey = mr->rkey;
		*mem = 0;
		MUST(rdma_connect(id, &p) == 0);
		while (*mem < 100)
			;
		MUST(ibv_destroy_qp(id->qp) == 0);
		seen = *mem;
		MUST(ibv_poll_cq(cq, 1, &wc) == 0);
		usleep(50000);
		MUST(*mem == seen);
		MUST(ibv_dereg_mr(mr) == 0);
		MUST(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
	}
	printf("not written\n");
}

int
main(int argc, char **argv)
{
	const pid_t pid = argc > 3 ? (pid_t)atoi(argv[3]) : 0;

	MUST(argc >= 3);
	to = argv[2];
	if (strcmp(argv[1], "server") == 0)
		server();
	else if (strcmp(argv[1], "many") == 0)
		many(pid, 0);
	else if (strcmp(argv[1], "stuck") == 0)
		many(pid, 40);
	else if (strcmp(argv[1], "cancel") == 0)
		cancelled(pid);
	else if (strcmp(argv[1], "last") == 0)
		last(pid, exit);
	else if (strcmp(argv[1], "_exit") == 0)
		last(pid, _exit);
	else if (strcmp(argv[1], "quick_exit") == 0)
		last(pid, quick_exit);
	else if (strcmp(argv[1], "children") == 0)
		children();
	else if (strcmp(argv[1], "handler") == 0)
		handler();
	else
		written();
	return 0;
}
