#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Equal keys are refused where they must differ, tested on the real target. test_keys.py BUILD [CASE...]"""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
sys.dont_write_bytecode = True
from weft_e2e import Target, app, main, path, run  # noqa: E402

LONG = bytes(range(100))
ONE, OTHER = b"1" * 40, b"2" * 40


def key(name, octets):
    with open(path(name), "wb") as f:
        f.write(octets)
    os.chmod(path(name), 0o600)
    return path(name)


def digest(octets):
    import hashlib
    return hashlib.sha256(octets).digest()


# keys of alice, bob and the export, and the expected words
SAME = [
    (ONE, ONE, OTHER, "clients alice and bob have the same key"),
    (ONE, OTHER, ONE, "client alice and export demo have the same key"),
    (ONE, OTHER, OTHER, "client bob and export demo have the same key"),
    # RFC 2104 s2: different octets that give the same HMAC key
    (ONE, OTHER, OTHER + b"\0\0", "client bob and export demo have the same key"),
    (ONE, LONG, digest(LONG), "client bob and export demo have the same key"),
]


def target(name, alice, bob, export, extra=""):
    return Target(name, {"demo": {"persist": "volatile", "size": "1M", "hash": "hmac-sha256",
                                  "hash_key_file": key(f"{name}.export", export)}},
                  extra=f"host_auth = required\n[client alice]\nkey_file = {key(name + '.alice', alice)}\n"
                  f"[client bob]\nkey_file = {key(name + '.bob', bob)}\n{extra}")


def one_line(text, words):
    lines = [x for x in text.splitlines() if x.strip()]
    assert len(lines) == 1 and words in lines[0], text


def test_checked():
    """--check-config and the start refuse each pair with one line that names both."""
    for n, (alice, bob, export, words) in enumerate(SAME):
        t = target(f"same{n}", alice, bob, export)
        rc, out, err = run([app("weft-target"), "-c", t.conf, "--check-config"])
        assert rc == 1, (rc, out, err)
        one_line(err, words)
        rc, out, err = run([app("weft-target"), "-c", t.conf])
        assert rc == 1, (rc, out, err)
        one_line(err, words)
    t = target("good", ONE, OTHER, LONG)
    rc, out, err = run([app("weft-target"), "-c", t.conf, "--check-config"])
    assert rc == 0, err


def sighup(t, words):
    t.proc.send_signal(signal.SIGHUP)
    end = time.monotonic() + 20
    while words not in t.logged():
        assert time.monotonic() < end, t.logged()
        time.sleep(0.02)


def test_reload():
    """SIGHUP refuses them, too, and changes nothing, even if the equal key is the export's present one, which the new
    configuration no longer names."""
    t = target("reload", ONE, OTHER, LONG)
    t.start()
    key("reload.bob", ONE)
    sighup(t, "clients alice and bob have the same key")
    assert t.logged().count("nothing was changed") == 1
    key("reload.bob", LONG)
    key("reload.export", b"3" * 40)
    sighup(t, "client bob and export demo have the same key")
    assert t.logged().count("nothing was changed") == 2
    key("reload.bob", b"4" * 40)
    sighup(t, "read again")
    assert t.term() == 0


if __name__ == "__main__":
    main([test_checked, test_reload])
