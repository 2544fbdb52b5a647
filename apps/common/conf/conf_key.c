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
        {"lcores", CONF_T_STR, F(conf_weft, lcores), .unset = "at most two CPUs of the process",
         .help = "CPUs for the polling threads: numbers and ranges, as DPDK's `-l` takes them "
                 "(`0,2` or `1-3`). The process must be allowed to use each of them"},
        {"memory_mb", CONF_T_U32, F(conf_weft, memory_mb), .min = 32, .max = 1048576, .dflt = "256",
         .help = "memory for packet buffers and connections, in MiB. The memory of exports comes "
                 "on top"},
        {"log_level", CONF_T_STR, F(conf_weft, log_level),
         .unset = "`weft.*:notice`, `lib.eal:error`; only `critical` during the start",
         .help = "which log lines are printed: a level (`debug`), or a type and a level "
                 "(`weft.*:debug`), as DPDK's `--log-level` takes them"},
        {"hugepages", CONF_T_CHOICE, F(conf_weft, hugepages), .choices = "auto|never",
         .dflt = "auto",
         .help = "`auto`: hugepages hold the memory when enough of them are free, else ordinary "
                 "pages do. `never`: ordinary pages"},
        {"telemetry", CONF_T_BOOL, F(conf_weft, telemetry), .dflt = "no",
         .help = "`yes`: the process serves DPDK's telemetry socket with counters, connections and "
                 "captures (docs/visibility.md)"},
        {"eal", CONF_T_STR, F(conf_weft, eal), .unset = "none",
         .help = "further arguments of DPDK's EAL, separated by blanks (`--iova-mode=pa -d "
                 "librte_net_foo.so`). The PCI devices of ports need no argument"},
        {"take_needed", CONF_T_BOOL, F(conf_weft, take_needed), .dflt = "no",
         .help = "`yes`: open a NIC that the kernel keeps (mlx4, mlx5, `net_af_xdp`) even if the "
                 "default route or an SSH connection uses its interface. An open port takes the "
                 "frames of that interface, so the route and the connection are lost"},
        {"workers", CONF_T_U32, F(conf_weft, workers), .min = 1, .max = CONF_WORKERS_MAX,
         .dflt = "1",
         .help = "number of polling threads when there is no [worker NAME] section. All of them "
                 "serve every port"},
};

