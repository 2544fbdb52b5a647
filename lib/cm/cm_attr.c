/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Checks of what a caller gives: addresses, and the policy of MPA's start-up. */

#include "cm_conn.h"

int
cm_attr_addr(const struct sockaddr *sa, socklen_t len, struct weft_ip *ip, uint16_t *port)
{
	if (sa == NULL || len < (socklen_t)sizeof(sa->sa_family))
		return -EINVAL;
	if ((sa->sa_family == AF_INET && len < (socklen_t)sizeof(struct sockaddr_in)) ||
	    (sa->sa_family == AF_INET6 && len < (socklen_t)sizeof(struct sockaddr_in6)))
		return -EINVAL;
	return weft_ip_from_sockaddr(sa, ip, port);
}

bool
cm_attr_dscp(uint64_t attr, int *dscp)
{
	*dscp = attr == 0 ? WEFT_TCP_DSCP_PORT : (int)(attr & 63);
	return attr == 0 || (attr & ~(uint64_t)63) == WEFT_DSCP(0);
}

bool
cm_attr_depth(uint32_t attr, uint16_t *depth)
{
	const uint32_t n = attr & ~WEFT_DEPTH(0);

	if (attr == 0)
		return true;
	if ((attr & WEFT_DEPTH(0)) == 0 || n > VERBS_QP_MAX_IRD)
		return false;
	*depth = RTE_MIN(*depth, (uint16_t)n);
	return true;
}

static_assert(WEFT_RTR_FPDU == WEFT_MPA_RTR_FPDU && WEFT_RTR_WRITE == WEFT_MPA_RTR_WRITE &&
                      WEFT_RTR_READ == WEFT_MPA_RTR_READ,
              "one set of numbers");

int
cm_attr_mpa_rev(const struct weft_mpa_policy *p)
{
	const bool enhanced = p->p2p || !p->own_depths;

	if (p->rev > 2 || (p->rev == 1 && p->p2p) || (p->rev == 2 && !enhanced))
		return -EINVAL;
	return p->rev == 0 && enhanced ? 2 : RTE_MAX((int)p->rev, 1);
}

int
weft_cm_mpa_policy(const struct weft_mpa_policy *p, const struct weft_mpa_policy *dflt,
                   struct weft_mpa_policy *out)
{
	*out = *dflt;
	if (p != NULL) {
		int rc = weft_attr_copy(out, sizeof(*out), p);

		if (rc < 0)
			return rc;
	}
	return cm_attr_mpa_rev(out) < 0 || (out->rtr & ~WEFT_MPA_RTR_ALL) != 0 ? -EINVAL : 0;
}

struct weft_mpa_opts
cm_attr_mpa_opts(const struct weft_mpa_policy *p)
{
	return (struct weft_mpa_opts){
	        .markers = p->markers || p->place_ahead,
	        .no_crc = p->no_crc,
	        .rtr = (uint8_t)p->rtr,
	        .fpdu_timeout_us = p->fpdu_timeout_us,
	        .place_ahead = p->place_ahead,
	};
}
