/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The thread of the control socket: its clients, their requests and answers. A client has one
 * request, or one batch, under way, and nothing more is read from it until its answer is sent. So
 * what it can make the target keep is bounded.
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "target.h"
#include "target_control.h"
#include "target_say.h"
#include "ui.h"

#define CONTROL_LINE 65536U      /* octets that each client may send at once */
#define CONTROL_LONG (16U << 20) /* octets of longer requests, of all clients */

#define NS_PER_MS  1000000ULL
#define NS_PER_SEC 1000000000ULL

struct control_client {
	int fd;
	uid_t uid;
	pid_t pid;
	uint64_t moved_ns; /**< when octets moved, or an answer was ready */
	bool eof;          /**< it sends no more */
	bool ends;         /**< it is closed when what it is owed is sent */
	char *in;
	size_t in_at, in_len; /**< the octets that are there: from in_at to in_len */
	size_t in_seen;       /**< up to there no newline is behind in_at */
	size_t in_size;       /**< of in: CONTROL_LINE, or more while a request is longer */
	char *out;
	size_t out_len, out_at;
	/* the request under way */
	json_t *batch, *answers; /**< of a batch; answers: those that are ready */
	size_t batch_at;
	struct ctl_request req;
	struct control_job *job;
	uint64_t end_ns; /**< when it is answered as late */
	uint64_t job_ns; /**< when the job has to be looked at; 0: when it is done */
};

struct control {
	struct target *t;
	struct control_socket socket;
	struct control_counters counters;
	pthread_t thread;
	int wake_fd;
	atomic_bool ending; /**< relaxed: the eventfd wakes the thread */
	/* the control thread alone */
	struct control_client *clients[CONTROL_CLIENTS];
	uint32_t nclients;
	size_t long_bytes; /**< what the clients' `in` have beyond CONTROL_LINE */
};

