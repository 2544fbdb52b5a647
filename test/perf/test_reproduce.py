#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run files and weft-perf reproduce: the hash, both hosts' facts, the same options again, what differs, the verdict, every wrong
file. test_reproduce.py BUILD [CASE...]"""
import hashlib
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from perf_docs import bandwidth, path, weft_perf, write  # noqa: E402
from weft_e2e import PROCS, app, main, memif, run  # noqa: E402

FACTS = ("host", "kernel", "architecture", "cpu", "cpus", "version", "build")


def server(sock):
    p = subprocess.Popen([app("weft-perf"), "--server", "--dev", memif(0, "server", sock), "--address", "10.0.0.1/24"],
                         stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    PROCS.append(p)
    assert "waiting" in p.stderr.readline()
    return p


def config(name, sock):
    with open(path(name), "w", encoding="utf-8") as f:
        f.write(f"# the client's\n[port p0]\ndev = {memif(0, 'client', sock)}\naddress = 10.0.0.2/24\n")
    return path(name)


def measured(name, *args):
    """A run file of weft-perf."""
    rc, _, err = weft_perf(*args, "--out", path(name), "10.0.0.1")
    assert rc == 0, err
    return path(name)


def load(file):
    with open(file, encoding="utf-8") as f:
        return json.load(f)


def sealed(doc, name):
    """Write a document with the hash that weft-perf would give it."""
    doc = {k: v for k, v in doc.items() if k != "sha256"}
    text = json.dumps(doc, indent=2) + "\n"
    with open(path(name), "w", encoding="utf-8") as f:
        f.write("{\n" + f'  "sha256": "{hashlib.sha256(text.encode()).hexdigest()}",\n' + text[2:])
    return path(name)


def synthetic(**more):
    """A document of one run, whose server does not exist."""
    return {"version": "0.1.0", "schema": 2, "started": "2026-01-01T00:00:00Z", "command": ["weft-perf", "write", "-s", "64", "10.0.0.1"],
            "results": [bandwidth(100.0)], **more}


def reproduced(*args, status=0):
    rc, out, err = weft_perf("reproduce", *args, "--json")
    assert rc == status, (rc, out, err)
    return json.loads(out)


def refused(why, *args, status=1):
    """One line, which has `why`, and nothing else."""
    rc, out, err = weft_perf("reproduce", *args)
    assert rc == status and why in err and out == "", (args, rc, out, err)
    assert err.count("\n") == 1 and err.startswith("weft-perf reproduce: "), (args, err)


def test_run_file():
    """Command, configuration, facts of both hosts and the hash, which sed and sha256sum find as well."""
    sock = path("file.sock")
    server(sock)
    conf = config("file.ini", sock)
    for args in (["write", "-s", "512", "-n", "2000"], ["commit", "--lat", "-n", "100"], ["rpc", "-n", "500"],
                 ["mix", "--mix", "write:1,read:2", "-n", "1000"]):
        name = f"file.{args[0]}.json"
        doc = load(measured(name, *args, "-c", conf))
        assert doc["command"] == [app("weft-perf"), *args, "-c", conf, "--out", path(name), "10.0.0.1"], doc
        with open(conf, encoding="utf-8") as f:
            assert doc["configuration"] == {"file": conf, "content": f.read()}, doc
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", doc["started"]), doc
        # Both sides are this program on this host.
        assert all(doc["machine"][k] == doc["server_machine"][k] for k in FACTS), doc
        assert doc["machine"]["host"] == os.uname().nodename[:47] and re.fullmatch("[0-9a-f]{40}", doc["machine"]["build"]), doc
        rc, out, _ = run(["sh", "-c", 'sed 2d "$0" | sha256sum', path(name)])
        assert rc == 0 and out.split()[0] == doc["sha256"], (out, doc["sha256"])
    rc, out, err = weft_perf("write", "-n", "500", "--json", "-c", conf, "10.0.0.1")
    lines = out.splitlines(keepends=True)
    assert rc == 0 and hashlib.sha256("".join(lines[:1] + lines[2:]).encode()).hexdigest() == json.loads(out)["sha256"], err


def test_rounds():
    """--rounds measures all sizes so often, and compare takes them for rounds."""
    sock = path("rounds.sock")
    server(sock)
    port = ["--dev", memif(0, "client", sock), "--address", "10.0.0.2/24"]
    doc = load(measured("rounds.json", "read", "-a", "-n", "100", "--rounds", "2", *port))
    got = [(r["round"], r["bytes"]) for r in doc["results"]]
    assert got == [(n, 2 ** i) for n in (1, 2) for i in range(1, 21)], got
    rc, out, err = weft_perf("compare", path("rounds.json"), measured("other.json", "read", "-a", "-n", "100", *port), "--json")
    assert rc == 0 and {(r["rounds_a"], r["rounds_b"]) for r in json.loads(out)["rows"]} == {(2, 1)}, (rc, out, err)
    rc, _, err = weft_perf("write", "--rounds", "2", "--run_infinitely", "10.0.0.1")
    assert rc == 2 and "--rounds" in err, err


def test_again():
    """The same options again, the configuration from the file, a run file of the new run, and no difference."""
    sock = path("again.sock")
    server(sock)
    conf = config("again.ini", sock)
    for args, result in ((["send", "-s", "512", "-q2", "-r", "64", "--tx-depth=32", "-n", "2000"],
                          {"test": "send", "bytes": 512, "qps": 2, "rx_depth": 64, "depth": 32, "iterations": 4000}),
                         (["read", "--lat", "-n", "200", "--dur", "3", "--rate", "500"], {"mode": "latency", "rate_asked": 500.0}),
                         (["mix", "--mix", "write:7,fetch-add:3", "--sizes", "64:1,200:2", "-n", "1000"],
                          {"test": "mix", "sizes": "64:1,200:2", "mix": "write:7,fetch-add:3", "iterations": 1000}),
                         (["rpc-read", "--lat", "-s1K", "--rpc-version", "1", "-n", "200"], {"bytes": 1024, "rpc_version": 1}),
                         (["write", "-n", "300", "--csv", "-p", "18515"], None)):
        args = [a for a in args if a != "--csv"]
        if "--dur" in args:
            del args[args.index("-n"):args.index("-n") + 2]
        first = measured(f"again.{args[0]}.json", *args, "-c", conf)
        new = path(f"again.{args[0]}.new.json")
        got = reproduced(first, "--out", new)
        assert got["differences"] == [] and len(got["rows"]) == 1, got
        assert got["rows"][0]["verdict"] == "too few rounds" and got["rows"][0]["ratio"] > 0, got
        a, b = load(first)["results"][0], load(new)["results"][0]
        for key, want in (result or {}).items():
            assert a[key] == want and b[key] == want, (key, a, b)
        # what was made again can be made again
        assert reproduced(new)["differences"] == []
    # The configuration is gone, then another; its text is in the run file.
    first = measured("conf.json", "write", "-s", "64", "-n", "1000", "-c", conf)
    with open(conf, "a", encoding="utf-8") as f:
        f.write("[weft]\nnonsense = 1\n")
    got = reproduced(first)["differences"]
    assert [(d["what"], d["now"]) for d in got] == [(conf, "another text, not used")], got
    os.unlink(conf)
    got = reproduced(first)["differences"]
    assert [d["what"] for d in got] == [conf] and "not there" in got[0]["now"], got
    # Another port, TCP port, number of rounds and host in place of the earlier ones: the command is what differs.
    got = reproduced(first, "--dev", memif(0, "client", sock), "--address", "10.0.0.3/24", "-p", "18515", "--rounds", "3", "10.0.0.1")
    assert [d["what"] for d in got["differences"]] == ["command"], got
    assert "--rounds=3" in got["differences"][0]["now"] and "--config" in got["differences"][0]["then"], got
    assert "--config" not in got["differences"][0]["now"] and got["rows"][0]["rounds_b"] == 3, got
    rc, out, err = weft_perf("reproduce", first)
    assert rc == 0 and "BW average" in out and "differs: " in out and "a verdict takes 5 rounds" in out, (rc, out, err)
    refused("exists", first, "--out", first)


def slow(doc, factor=1000):
    """Make the earlier run so much slower that the verdict does not depend on what the machine does now."""
    for r in doc["results"]:
        r.update(average_mb_s=r["average_mb_s"] / factor, mmsg_s=r["mmsg_s"] / factor, seconds=r["seconds"] * factor)
    return doc


def test_differences_and_verdict():
    """Facts that differ are named with both values. The exit status is that of the comparison, and of --expect."""
    sock = path("differ.sock")
    server(sock)
    args = ["write", "-s", "64", "-n", "1000", "--rounds", "5", "--dev", memif(0, "client", sock), "--address", "10.0.0.2/24"]
    doc = slow(load(measured("differ.json", *args)))
    doc["machine"].update(cpu="Another\x1b[2J CPU", kernel="1.0")
    doc["server_machine"].update(version="0.0.9", build="00" * 20)
    got = {d["what"]: (d["then"], d["now"]) for d in reproduced(sealed(doc, "facts.json"))["differences"]}
    assert set(got) == {"cpu of the client", "kernel of the client", "version of the server", "build of the server"}, got
    assert got["version of the server"][0] == "0.0.9" and got["kernel of the client"] == ("1.0", os.uname().release[:47]), got
    out = weft_perf("reproduce", path("facts.json"))[1]
    assert "version of the server" in out and "\x1b" not in out and "?[2J CPU" in out, out
    del doc["server_machine"]
    got = [d["what"] for d in reproduced(sealed(doc, "facts.json"))["differences"]]
    assert "facts of the server" in got, got
    for factor, status, verdict in ((0.001, 3, "slower"), (1000, 0, "faster")):
        doc = slow(load(path("differ.json")), factor)
        got = reproduced(sealed(doc, "verdict.json"), status=status)
        assert [r["verdict"] for r in got["rows"]] == [verdict] and got["differences"] == [], got
    got = reproduced(sealed(doc, "verdict.json"), "--metric", "seconds:lower", "--metric", "mmsg_s")
    assert {r["metric"] for r in got["rows"]} == {"seconds", "mmsg_s"}, got
    doc = load(path("differ.json"))
    doc["command"][2:2] = ["--expect", "bw>9000G"]
    rc, out, err = weft_perf("reproduce", sealed(doc, "expect.json"))
    assert rc == 3 and "does not meet" in err and "average_mb_s" in out, (rc, out, err)


def test_bad_files():
    """Each wrong file: one line that says what, and nothing is run."""
    good = sealed(synthetic(), "good.json")
    with open(good, "rb") as f:
        text = f.read()
    cases = {"was changed": text.replace(b'"seconds": 0.5', b'"seconds": 0.6'),
             "the file ends within": text[:len(text) // 2], "is empty": b"", "is not JSON": b"test,mode\nwrite,bandwidth\n",
             "has no hash": text.replace(text.split(b"\n")[1] + b"\n", b""),
             "hash is that of another": text.replace(b'"sha256": "', b'"sha256": "0')[:-1] + b"\n"}
    cases["has no hash in its second line"] = json.dumps(json.loads(text)).encode()
    for why, data in cases.items():
        if why == "hash is that of another":
            line = text.split(b"\n")[1]
            data = text.replace(line, line[:13] + bytes([line[13] ^ 1]) + line[14:])
        with open(path("bad.json"), "wb") as f:
            f.write(data)
        refused(why, path("bad.json"))
    for why, doc in (("schema 3, of a newer weft-perf", synthetic(schema=3)), ("is of weft-perf sweep", synthetic(sweep={"plan": "p"})),
                     ("has no command", synthetic(command=["weft-perf", 5])), ("has no command", synthetic(command=[])),
                     ("has no command or configuration", synthetic(configuration={"file": "x.ini"})),
                     ("lacks the option '--teleport'", synthetic(command=["weft-perf", "write", "--teleport", "10.0.0.1"])),
                     ("no test 'push'", synthetic(command=["weft-perf", "push", "10.0.0.1"])),
                     ("no test ''", synthetic(command=["weft-perf", "-s", "64"])),
                     ("has no list \"results\"", {"schema": 2}), ("has no result", synthetic(results=[])),
                     ("the configuration in it, of x.ini:2", synthetic(command=["weft-perf", "write", "-c", "x.ini", "10.0.0.1"],
                                                                       configuration={"file": "x.ini", "content": "[weft]\nnew = 1\n"}))):
        refused(why, sealed(doc, "bad.json"))
    refused("give either --config or --dev", sealed(synthetic(command=["weft-perf", "write", "10.0.0.1"]), "bad.json"), status=2)
    refused("--server takes no", sealed(synthetic(command=["weft-perf", "--server", "write", "10.0.0.1"]), "bad.json"), status=2)
    refused("--iters or --duration", sealed(synthetic(command=["weft-perf", "write", "-n1", "-D1", "10.0.0.1"]), "bad.json"), status=2)
    refused("No such file", path("missing.json"))
    refused("is a directory", path("."))
    refused("has no hash", write("old.json", [bandwidth(1.0)]))
    log = synthetic(command=["weft-perf", "log-append", "weft://10.0.0.1/a", "weft://10.0.0.1/b"])
    refused("no HOST can take their place", sealed(log, "log.json"), "10.0.0.9")
    refused("run file is needed", status=2)
    refused("--rounds", good, "--rounds", "0", status=2)
    refused("unknown option", good, "--lat", status=2)
    refused("--dev needs --address", good, "--dev", "net_null0", status=2)
    assert "Exit status" in weft_perf("reproduce", "--help")[1]
    # compare does not guess the meaning of a newer document either
    rc, _, err = weft_perf("compare", write("a.json", [bandwidth(1.0)], schema=3), write("b.json", [bandwidth(1.0)]))
    assert rc == 1 and "newer weft-perf" in err and err.count("\n") == 1, err


def test_trust():
    """What a run file could use to load code or write files is refused without --trust, whether it stands in the configuration or in the
    command; the user's own port options are not."""
    pcap = f"net_pcap0,rx_pcap=/dev/null,tx_pcap={path('trust.pcap')}"
    ini = "[port p0]\ndev = {}\naddress = 10.0.0.2/24\n"
    memif_dev = memif(0, "client", path("trust.sock"))
    open(path("rx.pcap"), "wb").close()
    cases = (("eal of [weft], '-d /tmp/x.so'", "[weft]\neal = -d /tmp/x.so\n" + ini.format(memif_dev)),
             ("the device 'net_pcap0", ini.format(pcap.replace("/dev/null", path("rx.pcap")))),
             ("the device 'net_vhost0", ini.format("net_vhost0,iface=x")),
             ("the device 'virtio_user0", ini.format("virtio_user0,path=x")))
    for why, text in cases:
        for args in ([], ["--json"]):
            refused(why, sealed(synthetic(command=["weft-perf", "write", "-n1", "-c", "x.ini", "10.0.0.1"],
                                          configuration={"file": "x.ini", "content": text}), "trust.json"), *args)
        rc, out, err = weft_perf("reproduce", path("trust.json"))
        assert rc == 1 and "give --trust" in err and "runs:" not in err and not os.path.exists(path("trust.pcap")), (rc, out, err)
    doc = synthetic(command=["weft-perf", "write", "-n1", "--dev", pcap.replace("/dev/null", path("rx.pcap")), "--address", "10.0.0.2/24",
                             "10.0.0.1"])
    refused("the device 'net_pcap0", sealed(doc, "trust.json"))
    assert not os.path.exists(path("trust.pcap"))
    # with --trust the run begins, though without this device or a server it ends
    rc, out, err = run([app("weft-perf"), "reproduce", path("trust.json"), "--trust"], timeout=90)
    assert rc == 1 and "give --trust" not in err and "runs: weft-perf --iters=1 --dev=net_pcap0" in err, (rc, out, err)
    rc, out, err = run([app("weft-perf"), "reproduce", path("trust.json"), "--dev", "net_null0", "--address", "10.0.0.2/24"], timeout=90)
    assert rc == 1 and "give --trust" not in err and "runs: weft-perf --iters=1 --dev=net_null0" in err, (rc, out, err)
    assert "means" not in err and "trust its maker" in weft_perf("reproduce", "--help")[1]


def test_no_server():
    """A server that is not there: one line, and no file of the new run."""
    port = ["--dev", memif(0, "server", path("none.sock")), "--address", "10.0.0.2/24"]
    doc = synthetic(command=["weft-perf", "write", "-n", "10", *port, "10.0.0.1"])
    rc, out, err = run([app("weft-perf"), "reproduce", sealed(doc, "none.json"), "--out", path("none.new.json"), "--json"], timeout=90)
    assert rc == 1 and out == "" and "10.0.0.1:18515: write bandwidth" in err, (rc, out, err)
    assert len([x for x in err.splitlines() if x.startswith("weft-perf reproduce: ")]) == 1, err
    assert not os.path.exists(path("none.new.json"))


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
