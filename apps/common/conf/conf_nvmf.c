/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The keys of [nvmf] and [subsystem NQN], their values, and the rules among them. */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conf_reader.h"
#include "weft_nvmf_wire.h"

#define F(s, f) .off = offsetof(struct s, f), .size = sizeof(((struct s *)0)->f)

const struct conf_key conf_keys_nvmf[CONF_NVMF_KEYS] = {
        {"listen", CONF_T_U32, F(conf_nvmf, listen_port), .min = 1, .max = 65535, .dflt = "4420",
         .help = "TCP port on which hosts connect to subsystems and to discovery by RDMA (iWARP)"},
        {"tcp_listen", CONF_T_U32, F(conf_nvmf, tcp_listen_port), .max = 65535, .dflt = "8009",
         .help = "TCP port on which hosts without RDMA connect to them (NVMe/TCP); `0`: none"},
        {"tls", CONF_T_CHOICE, F(conf_nvmf, tls), .choices = "off|allowed|required", .dflt = "off",
         .help = "TLS 1.3 at `tcp_listen`, by keys of `tls_keys` (docs/nvmeof.md). `off`: a host "
                 "that begins with it is refused. `allowed`: hosts use it or not. `required`: a "
                 "host without it is refused, and a subsystem with `tls_keys` has no hosts by RDMA "
                 "either"},
        {"tls_derivation", CONF_T_CHOICE, F(conf_nvmf, tls_derivation),
         .choices = "any|rfc8446|compat", .dflt = "any",
         .help = "how hosts derive what TLS uses from their key: as RFC 8446 says, as older "
                 "versions of libnvme do (`compat`), or `any` of both. A host that does it "
                 "otherwise is "
                 "refused, and a line says which one it has"},
        {"discovery_secrets", CONF_T_PATH, F(conf_nvmf, discovery_secrets),
         .unset = "hosts prove nothing",
         .help = "file with the secrets by which hosts prove their NQN to discovery (DH-HMAC-CHAP, "
                 "docs/nvmeof.md), as `secrets` of a [subsystem NQN]. A host without a line cannot "
                 "ask then. SIGHUP reads it again"},
        {"listen_on", CONF_T_LISTEN, F(conf_nvmf, listen_on),
         .off2 = offsetof(struct conf_nvmf, nlisten_on), .unset = "`listen_on` of [target]",
         .help = "likewise for hosts: addresses of this host, and networks that stand for each of "
                 "its addresses in them, at most 16"},
        {"allow_from", CONF_T_LISTEN, F(conf_nvmf, allow_from),
         .off2 = offsetof(struct conf_nvmf, nallow_from), .min = 1, .unset = "every address",
         .help = "addresses and networks from which hosts may connect (`10.0.0.7, 10.1.0.0/24`), "
                 "at most 16; `any`: every address. `allow_from` of an export is for clients, not "
                 "for hosts"},
        {"max_controllers", CONF_T_U32, F(conf_nvmf, max_controllers), .min = 1, .max = 4096,
         .dflt = "64",
         .help = "controllers at once; each connection of a host to a subsystem is one. A quarter "
                 "of them may be for discovery. One more is refused (Connect: Controller Busy)"},
        {"max_queues", CONF_T_U32, F(conf_nvmf, max_queues), .min = 2, .max = 65536, .dflt = "1024",
         .help = "queues of all controllers at once, admin queues included"},
        {"io_queues", CONF_T_U32, F(conf_nvmf, io_queues), .min = 1, .max = 64, .dflt = "16",
         .help = "I/O queues of a controller. Each lives on the worker that its connection came "
                 "to"},
        {"queue_depth", CONF_T_U32, F(conf_nvmf, queue_depth), .min = 16, .max = 1024,
         .dflt = "128",
         .help = "entries of an I/O queue. A queue that uses all of them takes 5 KiB for each"},
        {"max_transfer", CONF_T_SIZE, F(conf_nvmf, max_transfer_bytes), .min = 4096, .dflt = "1M",
         .help = "longest Read or Write (MDTS): a power of 2, up to 1M"},
        {"staging", CONF_T_SIZE, F(conf_nvmf, staging_bytes), .min = 16384, .dflt = "64M",
         .help = "memory for data on its way between hosts and volumes, in octets or with K, M, G; "
                 "the workers share it equally. Each needs four times `max_transfer`. It is taken "
                 "only when there is a [subsystem NQN]"},
};

