/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The methods of the control socket, and its errors. */

#include "ctl_api.h"

#define N(array)          (sizeof(array) / sizeof((array)[0]))
#define PARAMS(array)     .params = array, .nparams = N(array)
#define FIELDS(array)     .fields = array, .nfields = N(array)
#define ROWS(name, array) .rows_name = name, .rows = array, .nrows = N(array)

#define SHORT_MS 10000U
#define LONG_MS  60000U

/* ---- Parameters ---- */

#define PARAM_INTERVAL                                                                             \
	{                                                                                          \
		"interval_ms", CTL_MS, CTL_OPTION, false,                                          \
		        "for how long rates are measured before the answer, at most 5000. Left "   \
		        "out, or 0: they are not. `weft-ctl` asks for 1000, and `watch` for its "  \
		        "interval"                                                                 \
	}

static const struct ctl_param params_exports[] = {
        {"name", CTL_STR, CTL_WORD, false, "this export alone"},
        PARAM_INTERVAL,
};

static const struct ctl_param params_rates[] = {
        PARAM_INTERVAL,
};

static const struct ctl_param params_export[] = {
        {"name", CTL_STR, CTL_WORD, true, "the export"},
};

static const struct ctl_param params_drain[] = {
        {"name", CTL_STR, CTL_WORD, true, "the export"},
        {"timeout_ms", CTL_MS, CTL_OPTION, false,
         "how long to wait for holders; 30000 when it is left out, 600000 at most"},
};

static const struct ctl_param params_drop[] = {
        {"client", CTL_STR, CTL_WORD, true,
         "the name under which it has authenticated, its address, address and port of one of "
         "its connections, or the NQN of an NVMe host, as `clients` and `connections` show them"},
};

static const struct ctl_param params_loglevel[] = {
        {"levels", CTL_STR, CTL_WORD, false,
         "`TYPE:LEVEL[,...]`, as `log_level` of [weft]; without it nothing changes"},
};

static const struct ctl_param params_create[] = {
        {"name", CTL_STR, CTL_WORD, true, "its name"},
        {"keys", CTL_KEYS, CTL_PAIRS, true,
         "keys of [export NAME] (docs/configuration.md). A relative path starts at the state "
         "directory"},
};

static const struct ctl_param params_set[] = {
        {"name", CTL_STR, CTL_WORD, true, "the export"},
        {"keys", CTL_KEYS, CTL_PAIRS, true, "keys of [export NAME] and their new values"},
};

static const struct ctl_param params_resize[] = {
        {"name", CTL_STR, CTL_WORD, true, "the export"},
        {"size", CTL_SIZE, CTL_WORD, true, "the size of its file, as the key `size`"},
        {"shrink", CTL_BOOL, CTL_OPTION, false,
         "it may become smaller; what a volume has beyond is lost"},
};

static const struct ctl_param params_rename[] = {
        {"name", CTL_STR, CTL_WORD, true, "the export"},
        {"to", CTL_STR, CTL_WORD, true, "its new name"},
};

static const struct ctl_param params_delete[] = {
        {"name", CTL_STR, CTL_WORD, true, "the export"},
        {"confirm", CTL_STR, CTL_OPTION, true, "the name again"},
};

static const struct ctl_param params_diff[] = {
        {"exports", CTL_STR, CTL_FILE, true,
         "sections [export NAME], as `dump` prints them; a relative path in them starts at the "
         "state "
         "directory. `weft-ctl` reads them from a file, or from standard input (`-`)"},
};

static const struct ctl_param params_apply[] = {
        {"exports", CTL_STR, CTL_FILE, true, "as of `diff`"},
        {"dry_run", CTL_BOOL, CTL_OPTION, false, "check everything, and change nothing"},
        {"confirm", CTL_STR, CTL_OPTION, false,
         "the names of the exports that are deleted, all of them, with commas. Without it none is"},
        {"shrink", CTL_BOOL, CTL_OPTION, false,
         "exports may become smaller; what a volume has beyond is lost. One volume at most in a "
         "set"},
};

