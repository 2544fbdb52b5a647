/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The table of sections and keys, and the reference that is printed from it. */

#include "conf_key.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "url.h"

#define STR_(x) #x
#define STR(x)  STR_(x)

#define F(s, f)  .off = offsetof(struct s, f), .size = sizeof(((struct s *)0)->f)
#define NKEYS(a) (sizeof(a) / sizeof((a)[0]))

static const struct conf_key keys_weft[] = {
        {"lcores", CONF_T_STR, F(conf_weft, lcores),
         .help = "cpus for the polling threads, as DPDK's `-l` takes them (`0,2` or `1-3`); "
                 "without it "
                 "those that the process may use, at most two"},
        {"memory_mb", CONF_T_U32, F(conf_weft, memory_mb), .min = 32, .max = 1048576, .dflt = "256",
         .help = "memory for packet buffers and connections, in MiB; exports are not counted in "
                 "it"},
        {"log_level", CONF_T_STR, F(conf_weft, log_level),
         .help = "as DPDK's `--log-level` takes it (`weft.*:debug`)"},
        {"hugepages", CONF_T_CHOICE, F(conf_weft, hugepages), .choices = "auto|never",
         .dflt = "auto",
         .help = "`auto` uses hugepages when enough are free, `never` leaves them alone"},
        {"telemetry", CONF_T_BOOL, F(conf_weft, telemetry), .dflt = "no",
         .help = "`yes`: serve DPDK's telemetry socket: counters, connections, captures "
                 "(docs/visibility.md)"},
        {"eal", CONF_T_STR, F(conf_weft, eal),
         .help = "further arguments of DPDK's EAL, with blanks between them "
                 "(`--iova-mode=pa -d librte_net_foo.so`); PCI devices of ports need none"},
        {"workers", CONF_T_U32, F(conf_weft, workers), .min = 1, .max = CONF_WORKERS_MAX,
         .dflt = "1",
         .help = "polling threads that share every port, when there is no [worker NAME] section"},
};

static const struct conf_key keys_port[] = {
        {"dev", CONF_T_STR, F(conf_port, dev), .required = true,
         .help = "the DPDK device: the PCI address of a NIC (`0000:3b:00.0`; docs/nics.md), with "
                 "arguments of its driver behind a comma; a vdev with its arguments "
                 "(`net_memif0,role=server,id=0,bsize=10112`); or the name of a probed port"},
        {"address", CONF_T_CIDR, F(conf_port, addr), .off2 = offsetof(struct conf_port, prefix_len),
         .help = "our IPv4 address and the network's prefix length: `10.0.0.1/24`; a port needs "
                 "`address`, `address6` or both"},
        {"gateway", CONF_T_IPV4, F(conf_port, gateway),
         .help = "next hop to other networks; must lie in the network of `address`"},
        {"address6", CONF_T_CIDR6, F(conf_port, addr6),
         .off2 = offsetof(struct conf_port, prefix6_len),
         .help = "our IPv6 address and the network's prefix length: `fd00::1/64`; the link-local "
                 "address, "
                 "which is made from the port's MAC, is there without it"},
        {"gateway6", CONF_T_IPV6, F(conf_port, gateway6),
         .help = "next hop to other IPv6 networks; in the network of `address6`, or link-local"},
        {"vlan", CONF_T_U32, F(conf_port, vlan_id), .min = 0, .max = 4094, .dflt = "0",
         .help = "the one VLAN that frames are sent to and taken from; `0`: untagged"},
        {"mtu", CONF_T_U32, F(conf_port, mtu_bytes), .min = 576, .max = 9600, .dflt = "1500",
         .help = "octets of an IP packet; both ends must use the same (net_memif: 9000 wants "
                 "`bsize=10112` in `dev`)"},
        {"mbufs", CONF_T_U32, F(conf_port, mbufs), .min = 1024, .max = 1048576, .dflt = "8192",
         .help = "packet buffers of the port, half of them for receiving and half for sending"},
};

static const struct conf_key keys_worker[] = {
        {"ports", CONF_T_NAMES, F(conf_worker, ports), .off2 = offsetof(struct conf_worker, nports),
         .help = "names of the ports it serves, with commas between; workers that name the same "
                 "port "
                 "share it; without it, and with one worker only, all ports"},
        {"lcore", CONF_T_I32, F(conf_worker, lcore), .min = -1, .max = 1023, .dflt = "-1",
         .help = "the cpu it runs on, one that the process may use; `-1`: a thread of its own, on "
                 "no cpu in "
                 "particular"},
        {"spin", CONF_T_BOOL, F(conf_worker, spin), .dflt = "no",
         .help = "`yes`: never sleep when idle (lowest latency, a cpu always busy)"},
        {"helpers", CONF_T_U32, F(conf_worker, helpers), .min = 1, .max = 16, .dflt = "1",
         .help = "threads that do what would block: flushes of, and reads from, ordinary files"},
        {"idle_sleep_us", CONF_T_U32, F(conf_worker, idle_sleep_us), .min = 1, .max = 100000,
         .dflt = "2000",
         .help = "longest sleep when idle, in microseconds, on ports without a receive interrupt; "
                 "a sleep lasts for a sixteenth of the idle time before it"},
};

