/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The metrics thread: HTTP by libmicrohttpd, which this thread polls. What others can make
 * it keep is bounded: connections, the memory of each, the memory of answers that are not taken,
 * and the time for a request and for an answer. An answer is a text that is made at most each
 * TEXT_MS, and that all its readers share.
 */

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "metrics_page.h"
#include "metrics_read.h"
#include "target.h"
#include "ui.h"

#define HTTP_CONNS   32U    /**< at once */
#define HTTP_PUSH_AT 24U    /**< from so many on a new one pushes out the oldest idle one */
#define HTTP_BYTES   16384U /**< memory of a connection: its request */
#define HTTP_REQUEST_NS                                                                            \
	10000000000U /**< from the accept to the end of the first request's headers */
#define HTTP_ANSWER_NS 10000000000U /**< from a request to the end of its answer */
#define HTTP_IDLE_NS   75000000000U /**< without a request */
#define HTTP_TEXT_NS   50000000U    /**< a text is not older */
#define HTTP_HELD_MAX  (64U << 20)  /**< octets of texts that are not taken */
#define HTTP_NICE      5
#define HTTP_LINES     8192

/** A connection, in its MHD_CONNECTION_INFO_SOCKET_CONTEXT. */
struct http_conn {
	struct http_conn *next, **back;
	int fd;
	bool busy;         /**< it has a request, whose answer is not taken */
	bool met;          /**< it had one */
	bool ending;       /**< it is shut down */
	uint64_t since_ns; /**< of what it does now: accepted, busy or idle */
};

/** A text that readers share. */
struct http_text {
	struct metrics_http *h;
	char *buf;
	size_t len, cap;
};

struct metrics_http {
	struct metrics *m;
	struct metrics_clients *clients;
	struct metrics_shown *shown;
	/** The memory of a text that was taken, for the next one: giving it back and taking it anew
	 * takes time of the workers, too, as the kernel interrupts each thread of the program. */
	struct metrics_text spare;
	struct MHD_Daemon *daemon;
	struct MHD_Response *page, *text;
	uint64_t text_ns;
	/* of /livez; live_ns: when the workers were asked, 0: never */
	uint64_t live_ns, silent_ns;
	uint32_t silent;
	bool live;
	size_t held; /**< octets of all texts */
	struct http_conn *conns;
	uint64_t ended; /**< connections that have */
	struct metrics_self self;
	pthread_t thread;
	int wake_fd;
	char at[ADDR_STR_MAX];
};

/* ---- Answers ---- */

static struct MHD_Response *
with_headers(struct MHD_Response *r, const char *type)
{
	static const char *const more[][2] = {
	        {"X-Content-Type-Options", "nosniff"},
	        {"X-Frame-Options", "DENY"},
	        {"Referrer-Policy", "no-referrer"},
	        {"Cache-Control", "no-store"},
	        {"Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; "
	                                    "script-src 'unsafe-inline'; connect-src 'self'; "
	                                    "frame-ancestors 'none'; base-uri 'none'"},
	};
	bool ok = r != NULL &&
	          MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES;

	for (unsigned int i = 0; ok && i < sizeof(more) / sizeof(more[0]); i++)
		ok = MHD_add_response_header(r, more[i][0], more[i][1]) == MHD_YES;
	if (!ok && r != NULL)
		MHD_destroy_response(r);
	return ok ? r : NULL;
}

static enum MHD_Result
answer(struct MHD_Connection *c, unsigned int code, struct MHD_Response *r)
{
	enum MHD_Result rc = r != NULL ? MHD_queue_response(c, code, r) : MHD_NO;

	return rc; /* MHD_NO closes the connection */
}