static const struct conf_key keys_port[] = {
        {"dev", CONF_T_STR, F(conf_port, dev), .required = true,
         .help = "the DPDK device, as one of these: the PCI address of a NIC (`0000:3b:00.0`; "
                 "docs/nics.md), with arguments of its driver behind a comma; a virtual device "
                 "with its arguments (`net_memif0,role=server,id=0,bsize=10112`), also a bond "
                 "(`net_bonding0,mode=1,slave=0000:3b:00.0,slave=[net_af_packet0,iface=eth0]`); "
                 "the name of a "
                 "port that DPDK knows"},
        {"address", CONF_T_CIDR, F(conf_port, net.addr),
         .off2 = offsetof(struct conf_port, net.prefix_len), .unset = "none: no IPv4",
         .help = "IPv4 address of the port and prefix length of its network (`10.0.0.1/24`). A "
                 "port needs `address`, `address6` or a [network NAME]"},
        {"gateway", CONF_T_IPV4, F(conf_port, net.gateway),
         .unset = "none: only the own network can be reached",
         .help = "IPv4 address of the next hop to other networks. It must lie in the network of "
                 "`address`"},
        {"address6", CONF_T_CIDR6, F(conf_port, net.addr6),
         .off2 = offsetof(struct conf_port, net.prefix6_len),
         .unset = "the link-local address alone",
         .help = "IPv6 address of the port and prefix length of its network (`fd00::1/64`). The "
                 "port also has the link-local address made from its MAC address"},
        {"gateway6", CONF_T_IPV6, F(conf_port, net.gateway6),
         .unset = "none: only the own network can be reached",
         .help = "IPv6 address of the next hop to other networks. It must lie in the network of "
                 "`address6` or be link-local"},
        {"vlan", CONF_T_U32, F(conf_port, net.vlan_id), .min = 0, .max = 4094, .dflt = "0",
         .help = "VLAN identifier of these addresses. Their frames are sent with this tag, and are "
                 "received with it alone. `0`: frames have no tag. The port receives frames of no "
                 "other VLAN than this one and those of its [network NAME] sections"},
        {"mtu", CONF_T_U32, F(conf_port, mtu_bytes), .min = 576, .max = 65535, .dflt = "1500",
         .help = "longest IP packet, in octets. Both ends of the link should use the same value. A "
                 "NIC carries 9000 or a little more, net_memif and net_ring 65535 (docs/nics.md)"},
        {"mbufs", CONF_T_U32, F(conf_port, mbufs), .min = 1024, .max = 1048576,
         .unset = "8192; 2048 if `mtu` is above 9600",
         .help = "number of packet buffers of the port: half of them for received packets, half "
                 "for sent ones. Each has room for a packet of `mtu`"},
        {"offloads", CONF_T_OFFLOADS, F(conf_port, no_offloads), .dflt = "auto",
         .help = "what the device does in place of weft (docs/nics.md). `auto`: all that it offers "
                 "and weft can use; an offload that the device does incorrectly is switched off "
                 "while the port runs. `none`: nothing. A list with commas leaves out what it "
                 "names (`no-tso,no-rss`)"},
        {"selftest", CONF_T_BOOL, F(conf_port, selftest), .dflt = "no",
         .help = "`yes`: test checksums, TSO and RSS at the start, by frames that go out and come "
                 "back inside the device, where its driver has a loopback (docs/nics.md). What is "
                 "incorrect is not used"},
        {"dscp", CONF_T_DSCP, F(conf_port, dscp), .dflt = "0",
         .help = "Differentiated Services Code Point of what TCP sends, for IPv4 and IPv6: a "
                 "number, or `cs0` to `cs7` (RFC 2474), `af11` to `af43` (RFC 2597), `ef` (RFC "
                 "3246), `va` (RFC 5865), `le` (RFC 8622). The bits of ECN beside it stay TCP's"},
};

static const struct conf_key keys_network[] = {
        {"port", CONF_T_STR, F(conf_network, port), .unset = "the only port",
         .help = "name of the [port NAME] that has these addresses, beside its own and those of "
                 "other sections; a port has at most " STR(WEFT_MAX_NETWORKS) " addresses"},
        {"vlan", CONF_T_U32, F(conf_network, net.vlan_id), .min = 0, .max = 4094, .dflt = "0",
         .help = "VLAN identifier, as in [port NAME]. Networks that overlap must be on one VLAN; "
                 "a network is on a VLAN once"},
        {"address", CONF_T_CIDR, F(conf_network, net.addr),
         .off2 = offsetof(struct conf_network, net.prefix_len), .unset = "none",
         .help = "IPv4 address of the port in this network, and prefix length (`10.7.0.1/24`). A "
                 "section needs `address`, `address6` or both. A further address in a network has "
                 "the prefix length 32"},
        {"gateway", CONF_T_IPV4, F(conf_network, net.gateway),
         .unset = "that of another network on the VLAN, if there is one",
         .help = "IPv4 address of the next hop from `address` to other networks. It must lie in "
                 "the network of `address`. Where a client names no source, the first gateway in "
                 "the file decides"},
        {"address6", CONF_T_CIDR6, F(conf_network, net.addr6),
         .off2 = offsetof(struct conf_network, net.prefix6_len), .unset = "none",
         .help = "likewise for IPv6 (`fd00:7::1/64`; further addresses: 128). Each VLAN also has "
                 "the link-local address (`fe80::...%7` on VLAN 7)"},
        {"gateway6", CONF_T_IPV6, F(conf_network, net.gateway6),
         .unset = "that of another network on the VLAN, if there is one",
         .help = "likewise for IPv6. It must lie in the network of `address6` or be link-local"},
};

