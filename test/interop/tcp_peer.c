/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file lib/netif and lib/tcp alone on one port, as a peer for other TCP implementations. One
 * thread, which polls.
 *
 *   tcp_peer [OPTION...] DEV ADDR/PREFIX[,ADDR6/PREFIX]
 *
 * Prints "listening" or "connecting", then one line of JSON at the end. Exit status 0: every
 * connection ended in order (or as --abort-after and --expect-err say).
 */

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <rte_cycles.h>
#include <rte_pause.h>

#include "impair.h"
#include "tcp_peer_stats.h"
#include <weft/weft.h>
#include "weft_engine.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_icmp.h"
#include "weft_netif_port.h"
#include "weft_tcp.h"

#define MBUFS         16384
#define MEMORY_MB     256
#define REPORTED      16
#define ECHO_MAX      (8u << 20)
#define IDLE_SPIN_NS  (500 * WEFT_NS_PER_US)
#define IDLE_SLEEP_US 50
#define MAX_CONNS     4096u

enum what { WHAT_ECHO, WHAT_DISCARD, WHAT_SOURCE, WHAT_BOTH, WHAT_IDLE };
static const char *const whats[] = {"echo", "discard", "source", "both", "idle"};

/** One connection and its task. */
struct app {
	struct weft_tcp_conn *c;
	struct weft_timer pace;
	uint64_t sent, received;
	EVP_MD_CTX *in, *out;
	uint8_t *echo; /**< a ring of ECHO_MAX octets */
	uint32_t echo_head, echo_tail;
	bool eof, closing;
	int err;
};

/** Sums over connections that have ended. */
struct result {
	uint64_t sent, received;
	char in[65], out[65];
	int err;
	bool eof;
	struct weft_tcp_info info;
};

static struct {
	enum what what;
	uint64_t bytes, abort_after, seed;
	unsigned int conns, parallel;
	uint32_t segment, gap_us;
	struct weft_ip peer;
	uint16_t peer_port, listen_port;
	struct impair_cfg impair;
	bool impair_rx, impair_tx, no_hash, have_expect;
	unsigned int timeout_s, linger_ms;
	int expect_err;
} opt = {
        .what = WHAT_DISCARD,
        .conns = 1,
        .parallel = 1,
        .seed = 1,
        .impair_rx = true,
        .impair_tx = true,
        .timeout_s = 60,
        .linger_ms = 300,
};

static struct weft_sched sched;
static struct weft_netif *nif;
static struct weft_tcp *tcp;
static struct app apps[MAX_CONNS];
static struct result results[REPORTED];
static unsigned int started, open_now, over;
static int failed;
static uint64_t first_ns, last_ns, total_in, total_out;
static volatile sig_atomic_t stop;

static void
on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

__attribute__((noreturn, format(printf, 1, 2))) static void
die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "tcp_peer: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

/* ---- Sent and received data ---- */

/** Octets [off, off + n) of the stream of a seed. Every group of eight occurs once. */
static void
pattern(uint64_t seed, uint64_t off, uint8_t *p, uint32_t n)
{
	while (n > 0) {
		uint64_t z = seed + (off / 8 + 1) * 0x9e3779b97f4a7c15ULL;
		uint32_t in = off % 8, len = RTE_MIN(8 - in, n);

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
		z ^= z >> 31;
		memcpy(p, (const uint8_t *)&z + in, len);
		p += len;
		off += len;
		n -= len;
	}
}

static void
digest(EVP_MD_CTX *ctx, char hex[65])
{
	uint8_t md[EVP_MAX_MD_SIZE];
	unsigned int len = 0;

	hex[0] = '\0';
	if (ctx == NULL)
		return;
	EVP_DigestFinal_ex(ctx, md, &len);
	for (unsigned int i = 0; i < len; i++)
		snprintf(hex + 2 * (size_t)i, 3, "%02x", md[i]);
	EVP_MD_CTX_free(ctx);
}

