#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Invalid input: one line on stderr names the error and its place, the exit status is right, and nothing is done."""
import concurrent.futures
import fcntl
import os
import pty
import random
import re
import select
import signal
import stat
import struct
import subprocess
import termios
import time

from weft_e2e import FAILED, PROCS, TMP, Skip, Target, app, main, make_file, memif, path, run, sha

MIB = 1 << 20


def conf(name, text):
    with open(path(name), "w") as f:
        f.write(text)
    return path(name)


PORT = "[port p0]\ndev = {dev}\naddress = 10.0.0.1/24\n"


def refused(cmd, *words, lines=1):
    """Check that cmd fails with one line that has all the words."""
    rc, out, err = run(cmd)
    assert rc != 0, f"accepted: {cmd}"
    got = err.strip().splitlines()
    assert len(got) == lines, f"{len(got)} lines instead of {lines}:\n{err}"
    for w in words:
        assert w.lower() in err.lower(), f"'{w}' is not in: {err}"
    return err


def target(name, text, *words):
    c = conf(name, text)
    return refused([app("weft-target"), "-c", c], *words)


def dev():
    return memif(0, "server", path("err.sock"))


def test_unknown_key():
    target("k.ini", "[weft]\nmemroy_mb = 64\n", "k.ini:2", "memroy_mb")
    target("s.ini", "[wfet]\nlcores = 0\n", "s.ini:", "wfet")
    target("j.ini", "[weft]\njunk without equals\n", "j.ini:2")
    target("d.ini", "[weft]\nmemory_mb = 64\nmemory_mb = 65\n", "d.ini:3", "memory_mb")


def test_secrets():
    """A device's secret is in no message, however the device is refused, and whatever is logged."""
    memif0 = f"net_memif0,role=client,socket={path('absent.sock')},socket-abstract=no,"
    for i, device in enumerate((memif0 + "secret=HUSH1", memif0 + "secret=HUSH1=2", memif0 + "secret=HUSH1,secret=HUSH2",
                                memif0 + "secret=HUSH" + 24 * "1", memif0 + "secret=HUSH1,id=x", memif0 + "bsize=64,secret=HUSH1",
                                "net_none0,secret=HUSH1", "net_none0,secret=HUSH1,",
                                memif0 + "secret = HUSH1", memif0 + "secret=[HUSH1]", memif0 + "secret=1 HUSH1",
                                f"net_bonding0,mode=1,slave=[{memif0}secret=HUSH1]",
                                f"net_bonding0,mode=1,slave=[{memif0}secret=HUSH1],x")):
        c = conf(f"secret{i}.ini", "[weft]\nlog_level = weft.*:debug\n" + PORT.format(dev=device))
        for cmd in ([app("weft-target"), "-c", c], [app("weft-target"), "--check", "-c", c],
                    [app("weft-ping"), "-s", "-P", "--dev", device, "--address", "10.0.0.1/24"],
                    [app("weft-ping"), "-s", "-P", "--config", c]):
            rc, out, err = run(cmd)
            assert rc != 0 or "--check" in cmd, f"accepted: {cmd}"
            assert "HUSH" not in out + err, f"{cmd}:\n{out}{err}"


def test_bad_values():
    target("v1.ini", PORT.format(dev=dev()).replace("10.0.0.1/24", "10.0.0.300/24"), "v1.ini:3", "address")
    target("v2.ini", PORT.format(dev=dev()) + "[export e]\npath = /tmp/x\nsize = 12Q\n", "v2.ini:6", "size")
    target("v3.ini", PORT.format(dev=dev()) + "mtu = 1\n", "v3.ini:4", "mtu")


def test_missing_file():
    refused([app("weft-target"), "-c", path("no-such.ini")], "no-such.ini")


def test_missing_export_path():
    target("p.ini", PORT.format(dev=dev()) + f"[export e]\npath = {TMP}/no/such/dir/x\nsize = 16M\n",
           f"{TMP}/no/such/dir/x")


def test_unwritable_export_path():
    if os.geteuid() == 0:
        # Root may write to everything but a folder. A folder must be refused just as clearly.
        target("u.ini", PORT.format(dev=dev()) + f"[export e]\npath = {TMP}\nsize = 16M\n", TMP)
        return
    p = path("ro.exp")
    with open(p, "wb") as f:
        f.truncate(16 * MIB)
    os.chmod(p, stat.S_IRUSR)
    target("u.ini", PORT.format(dev=dev()) + f"[export e]\npath = {p}\nsize = 16M\n", p)


def test_foreign_file_is_never_overwritten():
    p = make_file("foreign.exp", 16 * MIB, 7)
    before = sha(p)
    target("f.ini", PORT.format(dev=dev()) + f"[export e]\npath = {p}\nsize = 16M\n", p, "magic")
    assert sha(p) == before