static const struct conf_key keys_worker[] = {
        {"ports", CONF_T_NAMES, F(conf_worker, ports), .off2 = offsetof(struct conf_worker, nports),
         .unset = "all ports, if it is the only worker",
         .help = "names of the ports that the worker serves, separated by commas. Workers that "
                 "name the same port share it"},
        {"lcore", CONF_T_I32, F(conf_worker, lcore), .min = -1, .max = 1023, .dflt = "-1",
         .help = "number of the CPU that the worker runs on. The process must be allowed to use "
                 "it. `-1`: the kernel chooses"},
        {"spin", CONF_T_BOOL, F(conf_worker, spin), .dflt = "no",
         .help = "`yes`: an idle worker polls without a pause, for the least latency. It keeps its "
                 "CPU busy all the time"},
        {"helpers", CONF_T_U32, F(conf_worker, helpers), .min = 1, .max = 16, .dflt = "1",
         .help = "number of helper threads of the worker. They do what would block it: flushes and "
                 "reads of ordinary files"},
        {"idle_sleep_us", CONF_T_U32, F(conf_worker, idle_sleep_us), .min = 1, .max = 100000,
         .dflt = "8000",
         .help = "longest sleep of an idle worker, in microseconds, while one of its ports has no "
                 "receive interrupt. A sleep lasts a sixteenth of the idle time before it, so a "
                 "packet waits at most this long"},
};