static EVP_MD_CTX *
digest_new(void)
{
	EVP_MD_CTX *ctx;

	if (opt.no_hash)
		return NULL;
	ctx = EVP_MD_CTX_new();
	if (ctx == NULL || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
		die("no SHA-256");
	return ctx;
}

/* ---- One connection ---- */

/** The connection has ended: add its counters to the report. */
static void
app_over(struct app *a, int err)
{
	struct result *r = over < REPORTED ? &results[over] : NULL;
	struct result none;

	if (r == NULL)
		r = &none;
	r->sent = a->sent;
	r->received = a->received;
	r->err = err;
	r->eof = a->eof;
	digest(a->in, r->in);
	digest(a->out, r->out);
	weft_tcp_info(a->c, &r->info);
	total_in += a->received;
	total_out += a->sent;
	last_ns = sched.now_ns;
	weft_timer_cancel(&sched.wheel, &a->pace);
	free(a->echo);
	if (opt.have_expect ? err != opt.expect_err : err != 0) {
		if (failed++ < 10)
			fprintf(stderr, "tcp_peer: connection %u: %s\n", over, strerror(-err));
	}
	memset(a, 0, sizeof(*a));
	open_now--;
	over++;
}

/** Copy the next octets to send, at most n, to p. Returns their number. */
static uint32_t
app_take(struct app *a, uint8_t *p, uint32_t n)
{
	uint64_t left;

	if (opt.what == WHAT_ECHO) {
		n = RTE_MIN(n, a->echo_head - a->echo_tail);
		for (uint32_t done = 0; done < n;) {
			uint32_t at = (a->echo_tail + done) % ECHO_MAX;
			uint32_t len = RTE_MIN(n - done, ECHO_MAX - at);

			memcpy(p + done, a->echo + at, len);
			done += len;
		}
		a->echo_tail += n;
		return n;
	}
	left = opt.bytes - a->sent;
	n = (uint32_t)RTE_MIN((uint64_t)n, left);
	pattern(opt.seed, a->sent, p, n);
	return n;
}

static uint64_t
app_left(const struct app *a)
{
	if (opt.what == WHAT_ECHO)
		return a->echo_head - a->echo_tail;
	return opt.what == WHAT_SOURCE || opt.what == WHAT_BOTH ? opt.bytes - a->sent : 0;
}

static void
app_push(struct app *a)
{
	while (!a->closing && app_left(a) > 0 && !a->pace.armed) {
		uint32_t space = weft_tcp_send_space(a->c), n;
		struct rte_mbuf *m;
		uint8_t *p;

		if (space == 0 || (m = weft_tcp_alloc(a->c)) == NULL)
			return;
		n = RTE_MIN(space, (uint32_t)weft_tcp_mss(a->c));
		n = RTE_MIN(n, (uint32_t)rte_pktmbuf_tailroom(m));
		if (opt.segment != 0)
			n = RTE_MIN(n, opt.segment);
		p = rte_pktmbuf_mtod(m, uint8_t *);
		n = app_take(a, p, n);
		if (a->out != NULL)
			EVP_DigestUpdate(a->out, p, n);
		rte_pktmbuf_append(m, (uint16_t)n);
		a->sent += n;
		if (weft_tcp_send(a->c, m, app_left(a) == 0 || opt.gap_us != 0, sched.now_ns) != 0)
			return;
		if (opt.gap_us != 0)
			weft_timer_arm(&sched.wheel, &a->pace,
			               sched.now_ns + opt.gap_us * WEFT_NS_PER_US);
	}
	if (!a->closing && app_left(a) == 0 &&
	    (a->eof || opt.what == WHAT_SOURCE || opt.what == WHAT_BOTH)) {
		a->closing = true;
		weft_tcp_close(a->c, sched.now_ns);
	}
}

static void
app_pace(struct weft_timer *t, uint64_t now_ns)
{
	(void)now_ns;
	app_push(container_of(t, struct app, pace));
}

static void
app_echo(struct app *a, const uint8_t *p, uint32_t n)
{
	if (n > ECHO_MAX - (a->echo_head - a->echo_tail))
		die("the peer sends %u octets more than it reads", ECHO_MAX);
	for (uint32_t done = 0; done < n;) {
		uint32_t at = (a->echo_head + done) % ECHO_MAX;
		uint32_t len = RTE_MIN(n - done, ECHO_MAX - at);

		memcpy(a->echo + at, p + done, len);
		done += len;
	}
	a->echo_head += n;
}

static void
on_established(void *user)
{
	app_push(user);
}

static void
on_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	struct app *a = user;

	for (const struct rte_mbuf *s = m; s != NULL; s = s->next) {
		const uint8_t *p = rte_pktmbuf_mtod(s, const uint8_t *);

		if (a->in != NULL)
			EVP_DigestUpdate(a->in, p, s->data_len);
		if (opt.what == WHAT_ECHO)
			app_echo(a, p, s->data_len);
		a->received += s->data_len;
	}
	rte_pktmbuf_free(m);
	if (opt.abort_after != 0 && a->received >= opt.abort_after) {
		struct weft_tcp_conn *c = a->c;

		app_over(a, 0);
		weft_tcp_abort(c, now_ns);
		return;
	}
	if (opt.what == WHAT_ECHO)
		app_push(a);
}

