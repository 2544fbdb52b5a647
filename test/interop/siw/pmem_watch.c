/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file For LD_PRELOAD into a program that uses libpmem: how it treats a mapping, and with which
 * instructions.
 *
 * Every pmem_persist() and pmem_msync() is counted and passed on. The first WATCH_STEPPED of at
 * most a page are executed one instruction at a time, and instructions that write cache lines back
 * are identified by their octets. The file named by WEFT_PMEM_WATCH holds the counts, as one line
 * of text, whenever a call has returned.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <libpmem.h>

#define WATCH_STEPPED 32
#define WATCH_PAGE    4096
#define EFLAGS_TF     0x100

static atomic_ullong mapped, is_pmem, persist, msync_calls, stepped, clwb, clflushopt, clflush;

static void
watch_tell(void)
{
	static atomic_int fd = -1;
	const char *name = getenv("WEFT_PMEM_WATCH");
	char line[256];
	int n;

	if (name == NULL)
		return;
	if (fd < 0)
		fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	n = snprintf(line, sizeof(line),
	             "mapped %llu is_pmem %llu persist %llu msync %llu stepped %llu clwb %llu "
	             "clflushopt %llu clflush %llu\n",
	             mapped, is_pmem, persist, msync_calls, stepped, clwb, clflushopt, clflush);
	if (fd < 0 || pwrite(fd, line, (size_t)n, 0) != n)
		abort();
}

static void *
watch_real(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	if (f == NULL)
		abort();
	return f;
}

/* The next instruction. Those for one cache line are 0F AE with a memory operand. */
static void
watch_trap(int sig, siginfo_t *si, void *context)
{
	const ucontext_t *uc = context;
	const uint8_t *ip = (const uint8_t *)uc->uc_mcontext.gregs[REG_RIP];
	int operand_size = 0;

	(void)sig;
	(void)si;
	for (; *ip == 0x66 || (*ip & 0xf0) == 0x40; ip++) /* prefixes: operand size, REX */
		operand_size |= *ip == 0x66;
	if (ip[0] != 0x0f || ip[1] != 0xae || ip[2] >> 6 == 3)
		return;
	switch (ip[2] >> 3 & 7) {
	case 6:
		clwb += (unsigned int)operand_size;
		break;
	case 7:
		if (operand_size)
			clflushopt++;
		else
			clflush++;
		break;
	default:
		break;
	}
}

static void __attribute__((constructor)) watch_init(void)
{
	const struct sigaction sa = {.sa_sigaction = watch_trap,
	                             .sa_flags = SA_SIGINFO | SA_RESTART};

	sigaction(SIGTRAP, &sa, NULL);
}

void *
pmem_map_file(const char *path, size_t len, int flags, mode_t mode, size_t *mapped_len, int *pmem)
{
	void *(*real)(const char *, size_t, int, mode_t, size_t *, int *) =
	        watch_real("pmem_map_file");
	int it_is = 0;
	void *p = real(path, len, flags, mode, mapped_len, &it_is);

	if (pmem != NULL)
		*pmem = it_is;
	mapped++;
	is_pmem += it_is != 0;
	watch_tell();
	return p;
}

void
pmem_persist(const void *addr, size_t len)
{
	void (*real)(const void *, size_t) = watch_real("pmem_persist");

	if (len <= WATCH_PAGE && atomic_fetch_add(&stepped, 1) < WATCH_STEPPED) {
		sigset_t trap;

		/* A thread that blocks the signal, as polling threads do, would be killed by it. */
		sigemptyset(&trap);
		sigaddset(&trap, SIGTRAP);
		pthread_sigmask(SIG_UNBLOCK, &trap, NULL);
		__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | EFLAGS_TF);
		real(addr, len);
		__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() &
		                               ~(unsigned long long)EFLAGS_TF);
	} else {
		real(addr, len);
	}
	persist++;
	watch_tell();
}

int
pmem_msync(const void *addr, size_t len)
{
	int (*real)(const void *, size_t) = watch_real("pmem_msync");
	int rc = real(addr, len);

	msync_calls++;
	watch_tell();
	return rc;
}