static const struct conf_key keys_target[] = {
        {"listen", CONF_T_U32, F(conf_target, listen_port), .min = 1, .max = 65535,
         .dflt = STR(URL_DEFAULT_PORT), .help = "TCP port, on the addresses of `listen_on`"},
        {"listen_on", CONF_T_LISTEN, F(conf_target, listen_on),
         .off2 = offsetof(struct conf_target, nlisten_on), .unset = "every address of every port",
         .help = "addresses of this host, and networks that stand for each of its addresses in "
                 "them (`10.0.0.1, 10.7.0.0/24, fd00::/64`), at most " STR(
                         CONF_LISTEN_MAX) ". Other addresses refuse connections"},
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
                 "configured. SIGHUP changes this key, the rights of exports up to those that they "
                 "started with, their access lists and limits, exports that are offline or new, "
                 "and the clients and their keys; all other changes need a restart"},
        {"slow_ms", CONF_T_U32, F(conf_target, slow_ms), .min = 0, .max = 3600000, .dflt = "1000",
         .help = "an operation that takes this time or longer, in milliseconds, is logged, at most "
                 "one a second, and `weft-ctl slow` shows the last 64 of each worker, with where "
                 "their "
                 "time went (docs/control.md). 0: none is. SIGHUP changes it, but not from 0, "
                 "unless "
                 "there are metrics"},
        {"writer_idle_ms", CONF_T_U32, F(conf_target, writer_idle_ms), .min = 100, .max = 86400000,
         .dflt = "30000",
         .help = "an export has one writer at a time. A writer that was inactive for this time, "
                 "in milliseconds, gives way when another client asks, `revoke_ms` after a "
                 "warning. A writer that is not authenticated gives way to one that is, even "
                 "while it is active"},
        {"max_conns_per_peer", CONF_T_U32, F(conf_target, max_conns_per_peer), .min = 1,
         .max = 16777216, .unset = "half of `max_conns` of [tcp], at least 8",
         .help = "connections of one address to one worker, those in start-up included; one more "
                 "is reset. An IPv6 /64 counts as one address, and so do all link-local addresses"},
        {"max_requests_per_peer", CONF_T_U32, F(conf_target, max_requests_per_peer), .min = 1,
         .max = 16777216, .unset = "`64`",
         .help = "likewise of connections in start-up, before the Reply of MPA. There are at most "
                 "128 of them of a worker and listener; one more displaces the oldest that has "
                 "sent nothing"},
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
        {"staging", CONF_T_SIZE, F(conf_target, staging_bytes), .min = 4 << 20, .dflt = "256M",
         .help = "memory for data on its way between clients and volumes, in octets or with K, M, "
                 "G. It is used only when an export is a volume. Half of it is for windows, half "
                 "for reads; the workers share it equally. Besides, each volume takes 1 MiB for "
                 "each worker, and what clients write by calls takes up to 64 MiB for each worker"},
        {"window", CONF_T_SIZE, F(conf_target, window_bytes), .min = 64 << 10, .dflt = "1M",
         .help = "longest window of a volume, a power of 2. Half of `staging` divided by it and by "
                 "the workers is the number of windows that may be open on one worker"},
        {"host_auth", CONF_T_CHOICE, F(conf_target, host_auth), .choices = "none|optional|required",
         .dflt = "none",
         .help = "whether clients authenticate ([client NAME], docs/host-auth.md): with `none` no "
                 "client can; `optional` refuses clients that try and fail; `required` also "
                 "refuses clients that do not try"},
        {"auth_timeout_ms", CONF_T_U32, F(conf_target, auth_timeout_ms), .min = 100, .max = 3600000,
         .dflt = "10000",
         .help = "time, in milliseconds, that a client has to authenticate, from the start of its "
                 "connection (with `optional`: of the attempt); after it the connection is closed"},
        {"known_as", CONF_T_STR, F(conf_target, known_as), .unset = "the target's own addresses",
         .help = "addresses and ports by which clients call this target, where they are "
                 "translated on the way (`192.0.2.1:7471, [2001:db8::1]:7471`); the target's own "
                 "addresses need not be listed. A client that authenticates and called any "
                 "other address is refused"},
        {"control", CONF_T_STR, F(conf_target, control),
         .unset = "`/run/weft/control.sock` if the target may make files in `/run/weft`, else off",
         .help = "path of the socket by which `weft-ctl` asks and changes things "
                 "(docs/control.md), "
                 "or `off`. Root and the target's own user may use it"},
        {"state", CONF_T_PATH, F(conf_target, state),
         .unset = "exports are those of this file alone",
         .help = "directory in which the target keeps the exports that `weft-ctl export create` "
                 "makes (docs/control.md). It has to exist, and belongs to one target. With it the "
                 "file needs no [export NAME]. Reservations of NVMe hosts that survive a restart "
                 "are there, too (docs/nvmeof.md). Under weft-target.service it is below the "
                 "StateDirectory, as `/var/lib/weft/state`"},
        {"metrics", CONF_T_STR, F(conf_target, metrics), .unset = "`off`",
         .help = "`ADDRESS:PORT` at which metrics for Prometheus, and a page for people, are "
                 "served over HTTP (docs/metrics.md), a `PORT` alone of 127.0.0.1, or `off`. "
                 "All who reach the address can read them"},
        {"log_format", CONF_T_CHOICE, F(conf_target, log_format), .choices = CONF_LOG_FORMATS,
         .dflt = "text",
         .help = "how a line of the log looks (docs/visibility.md). `text`: `weft-target: ...`, as "
                 "the journal of systemd adds time and priority. `time`: with the time (UTC) and "
                 "the level before it. `json`: one JSON object a line. `weft-target --log-format` "
                 "goes before this key, and has the lines before the file is read as well"},
        {"control_group", CONF_T_STR, F(conf_target, control_group), .unset = "no group",
         .help = "name of a group whose members may use the control socket as well"},
};

static const struct conf_key keys_client[] = {
        {"key_file", CONF_T_PATH, F(conf_client, key_file), .required = true,
         .help = "file of the key that client and target share: 32 to 256 octets. The file must "
                 "belong to the user or root, and others must not have access to it. The client "
                 "uses the same key (`weft-cp --auth NAME:KEYFILE`). No other client and no export "
                 "(`hash_key_file`) may have the same key"},
};