static void
on_writable(void *user)
{
	app_push(user);
}

static void
on_mss(void *user, uint16_t mss_bytes)
{
	(void)user;
	(void)mss_bytes;
}

static void
on_eof(void *user)
{
	struct app *a = user;

	a->eof = true;
	app_push(a);
}

static void
on_closed(void *user, int err)
{
	app_over(user, err);
}

static const struct weft_tcp_conn_ops conn_ops = {
        .established = on_established,
        .rx = on_rx,
        .writable = on_writable,
        .mss = on_mss,
        .eof = on_eof,
        .closed = on_closed,
};

static struct app *
app_new(void)
{
	for (unsigned int i = 0; i < MAX_CONNS; i++) {
		struct app *a = &apps[i];

		if (a->in != NULL || a->c != NULL)
			continue;
		a->in = digest_new();
		a->out = digest_new();
		weft_timer_init(&a->pace, app_pace);
		if (opt.what == WHAT_ECHO && (a->echo = malloc(ECHO_MAX)) == NULL)
			die("no memory");
		started++;
		open_now++;
		if (first_ns == 0)
			first_ns = sched.now_ns;
		return a;
	}
	return NULL;
}

static int
on_accept(void *arg, struct weft_tcp_conn *c)
{
	struct app *a = app_new();

	(void)arg;
	if (a == NULL)
		return -EMFILE;
	a->c = c;
	weft_tcp_set_user(c, &conn_ops, a);
	app_push(a);
	return 0;
}

static void
open_more(void)
{
	while (opt.peer_port != 0 && started < opt.conns && open_now < opt.parallel) {
		struct app *a = app_new();
		int rc;

		if (a == NULL)
			return;
		rc = weft_tcp_connect(tcp, nif, NULL, &opt.peer, opt.peer_port, &conn_ops, a,
		                      &a->c);
		if (rc != 0)
			die("connect: %s", strerror(-rc));
	}
}

/* ---- The loop ---- */

static void
on_tcp_rx(void *arg, struct weft_netif *n, struct rte_mbuf **m, unsigned int k, uint64_t now_ns)
{
	(void)arg;
	weft_tcp_rx(tcp, n, m, k, now_ns);
}

static void
on_icmp_error(void *arg, struct weft_netif *n, const struct weft_icmp_error *e, uint64_t now_ns)
{
	(void)arg;
	weft_tcp_icmp_error(tcp, n, e, now_ns);
}

static uint64_t poll_cycles, busy_cycles, begin_waited_ns;

/** How long this thread has waited for a core since it began, as the kernel counts it; else 0. */
static uint64_t
waited_ns(void)
{
	FILE *f = fopen("/proc/thread-self/schedstat", "r");
	uint64_t ran_ns, wait_ns = 0;

	if (f == NULL)
		return 0;
	if (fscanf(f, "%" SCNu64 " %" SCNu64, &ran_ns, &wait_ns) != 2)
		wait_ns = 0;
	fclose(f);
	return wait_ns;
}

static unsigned int
turn(struct impair *im)
{
	uint64_t now_ns = weft_engine_clock_ns(), t0 = rte_rdtsc(), t1;
	unsigned int n;

	sched.now_ns = now_ns;
	impair_poll(im, now_ns);
	n = weft_netif_poll(nif, now_ns);
	t1 = rte_rdtsc();
	if (n > 0)
		poll_cycles += t1 - t0;
	n += weft_timer_run(&sched.wheel, now_ns);
	open_more();
	n += weft_sched_run(&sched, now_ns);
	n += weft_netif_flush(nif, now_ns);
	if (n > 0)
		busy_cycles += rte_rdtsc() - t0;
	return n;
}

