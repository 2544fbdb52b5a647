/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A program in rpcgen's language over weft. svc_run() runs on one thread and the client stubs
 * on another; the workers have threads of their own. Only main() and the bindings use weft. A
 * program for TCP has clnt_create() and svc_tli_create() in place of two lines of main().
 */

#include <pthread.h>

#include "shape.h"
#include "shape_rpc.h"
#include <weft/tirpc.h>

/* ---- The server, as for any transport ---- */

static unsigned int sum;
static bool last_call;

static unsigned int
add_up(const char *p, unsigned int n)
{
	unsigned int s = 0;

	while (n-- > 0)
		s = s * 31 + (unsigned char)*p++;
	return s;
}

void *
shape_null_1_svc(void *args, struct svc_req *rq)
{
	static char nothing;

	(void)args;
	(void)rq;
	/* svc_run() checks for its end only between two calls. */
	if (__atomic_load_n(&last_call, __ATOMIC_ACQUIRE))
		svc_exit();
	return &nothing;
}

unsigned int *
shape_add_1_svc(unsigned int *n, struct svc_req *rq)
{
	(void)rq;
	sum += *n;
	return &sum;
}

unsigned int *
shape_put_1_svc(shape_put_args *a, struct svc_req *rq)
{
	static unsigned int r;

	(void)rq;
	r = add_up(a->data.data_val, a->data.data_len) + (unsigned int)strlen(a->name);
	return &r;
}

shape_get_res *
shape_get_1_svc(unsigned int *n, struct svc_req *rq)
{
	static char data[SHAPE_DATA_MAX];
	static shape_get_res r;

	(void)rq;
	for (unsigned int i = 0; i < *n; i++)
		data[i] = (char)(i * 7 + *n);
	r = (shape_get_res){.sum = add_up(data, *n), .data = {*n, data}};
	return &r;
}

/* Returns the list in reverse order. */
shape_list *
shape_reverse_1_svc(shape_list *l, struct svc_req *rq)
{
	static shape_entry e[SHAPE_LIST_MAX];
	static shape_list r;
	unsigned int n = l->entry.entry_len;

	(void)rq;
	for (unsigned int i = 0; i < n; i++) {
		e[i].id = l->entry.entry_val[n - 1 - i].id;
		e[i].name = strcpy(realloc(e[i].name, SHAPE_NAME_MAX + 1),
		                   l->entry.entry_val[n - 1 - i].name);
	}
	r = (shape_list){.entry = {n, e}, .best = l->best != NULL && n > 0 ? &e[0] : NULL};
	return &r;
}

void shape_prog_1(struct svc_req *rqstp, SVCXPRT *transp); /* made by rpcgen */

/* ---- The items that may go in chunks: shared by both sides ---- */

static unsigned int
put_items(const void *args, struct weft_rpc_item *items)
{
	const shape_put_args *a = args;

	items[0] = (struct weft_rpc_item){a->data.data_val, a->data.data_len};
	return 1;
}

static unsigned int
get_sinks(const void *args, struct weft_rpc_sink *sinks)
{
	sinks[0] = (struct weft_rpc_sink){.max_bytes = *(const unsigned int *)args};
	return 1;
}

static unsigned int
get_items(const void *res, struct weft_rpc_item *items)
{
	const shape_get_res *r = res;

	items[0] = (struct weft_rpc_item){r->data.data_val, r->data.data_len};
	return 1;
}

/* A counted array and optional data. The same for arguments and results. Results do not exist yet
 * when `placed` is asked. */
static unsigned int
list_items(const void *p, struct weft_rpc_item *items)
{
	const shape_list *l = p;

	items[0] = (struct weft_rpc_item){l->entry.entry_val, l->entry.entry_len, WEFT_RPC_XDR};
	items[1] = (struct weft_rpc_item){l->best, l->best != NULL, WEFT_RPC_XDR};
	return 2;
}

static unsigned int
list_sinks(const void *args, struct weft_rpc_sink *sinks)
{
	const shape_list *l = args;
	const unsigned int each = 8 + SHAPE_NAME_MAX;

	sinks[0] = (struct weft_rpc_sink){.max_bytes = l->entry.entry_len * each};
	sinks[1] = (struct weft_rpc_sink){.max_bytes = each};
	return 2;
}

static const struct weft_rpc_binding list_binding = {
        .args = list_items, .sinks = list_sinks, .results = list_items, .placed = list_items};
static const struct weft_rpc_binding put_binding = {.args = put_items};
static const struct weft_rpc_binding get_binding = {.sinks = get_sinks, .results = get_items};
static const struct weft_rpc_proc procs[] = {
        [SHAPE_PUT] = {.binding = &put_binding},
        [SHAPE_GET] = {.binding = &get_binding},
        [SHAPE_REVERSE] = {.binding = &list_binding},
};
static const struct weft_rpc_program program = {SHAPE_PROG, SHAPE_V1, procs, 5};
static const struct weft_rpc_program *const programs[] = {&program, NULL};

/* ---- Set-up and calls ---- */

static struct shape s;

static void *
server_main(void *arg)
{
	(void)arg;
	svc_run();
	return NULL;
}

