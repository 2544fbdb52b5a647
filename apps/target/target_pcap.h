/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_PCAP_H
#define WEFT_APPS_TARGET_PCAP_H

/**
 * @file Packets of connections, taken out of a file of a capture (pcapng,
 * draft-ietf-opsawg-pcapng). The file is one that this host writes, perhaps at this moment: what is
 * not whole ends the reading and is no error. Any thread; may block.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/** What was taken: whole sections of a pcapng file. */
struct pcap_took {
	uint8_t *buf; /**< the caller frees it */
	size_t len, cap;
	size_t max;       /**< octets that it may have */
	uint32_t packets; /**< that are in it */
	uint32_t left;    /**< that matched, and for which there was no room */
};

/** Which packets. */
struct pcap_want {
	struct sockaddr_storage peer; /**< address and port of either end */
	uint64_t from_ns, until_ns;   /**< since 1970, both included */
	struct pcap_took took;
	bool head_out; /**< pcap_take()'s: the head of the section is in `took` */
};

/**
 * Append the packets of a file to what was taken, for each of n wants. goes_on(arg) is asked every
 * MiB; NULL: the file is read to its end. 0, or with what was taken before:
 * - -ENOMEM, and errors of read(2)
 * - -EBADMSG: this is no pcapng file of this host
 * - -ECANCELED: goes_on() has answered false
 */
int pcap_take(int fd, struct pcap_want *w, unsigned int n, bool (*goes_on)(void *arg), void *arg);

#endif /* WEFT_APPS_TARGET_PCAP_H */