static const struct conf_key keys_export[] = {
        {"path", CONF_T_PATH, F(conf_export, path), .unset = "needed unless `persist = volatile`",
         .help = "file or device. A relative path starts at the folder of the configuration file. "
                 "A file that does not exist is made"},
        {"size", CONF_T_SIZE, F(conf_export, size_bytes), .min = 24576,
         .unset = "the length of the file, if it exists",
         .help = "size of the whole file, in octets or with K, M, G, T (powers of 1024). An object "
                 "has a little less than half of it, because two slots take turns. A log has all "
                 "of it"},
        {"format", CONF_T_CHOICE, F(conf_export, format), .choices = "object|log|volume",
         .dflt = "object",
         .help = "what the export holds. `object`: one file that weft-cp pushes and pulls. `log`: "
                 "the memory of one target of a remote log (docs/log-host.md), `size` octets that "
                 "the log's writer formats. A client that may write a log needs `read` and `flush` "
                 "as well. `volume`: raw storage that may be larger than memory, which many "
                 "clients "
                 "read and write at any octet (docs/volumes.md)"},
        {"persist", CONF_T_CHOICE, F(conf_export, persist), .choices = "auto|pmem|file|volatile",
         .dflt = "auto",
         .help = "how a Flush makes data durable. `pmem`: libpmem, on a file that is mapped with "
                 "DAX. `file`: direct I/O and fdatasync. `auto`: `pmem` where libpmem finds "
                 "persistent memory, else `file`. `volatile`: not at all, the memory ends with the "
                 "process. Of a volume, `file` and `auto` are direct I/O by io_uring, to a file or "
                 "a "
                 "block device"},
        {"hash", CONF_T_HASH, F(conf_export, hash), .dflt = "crc32c",
         .help = "hash driver of Verify: `crc32c`, `crc64-ecma-182`, `crc64-xz`, `crc64-go-iso`, "
                 "`crc64-redis`, `crc16-t10-dif`, `sha256` or `hmac-sha256`"},
        {"hash_key_file", CONF_T_PATH, F(conf_export, hash_key_file),
         .unset = "needed with `hmac-sha256`",
         .help = "file of the key of `hmac-sha256`: 32 to 256 octets. The file must belong to the "
                 "user or root, and others must not have access to it. A client that pushes needs "
                 "the same key"},
        {"rights", CONF_T_RIGHTS, F(conf_export, rights), .dflt = "read,write,flush,verify",
         .help = "the most that a client is granted. A volatile export has no `flush`. `verify` "
                 "needs `read`, because a client that may verify can find out every octet"},
        {"image", CONF_T_STR, F(conf_export, image), .unset = "`path` is used",
         .help = "of a volume: an image of a Ceph cluster, `POOL/IMAGE`, or a snapshot of one, "
                 "`POOL/IMAGE@SNAPSHOT`, in place of `path`. It "
                 "has "
                 "to exist (docs/volumes.md)"},
        {"ceph", CONF_T_STR, F(conf_export, ceph), .unset = "Ceph's own defaults",
         .help = "of a volume with `image`: options with commas between them: `conf=FILE`, "
                 "`id=NAME`, `keyring=FILE`, `timeout=SECONDS`, and `takeover=yes`, by which a "
                 "target takes the image over from another one, which is fenced"},
        {"checksums", CONF_T_BOOL, F(conf_export, checksums), .dflt = "no",
         .help = "of a volume that is formatted now: keep a CRC32c of each 4 KiB beside the data, "
                 "compare it at each read. A volume that exists stays as it was formatted"},
        {"scrub", CONF_T_U32, F(conf_export, scrub_mb_s), .min = 0, .max = 1000000, .dflt = "0",
         .help = "of a volume with checksums: compare all of it again and again in the background, "
                 "so many MiB a second; `0`: not. Groups in doubt, after a crash for example, are "
                 "scrubbed in any case, with at most 50 MiB a second or this, if it is more"},
        {"snapshots", CONF_T_U32, F(conf_export, snapshots), .min = 0, .max = 1000, .dflt = "0",
         .help = "of a volume: so many snapshots, and so many clones, there may be for clients to "
                 "make more; they need room beside the volume. `0`: clients make none. Not on "
                 "every medium (docs/volumes.md)"},
        {"numa_node", CONF_T_I32, F(conf_export, numa_node), .min = -1, .max = 1023, .dflt = "-1",
         .help = "number of the NUMA node that the memory lies on. `-1`: the node of the first "
                 "port"},
        {"allow_clients", CONF_T_CLIENTS, F(conf_export, allow_clients), .unset = "any client",
         .help = "names of the clients that may open the export, as they authenticate ([client "
                 "NAME]); `any`: also those that do not. Others are refused (PERM), and what they "
                 "had been granted is revoked. It needs `host_auth` of [target]"},
        {"allow_from", CONF_T_LISTEN, F(conf_export, allow_from),
         .off2 = offsetof(struct conf_export, nallow_from), .min = 1, .unset = "every address",
         .help = "addresses and networks from which clients may open the export "
                 "(`10.0.0.7, 10.1.0.0/24, fd00::/64`), at most 16; `any`: every address. With "
                 "`allow_clients` a client has to be on both lists"},
        {"max_bytes_per_s", CONF_T_SIZE, F(conf_export, max_bytes_per_s), .min = 0, .dflt = "0",
         .help = "octets in a second that all clients together read and write of the export; `0`: "
                 "no limit. What is beyond waits, and active clients get equal shares "
                 "(docs/control.md)"},
        {"max_ops_per_s", CONF_T_U32, F(conf_export, max_ops_per_s), .min = 0, .max = UINT32_MAX,
         .dflt = "0", .help = "likewise operations in a second"},
        {"client_bytes_per_s", CONF_T_SIZE, F(conf_export, client_bytes_per_s), .min = 0,
         .dflt = "0",
         .help = "octets in a second of each client, which is an authenticated name, or else an "
                 "address, on all of its connections; `0`: no limit"},
        {"client_ops_per_s", CONF_T_U32, F(conf_export, client_ops_per_s), .min = 0,
         .max = UINT32_MAX, .dflt = "0", .help = "likewise operations in a second"},
        {"max_conns", CONF_T_U32, F(conf_export, max_conns), .min = 0, .max = 1000000, .dflt = "0",
         .help = "connections that may have a grant of the export; one more is refused (NORES). "
                 "`0`: no limit"},
};

