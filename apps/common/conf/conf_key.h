/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CONF_KEY_H
#define WEFT_APPS_CONF_KEY_H

/**
 * @file The table of sections and keys; private to conf*.c.
 *
 * To add a key: a member of the section's structure in conf.h; a row in the section's table in
 * conf_key.c (or conf_tcp.c, conf_mpa.c), which gives parsing, range, default and help; for a key
 * of [tcp] or [mpa], one more in CONF_TCP_KEYS or CONF_MPA_KEYS below; a rule that spans several
 * keys of a section in conf_check.c, or several sections in conf_whole.c; the use in apps/. What
 * SIGHUP is to change, and what a change of an [export] says: apps/target/target_reload.c.
 * docs/configuration.md is the output of `weft-target --help-config`, and test/apps/test_conf.c
 * compares the two. It also checks that each key states what applies without it. No test notices
 * that nothing uses a key: add a test of the key's effect. A key of [tcp] or [mpa] is stored in the
 * attributes of the library, so it needs no other use in apps/.
 */

#include "conf.h"

enum conf_type {
	CONF_T_STR,  /**< char[size] */
	CONF_T_PATH, /**< char[size]; relative to the file's directory */
	CONF_T_U32,  /**< within min, max */
	CONF_T_I32,  /**< within min, max; may be -1 when min is -1 */
	CONF_T_BOOL,
	CONF_T_SIZE,       /**< uint64_t octets, at least min */
	CONF_T_CIDR,       /**< sockaddr_storage, and a uint32_t prefix length at off2 */
	CONF_T_IPV4,       /**< sockaddr_storage */
	CONF_T_CIDR6,      /**< as CONF_T_CIDR */
	CONF_T_IPV6,       /**< sockaddr_storage */
	CONF_T_CHOICE,     /**< uint32_t, index into choices */
	CONF_T_RIGHTS,     /**< uint32_t CONF_RIGHT_* */
	CONF_T_NAMES,      /**< the list of a worker's ports, count at off2 */
	CONF_T_HASH,       /**< char[size], name of a hash driver */
	CONF_T_OFFLOADS,   /**< uint32_t WEFT_OFFLOAD_*, those that are not used */
	CONF_T_LISTEN,     /**< array of conf_listen, count at off2; min 1: or "any" */
	CONF_T_CLIENTS,    /**< char[size], names of clients with commas between, or "any" */
	CONF_T_DSCP,       /**< uint32_t, a number or a name of the IANA registry */
	CONF_T_NAMESPACES, /**< array of conf_ns, count at off2 */
	CONF_T_HOSTS,      /**< char[size], NQNs of hosts with commas between, or "any" */
};

struct conf_key {
	const char *name;
	enum conf_type type;
	size_t off, off2; /**< in the section's structure */
	size_t size;
	int64_t min, max;
	const char *choices; /**< "auto|never" */
	const char *dflt;    /**< as written in a file; NULL: none */
	bool required;
	/** Markdown: what applies when the key is left out and dflt is NULL. A key that is required
	 * has neither. */
	const char *unset;
	const char *help; /**< Markdown: the unit and the effect */
};

struct conf_section {
	const char *name;
	bool named; /**< "[port NAME]", any number up to max */
	bool nqn;   /**< named: the name is an NQN */
	size_t off; /**< of the structure, or of the array */
	bool grows; /**< at off is a pointer to the array of exports (conf_exports_room()) */
	size_t elem_bytes;
	size_t count_off; /**< named: uint32_t in struct conf */
	uint32_t max;
	size_t name_off, line_off; /**< named: in the element */
	const char *help;
	const struct conf_key *keys;
	unsigned int nkeys;
};

#define CONF_KEYS_MAX     64 /**< of one section */
#define CONF_SECTIONS_MAX 11
#define CONF_TCP_KEYS     41
extern const struct conf_key conf_keys_tcp[CONF_TCP_KEYS]; /**< conf_tcp.c */
#define CONF_MPA_KEYS 7
extern const struct conf_key conf_keys_mpa[CONF_MPA_KEYS]; /**< conf_mpa.c */
#define CONF_NVMF_KEYS 13
extern const struct conf_key conf_keys_nvmf[CONF_NVMF_KEYS]; /**< conf_nvmf.c */
#define CONF_SUBSYS_KEYS 10
extern const struct conf_key conf_keys_subsys[CONF_SUBSYS_KEYS]; /**< conf_nvmf.c */
extern const struct conf_section conf_sections[];
extern const unsigned int conf_nsections;

#define CONF_OFFLOAD_NAMES                                                                         \
	"no-rx-checksum, no-tx-checksum, no-tso, no-scatter, no-gather, no-rss, no-vlan-strip, "   \
	"no-vlan-insert, no-vlan-filter"

#define CONF_IPV6_MTU 1280 /**< least mtu of a port with an IPv6 address (RFC 8200 s5) */

/** conf_defaults.c: set each key of a section to its default. */
void conf_section_defaults(const struct conf_section *s, void *base);
/** The same for the section of this name. */
void conf_named_defaults(const char *name, void *base);

/**
 * Parse one value into its structure. 0, or -EINVAL with "what is wrong; what to do" in why. dir:
 * the directory that relative paths start from.
 */
int conf_value(const struct conf_key *k, void *section, const char *value, const char *dir,
               char *why, size_t why_size);

/** conf_nvmf.c: values of CONF_T_NAMESPACES and CONF_T_HOSTS. */
int conf_namespaces(struct conf_ns *list, uint32_t *count, const char *value, char *why,
                    size_t size);
int conf_hosts(char *out, size_t out_size, const char *value, char *why, size_t size);
/** conf_word.c: the next word of a list with commas: its length, and *s moved behind it; 0 at the
 * end, -1: an empty word. */
int conf_word(const char **s, const char **word);

/** conf_word.c: format the reason into why. Returns -EINVAL. */
int conf_why(char *why, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* conf_dev.c: checks of values against this host. 0, or -EINVAL with the reason in why. */

/** Check `dev` of a port: its arguments, and the role and socket of a net_memif device. */
int conf_check_dev(const char *dev, char *why, size_t why_size);
/** conf_dev_args.c: check the arguments alone, as the drivers of DPDK 22.11 accept them. */
int conf_check_dev_args(const char *dev, char *why, size_t why_size);
/** Check `lcores`, a list of CPUs that the process may use. */
int conf_check_lcores(const char *lcores, char *why, size_t why_size);
/** Check `lcore` of a worker. */
int conf_check_lcore(int32_t lcore, char *why, size_t why_size);
/** Check `log_level`, which is TYPE:LEVEL or LEVEL. */
int conf_check_log_level(const char *spec, char *why, size_t why_size);
/** Check `memory_mb`. */
int conf_check_memory(uint32_t memory_mb, char *why, size_t why_size);

#endif /* WEFT_APPS_CONF_KEY_H */