static const struct ctl_param params_slow_packets[] = {
        {"number", CTL_STR, CTL_WORD, true, "number of a slow operation, as `slow` shows it"},
};

static const struct ctl_param params_capture_port[] = {
        {"port", CTL_STR, CTL_OPTION, false,
         "name of the port, [port NAME]; may be left out where there is one"},
};

static const struct ctl_param params_capture_start[] = {
        {"port", CTL_STR, CTL_OPTION, false,
         "name of the port, [port NAME]; may be left out where there is one"},
        {"file", CTL_STR, CTL_OPTION, false,
         "name of the file, without a folder; `PORT.pcapng` when it is left out. An earlier "
         "capture of this name is removed"},
        {"size", CTL_SIZE, CTL_OPTION, false,
         "octets of a file, from 128K to 64G; 16M when it is left out"},
        {"files", CTL_COUNT, CTL_OPTION, false,
         "files of a ring, FILE.0, FILE.1 ..., at most 100; 4 when it is left out. 1: one file, "
         "FILE, and what does not fit is dropped and counted"},
        {"snap", CTL_COUNT, CTL_OPTION, false,
         "octets kept of each packet, at least 64; a whole packet when it is left out"},
        {"peer", CTL_STR, CTL_OPTION, false, "packets from and to this address alone"},
        {"tcp_port", CTL_COUNT, CTL_OPTION, false, "packets from or to this TCP port alone"},
};

/* ---- Results ---- */

static const struct ctl_field fields_status[] = {
        {"program", CTL_STR, false, "`weft-target`"},
        {"version", CTL_STR, false, "its version"},
        {"pid", CTL_COUNT, false, "its process"},
        {"uptime_s", CTL_S, false, "since it was ready"},
        {"configuration", CTL_STR, false, "the file that `reload` reads again"},
        {"workers", CTL_COUNT, false, "polling threads"},
        {"ports", CTL_COUNT, false, "ports"},
        {"listen", CTL_COUNT, false, "TCP port"},
        {"exports", CTL_COUNT, false, "exports"},
        {"exports_served", CTL_COUNT, false, "of these, those that clients can open"},
        {"connections", CTL_COUNT, false, "connections, those that end now included"},
        {"grants", CTL_COUNT, false, "grants of all clients"},
        {"host_auth", CTL_STR, false, "`none`, `optional` or `required`"},
        {"stopping", CTL_BOOL, false, "it takes no connections any more"},
        {"control_clients", CTL_COUNT, true, "clients of this socket now"},
        {"control_requests", CTL_COUNT, true, "requests since the start, refused ones included"},
        {"control_refused", CTL_COUNT, true,
         "clients that came while the socket had as many as it may have"},
        {"control_denied", CTL_COUNT, true, "clients whose user may not use the socket"},
        {"control_slow", CTL_COUNT, true, "clients closed because they did not read an answer"},
        {"control_idle", CTL_COUNT, true,
         "clients closed because they sent nothing, or half a line"},
        {"control_bad", CTL_COUNT, true, "lines that were no request"},
        {"control_too_long", CTL_COUNT, true, "requests and answers beyond the budget of a client"},
        {"control_late", CTL_COUNT, true, "requests that were not done within their time"},
};

#define FIELD_INTERVAL                                                                             \
	{                                                                                          \
		"interval_ms", CTL_MS, false,                                                      \
		        "for how long rates were measured; 0: they were not, and are null"         \
	}

static const struct ctl_field fields_rates[] = {
        FIELD_INTERVAL,
};

