#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-console's traffic: start, stop, show traffic. test_console_traffic.py BUILD [CASE...]"""
import os
import re
import subprocess
import time

from test_console import EXAMPLES, alone, loop, script
from test_console_pty import CTRL_C, PROMPT, TAB, Terminal
from weft_e2e import PROCS, app, main, memif, path, run

PAIR = f"source {EXAMPLES}/lib/pair.cli\n"


def says(text, rc=0, conf=None):
    """Run a script in a console that is both ends; its output and errors."""
    got, out, err = run([app("weft-console"), "-c", conf or loop(), "-f", script("t.cli", PAIR + text)])
    assert got == rc, (text, got, out, err)
    return out, err


def test_every_kind():
    """Both ends count the same, and a flow that has ended has placed every octet."""
    out, _ = says("""fill $local 0 65536 weft
start write $near $local $far_stag size 8 count 8192 depth 7
wait for "traffic $traffic (write, qp $near) ended after 8192 messages, 65536 octets"
expect "weftweftweftweft" dump $far 65520 16
fill $far 0 65536 back
start read $near $local $far_stag size 4K span 8K offset 4K count 3
wait for "traffic $traffic (read, qp $near) ended after 3 messages, 12288 octets"
expect "backbackback" dump $local 4096 16
expect "weftweftweft" dump $local 8192 16
start sink $remote
let sink = $traffic
start send $near size 8192 depth 128 count 3000
wait for "traffic $traffic (send, qp $near) ended after 3000 messages, 24576000 octets"
expect "3000 messages, 24576000 octets" show traffic $sink
start send $near size 1 depth 1 count 100
wait for /traffic .* ended after 100 messages, 100 octets/
expect "3100 messages, 24576100 octets" stop $sink
start echo $remote
let echo = $traffic
start ping $near size 8192 depth 128 count 2000
wait for "traffic $traffic (ping, qp $near) ended after 2000 messages, 16384000 octets"
expect not "no echo" show traffic $traffic
expect "2000 messages, 16384000 octets" show traffic $echo
stop
post send $near afterwards
wait for /qp $remote: received 10 bytes: afterwards/
""")
    assert "no echo" not in out, out


def test_stop_ends_the_sink_last():
    """What is under way when all traffic is stopped is taken, and not shown message by message."""
    out, _ = says("""start sink $remote
start send $near size 64 depth 32
wait until show traffic 2 contains /^  [0-9]{4,} messages/
stop
sleep 100
""", conf=loop("loop_workers.ini"))
    assert "received" not in out and re.findall(r"traffic \d: (\w+)", out)[-2:] == ["send", "sink"], out


def test_goes_on_without_commands():
    """Traffic does not wait for the main thread, and both directions run at once on the worker of each port."""
    out, _ = says("""start write $near $local $far_stag
start write $remote $far $stag size 1K
start read $near $local $far_stag depth 4
show traffic
wait until show traffic 1 contains /^  [0-9]{5,} messages/
wait until show traffic 2 contains /^  [0-9]{5,} messages/
wait until show traffic 3 contains /^  [0-9]{4,} messages/
stop
expect "no traffic" show traffic
""", conf=loop("loop_workers.ini"))
    done = re.findall(r"traffic \d: (\w+), qp \d, size \d+, depth \d+: done", out)
    assert done == ["write", "write", "read"], out


def test_no_echo():
    """A ping to a peer that sends nothing back ends, and says why. One that waits longer for its rate than for an echo goes on."""
    out, _ = says("""start ping $near
wait for /traffic 1 .ping, qp $near. ended after 0 messages, 0 octets: no echo for 5 s; does the peer run 'start echo'[?]/ timeout 30
expect /failed.*no echo for 5 s/ show traffic 1
expect fail stop 1
start echo $remote
start ping $near count 3
wait for "(ping, qp $near) ended after 3 messages"
""")
    assert "no echo for 5 s" in out, out


def test_rate():
    """A rate is never passed, and is reached to a tenth where nothing delays the worker for long."""
    out, _ = says("start write $near $local $far_stag rate 2000\nwait until show traffic contains /^  [0-9]{4,} messages/\nstop\n")
    last = out[out.index(": done"):]
    messages, rate = re.search(r"(\d+) messages, \d+ octets; (\d+) messages/s", last).groups()
    assert int(messages) >= 1000 and int(rate) <= 2010, last


