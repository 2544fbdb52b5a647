/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The definitions behind this library's own. */

/* Else libc's other names would be meant. */
#undef _FILE_OFFSET_BITS

#include "libc.h"

#include <dlfcn.h>
#include <string.h>

struct wv_libc wv_libc;

/* A function pointer cannot be converted from void * in ISO C; POSIX asks for it. */
#define LIBC_NEXT(at, name)                                                                        \
	do {                                                                                       \
		void *sym_ = dlsym(RTLD_NEXT, name);                                               \
		memcpy(&(at), &sym_, sizeof(sym_));                                                \
	} while (0)

void __attribute__((constructor)) wv_libc_init(void)
{
	if (wv_libc.freeifaddrs != NULL)
		return;
	LIBC_NEXT(wv_libc.open, "open");
	LIBC_NEXT(wv_libc.open64, "open64");
	LIBC_NEXT(wv_libc.close, "close");
	LIBC_NEXT(wv_libc.close_range, "close_range");
	LIBC_NEXT(wv_libc.closefrom, "closefrom");
	LIBC_NEXT(wv_libc.dup2, "dup2");
	LIBC_NEXT(wv_libc.dup3, "dup3");
	LIBC_NEXT(wv_libc.read, "read");
	LIBC_NEXT(wv_libc.write, "write");
	LIBC_NEXT(wv_libc.fstat, "fstat");
	LIBC_NEXT(wv_libc.poll, "poll");
	LIBC_NEXT(wv_libc.ppoll, "ppoll");
	LIBC_NEXT(wv_libc.select, "select");
	LIBC_NEXT(wv_libc.pselect, "pselect");
	LIBC_NEXT(wv_libc.epoll_wait, "epoll_wait");
	LIBC_NEXT(wv_libc.epoll_pwait, "epoll_pwait");
	LIBC_NEXT(wv_libc.getifaddrs, "getifaddrs");
	LIBC_NEXT(wv_libc.freeifaddrs, "freeifaddrs");
}