static const struct ctl_field rows_exports[] = {
        {"name", CTL_STR, false, "its name"},
        {"state", CTL_STR, false,
         "`served`; `draining` (no new grants); `held` (taken offline by `offline` or `drain`); "
         "`offline` (it cannot be opened); `lost` (its file is lost)"},
        {"format", CTL_STR, false, "`object`, `log` or `volume`"},
        {"capacity_bytes", CTL_BYTES, false, "the most that it can hold; 0: not open"},
        {"rights", CTL_STR, false, "what clients may be granted now"},
        {"access", CTL_STR, true,
         "`allow_clients` and `allow_from`, as the configuration has them; empty: anybody"},
        {"limits", CTL_STR, true,
         "`max_bytes_per_s` and the other limits that the configuration gives; empty: none"},
        {"grants", CTL_COUNT, false, "grants that clients hold"},
        {"read_bytes_per_s", CTL_BYTES_PER_S, false, "octets read by calls"},
        {"write_bytes_per_s", CTL_BYTES_PER_S, false,
         "octets written by calls, and of ranges that RDMA Flushes have made durable"},
        {"ops_per_s", CTL_PER_S, false, "reads and writes by calls, and RDMA Flushes"},
        {"writer", CTL_STR, false, "address of the one writer; empty: none, or a volume"},
        {"place", CTL_STR, false, "file, image or memory"},
        {"why", CTL_STR, false, "the reason when it is not served"},
        {"mechanism", CTL_STR, true, "how it is made durable"},
        {"hash", CTL_STR, true, "hash of Verify"},
        {"configured", CTL_STR, true, "rights that the configuration gives"},
        {"source", CTL_STR, true, "where it is configured, file and line"},
        {"reads", CTL_COUNT, true, "reads by calls", true},
        {"read_bytes", CTL_BYTES, true, "octets read by calls", true},
        {"writes", CTL_COUNT, true, "writes by calls", true},
        {"write_bytes", CTL_BYTES, true, "octets written by calls", true},
        {"refused", CTL_COUNT, true, "calls refused for rights or bounds", true},
        {"charged_ops", CTL_COUNT, true, "operations that were charged to its limits", true},
        {"charged_bytes", CTL_BYTES, true, "octets that were charged to its limits", true},
        {"waits", CTL_COUNT, true, "operations that waited because of its limits", true},
        {"waiting", CTL_COUNT, true, "operations that wait now because of its limits"},
        {"debts_forgotten", CTL_COUNT, true,
         "clients that had left, owed its limits something, and were forgotten", true},
        {"conns", CTL_COUNT, true, "connections that have a grant"},
        {"conns_refused", CTL_COUNT, true, "OPENs refused by `max_conns`", true},
        {"access_refused", CTL_COUNT, true, "OPENs and STATs refused by the access lists", true},
        {"bad_ranges", CTL_COUNT, true, "Verifies that did not match, and failures of the medium"},
        {"files_lost", CTL_COUNT, true, "times that its file was lost"},
};

static const struct ctl_field rows_connections[] = {
        {"peer", CTL_STR, false, "address and port"},
        {"client", CTL_STR, false, "the authenticated name; empty: none"},
        {"worker", CTL_COUNT, false, "number of its worker"},
        {"kind", CTL_STR, false, "`rpc` or `log`"},
        {"state", CTL_STR, false, "of its queue pair"},
        {"grants", CTL_COUNT, false, "grants that it holds"},
        {"exports", CTL_NAMES, false, "exports of these grants"},
        {"recv_bytes", CTL_BYTES, false, "octets from the client", true},
        {"sent_bytes", CTL_BYTES, false, "octets to the client", true},
        {"recv_msgs", CTL_COUNT, true, "messages from the client", true},
        {"sent_msgs", CTL_COUNT, true, "messages to the client", true},
        {"qpn", CTL_COUNT, true, "number of the queue pair, as telemetry shows it"},
        {"srtt_us", CTL_COUNT, true, "smoothed round-trip time in microseconds"},
        {"retrans_segs", CTL_COUNT, true, "TCP segments sent again", true},
        {"unacked_bytes", CTL_BYTES, true, "octets that the client has not acknowledged"},
        {"windows", CTL_COUNT, true, "windows of volumes that are open"},
        {"tickets", CTL_COUNT, true, "tickets for logs that it asked for"},
};