const struct conf_key conf_keys_subsys[CONF_SUBSYS_KEYS] = {
        {"namespaces", CONF_T_NAMESPACES, F(conf_subsys, ns),
         .off2 = offsetof(struct conf_subsys, nns), .required = true,
         .help = "its namespaces, at most 32: numbers and exports that are volumes "
                 "(`1=disk, 2=scratch`), a number from 1 to 1024. An export without `write` among "
                 "its rights is a namespace that is read only"},
        {"hosts", CONF_T_HOSTS, F(conf_subsys, hosts), .required = true,
         .help = "NQNs of the hosts that may use it, with commas between (`/etc/nvme/hostnqn` on "
                 "Linux), or `any`. Without `secrets` a host tells its NQN and does not prove it"},
        {"secrets", CONF_T_PATH, F(conf_subsys, secrets), .unset = "hosts prove nothing",
         .help = "file with the secrets by which hosts prove their NQN (DH-HMAC-CHAP, "
                 "docs/nvmeof.md). A line has `HOSTNQN DHHC-1:hh:BASE64:`, and may have the secret "
                 "by which controllers prove theirs behind it. A host without a line is refused. "
                 "The file must belong to the user or root, and others must not have access to it. "
                 "SIGHUP reads it again: controllers end whose host's line is another one"},
        {"secrets_group", CONF_T_CHOICE, F(conf_subsys, secrets_group),
         .choices = "null|2048|3072|4096|6144|8192", .dflt = "2048",
         .help = "the least group of Diffie and Hellman by which hosts may prove "
                 "their NQN; of those that a host offers, the greatest is taken. "
                 "`null`: also none. Then a secret that can be guessed can be "
                 "found out from what was heard, and an attacker on the way can "
                 "bring a host that offers groups to do without"},
        {"tls_keys", CONF_T_PATH, F(conf_subsys, tls_keys), .unset = "hosts have no keys",
         .help = "file with the keys by which hosts connect with TLS (docs/nvmeof.md). A line has "
                 "`HOSTNQN NVMeTLSkey-1:hh:BASE64:`, at most four lines of one host. Needs `tls` "
                 "of "
                 "[nvmf]. The file is protected and read again as that of `secrets`: connections "
                 "end whose key is gone"},
        {"serial", CONF_T_STR, F(conf_subsys, serial), .unset = "made from the NQN",
         .help = "serial number that hosts see, up to 20 printable characters. Keep it: for a host "
                 "another serial number is another subsystem"},
        {"model", CONF_T_STR, F(conf_subsys, model), .dflt = "weft",
         .help = "model number that hosts see, up to 40 printable characters"},
        {"access", CONF_T_CHOICE, F(conf_subsys, access),
         .choices = "alone|optimized|non_optimized|inaccessible", .dflt = "alone",
         .help = "what hosts are told of this target as one of several paths to the subsystem "
                 "(ANA, docs/nvmeof.md). `alone`: nothing. `optimized`, `non_optimized`: a path, "
                 "and one to be used where there is no optimized one. `inaccessible`: commands are "
                 "refused, and hosts use another path. With any but `alone` a namespace whose "
                 "export is not served here is inaccessible"},
        {"first_controller", CONF_T_U32, F(conf_subsys, first_controller), .min = 1, .max = 65519,
         .dflt = "1",
         .help = "lowest number of its controllers. Two targets that are paths to one subsystem "
                 "have ranges that do not overlap: a host refuses a second controller of a number"},
        {"last_controller", CONF_T_U32, F(conf_subsys, last_controller), .min = 1, .max = 65519,
         .dflt = "65519",
         .help = "highest number of its controllers. A host for which there is none is refused "
                 "(Connect: Controller Busy)"},
};

bool
conf_is_nqn(const char *nqn)
{
	return weft_nvmf_nqn_ok(nqn);
}

/* ---- Values ---- */

/** One word of `namespaces`. */
static int
nvmf_namespace(struct conf_ns *ns, const char *word, size_t n, char *why, size_t size)
{
	char text[CONF_NAME_MAX + 16], *end;
	unsigned long nsid;

	snprintf(text, sizeof(text), "%.*s", (int)n, word);
	nsid = isdigit((unsigned char)text[0]) ? strtoul(text, &end, 10) : 0;
	if (nsid == 0 || nsid > CONF_NSID_MAX || *end != '=' || end[1] == '\0' ||
	    n >= sizeof(text) || strlen(end + 1) > CONF_NAME_MAX)
		return conf_why(why, size,
		                "\"%s\" is no namespace; write NUMBER=EXPORT, as 1=disk, with a "
		                "number from 1 to %d",
		                text, CONF_NSID_MAX);
	memset(ns, 0, sizeof(*ns));
	ns->nsid = (uint32_t)nsid;
	strcpy(ns->export, end + 1);
	return 0;
}

