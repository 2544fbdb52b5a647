#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-ctl support-bundle: what is in the file, and that no secret is. test_control_bundle.py BUILD [CASE...]"""
import json
import os
import re
import secrets
import socket
import tarfile
import threading

from test_control import Controlled
from weft_e2e import TMP, app, main, make_file, path, run

FILES = {"README", "versions.txt", "configuration.ini", "exports.ini", "log.txt", "counters.json", "status.json", "exports.json",
         "clients.json", "connections.json", "limits.json", "slow.json"}


def unpack(file):
    """{name: content}. Python's reader checks the sums of the headers."""
    with tarfile.open(file) as tar:
        members = tar.getmembers()
        assert all(m.isfile() and m.name.startswith("weft-support/") and m.mode == 0o600 and m.uid == 0 for m in members), members
        return {m.name.split("/", 1)[1]: tar.extractfile(m).read().decode() for m in members}


def bundle(t, name, ok=0):
    rc, out, err = run([app("weft-ctl"), "-s", t.socket, "support-bundle", path(name)])
    assert rc == ok, (rc, out, err)
    return out + err


def test_no_secrets():
    """Words that nothing else has, wherever an operator may have put a secret: none is in the file."""
    drawn = {w: f"{w}{secrets.token_hex(8)}" for w in ("client", "hash", "comment", "inline", "eal", "ceph", "blank", "list")}
    for w in ("client", "hash"):
        with open(path(f"{w}.key"), "w") as f:
            f.write(f"{drawn[w]} and as many octets as a key needs to have\n")
        os.chmod(path(f"{w}.key"), 0o600)
    os.mkdir(path("no.state"))
    t = Controlled("no", {"o": {"path": path("no.o"), "size": "4M", "hash": "hmac-sha256", "hash_key_file": path("hash.key")}},
                   extra=f"state = {path('no.state')}\nhost_auth = optional\n; the password is {drawn['comment']}\n"
                   f"slow_ms = 2000   ; {drawn['inline']}\n[client alice]\nkey_file = {path('client.key')}\n")
    t.start()
    t.ctl("export", "create", "made", "size=1M", "path=made.weft", "hash=hmac-sha256", f"hash_key_file={path('hash.key')}")
    src = make_file("no.src", 30000, 1)
    rc, _, err = t.cp(src, "weft://10.0.0.1/made", args=["--auth", f"alice:{path('client.key')}", "--hash-key", path("hash.key")])
    assert rc == 0, err
    # What the target reads only at its start, and what a broken edit leaves, is taken from the file as it is now.
    with open(t.conf, "a") as f:
        f.write(f"[export c]\nimage = p/i\nceph = id=me,key={drawn['ceph']},timeout=9\n# {drawn['comment']}\n"
                f"[weft]\neal = --vdev=x,password={drawn['eal']}\n{drawn['comment']}\n"
                f"[port p9]\ndev = net_memif9,secret = 1 {drawn['blank']},id=1\ndev = net_memif8,secret=[1,{drawn['list']}],id=2\n")
    out = bundle(t, "no.tar")
    assert out.count("\n") == 1 and "12 files" in out, out
    assert os.stat(path("no.tar")).st_mode & 0o777 == 0o600 and os.path.getsize(path("no.tar")) % 512 == 0
    with open(path("no.tar"), "rb") as f:
        raw = f.read().decode("latin-1")
    for w, secret in drawn.items():
        assert secret not in raw, (w, secret)
    assert path("hash.key") not in raw and path("client.key") not in raw
    got = unpack(path("no.tar"))
    assert set(got) == FILES, set(got) ^ FILES
    assert "[client alice]\nkey_file = (removed)" in got["configuration.ini"] and "slow_ms = 2000\n" in got["configuration.ini"]
    assert "ceph = id=me,key=(removed),timeout=9\n" in got["configuration.ini"], got["configuration.ini"]
    assert "eal = --vdev=x,password=(removed)\n" in got["configuration.ini"]
    assert "dev = net_memif9,secret =(removed),id=1\ndev = net_memif8,secret=(removed),id=2\n" in got["configuration.ini"]
    assert "[export made]" in got["exports.ini"] and "hash_key_file = (removed)" in got["exports.ini"], got["exports.ini"]
    version = run([app("weft-target"), "--version"])[1].split()[1]
    assert f"weft-target {version}\n" in got["versions.txt"] and os.uname().release in got["versions.txt"], got["versions.txt"]
    assert re.search(r"^DPDK DPDK \d+\.\d+|^DPDK linked statically", got["versions.txt"], re.M), got["versions.txt"]
    assert "ready: 10.0.0.1:" in got["log.txt"] and re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ weft-target: ", got["log.txt"])
    assert json.loads(got["status.json"])["pid"] == t.proc.pid
    assert [e["name"] for e in json.loads(got["exports.json"])["exports"]] == ["o", "made"]
    counters = {(c["of"], c["counter"]): c["value"] for c in json.loads(got["counters.json"])}
    assert counters["worker 0", "segs_in"] > 0 and counters["port p0", "rx_packets"] > 0, counters
    assert set(json.loads(got["slow.json"])) == {"slow_ms", "seen", "crowded", "unsaid", "slow"}
    # Said twice it harms nothing.
    before = os.stat(path("no.tar")).st_mtime_ns
    assert "is there already" in bundle(t, "no.tar", ok=7) and os.stat(path("no.tar")).st_mtime_ns == before
    assert t.term() == 0