static void
run(struct impair *im)
{
	uint64_t begin_ns = weft_engine_clock_ns(), idle_ns = 0, end_ns = 0;

	begin_waited_ns = waited_ns();
	while (!stop) {
		if (turn(im) > 0) {
			idle_ns = 0;
		} else {
			if (idle_ns == 0)
				idle_ns = sched.now_ns;
			if (sched.now_ns - idle_ns > IDLE_SPIN_NS)
				usleep(IDLE_SLEEP_US);
			else
				rte_pause();
		}
		if (over >= opt.conns && end_ns == 0) {
			end_ns = sched.now_ns + opt.linger_ms * WEFT_NS_PER_MS;
		}
		if (end_ns != 0 && sched.now_ns >= end_ns)
			return;
		if (sched.now_ns - begin_ns > opt.timeout_s * WEFT_NS_PER_S) {
			fprintf(stderr, "tcp_peer: %u of %u connections over after %u s\n", over,
			        opt.conns, opt.timeout_s);
			failed++;
			return;
		}
	}
}

/* ---- The report ---- */

static void
print_info(const struct weft_tcp_info *i)
{
	printf("{\"state\": \"%s\", \"mss\": %u, \"srtt_us\": %u, \"rttvar_us\": %u, \"rto_us\": "
	       "%u, "
	       "\"cwnd\": %u, \"ssthresh\": %u, \"snd_wnd\": %u, \"rcv_wnd\": %u, \"cc\": \"%s\", "
	       "\"snd_wscale\": %u, \"rcv_wscale\": %u, \"timestamps\": %s, \"sack\": %s, "
	       "\"ecn\": %s, \"pmtu\": %u, \"retrans_segs\": %" PRIu64 ", \"rtos\": %" PRIu64 "}",
	       weft_tcp_state_name(i->state), i->mss_bytes, i->srtt_us, i->rttvar_us, i->rto_us,
	       i->cwnd_bytes, i->ssthresh_bytes, i->snd_wnd_bytes, i->rcv_wnd_bytes,
	       i->cc_name != NULL ? i->cc_name : "", i->snd_wscale, i->rcv_wscale,
	       i->timestamps ? "true" : "false", i->sack ? "true" : "false",
	       i->ecn ? "true" : "false", i->pmtu_bytes, i->retrans_segs, i->rtos);
}

static void
report(const struct impair *im)
{
	const struct weft_tcp_stats *st = weft_tcp_stats(tcp);
	unsigned int n = over < REPORTED ? over : REPORTED;

	printf("{\"mode\": \"%s\", \"conns\": %u, \"failed\": %d, \"bytes_in\": %" PRIu64
	       ", \"bytes_out\": %" PRIu64 ", \"seconds\": %.6f, ",
	       whats[opt.what], over, failed, total_in, total_out,
	       last_ns > first_ns ? (double)(last_ns - first_ns) / 1e9 : 0.0);
	printf("\"rx_cycles_per_segment\": %.1f, \"busy_cycles\": %" PRIu64 ", \"late_s\": %.6f, ",
	       st->segs_in > 0 ? (double)poll_cycles / (double)st->segs_in : 0.0, busy_cycles,
	       (double)(waited_ns() - begin_waited_ns) / 1e9);
	printf("\"impaired\": {\"rx_lost\": %" PRIu64 ", \"rx_held\": %" PRIu64
	       ", \"rx_doubled\": %" PRIu64 ", \"tx_lost\": %" PRIu64 ", \"tx_held\": %" PRIu64
	       "}, \"conn\": [",
	       impair_stats(im, false)->lost, impair_stats(im, false)->reordered,
	       impair_stats(im, false)->duplicated, impair_stats(im, true)->lost,
	       impair_stats(im, true)->reordered);
	for (unsigned int i = 0; i < n; i++) {
		printf("%s{\"in\": %" PRIu64 ", \"out\": %" PRIu64 ", \"sha256_in\": \"%s\", "
		       "\"sha256_out\": \"%s\", \"err\": %d, \"eof\": %s, \"info\": ",
		       i > 0 ? ", " : "", results[i].received, results[i].sent, results[i].in,
		       results[i].out, results[i].err, results[i].eof ? "true" : "false");
		print_info(&results[i].info);
		printf("}");
	}
	printf("], \"tcp\": ");
	peer_print_tcp_stats(st);
	printf(", \"netif\": ");
	peer_print_netif_stats(weft_netif_stats(nif));
	printf("}\n");
	fflush(stdout);
}

/* ---- Arguments ---- */