def test_other_version_is_never_overwritten():
    t = Target("ov", {"demo": {"path": path("ov.exp"), "size": "16M"}}).start()
    t.push(make_file("ov.src", 100000, 3), "demo")
    assert t.term() == 0
    with open(path("ov.exp"), "r+b") as f:
        f.seek(8)
        f.write((9).to_bytes(4, "big"))
    before = sha(path("ov.exp"))
    refused([app("weft-target"), "-c", t.conf], path("ov.exp"), "version")
    assert sha(path("ov.exp")) == before


def test_port_that_cannot_be_opened():
    target("o.ini", PORT.format(dev="net_af_packet0,iface=no-such-if") +
           f"[export e]\npath = {path('o.exp')}\nsize = 4M\n", "p0", "no-such-if")
    assert not os.path.exists(path("o.exp")), "an export was made although the port failed"


def test_one_device_for_two_ports():
    nic = PORT.format(dev="0000:3b:00.0")
    target("tw.ini", nic + "[port p1]\ndev = 3B:00.0\naddress = 10.0.1.1/24\n", "tw.ini:5", "[port p1]", "[port p0]",
           "0000:3b:00.0")


def test_not_enough_memory():
    target("m.ini", "[weft]\nmemory_mb = 64\n" + PORT.format(dev=dev()) + "mbufs = 1000000\n" +
           f"[export e]\npath = {path('m.exp')}\nsize = 4M\n", "memory", "p0")


def test_object_larger_than_export():
    t = Target("lg", {"demo": {"path": path("lg.exp"), "size": "4M"}}).start()
    small = make_file("lg.small", 50000, 1)
    t.push(small, "demo")
    rc, out, err = t.cp(make_file("lg.big", 3 * MIB, 2), "weft://10.0.0.1/demo")
    assert rc != 0 and err.strip().count("\n") == 0, err
    assert "demo" in err and ("large" in err or "hold" in err or "fit" in err or "smaller" in err), err
    assert sha(t.pull("demo", "lg.out")) == sha(small)


def test_unknown_export():
    t = Target("ue", {"demo": {"path": path("ue.exp"), "size": "4M"}}).start()
    rc, out, err = t.cp(make_file("ue.src", 1000, 1), "weft://10.0.0.1/nothere")
    assert rc != 0 and "nothere" in err and err.strip().count("\n") == 0, err
    rc, out, err = t.cp("weft://10.0.0.1/nothere", path("ue.out"))
    assert rc != 0 and "nothere" in err and not os.path.exists(path("ue.out")), err


def test_rights():
    t = Target("ri", {"ro": {"path": path("ri.exp"), "size": "4M", "rights": "read"}}).start()
    rc, out, err = t.cp(make_file("ri.src", 1000, 1), "weft://10.0.0.1/ro")
    assert rc != 0 and "ro" in err and err.strip().count("\n") == 0, err


def test_volatile_refuses_persistence():
    t = Target("vo", {"v": {"size": "4M", "persist": "volatile", "rights": "read,write,verify"}}).start()
    rc, out, err = t.cp(make_file("vo.src", 1000, 1), "weft://10.0.0.1/v")
    assert rc != 0 and err.strip().count("\n") == 0, err
    rc2, out, err = run([app("weft-target"), "-c", conf("vo2.ini", PORT.format(dev=dev()) +
                        "[export v]\nsize = 4M\npersist = volatile\nrights = read,write,flush\n")])
    assert rc2 != 0 and len(err.strip().splitlines()) == 1 and "flush" in err, err


def test_no_target_listening():
    t = Target("nt", {"demo": {"path": path("nt.exp"), "size": "4M"}}).start()
    rc, out, err = t.cp(make_file("nt.src", 1000, 1), "weft://10.0.0.1:9/demo")
    assert rc != 0 and "10.0.0.1" in err and err.strip().count("\n") == 0, err
    rc, out, err = t.cp(make_file("nt.src", 1000, 1), "weft://10.0.0.77/demo")
    assert rc != 0 and "10.0.0.77" in err and err.strip().count("\n") == 0, err
    t.kill()
    rc, out, err = t.cp(make_file("nt.src", 1000, 1), "weft://10.0.0.1/demo")
    assert rc != 0 and err.strip().count("\n") == 0, err


def both_say(name, text, args=(), made=()):
    """--check-config and a start must give the same verdict on a configuration. Returns it."""
    c = conf("ck.ini", text)
    rc, _, err = run([app("weft-target"), "-c", c, "--check-config", *args])
    for f in made:
        assert not os.path.exists(path(f)), name
    p = subprocess.Popen([app("weft-target"), "-c", c, *args], stderr=subprocess.PIPE, text=True)
    PROCS.append(p)
    said = ""
    while (line := p.stderr.readline()) and "ready" not in line:
        said += line
    started = "ready" in line
    if started:
        p.terminate()
    p.communicate(timeout=20)
    assert started == (rc == 0), (name, args, rc, err, said)
    if rc != 0:
        # The available memory differs between the two.
        last = [re.sub(r"[0-9.]+ \w+ are available|\([0-9]+ MiB\)", "", x.splitlines()[-1]) for x in (err, said)]
        assert last[0] == last[1], (name, args, err, said)
    # Without --strict a bad export is one line of either.
    assert err.count("it would be offline") == said.count("OFFLINE") or rc != 0, (name, args, err, said)
    return started