static void
count(atomic_ullong *n)
{
	atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

/* ---- Answers ---- */

static void
client_close(struct control *ctl, uint32_t i)
{
	struct control_client *c = ctl->clients[i];

	if (c->job != NULL) {
		atomic_store_explicit(&c->job->given, true, memory_order_relaxed);
		control_job_put(c->job);
	}
	ctl_request_free(&c->req);
	json_decref(c->batch);
	json_decref(c->answers);
	close(c->fd);
	ctl->long_bytes -= c->in_size - CONTROL_LINE;
	free(c->in);
	free(c->out);
	free(c);
	ctl->clients[i] = ctl->clients[--ctl->nclients];
	atomic_store_explicit(&ctl->counters.clients, ctl->nclients, memory_order_relaxed);
}

/** Queue an answer for sending. Takes it. */
static void
client_send(struct control *ctl, struct control_client *c, json_t *answer)
{
	size_t len = 0;
	char *text = ctl_text(answer, &len);

	if (text != NULL && len > CTL_ANSWER_MAX) {
		struct ctl_fault f;
		json_t *id = json_object_get(answer, "id"), *none = json_null(), *fault;

		count(&ctl->counters.too_long);
		ctl_fail(&f, CTL_TOO_LONG, "the answer has %zu octets; %u at most", len,
		         CTL_ANSWER_MAX);
		fault = ctl_answer_fault(id != NULL ? id : none, &f);
		free(text);
		text = ctl_text(fault, &len);
		json_decref(fault);
	}
	json_decref(answer);
	c->out = text;
	c->out_len = text != NULL ? len : 0;
	c->out_at = 0;
	c->moved_ns = ui_now_ns();
	if (text == NULL)
		c->ends = true; /* no memory: the client sees the end */
}

/** A request is answered: alone, or as a part of its batch. Takes the answer; NULL: it has none. */
static void
client_answer(struct control *ctl, struct control_client *c, json_t *answer)
{
	ctl_request_free(&c->req);
	if (c->batch == NULL) {
		if (answer != NULL)
			client_send(ctl, c, answer);
		return;
	}
	if (answer != NULL)
		(void)json_array_append_new(c->answers, answer);
	if (c->batch_at < json_array_size(c->batch))
		return;
	answer = c->answers;
	c->answers = NULL;
	json_decref(c->batch);
	c->batch = NULL;
	if (json_array_size(answer) > 0)
		client_send(ctl, c, answer);
	else
		json_decref(answer); /* of notifications alone */
}

static void
client_fault(struct control *ctl, struct control_client *c, const struct ctl_fault *f)
{
	client_answer(ctl, c, c->req.id != NULL ? ctl_answer_fault(c->req.id, f) : NULL);
}

/* ---- Requests ---- */

/** Begin one request. Nothing, an answer or a job comes of it. */
static void
client_begin(struct control *ctl, struct control_client *c, const json_t *value)
{
	const struct control_handler *h;
	struct ctl_fault f = {0};

	count(&ctl->counters.requests);
	if (!ctl_request(value, &c->req, &f)) {
		count(&ctl->counters.bad);
		client_fault(ctl, c, &f);
		return;
	}
	h = control_handler_find(c->req.method->name);
	c->job = h != NULL ? control_job_make(ctl->t, h, c->req.method, c->req.params) : NULL;
	if (c->job == NULL) {
		ctl_fail(&f, h != NULL ? CTL_INTERNAL : CTL_NO_METHOD,
		         h != NULL ? "out of memory" : "not served");
		client_fault(ctl, c, &f);
		return;
	}
	c->job->uid = c->uid;
	c->job->pid = c->pid;
	c->end_ns = ui_now_ns() + c->req.method->limit_ms * NS_PER_MS;
	control_job_start(c->job);
}

/** Look at the job. False: it is under way. */
static bool
client_job(struct control *ctl, struct control_client *c, uint64_t now)
{
	struct control_job *job = c->job;
	struct ctl_fault f = {0};
	json_t *answer = NULL;

	c->job_ns = 0;
	if (!atomic_load_explicit(&job->done, memory_order_acquire) ||
	    control_job_measures(job, now, &c->job_ns)) {
		if (now < c->end_ns)
			return false;
		count(&ctl->counters.late);
		atomic_store_explicit(&job->given, true, memory_order_relaxed);
		ctl_fail(&f, CTL_LATE,
		         "%s: not done within %u s; it goes on, and the log has its end",
		         job->method->name, job->method->limit_ms / 1000);
	} else {
		control_job_finish(job);
		f = job->fault;
	}
	if (c->req.id != NULL && f.code == CTL_OK) {
		answer = ctl_answer(c->req.id, job->result);
		job->result = NULL;
	} else if (c->req.id != NULL) {
		answer = ctl_answer_fault(c->req.id, &f);
	}
	c->job = NULL;
	control_job_put(job);
	client_answer(ctl, c, answer);
	return true;
}

/** Begin what a line asks for. */
static void
client_line(struct control *ctl, struct control_client *c, const char *line, size_t len)
{
	struct ctl_fault f = {0};
	json_t *value;

	if (len > 0 && line[len - 1] == '\r')
		len--;
	if (len == 0)
		return;
	value = ctl_parse(line, len, &f);
	if (value == NULL) {
		count(&ctl->counters.requests);
		count(&ctl->counters.bad);
		c->req = (struct ctl_request){.id = json_null()};
		client_fault(ctl, c, &f);
	} else if (json_is_array(value)) {
		c->batch = value;
		c->batch_at = 0;
		c->answers = json_array();
	} else {
		client_begin(ctl, c, value);
		json_decref(value);
	}
}

/** Have room for a request of so many octets. False: there is none, and all is as it was. */
static bool
client_room(struct control *ctl, struct control_client *c, size_t size)
{
	const size_t others = ctl->long_bytes - (c->in_size - CONTROL_LINE);
	char *in;

	if (size > CTL_LINE_MAX || size - CONTROL_LINE > CONTROL_LONG - others)
		return false;
	in = realloc(c->in, size);
	if (in == NULL)
		return false;
	c->in = in;
	c->in_size = size;
	ctl->long_bytes = others + (size - CONTROL_LINE);
	return true;
}

/** Take the next line. False: there is none. */
static bool
client_next_line(struct control *ctl, struct control_client *c)
{
	size_t at;
	char *end;

	while (c->in_at < c->in_len && (c->in[c->in_at] == '\n' || c->in[c->in_at] == '\r'))
		c->in_at++;
	at = c->in_seen > c->in_at ? c->in_seen : c->in_at;
	end = memchr(c->in + at, '\n', c->in_len - at);
	if (end != NULL) {
		at = c->in_at;
		c->in_at = (size_t)(end - c->in) + 1;
		client_line(ctl, c, c->in + at, (size_t)(end - c->in) - at);
		return true;
	}
	/* What is there of a line goes to the front. Whole lines do not: a client may send
	 * thousands at once. */
	c->in_len -= c->in_at;
	memmove(c->in, c->in + c->in_at, c->in_len);
	c->in_at = 0;
	c->in_seen = c->in_len;
	if (c->in_len == c->in_size && !client_room(ctl, c, 2 * c->in_size)) {
		struct ctl_fault f;

		/* The rest of the line is not told from the next one: the client ends. */
		count(&ctl->counters.too_long);
		if (c->in_size == CTL_LINE_MAX)
			ctl_fail(&f, CTL_TOO_LONG, "the request is longer than %u octets",
			         CTL_LINE_MAX);
		else
			ctl_fail(&f, CTL_TOO_LONG,
			         "no memory for a request longer than %zu octets: other clients "
			         "have long ones; try again later",
			         c->in_size);
		c->req = (struct ctl_request){.id = json_null()};
		client_fault(ctl, c, &f);
		c->ends = true;
		c->in_len = c->in_seen = 0;
	} else if (c->in_size > CONTROL_LINE && c->in_len == 0) {
		(void)client_room(ctl, c, CONTROL_LINE);
	}
	return false;
}

/* ---- A client ---- */

/** Send what there is to send. False: the client is gone. */
static bool
client_flush(struct control_client *c, uint64_t now)
{
	while (c->out != NULL) {
		ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at,
		                 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		c->moved_ns = now;
		c->out_at += (size_t)n;
		if (c->out_at == c->out_len) {
			free(c->out);
			c->out = NULL;
		}
	}
	return true;
}

/** Read what there is to read. False: the client is gone. */
static bool
client_read(struct control_client *c, uint64_t now)
{
	ssize_t n = recv(c->fd, c->in + c->in_len, c->in_size - c->in_len, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		c->eof = true;
	else
		c->moved_ns = now;
	c->in_len += (size_t)n;
	return true;
}

/** Whether the client may be read from: it is owed nothing. */
static bool
client_is_free(const struct control_client *c)
{
	return c->out == NULL && c->job == NULL && c->batch == NULL && !c->ends;
}

/** Do what can be done without waiting. False: close it. */
static bool
client_step(struct control *ctl, struct control_client *c, uint64_t now)
{
	for (;;) {
		if (!client_flush(c, now))
			return false;
		if (c->out != NULL)
			return true;
		if (c->job != NULL) {
			if (!client_job(ctl, c, now))
				return true;
			continue;
		}
		if (c->batch != NULL) {
			client_begin(ctl, c, json_array_get(c->batch, c->batch_at++));
			continue;
		}
		if (c->ends)
			return false;
		if (!client_next_line(ctl, c) && client_is_free(c))
			return !c->eof;
	}
}

/** Whether the client takes, or sends, too little; it is counted. */
static bool
client_is_stale(struct control *ctl, const struct control_client *c, uint64_t now)
{
	if (c->out != NULL && now - c->moved_ns >= CONTROL_SLOW_S * NS_PER_SEC) {
		count(&ctl->counters.slow);
		return true;
	}
	if (client_is_free(c) && now - c->moved_ns >= CONTROL_IDLE_S * NS_PER_SEC) {
		count(&ctl->counters.idle);
		return true;
	}
	return false;
}

/** When the client has to be looked at again, if nothing happens. */
static uint64_t
client_next_ns(const struct control_client *c)
{
	if (c->out != NULL)
		return c->moved_ns + CONTROL_SLOW_S * NS_PER_SEC;
	if (c->job != NULL && c->job_ns != 0)
		return c->job_ns;
	return c->job != NULL ? c->end_ns : c->moved_ns + CONTROL_IDLE_S * NS_PER_SEC;
}

/* ---- New clients ---- */

/** Tell why, and close. */
static void
turn_away(int fd, enum ctl_code code, const char *why)
{
	struct ctl_fault f;
	json_t *none = json_null(), *answer;
	size_t len = 0;
	char *text;

	ctl_fail(&f, code, "%s", why);
	answer = ctl_answer_fault(none, &f);
	text = ctl_text(answer, &len);
	if (text != NULL)
		(void)send(fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	free(text);
	json_decref(answer);
	close(fd);
}

static void
control_accept(struct control *ctl, uint64_t now)
{
	char why[128];
	struct control_client *c;
	uid_t uid = (uid_t)-1;
	pid_t pid = 0;
	int fd = accept4(ctl->socket.file.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		/* Without a descriptor for it the client would wake this thread again at once. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			(void)poll(NULL, 0, 100);
		return;
	}
	if (!control_socket_may(&ctl->socket, fd, &uid, &pid)) {
		count(&ctl->counters.denied);
		snprintf(why, sizeof(why),
		         "user %u may not use this socket; root, the target's user and "
		         "control_group may",
		         (unsigned int)uid);
		target_log(UI_WARNING "control: refused user %u, process %d", (unsigned int)uid,
		           (int)pid);
		turn_away(fd, CTL_DENIED, why);
		return;
	}
	if (ctl->nclients == CONTROL_CLIENTS) {
		count(&ctl->counters.refused);
		snprintf(why, sizeof(why),
		         "the socket has %u clients, as many as it may have; "
		         "try again later",
		         CONTROL_CLIENTS);
		turn_away(fd, CTL_FULL, why);
		return;
	}
	c = calloc(1, sizeof(*c));
	if (c != NULL)
		c->in = malloc(CONTROL_LINE);
	if (c == NULL || c->in == NULL) {
		free(c);
		turn_away(fd, CTL_INTERNAL, "out of memory");
		return;
	}
	c->in_size = CONTROL_LINE;
	c->fd = fd;
	c->uid = uid;
	c->pid = pid;
	c->moved_ns = now;
	ctl->clients[ctl->nclients++] = c;
	atomic_store_explicit(&ctl->counters.clients, ctl->nclients, memory_order_relaxed);
}

/* ---- The thread ---- */

/** Fill in what poll() waits for. Returns its timeout in milliseconds. */
static int
control_wait_for(struct control *ctl, struct pollfd *p, uint64_t now)
{
	uint64_t next_ns = UINT64_MAX;

	p[0] = (struct pollfd){.fd = ctl->wake_fd, .events = POLLIN};
	p[1] = (struct pollfd){.fd = ctl->socket.file.fd, .events = POLLIN};
	for (uint32_t i = 0; i < ctl->nclients; i++) {
		const struct control_client *c = ctl->clients[i];
		uint64_t one = client_next_ns(c);

		p[2 + i].fd = c->fd;
		p[2 + i].events = c->out != NULL                 ? POLLOUT
		                  : client_is_free(c) && !c->eof ? POLLIN
		                                                 : 0;
		p[2 + i].revents = 0;
		next_ns = one < next_ns ? one : next_ns;
	}
	if (next_ns == UINT64_MAX)
		return -1;
	return next_ns <= now ? 0 : (int)((next_ns - now) / NS_PER_MS) + 1;
}

/** One client after poll(). False: close it. */
static bool
control_client(struct control *ctl, struct control_client *c, short revents, uint64_t now)
{
	/* The client has closed its end, so it reads no answer. What it asked for before is done,
	 * also what has not been read yet. */
	if ((revents & (POLLHUP | POLLERR)) && !(revents & POLLIN))
		return false;
	if ((revents & POLLIN) && !client_read(c, now))
		return false;
	return client_step(ctl, c, now) && !client_is_stale(ctl, c, now);
}

/** The target ends: answers that are ready are sent, for a moment. */
static void
control_farewell(struct control *ctl)
{
	const uint64_t end_ns = ui_now_ns() + CONTROL_FLUSH_MS * NS_PER_MS;

	while (ctl->nclients > 0) {
		uint64_t now = ui_now_ns();

		for (uint32_t i = ctl->nclients; i-- > 0;) {
			struct control_client *c = ctl->clients[i];

			/* A job of the workers may be under way still. */
			if (!client_flush(c, now) ||
			    (c->job != NULL && client_job(ctl, c, now) && !client_flush(c, now)) ||
			    (c->job == NULL && c->out == NULL) || now >= end_ns)
				client_close(ctl, i);
		}
		(void)poll(NULL, 0, 1);
	}
}

static void *
control_main(void *arg)
{
	struct control *ctl = arg;
	struct pollfd p[2 + CONTROL_CLIENTS];
	eventfd_t v;

	while (!atomic_load_explicit(&ctl->ending, memory_order_relaxed)) {
		uint64_t now = ui_now_ns();
		const uint32_t n = ctl->nclients;

		if (poll(p, 2 + n, control_wait_for(ctl, p, now)) < 0)
			continue;
		now = ui_now_ns();
		if (p[0].revents & POLLIN)
			(void)eventfd_read(ctl->wake_fd, &v);
		/* From the last one on, because the last one takes the place of one that is
		 * closed. */
		for (uint32_t i = n; i-- > 0;)
			if (!control_client(ctl, ctl->clients[i], p[2 + i].revents, now))
				client_close(ctl, i);
		if (p[1].revents & POLLIN)
			control_accept(ctl, now);
	}
	control_farewell(ctl);
	return NULL;
}

/* ---- Begin and end ---- */

int
target_control_begin(struct target *t, char *err, size_t err_size)
{
	struct control *ctl = calloc(1, sizeof(*ctl));
	int rc;

	if (ctl == NULL)
		return -ENOMEM;
	ctl->t = t;
	rc = control_socket_open(&t->conf.target, &ctl->socket, err, err_size);
	if (rc != 0 && t->conf.target.control[0] == '\0') {
		/* The configuration does not name a socket, so the target goes on without one. */
		ui_msg(UI_WARNING "control: off: %s", err);
		rc = 0;
	}
	if (rc != 0 || ctl->socket.file.fd < 0) {
		free(ctl);
		return rc;
	}
	ctl->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	rc = ctl->wake_fd < 0 ? -errno : control_queue_open(&t->control_queue, ctl->wake_fd);
	if (rc == 0) {
		t->control = ctl;
		t->control_counters = &ctl->counters;
		rc = -pthread_create(&ctl->thread, NULL, control_main, ctl);
	}
	if (rc == 0) {
		(void)pthread_setname_np(ctl->thread, "weft-control");
		ui_msg("control: weft-ctl --socket %s", ctl->socket.file.path);
		return 0;
	}
	snprintf(err, err_size, "cannot start: the control socket: %s", strerror(-rc));
	t->control = NULL;
	control_queue_close(t->control_queue);
	t->control_queue = NULL;
	sock_file_close(&ctl->socket.file);
	if (ctl->wake_fd >= 0)
		close(ctl->wake_fd);
	free(ctl);
	return rc;
}

bool
target_control_run(struct target *t)
{
	return t->control != NULL && control_queue_run(t->control_queue);
}

void
target_control_end(struct target *t)
{
	struct control *ctl = t->control;

	if (ctl == NULL)
		return;
	control_queue_end(t->control_queue);
	atomic_store_explicit(&ctl->ending, true, memory_order_relaxed);
	(void)eventfd_write(ctl->wake_fd, 1);
	(void)pthread_join(ctl->thread, NULL);
	/* The next target may have it while this one closes its connections. */
	sock_file_close(&ctl->socket.file);
}

void
target_control_free(struct target *t)
{
	struct control *ctl = t->control;

	if (ctl == NULL)
		return;
	close(ctl->wake_fd);
	control_queue_close(t->control_queue);
	free(ctl);
	t->control = NULL;
	t->control_queue = NULL;
}
