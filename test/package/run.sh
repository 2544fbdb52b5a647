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
	for p in weft-target weft-cp weft-perf weft-ping weft-console weft-doctor weft-fsck weft-ctl weft-portd; do
		[ -x "$tmp/root$prefix/bin/$p" ] || { echo "no $p"; return 1; }
		LD_LIBRARY_PATH=$libdir "$tmp/root$prefix/bin/$p" --version || return 1
		LD_LIBRARY_PATH=$libdir "$tmp/root$prefix/bin/$p" --help > /dev/null || return 1
		[ -n "$(find "$tmp/root$prefix/share/man" -name "$p.[18]")" ] || { echo "no manual page of $p"; return 1; }
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
	cc $strict $(pkg-config --cflags weft-volume weft-log) -o "$tmp/ulp-shared" "$src/outside_ulp.c" \
		$(pkg-config --libs weft-volume weft-log) && LD_LIBRARY_PATH=$libdir "$tmp/ulp-shared"
}
# shellcheck disable=SC2046,SC2086,SC2317 # lists of options
static_ulp() {
	cc $strict $(pkg-config --cflags weft-volume weft-log) -o "$tmp/ulp-static" "$src/outside_ulp.c" \
		-L"$libdir" $(for p in weft-volume weft-rpc weft-log weft; do pkg-config --variable=static_libs $p; done) \
		$(pkg-config --libs $(for p in weft-volume weft-rpc weft-log weft; do
			pkg-config --variable=static_requires $p
		done)) && "$tmp/ulp-static"
}
# shellcheck disable=SC2317
lean() { # a program that needs no RPC links no libtirpc, and the libraries for it have no DPDK
	local f
	for f in "$libdir/libweft.so" "$libdir/libweft_log.so" "$tmp/outside-shared" "$tmp/root$prefix/bin/weft-ping"; do
		if needs "$f" | grep tirpc; then echo "$f needs libtirpc"; return 1; fi
	done
	for f in "$libdir/libweft_rpc.so" "$libdir/libweft_log.so" "$libdir/libweft_volume.so"; do
		if needs "$f" | grep librte; then echo "$f needs DPDK"; return 1; fi
	done
	needs "$libdir/libweft_rpc.so" | grep -q tirpc
}
# The programs of docs/programming.md, built with what is installed.
examples=$src/../../apps/examples
# shellcheck disable=SC2046,SC2086,SC2317 # lists of options
example_build() {
	local p
	for p in message write commit; do
		cc $strict $cflags -o "$tmp/example-$p" "$examples/$p.c" "$examples/example.c" $libs || return 1
	done
	cc $strict $(pkg-config --cflags weft-log) -o "$tmp/example-log" "$examples/log.c" "$examples/example.c" \
		$(pkg-config --libs weft-log) &&
		cc $strict $(pkg-config --cflags weft-volume) -o "$tmp/example-volume" "$examples/volume.c" "$examples/example.c" \
			$(pkg-config --libs weft-volume)
}
# Server and client of a program are joined by memif; their output is in server.out and client.out.
memif="id=0,socket=$tmp/memif,socket-abstract=no"
# example_server PROGRAM [ARGUMENT]: start the server, and wait until it waits for a client.
# shellcheck disable=SC2317
example_server() {
	local i p=$1
	shift
	rm -f "$tmp/memif" "$tmp/server.out" # the line of an earlier server would be taken for that of the new one
	LD_LIBRARY_PATH=$libdir "$tmp/example-$p" server "net_memif0,role=server,$memif" 10.0.0.1/24 "$@" \
		> "$tmp/server.out" 2>&1 &
	server=$!
	for ((i = 0; i < 200; i++)); do
		grep -qs "^waiting" "$tmp/server.out" && return 0
		sleep 0.05
	done
	return 1
}
# example_client PROGRAM N [ARGUMENT...]: run the N-th client of a server. Each client has another address.
# shellcheck disable=SC2317
example_client() {
	local p=$1 n=$2
	shift 2
	LD_LIBRARY_PATH=$libdir timeout 30 "$tmp/example-$p" client "net_memif0,role=client,$memif" "10.0.0.$((n + 1))/24" 10.0.0.1 \
		"$@" > "$tmp/client.out" 2>&1
}
# example_over STATUS: the server ends by itself if the clients' status is 0. With KILL=1 it is killed.
# shellcheck disable=SC2317
example_over() {
	local status=$1
	if [ -n "${KILL:-}" ] || [ "$status" -ne 0 ]; then kill -9 "$server"; fi 2> /dev/null
	wait "$server" 2> /dev/null || [ -n "${KILL:-}" ] || status=1
	rm -rf "/var/run/dpdk/weft-$server" # files that DPDK leaves of a killed process
	cat "$tmp/server.out" "$tmp/client.out"
	return "$status"
}
# example_pair PROGRAM: a server and one client.
# shellcheck disable=SC2317
example_pair() {
	local status
	example_server "$1"
	example_client "$1" 1
	status=$?
	example_over "$status"
}
# shellcheck disable=SC2317
example_message() { example_pair message && grep -q "^received: hello" "$tmp/server.out"; }
# shellcheck disable=SC2317
example_write() {
	example_pair write && grep -q "^read back: written without" "$tmp/client.out" &&
		grep -q "^the client has written: written without" "$tmp/server.out"
}
# commit_says SERVER'S LINE TEXT: this is on the medium when the server starts; then two clients commit, the second one TEXT
# and a number that follows that of the first.
# shellcheck disable=SC2317
commit_says() {
	local status KILL=1
	example_server commit "$tmp/medium"
	example_client commit 1 "before $3" && example_client commit 2 "$3"
	status=$?
	example_over "$status" && grep -q "^the medium has commit $1" "$tmp/server.out" && grep -q "^commit $2 is durable: $3" "$tmp/client.out"
}
# shellcheck disable=SC2317
example_commit() { # durable data are there after kill -9 of the server
	commit_says "0: " 2 two && commit_says "2: two" 4 four && commit_says "4: four" 6 six
}
# shellcheck disable=SC2317
grants() { # how many grants the server has given; no two of them have the same STag
	local n
	n=$(grep -c "^grant 0x[0-9a-f]*$" "$tmp/server.out")
	[ "$(sed -n 's/^grant \(0x[0-9a-f]*\)$/\1/p' "$tmp/server.out" | sort -u | wc -l)" -eq "$n" ] && echo "$n"
}
# shellcheck disable=SC2317
example_log() { # a writer is killed while it holds the memory; in its second life it finds its record, by another grant
	local i first status=1 KILL=1
	example_server log "$tmp/log.medium"
	LD_LIBRARY_PATH=$libdir "$tmp/example-log" client "net_memif0,role=client,$memif" 10.0.0.9/24 10.0.0.1 one stay \
		> "$tmp/first.out" 2>&1 &
	first=$!
	for ((i = 0; i < 200; i++)); do
		grep -qs "is durable: one" "$tmp/first.out" && break
		sleep 0.05
	done
	kill -9 "$first"
	wait "$first" 2> /dev/null
	rm -rf "/var/run/dpdk/weft-$first"
	example_client log 1 two && grep -q "^record 2: one" "$tmp/client.out" && grep -q "^record 4 is durable: two" "$tmp/client.out" &&
		example_client log 2 three && grep -q "^record 4: two" "$tmp/client.out" && [ "$(grants)" = 3 ] && status=0
	cat "$tmp/first.out"
	example_over "$status" || return 1
	# The records are on the medium.
	example_server log "$tmp/log.medium"
	example_client log 1 four && grep -q "^record 2: one" "$tmp/client.out" && grep -q "^record 6: three" "$tmp/client.out"
	status=$?
	example_over "$status"
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
check "examples: a log outlives its writers" example_log
echo "1..$n"
exit $bad