static struct weft_ip
parse_ip(const char *s)
{
	struct weft_ip ip;
	uint32_t v4;

	if (inet_pton(AF_INET, s, &v4) == 1)
		return weft_ip_from_v4(v4);
	if (inet_pton(AF_INET6, s, ip.b) != 1)
		die("'%s' is no address", s);
	return ip;
}

/** "ADDR/PREFIX[,ADDR/PREFIX]" */
static void
parse_local(char *s, struct weft_netif_attr *na)
{
	char *save = NULL;

	for (char *tok = strtok_r(s, ",", &save); tok != NULL; tok = strtok_r(NULL, ",", &save)) {
		char *slash = strchr(tok, '/');
		struct weft_ip ip;

		if (slash == NULL)
			die("'%s' has no prefix length", tok);
		*slash = '\0';
		ip = parse_ip(tok);
		if (weft_ip_is_v4(&ip)) {
			na->addr = ip;
			na->prefix_len = (uint8_t)atoi(slash + 1);
		} else {
			na->addr6 = ip;
			na->prefix6_len = (uint8_t)atoi(slash + 1);
		}
	}
}

/** "ADDR,PORT" */
static void
parse_peer(char *s)
{
	char *comma = strchr(s, ',');

	if (comma == NULL)
		die("--connect ADDR,PORT");
	*comma = '\0';
	opt.peer = parse_ip(s);
	opt.peer_port = (uint16_t)atoi(comma + 1);
}

static unsigned int
parse_name(const char *s, const char *const *names, unsigned int n, const char *what)
{
	for (unsigned int i = 0; i < n; i++) {
		if (strcmp(s, names[i]) == 0)
			return i;
	}
	die("--%s %s: not known", what, s);
}

static const char usage[] =
        "usage: tcp_peer [OPTION...] DEV ADDR/PREFIX[,ADDR6/PREFIX]\n"
        "  --listen PORT | --connect ADDR,PORT   which side opens\n"
        "  --do echo|discard|source|both|idle    what is done on a connection [discard]\n"
        "  --bytes N           octets that source and both send\n"
        "  --segment N         octets of a segment [MSS]\n"
        "  --gap-us N          pause between segments\n"
        "  --conns N           connections before it ends [1]\n"
        "  --parallel N        of them at once when connecting [1]\n"
        "  --abort-after N     reset when N octets have come\n"
        "  --expect-err N      each connection ends with this error (positive errno)\n"
        "  --mtu N --gateway ADDR --gateway6 ADDR\n"
        "  --vlan ID           tagged frames, by the port if it can\n"
        "  --vlan-in-software  as if it could not\n"
        "  --loss-ppm N --reorder-ppm N --dup-ppm N --impair rx|tx|both [both] --seed N\n"
        "  --cc cubic|newreno --ecn off|passive|on --cookies auto|always|never\n"
        "  --no-sack --no-timestamps --no-wscale --no-pmtu --no-tso\n"
        "  --rcv-buf BYTES --rto-min-us N --keepalive-ms N --time-wait-ms N\n"
        "  --no-hash           without SHA-256\n"
        "  --linger-ms N       stay on after the last connection [300]\n"
        "  --timeout S         give up after that [60]\n";

enum {
	O_LISTEN = 256,
	O_CONNECT,
	O_DO,
	O_BYTES,
	O_SEGMENT,
	O_GAP,
	O_CONNS,
	O_PARALLEL,
	O_ABORT,
	O_EXPECT,
	O_MTU,
	O_GW,
	O_GW6,
	O_VLAN,
	O_VLAN_SW,
	O_LOSS,
	O_REORDER,
	O_DUP,
	O_IMPAIR,
	O_SEED,
	O_CC,
	O_ECN,
	O_COOKIES,
	O_NO_SACK,
	O_NO_TS,
	O_NO_WS,
	O_NO_PMTU,
	O_NO_TSO,
	O_RCVBUF,
	O_RTOMIN,
	O_KEEP,
	O_TW,
	O_NO_HASH,
	O_LINGER,
	O_TIMEOUT,
};

