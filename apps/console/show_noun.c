/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The nouns of `show`: which endpoints of telemetry answer, and what of it is shown. */

#include <fnmatch.h>
#include <string.h>

#include "show_fetch.h"
#include "table.h"

#define CONN_COUNTERS                                                                              \
	"segs_in segs_out bytes_in bytes_out retrans_segs rtos fast_retrans tlp_probes "           \
	"spurious_retrans dupacks_in sack_blocks_in ooo_segs dup_bytes_in"
#define QP_COUNTERS "sent_msgs sent_bytes recv_msgs recv_bytes retrans_segs ord_stalls"
#define QP_RATES    "worker number remote sent_msgs sent_bytes recv_msgs recv_bytes"

const struct show_noun show_nouns[] = {
        {.name = "ports",
         .help = "link, offloads, queues, RSS, packets",
         .fetch = show_fetch_named,
         .cmd = "/weft/port",
         .list = "/weft/ports",
         .ident = "port",
         .columns = "port link speed_mbps rx_packets rx_bytes tx_packets tx_bytes",
         .counters = "rx_packets rx_bytes tx_packets tx_bytes rx_bad rx_dropped tx_dropped "
                     "rx_missed link_ups link_downs handed_over handover_dropped",
         .rates = "port rx_packets rx_bytes tx_packets tx_bytes"},
        {.name = "xstats",
         .help = "counters of the ports' drivers",
         .fetch = show_fetch_xstats,
         .list = "/weft/ports",
         .ident = "port counter",
         .columns = "port counter value",
         .counters = "value",
         .rates = "port counter value"},
        {.name = "interfaces",
         .help = "what a worker sends and receives by a port, and what it drops",
         .fetch = show_fetch_netifs,
         .cmd = "/weft/netif",
         .ident = "worker interface",
         .columns = "worker interface rx_packets rx_bytes tx_packets tx_bytes",
         .counters = "! *_limit *_held *_most *_off networks",
         .rates = "worker interface rx_packets rx_bytes tx_packets tx_bytes"},
        {.name = "neighbours",
         .help = "next hops: addresses, states, connections",
         .fetch = show_fetch_of_netif,
         .cmd = "/weft/neighbours",
         .ident = "worker interface address",
         .columns = "worker address vlan mac state connections heard_ms"},
        {.name = "routes",
         .help = "networks on the link, and gateways",
         .fetch = show_fetch_of_netif,
         .cmd = "/weft/routes",
         .ident = "worker interface destination",
         .columns = "worker interface destination gateway source vlan state"},
        {.name = "group",
         .help = "what the workers of a shared port pass to each other",
         .fetch = show_fetch_netifs,
         .cmd = "/weft/group",
         .ident = "worker interface",
         .counters = "! "},
        {.name = "tcp",
         .help = "TCP connections in full",
         .fetch = show_fetch_conns,
         .cmd = "/weft/conn",
         .list = "/weft/conns",
         .ident = "worker local remote number",
         .columns = "worker number remote state srtt_us cwnd_bytes retrans_segs",
         .counters = CONN_COUNTERS,
         .rates = "worker number remote bytes_in bytes_out segs_in segs_out retrans_segs"},
        {.name = "tcp-timers",
         .help = "timers of the TCP connections",
         .fetch = show_fetch_conns,
         .cmd = "/weft/conn",
         .list = "/weft/conns",
         .ident = "worker local remote number",
         .columns = "worker number state rto_us backoff xmit_timer xmit_timer_us delack_timer_us "
                    "life_timer_us"},
        {.name = "tcp-counters",
         .help = "counters of the workers' TCP",
         .fetch = show_fetch_workers,
         .cmd = "/weft/tcp",
         .ident = "worker",
         .columns = "worker conns_now segs_in segs_out bytes_in bytes_out retrans_segs rtos",
         .counters = "! conns_now half_open_now time_wait_now",
         .rates = "worker segs_in segs_out bytes_in bytes_out retrans_segs rtos"},
        {.name = "local-ports",
         .help = "listeners, connections and TIME-WAITs of all TCP ports",
         .fetch = show_fetch_workers,
         .cmd = "/weft/local_ports",
         .ident = "worker",
         .columns = "worker listeners conns time_wait"},
        {.name = "mpa",
         .help = "MPA streams: revision, markers, CRC, MULPDU",
         .fetch = show_fetch_of_worker,
         .cmd = "/weft/qps",
         .ident = "worker number",
         .columns = "number remote mpa_rev crc rx_markers tx_markers mulpdu_bytes"},
        {.name = "ddp",
         .help = "untagged queues of DDP: numbers of messages",
         .fetch = show_fetch_of_worker,
         .cmd = "/weft/qps",
         .ident = "worker number",
         .columns = "number q0_tx_msn q0_rx_msn q1_tx_msn q1_rx_msn q3_tx_msn q3_rx_msn"},
        {.name = "rdmap",
         .help = "RDMAP streams: IRD and ORD and their use, Terminates",
         .fetch = show_fetch_of_worker,
         .cmd = "/weft/qps",
         .ident = "worker number",
         .columns =
                 "number state ird in_requests ord out_requests ord_stalls terminate_by terminate",
         .counters = QP_COUNTERS},
        {.name = "faults",
         .help = "Terminates and refusals by cause",
         .fetch = show_fetch_workers,
         .cmd = "/weft/rdmap",
         .ident = "worker",
         .counters = "! "},
        {.name = "messages",
         .help = "messages by operation, received and sent",
         .fetch = show_fetch_workers,
         .cmd = "/weft/messages",
         .ident = "worker",
         .counters = "! "},
        {.name = "qp",
         .help = "queue pairs: state, depths, messages",
         .fetch = show_fetch_of_worker,
         .cmd = "/weft/qps",
         .ident = "worker number",
         .columns = "worker number remote state sq_used rq_used sent_msgs recv_msgs",
         .counters = QP_COUNTERS,
         .rates = QP_RATES},
        {.name = "cq",
         .help = "completion queues",
         .fetch = show_fetch_of_context,
         .cmd = "/weft/cqs",
         .ident = "context number",
         .columns = "context number depth workers waiting queues overruns armed",
         .counters = "overruns"},
        {.name = "srq",
         .help = "shared receive queues",
         .fetch = show_fetch_of_context,
         .cmd = "/weft/srqs",
         .ident = "context number",
         .columns = "context number depth posted used limit qps no_buffer limit_events",
         .counters = "no_buffer limit_events"},
        {.name = "mr",
         .help = "memory regions: STags, sizes, rights, media",
         .fetch = show_fetch_of_context,
         .cmd = "/weft/regions",
         .ident = "context stag number",
         .columns = "number stag valid len_bytes rights medium"},
        {.name = "mw",
         .help = "memory windows",
         .fetch = show_fetch_of_context,
         .cmd = "/weft/windows",
         .ident = "context stag number",
         .columns = "number stag valid len_bytes rights"},
        {.name = "objects",
         .help = "how many QPs, regions, ... a context has and may have",
         .fetch = show_fetch_contexts,
         .cmd = "/weft/context",
         .ident = "context",
         .columns = "context workers qps max_qps regions max_regions pds cqs srqs listeners"},
        {.name = "workers",
         .help = "counters of the polling threads",
         .fetch = show_fetch_workers,
         .cmd = "/weft/worker",
         .ident = "worker",
         .columns = "worker conns conns_total polls segs_in segs_out msgs_in msgs_out",
         .counters = "! conns poll_max_ns fpdu_heap_bytes",
         .rates = "worker polls segs_in segs_out msgs_in msgs_out wcs"},
        {.name = "timers",
         .help = "armed timers and queued tasks of the workers",
         .fetch = show_fetch_workers,
         .cmd = "/weft/timers",
         .ident = "worker",
         .columns = "worker armed next_us tasks"},
        {.name = "pools",
         .help = "mbufs of the ports, and those in use",
         .fetch = show_fetch_netifs,
         .cmd = "/weft/pools",
         .ident = "worker interface",
         .columns = "worker interface rx_mbufs rx_in_use tx_mbufs tx_in_use"},
        {.name = "limits",
         .help = "what can be full, how full it is, and who holds most",
         .fetch = show_fetch_limits,
         .ident = "worker interface limit",
         .columns = "limit at held most of full refused who",
         .counters = "refused"},
        {.name = "guard",
         .help = "what the guards of the process caught",
         .fetch = show_fetch_one,
         .cmd = "/weft/guard",
         .ident = "installed",
         .counters = "! installed"},
        {.name = "exports",
         .help = "of a target: its exports",
         .fetch = show_fetch_named,
         .cmd = "/weft/target/export",
         .list = "/weft/target/exports",
         .ident = "export",
         .columns = "export served format capacity_bytes grants_now writer bad_ranges why",
         .counters = "rpc_reads rpc_read_bytes rpc_writes rpc_write_bytes rpc_durable_writes "
                     "rpc_refused writer_refused writer_yields revocations"},
        {.name = "clients",
         .help = "of a target: host authentication",
         .fetch = show_fetch_one,
         .cmd = "/weft/target/clients",
         .ident = "host_auth",
         .counters = "! known host_auth"},
        {.name = "grants",
         .help = "of a target: grants, and OPENs refused",
         .fetch = show_fetch_one,
         .cmd = "/weft/target/grants",
         .ident = "grants_max",
         .counters = "opens opens_limited refused_client refused_network refused_all "
                     "connections_pushed_out clients_forgotten"},
        {.name = "tickets",
         .help = "of a target: tickets for logs",
         .fetch = show_fetch_one,
         .cmd = "/weft/target/tickets",
         .counters = "! now"},
        {.name = "calls",
         .help = "of a target: memory of RPC calls and answers",
         .fetch = show_fetch_one,
         .cmd = "/weft/target/calls",
         .ident = "limit_bytes",
         .counters = "shed refused"},
        {.name = "replies",
         .help = "of a target: the duplicate request cache",
         .fetch = show_fetch_one,
         .cmd = "/weft/target/replies",
         .ident = "replies_max",
         .counters = "evicted replayed waited"},
        /* Those that a console with a stack of its own shows in another form, too. */
        {.name = "drivers",
         .help = "persist and hash drivers",
         .fetch = show_fetch_numbered,
         .cmd = "/weft/drivers",
         .ident = "name number",
         .columns = "kind name makes result_bytes"},
        {.name = "polls",
         .help = "how long the iterations of the poll loop take",
         .fetch = show_fetch_workers,
         .cmd = "/weft/worker/polls",
         .ident = "worker",
         .counters = "! *_ns",
         .rates = "worker polls"},
        {.name = NULL},
};