int
conf_namespaces(struct conf_ns *list, uint32_t *count, const char *value, char *why, size_t size)
{
	const char *word;
	int n;

	*count = 0;
	while ((n = conf_word(&value, &word)) != 0) {
		struct conf_ns *ns = &list[*count];

		if (n < 0)
			return conf_why(why, size,
			                "empty word in the list; write 1=EXPORT, 2=EXPORT");
		if (*count == CONF_NS_MAX)
			return conf_why(why, size, "too many; %d at most", CONF_NS_MAX);
		if (nvmf_namespace(ns, word, (size_t)n, why, size) != 0)
			return -EINVAL;
		for (uint32_t i = 0; i < *count; i++)
			if (list[i].nsid == ns->nsid || strcmp(list[i].export, ns->export) == 0)
				return conf_why(why, size,
				                "%" PRIu32 "=%s and %" PRIu32
				                "=%s: give each namespace its number and export",
				                list[i].nsid, list[i].export, ns->nsid, ns->export);
		(*count)++;
	}
	return 0;
}

int
conf_hosts(char *out, size_t out_size, const char *value, char *why, size_t size)
{
	const char *word;
	size_t len = 0;
	int n;

	memset(out, 0, out_size);
	if (strcmp(value, "any") == 0) {
		strcpy(out, value);
		return 0;
	}
	while ((n = conf_word(&value, &word)) != 0) {
		char nqn[CONF_NQN_MAX + 2];

		if (n < 0)
			return conf_why(why, size,
			                "empty word in the list; write NQNs with commas between");
		snprintf(nqn, sizeof(nqn), "%.*s", n, word);
		if (!conf_is_nqn(nqn))
			return conf_why(why, size,
			                "\"%.*s\" is no NQN of a host; write the line of its "
			                "/etc/nvme/hostnqn, or any alone",
			                n < 80 ? n : 80, word);
		if (conf_has_client(out, nqn))
			return conf_why(why, size, "\"%s\" twice; name it once", nqn);
		if (len + (size_t)n + 2 > out_size)
			return conf_why(why, size, "longer than %zu octets", out_size - 1);
		len += (size_t)sprintf(out + len, "%s%s", len > 0 ? "," : "", nqn);
	}
	return 0;
}

/* ---- Sections ---- */

static bool
nvmf_printable(const char *s)
{
	for (; *s != '\0'; s++)
		if (!isascii((unsigned char)*s) || !isprint((unsigned char)*s))
			return false;
	return true;
}

/** Of the NQN alone, so it is the same in the next run (FNV-1a). */
static void
nvmf_serial(struct conf_subsys *s)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (const char *p = s->nqn; *p != '\0'; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3ULL;
	snprintf(s->serial, sizeof(s->serial), "weft%016" PRIx64, h);
}

void
conf_check_nvmf(struct conf_reader *l, const struct conf_nvmf *n)
{
	const uint64_t most = n->max_transfer_bytes;

	if ((most & (most - 1)) != 0 || most > CONF_MDTS_MAX)
		conf_fault(l, conf_line_of(l, "max_transfer"), "max_transfer",
		           "%" PRIu64 " is no power of 2 up to 1M", most);
}

void
conf_check_subsys(struct conf_reader *l, struct conf_subsys *s)
{
	if (s->serial[0] == '\0')
		nvmf_serial(s);
	else if (!nvmf_printable(s->serial))
		conf_fault(l, conf_line_of(l, "serial"), "serial",
		           "a character that is not printable ASCII");
	if (s->first_controller > s->last_controller)
		conf_fault(l, conf_line_of(l, "last_controller"), "last_controller",
		           "below first_controller, %" PRIu32, s->first_controller);
	if (!nvmf_printable(s->model))
		conf_fault(l, conf_line_of(l, "model"), "model",
		           "a character that is not printable ASCII");
}

/* ---- The whole ---- */

