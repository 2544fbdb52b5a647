#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-console's scripts: the language, and each script of apps/console/examples. test_console.py BUILD [CASE...]"""
import os
import re
import signal
import subprocess
import time

from weft_e2e import PROCS, TMP, Target, app, main, memif, path, run

EXAMPLES = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "apps", "console", "examples"))
DOCS = os.path.join(EXAMPLES, "..", "..", "..", "docs")
PAIR = ("serve.cli", "push.cli")  # two consoles run these


def loop(name="loop.ini"):
    """The examples' configuration, with its socket in the test's folder."""
    with open(os.path.join(EXAMPLES, name)) as f:
        text = f.read()
    assert "/tmp/weft-console-loop.sock" in text and "/tmp/./weft-console-loop.sock" in text, text
    out = path(name)
    with open(out, "w") as f:
        f.write(text.replace("/tmp/", TMP + "/"))
    return out


def script(name, text):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), "w") as f:
        f.write(text)
    return path(name)


def alone(*args):
    """A console whose port has no peer."""
    return run([app("weft-console"), "--dev", "net_null0,no-rx=1", "--address", "10.0.0.1/24", *args])


def says(text, *args, rc=0):
    """Run a script; what it printed on standard output, and on standard error without the program's name."""
    got, out, err = alone(*args, "-f", script("s.cli", text))
    assert got == rc, (text, got, out, err)
    return out, err.replace("weft-console: ", "").replace(path("s.cli"), "s.cli")


def example(name, *args, conf="loop.ini"):
    rc, out, err = run([app("weft-console"), "-c", loop(conf), "-D", f"FILE={path(name + '.file')}", *args,
                        "-f", os.path.join(EXAMPLES, name)])
    assert rc == 0, f"{name}:\n{out}{err}"
    return out


def test_examples():
    """Each script of the folder, but for the two that need two consoles."""
    names = sorted(n for n in os.listdir(EXAMPLES) if n.endswith(".cli") and n not in PAIR)
    assert len(names) >= 11, names
    for name in names:
        out = example(name, conf="loop_workers.ini" if name == "two_workers.cli" else "loop.ini")
        assert "established" in out, out
        with open(os.path.join(EXAMPLES, name)) as f:
            header = f.read().split("\n\n")[0]
        assert header.startswith("# ") and f"examples/{name}" in header, f"{name}: its header does not say how to run it"
    with open(path("flush_verify.cli.file"), "rb") as f:
        assert f.read(4096) == b"durable." * 512
    with open(path("capture.cli.file"), "rb") as f:
        assert f.read(4) == b"\x0a\x0d\x0d\x0a"
    example("flush_verify.cli")  # the file exists now