static const struct ctl_field rows_clients[] = {
        {"client", CTL_STR, false,
         "the authenticated name, or else the address; the NQN of an NVMe host"},
        {"authenticated", CTL_BOOL, false,
         "whether it is a name; of an NVMe host, whether all of its controllers have its proof"},
        {"tls", CTL_BOOL, false, "whether all controllers of an NVMe host are by TLS"},
        {"connections", CTL_COUNT, false, "its connections"},
        {"grants", CTL_COUNT, false, "grants that it holds"},
        {"exports", CTL_NAMES, false, "exports of these grants"},
        {"recv_bytes_per_s", CTL_BYTES_PER_S, false, "octets from it"},
        {"sent_bytes_per_s", CTL_BYTES_PER_S, false, "octets to it"},
        {"ops_per_s", CTL_PER_S, false,
         "RDMAP messages from it: each call is one, and each RDMA Write, Read, Flush and Verify"},
        {"recv_bytes", CTL_BYTES, false, "octets from it, on connections that are open", true},
        {"sent_bytes", CTL_BYTES, false, "octets to it, likewise", true},
        {"recv_msgs", CTL_COUNT, true, "messages from it, likewise", true},
        {"sent_msgs", CTL_COUNT, true, "messages to it, likewise", true},
        {"windows", CTL_COUNT, true, "windows of volumes that are open"},
};

static const struct ctl_field fields_clients[] = {
        FIELD_INTERVAL,
        {"left_out", CTL_COUNT, true,
         "connections that came while the answer was made, and are not in it"},
};

static const struct ctl_field fields_left_out[] = {
        {"left_out", CTL_COUNT, true,
         "connections that came while the answer was made, and are not in it"},
};

static const struct ctl_field fields_limits[] = {
        FIELD_INTERVAL,
        {"left_out", CTL_COUNT, true,
         "connections that came while the answer was made, grants and clients of exports beyond "
         "the room that an answer has; these are not in it"},
};

static const struct ctl_field rows_limits[] = {
        {"limit", CTL_STR, false, "what is limited"},
        {"now", CTL_COUNT, false,
         "how much is in use; of a limit of each client: by the first of `who`; of a rate: what "
         "was "
         "measured; null: not known"},
        {"max", CTL_COUNT, false, "the limit; null: none"},
        {"refused", CTL_COUNT, false,
         "how often something was refused or ended because of it; of a rate: has waited"},
        {"key", CTL_STR, false, "the key of the configuration that changes it; empty: none"},
        {"who", CTL_NAMES, false,
         "clients that use most of it, at most five, with how much; `waits`: operations of it wait "
         "for "
         "the export's rates"},
};

static const struct ctl_field fields_slow[] = {
        {"slow_ms", CTL_MS, false,
         "from when on an operation is slow (`slow_ms` of [target]); 0: off, nothing is kept"},
        {"seen", CTL_COUNT, false, "slow operations since the start; 64 of each worker are kept",
         true},
        {"crowded", CTL_COUNT, true,
         "of these, those for which an earlier one of the same client was forgotten: the client "
         "that has most makes room",
         true},
        {"unsaid", CTL_COUNT, true,
         "of these, those without a line of the log, as their client had one in the last 10 s",
         true},
};