static const struct conf_export *
nvmf_export(const struct conf *c, const char *name)
{
	for (uint32_t i = 0; i < c->nexports; i++)
		if (strcmp(c->exports[i].name, name) == 0)
			return &c->exports[i];
	return NULL;
}

const char *
conf_ns_refuses(const struct conf_export *e)
{
	if (e->format != CONF_FORMAT_VOLUME)
		return "only a volume can be a namespace; say format = volume there";
	if ((e->rights & CONF_RIGHT_READ) == 0)
		return "a namespace can be read; add read to its rights";
	/* A host does not prove its name, and its connection is none of a client. */
	if (e->allow_clients[0] != '\0')
		return "its allow_clients would not hold for hosts, which do not authenticate; "
		       "leave it out there, or the namespace here";
	if (e->nallow_from > 0)
		return "its allow_from would not hold for hosts; use allow_from of [nvmf], and "
		       "leave it out there";
	return NULL;
}

/** TLS has keys, and keys have TLS. */
static int
nvmf_check_tls(const struct whole *h)
{
	const struct conf *c = h->c;
	uint32_t keys = 0;

	for (uint32_t i = 0; i < c->nsubsys; i++) {
		if (c->subsys[i].tls_keys[0] == '\0')
			continue;
		keys++;
		if (c->nvmf.tls == CONF_TLS_OFF)
			return conf_whole_fail(h, c->subsys[i].line,
			                       "[subsystem %s] tls_keys: tls of [nvmf] is off; "
			                       "write allowed or required there",
			                       c->subsys[i].nqn);
	}
	if (c->nvmf.tls != CONF_TLS_OFF && c->nvmf.tcp_listen_port == 0)
		return conf_whole_fail(h, 0, "[nvmf] tls: tcp_listen is 0; TLS is for NVMe/TCP");
	if (c->nvmf.tls != CONF_TLS_OFF && keys == 0)
		return conf_whole_fail(h, 0, "[nvmf] tls: no [subsystem NQN] has tls_keys");
	return 0;
}

static int
nvmf_check_subsys(const struct whole *h, const struct conf_subsys *s)
{
	/* log page 0Ch of 1024 groups has 36,880 octets; MDTS is a power of 2 */
	if (s->access != 0 && h->c->nvmf.max_transfer_bytes < CONF_ANA_MDTS)
		return conf_whole_fail(h, s->line,
		                       "[subsystem %s] access: needs max_transfer of at least 64K "
		                       "in [nvmf]: hosts read the states of all paths in one "
		                       "transfer, or do without them",
		                       s->nqn);
	for (uint32_t i = 0; i < s->nns; i++) {
		const struct conf_export *e = nvmf_export(h->c, s->ns[i].export);
		const char *why = e != NULL ? conf_ns_refuses(e) : NULL;

		if (why != NULL)
			return conf_whole_fail(h, s->line,
			                       "[subsystem %s] namespaces: export %s: %s", s->nqn,
			                       e->name, why);
		/* It may be made at run time. */
		if (e == NULL && h->c->target.state[0] == '\0')
			return conf_whole_fail(h, s->line,
			                       "[subsystem %s] namespaces: no [export %s]; add it, "
			                       "or name another one",
			                       s->nqn, s->ns[i].export);
	}
	return 0;
}

int
conf_whole_nvmf(const struct whole *h)
{
	const struct conf *c = h->c;
	const uint64_t need =
	        CONF_NVMF_TRANS * c->nvmf.max_transfer_bytes * (c->nworkers > 0 ? c->nworkers : 1);
	int rc = 0;

	if (c->nsubsys == 0)
		return 0;
	if (c->nvmf.staging_bytes < need)
		return conf_whole_fail(h, 0,
		                       "[nvmf] staging: %" PRIu32
		                       " workers and transfers of %" PRIu64
		                       " octets need at least %" PRIu64 " octets",
		                       c->nworkers, c->nvmf.max_transfer_bytes, need);
	if (c->nvmf.tcp_listen_port == c->nvmf.listen_port)
		return conf_whole_fail(h, 0,
		                       "[nvmf] tcp_listen: %" PRIu32
		                       " is the port of listen; hosts with and without RDMA need "
		                       "ports of their own",
		                       c->nvmf.listen_port);
	rc = nvmf_check_tls(h);
	for (uint32_t i = 0; i < c->nsubsys && rc == 0; i++)
		rc = nvmf_check_subsys(h, &c->subsys[i]);
	return rc;
}