def test_example_of_two_consoles():
    sock = path("two.sock")
    serve = subprocess.Popen([app("weft-console"), "--dev", memif(0, "server", sock), "--address", "10.0.0.1/24",
                              "-f", os.path.join(EXAMPLES, "serve.cli")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    PROCS.append(serve)
    said = ""
    while "listening" not in said:
        line = serve.stdout.readline()
        assert line, said
        said += line
    rc, out, err = run([app("weft-console"), "--dev", memif(0, "client", sock), "--address", "10.0.0.2/24", "-D", "PEER=10.0.0.1",
                        "-f", os.path.join(EXAMPLES, "push.cli")])
    assert rc == 0, out + err
    said += serve.communicate(timeout=30)[0]
    assert serve.returncode == 0, said


def test_example_fails():
    """A script notices what it does not expect: the same tour, without its Write."""
    with open(os.path.join(EXAMPLES, "tour.cli")) as f:
        text = f.read()
    assert "post write" in text
    for old, new in (('expect "write: success"', "#"), ("post write", "#"), ("wait until dump", "expect hellohel dump"),
                     (' contains "hellohel"', "")):
        text = text.replace(old, new)
    rc, out, err = run([app("weft-console"), "-c", loop(), "-f", script("tour.cli", text)])
    assert rc == 1 and "expected hellohel, got: 00000000" in err, out + err


def test_variables():
    out, _ = says("let a = one two\necho $a-${a}s $$a $ $5 a$\nlet b=1\n", rc=1)
    assert "one two-one twos $a $ $5 a$\n" in out, out
    out, _ = says("let a = 1\nlet a = 2\nlet\nregister memory 4096\necho <$region>\n", "-D", "peer=10.0.0.9")
    assert "a = 2\n" in out and "peer = 10.0.0.9\n" in out and "<1>" in out, out
    out, _ = says("register memory 4096\nlet n from /offset 0, ([0-9]+) bytes/ register memory 8192\necho $n\n"
                  "let whole from /[a-z]+:/ echo xyz: 1\necho $whole\n")
    assert "\n8192\n" in out and "\nxyz:\n" in out, out
    for text, why in (("echo $nowhere\n", "$nowhere is not set"), ("echo ${x\n", "'${' is not followed by a name and '}'"),
                      ("echo $hash\n", "$hash is not set"), ("let qp = 1\n", "let: qp: the console sets this one itself"),
                      ("let 1a = 1\n", "let: 1a: a name has letters"), (f"let a = {'x' * 256}\n", "more than 255 octets"),
                      ("let n from /(/ help\n", "let: not a regular expression"), ("let n from x help\n", "let: x is not in: "),
                      (f"let a = {'x' * 250}\nrepeat 1 echo {'$a' * 10}\n", "too long with its variables"),
                      ("echo " + "x" * 600 + "\n", "the line is too long")):
        _, err = says(text, rc=1)
        assert why in err and re.match(r"s\.cli:\d+: ", err), (text, err)
    for bad in ("x", "1=2", "qp=3", "=4"):
        rc, _, err = alone("-D", bad)
        assert rc == 2 and f"-D '{bad.split('=')[0]}" in err, (bad, err)


def test_expect():
    says("expect one echo one\nexpect \"one two\" echo one two\nexpect /^o.e$/ echo one\nexpect not /^two/ echo one two\n"
         "expect fail echo $nowhere\nexpect fail nonsense\nexpect fail post write\nexpect fail dump 7 0 1\n"
         "expect \"there is no region 7\" expect fail dump 7 0 1\nlet t = one\nexpect $t echo one\nexpect /^${t}$/ echo one\n"
         "expect not one expect /t[w]o/ echo two\nexpect /a\\/b/ echo a/b\n")
    for text, why in (("expect two echo one", "expect: expected two, got: one"),
                      ("expect not one echo one", "expect: expected no one, got: one"),
                      ("expect /^x$/ help quit", "expected /^x$/, got:   quit: close everything and leave |       example: quit"),
                      ("expect fail echo one", "expect: it must fail and did not"), ("expect one", "expect: no command behind one"),
                      ("expect fail", "bad arguments|no command behind fail"), ("expect \"one echo one", "no closing quote"),
                      ("expect one nonsense", "no such command"), ("expect one dump 7 0 1", "there is no region 7"),
                      ("expect /(/ echo one", "not a regular expression"), ("expect \"a\"b echo ab", "no blank behind"),
                      ("expect $nowhere echo one", "$nowhere is not set")):
        out, err = says(text + "\n", rc=1)
        assert any(w in err for w in why.split("|")) and err.startswith("s.cli:1: "), (text, out, err)
        assert text in err.split("\n")[0], (text, err)


def test_wait():
    conf = loop()
    text = ("source {}\nwait until show qps contains /qp $near: RTS/\npost send $near one\npost send $near two\n"
            "wait for /received .*: two/\nwait for /received .*: one/\nexpect fail wait for /received .*: one/ timeout 0.05\n"
            "expect fail wait until show qps contains ERROR timeout 0.05\nexpect \"expected\" expect fail expect x echo y\n")
    rc, out, err = run([app("weft-console"), "-c", conf, "-f", script("w.cli", text.format(os.path.join(EXAMPLES, "lib/pair.cli")))])
    assert rc == 0, out + err
    assert "no event or completion with /received .*: one/ within 0.05 s" in out and "no ERROR within 0.05 s, got: qp 1: RTS" in out, out
    for line, why in (("wait until echo x", "'contains TEXT' is missing"), ("wait until echo x contains y timeout x", "timeout SECONDS"),
                      ("wait for x soon", "timeout SECONDS"), ("wait for x timeout 0", "timeout SECONDS"),
                      ("wait until nonsense contains x", "no such command"), ("wait for", "bad arguments")):
        _, err = says(line + "\n", rc=1)
        assert why in err, (line, err)


def test_source():
    """Paths are taken from the folder of the script that names them, and the message has the line of each file."""
    script("d/inner.cli", "# inner\n\ndump 7 0 1\necho not reached\n")
    script("d/outer.cli", "source inner.cli\n")
    out, err = says("echo begin\nsource d/outer.cli\necho not reached\n", rc=1)
    d = path("d")
    assert err == f"s.cli:2: {d}/outer.cli:1: {d}/inner.cli:3: there is no region 7; 'show regions' lists them: dump 7 0 1\n", err
    assert "not reached" not in out, out
    says("expect fail source d/outer.cli\nlet x = 1\n")
    script("me.cli", "source me.cli\n")
    _, err = says("source me.cli\n", rc=1)
    assert "source: more than 8 files within each other" in err and err.count("me.cli:1") == 7 and err.count("\n") == 1, err
    _, err = says("source nowhere.cli\n", rc=1)
    assert "s.cli:1: source: " in err and "cannot be read: No such file" in err, err
    script("quits.cli", "quit\n")
    out, _ = says("source quits.cli\necho not reached\n")
    assert "not reached" not in out, out
    _, err = says("expect x " * 20 + "echo x\n", rc=1)
    assert "more than 16 commands within each other" in err, err


def test_repeat():
    out, _ = says("repeat 3 echo <$round>\nexpect fail repeat 5 dump 7 0 $round\nexpect 1 echo $round\n")
    assert "<1>\n<2>\n<3>\n" in out and out.count("there is no region 7") == 1, out
    _, err = says("repeat 0 echo x\n", rc=1)
    assert "repeat: the number must be from 1 to 1000000000" in err, err


def test_interrupt():
    """SIGINT ends a script in the middle of a command, in order and with status 1."""
    for text in ("sleep 60000", "wait for x timeout 60", "wait until echo x contains y timeout 60", "repeat 1000000000 show drivers",
                 "expect fail sleep 60000", "source later.cli"):
        script("later.cli", "sleep 60000\n")
        p = subprocess.Popen([app("weft-console"), "--dev", "net_null0,no-rx=1", "--address", "10.0.0.1/24", "-f",
                              script("i.cli", f"echo begun\n{text}\necho not reached\n")],
                             stdout=open(path("i.out"), "w"), stderr=subprocess.PIPE, text=True)
        PROCS.append(p)
        end = time.monotonic() + 20
        while os.path.getsize(path("i.out")) == 0:
            assert time.monotonic() < end and p.poll() is None, text
            time.sleep(0.01)
        time.sleep(0.2)
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=20)[1]
        with open(path("i.out")) as f:
            out = f.read(1000)
        assert p.returncode == 1 and "interrupted" in err and "not reached" not in out, (text, out, err)
        # On a very busy machine the echo may not have ended.
        assert "i.cli:2: " in err or "i.cli:1: interrupted: echo" in err, (text, err)


def test_interrupt_between_lines():
    """SIGINT ends a console that waits for the next line of a pipe. In the background, where it is ignored, it does nothing."""
    args = [app("weft-console"), "--dev", "net_null0,no-rx=1", "--address", "10.0.0.1/24"]
    for ignored in (False, True):
        p = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL))
        PROCS.append(p)
        p.stdin.write("echo begun\n")
        p.stdin.flush()
        assert p.stdout.readline() == "begun\n"
        p.send_signal(signal.SIGINT)
        if not ignored:
            rc, err = p.wait(timeout=20), p.stderr.read()
            # The echo may not have ended yet, though its output is here; then it is what was interrupted.
            assert rc == 1 and re.search(r"stdin:(1: interrupted: echo begun|2: interrupted)$", err, re.M), (rc, err)
            p.stdin.close()
            continue
        out, _ = p.communicate("echo goes on\n", timeout=20)
        assert p.returncode == 0 and out == "goes on\n", out