static const struct conf_key keys_target[] = {
        {"listen", CONF_T_U32, F(conf_target, listen_port), .min = 1, .max = 65535,
         .dflt = STR(URL_DEFAULT_PORT), .help = "TCP port, on the address of every port"},
        {"keepalive_ms", CONF_T_U32, F(conf_target, keepalive_ms), .min = 100, .max = 3600000,
         .dflt = "2000",
         .help = "silence, in milliseconds, after which a peer is probed; one that died without a "
                 "word "
                 "loses its connection and its grants after about twice that"},
        {"credits", CONF_T_U32, F(conf_target, credits), .min = 2, .max = 256, .dflt = "8",
         .help = "calls a client may have outstanding"},
        {"revoke_ms", CONF_T_U32, F(conf_target, revoke_ms), .min = 0, .max = 3600000,
         .dflt = "5000",
         .help = "time, in milliseconds, between the warning and the revocation of a grant, when "
                 "SIGHUP finds that an export grants less than before, or is no longer "
                 "configured. SIGHUP changes this key, the rights of exports, and the clients and "
                 "their keys; all other changes need a restart"},
        {"writer_idle_ms", CONF_T_U32, F(conf_target, writer_idle_ms), .min = 100, .max = 86400000,
         .dflt = "30000",
         .help = "an export has one writer at a time. A writer that was inactive for this time, "
                 "in milliseconds, gives way when another client asks, `revoke_ms` after a "
                 "warning. A writer that is not authenticated gives way to one that is, even "
                 "while it is active"},
        {"max_conns_per_peer", CONF_T_U32, F(conf_target, max_conns_per_peer), .min = 1,
         .max = 16777216,
         .help = "connections of one address to one worker, those in start-up included; one more "
                 "is reset. An IPv6 /64 counts as one address, and so do all link-local addresses; "
                 "[half of `max_conns` of "
                 "[tcp], at least 8]"},
        {"max_requests_per_peer", CONF_T_U32, F(conf_target, max_requests_per_peer), .min = 1,
         .max = 16777216,
         .help = "likewise of connections in start-up, before the Reply of MPA. There are at most "
                 "128 of them in all; one more displaces the oldest that has sent nothing; [64]"},
        {"max_grants_per_client", CONF_T_U32, F(conf_target, max_grants_per_client), .min = 1,
         .max = 4096, .dflt = "256",
         .help = "grants that a client may hold, on all of its connections; a client is an "
                 "authenticated name, or else an address. An IPv6 /64 may hold four times as many; "
                 "its idle connections are closed when its other addresses need grants. Of 4096 "
                 "grants in all the last quarter is reserved for clients that hold fewer than 8"},
        {"max_opens_per_s", CONF_T_U32, F(conf_target, max_opens_per_s), .min = 0, .max = 1000000,
         .dflt = "1000",
         .help = "OPENs of one client that are served in a second (of a /64 four times as many); "
                 "`0`: no limit"},
        {"host_auth", CONF_T_CHOICE, F(conf_target, host_auth), .choices = "none|optional|required",
         .dflt = "none",
         .help = "whether clients authenticate ([client NAME], docs/host-auth.md): with `none` no "
                 "client can; `optional` refuses clients that try and fail; `required` also "
                 "refuses clients that do not try"},
        {"auth_timeout_ms", CONF_T_U32, F(conf_target, auth_timeout_ms), .min = 100, .max = 3600000,
         .dflt = "10000",
         .help = "time, in milliseconds, that a client has to authenticate, from the start of its "
                 "connection (with `optional`: of the attempt); after it the connection is closed"},
        {"known_as", CONF_T_STR, F(conf_target, known_as),
         .help = "addresses and ports by which clients call this target, where they are "
                 "translated on the way (`192.0.2.1:7471, [2001:db8::1]:7471`); the target's own "
                 "addresses need not be listed. A client that authenticates and called any "
                 "other address is refused"},
};

static const struct conf_key keys_client[] = {
        {"key_file", CONF_T_PATH, F(conf_client, key_file), .required = true,
         .help = "the key that the client shares with the target: the octets of this file, 32 to "
                 "256 of them; it must belong to the user or root, and be closed to all others; "
                 "the client has the same file (`weft-cp --auth NAME:KEYFILE`). No other client "
                 "and no export (hash_key_file) may have the same key"},
};