/** Names that weft-console had before. */
static const struct {
	const char *name, *noun;
} also[] = {{"port", "ports"},
            {"connections", "tcp"},
            {"qps", "qp"},
            {"regions", "mr"},
            {"counters", "workers"}};

const struct show_noun *
show_noun_find(const char *name)
{
	for (unsigned int i = 0; i < sizeof(also) / sizeof(also[0]); i++)
		if (strcmp(also[i].name, name) == 0)
			name = also[i].noun;
	for (const struct show_noun *n = show_nouns; n->name != NULL; n++)
		if (strcmp(n->name, name) == 0)
			return n;
	return NULL;
}

unsigned int
show_noun_index(const struct show_noun *n)
{
	return (unsigned int)(n - show_nouns);
}

unsigned int
show_noun_count(void)
{
	return sizeof(show_nouns) / sizeof(show_nouns[0]) - 1;
}

/** Whether one of the words matches the text. */
static bool
listed(const char *words, const char *text)
{
	char word[64];

	while (words != NULL && table_word(&words, word, sizeof(word)))
		if (fnmatch(word, text, 0) == 0)
			return true;
	return false;
}

bool
show_noun_grows(const struct show_noun *n, const char *key, const json_t *v)
{
	if (!json_is_number(v) || n->counters == NULL || listed(n->ident, key))
		return false;
	/* Places in lists are no counters, wherever they stand. */
	if (n->counters[0] == '!')
		return strcmp(key, "worker") != 0 && strcmp(key, "interface") != 0 &&
		       !listed(n->counters + 1, key);
	return listed(n->counters, key);
}
