/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Addresses, random numbers of the system, rate-limited logs, signal masks. */

#include <arpa/inet.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "weft_base.h"
#include <weft/ulp.h>

#define LOG_LINES_PER_S 10

const char *
weft_ip_str(const struct weft_ip *ip, char buf[WEFT_ADDR_STR_LEN])
{
	const struct weft_ip bare = weft_ip_bare(ip);
	const char *s = weft_ip_is_v4(ip) ? inet_ntop(AF_INET, &ip->b[12], buf, WEFT_ADDR_STR_LEN)
	                                  : inet_ntop(AF_INET6, bare.b, buf, WEFT_ADDR_STR_LEN);
	size_t len = s != NULL ? strlen(s) : 0;

	if (s != NULL && !weft_ip_eq(&bare, ip))
		snprintf(buf + len, WEFT_ADDR_STR_LEN - len, "%%%u", weft_ip_zone(ip));
	return s != NULL ? s : "?";
}

const char *
weft_addr_str(const struct weft_ip *ip, uint16_t port, char buf[WEFT_ADDR_STR_LEN])
{
	char host[WEFT_ADDR_STR_LEN];

	snprintf(buf, WEFT_ADDR_STR_LEN, weft_ip_is_v4(ip) ? "%.48s:%u" : "[%.48s]:%u",
	         weft_ip_str(ip, host), port);
	return buf;
}

int
weft_ip_from_sockaddr(const struct sockaddr *sa, struct weft_ip *ip, uint16_t *port)
{
	if (sa->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, sa, sizeof(in));
		*ip = weft_ip_from_v4(in.sin_addr.s_addr);
		*port = rte_be_to_cpu_16(in.sin_port);
		return 0;
	}
	if (sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, sa, sizeof(in6));
		memcpy(ip->b, &in6.sin6_addr, sizeof(ip->b));
		*port = rte_be_to_cpu_16(in6.sin6_port);
		if (!weft_ip_is_link_local(ip))
			return 0;
		if (weft_ip_zone(ip) != 0 || in6.sin6_scope_id > WEFT_ZONE_UNTAGGED)
			return -EINVAL;
		weft_ip_set_zone(ip, (uint16_t)in6.sin6_scope_id);
		return 0;
	}
	return -EAFNOSUPPORT;
}

void
weft_ip_to_sockaddr(const struct weft_ip *ip, uint16_t port, struct sockaddr_storage *ss)
{
	memset(ss, 0, sizeof(*ss));
	if (weft_ip_is_v4(ip)) {
		struct sockaddr_in in = {.sin_family = AF_INET,
		                         .sin_port = rte_cpu_to_be_16(port),
		                         .sin_addr.s_addr = weft_ip_v4(ip)};

		memcpy(ss, &in, sizeof(in));
	} else {
		struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
		                           .sin6_port = rte_cpu_to_be_16(port)};

		const struct weft_ip bare = weft_ip_bare(ip);

		memcpy(&in6.sin6_addr, bare.b, sizeof(bare.b));
		in6.sin6_scope_id = weft_ip_is_link_local(ip) ? weft_ip_zone(ip) : 0;
		memcpy(ss, &in6, sizeof(in6));
	}
}

void
weft_rand_system(void *arg, void *buf, size_t len)
{
	uint8_t *p = buf;

	(void)arg;
	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno != EINTR)
			abort();
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
}

static uint64_t (*_Atomic log_clock)(void);

void
weft_log_clock(uint64_t (*now_ns)(void))
{
	atomic_store_explicit(&log_clock, now_ns, memory_order_release);
}

bool
weft_log_allowed(struct weft_limit *l, uint32_t *held)
{
	uint64_t (*now_ns)(void) = atomic_load_explicit(&log_clock, memory_order_acquire);

	return weft_limit_ok(l, LOG_LINES_PER_S, now_ns != NULL ? now_ns() : 1, WEFT_NS_PER_S,
	                     held);
}

void
weft_ulp_error(const char *name, const char *fmt, ...)
{
	char type[64], line[512];
	va_list ap;
	int id;

	snprintf(type, sizeof(type), "weft.%s", name);
	id = rte_log_register_type_and_pick_level(type, RTE_LOG_NOTICE);
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (id >= 0)
		rte_log(RTE_LOG_ERR, (uint32_t)id, "%s: %s\n", type, line);
}

/* ---- Threads ---- */

void
weft_block_signals(sigset_t *old)
{
	sigset_t set;

	sigfillset(&set);
	sigdelset(&set, SIGBUS);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGFPE);
	sigdelset(&set, SIGILL);
	(void)pthread_sigmask(SIG_SETMASK, &set, old);
}
