/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Bursts on a port whose driver may unmap its rings during the burst.
 *
 * net_memif of DPDK 22.11 unmaps the shared memory in EAL's interrupt thread when the peer leaves.
 * The polling thread is not told. If it is inside a burst, it faults, and a target would end
 * because a client left. The driver has neither a hook nor a lock for this. So a burst on such a
 * port runs under a guard. After a fault the burst returns as if it had moved nothing (receive) or
 * everything (transmit). On transmit it is unknown whether the driver has freed the mbufs, so at
 * most one burst of mbufs is lost. A fault anywhere else goes to the previous handler.
 */

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include <rte_branch_prediction.h>

#include "netif_guard.h"

/* Initial-exec: an access in the handler must not allocate. */
static _Thread_local sigjmp_buf *guard_env __attribute__((tls_model("initial-exec")));
static struct sigaction guard_old_segv, guard_old_bus;

void
netif_guard_pass(const struct sigaction *old, int sig, siginfo_t *si, void *uc)
{
	if ((old->sa_flags & SA_SIGINFO) != 0) {
		old->sa_sigaction(sig, si, uc);
	} else if (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN) {
		/* The instruction faults again, and the process ends as without this handler. */
		struct sigaction dfl = {.sa_handler = SIG_DFL};

		(void)sigaction(sig, &dfl, NULL);
		if (si->si_code <= 0)
			(void)raise(sig);
	} else {
		old->sa_handler(sig);
	}
}

static void
guard_handler(int sig, siginfo_t *si, void *uc)
{
	/* A signal sent by a process (si_code <= 0) is not a fault of the burst. */
	if (guard_env != NULL && si->si_code > 0)
		siglongjmp(*guard_env, 1);
	netif_guard_pass(sig == SIGSEGV ? &guard_old_segv : &guard_old_bus, sig, si, uc);
}

void
netif_guard_install(void)
{
	static bool installed; /* ports are opened by one thread at a time */
	/* Not blocked while the handler runs: it leaves by a jump. */
	struct sigaction sa = {.sa_sigaction = guard_handler,
	                       .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

	if (installed)
		return;
	installed = sigaction(SIGSEGV, &sa, &guard_old_segv) == 0 &&
	            sigaction(SIGBUS, &sa, &guard_old_bus) == 0;
}

uint16_t
netif_guard_burst(netif_burst_fn burst, void *arg, struct rte_mbuf **pkts, uint16_t n,
                  uint16_t on_fault, uint64_t *faults)
{
	sigjmp_buf *const outer = guard_env;
	sigjmp_buf env;
	uint16_t done;

	if (unlikely(sigsetjmp(env, 0) != 0)) {
		guard_env = outer;
		(*faults)++;
		return on_fault;
	}
	guard_env = &env;
	done = burst(arg, pkts, n);
	guard_env = outer;
	return done;
}