static const struct ctl_field rows_slow[] = {
        {"number", CTL_STR, false, "for `slow packets`: its worker, and its number there"},
        {"ago_s", CTL_S, false, "since its end"},
        {"op", CTL_STR, false, "what it is, as the metrics name it: `push` is an RDMA Flush"},
        {"export", CTL_STR, false, "the export"},
        {"peer", CTL_STR, false, "address and port of the client; empty: not known"},
        {"client", CTL_STR, true,
         "the authenticated name, or the NQN of an NVMe host; empty: none"},
        {"offset", CTL_COUNT, false,
         "where, in the volume or in the file; null: not known, as of a window"},
        {"len_bytes", CTL_BYTES, false, "octets that it is about"},
        {"total_us", CTL_COUNT, false,
         "how long it took, in microseconds, as are those that follow"},
        {"wire_us", CTL_COUNT, false, "its data was read from the client; null: there was none"},
        {"credit_us", CTL_COUNT, false, "it waited for room in the budget for calls"},
        {"staging_us", CTL_COUNT, false, "it waited for staging memory"},
        {"rate_us", CTL_COUNT, false, "it waited for the rates of its client"},
        {"medium_us", CTL_COUNT, false, "the medium had it"},
        {"answer_us", CTL_COUNT, false, "the client took its answer"},
        {"packets", CTL_COUNT, false,
         "packets of its connection that are kept; null: they were not looked for, as no capture "
         "ran, or the client is not known, or it was a while ago"},
        {"packets_left", CTL_COUNT, true,
         "packets that were there, and for which there was no room"},
        {"failed", CTL_STR, false, "why it failed; empty: it did not"},
        {"worker", CTL_COUNT, true, "number of its worker"},
};

static const struct ctl_field fields_slow_packets[] = {
        {"number", CTL_STR, false, "the operation"},
        {"packets", CTL_COUNT, false, "packets"},
        {"packets_left", CTL_COUNT, false,
         "packets that were there, and for which there was no room"},
        {"pcapng", CTL_STR, true, "the file, in base64 (RFC 4648 s4)"},
};

#define FIELDS_CAPTURE                                                                             \
	{"port", CTL_STR, false, "name of the port"},                                              \
	        {"on", CTL_BOOL, false, "whether a capture runs"},                                 \
	        {"file", CTL_STR, false,                                                           \
	         "its file, of a ring without the number; empty: none, or telemetry has started "  \
	         "it"},                                                                            \
	        {"files", CTL_COUNT, false, "files of the ring; 1: one file"},                     \
	        {"size_bytes", CTL_BYTES, false, "the most that a file has"},                      \
	        {"peer", CTL_STR, true, "packets of this address alone; empty: of all"},           \
	        {"tcp_port", CTL_COUNT, true, "packets of this TCP port alone; 0: of all"},        \
	        {"for_s", CTL_S, false, "since it was started"},                                   \
	        {"packets", CTL_COUNT, false, "packets written", true},                            \
	        {"written_bytes", CTL_BYTES, false, "octets written", true},                       \
	        {"files_begun", CTL_COUNT, true, "files begun"},                                   \
	        {"dropped", CTL_COUNT, false,                                                      \
	         "packets that matched, and are in no file: the queue was full, or the one file",  \
	         true},                                                                            \
	        {"unknown", CTL_COUNT, true, "with a filter by opcode, which telemetry has"},      \
	{                                                                                          \
		"ended", CTL_STR, false, "why it ended early; empty: it did not"                   \
	}

static const struct ctl_field rows_captures[] = {FIELDS_CAPTURE};

static const struct ctl_field fields_capture[] = {
        FIELDS_CAPTURE,
        {"changed", CTL_BOOL, false, "whether the request has changed anything"},
};

static const struct ctl_field fields_support[] = {
        {"dpdk", CTL_STR, false, "version of DPDK"},
        {"kernel", CTL_STR, false, "the system, its release and version, the machine"},
        {"configuration", CTL_TEXT, true,
         "the configuration's file as it is now, without comments, values of keys and parts of "
         "values that have key, secret, passw or token in their name"},
        {"exports", CTL_TEXT, true, "likewise, the exports that were made at run time"},
        {"log", CTL_TEXT, true,
         "the last 512 lines of weft-target's log, with their times; lines of the library and of "
         "DPDK are among them"},
};

static const struct ctl_field rows_support[] = {
        {"of", CTL_STR, false, "a port or a worker"},
        {"counter", CTL_STR, false, "its name, as telemetry has it (docs/visibility.md)"},
        {"value", CTL_COUNT, false, "since the start", true},
};