static void
calls(CLIENT *cl)
{
	static char data[SHAPE_DATA_MAX];
	static char name[] = "name";
	static const unsigned int sizes[] = {0, 1, 3, 1000, 4000, 5000, 70001, SHAPE_DATA_MAX};
	unsigned int one = 1, *n;

	for (unsigned int i = 1; i <= 50; i++) {
		n = shape_add_1(&one, cl);
		MUST(n != NULL && *n >= i);
	}
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		shape_put_args a = {.name = name, .data = {sizes[i], data}};
		shape_get_res *r;

		for (unsigned int k = 0; k < sizes[i]; k++)
			data[k] = (char)(k * 3 + i);
		n = shape_put_1(&a, cl);
		MUST(n != NULL && *n == add_up(data, sizes[i]) + 4);
		a.data.data_len = sizes[i];
		r = shape_get_1(&a.data.data_len, cl);
		MUST(r != NULL && r->data.data_len == sizes[i]);
		MUST(r->sum == add_up(r->data.data_val, sizes[i]));
		MUST(clnt_freeres(cl, (xdrproc_t)xdr_shape_get_res, (caddr_t)r));
		memset(r, 0, sizeof(*r));
	}
}

static void
lists(CLIENT *cl)
{
	static const unsigned int sizes[] = {1, 3, 200, SHAPE_LIST_MAX};
	static char name[] = "one of them";
	static shape_entry e[SHAPE_LIST_MAX];

	for (unsigned int i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned int n = sizes[i / 2];
		shape_list a = {.entry = {n, e}, .best = i % 2 ? &e[0] : NULL};
		shape_list *r;

		for (unsigned int k = 0; k < n; k++)
			e[k] = (shape_entry){.id = k * 3, .name = name + k % 11};
		r = shape_reverse_1(&a, cl);
		MUST(r != NULL && r->entry.entry_len == n && (r->best != NULL) == i % 2);
		for (unsigned int k = 0; k < n; k++) {
			MUST(r->entry.entry_val[k].id == e[n - 1 - k].id);
			MUST(strcmp(r->entry.entry_val[k].name, e[n - 1 - k].name) == 0);
		}
		MUST(r->best == NULL || r->best->id == e[n - 1].id);
		MUST(clnt_freeres(cl, (xdrproc_t)xdr_shape_list, (caddr_t)r));
		memset(r, 0, sizeof(*r));
	}
}

static void
client(const struct weft_tirpc_attr *attr)
{
	struct sockaddr_in to = shape_addr(1);
	struct timeval tv = {5, 0};
	CLIENT *cl = weft_clnt_create(s.ctx, (struct sockaddr *)&to, sizeof(to), SHAPE_PROG,
	                              SHAPE_V1, attr);
	u_int32_t vers = 7;

	if (cl == NULL)
		clnt_pcreateerror("shape_tirpc");
	MUST(cl != NULL);
	calls(cl);
	lists(cl);
	/* The server refuses these calls (RFC 5531 s9). */
	MUST(clnt_control(cl, CLSET_VERS, (char *)&vers));
	MUST(clnt_call(cl, SHAPE_NULL, (xdrproc_t)(void (*)(void))xdr_void, NULL,
	               (xdrproc_t)(void (*)(void))xdr_void, NULL, tv) == RPC_PROGVERSMISMATCH);
	vers = SHAPE_V1;
	MUST(clnt_control(cl, CLSET_VERS, (char *)&vers));
	MUST(clnt_call(cl, 99, (xdrproc_t)(void (*)(void))xdr_void, NULL,
	               (xdrproc_t)(void (*)(void))xdr_void, NULL, tv) == RPC_PROCUNAVAIL);
	/* Credentials are used as with any transport. */
	auth_destroy(cl->cl_auth);
	cl->cl_auth = authunix_create_default();
	calls(cl);
	auth_destroy(cl->cl_auth);
	clnt_destroy(cl);
}

int
main(void)
{
	struct weft_tirpc_attr attr = {.size = sizeof(attr), .programs = programs};
	struct sockaddr_in at = shape_addr(1);
	pthread_t t;
	SVCXPRT *x;
	CLIENT *cl;

	shape_up(&s);
	attr.worker = s.client;
	attr.reply_bytes = 8192;
	x = weft_svc_create(s.ctx, (struct sockaddr *)&at, sizeof(at), &attr);
	MUST(x != NULL);
	MUST(svc_reg(x, SHAPE_PROG, SHAPE_V1, shape_prog_1, NULL));
	MUST(pthread_create(&t, NULL, server_main, NULL) == 0);

	client(&attr);
	attr.max_vers = 1;
	client(&attr);
	attr.max_vers = 2;
	attr.min_vers = 2;
	client(&attr);

	cl = weft_clnt_create(s.ctx, (struct sockaddr *)&at, sizeof(at), SHAPE_PROG, SHAPE_V1,
	                      &attr);
	MUST(cl != NULL);
	__atomic_store_n(&last_call, true, __ATOMIC_RELEASE);
	MUST(shape_null_1(NULL, cl) != NULL);
	clnt_destroy(cl);
	MUST(pthread_join(t, NULL) == 0);
	svc_unreg(SHAPE_PROG, SHAPE_V1);
	svc_destroy(x);
	shape_down(&s);
	shape_ok("rpcgen's stubs over weft");
	return 0;
}