def test_errors():
    """One line says what is wrong, and what would be right."""
    for line, why in (("start write $near $local", "bad arguments"), ("start write 9 $local 1", "there is no qp 9"),
                      ("start write $near 9 1", "there is no region 9"), ("start fly $near", "bad arguments"),
                      ("start write $near $local 1 size 0", "size '0': a number from 1 to 67108864"),
                      ("start write $near $local 1 size 1T", "size '1T': a number"),
                      ("start write $near $local 1 size 0", "usage: start write QP REGION STAG OPTIONS"),
                      ("post read $near $local 0 8 $far_stag 0 inline", "a read sends no data, so it cannot be inline"),
                      ("start write $near $local 1 size", "size: its value is missing"),
                      ("start write $near $local 1 fast 1", "'fast' was not expected; options: size depth count rate offset span"),
                      ("start write $near $local 1 size 128K", "size 131072, span 65536: region 1 has 65536 bytes"),
                      ("start send $near size 8193", "size '8193': a number from 1 to 8192"),
                      ("start send $near depth 129", "from 1 to 128"),
                      ("stop", "stop: there is no traffic"), ("stop 3", "there is no traffic 3; 'show traffic' lists it"),
                      ("show traffic 3", "there is no traffic 3"), ("stop x", "bad arguments")):
        out, err = says(line + "\n", rc=1)
        assert why in err, (line, out, err)
    out, err = says("start sink $remote\nexpect fail start echo $remote\nstart sink $near\nexpect fail start ping $near\n" +
                    "start write $near $local $far_stag count 1\n" * 14 + "wait until show traffic 16 contains done\nstart echo $remote\n",
                    rc=1)
    assert out.count("other traffic takes the receives of this qp") == 3 and "traffic 16: write" in out, out
    rc, _, err = alone("-f", script("n.cli", "start write 1 1 1\n"))
    assert rc == 1 and "there is no qp 1" in err, err
    rc, _, err = alone("-f", script("n.cli", "start write\n"))
    assert rc == 1 and "usage: start write QP REGION STAG OPTIONS: size, depth" in err, err


def test_shared_receives():
    """On a QP with an SRQ what takes receives is refused; Writes, Reads and Sends run, and the SRQ's receives stay the commands'."""
    out, _ = says("""create srq 64
connect 10.0.0.2 7471 srq $srq
let shared = $qp
wait for /qp [0-9]+: established/
post send $shared first
wait for /received 5 bytes: first/
let taker = $accepted
post receives $srq 8
expect "this qp takes its receives from an srq" expect fail start ping $shared
expect "this qp takes its receives from an srq" expect fail start sink $shared
expect "this qp takes its receives from an srq" expect fail start echo $shared
expect "no traffic" show traffic
start sink $taker
start send $shared count 100
wait for /traffic $traffic .* ended after 100 messages, 6400 octets/
start write $shared $local $far_stag count 100
wait for /traffic $traffic .* ended after 100 messages, 6400 octets/
post send $taker answer
wait for "qp $shared: received 6 bytes: answer"
stop
""")
    assert out.count("error: start: this qp takes") == 3, out


def test_numbers():
    """16 flows at once; those that have ended leave their numbers to later ones."""
    says("repeat 16 start write $near $local $far_stag rate 100\nexpect \"16 traffics are there\" expect fail "
         "start write $near $local $far_stag\nstop 5\nstart write $near $local $far_stag count 1\nexpect 5 echo $traffic\n"
         "wait for /traffic 5 .* ended after 1 messages/\nstart write $near $local $far_stag count 1\nexpect 5 echo $traffic\nstop\n")


def test_ends_with_the_connection():
    """A wrong STag, and a connection that the other end closes: one line, and stop says that it failed."""
    out, _ = says("""start write $near $local 77
wait for /qp $near: disconnected.*; traffic 1 .write, qp $near. ended after [0-9]+ messages/
expect "traffic 1: write, qp $near, size 64, depth 128: failed" expect fail stop
expect "not connected" expect fail start write $near $local $far_stag
disconnect $near
disconnect $remote
""" + f"source {EXAMPLES}/lib/connect.cli\n" + """
start sink $remote
start send $near
start read $near $local $far_stag
wait until show traffic 3 contains /^  [0-9]{4,} messages/
disconnect $remote
wait for /qp $near: disconnected.*; traffic 2 .send, qp $near. ended after .*; traffic 3 .read, qp $near. ended after/
expect "the connection has ended" expect fail stop
expect "no traffic" show traffic
disconnect $near
""")
    assert out.count("\nqp 1: disconnected") == 2, out