def test_help():
    """Each command has a line of usage, an example that begins as it does, and a row in the documents."""
    docs = ""
    for name in ("console.md", "console-show.md"):
        if os.path.exists(os.path.join(DOCS, name)):
            with open(os.path.join(DOCS, name)) as f:
                docs += f.read().replace("\\|", "|")
    out, _ = says("help\n")
    assert all(len(line) < 80 for line in out.splitlines()), [line for line in out.splitlines() if len(line) >= 80]
    headings = [line for line in out.splitlines() if not line.startswith(" ")]
    assert headings[:3] == ["Looking", "Connections", "Memory and shared receive queues"] and "Scripts" in headings, headings
    out = out.replace(":\n      ", ": ")
    usages = [line[2:] for line in out.splitlines() if line.startswith("  ")]
    assert len(usages) > 40, out
    for usage in usages:
        verb = usage.split()[0].rstrip(":")
        for syntax in usage.split(": ")[0].split(", "):
            assert f"`{syntax}`" in docs or verb in ("show", "rates", "watch", "clear"), f"docs/console.md does not have `{syntax}`"
        shown, _ = says(f"help {verb}\n")
        lines = shown.replace(":\n      ", ": ").splitlines()
        at = lines.index("  " + usage)
        assert lines[at + 1].startswith(f"      example: {verb}"), (usage, lines[at:at + 2])
    out, err = says("nonsense\n", rc=1)
    assert "no such command" in err
    _, err = says("repeat x\n", rc=1)
    assert "usage: repeat N COMMAND" in err, err