static const struct conf_key keys_export[] = {
        {"path", CONF_T_PATH, F(conf_export, path),
         .help = "file or device; relative to the directory of the configuration file; made when "
                 "missing; "
                 "needed unless `persist = volatile`"},
        {"size", CONF_T_SIZE, F(conf_export, size_bytes), .min = 24576,
         .help = "octets, or with K, M, G (powers of 1024), of the whole file; an object may have "
                 "a little less "
                 "than half of it, since two slots take turns (a log has all of it); may be left "
                 "out when the file is "
                 "there"},
        {"format", CONF_T_CHOICE, F(conf_export, format), .choices = "object|log", .dflt = "object",
         .help = "what it holds: `object`, one file that weft-cp pushes and pulls, or `log`, the "
                 "memory of one target of a remote log (docs/log-host.md), which its writer "
                 "formats: then `size` is what the log has, and who may write needs `read` and "
                 "`flush` as well"},
        {"persist", CONF_T_CHOICE, F(conf_export, persist), .choices = "auto|pmem|file|volatile",
         .dflt = "auto",
         .help = "how it is made durable: `pmem` (libpmem on a DAX mapping), `file` (direct I/O), "
                 "`auto` "
                 "(pmem where libpmem finds persistent memory, else file), `volatile` (not at all: "
                 "memory, "
                 "gone with the process)"},
        {"hash", CONF_T_HASH, F(conf_export, hash), .dflt = "crc32c",
         .help = "hash driver of Verify: `crc32c`, `crc64-ecma-182`, `crc64-xz`, `crc64-go-iso`, "
                 "`crc64-redis`, `crc16-t10-dif`, `sha256` or `hmac-sha256`"},
        {"hash_key_file", CONF_T_PATH, F(conf_export, hash_key_file),
         .help = "the key of `hmac-sha256`: the octets of this file, 32 to 256 of them; it must "
                 "belong to "
                 "the user or root, and be closed to all others; a client that pushes needs the "
                 "same key"},
        {"rights", CONF_T_RIGHTS, F(conf_export, rights), .dflt = "read,write,flush,verify",
         .help = "the most that a client is granted; a volatile export has no `flush`, `verify` "
                 "needs `read`, since who may verify can find out every octet"},
        {"numa_node", CONF_T_I32, F(conf_export, numa_node), .min = -1, .max = 1023, .dflt = "-1",
         .help = "where its memory shall lie; `-1`: at the first port"},
};

const struct conf_section conf_sections[] = {
        {
                .name = "weft",
                .off = offsetof(struct conf, weft),
                .help = "The process.",
                .keys = keys_weft,
                .nkeys = NKEYS(keys_weft),
        },
        {
                .name = "port",
                .named = true,
                .off = offsetof(struct conf, ports),
                .elem_bytes = sizeof(struct conf_port),
                .count_off = offsetof(struct conf, nports),
                .max = CONF_PORTS_MAX,
                .name_off = offsetof(struct conf_port, name),
                .line_off = offsetof(struct conf_port, line),
                .help = "A DPDK port and its address; up to " STR(CONF_PORTS_MAX) ".",
                .keys = keys_port,
                .nkeys = NKEYS(keys_port),
        },
        {
                .name = "worker",
                .named = true,
                .off = offsetof(struct conf, workers),
                .elem_bytes = sizeof(struct conf_worker),
                .count_off = offsetof(struct conf, nworkers),
                .max = CONF_WORKERS_MAX,
                .name_off = offsetof(struct conf_worker, name),
                .line_off = offsetof(struct conf_worker, line),
                .help = "A polling thread and the ports it serves; up to " STR(
                        CONF_WORKERS_MAX) ". Without any, `workers` of [weft] says how many serve "
                                          "all ports.",
                .keys = keys_worker,
                .nkeys = NKEYS(keys_worker),
        },
        {
                .name = "tcp",
                .off = offsetof(struct conf, tcp),
                .help = "TCP of every worker; what is left out has the value in brackets. Each "
                        "limit has a counter (docs/visibility.md).",
                .keys = conf_keys_tcp,
                .nkeys = CONF_TCP_KEYS,
        },
        {
                .name = "mpa",
                .off = offsetof(struct conf, mpa),
                .help = "MPA of every connection: what this side wants (RFC 5044, RFC 6581). The "
                        "peer has its own wishes.",
                .keys = conf_keys_mpa,
                .nkeys = CONF_MPA_KEYS,
        },
        {
                .name = "target",
                .off = offsetof(struct conf, target),
                .help = "weft-target only.",
                .keys = keys_target,
                .nkeys = NKEYS(keys_target),
        },
        {
                .name = "export",
                .named = true,
                .off = offsetof(struct conf, exports),
                .elem_bytes = sizeof(struct conf_export),
                .count_off = offsetof(struct conf, nexports),
                .max = CONF_EXPORTS_MAX,
                .name_off = offsetof(struct conf_export, name),
                .line_off = offsetof(struct conf_export, line),
                .help = "weft-target only: what clients may open by this name; up to " STR(
                        CONF_EXPORTS_MAX) ".",
                .keys = keys_export,
                .nkeys = NKEYS(keys_export),
        },
        {
                .name = "client",
                .named = true,
                .off = offsetof(struct conf, clients),
                .elem_bytes = sizeof(struct conf_client),
                .count_off = offsetof(struct conf, nclients),
                .max = CONF_CLIENTS_MAX,
                .name_off = offsetof(struct conf_client, name),
                .line_off = offsetof(struct conf_client, line),
                .help = "weft-target only: a client that can show by a key that it has this "
                        "name; up to " STR(CONF_CLIENTS_MAX) ".",
                .keys = keys_client,
                .nkeys = NKEYS(keys_client),
        },
};