def keys_of_reference():
    """[section], key and values at the limits of each key, from --help-config. Without keys that name things of this
    computer."""
    _, text, _ = run([app("weft-target"), "--help-config"])
    for line in text.splitlines():
        if line.startswith("### ["):
            section = line[5:-1]
        elif line.startswith("| `"):
            key, values = (x.strip(" `") for x in line.split("|")[1:3])
            if values.replace(" ", "").replace("to", "").replace("-", "").isdigit():
                values = values.split(" to ")
            elif values == "yes, no" or key in ("hugepages", "host_auth", "revision"):
                values = values.split(", ")
            else:
                continue
            if section.split()[0] in ("weft", "tcp", "mpa", "target", "port", "worker"):
                yield from ((section.split()[0], key, v) for v in values)


def test_check_of_every_key():
    """A random part of all keys at the limits of their ranges: --check-config agrees with the start. SEED: another
    part; ALL: all keys."""
    port, export = PORT.format(dev=dev()), "[export v]\nsize = 4M\npersist = volatile\n"
    every = list(keys_of_reference())
    assert len(every) > 100, len(every)
    seed = os.environ.get("SEED", "1")
    some = every if "ALL" in os.environ else random.Random(seed).sample(every, 24)
    for section, key, value in some:
        line = f"{key} = {value}\n"
        head = {"port": "", "worker": f"[worker w]\n{line}"}.get(section, f"[{section}]\n{line}")
        more = line if section == "port" else ""
        client = f"[client c]\nkey_file = {path('ck.key')}\n" if key == "host_auth" else ""
        with open(path("ck.key"), "w") as f:
            f.write("k" * 40)
        os.chmod(path("ck.key"), 0o600)
        both_say(f"[{section}] {line.strip()} (seed {seed})", head + port + more + export + client)


def test_check_says_what_the_start_says():
    """--check-config and a start give the same verdict on many configurations, with and without --strict."""
    ok, foreign, cut = path("ck.ok"), make_file("ck.foreign", 4 * MIB, 3), path("ck.cut")
    t = Target("ck", {"a": {"path": ok, "size": "4M"}, "b": {"path": cut, "size": "4M"}}).start()
    assert t.term() == 0
    os.truncate(cut, 2 * MIB)
    good = f"[export ok]\npath = {ok}\n"
    one = {"good": good, "new": f"[export n]\npath = {path('ck.new')}\nsize = 4M\n",
           "foreign": f"[export f]\npath = {foreign}\n", "cut": f"[export c]\npath = {cut}\n",
           "folder": f"[export d]\npath = {TMP}\nsize = 4M\n", "nowhere": f"[export n]\npath = {TMP}/no/x\nsize = 4M\n",
           "no size": f"[export s]\npath = {TMP}/ck.none\n", "small": f"[export s]\npath = {TMP}/ck.small\nsize = 4K\n",
           "other size": f"[export o]\npath = {ok}\nsize = 8M\n", "socket": "[export k]\npath = /dev/null\nsize = 4M\n",
           "twice": good + good, "no key": good.replace("\n", "\nhash = hmac-sha256\n", 1),
           "key gone": good + "hash = hmac-sha256\nhash_key_file = /no/such\n",
           "client key gone": good + "[client c]\nkey_file = /no/such\n",
           "known_as": good + "[target]\nknown_as = 300.1.2.3.4\n", "volatile": "[export v]\nsize = 4M\npersist = volatile\n",
           "too large": "[export v]\nsize = 900T\npersist = volatile\n",
           "file too large": f"[export l]\npath = {TMP}/ck.large\nsize = 900T\n",
           "one file": f"[export a]\npath = {ok}\n[export b]\npath = {TMP}/./ck.ok\n",
           "one new file": f"[export a]\npath = {path('ck.new')}\nsize = 4M\n"
                           f"[export b]\npath = {TMP}/../{os.path.basename(TMP)}/ck.new\nsize = 4M\n",
           "one file, two links": f"[export a]\npath = {ok}\n[export b]\npath = {path('ck.link')}\n"}
    os.link(ok, path("ck.link"))
    whole = {"no driver": PORT.format(dev="net_nosuch0"), "no device": PORT.format(dev="0000:ff:00.0"),
             "no interface": PORT.format(dev="net_af_packet0,iface=nosuch0"), "iface missing": PORT.format(dev="net_af_packet0"),
             "mbufs": "[weft]\nmemory_mb = 32\n" + PORT.format(dev=dev()) + "mbufs = 1048576\n",
             "max_conns": "[weft]\nmemory_mb = 32\n[tcp]\nmax_conns = 16000000\n" + PORT.format(dev=dev()),
             "workers": "[weft]\nmemory_mb = 32\nworkers = 16\n" + PORT.format(dev=dev())}
    both = {f"{k} and good": v + good.replace("export ok", "export ok2") for k, v in one.items() if good not in v}
    verdicts = set()
    for name, text in (one | both).items():
        for args in ((), ("--strict",)):
            verdicts.add(both_say(name, PORT.format(dev=dev()) + text, args, ("ck.new", "ck.small")))
            if os.path.exists(path("ck.new")):
                os.unlink(path("ck.new"))
    assert verdicts == {True, False}
    for name, text in whole.items():
        verdicts.add(both_say(name, text + good))