def test_failures():
    t = Controlled("fa", {"o": {"path": path("fa.o"), "size": "4M"}}).start()
    assert "No such file" in bundle(t, "no/such/folder.tar", ok=1)
    for words, want in (([], "FILE is missing"), (["a", "b"], "one name"), (["--nix"], "one name")):
        rc, out, err = run([app("weft-ctl"), "-s", t.socket, "support-bundle", *words])
        assert rc == 2 and want in err and not out, (words, rc, err)
    # A disk that is full leaves no half of a file.
    rc, out, err = run(["bash", "-c", f"ulimit -f 8; trap '' XFSZ; exec {app('weft-ctl')} -s {t.socket} support-bundle {TMP}/full.tar"])
    assert rc == 1 and "cannot be written" in err and not os.path.exists(f"{TMP}/full.tar"), (rc, out, err)
    rc, out, _ = run([app("weft-ctl"), "-s", t.socket, "support-bundle", "--json", path("fa.tar")])
    got = json.loads(out)
    assert rc == 0 and got["file"] == path("fa.tar") and got["bytes"] == os.path.getsize(path("fa.tar")) and len(got["files"]) == len(FILES)
    # GNU tar reads it, too.
    rc, out, err = run(["tar", "-tf", path("fa.tar")])
    assert rc == 0 and out.split() == got["files"] and not err, err
    assert t.term() == 0
    rc, _, err = run([app("weft-ctl"), "-s", t.socket, "support-bundle", path("fa.none")])
    assert rc == 3 and not os.path.exists(path("fa.none")), err


def answer(listener, bad):
    """In place of a target: the methods of `bad` fail, and others have an empty result."""
    conn, _ = listener.accept()
    with conn, conn.makefile("rw") as f:
        for line in f:
            method = json.loads(line)["method"]
            end = {"error": {"code": -32001, "message": f"no {method} today"}} if method in bad else {"result": {}}
            f.write(json.dumps({"jsonrpc": "2.0", "id": 1, **end}) + "\n")
            f.flush()


def test_target_goes():
    """A target that goes away in the middle leaves no half of a file, and the same command may be said again."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path("tg.sock"))
        listener.listen()

        def leave():
            conn, _ = listener.accept()
            with conn, conn.makefile("rw") as f:
                f.readline()
                f.write('{"jsonrpc":"2.0","id":1,"result":{}}\n')
                f.flush()
                f.readline()

        for _ in range(2):
            thread = threading.Thread(target=leave)
            thread.start()
            rc, out, err = run([app("weft-ctl"), "-s", path("tg.sock"), "support-bundle", path("tg.tar")])
            thread.join()
            assert rc == 3 and not out and err.count("\n") == 1 and not os.path.exists(path("tg.tar")), (rc, out, err)


def test_without_content():
    """Calls that fail are named, and are no success. The name of the file may be any octets."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path("wc.sock"))
        listener.listen()
        for bad, want in (((), ""), (("slow",), "1 call failed; see slow.error in it"),
                          (("support", "limits"), "2 calls failed; see support.error, limits.error in it")):
            thread = threading.Thread(target=answer, args=(listener, bad))
            thread.start()
            file = path("wc") + f"{len(bad)}\udcff.tar"  # surrogateescape: the octet 0xff
            rc, out, err = run([app("weft-ctl"), "-s", path("wc.sock"), "support-bundle", "--json", file])
            thread.join()
            assert rc == (1 if bad else 0) and want in err and bool(err) == bool(bad), (bad, rc, out, err)
            assert json.loads(out)["file"] == path("wc") + f"{len(bad)}?.tar", out
            got = unpack(file)
            assert {n for n in got if n.endswith(".error")} == {f"{m}.error" for m in bad}, (bad, got)
            assert all(got[f"{m}.error"] == f"no {m} today" for m in bad), got


if __name__ == "__main__":
    main([test_no_secrets, test_failures, test_target_goes, test_without_content])
