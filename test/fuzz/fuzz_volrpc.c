/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The XDR of version 2 of the export program, in both directions: the arguments that a target
 * decodes, the results that a client decodes, and the arguments of the target's own call.
 *
 * The first octet of an input selects the type. What can be decoded keeps the limits of the
 * protocol, can be encoded, and what that gives is decoded and encoded to the same octets.
 */

#include "fuzz.h"

#include "volrpc.h"

#define TYPE(name)                                                                                 \
	{                                                                                          \
		(xdrproc_t) xdr_weft_volrpc_##name, sizeof(weft_volrpc_##name)                     \
	}

static const struct {
	xdrproc_t xdr;
	size_t bytes;
} types[] = {TYPE(list),        TYPE(open_args),  TYPE(open_res),     TYPE(close_args),
             TYPE(res),         TYPE(read_args),  TYPE(read_res),     TYPE(write_args),
             TYPE(range_args),  TYPE(verify_res), TYPE(compare_args), TYPE(extents_res),
             TYPE(window_args), TYPE(window_res), TYPE(move_args),    TYPE(window_close_args),
             TYPE(revoke_args), TYPE(snap_args),  TYPE(made_res),     TYPE(snapshots_res)};

#define NTYPES   (sizeof(types) / sizeof(types[0]))
#define OUT_MAX  16384
#define INTO_MAX 64U

union value {
	weft_volrpc_list list;
	weft_volrpc_open_args open;
	weft_volrpc_open_res open_res;
	weft_volrpc_read_res read_res;
	weft_volrpc_verify_res verify;
	weft_volrpc_compare_args compare;
	weft_volrpc_extents_res extents;
	weft_volrpc_write_args write;
	uint64_t room[64];
};

/** The routines that take no memory: data of a READ goes to the caller's, a server's is lent. */
static void
without_memory(const uint8_t *data, size_t size)
{
	weft_volrpc_compare_args compare = {0};
	weft_volrpc_write_args write = {0};
	uint8_t into[INTO_MAX + 1];
	weft_volrpc_read_res read = {
	        .status = WEFT_VOLRPC_OK,
	        .weft_volrpc_read_res_u.data = {.data_val = (char *)into, .data_len = INTO_MAX}};
	XDR x;

	into[INTO_MAX] = 0x77;
	xdrmem_create(&x, (char *)(uintptr_t)data, (u_int)size, XDR_DECODE);
	if (weft_volrpc_xdr_read_res(&x, &read) && read.status == WEFT_VOLRPC_OK)
		FUZZ_CHECK(read.weft_volrpc_read_res_u.data.data_len <= INTO_MAX &&
		           read.weft_volrpc_read_res_u.data.data_val == (char *)into);
	FUZZ_CHECK(into[INTO_MAX] == 0x77);
	xdr_free((xdrproc_t)weft_volrpc_xdr_read_res, (char *)&read);
	xdrmem_create(&x, (char *)(uintptr_t)data, (u_int)size, XDR_DECODE);
	if (weft_volrpc_xdr_write_args(&x, &write))
		FUZZ_CHECK(write.data.data_len == 0); /* nothing is lent by this stream */
	xdr_free((xdrproc_t)weft_volrpc_xdr_write_args, (char *)&write);
	xdrmem_create(&x, (char *)(uintptr_t)data, (u_int)size, XDR_DECODE);
	if (weft_volrpc_write_ahead(&x, &write))
		FUZZ_CHECK(write.data.data_len <= WEFT_VOLRPC_IO_MAX &&
		           write.data.data_val == NULL);
	xdrmem_create(&x, (char *)(uintptr_t)data, (u_int)size, XDR_DECODE);
	if (weft_volrpc_xdr_compare_args(&x, &compare))
		FUZZ_CHECK(compare.data.data_len == 0 && compare.expect.expect_len == 0);
	xdr_free((xdrproc_t)weft_volrpc_xdr_compare_args, (char *)&compare);
}

static u_int
encode(unsigned int type, union value *v, uint8_t *out)
{
	XDR x;

	memset(out, 0, OUT_MAX);
	xdrmem_create(&x, (char *)out, OUT_MAX, XDR_ENCODE);
	FUZZ_CHECK(types[type].xdr(&x, v));
	return xdr_getpos(&x);
}

void
fuzz_one(const uint8_t *data, size_t size)
{
	static uint8_t first[OUT_MAX], second[OUT_MAX];
	const unsigned int type = size > 0 ? data[0] % (NTYPES + 1) : 0;
	union value v, again;
	u_int n, m;
	XDR x;

	_Static_assert(sizeof(union value) >= sizeof(weft_volrpc_open_res), "room for each");
	if (size == 0)
		return;
	data++;
	size--;
	if (type == NTYPES) {
		without_memory(data, size);
		return;
	}
	memset(&v, 0, sizeof(v));
	FUZZ_CHECK(types[type].bytes <= sizeof(v));
	xdrmem_create(&x, (char *)(uintptr_t)data, (u_int)size, XDR_DECODE);
	if (types[type].xdr(&x, &v)) {
		n = encode(type, &v, first);
		memset(&again, 0, sizeof(again));
		xdrmem_create(&x, (char *)first, n, XDR_DECODE);
		FUZZ_CHECK(types[type].xdr(&x, &again) && xdr_getpos(&x) == n);
		m = encode(type, &again, second);
		FUZZ_CHECK(n == m && memcmp(first, second, n) == 0);
		xdr_free(types[type].xdr, (char *)&again);
	}
	/* Also what was decoded in part. */
	xdr_free(types[type].xdr, (char *)&v);
}