# Errors of device strings, and what the line must name. {S}: a socket of its own.
BAD_DEVICES = {
    # A key without a value: DPDK passes NULL to drivers, and most of them read it.
    "net_memif0,role": "role has no value",
    **{f"net_memif0,role=server,{k}": f"{k} has no value"
       for k in ("socket", "id", "bsize", "rsize", "mac", "socket-abstract", "zero-copy", "secret")},
    **{f"net_af_packet0,iface=lo,{k}": f"{k} has no value" for k in ("qpairs", "blocksz", "framesz", "framecnt", "qdisc_bypass")},
    "net_af_packet0,iface": "iface has no value", "net_ring0,nodeaction": "nodeaction has no value",
    "net_af_xdp0,iface=lo,start_queue": "start_queue has no value", "net_tap0,persist": "persist has no value",
    "net_pcap0,iface": "iface has no value", "net_virtio_user0,path": "path has no value", "net_null0,size=": "size has no value",
    # syntax of arguments
    "net_memif0,,": "an argument is empty", "net_memif0,role=server,": "an argument is empty", "net_memif0,=1": "nothing before the =",
    "net_memif0,role=server,socket=a=b": "has no =", "net_memif0,role=server,role=client": "role is given twice",
    "net_virtio_user0" + ",a=1" * 33: "too many arguments", "n" * 64: "1 to 63 octets",
    # a key that the driver does not have
    **{f"{d},nosuch=1": "nosuch" for d in ("net_memif0", "net_memif0,role=server", "net_af_packet0,iface=lo", "net_af_xdp0,iface=lo",
                                           "net_tap0",
                                           "net_ring0", "net_null0", "net_pcap0,iface=lo")},
    "net_ring0,internal=0x10": "internal",
    # values
    "net_memif0,role=nonsense": "role=nonsense", "net_memif0,role=server,bsize=0": "1 to 65535",
    "net_memif0,role=server,bsize=65536": "1 to 65535",
    "net_memif0,role=server,rsize=0": "1 to 14", "net_memif0,role=server,rsize=99": "1 to 14", "net_memif0,role=server,id=x": "id=x",
    "net_memif0,role=server,id=4294967296": "id=4294967296", "net_memif0,role=server,mac=zz": "mac=zz",
    "net_memif0,role=server,mac=ff:ff:ff:ff:ff:ff": "mac=", "net_memif0,role=server,socket-abstract=maybe": "yes or no",
    "net_memif0,role=server,zero-copy=2": "yes or no",
    "net_memif0,role=server,secret=" + "s" * 24: "secret", "net_memif0,role=server,socket=m,socket-abstract=no": "/FOLDER/NAME",
    "net_memif0,role=server,socket=/m,socket-abstract=no": "/FOLDER/NAME",
    "net_memif0,role=server,socket={S},socket-abstract=no,bsize=65000": "not enough memory",
    "net_af_packet0,iface=lo,blocksz=7": "blocksz=7", "net_af_packet0,iface=lo,framesz=100": "framesz=100",
    "net_af_packet0,iface=lo,framesz=16": "framesz=16",
    "net_af_packet0,iface=lo,framesz=1520": "blocksz=4096", "net_af_packet0,iface=lo,framecnt=0": "framecnt=0",
    "net_af_packet0,iface=lo,framecnt=511": "framecnt=511", "net_af_packet0,iface=lo,framecnt=4194304": "2 GiB",
    "net_af_packet0,iface=lo,qdisc_bypass=2": "qdisc_bypass=2", "net_af_packet0,iface=lo,qpairs=2": "qpairs=2",
    "net_af_packet0,iface=abcdefghijklmnop": "too long", "net_af_xdp0": "iface is missing",
    "net_af_xdp0,iface=lo,start_queue=9": "queues 9 to 9",
    "net_af_xdp0,iface=lo,queue_count=0": "queue_count=0", "net_af_xdp0,iface=lo,busy_budget=65536": "busy_budget",
    "net_af_xdp0,iface=lo,xdp_prog=/no/such": "xdp_prog=/no/such", "net_tap0,iface=abcdefghijklmnop": "too long",
    "net_tap0,iface=lo": "none of a tap",
    "net_tap0,iface=a:b": "iface=a:b", "net_tap0,mac=zz": "mac=zz", "net_tap0,remote=nosuch0": "remote=nosuch0",
    "net_tap0,persist=0": "persist=0",
    "net_ring0,nodeaction=x": "net_ring0:NODE:CREATE", "net_ring0,nodeaction=R:0:CREATE": "net_ring0:NODE:CREATE",
    "net_ring0,nodeaction=net_ring0:0:ATTACH": "net_ring0:NODE:CREATE", "net_ring0,nodeaction=net_ring0:99:CREATE": "NUMA node 99",
    "net_ring_0123456789": "too long", "net_null0,size=-1": "size=-1", "net_null0,size=9000": "1 to 2048", "net_null0,no-rx=2": "no-rx=2",
    "net_null0,copy=1,no-rx=1": "exclude", "net_pcap0": "iface is missing", "net_pcap0,iface=nosuch0": "iface=nosuch0",
    "net_pcap0,rx_pcap=/no/such": "rx_pcap=/no/such", "net_pcap0,iface=lo,rx_iface=lo": "both directions",
    "net_pcap0,tx_pcap=/no/such/x": "tx_pcap=",
}
GOOD_DEVICES = ("net_memif0,id=4294967295,role=server,socket={S},socket-abstract=no,bsize=1,rsize=14,mac=02:00:00:00:00:01,"
                "zero-copy=no,secret=s",
                "net_ring0", "net_ring0,nodeaction=net_ring0:0:CREATE", "net_null0,size=2048,copy=1", "net_null0,no-rx=1")