static const struct option longopts[] = {
        {"listen", 1, NULL, O_LISTEN},
        {"connect", 1, NULL, O_CONNECT},
        {"do", 1, NULL, O_DO},
        {"bytes", 1, NULL, O_BYTES},
        {"segment", 1, NULL, O_SEGMENT},
        {"gap-us", 1, NULL, O_GAP},
        {"conns", 1, NULL, O_CONNS},
        {"parallel", 1, NULL, O_PARALLEL},
        {"abort-after", 1, NULL, O_ABORT},
        {"expect-err", 1, NULL, O_EXPECT},
        {"mtu", 1, NULL, O_MTU},
        {"gateway", 1, NULL, O_GW},
        {"gateway6", 1, NULL, O_GW6},
        {"vlan", 1, NULL, O_VLAN},
        {"vlan-in-software", 0, NULL, O_VLAN_SW},
        {"loss-ppm", 1, NULL, O_LOSS},
        {"reorder-ppm", 1, NULL, O_REORDER},
        {"dup-ppm", 1, NULL, O_DUP},
        {"impair", 1, NULL, O_IMPAIR},
        {"seed", 1, NULL, O_SEED},
        {"cc", 1, NULL, O_CC},
        {"ecn", 1, NULL, O_ECN},
        {"cookies", 1, NULL, O_COOKIES},
        {"no-sack", 0, NULL, O_NO_SACK},
        {"no-timestamps", 0, NULL, O_NO_TS},
        {"no-wscale", 0, NULL, O_NO_WS},
        {"no-pmtu", 0, NULL, O_NO_PMTU},
        {"no-tso", 0, NULL, O_NO_TSO},
        {"rcv-buf", 1, NULL, O_RCVBUF},
        {"rto-min-us", 1, NULL, O_RTOMIN},
        {"keepalive-ms", 1, NULL, O_KEEP},
        {"time-wait-ms", 1, NULL, O_TW},
        {"no-hash", 0, NULL, O_NO_HASH},
        {"linger-ms", 1, NULL, O_LINGER},
        {"timeout", 1, NULL, O_TIMEOUT},
        {"help", 0, NULL, 'h'},
        {0},
};

static void
parse(int argc, char **argv, struct weft_netif_attr *na, struct weft_netif_port_attr *pa,
      struct weft_tcp_attr *ta)
{
	static const char *const ccs[] = {"default", "cubic", "newreno"};
	static const char *const ecns[] = {"default", "off", "passive", "on"};
	static const char *const cookies[] = {"default", "auto", "always", "never"};
	static const char *const dirs[] = {"both", "rx", "tx"};
	bool vlan_in_software = false;
	unsigned int dir;
	int o;