def test_nothing_to_show():
    """One line says that there is nothing of a kind."""
    out, _ = says("show windows\nshow srqs\nshow logs\nshow rpcs\nshow traffic\nshow injected\n")
    assert out.splitlines()[-6:] == ["no windows", "no srqs", "no logs", "no rpc clients", "no traffic", "no faults"], out


def test_rights():
    out, _ = says("register memory 4096 read,verify\nshow regions\nregister memory 4096 write\nshow regions\n")
    assert "rights read verify, " in out and "rights write, " in out, out
    _, err = says("register memory 4096 read,fly\n", rc=1)
    assert "'fly' is no right; they are read, write, atomic, flush, visible, verify" in err, err
    _, err = says("register memory 4096 flush\n", rc=1)
    assert "register: " in err, err


def both(text, rc=0):
    """Run a script behind lib/pair.cli; its output."""
    got, out, err = run([app("weft-console"), "-c", loop(),
                         "-f", script("b.cli", f"source {os.path.join(EXAMPLES, 'lib/pair.cli')}\n{text}")])
    assert got == rc, (text, got, out, err)
    return out + err


def refused(*lines):
    """Lines of a script, from pairs of a line and of what its error says."""
    return "".join(f'expect "{why}" expect fail {line}\n' for line, why in lines)


def test_work_requests():
    """Each kind of work request does at the peer what its name says; with every option that it may have."""
    both("fill $local 0 64 abcdefgh\npost atomic-write $near $far_stag 0 0x0000000100000001 fence\nwait 5000\n"
         "wait until dump $far 0 8 contains \"00 00 00 01 00 00 00 01\"\n"
         # Two fields of 32 bits in the peer's byte order: no carry from one into the other.
         "fill $far 8 8 A\npost masked-fetch-add $near $far_stag 8 0xffffffffffffffff 0x8000000080000000 fence\nwait 5000\n"
         "expect 0x4141414141414141 echo $was\nexpect \"40 41 41 41 40 41 41 41\" dump $far 8 8\n"
         # Only the low octet is compared, only the next one is stored.
         "post masked-cmp-swap $near $far_stag 8 0x40 0x4300 0xff 0xff00\nwait 5000\n"
         "expect \"40 43 41 41 40 41 41 41\" dump $far 8 8\n"
         "post masked-cmp-swap $near $far_stag 8 0x41 0x4400 0xff 0xff00\nwait 5000\n"
         "expect \"40 43 41 41 40 41 41 41\" dump $far 8 8\n"
         "post write-imm $near $local 0 8 $far_stag 64 0x99 solicited inline\n"
         "wait for /immediate data .solicited.: 0x0000000000000099/\nexpect 0x0000000000000099 echo $imm\n"
         "wait until dump $far 64 8 contains abcdefgh\n"
         "post imm $near 7 solicited\nwait for /immediate data .solicited.: 0x0000000000000007/\n"
         "post send $near hello solicited inline fence\nwait for /received 5 bytes .solicited.: hello/\n"
         "post verify $near $far_stag 64 8 fence\nwait 5000\npost verify $near $far_stag 64 8 $hash fence\nwait 5000\n"
         "post verify $near $far_stag 64 8 x3\n")
    # An integer is added to as often as the option says, and a Verify has its own place each time.
    out = both("post fetch-add $near $far_stag 0 1 x1000\npost fetch-add $near $far_stag 0 0\nwait 5000\n")
    assert "post: 1000 posted, 1000 completed" in out and "it was 0x3e8\n" in out, out
    both(refused(("post write $near $local 0 257 $far_stag 0 inline", "Invalid argument"),
                 ("post send $near x loud", "'loud' is no option; they are solicited, fence, inline, unsignaled, stream"),
                 ("post send $near x x0", "'x0' is no option"), ("post send $near x x2y", "'x2y' is no option"),
                 ("post verify $near $far_stag 0 8 abc", "not a string of hexadecimal octets"),
                 ("post write $near $local 65536 1 $far_stag 0", "region 1 has 65536 bytes"),
                 ("post write $near one 0 1 $far_stag 0", "'one' is no region")))
    # The usage is that of this kind of post alone.
    out = both("post invalidate $near\n", rc=1)
    assert "usage: post invalidate QP STAG" in out and "post write" not in out, out


