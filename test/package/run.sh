#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Install into a scratch root and build an outside program of three files against it,
# once shared, once static; check what was installed. Prints TAP. Usage: run.sh SRC BUILD
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
# weft.pc names the final prefix: here it is the scratch root's.
sed -i "s|^prefix=.*|prefix=$tmp/root$prefix|" "$pc"
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
		# shellcheck disable=SC2086 # lists of options
		cc $strict $cflags -fsyntax-only "$tmp/one.c" || return 1
	done
}
# shellcheck disable=SC2317
programs() {
	local p
	for p in weft-target weft-cp weft-perf weft-ping weft-console; do
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
check "no DPDK header in an installed one" no_rte
check "every installed header stands alone" header_alone
check "the programs are installed and answer --version and --help" programs
check "outside program, shared library" shared
check "outside program, static library" static
echo "1..$n"
exit $bad