	while ((o = getopt_long(argc, argv, "h", longopts, NULL)) != -1) {
		const uint64_t n = optarg != NULL ? strtoull(optarg, NULL, 0) : 0;

		switch (o) {
		case O_LISTEN:
			opt.listen_port = (uint16_t)n;
			break;
		case O_CONNECT:
			parse_peer(optarg);
			break;
		case O_DO:
			opt.what = parse_name(optarg, whats, RTE_DIM(whats), "do");
			break;
		case O_BYTES:
			opt.bytes = n;
			break;
		case O_SEGMENT:
			opt.segment = (uint32_t)n;
			break;
		case O_GAP:
			opt.gap_us = (uint32_t)n;
			break;
		case O_CONNS:
			opt.conns = (unsigned int)n;
			break;
		case O_PARALLEL:
			opt.parallel = RTE_MIN((unsigned int)n, MAX_CONNS);
			break;
		case O_ABORT:
			opt.abort_after = n;
			break;
		case O_EXPECT:
			opt.expect_err = -(int)n;
			opt.have_expect = true;
			break;
		case O_MTU:
			pa->mtu_bytes = (uint16_t)n;
			break;
		case O_GW:
			na->gateway = parse_ip(optarg);
			break;
		case O_GW6:
			na->gateway6 = parse_ip(optarg);
			break;
		case O_VLAN:
			na->vlan_id = (uint16_t)n;
			break;
		case O_VLAN_SW:
			vlan_in_software = true;
			break;
		case O_LOSS:
			opt.impair.loss_ppm = (uint32_t)n;
			break;
		case O_REORDER:
			opt.impair.reorder_ppm = (uint32_t)n;
			break;
		case O_DUP:
			opt.impair.dup_ppm = (uint32_t)n;
			break;
		case O_IMPAIR:
			dir = parse_name(optarg, dirs, RTE_DIM(dirs), "impair");
			opt.impair_rx = dir != 2;
			opt.impair_tx = dir != 1;
			break;
		case O_SEED:
			opt.seed = n;
			break;
		case O_CC:
			ta->cc = parse_name(optarg, ccs, RTE_DIM(ccs), "cc");
			break;
		case O_ECN:
			ta->ecn = parse_name(optarg, ecns, RTE_DIM(ecns), "ecn");
			break;
		case O_COOKIES:
			ta->syn_cookies = parse_name(optarg, cookies, RTE_DIM(cookies), "cookies");
			break;
		case O_NO_SACK:
			ta->no_sack = true;
			break;
		case O_NO_TS:
			ta->no_timestamps = true;
			break;
		case O_NO_WS:
			ta->no_window_scale = true;
			break;
		case O_NO_PMTU:
			ta->no_pmtu = true;
			break;
		case O_NO_TSO:
			ta->no_tso = true;
			break;
		case O_RCVBUF:
			ta->rcv_buf_bytes = (uint32_t)n;
			break;
		case O_RTOMIN:
			ta->rto_min_us = (uint32_t)n;
			break;
		case O_KEEP:
			ta->keepalive_us = (uint32_t)n * 1000;
			break;
		case O_TW:
			ta->time_wait_us = (uint32_t)n * 1000;
			break;
		case O_NO_HASH:
			opt.no_hash = true;
			break;
		case O_LINGER:
			opt.linger_ms = (unsigned int)n;
			break;
		case O_TIMEOUT:
			opt.timeout_s = (unsigned int)n;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (argc - optind != 2 || (opt.listen_port == 0) == (opt.peer_port == 0)) {
		fputs(usage, stderr);
		exit(2);
	}
	if (pa->mtu_bytes > 1500)
		pa->mbufs = MBUFS / 4;
	pa->vlans[0] = vlan_in_software ? 0 : na->vlan_id;
	pa->nvlans = 1;
	pa->dev = argv[optind];
	parse_local(argv[optind + 1], na);
}

int
main(int argc, char **argv)
{
	static const struct weft_netif_ops ops = {.tcp_rx = on_tcp_rx, .icmp_error = on_icmp_error};
	static const struct weft_ip any;
	struct weft_env_attr env = {
	        .size = sizeof(env), .progname = "tcp_peer", .memory_mb = MEMORY_MB};
	struct weft_netif_port_attr pa = {.mtu_bytes = 1500, .mbufs = MBUFS, .queues = 1};
	struct weft_netif_attr na = {0};
	struct weft_tcp_attr ta = {.max_conns = MAX_CONNS};
	struct weft_tcp_listener *l;
	struct weft_netif_port port;
	struct impair_cfg none = {0};
	struct impair *im;
	const char *msg;
	int rc;

	setvbuf(stdout, NULL, _IOLBF, 0);
	parse(argc, argv, &na, &pa, &ta);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	rc = weft_env_init(&env, &msg);
	if (rc < 0)
		die("%s", msg != NULL ? msg : strerror(-rc));
	rc = weft_netif_port_open(&pa, &port);
	if (rc < 0)
		die("%s: %s", pa.dev, strerror(-rc));
	im = impair_create(port.port_id, 0, opt.impair_rx ? &opt.impair : &none,
	                   opt.impair_tx ? &opt.impair : &none, opt.seed);
	if (im == NULL)
		die("no callbacks on %s", pa.dev);
	TAILQ_INIT(&sched.run);
	sched.rand.fill = weft_rand_system;
	sched.now_ns = weft_engine_clock_ns();
	weft_wheel_init(&sched.wheel, sched.now_ns);
	na.port_id = port.port_id;
	na.tx_offloads = port.tx_offloads;
	na.tx_mbufs_max = port.tx_mbufs_max;
	na.rx_offloads = port.rx_offloads;
	na.pool = port.pool;
	na.tx_pool = port.tx_pool;
	na.mac = port.mac;
	na.mtu_bytes = port.mtu_bytes;
	rc = weft_netif_create(&na, &ops, NULL, &sched, &nif);
	if (rc == 0)
		rc = weft_tcp_create(&ta, &sched, &tcp);
	if (rc == 0 && opt.listen_port != 0)
		rc = weft_tcp_listen(tcp, &any, 128, opt.listen_port, 256, on_accept, NULL, &l);
	if (rc < 0)
		die("%s", strerror(-rc));
	printf("%s\n", opt.listen_port != 0 ? "listening" : "connecting");
	run(im);
	report(im);
	weft_tcp_destroy(tcp);
	weft_netif_destroy(nif);
	impair_destroy(im);
	weft_netif_port_close(&port);
	weft_env_fini();
	return failed > 0 || over < opt.conns;
}