def test_chain():
    out = both("chain begin\npost send $near a x2\nexpect \"takes no others\" expect fail post send $remote b\n"
               "expect \"64 requests at most\" expect fail post send $near c x63\npost send $near d\nchain post\nwait 5000\n"
               "wait for /received 1 bytes: a/\nwait for /received 1 bytes: a/\nwait for /received 1 bytes: d/\n"
               "expect fail chain post\nchain begin\nexpect \"one has begun\" expect fail chain begin\npost send $near e\nchain drop\n"
               # The chain of a connection goes with it.
               "chain begin\npost send $near f x64\ndisconnect $near\nexpect \"no requests\" expect fail chain post\n"
               "source " + os.path.join(EXAMPLES, "lib/connect.cli") + "\n"
               "chain begin\npost send $near g unsignaled\npost send $near h\nchain post\nwait 5000\nwait for /received 1 bytes: h/\n"
               # More than all the places of requests under way, all of them free again.
               "post send $near i x1000 unsignaled\n")
    assert "wr 1 in the chain\n" in out and "wr 1 posted\n" in out, out
    assert not re.search(r"send: success.*\n.*received 1 bytes: [ef]", out), out


def test_commit():
    both("fill $local 0 4096 abc\npost write $near $local 0 64 $far_stag 64\nrange add $local 0 64 $far_stag 64 written verify\n"
         "range add $local 64 8 $far_stag 128 inline verify\ncommit $near $far_stag 0 0x1122334455667788 visible fence\n"
         "expect \"commit: success\" wait 5000\nexpect \"11 22 33 44 55 66 77 88\" dump $far 0 8\nexpect abcabc dump $far 64 64\n"
         # Without a range, the word alone.
         "commit $near $far_stag 0 1 visible\nwait 5000\nexpect \"00 00 00 00 00 00 00 01\" dump $far 0 8\n"
         "expect \"Invalid argument\" expect fail commit $near no-word\n"
         "range add $local 0 8 $far_stag 0\nrange drop\nexpect \"Invalid argument\" expect fail commit $near no-word visible\n"
         "repeat 32 range add $local 0 8 $far_stag 4096\nexpect \"32 at most\" expect fail range add $local 0 8 $far_stag 0\n"
         "commit $near no-word no-flush\nexpect \"commit: success\" wait 5000\n"
         "chain begin\nexpect \"a chain has begun\" expect fail commit $near $far_stag 0 1\nchain drop\n"
         # The step that was refused is named, and the word keeps its value.
         "range add $local 0 8 $far_stag 65536\ncommit $near $far_stag 0 2 visible\n"
         "expect /at the (write|flush) of range 0/ expect fail wait 5000\nexpect \"00 00 00 00 00 00 00 01\" dump $far 0 8\n")
    out = both(refused(("range add $local 0 8 $far_stag 0 soon", "'soon' is none of inline, written, verify"),
                       ("range add $local 0 65537 $far_stag 0", "region 1 has 65536 bytes"),
                       ("commit $near $far_stag 0 1 now", "'now' is none of no-flush, visible, region, fence"),
                       ("commit 9 no-word", "there is no qp 9")) + "commit $near\n", rc=1)
    assert "usage: commit QP no-word" in out, out


