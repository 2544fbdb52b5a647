#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What weft-console changes while the stack runs: set. test_console_set.py BUILD [CASE...]"""
from test_console import EXAMPLES, alone, loop, script
from test_console_pty import PROMPT, TAB, Terminal
from test_console_traffic import says
from weft_e2e import main, path


def test_congestion():
    """Connections that exist keep their algorithm; new ones of both ends have the other one."""
    says(f"""expect fail set congestion reno
expect not "newreno" show tcp detail
expect "congestion control of new connections: newreno" set congestion newreno
source {EXAMPLES}/lib/connect.cli
wait until show tcp json where cc=newreno contains newreno
wait until show tcp json where cc=cubic contains cubic
""")


def test_limit():
    """A worker that accepts one connection a second takes the second one only when its SYN comes again."""
    out, _ = says(f"""expect "limit accepts of each worker: 1" set limit accepts 1
source {EXAMPLES}/lib/connect.cli
source {EXAMPLES}/lib/connect.cli
expect /syns_dropped_rate +[1-9]/ show tcp-counters detail
expect "limit accepts of each worker: none" set limit accepts none
repeat 10 connect 10.0.0.2 7471
set limit half-open 7
set limit time-wait 7
set limit resets 7
set limit challenge-acks 7
""")
    for line, why in (("set limit accepts 0", "the number must be from 1 to 4294967295"), ("set limit fly 1", "bad arguments"),
                      ("set limit fly 1", "half-open, time-wait, accepts, resets, challenge-acks"),
                      ("set limit accepts many", "bad arguments")):
        _, err = says(line + "\n", rc=1)
        assert why in err, (line, err)


def test_worker():
    """Connections, RPC clients and logs belong to the worker that was set, each as long as it lives."""
    out, _ = says(f"""register file {path("log")} 65536
let log_stag = $stag
rpc serve 7472
expect /^worker of .* from now on: 1$/ set worker 1
connect 10.0.0.1 7471
expect /"remote": "10.0.0.1:7471"/ show tcp json where worker=1
rpc connect 10.0.0.1 7472
expect /^rpc $rpc: connected, .*, worker 1$/ show rpcs
rpc call $rpc 0x20004543 1 1 hello
expect hello wait 5000
log create
log join $log 10.0.0.1 7471 $log_stag 0 65536
log open $log
set worker 0
log append $log of the second worker
expect /record [0-9]+ is durable/ wait 5000
expect "of the second worker" log read $log
expect /^log $log: open, .*, worker 1$/ show logs
repeat 100 rpc call $rpc 0x20004543 1 1 call $round
wait 5000
expect /calls 101, replies 101,/ show rpcs
expect /"replies": 101,/ show rpcs json
expect /"worker": 1,/ show rpcs json
expect /"state": "live"/ show logs json
expect /"durable_record": $record/ show logs json
log trim $log $record
log destroy $log
rpc disconnect $rpc
rpc connect 10.0.0.2 7472
expect /^rpc $rpc: connected, .*, worker 0$/ show rpcs
log create
expect /^log $log: new, .*, worker 0$/ show logs
expect "there is no worker 2; there are 0 to 1" expect fail set worker 2
""", conf=loop("loop_workers.ini"))


def test_log():
    out, err = says("set log weft.*:debug\nsource " + EXAMPLES + "/lib/connect.cli\nset log weft.*:error\n")
    assert "weft." in err, err
    rc, _, err = alone("-f", script("l.cli", "set log weft.tcp:loud\n"))
    assert rc == 1 and "set log: 'weft.tcp:loud': it is TYPE:LEVEL" in err, err
    rc, _, err = alone("-f", script("l.cli", "set log\n"))
    assert rc == 1 and "usage: set log TYPE:LEVEL" in err, err


def test_completion():
    with Terminal("") as t:
        got = t.until(b"weft> set limit ", b"set limit " + TAB)
        assert b"half-open" in got and b"challenge-acks" in got, got
        t.until(b"accepts ", b"acc" + TAB)
        t.until(PROMPT, b"100\n")
        assert b"\n 0 [" in t.until(b"weft> set worker ", b"set worker " + TAB)
        t.until(PROMPT, b"0\n")
        assert b"example: set congestion newreno" in t.run(b"help set congestion")
        t.quit()


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