def test_device_arguments():
    """--check-config and the start refuse the same device strings with the same line, which names the argument. No
    program ends by a signal."""
    tail = "[export v]\nsize = 4M\npersist = volatile\n"

    def text(device):
        return PORT.format(dev=device.replace("{S}", path("da.sock"))) + tail

    def judge(job):
        n, (device, word) = job
        c = conf(f"da{n}.ini", text(device))
        for args in (("--check-config",), ()):
            rc, out, err = run([app("weft-target"), "-c", c, *args])
            lines = err.strip().splitlines()
            assert rc == 1 and len(lines) == 1 and word in lines[0] and "p0" in lines[0], (device, args, rc, out, err)
        if "memory" in word:
            return
        rc, _, err = run([app("weft-cp"), "--dev", device.replace("{S}", path("da.sock")), "--address", "10.0.0.2/24",
                          "weft://10.0.0.1/x", path("da.out")])
        assert rc == 2 and len(err.strip().splitlines()) == 1 and word in err, (device, rc, err)
    # Most of the time is spent waiting for programs to start.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(judge, enumerate(BAD_DEVICES.items())))
    for device in GOOD_DEVICES:
        assert both_say(device, text(device)), device


def test_devices_not_looked_at():
    """--check-config reports what it cannot check: arguments of other drivers. Only the start can see whether a server
    listens."""
    tail = "[export v]\nsize = 4M\npersist = volatile\n"
    for device, said in (("net_virtio_user0,path=/no/such", True), ("net_null0,size=64", False)):
        rc, out, err = run([app("weft-target"), "-c", conf("nl.ini", PORT.format(dev=device) + tail), "--check-config"])
        assert rc == 0 and "good" in out and err == "", (device, out, err)
        assert ("nl.ini:2: [port p0] dev: the device's own arguments were not looked at" in out) == said, (device, out)
    c = conf("nl.ini", PORT.format(dev=memif(0, "client", path("nl.sock"))) + tail)
    assert run([app("weft-target"), "-c", c, "--check-config"])[0] == 0
    err = refused([app("weft-target"), "-c", c], "role=client", "no server listens")
    assert "no target" not in err, err


def test_check_says_how_many():
    """Fewer buffers than max_conns times workers: a line says how many connections they admit. With enough buffers
    there is no line."""
    export = "[export v]\nsize = 4M\npersist = volatile\n"
    for head, tail, number in (("workers = 4\n", "", "2176"), ("workers = 1\n", "mbufs = 1024\n", "144"), ("workers = 1\n", "", None),
                               ("workers = 4\n", "[tcp]\nmax_conns = 500\n", None)):
        c = conf("many.ini", f"[weft]\n{head}" + PORT.format(dev=dev()) + tail + export)
        rc, out, err = run([app("weft-target"), "-c", c, "--check-config"])
        assert rc == 0 and "good" in out, (out, err)
        assert (f"admit {number} connections" in err) if number else err == "", (head, tail, err)