static const struct ctl_field fields_loglevel[] = {
        {"levels", CTL_STR, false,
         "what was set last, or in the configuration; empty: the default"},
};

static const struct ctl_field fields_reload[] = {
        {"configuration", CTL_STR, false, "the file that was read"},
};

static const struct ctl_field fields_export[] = {
        {"name", CTL_STR, false, "the export"},
        {"state", CTL_STR, false, "its state now, as `exports` shows it, or `deleted`"},
        {"changed", CTL_BOOL, false, "whether the request has changed anything"},
};

static const struct ctl_field fields_drop[] = {
        {"connections", CTL_COUNT, false, "connections that were closed"},
};

static const struct ctl_field fields_stop[] = {
        {"pid", CTL_COUNT, false, "the process that ends now"},
};

static const struct ctl_field fields_dump[] = {
        {"exports", CTL_TEXT, false,
         "the exports that were made at run time, as sections of a configuration"},
};

static const struct ctl_field rows_changes[] = {
        {"change", CTL_STR, false, "`delete`, `create`, `set` or `resize`"},
        {"export", CTL_STR, false, "the export"},
        {"key", CTL_STR, false, "the key; empty: of a deletion"},
        {"was", CTL_STR, false,
         "its value before; empty: none. Of a deletion: the file, which stays"},
        {"now", CTL_STR, false, "its value behind the change; empty: none"},
};

static const struct ctl_field fields_diff[] = {
        {"differs", CTL_BOOL, true, "whether there is a change; exit status 10 of `weft-ctl diff`"},
};

static const struct ctl_field fields_apply[] = {
        {"changed", CTL_BOOL, true, "whether the request has changed anything"},
};

/* ---- Methods ---- */