const unsigned int conf_nsections = NKEYS(conf_sections);

static_assert(NKEYS(conf_sections) <= CONF_SECTIONS_MAX, "CONF_SECTIONS_MAX");
static_assert(NKEYS(keys_client) <= CONF_KEYS_MAX, "CONF_KEYS_MAX");
static_assert(NKEYS(keys_export) <= CONF_KEYS_MAX, "CONF_KEYS_MAX");
static_assert(NKEYS(keys_port) <= CONF_KEYS_MAX, "CONF_KEYS_MAX");
static_assert(NKEYS(keys_target) <= CONF_KEYS_MAX, "CONF_KEYS_MAX");
static_assert(NKEYS(keys_weft) <= CONF_KEYS_MAX, "CONF_KEYS_MAX");
static_assert(NKEYS(keys_worker) <= CONF_KEYS_MAX, "CONF_KEYS_MAX");
static_assert(CONF_TCP_KEYS <= CONF_KEYS_MAX && CONF_MPA_KEYS <= CONF_KEYS_MAX, "CONF_KEYS_MAX");

void
conf_differ(const struct conf *a, const struct conf *b,
            void (*fn)(void *arg, const char *section, const char *key), void *arg)
{
	for (unsigned int i = 0; i < conf_nsections; i++) {
		const struct conf_section *s = &conf_sections[i];

		for (unsigned int j = 0; !s->named && j < s->nkeys; j++) {
			const struct conf_key *k = &s->keys[j];
			size_t off = s->off + k->off;

			/* The octets behind the end of a text are zero in both. */
			if (memcmp((const char *)a + off, (const char *)b + off, k->size) != 0)
				fn(arg, s->name, k->name);
		}
	}
}

static void
conf_print_type(FILE *out, const struct conf_key *k)
{
	switch (k->type) {
	case CONF_T_STR:
		fputs("text", out);
		break;
	case CONF_T_PATH:
		fputs("path", out);
		break;
	case CONF_T_U32:
	case CONF_T_I32:
		fprintf(out, "%" PRId64 " to %" PRId64, k->min, k->max);
		break;
	case CONF_T_BOOL:
		fputs("yes, no", out);
		break;
	case CONF_T_SIZE:
		fprintf(out, "size, at least %" PRId64, k->min);
		break;
	case CONF_T_CIDR:
		fputs("address/length", out);
		break;
	case CONF_T_CIDR6:
		fputs("address/length", out);
		break;
	case CONF_T_IPV4:
	case CONF_T_IPV6:
		fputs("address", out);
		break;
	case CONF_T_CHOICE:
		for (const char *p = k->choices; *p != '\0'; p++)
			fputs(*p == '|' ? ", " : (char[2]){*p, '\0'}, out);
		break;
	case CONF_T_RIGHTS:
		fputs("list of read, write, flush, verify", out);
		break;
	case CONF_T_NAMES:
		fputs("list of names", out);
		break;
	case CONF_T_HASH:
		fputs("name", out);
		break;
	}
}

void
conf_print_reference(FILE *out)
{
	for (unsigned int i = 0; i < conf_nsections; i++) {
		const struct conf_section *s = &conf_sections[i];

		fprintf(out, "### [%s%s]\n\n%s\n\n", s->name, s->named ? " NAME" : "", s->help);
		fputs("| key | values | default | meaning |\n|---|---|---|---|\n", out);
		for (unsigned int j = 0; j < s->nkeys; j++) {
			const struct conf_key *k = &s->keys[j];

			fprintf(out, "| `%s` | ", k->name);
			conf_print_type(out, k);
			if (k->dflt != NULL)
				fprintf(out, " | `%s` | ", k->dflt);
			else
				fprintf(out, " | %s | ", k->required ? "needed" : "none");
			fprintf(out, "%s |\n", k->help);
		}
		if (i + 1 < conf_nsections)
			fputc('\n', out);
	}
}