def test_busy_target():
    """A memif port has one client at a time. A second client is told so, and not that nothing listens."""
    t = Target("bu", {"demo": {"path": path("bu.exp"), "size": "4M"}}).start()
    first = subprocess.Popen([app("weft-console"), *t.client_args()], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    PROCS.append(first)
    first.stdin.write("connect 10.0.0.1 7471\n")
    first.stdin.flush()
    for line in first.stdout:
        if "established" in line:
            break
    rc, out, err = t.cp(make_file("bu.src", 1000, 1), "weft://10.0.0.1/demo")
    assert rc != 0 and err.strip().count("\n") == 0 and "no target listening" not in err, err
    assert "takes no client now" in err and "end the other client, or give each a socket of its own" in err, err
    first.communicate("quit\n", timeout=20)
    t.push(make_file("bu.src", 1000, 1), "demo")


def test_console_says_how():
    """Invalid arguments: the error line, and the usage of the command."""
    t = Target("cs", {"demo": {"path": path("cs.exp"), "size": "4M"}}).start()
    for line, usage in (("connect", "usage: connect ADDRESS PORT"), ("register", "usage: register ")):
        p = subprocess.run([app("weft-console"), *t.client_args()], input=line + "\n", capture_output=True, text=True, timeout=30)
        assert p.returncode == 1 and "bad arguments" in p.stderr and usage in p.stderr, (line, p.stdout, p.stderr)


def test_prompt_says_how():
    """The same at a terminal, where the line can be edited again, by Tab completion or from the history."""
    t = Target("ct", {"demo": {"path": path("ct.exp"), "size": "4M"}}).start()
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(app("weft-console"), [app("weft-console"), *t.client_args()])
    said = b""

    def until(what, send):
        """Send text, and read until the output contains `what`."""
        nonlocal said
        os.write(fd, send)
        begin, end = len(said), time.monotonic() + 30
        while what not in said[begin:]:
            assert time.monotonic() < end, (what, said)
            if select.select([fd], [], [], 1)[0]:
                said += os.read(fd, 4096)
        return said[begin:]

    try:
        until(b"weft> ", b"")
        assert b"bad arguments" in until(b"usage: connect ADDRESS PORT", b"connect\n")
        until(b"no such command", b"nonsense\n")
        until(b"usage: register ", b"regi\t\n")
        assert b"bad arguments" in until(b"usage: connect ADDRESS PORT", b"\x1b[A\x1b[A\x1b[A\n")
        assert b"error" not in until(b"region 1", b"register memory 4096\n")
        os.write(fd, b"quit\n")
        status, pid = os.waitpid(pid, 0)[1], 0
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(fd)


def fifo(name):
    os.mkfifo(path(name))
    return path(name)


def test_fifos():
    """A FIFO without a writer: no program waits for it, whichever file it is."""
    f = fifo("ff.fifo")
    sock = path("ff.sock")
    client = ["--dev", memif(0, "client", sock), "--address", "10.0.0.2/24"]
    for prog, args in (("weft-target", []), ("weft-cp", ["weft://10.0.0.1/x", path("ff.out")]), ("weft-perf", ["write", "10.0.0.1"]),
                       ("weft-ping", ["-c", "-a", "10.0.0.1"]), ("weft-console", []), ("weft-doctor", [])):
        name = "--config" if prog == "weft-ping" else "-c"
        p = subprocess.run([app(prog), name, f, *args], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)
        assert p.returncode == 1 and f"{f}: is not a regular file (a FIFO)" in p.stderr, (prog, p)
    t = Target("ff", {"demo": {"path": path("ff.exp"), "size": "4M"}}).start()
    for source, why in ((f, "is not a regular file (a FIFO)"), ("/dev/zero", "is not a regular file (a device)"), (TMP, "is a directory"),
                        (t.sock(0), "is not a regular file (a socket)")):
        rc, _, err = run([app("weft-cp"), *t.client_args(), source, "weft://10.0.0.1/demo"], timeout=10)
        assert rc == 1 and f"{source}: {why}" in err, (source, rc, err)
    # The configuration of a running target: nothing changes, and the target still answers.
    os.unlink(t.conf)
    os.mkfifo(t.conf)
    t.proc.send_signal(signal.SIGHUP)
    end = time.monotonic() + 10
    while "nothing was changed" not in t.logged():
        assert time.monotonic() < end, t.logged()
        time.sleep(0.05)
    assert "is not a regular file (a FIFO)" in t.logged()
    t.push(make_file("ff.src", 100000, 3), "demo")
    assert t.term() == 0
    # An export, a key file, a source of keys.
    refused([app("weft-target"), "--strict", "-c", conf("ff2.ini", PORT.format(dev=dev()) + f"[export e]\npath = {f}\nsize = 4M\n")], f)
    refused([app("weft-target"), "-c", conf("ff3.ini", PORT.format(dev=dev()) + "[export v]\nsize = 4M\npersist = volatile\n"
                                            f"hash = hmac-sha256\nhash_key_file = {f}\n")], f, "is not a regular file")
    refused([app("weft-cp"), "--hash-key", f, *client, "weft://10.0.0.1/x", path("ff.out")], f, "is not a regular file")
    refused([app("weft-cp"), *client, "weft://10.0.0.1/x", f], f, "is not a regular file")


def test_script_from_fifo():
    """weft-console announces that it reads lines as they arrive, reads them, and ends at a signal when there are none."""
    f = fifo("sf.fifo")
    args = [app("weft-console"), "--dev", memif(0, "server", path("sf.sock")), "--address", "10.0.0.1/24", "-f", f]
    for lines in ("help\nregister memory 4096\n", None):
        p = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        PROCS.append(p)
        assert "as they come" in p.stderr.readline()
        if lines is None:
            p.terminate()
            assert p.wait(timeout=10) == -signal.SIGTERM
            continue
        with open(f, "w") as w:
            w.write(lines)
        out, err = p.communicate(timeout=20)
        assert p.returncode == 0 and "region 1" in out, (out, err)
    p = subprocess.run(["bash", "-c", '"$@" -f <(echo show qps)', "x", *args[:-2]], capture_output=True, text=True, timeout=20)
    assert p.returncode == 0 and "as they come" in p.stderr, p
    refused([*args[:-1], TMP], "is a directory")


def test_missing_source():
    t = Target("ms", {"demo": {"path": path("ms.exp"), "size": "4M"}}).start()
    rc, out, err = t.cp(path("not-there"), "weft://10.0.0.1/demo")
    assert rc != 0 and "not-there" in err and err.strip().count("\n") == 0, err


def test_usage():
    for prog, args in (("weft-cp", ["a"]), ("weft-cp", ["a", "b"]),
                       ("weft-cp", ["weft://1.2.3.4/x", "weft://1.2.3.4/y"]),
                       ("weft-target", []), ("weft-perf", ["nonsense", "1.2.3.4"]), ("weft-doctor", ["nonsense"]),
                       ("weft-console", ["--no-such-option"])):
        rc, out, err = run([app(prog), *args])
        assert rc == 2, (prog, args, rc, err)
        assert err.strip(), (prog, args)


def test_options():
    """An unknown option, or one without its value: each program reports it in one line of its own that helps."""
    for prog in ("weft-cp", "weft-target", "weft-perf", "weft-ping", "weft-console", "weft-doctor", "weft-portd"):
        for args, why in ((["--no-such-option"], "--no-such-option: unknown option"), (["--no-such=5"], "--no-such: unknown option"),
                          (["-Z"], "-Z: unknown option"), (["--help=1"], "--help takes no value"), (["--config"], "--config needs a value"),
                          (["--vers", "-Zh"], None)):
            rc, out, err = run([app(prog), *args])
            if why is None:  # an unambiguous prefix of an option is that option
                assert rc == 0 and out.startswith(prog), (prog, args, rc, out, err)
                continue
            assert rc == 2 and out == "", (prog, args, rc, out)
            assert err.startswith(f"{prog}: {why}") and err.endswith(f"({prog} --help tells how)\n") and err.count("\n") == 1, \
                (prog, args, err)
    for prog, args, why in (("weft-cp", ["--no"], "--no: several options begin like that"), ("weft-perf", ["-s"], "-s needs a value"),
                            ("weft-ping", ["-a"], "-a: unknown option, or its value is missing"),
                            ("weft-ping", ["--json", "-Zq"], "-Z: unknown option"),
                            ("weft-console", ["--dev"], "--dev needs a value"), ("weft-target", ["-c"], "-c needs a value")):
        rc, out, err = run([app(prog), *args])
        assert rc == 2 and err.startswith(f"{prog}: {why}") and err.count("\n") == 1, (prog, args, err)


def test_retransmission_timeouts():
    """The first value must be between the least and the greatest."""
    for text, words in (("rto_min_us = 2000000\nrto_max_us = 1000000\n", ("rt.ini:2", "rto_min_us", "more than rto_max_us")),
                        ("rto_initial_us = 1000\n", ("rt.ini:2", "rto_initial_us", "less than rto_min_us, which is 200000")),
                        ("rto_max_us = 1000000\nrto_initial_us = 1000001\n", ("rt.ini:3", "rto_initial_us", "more than rto_max_us"))):
        target("rt.ini", "[tcp]\n" + text + PORT.format(dev="net_null0") + "[export v]\nsize = 4M\npersist = volatile\n", *words)
    for text in ("rto_min_us = 2000000\n", "rto_min_us = 1000\nrto_initial_us = 1000\n", "rto_max_us = 1000000\n"):
        assert both_say(text, "[tcp]\n" + text + PORT.format(dev="net_null0") + "[export v]\nsize = 4M\npersist = volatile\n")


def test_words_on_a_terminal():
    """A message is broken between words where standard error is a terminal, and one line elsewhere."""
    for name in ("weft-cp", "weft-perf", "weft-ping", "weft-console", "weft-target"):
        cmd = [app(name), "--there-is-no-such-option-of-it"]
        rc, _, line = run(cmd)
        assert rc == 2 and line.count("\n") == 1 and len(line) > 60, (name, rc, line)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
        p = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
        PROCS.append(p)
        os.close(theirs)
        assert p.wait(timeout=30) == 2
        text = os.read(ours, 65536).decode().replace("\r\n", "\n")
        os.close(ours)
        rows = text.splitlines()
        assert len(rows) > 1 and max(map(len, rows)) < 50 and " ".join(x.strip() for x in rows) == line.strip(), (name, rows, line)


def test_connect_in_vain():
    """A failed connect of weft-console frees its QP; there are 64."""
    p = subprocess.Popen([app("weft-console"), "--dev", "net_null0,no-rx=1", "--address", "10.0.0.1/24"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    PROCS.append(p)
    out, _ = p.communicate("connect 192.0.2.1 7471\n", timeout=30)
    assert p.returncode == 1 and "Network is unreachable" in out and "check the address and the port, and dev and address" in out, out
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(app("weft-console"), [app("weft-console"), "--dev", "net_null0,no-rx=1", "--address", "10.0.0.1/24"])
    said = b""

    def until(what, send):
        nonlocal said
        os.write(fd, send)
        begin, end = len(said), time.monotonic() + 30
        while what not in said[begin:]:
            assert time.monotonic() < end, (what, said[-500:])
            if select.select([fd], [], [], 1)[0]:
                said += os.read(fd, 4096)
        return said[begin:]

    try:
        until(b"weft> ", b"")
        for _ in range(70):
            assert b"unreachable" in until(b"error: connect: ", b"connect 192.0.2.1 7471\n") + until(b"weft> ", b"\n")
        assert b"qp 1" not in until(b"weft> ", b"show qps\n") + until(b"weft> ", b"\n")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)


def test_silent_listener():
    """A host that accepts the TCP connection and then sends nothing, or closes it: weft-cp must not say that nothing
    listens."""
    how = ["unshare", "-n"]
    if subprocess.run([*how, "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("no network namespace can be made")
    for says, why in (("", "said nothing in time"), ("c.close()", "something listens")):
        script = ("ip link set lo up; ip link add wa type veth peer name wb && ip addr add 10.0.0.1/24 dev wa && "
                  "for i in wa wb; do ethtool -K $i tx off tso off gso off gro off > /dev/null; ip link set $i up; done; "
                  "python3 -c 'import socket, time; s = socket.create_server((\"10.0.0.1\", 7471))\n"
                  f"while True: c = s.accept()[0]; {says}' & "
                  '"$@"; rc=$?; kill $!; exit $rc')
        p = subprocess.run([*how, "bash", "-c", script, "x", app("weft-cp"), "--timeout", "2", "--dev", "net_af_packet0,iface=wb",
                            "--address", "10.0.0.2/24", "weft://10.0.0.1/x", path("sl.out")], capture_output=True, text=True, timeout=60)
        last = p.stderr.strip().splitlines()[-1]
        assert p.returncode in FAILED and "something listens there" in last and why in last and "no target" not in last, p


def test_socket_in_use():
    """A second target on the socket of a running one is refused, and the running one is not disturbed."""
    t = Target("si", {"demo": {"path": path("si.exp"), "size": "4M"}}).start()
    src = make_file("si.src", 100000, 5)
    t.push(src, "demo")
    made = path("si2.exp")
    for d in (t.sock(0), os.path.join(TMP, ".", "si.0.sock")):
        target("si2.ini", PORT.format(dev=memif(0, "server", d)) + f"[export e]\npath = {made}\nsize = 4M\n",
               "p0", "another process serves that socket")
        assert not os.path.exists(made)
    assert t.proc.poll() is None, "the live target died: " + t.logged()
    assert sha(t.pull("demo", "si.out")) == sha(src)
    # The socket that a killed target left is used.
    t.kill()
    assert os.path.exists(t.sock(0))
    p = subprocess.Popen([app("weft-target"), "-c", t.conf], stderr=subprocess.PIPE, text=True)
    PROCS.append(p)
    while "ready" not in (line := p.stderr.readline()):
        assert line, "a dead target's socket was in the way"
    p.terminate()
    assert p.wait(timeout=20) == 0


def test_failed_start_leaves_no_export():
    made = path("fs1.exp")
    c = conf("fs.ini", PORT.format(dev=dev()) + f"[export a]\npath = {made}\nsize = 4M\n"
             f"[export b]\npath = {TMP}/no/such/x\nsize = 4M\n")
    # One line says that the first was opened.
    refused([app("weft-target"), "--strict", "-c", c], "/no/such/x", lines=2)
    assert not os.path.exists(made)


def test_file_size_limit():
    """With RLIMIT_FSIZE no program ends by a signal."""
    made = path("fl.exp")
    c = conf("fl.ini", PORT.format(dev=dev()) + f"[export a]\npath = {made}\nsize = 4M\n")
    err = refused(["bash", "-c", 'ulimit -f 1000; exec "$0" "$@"', app("weft-target"), "-c", c], made)
    assert "large" in err.lower(), err
    assert not os.path.exists(made)


def test_export_in_use():
    """A second target on the same file is refused."""
    t = Target("iu", {"demo": {"path": path("iu.exp"), "size": "4M"}}).start()
    target("iu2.ini", PORT.format(dev=dev()) + f"[export e]\npath = {path('iu.exp')}\nsize = 4M\n",
           path("iu.exp"))
    assert t.term() == 0


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