def test_log():
    """Appends on one target of two; a target that is lost, a second writer with its STag, and what is refused."""
    mem = path("log.mem")
    ask = (f"register file {mem}.a 65536\nlet a = $stag\nregister file {mem}.b 65536\nlet b = $stag\nlisten 7471\n")
    text = ask + ("expect \"there is no log 1\" expect fail log open 1\nexpect \"1 to 8 targets\" expect fail log create 2 3\n"
                  "log create 2 1\n"
                  "expect \"not open\" expect fail log open $log\nexpect \"not open\" expect fail log append $log x\n"
                  "expect \"not open\" expect fail log read $log\nexpect \"no such target\" expect fail log leave $log 0\n"
                  "log join $log 10.0.0.2 7471 $a 0 65536\nexpect fail log join $log 10.0.0.2 7471 $a 0 65536\n"
                  "log join $log 10.0.0.2 7471 $b 0 65536\nlog open $log\nexpect \"opened already\" expect fail log open $log\n"
                  "repeat 300 log append $log number $round\nwait 20000\n"
                  "expect \"300 records read\" log read $log\nexpect \"number 300\" log read $log $record\n"
                  "expect \"number 300\" echo $recv\n"
                  "log leave $log 0\nwait for /target 0 is lost/\nlog append $log alone\nexpect \"is durable\" wait 5000\n"
                  "log trim $log 200\nexpect not \"number 198$\" log read $log\nexpect fail log trim $log 100000\n"
                  "expect /1: open, epoch 1, records 20[0-9] to 302 durable/ show logs\nexpect \"no record has this number\" show events\n"
                  "log leave $log 1\nexpect \"the peer sent no grant; give STAG OFFSET BYTES\" expect fail log join $log 10.0.0.2 7471\n")
    rc, out, err = run([app("weft-console"), "-c", loop(), "-f", script("l.cli", text)])
    assert rc == 0, out + err
    _, err = says(refused(("log create 9 1", "1 to 8 targets"), ("log join 1 nowhere 7471", "not an IPv4 or IPv6 address"))
                  + "log create\nexpect fail log join $log 10.0.0.9 7471 1 0 65536\nlog trim\n", rc=1)
    assert "usage: log trim LOG RECORD" in err, err


def test_rpc():
    _, err = says(refused(("rpc null 1 1 1", "there is no rpc client 1"), ("rpc disconnect 9", "there is no rpc client 9"),
                          ("rpc serve 0", "from 1 to 65535"), ("rpc connect nowhere 1", "not an IPv4 or IPv6 address"),
                          ("rpc connect 10.0.0.9 7472", "no connection")) + "rpc call 1\n", rc=1)
    assert "usage: rpc call CLIENT PROGRAM" in err, err
    text = ("rpc serve 7472\nlisten 7471\nrpc connect 10.0.0.2 7472\nlet one = $rpc\nrpc connect 10.0.0.2 7472\nlet two = $rpc\n"
            # More calls than may be under way at once.
            "repeat 200 rpc call $one 0x20004543 1 1 number $round\nwait 5000\nwait for /number 200/\n"
            "expect /rpc 1: connected, version 2, calls 200, replies 200/ show rpcs\n"
            f"rpc call $two 0x20004543 1 1 {'y' * 250}\nexpect \"256 bytes\" wait 5000\n"
            "expect \"eight digits\" expect fail rpc call $two 0x20004543 1 1 0x123\n"
            "rpc disconnect $one\nexpect \"no rpc client 1\" expect fail rpc null $one 0x20004543 1\n"
            "rpc null $two 0x20004543 1\nexpect \"procedure 0: 0 bytes\" wait 5000\nexpect void echo $reply\n"
            "rpc connect 10.0.0.2 7472\nexpect 1 echo $rpc\nrpc null $rpc 0x20004543 1\nwait 5000\n")
    rc, out, err = run([app("weft-console"), "-c", loop(), "-f", script("r.cli", text)])
    assert rc == 0, out + err


def test_rpc_of_a_target():
    """The export program of a weft-target: its NULL, and its list of exports."""
    t = Target("rpct", {"blue": {"size": "4M", "persist": "volatile", "rights": "read,write,verify"}}).start()
    text = ("rpc connect 10.0.0.1 7471\nrpc null $rpc 0x2057EF70 1\nexpect \"procedure 0: 0 bytes\" wait 5000\n"
            "rpc call $rpc 0x2057EF70 1 1\nexpect blue wait 5000\nexpect /^00000001/ echo $reply\n"
            "rpc call $rpc 0x2057EF70 1 4 no such export\nwait 5000\nexpect /^00000002/ echo $reply\n")
    rc, out, err = run([app("weft-console"), *t.client_args(), "-f", script("rt.cli", text)])
    assert rc == 0, out + err