def test_ends_with_its_qp():
    """A QP of this end that is freed takes its traffic along; the next one is not confused by late completions."""
    text = (f"source {EXAMPLES}/lib/connect.cli\n" + "start sink $remote\nstart send $near\nstart write $near $local $far_stag\n"
            "disconnect $near\nexpect fail stop\nwait for /qp $remote: disconnected/\ndisconnect $remote\n")
    says("disconnect $near\nwait for /qp $remote: disconnected/\ndisconnect $remote\n" + text * 5)


def test_peer_is_killed():
    """A console whose peer is killed tells in one line what of the traffic is lost."""
    sock = path("kill.sock")
    serve = subprocess.Popen([app("weft-console"), "--dev", memif(0, "server", sock), "--address", "10.0.0.1/24"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    PROCS.append(serve)
    serve.stdin.write("register memory 65536\nlisten 7471\nwait for established timeout 60\nstart sink $accepted\nsleep 600000\n")
    serve.stdin.flush()
    said = ""
    while "listening" not in said:
        line = serve.stdout.readline()
        assert line, said
        said += line
    stag = re.search(r"stag (0x[0-9a-f]+)", said).group(1)
    push = subprocess.Popen([app("weft-console"), "--dev", memif(0, "client", sock), "--address", "10.0.0.2/24"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    PROCS.append(push)
    push.stdin.write(f"register memory 65536\nconnect 10.0.0.1 7471\nstart write $qp $region {stag} size 1K\n"
                     "wait until show traffic contains /^  [0-9]{3,} messages/\necho running\n")
    push.stdin.flush()
    said = ""
    while "\nrunning\n" not in said:
        line = push.stdout.readline()
        assert line, said
        said += line
    serve.kill()
    push.stdin.write("wait for /disconnected/ timeout 90\nexpect fail stop\n")
    out, _ = push.communicate(timeout=120)
    lines = [line for line in out.splitlines() if "disconnected" in line]
    assert push.returncode == 0, out
    assert len(lines) == 1 and re.search(r"qp 1: disconnected: .*; traffic 1 \(write, qp 1\) ended after \d+ messages", lines[0]), out


def messages(t):
    """What traffic 1 has sent, asked at a prompt."""
    return int(re.search(rb"  (\d+) messages", t.run(b"show traffic 1")).group(1))


def test_prompt():
    """The prompt is usable while traffic runs, options and numbers complete by Tab, and watch shows the figures."""
    with Terminal("", ["-c", loop()]) as t:
        t.run(b"source " + os.path.join(EXAMPLES, "lib/pair.cli").encode())
        t.until(b"depth ", b"start write $near 1 $far_stag size 4K de" + TAB)
        t.until(PROMPT, b"16\n")
        first = messages(t)
        assert b"\nusable\r\n" in t.run(b"echo usable")
        end = time.monotonic() + 30
        while messages(t) == first:
            assert time.monotonic() < end, t.said
        got = t.until(b"weft> start ping 1 ", b"start ping 1 " + TAB)
        assert all(b"\n " + word in got for word in (b"size", b"depth", b"count", b"rate")) and b"span" not in got, got
        t.until(PROMPT, CTRL_C)
        got = t.until(b"weft> start ", b"start " + TAB)
        assert b" sink" in got and b" echo" in got, got
        t.until(PROMPT, CTRL_C)
        got = t.until(b"weft> stop ", b"stop " + TAB)
        assert b"\n 1 [" in got, got
        t.until(PROMPT, CTRL_C)
        got = t.run(b"watch 0.1 x3 show traffic")
        assert got.count(b"traffic 1: write") == 3, got
        # What has a count says at the prompt that it has ended, without a command.
        t.run(b"start read $near 1 $far_stag count 50 rate 500")
        t.until(b"traffic 2 (read, qp 1) ended after 50 messages, 3200 octets")
        got = t.run(b"stop")
        assert b"traffic 1: write, qp 1, size 4096, depth 16: done" in got and b"traffic 2: read" in got, got
        t.run(b"start write $near 1 $far_stag")
        t.quit()


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