const struct ctl_method ctl_methods[] = {
        {.name = "status",
         .command = "status",
         .help = "What the target is doing, in a few figures.",
         .limit_ms = SHORT_MS,
         FIELDS(fields_status)},
        {.name = "exports",
         .command = "exports",
         .help = "The exports, or one of them.",
         .limit_ms = SHORT_MS,
         PARAMS(params_exports),
         FIELDS(fields_rates),
         ROWS("exports", rows_exports)},
        {.name = "clients",
         .command = "clients",
         .help = "The clients that are connected: an authenticated name, or else an address, is "
                 "one "
                 "client.",
         .limit_ms = SHORT_MS,
         PARAMS(params_rates),
         FIELDS(fields_clients),
         ROWS("clients", rows_clients)},
        {.name = "connections",
         .command = "connections",
         .help = "Each connection.",
         .limit_ms = SHORT_MS,
         FIELDS(fields_left_out),
         ROWS("connections", rows_connections)},
        {.name = "limits",
         .command = "limits",
         .help = "The limits, how much of each is in use, and who uses most of it.",
         .limit_ms = SHORT_MS,
         PARAMS(params_rates),
         FIELDS(fields_limits),
         ROWS("limits", rows_limits)},
        {.name = "slow",
         .command = "slow",
         .help = "Operations that took long, and where their time went, the last one first.",
         .limit_ms = SHORT_MS,
         FIELDS(fields_slow),
         ROWS("slow", rows_slow)},
        {.name = "slow.packets",
         .command = "slow packets",
         .help = "The packets of one slow operation, which are kept while captures run (`capture "
                 "start`). `weft-ctl` writes them into a new file; `-` is standard output.",
         .limit_ms = SHORT_MS,
         .saves = "pcapng",
         PARAMS(params_slow_packets),
         FIELDS(fields_slow_packets)},
        {.name = "capture.start",
         .command = "capture start",
         .help = "Capture the packets of a port into a ring of files, or into one file, in the "
                 "folder `captures` of the state directory, or else beside the socket. Meanwhile "
                 "slow operations keep their packets.",
         .changes = true,
         .limit_ms = SHORT_MS,
         PARAMS(params_capture_start),
         FIELDS(fields_capture)},
        {.name = "capture.stop",
         .command = "capture stop",
         .help = "End the capture of a port. Its files stay.",
         .changes = true,
         .limit_ms = SHORT_MS,
         PARAMS(params_capture_port),
         FIELDS(fields_capture)},
        {.name = "capture.status",
         .command = "capture status",
         .help = "The captures of the ports.",
         .limit_ms = SHORT_MS,
         ROWS("captures", rows_captures)},
        {.name = "support",
         .command = "support",
         .help = "Versions, configuration, counters and log, without secrets. "
                 "`weft-ctl support-bundle` has this and more in one file.",
         .limit_ms = SHORT_MS,
         FIELDS(fields_support),
         ROWS("counters", rows_support)},
        {.name = "dump",
         .command = "dump",
         .help = "The exports that were made at run time, as a configuration has them. "
                 "`export create` with the keys of a section makes it again.",
         .limit_ms = SHORT_MS,
         FIELDS(fields_dump)},
        {.name = "diff",
         .command = "diff",
         .help = "What `apply` of the same file would change, a row a change. The order of exports "
                 "does not count, and a section without `size` leaves the size.",
         .limit_ms = SHORT_MS,
         PARAMS(params_diff),
         FIELDS(fields_diff),
         ROWS("changes", rows_changes)},
        {.name = "apply",
         .command = "apply",
         .help = "Have the exports of a file in place of all that were made at run time, all or "
                 "nothing. What is not in the file is deleted; its file stays. Exports of the "
                 "configuration are left alone. Everything is checked before the first change, and "
                 "a "
                 "step that fails takes back those before it. After a kill there are the exports "
                 "of before or those of the file.",
         .changes = true,
         .limit_ms = 120000,
         PARAMS(params_apply),
         FIELDS(fields_apply),
         ROWS("changes", rows_changes)},
        {.name = "loglevel",
         .command = "loglevel",
         .help = "Set which log lines of the library are printed, until the target ends.",
         .changes = true,
         .limit_ms = SHORT_MS,
         PARAMS(params_loglevel),
         FIELDS(fields_loglevel)},
        {.name = "reload",
         .command = "reload",
         .help = "Read the configuration again, as SIGHUP does. The log has what changed. A file "
                 "with an error changes nothing, and the answer is the error.",
         .changes = true,
         .limit_ms = LONG_MS,
         FIELDS(fields_reload)},
        {.name = "drain",
         .command = "drain",
         .help = "Take an export out of service in order: no grant is given any more, holders are "
                 "warned and have `revoke_ms` to end, and then the export is closed, as `offline` "
                 "does. If holders are left when the time is over, the answer is `busy`, and the "
                 "export stays `draining`: `drain`, `offline` and `online` go on from there.",
         .changes = true,
         .limit_ms = 610000,
         PARAMS(params_drain),
         FIELDS(fields_export)},
        {.name = "offline",
         .command = "offline",
         .help = "Take an export out of service at once: its grants end, calls are refused, and "
                 "its "
                 "file is closed, so that it can be copied or repaired. SIGHUP and `reload` leave "
                 "it so; `online` ends it.",
         .changes = true,
         .limit_ms = LONG_MS,
         PARAMS(params_export),
         FIELDS(fields_export)},
        {.name = "online",
         .command = "online",
         .help = "Serve an export again. One that could not be opened is tried again.",
         .changes = true,
         .limit_ms = LONG_MS,
         PARAMS(params_export),
         FIELDS(fields_export)},
        {.name = "export.create",
         .command = "export create",
         .help = "Make an export, and serve it. A file that does not exist is made. Said again "
                 "with "
                 "the same keys it changes nothing.",
         .changes = true,
         .limit_ms = LONG_MS,
         PARAMS(params_create),
         FIELDS(fields_export)},
        {.name = "export.set",
         .command = "export set",
         .help = "Change keys of an export that was made at run time. `rights` apply at once: "
                 "grants "
                 "that exceed them are revoked, after a warning. For `hash`, `hash_key_file`, "
                 "`persist`, `scrub`, `ceph` and `numa_node` the export is opened again, which "
                 "needs "
                 "that no client has a grant. Other keys are as the medium was made.",
         .changes = true,
         .limit_ms = LONG_MS,
         PARAMS(params_set),
         FIELDS(fields_export)},
        {.name = "export.resize",
         .command = "export resize",
         .help = "Give an export that was made at run time another size, when no client has a "
                 "grant. "
                 "An object keeps its content, and the size is refused if it does not fit. Images, "
                 "devices, memory, logs and volumes with checksums keep their size.",
         .changes = true,
         .limit_ms = LONG_MS,
         PARAMS(params_resize),
         FIELDS(fields_export)},
        {.name = "export.rename",
         .command = "export rename",
         .help = "Give an export that was made at run time another name. Clients keep their "
                 "grants.",
         .changes = true,
         .limit_ms = LONG_MS,
         PARAMS(params_rename),
         FIELDS(fields_export)},
        {.name = "export.delete",
         .command = "export delete",
         .help = "Remove an export that was made at run time. Its grants end at once. Its file "
                 "stays "
                 "as it is: `export create` with the same path serves it again.",
         .changes = true,
         .limit_ms = LONG_MS,
         PARAMS(params_delete),
         FIELDS(fields_export)},
        {.name = "drop",
         .command = "drop",
         .help = "Close all connections of a client, or one connection. Nothing prevents the "
                 "client "
                 "from connecting again.",
         .changes = true,
         .limit_ms = SHORT_MS,
         PARAMS(params_drop),
         FIELDS(fields_drop)},
        {.name = "stop",
         .command = "stop",
         .help = "End the target, as SIGTERM does. The answer comes before the end.",
         .changes = true,
         .limit_ms = SHORT_MS,
         FIELDS(fields_stop)},
        {.name = "restart",
         .command = "restart",
         .help = "Replace the target by the program that its file is now, with the same process "
                 "id: after an upgrade, or to begin anew. First that program checks the "
                 "configuration beside this target (`--check-config`). If it refuses, the answer "
                 "is `failed`, and this target goes on. The answer comes before the change. "
                 "Clients wait, and connect again.",
         .changes = true,
         .limit_ms = LONG_MS,
         FIELDS(fields_stop)},
};

