#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft against the Python peer on kernel sockets, over veth between two network namespaces, each as initiator and as
# responder. Then tshark judges the captures. TAP.
# usage: run_python_peer.sh WEFT_PEER IWARP_PEER.PY
set -u

weft_peer=$1
python_peer=$2

skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}

[ "$(id -u)" = 0 ] || skip_all "needs root (network namespaces, af_packet)"
for tool in ip ethtool python3 tcpdump tshark; do
	command -v "$tool" >/dev/null || skip_all "$tool is not installed"
done

ns_w=weftiop-w-$$ # weft: a veth end without a kernel address
ns_p=weftiop-p-$$ # Python: the other end
dev_w=ww$$
dev_p=wp$$
addr_w=10.77.0.2
addr_p=10.77.0.1
port_w=54000 # weft listens here, and Python on this plus the revision. tshark uses these ports for no other protocol
tmp=$(mktemp -d) || exit 1
pids=()

cleanup() {
	trap - EXIT
	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
	done
	ip netns del "$ns_w" 2>/dev/null
	ip netns del "$ns_p" 2>/dev/null
	ip link del "$dev_w" 2>/dev/null
	rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

ip_try() { ip "$@" 2>"$tmp/err" || skip_all "cannot make namespaces or veth: $(head -n1 "$tmp/err")"; }
ip_try netns add "$ns_w"
ip_try netns add "$ns_p"
ip_try link add "$dev_w" type veth peer name "$dev_p"

setup() {
	ip link set "$dev_w" netns "$ns_w" &&
		ip link set "$dev_p" netns "$ns_p" &&
		ip netns exec "$ns_w" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 &&
		ip netns exec "$ns_p" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 &&
		ip -n "$ns_w" link set "$dev_w" up &&
		ip -n "$ns_p" link set lo up &&
		ip -n "$ns_p" addr add "$addr_p/24" dev "$dev_p" &&
		ip -n "$ns_p" link set "$dev_p" up &&
		# Like a wire: complete checksums, and no frame beyond the MTU.
		ip netns exec "$ns_w" ethtool -K "$dev_w" tx off tso off gso off gro off &&
		ip netns exec "$ns_p" ethtool -K "$dev_p" tx off tso off gso off gro off
}
setup >"$tmp/setup" 2>&1 || {
	sed 's/^/# /' "$tmp/setup"
	echo "1..0 # SKIP cannot set up the veth pair"
	exit 0
}

n=0
failed=0

# result STATUS NAME [FILE...]: a line of TAP. If the test failed, the files are printed as diagnostics.
result() {
	local status=$1 name=$2
	shift 2
	n=$((n + 1))
	if [ "$status" = 0 ]; then
		echo "ok $n $name"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $n $name"
	[ $# = 0 ] || head -q -n 20 "$@" | sed 's/^/# /'
}

wait_for() { # FILE TEXT: at most 15 s
	local i
	for ((i = 0; i < 150; i++)); do
		grep -q "$2" "$1" 2>/dev/null && return 0
		sleep 0.1
	done
	return 1
}

forget() { # PID, which has ended
	local left=() p
	for p in "${pids[@]}"; do
		[ "$p" = "$1" ] || left+=("$p")
	done
	pids=("${left[@]}")
}

capture_start() { # FILE
	: >"$tmp/tcpdump"
	ip netns exec "$ns_p" tcpdump --immediate-mode -U -s 0 -i "$dev_p" -w "$1" 2>"$tmp/tcpdump" &
	capture=$!
	pids+=("$capture")
	wait_for "$tmp/tcpdump" "listening on"
}

capture_stop() {
	sleep 0.3
	kill -INT "$capture" 2>/dev/null
	wait "$capture" 2>/dev/null
	forget "$capture"
}

weft_start() {
	: >"$tmp/weft.out"
	ip netns exec "$ns_w" "$weft_peer" listen "net_af_packet0,iface=$dev_w" "$addr_w" "$port_w" \
		>"$tmp/weft.out" 2>"$tmp/weft.err" &
	weft=$!
	pids+=("$weft")
	wait_for "$tmp/weft.out" "^listening"
}

weft_stop() {
	kill -TERM "$weft" 2>/dev/null
	wait "$weft"
	local rc=$?
	forget "$weft"
	return $rc
}

initiator() { # ARGUMENT...
	ip netns exec "$ns_p" timeout 30 python3 -B "$python_peer" client "$addr_w" "$port_w" "$@" \
		>"$tmp/py.out" 2>"$tmp/py.err"
}

responder() { # REV
	local port=$((port_w + $1))
	: >"$tmp/py.out"
	ip netns exec "$ns_p" timeout 40 python3 -B "$python_peer" server "$addr_p" "$port" --rev "$1" \
		>"$tmp/py.out" 2>"$tmp/py.err" &
	local py=$! rc
	pids+=("$py")
	wait_for "$tmp/py.out" "^listening"
	ip netns exec "$ns_w" timeout 40 "$weft_peer" connect "net_af_packet0,iface=$dev_w" \
		"$addr_w" "$port" "$addr_p" "$1" >"$tmp/weft.out" 2>"$tmp/weft.err"
	rc=$?
	wait "$py" || rc=1
	forget "$py"
	return $rc
}

# ---- The runs ----

logs=("$tmp/py.err" "$tmp/weft.out" "$tmp/weft.err")

capture_start "$tmp/good.pcap"
weft_start
result $? "weft listens on net_af_packet" "${logs[@]:1}"
for rev in 2 1; do
	initiator --rev $rev
	result $? "python initiator, weft responder, MPA revision $rev" "${logs[@]}"
done
weft_stop && [ "$(grep -c '^connection .*: complete' "$tmp/weft.out")" = 2 ]
result $? "weft saw both connections to their end" "${logs[@]:1}"
for rev in 2 1; do
	responder $rev
	result $? "weft initiator, python responder, MPA revision $rev" "${logs[@]}"
done
capture_stop

capture_start "$tmp/bad.pcap"
weft_start
for fault in write-stag write-bounds read-stag opcode ddp-version qn crc; do
	initiator --fault $fault
	result $? "fault $fault is answered with its Terminate" "${logs[@]}"
done
initiator
result $? "a good connection after the bad ones" "${logs[@]}"
weft_stop
result $? "weft closes down cleanly" "${logs[@]:1}"
capture_stop

# ---- The captures ----

# tshark's heuristics for RPC-over-RDMA and SMB take short Sends for their protocols and call them malformed. The layers
# below are judged.
judge() { # FILE FILTER [OPTION...]
	local file=$1 filter=$2
	shift 2
	tshark -r "$file" -o tcp.check_checksum:TRUE -o ip.check_checksum:TRUE -o tcp.reassemble_out_of_order:TRUE \
		--disable-protocol rpcordma --disable-protocol smb_direct \
		-Y "$filter" "$@" 2>>"$tmp/tshark.err"
}
count() { # FILE FILTER
	judge "$1" "$2" | wc -l
}
none() { # NAME FILE FILTER
	judge "$2" "$3" >"$tmp/found"
	[ ! -s "$tmp/found" ]
	result $? "$1" "$tmp/found"
}
some() { # NAME FILE FILTER LEAST
	local found
	found=$(count "$2" "$3")
	[ "$found" -ge "$4" ] || echo "# $found frames, expected $4 or more"
	[ "$found" -ge "$4" ]
	result $? "$1"
}

both_ways="ip.src == $addr_w || ip.src == $addr_p"
for file in good bad; do
	pcap=$tmp/$file.pcap
	none "$file: no bad checksum" "$pcap" "tcp.checksum.status == 0 || ip.checksum.status == 0"
	some "$file: checksums were verified" "$pcap" "tcp.checksum.status == 1 && ip.src == $addr_w" 20
	none "$file: no malformed frame" "$pcap" "_ws.malformed || iwarp_mpa.bad_length"
	none "$file: every FPDU from weft lies whole in one segment" "$pcap" \
		"ip.src == $addr_w && (tcp.reassembled_in || tcp.segments)"
	none "$file: no frame longer than the MTU" "$pcap" "frame.len > 1514"
done
some "MPA Requests and Replies, revision 2" "$tmp/good.pcap" \
	"iwarp_mpa.rev == 2 && (iwarp_mpa.key.req || iwarp_mpa.key.rep)" 4
some "MPA Requests and Replies, revision 1" "$tmp/good.pcap" \
	"iwarp_mpa.rev == 1 && (iwarp_mpa.key.req || iwarp_mpa.key.rep)" 4
# tshark computes the CRC of every FPDU once a start-up frame has set the flag.
crcs() { # FILE Good|Bad
	judge "$1" "iwarp_mpa" -V | grep -c "CRC check: .*($2 CRC32"
}
[ "$(crcs "$tmp/good.pcap" Good)" -ge 100 ] && [ "$(crcs "$tmp/good.pcap" Bad)" = 0 ]
result $? "the CRC of every FPDU is right"
[ "$(crcs "$tmp/bad.pcap" Bad)" = 1 ]
result $? "but for the one that was damaged on purpose"
for op in 0:Write 1:"Read Request" 2:"Read Response" 3:Send; do
	some "${op#*:} decoded, from weft" "$tmp/good.pcap" \
		"iwarp_rdma.opcode == ${op%%:*} && ip.src == $addr_w" 4
	some "${op#*:} decoded, to weft" "$tmp/good.pcap" \
		"iwarp_rdma.opcode == ${op%%:*} && ip.src == $addr_p" 4
done
some "Terminate decoded, from weft" "$tmp/bad.pcap" "iwarp_rdma.opcode == 7 && ip.src == $addr_w" 7
none "no Terminate in the good runs" "$tmp/good.pcap" "iwarp_rdma.opcode == 7"
some "both sides speak" "$tmp/good.pcap" "$both_ways" 100

echo "1..$n"
[ "$failed" = 0 ]
