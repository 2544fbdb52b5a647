/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A live stack from a configuration. */

#include "stack.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* net_memif says nothing more than that it failed; these are the reasons in practice. */
static const char *
stack_device_why(const char *dev)
{
	if (strncmp(dev, "net_memif", 9) != 0)
		return "no such device, or it cannot be opened";
	if (strstr(dev, "role=server") != NULL)
		return "cannot be opened: another server has that socket, or a dead one left it "
		       "behind";
	return "cannot be opened: no target listening (a net_memif client needs its server)";
}

static const char *
stack_port_why(int rc, const char *dev)
{
	switch (rc) {
	case -ENODEV:
	case -ECONNREFUSED:
	case -ENOENT:
	case -EIO:
		return stack_device_why(dev);
	case -ENOMEM:
		return "not enough memory for its buffers (memory_mb, or fewer mbufs)";
	case -EINVAL:
		return "its device, mtu or mbufs are not valid";
	case -EEXIST:
		return "its name is taken";
	default:
		return strerror(-rc);
	}
}

/*
 * A memif server that was killed leaves its socket file behind, and its successor cannot bind. A
 * socket that nobody accepts on is such a one: remove it.
 */
static void
stack_stale_socket(const char *dev)
{
	const char *arg = strstr(dev, ",socket=");
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct stat st;
	size_t n;
	int fd;

	if (strncmp(dev, "net_memif", 9) != 0 || strstr(dev, "role=server") == NULL ||
	    strstr(dev, "socket-abstract=no") == NULL || arg == NULL)
		return;
	arg += strlen(",socket=");
	n = strcspn(arg, ",");
	if (n >= sizeof(sun.sun_path))
		return;
	memcpy(sun.sun_path, arg, n);
	if (lstat(sun.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0 && errno == ECONNREFUSED)
		(void)unlink(sun.sun_path);
	close(fd);
}

static int
stack_open_ports(const struct conf *c, struct stack *s, char *err, size_t err_size)
{
	for (uint32_t i = 0; i < c->nports; i++) {
		const struct conf_port *p = &c->ports[i];
		const struct weft_port_attr attr = {
		        .size = sizeof(attr),
		        .name = p->name,
		        .dev = p->dev,
		        .addr = p->addr,
		        .prefix_len = (uint8_t)p->prefix_len,
		        .gateway = p->gateway,
		        .mtu_bytes = (uint16_t)p->mtu_bytes,
		        .mbufs = p->mbufs,
		};
		int rc;

		stack_stale_socket(p->dev);
		rc = weft_port_open(s->ctx, &attr, &s->ports[i]);
		if (rc != 0) {
			snprintf(err, err_size, "port %s (%s): %s", p->name, p->dev,
			         stack_port_why(rc, p->dev));
			return rc;
		}
		s->nports++;
	}
	return 0;
}

static int
stack_make_workers(const struct conf *c, struct stack *s, char *err, size_t err_size)
{
	for (uint32_t i = 0; i < c->nworkers; i++) {
		const struct conf_worker *cw = &c->workers[i];
		const struct weft_worker_attr attr = {
		        .size = sizeof(attr),
		        .name = cw->name,
		        .lcore = cw->lcore,
		        .spin = cw->spin,
		        .helpers = cw->helpers,
		        .idle_sleep_us = cw->idle_sleep_us,
		};
		int rc = weft_worker_create(s->ctx, &attr, &s->workers[i]);

		if (rc != 0) {
			snprintf(err, err_size, "worker %s: %s", cw->name, strerror(-rc));
			return rc;
		}
		s->nworkers++;
		for (uint32_t n = 0; n < cw->nports; n++)
			for (uint32_t p = 0; p < c->nports; p++) {
				if (strcmp(c->ports[p].name, cw->ports[n]) != 0)
					continue;
				rc = weft_worker_add_port(s->workers[i], s->ports[p]);
				if (rc != 0) {
					snprintf(err, err_size,
					         "worker %s: cannot take port %s: %s", cw->name,
					         c->ports[p].name, strerror(-rc));
					return rc;
				}
			}
	}
	return 0;
}

/*
 * Unless the user asks for logs: while coming up what the layers would print is in err, in one
 * line. Patterns that EAL reads first win for drivers that are loaded later, hence no catch-all.
 */
static const char *const stack_log_starting[] = {"--log-level=weft.*:critical",
                                                 "--log-level=lib.eal:critical",
                                                 "--log-level=pmd.*:critical", NULL};

int
stack_up(const struct conf *c, const struct stack_opt *opt, struct stack *s, char *err,
         size_t err_size)
{
	const struct weft_env_attr env = {
	        .size = sizeof(env),
	        .progname = opt->progname,
	        .lcores = c->weft.lcores[0] != '\0' ? c->weft.lcores : NULL,
	        .memory_mb = c->weft.memory_mb,
	        .no_huge = c->weft.hugepages == CONF_HUGE_NEVER,
	        .log_level = c->weft.log_level[0] != '\0' ? c->weft.log_level : NULL,
	        .extra = c->weft.log_level[0] == '\0' ? stack_log_starting : NULL,
	};
	const char *msg = NULL;
	int rc;

	memset(s, 0, sizeof(*s));
	rc = weft_env_init(&env, &msg);
	if (rc != 0 && rc != -EALREADY) {
		if (msg != NULL)
			snprintf(err, err_size, "%s", msg);
		else
			snprintf(err, err_size, "cannot start: %s (memory_mb = %u)", strerror(-rc),
			         c->weft.memory_mb);
		return rc;
	}
	s->env = rc == 0;
	rc = weft_ctx_create(opt->ctx, &s->ctx);
	if (rc != 0)
		snprintf(err, err_size, "cannot start: context: %s", strerror(-rc));
	else
		rc = stack_open_ports(c, s, err, err_size);
	if (rc == 0)
		rc = stack_make_workers(c, s, err, err_size);
	if (rc != 0)
		stack_down(s);
	else if (!opt->quiet && c->weft.log_level[0] == '\0')
		(void)weft_log_levels("weft.*:notice,lib.eal:error");
	return rc;
}

void
stack_down(struct stack *s)
{
	if (s->ctx != NULL)
		weft_ctx_destroy(s->ctx);
	if (s->env)
		weft_env_fini();
	memset(s, 0, sizeof(*s));
}

int
stack_start(struct stack *s, char *err, size_t err_size)
{
	for (uint32_t i = 0; i < s->nworkers; i++) {
		int rc = weft_worker_start(s->workers[i]);

		if (rc == 0)
			continue;
		snprintf(err, err_size,
		         "worker %u cannot be started: %s (is its lcore among lcores?)", i,
		         strerror(-rc));
		while (i-- > 0)
			weft_worker_stop(s->workers[i]);
		return rc;
	}
	return 0;
}

void
stack_stop(struct stack *s)
{
	for (uint32_t i = 0; i < s->nworkers; i++)
		weft_worker_stop(s->workers[i]);
}