def test_windows():
    """What a window or a fast region refuses, and who may invalidate it."""
    out = both("register memory 4096 read\nlet readable = $region\nallocate window\n"
               "post bind $remote $window $readable 0 4096 read,verify\nexpect fail wait 5000\n"
               "wait for /qp $remote: disconnected/\nexpect \"never bound|not bound\" show windows\n", rc=1)
    assert "bind: " in out, out
    both("allocate window\npost bind $remote $window $far 0 64 read\nlet part = $stag\nwait 5000\n"
         # No right to write.
         "post write $near $local 0 8 $part 0\nwait for /qp $near: Terminate received: .*/\n"
         # The binding ended with the stream.
         "wait for /qp $remote: disconnected/\nwait until show windows contains \"not bound\"\n"
         "free window $window\nexpect \"there is no window 1\" expect fail free window 1\n")
    both("allocate window\npost bind $remote $window $far 0 64 read\nlet part = $stag\nwait 5000\n"
         "expect fail post bind $remote $window $far 64 1 fly\nexpect fail post bind $remote $window $far 65530 64 read\n"
         "chain begin\npost bind $remote $window $far 0 64 read\nexpect \"given an STag already\" expect fail "
         "post bind $remote $window $far 0 64 read\nexpect \"the chain binds\" expect fail free window $window\nchain drop\n"
         # Any region of a domain with several QPs is not the peer's to invalidate.
         "post send-invalidate $near $far_stag mine\nwait for /qp $near: Terminate received: .*cannot be invalidated/\n")
    both("expect \"was registered as a whole\" expect fail post fast-register $near $local 0 64 read\n"
         "register fast 4096 " + path("fast.file") + "\nlet fast = $region\n"
         "post fast-register $near $fast 0 4096 read,write,flush,verify\nwait 5000\nlet there = $stag\n"
         "post send $near $there\nwait for /received .*: $there/\n"
         "post write $remote $local 0 4096 $there 0\npost flush $remote $there 0 4096 p\nwait 5000\n"
         "expect \"given an STag\" expect fail post fast-register $near $fast 0 64 read x2\nderegister $fast\n")
    assert os.path.getsize(path("fast.file")) == 4096


def test_srq():
    says(refused(("create srq 0", "the depth must be from 1 to 1024"), ("create srq 1025", "the depth must be"),
                 ("destroy srq 1", "there is no srq 1"), ("listen 7471 srq 1", "there is no srq 1"),
                 ("connect 10.0.0.9 7471 srq 3", "there is no srq 3"), ("arm srq 1 1", "there is no srq 1"))
         + "create srq 4\n" + refused(("arm srq 1 5", "more than the depth"), ("post receives 1 5", "4 receives posted")))
    says("create srq 4\npost receives 1 4\narm srq 1 2\ndestroy srq 1\ncreate srq 4\nexpect \"posted 0, limit 0\" show srqs\n"
         "arm srq 1 1\nlisten 7471 srq 1\nexpect \"a listener gives it\" expect fail destroy srq 1\n")
    both("create srq 4\nconnect 10.0.0.2 7471 srq $srq\nexpect \"a QP uses it\" expect fail destroy srq $srq\npost send $qp first\n"
         "wait for /received 5 bytes: first/\npost receives $srq 2\npost send $accepted back x2\n"
         "wait for /qp $qp: received 4 bytes: back/\nwait for /qp $qp: received 4 bytes: back/\n"
         "abort $qp\nwait for /qp $accepted: disconnected/\ndestroy srq $srq\n")


def test_no_history():
    """A script leaves no history."""
    home = path("home")
    os.makedirs(home, exist_ok=True)
    env = {**os.environ, "HOME": home}
    for var in ("XDG_STATE_HOME", "WEFT_CONSOLE_HISTORY"):
        env.pop(var, None)
    rc, _, err = run([app("weft-console"), "--dev", "net_null0,no-rx=1", "--address", "10.0.0.1/24",
                      "-f", script("n.cli", "echo x\n")], env=env)
    assert rc == 0 and os.listdir(home) == [], (err, os.listdir(home))


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