const struct conf_section conf_sections[] = {
        {
                .name = "weft",
                .off = offsetof(struct conf, weft),
                .help = "Settings of the process.",
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
                .help = "A DPDK port and its addresses; at most " STR(CONF_PORTS_MAX) ".",
                .keys = keys_port,
                .nkeys = NKEYS(keys_port),
        },
        {
                .name = "network",
                .named = true,
                .off = offsetof(struct conf, networks),
                .elem_bytes = sizeof(struct conf_network),
                .count_off = offsetof(struct conf, nnetworks),
                .max = CONF_NETWORKS_MAX,
                .name_off = offsetof(struct conf_network, name),
                .line_off = offsetof(struct conf_network, line),
                .help = "Further addresses of a port, on the VLAN of the port or on another one. "
                        "An address is known on its own VLAN only, and a connection keeps to the "
                        "VLAN of its address on this host.",
                .keys = keys_network,
                .nkeys = NKEYS(keys_network),
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
                .help = "A polling thread and the ports that it serves; at most " STR(
                        CONF_WORKERS_MAX) ". Without such a section, `workers` of [weft] is the "
                                          "number of polling threads.",
                .keys = keys_worker,
                .nkeys = NKEYS(keys_worker),
        },
        {
                .name = "tcp",
                .off = offsetof(struct conf, tcp),
                .help = "TCP. Every limit applies to one worker and has a counter "
                        "(docs/visibility.md).",
                .keys = conf_keys_tcp,
                .nkeys = CONF_TCP_KEYS,
        },
        {
                .name = "mpa",
                .off = offsetof(struct conf, mpa),
                .help = "MPA of every connection (RFC 5044, RFC 6581): what this side asks for. "
                        "The peer decides for its own direction.",
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
                .grows = true,
                .elem_bytes = sizeof(struct conf_export),
                .count_off = offsetof(struct conf, nexports),
                .max = CONF_EXPORTS_MAX,
                .name_off = offsetof(struct conf_export, name),
                .line_off = offsetof(struct conf_export, line),
                .help = "weft-target only: memory that clients open by this name; at most " STR(
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
                .help = "weft-target only: a client that authenticates under this name with a key; "
                        "at most " STR(CONF_CLIENTS_MAX) ".",
                .keys = keys_client,
                .nkeys = NKEYS(keys_client),
        },
        {
                .name = "nvmf",
                .off = offsetof(struct conf, nvmf),
                .help = "weft-target only: NVMe over Fabrics for hosts (docs/nvmeof.md). Without a "
                        "[subsystem NQN] it does nothing.",
                .keys = conf_keys_nvmf,
                .nkeys = CONF_NVMF_KEYS,
        },
        {
                .name = "subsystem",
                .named = true,
                .nqn = true,
                .off = offsetof(struct conf, subsys),
                .elem_bytes = sizeof(struct conf_subsys),
                .count_off = offsetof(struct conf, nsubsys),
                .max = CONF_SUBSYS_MAX,
                .name_off = offsetof(struct conf_subsys, nqn),
                .line_off = offsetof(struct conf_subsys, line),
                .help = "weft-target only: a subsystem of this NQN "
                        "(`nqn.2026-01.org.example:disk`), "
                        "whose namespaces hosts use as disks; at most " STR(CONF_SUBSYS_MAX) ".",
                .keys = conf_keys_subsys,
                .nkeys = CONF_SUBSYS_KEYS,
        },
};

const unsigned int conf_nsections = NKEYS(conf_sections);

static_assert(NKEYS(conf_sections) <= CONF_SECTIONS_MAX, "CONF_SECTIONS_MAX");
static_assert(NKEYS(keys_client) <= CONF_KEYS_MAX, "CONF_KEYS_MAX");
static_assert(NKEYS(keys_export) <= CONF_KEYS_MAX, "CONF_KEYS_MAX");
static_assert(NKEYS(keys_network) <= CONF_KEYS_MAX, "CONF_KEYS_MAX");
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

			/* Two equal texts are equal in all octets: those behind the end are zero.
			 */
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
	case CONF_T_LISTEN:
		fprintf(out, "list of addresses and networks%s", k->min > 0 ? ", or any" : "");
		break;
	case CONF_T_CLIENTS:
		fputs("list of names, or any", out);
		break;
	case CONF_T_HASH:
		fputs("name", out);
		break;
	case CONF_T_OFFLOADS:
		fputs("auto, none, or list of " CONF_OFFLOAD_NAMES, out);
		break;
	case CONF_T_NAMESPACES:
		fputs("list of NUMBER=EXPORT", out);
		break;
	case CONF_T_HOSTS:
		fputs("list of NQNs, or any", out);
		break;
	case CONF_T_DSCP:
		fputs("0 to 63, or a name", out);
		break;
	}
}

void
conf_print_reference(FILE *out)
{
	for (unsigned int i = 0; i < conf_nsections; i++) {
		const struct conf_section *s = &conf_sections[i];

		fprintf(out, "### [%s%s]\n\n%s\n\n", s->name,
		        s->nqn     ? " NQN"
		        : s->named ? " NAME"
		                   : "",
		        s->help);
		fputs("| key | values | default | meaning |\n|---|---|---|---|\n", out);
		for (unsigned int j = 0; j < s->nkeys; j++) {
			const struct conf_key *k = &s->keys[j];

			fprintf(out, "| `%s` | ", k->name);
			conf_print_type(out, k);
			if (k->dflt != NULL)
				fprintf(out, " | `%s` | ", k->dflt);
			else
				fprintf(out, " | %s | ", k->required ? "needed" : k->unset);
			fprintf(out, "%s |\n", k->help);
		}
		if (i + 1 < conf_nsections)
			fputc('\n', out);
	}
}