const unsigned int ctl_nmethods = N(ctl_methods);

/* ---- Errors ---- */

const struct ctl_error ctl_errors[] = {
        {CTL_BAD_JSON, "bad_json", CTL_EXIT_FAILED, "the line is not JSON"},
        {CTL_BAD_REQUEST, "bad_request", CTL_EXIT_FAILED, "it is no request of JSON-RPC 2.0"},
        {CTL_NO_METHOD, "no_method", CTL_EXIT_USAGE,
         "no such method; the target may be older than weft-ctl"},
        {CTL_BAD_PARAMS, "bad_params", CTL_EXIT_USAGE,
         "a parameter is missing, unknown, or has a value that does not fit"},
        {CTL_INTERNAL, "internal", CTL_EXIT_FAILED, "no memory"},
        {CTL_FAILED, "failed", CTL_EXIT_FAILED, "it was tried and failed; the text says why"},
        {CTL_DENIED, "denied", 4, "the user of the client may not use the socket"},
        {CTL_NOT_FOUND, "not_found", 5, "no export or client has this name"},
        {CTL_BUSY, "busy", 6, "something is in use, or under way; try again"},
        {CTL_EXISTS, "exists", 7, "the name, or the file, is taken"},
        {CTL_LATE, "late", 8, "not done within its time; it goes on, and the log has its end"},
        {CTL_FULL, "full", 9, "the socket has as many clients as it may have"},
        {CTL_TOO_LONG, "too_long", CTL_EXIT_FAILED,
         "a request longer than 4 MiB, or an answer longer than 16 MiB"},
};

const unsigned int ctl_nerrors = N(ctl_errors);