static enum MHD_Result
answer_lines(struct MHD_Connection *c, unsigned int code, const char *lines)
{
	struct MHD_Response *r = with_headers(
	        MHD_create_response_from_buffer(strlen(lines), (void *)(uintptr_t)lines,
	                                        MHD_RESPMEM_MUST_COPY),
	        "text/plain; charset=utf-8");
	enum MHD_Result rc;

	if (r != NULL && code == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	rc = answer(c, code, r);
	if (r != NULL)
		MHD_destroy_response(r);
	return rc;
}

/** The last reader has taken it. */
static void
text_free(void *cls)
{
	struct http_text *tx = cls;

	tx->h->held -= tx->len;
	if (tx->h->spare.buf == NULL)
		tx->h->spare = (struct metrics_text){.buf = tx->buf, .cap = tx->cap};
	else
		free(tx->buf);
	free(tx);
}

/** A text of now, which the daemon keeps. NULL: no memory. */
static struct MHD_Response *
text_make(struct metrics_http *h)
{
	struct metrics_text tx = h->spare;
	struct http_text *keep;
	struct MHD_Response *r;
	const uint64_t began_ns = ui_now_ns();

	h->spare = (struct metrics_text){0};
	metrics_clients_refresh(h->clients);
	metrics_render(h->m, h->shown, h->clients, &h->self, &tx);
	h->self.render_ns = ui_now_ns() - began_ns;
	keep = tx.failed || h->held + tx.len > HTTP_HELD_MAX ? NULL : malloc(sizeof(*keep));
	if (keep == NULL) {
		free(tx.buf);
		return NULL;
	}
	*keep = (struct http_text){h, tx.buf, tx.len, tx.cap};
	h->held += tx.len;
	r = MHD_create_response_from_buffer_with_free_callback_cls(tx.len, tx.buf, text_free, keep);
	if (r == NULL)
		text_free(keep);
	return with_headers(r, "text/plain; version=0.0.4; charset=utf-8");
}

static enum MHD_Result
answer_metrics(struct metrics_http *h, struct MHD_Connection *c)
{
	const uint64_t now = ui_now_ns();

	if (h->text == NULL || now - h->text_ns >= HTTP_TEXT_NS) {
		if (h->text != NULL)
			MHD_destroy_response(h->text);
		h->text = text_make(h);
		h->text_ns = ui_now_ns();
	}
	if (h->text != NULL)
		return answer(c, MHD_HTTP_OK, h->text);
	h->self.refused++;
	return answer_lines(c, MHD_HTTP_SERVICE_UNAVAILABLE,
	                    "no memory for the text; readers hold too much\n");
}

static enum MHD_Result
answer_live(struct metrics_http *h, struct MHD_Connection *c)
{
	char lines[128];

	/* However many supervisors ask, the workers are asked once. */
	if (h->live_ns == 0 || ui_now_ns() - h->live_ns >= HTTP_TEXT_NS) {
		h->live = metrics_clients_alive(h->clients, &h->silent, &h->silent_ns);
		h->live_ns = ui_now_ns();
	}
	if (h->live)
		return answer_lines(c, MHD_HTTP_OK, "live\n");
	snprintf(lines, sizeof(lines), "worker %u has not polled for %llu ms\n", h->silent,
	         (unsigned long long)(h->silent_ns / 1000000));
	return answer_lines(
	        c, h->silent_ns < METRICS_LIVE_NS ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
	        lines);
}

static enum MHD_Result
answer_state(struct metrics_http *h, struct MHD_Connection *c,
             bool (*is)(struct target *t, char *buf, size_t size), const char *yes, const char *no)
{
	char lines[HTTP_LINES], text[HTTP_LINES + 64];
	const bool good = is(h->m->t, lines, sizeof(lines));

	snprintf(text, sizeof(text), "%s\n%s", good ? yes : no, lines);
	return answer_lines(c, good ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, text);
}

/** Called when the headers of a request are here, for each part of its body, which no request of
 * ours has, and when all of it is here. */
static enum MHD_Result
on_request(void *cls, struct MHD_Connection *c, const char *url, const char *method,
           const char *version, const char *body, size_t *body_bytes, void **req)
{
	const union MHD_ConnectionInfo *info =
	        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_conn *hc = info != NULL ? info->socket_context : NULL;
	struct metrics_http *h = cls;

	(void)version;
	(void)body;
	if (*req == NULL) {
		*req = h;
		h->self.requests++;
		if (hc != NULL) {
			hc->busy = hc->met = true;
			hc->since_ns = ui_now_ns();
		}
		if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
		    strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
			return MHD_YES; /* an answer now would end the connection */
		h->self.refused++;
		return answer_lines(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
	}
	if (*body_bytes != 0) {
		*body_bytes = 0;
		return MHD_YES;
	}
	if (strcmp(url, "/metrics") == 0)
		return answer_metrics(h, c);
	if (strcmp(url, "/") == 0)
		return answer(c, MHD_HTTP_OK, h->page);
	if (strcmp(url, "/livez") == 0)
		return answer_live(h, c);
	if (strcmp(url, "/readyz") == 0)
		return answer_state(h, c, metrics_ready, "ready", "not ready");
	if (strcmp(url, "/stopz") == 0)
		return answer_state(h, c, metrics_safe_to_stop, "safe", "not safe");
	h->self.refused++;
	return answer_lines(c, MHD_HTTP_NOT_FOUND,
	                    "there are /, /metrics, /livez, /readyz and /stopz\n");
}

/* ---- Connections ---- */

static void
on_completed(void *cls, struct MHD_Connection *c, void **req, enum MHD_RequestTerminationCode why)
{
	const union MHD_ConnectionInfo *info =
	        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_conn *hc = info != NULL ? info->socket_context : NULL;

	(void)cls;
	(void)why;
	*req = NULL;
	if (hc == NULL)
		return;
	hc->busy = false;
	hc->since_ns = ui_now_ns();
}

/** Its end comes to the daemon as the peer's would. */
static void
conn_shut(struct http_conn *hc, uint64_t *counter)
{
	hc->ending = true;
	*counter += 1;
	(void)shutdown(hc->fd, SHUT_RDWR);
}

/** Too many connections: the one that has been idle for the longest time goes. */
static void
push_out(struct metrics_http *h)
{
	struct http_conn *oldest = NULL;

	for (struct http_conn *hc = h->conns; hc != NULL; hc = hc->next)
		if (!hc->busy && !hc->ending && (oldest == NULL || hc->since_ns < oldest->since_ns))
			oldest = hc;
	if (oldest != NULL)
		conn_shut(oldest, &h->self.pushed_out);
}

static void
on_connection(void *cls, struct MHD_Connection *c, void **ctx,
              enum MHD_ConnectionNotificationCode n)
{
	const union MHD_ConnectionInfo *info =
	        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct metrics_http *h = cls;
	struct http_conn *hc = *ctx;

	if (n == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (hc == NULL)
			return;
		*hc->back = hc->next;
		if (hc->next != NULL)
			hc->next->back = hc->back;
		h->self.conns--;
		h->ended++;
		free(hc);
		*ctx = NULL;
		return;
	}
	if (h->self.conns >= HTTP_PUSH_AT)
		push_out(h);
	hc = info != NULL ? calloc(1, sizeof(*hc)) : NULL;
	*ctx = hc;
	if (hc == NULL)
		return; /* the daemon's own time limit ends it */
	hc->fd = info->connect_fd;
	hc->since_ns = ui_now_ns();
	hc->next = h->conns;
	hc->back = &h->conns;
	if (hc->next != NULL)
		hc->next->back = &hc->next;
	h->conns = hc;
	h->self.conns++;
}

/** Whether the peer has closed its end, and nothing of it is left to be read. The daemon does not
 * notice that when it came with the last octets. */
static bool
conn_eof(const struct http_conn *hc)
{
	char c;

	return !hc->busy && recv(hc->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/** End connections whose time is over. Returns when the next one's is. */
static uint64_t
look_at_conns(struct metrics_http *h, uint64_t now)
{
	uint64_t next_ns = UINT64_MAX;

	for (struct http_conn *hc = h->conns; hc != NULL; hc = hc->next) {
		const uint64_t limit_ns = hc->busy  ? HTTP_ANSWER_NS
		                          : hc->met ? HTTP_IDLE_NS
		                                    : HTTP_REQUEST_NS;

		if (hc->ending)
			continue;
		if (conn_eof(hc))
			conn_shut(hc, &h->ended);
		else if (now - hc->since_ns >= limit_ns)
			conn_shut(hc, hc->met && !hc->busy ? &h->self.idle : &h->self.slow);
		else if (hc->since_ns + limit_ns < next_ns)
			next_ns = hc->since_ns + limit_ns;
	}
	return next_ns;
}

/* ---- The thread ---- */

static void
http_free(struct metrics_http *h)
{
	if (h->daemon != NULL)
		MHD_stop_daemon(h->daemon);
	if (h->text != NULL)
		MHD_destroy_response(h->text);
	if (h->page != NULL)
		MHD_destroy_response(h->page);
	metrics_clients_free(h->clients);
	metrics_shown_free(h->shown);
	free(h->spare.buf);
	if (h->wake_fd >= 0)
		close(h->wake_fd);
	free(h);
}

/** Do what is to be done. A daemon that has closed one of too many connections takes new ones in
 * its next turn, for which nothing wakes it. */
static void
http_run(struct metrics_http *h)
{
	uint64_t ended;

	do {
		ended = h->ended;
		(void)MHD_run(h->daemon);
	} while (h->ended != ended);
}

static void *
http_main(void *arg)
{
	struct metrics_http *h = arg;
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	struct pollfd p[2] = {{.fd = h->wake_fd, .events = POLLIN},
	                      {.fd = info != NULL ? info->epoll_fd : -1, .events = POLLIN}};

	pthread_setname_np(pthread_self(), "weft-metrics");
	/* Of this thread alone: a worker that shares its CPU comes first. */
	(void)setpriority(PRIO_PROCESS, 0, HTTP_NICE);
	while ((p[0].revents & POLLIN) == 0) {
		const uint64_t now = ui_now_ns();
		const uint64_t next_ns = look_at_conns(h, now);
		MHD_UNSIGNED_LONG_LONG ms = 0;
		int wait = -1;

		if (MHD_get_timeout(h->daemon, &ms) == MHD_YES)
			wait = ms < 60000 ? (int)ms : 60000;
		if (next_ns != UINT64_MAX && (wait < 0 || next_ns - now < (uint64_t)wait * 1000000))
			wait = (int)((next_ns - now) / 1000000) + 1;
		if (poll(p, 2, wait) < 0)
			p[0].revents = 0;
		http_run(h);
	}
	return NULL;
}

/** A socket that listens there. -errno. */
static int
http_listen(const struct sockaddr_storage *at)
{
	const int one = 1;
	int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (at->ss_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)at, addr_len(at)) == 0 && listen(fd, 64) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static int
http_start(struct metrics_http *h, int fd)
{
	h->clients = metrics_clients_make(h->m);
	h->shown = metrics_shown_make(h->m);
	h->wake_fd = eventfd(0, EFD_CLOEXEC);
	h->page = with_headers(MHD_create_response_from_buffer(metrics_page_bytes,
	                                                       (void *)(uintptr_t)metrics_page,
	                                                       MHD_RESPMEM_PERSISTENT),
	                       "text/html; charset=utf-8");
	if (h->clients == NULL || h->shown == NULL || h->wake_fd < 0 || h->page == NULL) {
		close(fd);
		return -ENOMEM;
	}
	h->daemon = MHD_start_daemon(
	        MHD_USE_EPOLL, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, fd,
	        MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	        (size_t)HTTP_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
	        (unsigned int)(HTTP_IDLE_NS / 1000000000U), MHD_OPTION_NOTIFY_COMPLETED,
	        on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_END);
	if (h->daemon == NULL) {
		close(fd);
		return -ENOMEM;
	}
	return -pthread_create(&h->thread, NULL, http_main, h);
}

int
metrics_http_open(struct metrics *m, struct metrics_http **out, char *err, size_t err_size)
{
	struct metrics_http *h = calloc(1, sizeof(*h));
	struct sockaddr_storage at;
	int rc = -ENOMEM, fd;

	(void)conf_parse_metrics(m->t->conf.target.metrics, &at); /* the load has checked it */
	if (h != NULL) {
		h->m = m;
		h->wake_fd = -1;
		addr_str(&at, h->at);
		fd = http_listen(&at);
		rc = fd < 0 ? fd : http_start(h, fd);
	}
	if (rc == 0) {
		*out = h;
		return 0;
	}
	snprintf(err, err_size, "[target] metrics: %s: %s", m->t->conf.target.metrics,
	         rc == -EADDRINUSE ? "another program has this port; choose another one"
	         : rc == -EADDRNOTAVAIL
	                 ? "the address is not one of this host's kernel; 127.0.0.1 always is"
	                 : strerror(-rc));
	if (h != NULL)
		http_free(h);
	return rc;
}

void
metrics_http_close(struct metrics_http *h)
{
	const uint64_t n = 1;

	if (h == NULL)
		return;
	(void)!write(h->wake_fd, &n, sizeof(n));
	pthread_join(h->thread, NULL);
	/* A worker that does not poll may still use what it was given: then that is left to it. */
	if (metrics_clients_rest(h->clients))
		http_free(h);
}

const char *
metrics_http_at(const struct metrics_http *h)
{
	return h->at;
}
