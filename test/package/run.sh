#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Install into a scratch root, check what was installed, and build outside programs against it, shared and static: one of three
# files that uses verbs, and one that needs RPC and the log. Prints TAP. Usage: run.sh SRC BUILD
set -u
src=$1 build=$2
tmp=$(mktemp -d "${TMPDIR:-/tmp}/weft-package.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
n=0 bad=0
check() { # check NAME COMMAND...
	local name=$1
	shift
	n=$((n + 1))
	if "$@" > "$tmp/out" 2>&1; then
		echo "ok $n $name"
	else
		bad=1
		echo "not ok $n $name"
		sed 's/^/# /' "$tmp/out" | tail -n 30
	fi
}

check "meson install" meson install -C "$build" --no-rebuild --quiet --destdir "$tmp/root"
pc=$(find "$tmp/root" -name weft.pc)
export PKG_CONFIG_PATH; PKG_CONFIG_PATH=$(dirname "${pc:-/nonexistent/x}")
prefix=$(pkg-config --variable=prefix weft)
# The .pc files name the final prefix: here it is the scratch root's.
sed -i "s|^prefix=.*|prefix=$tmp/root$prefix|" "$PKG_CONFIG_PATH"/weft*.pc
cflags=$(pkg-config --cflags weft)
libs=$(pkg-config --libs weft)
libdir=$(find "$tmp/root" -name libweft.so -printf '%h\n' | head -n 1)
strict="-std=c11 -Wall -Wextra -Werror -pedantic -D_DEFAULT_SOURCE"
inc=$(find "$tmp/root" -type d -path '*include/weft')

# check calls the functions from here on.
# shellcheck disable=SC2317
no_rte() { ! grep -rnE 'rte_[a-z]+\.h|RTE_' "$inc"; }
# shellcheck disable=SC2317
header_alone() { # every installed header compiles by itself
	local h
	for h in "$inc"/*.h; do
		printf '#include "%s"\nextern int one;\n' "$h" > "$tmp/one.c"
		# shellcheck disable=SC2046,SC2086 # lists of options
		cc $strict $cflags $(pkg-config --cflags weft-rpc) -fsyntax-only "$tmp/one.c" || return 1
	done
}
# shellcheck disable=SC2317
programs() {
	local p
	for p in weft-target weft-cp weft-perf weft-ping weft-console weft-doctor; do
		[ -x "$tmp/root$prefix/bin/$p" ] || { echo "no $p"; return 1; }
		LD_LIBRARY_PATH=$libdir "$tmp/root$prefix/bin/$p" --version || return 1
		LD_LIBRARY_PATH=$libdir "$tmp/root$prefix/bin/$p" --help > /dev/null || return 1
	done
}
# shellcheck disable=SC2086,SC2317 # lists of options
shared() {
	cc $strict $cflags -o "$tmp/outside-shared" "$src"/outside/*.c $libs &&
		LD_LIBRARY_PATH=$libdir "$tmp/outside-shared"
}
# shellcheck disable=SC2046,SC2086,SC2317 # lists of options
static() {
	cc $strict $cflags -o "$tmp/outside-static" "$src"/outside/*.c \
		-L"$libdir" $(pkg-config --variable=static_libs weft) \
		$(pkg-config --libs $(pkg-config --variable=static_requires weft)) &&
		"$tmp/outside-static"
}
# shellcheck disable=SC2317
needs() { # needs FILE: the shared libraries that it links
	readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
}
# shellcheck disable=SC2046,SC2086,SC2317 # lists of options
shared_ulp() {
	cc $strict $(pkg-config --cflags weft-rpc weft-log) -o "$tmp/ulp-shared" "$src/outside_ulp.c" \
		$(pkg-config --libs weft-rpc weft-log) && LD_LIBRARY_PATH=$libdir "$tmp/ulp-shared"
}
# shellcheck disable=SC2046,SC2086,SC2317 # lists of options
static_ulp() {
	cc $strict $(pkg-config --cflags weft-rpc weft-log) -o "$tmp/ulp-static" "$src/outside_ulp.c" \
		-L"$libdir" $(for p in weft-rpc weft-log weft; do pkg-config --variable=static_libs $p; done) \
		$(pkg-config --libs $(for p in weft-rpc weft-log weft; do
			pkg-config --variable=static_requires $p
		done)) && "$tmp/ulp-static"
}
# shellcheck disable=SC2317
lean() { # a program that needs no RPC links no libtirpc, and the libraries for it have no DPDK
	local f
	for f in "$libdir/libweft.so" "$libdir/libweft_log.so" "$tmp/outside-shared" "$tmp/root$prefix/bin/weft-ping"; do
		if needs "$f" | grep tirpc; then echo "$f needs libtirpc"; return 1; fi
	done
	for f in "$libdir/libweft_rpc.so" "$libdir/libweft_log.so"; do
		if needs "$f" | grep librte; then echo "$f needs DPDK"; return 1; fi
	done
	needs "$libdir/libweft_rpc.so" | grep -q tirpc
}
# The programs of docs/programming.md, built with what is installed.
examples=$src/../../apps/examples
# shellcheck disable=SC2086,SC2317 # lists of options
example_build() {
	local p
	for p in message write commit; do
		cc $strict $cflags -o "$tmp/example-$p" "$examples/$p.c" "$examples/example.c" $libs || return 1
	done
}
# example_pair PROGRAM "SERVER'S ARGUMENTS" CLIENT'S... : both ends, joined by memif; their output in server.out, client.out.
# With KILL=1 the server is killed as soon as the client has ended.
# shellcheck disable=SC2086,SC2317
example_pair() {
	local p=$1 more=$2 server status i
	local memif="id=0,socket=$tmp/memif,socket-abstract=no"
	shift 2
	rm -f "$tmp/memif" "$tmp/server.out" # the line of an earlier server would be taken for that of the new one
	LD_LIBRARY_PATH=$libdir "$tmp/example-$p" server "net_memif0,role=server,$memif" 10.0.0.1/24 $more \
		> "$tmp/server.out" 2>&1 &
	server=$!
	for ((i = 0; i < 200; i++)); do
		grep -qs "^waiting" "$tmp/server.out" && break
		sleep 0.05
	done
	LD_LIBRARY_PATH=$libdir timeout 30 "$tmp/example-$p" client "net_memif0,role=client,$memif" 10.0.0.2/24 10.0.0.1 "$@" \
		> "$tmp/client.out" 2>&1
	status=$?
	if [ -n "${KILL:-}" ] || [ $status -ne 0 ]; then kill -9 $server; fi 2> /dev/null
	wait $server 2> /dev/null || [ -n "${KILL:-}" ] || status=1
	rm -rf "/var/run/dpdk/weft-$server" # files that DPDK leaves of a killed process
	cat "$tmp/server.out" "$tmp/client.out"
	return $status
}
# shellcheck disable=SC2317
example_message() { example_pair message "" && grep -q "^received: hello" "$tmp/server.out"; }
# shellcheck disable=SC2317
example_write() {
	example_pair write "" && grep -q "^read back: written without" "$tmp/client.out" &&
		grep -q "^the client has written: written without" "$tmp/server.out"
}
# shellcheck disable=SC2317
example_commit() { # durable data are there after kill -9 of the server
	KILL=1 example_pair commit "$tmp/medium" "one" && grep -q "^commit 1 is durable: one" "$tmp/client.out" &&
		KILL=1 example_pair commit "$tmp/medium" "two" && grep -q "^the medium has commit 1: one" "$tmp/server.out" &&
		grep -q "^commit 2 is durable: two" "$tmp/client.out" &&
		example_pair commit "$tmp/medium" "three" && grep -q "^the medium has commit 2: two" "$tmp/server.out"
}
check "no DPDK header in an installed one" no_rte
check "every installed header stands alone" header_alone
check "the programs are installed and answer --version and --help" programs
check "outside program, shared library" shared
check "outside program, static library" static
check "outside program with RPC and log, shared libraries" shared_ulp
check "outside program with RPC and log, static libraries" static_ulp
check "libtirpc where there is RPC, DPDK where there is verbs" lean
check "examples: built against the installed library" example_build
check "examples: message" example_message
check "examples: write" example_write
check "examples: commit survives kill -9" example_commit
echo "1..$n"
exit $bad
