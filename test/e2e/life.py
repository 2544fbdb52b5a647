# SPDX-License-Identifier: BSD-3-Clause
"""A day in the life of a target, from its first start to its upgrade: what operators and clients do, step by step.

test_life.py lives it with the programs of a build, test/package/clean_root.py with those of installed packages. A Site is where:

    run(*words)         run a program there to its end: (status, standard output, standard error)
    run_as_target()     the same by the target's user; spawn_client(*words) starts one: subprocess.Popen
    at(path)            a path of the site, as this process reaches it
    etc, data, home     its folders: configuration, exports, files of the clients
    conf                the target's configuration; clients: that of each client; second_port(): text of the second one's port
    mount(path, mib)    put a file system of that size at `path`, for the target; None when that is not allowed here
    own(path)           give a file to the target's user
    start() upgrade()   the target; upgrade() puts another version in its place, as a package does
    said()              the target's log
"""
import http.client
import json
import os
import random
import re
import time

import prom

MIB = 1 << 20
BLOCK = 4096
BUSY_S = 30  # the longest that a condition is waited for
SCRUB_MB_S = 50
HELD_BYTES_S, HELD_BLOCK = 32768, "16K"  # of a push that is held back: half a second from an answer to the next one


def second(text):
    """A port beside the first one of a configuration."""
    return text.replace("p0", "p1").replace("net_memif0", "net_memif1").replace("10.0.0.", "10.0.1.")


def second_port(target):
    """The text of a second port, for the configuration of the target that is installed."""
    return second(re.search(r"^\[port p0\]\n(?:\w.*\n)+", target, re.M)[0])


def second_client(client):
    """The configuration of a client that has this port, made from that of the first one."""
    return second(client).replace("net_memif1", "net_memif0")


class Day:
    """The steps, in their order. Each asserts what it left, by contents, statuses and metrics."""

    def __init__(self, site, port, unit, seed):
        """port: of the metrics. unit: octets of a small file; others are multiples of it."""
        self.site, self.port, self.unit = site, port, unit
        self.rng = random.Random(seed)
        self.disk = f"{site.data}/small/disk.img"
        self.keys = {}
        self.content = {}  # what each export has to have, from its first octet on
        self.small = None

    def steps(self):
        """The methods, in their order."""
        return [self.configure, self.create, self.push_from_two_clients, self.stranger_is_refused, self.watch, self.resize, self.fill,
                self.free, self.damage_and_scrub, self.fsck, self.restore, self.rotate_keys, self.drop, self.upgrade]

    # ---- What the steps use ----

    def ctl(self, *words, ok=0):
        """The result of weft-ctl, or the line that it printed."""
        rc, out, err = self.site.run("weft-ctl", "--json", *words)
        assert rc == ok, (words, rc, out, err, self.site.said()[-1500:])
        return err if rc else json.loads(out)

    def row(self, export):
        """What weft-ctl shows of an export."""
        return self.ctl("exports", export)["exports"][0]

    def get(self, where):
        """Status and text of a page of the target."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        c.request("GET", where)
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r.status, text

    def value(self, name, **labels):
        """The sum of the samples of a metric with these labels."""
        time.sleep(0.06)  # a text may be 50 ms old
        status, text = self.get("/metrics")
        assert status == 200, status
        series = prom.parse(text)[1].get(name, {})
        return sum(v for k, v in series.items() if labels.items() <= dict(k).items())

    def until(self, what, condition):
        """Wait for a condition."""
        end = time.monotonic() + BUSY_S
        while not condition():
            assert time.monotonic() < end, f"not within {BUSY_S} s: {what}\n{self.site.said()[-1500:]}"
            time.sleep(0.05)

    def file(self, name, size):
        """A file of a client, of random octets."""
        p = f"{self.site.home}/{name}"
        with open(self.site.at(p), "wb") as f:
            f.write(self.rng.randbytes(size))
        return p

    def octets(self, p):
        """What a file of the site has."""
        with open(self.site.at(p), "rb") as f:
            return f.read()

    def key(self, client, folder, text):
        """Write a client's key file below a folder."""
        p = f"{folder}/{client}.key"
        with open(os.open(self.site.at(p), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
            f.write(text)
        return p

    def give_key(self, client):
        """A new key of a client, at the target alone. Returns what makes it the client's, too."""
        text = self.rng.randbytes(24).hex()
        self.site.own(self.key(client, self.site.etc, text))
        return lambda: self.keys.update({client: self.key(client, self.site.home, text)})

    def words(self, client, *words):
        """The command line of a copy by a client, which has the port of its number."""
        n = ("alice", "bob").index(client)
        words = [f"weft://10.0.{n}.1/" + w[1:] if w.startswith("@") else w for w in words]
        auth = ["--auth", f"{client}:{self.keys[client]}"] if client in self.keys else []
        return ["weft-cp", "-c", self.site.clients[n], *auth, *words]

    def copy(self, client, *words, ok=0):
        """Run a copy; @EXPORT is an export. Its report, or the one line that it printed."""
        rc, out, err = self.site.run(*self.words(client, "--json", *words))
        assert rc == ok, (words, rc, out, err, self.site.said()[-1500:])
        assert ok == 0 or len([t for t in err.splitlines() if t.strip()]) == 1, err
        return err if ok else json.loads(out)

    def hold(self, export, bytes_s):
        """Limit what is moved of an export in a second; 0: no limit."""
        self.ctl("export", "set", export, f"max_bytes_per_s={bytes_s}")

    def slow(self, client, *words):
        """Start a push that the export's limit holds back: it has a grant when this returns, and goes on slowly until release()."""
        export = words[-1][1:]
        self.hold(export, HELD_BYTES_S)
        p = self.site.spawn_client(*self.words(client, "--json", "--block", HELD_BLOCK, *words))
        self.until(f"{client} has a grant of {export}", lambda: p.poll() is not None or self.holds(client, export))
        assert p.poll() is None, p.communicate()
        return p

    def release(self, p, export):
        """What slow() has begun goes on at once, and ends well. Its report."""
        assert p.poll() is None, p.communicate()
        self.hold(export, 0)
        out, err = p.communicate(timeout=120)
        assert p.returncode == 0, (p.returncode, err, self.site.said()[-1500:])
        return out

    def holds(self, client, export):
        """Whether a client has a grant of an export."""
        rows = self.ctl("connections")["connections"]
        return any(export in r["exports"] and r["grants"] for r in rows if r["client"] == client)

    def same(self, export, client="alice"):
        """A pull gives what the export has to have."""
        want, out = self.content[export], f"{self.site.home}/out"
        if os.path.exists(self.site.at(out)):
            os.unlink(self.site.at(out))
        self.copy(client, *(("--length", str(len(want))) if export == "disk" else ()), "@" + export, out)
        assert self.octets(out) == want, f"{export}: not what was pushed"

    def flushed(self, export):
        """Octets of an export that were made durable."""
        return self.value("weft_export_flushed_bytes_total", export=export)

    # ---- The day ----

    def configure(self):
        """Two ports, two clients with keys, and metrics are added to the configuration; it is checked, and the target starts."""
        become = [self.give_key(c) for c in ("alice", "bob")]
        for b in become:
            b()
        with open(self.site.at(self.site.conf), "a", encoding="utf-8") as f:
            f.write(f"host_auth = required\nmetrics = {self.port}\n" + self.site.second_port())
            f.write("".join(f"[client {c}]\nkey_file = {self.site.etc}/{c}.key\n" for c in ("alice", "bob")))
        rc, out, err = self.site.run_as_target("weft-target", "--check-config", "-c", self.site.conf)
        assert rc == 0 and "good" in out + err, (rc, out, err)
        self.site.start()
        for page in ("/livez", "/readyz"):
            assert self.get(page)[0] == 200, page
        assert self.value("weft_ready") == 1 and self.ctl("status")["exports"] == 0

    def create(self):
        """An object, and a volume on a small file system."""
        self.small = self.site.mount(f"{self.site.data}/small", 16 * self.unit // MIB)
        for changed in (True, False):
            got = self.ctl("export", "create", "box", f"size={8 * self.unit}", f"path={self.site.data}/box.weft")
            assert got == {"name": "box", "state": "served", "changed": changed}, got
        self.ctl("export", "create", "disk", f"size={16 * self.unit}", f"path={self.disk}", "format=volume", "checksums=yes",
                 f"scrub={SCRUB_MB_S}")
        assert {r["name"]: r["state"] for r in self.ctl("exports")["exports"]} == {"box": "served", "disk": "served"}
        assert self.value("weft_export_up") == 2
        rc, out, err = self.site.run(*self.words("alice", "--list", "weft://10.0.0.1"))
        assert rc == 0 and "box" in out and "disk" in out, (rc, out, err)

    def push_from_two_clients(self):
        """At the same time, each to an export; then each pulls what the other one pushed."""
        sizes = {"box": self.unit + 4321, "disk": 3 * self.unit}
        procs = []
        for (export, size), client in zip(sizes.items(), ("alice", "bob")):
            src = self.file(f"{client}.src", size)
            self.content[export] = self.octets(src)
            procs.append((self.slow(client, src, "@" + export), export))
        assert {c["client"] for c in self.ctl("clients", "--interval-ms", "0")["clients"]} >= {"alice", "bob"}
        assert self.value("weft_export_grants") == 2
        for p, export in procs:
            assert json.loads(self.release(p, export))["bytes"] == sizes[export]
        self.same("disk", "alice")
        self.same("box", "bob")
        for (export, size), client in zip(sizes.items(), ("alice", "bob")):
            assert self.flushed(export) >= size, (export, self.flushed(export))
            assert self.value("weft_client_received_bytes_total", client=client) >= size, client
        assert self.value("weft_auth_passed_total") >= 4 and self.value("weft_export_failed_total") == 0

    def stranger_is_refused(self):
        """Without a key, and with a wrong one."""
        good = self.keys.pop("alice")
        src = self.file("stranger.src", 1000)
        before = self.value("weft_auth_refused_total")
        self.copy("alice", src, "@box", ok=1)
        self.keys["alice"] = self.key("wrong", self.site.home, self.rng.randbytes(24).hex())
        self.copy("alice", src, "@box", ok=1)
        self.keys["alice"] = good
        assert self.value("weft_auth_refused_total") == before + 2
        self.same("box")

    def watch(self):
        """An operator watches a push: its client, and that its octets grow."""
        src = self.file("watched.src", 2 * self.unit)
        p = self.slow("alice", src, "@box")
        rc, out, err = self.site.run("weft-ctl", "--json", "watch", "--interval", "0.5", "--count", "4", "clients")
        rounds = [[c for c in json.loads(t)["clients"] if c["client"] == "alice"] for t in out.splitlines()]
        assert rc == 0 and len(rounds) == 4 and all(len(r) == 1 and r[0]["authenticated"] for r in rounds), (rc, out, err)
        got = [r[0]["recv_bytes"] for r in rounds]
        assert got == sorted(got) and got[-1] > got[0], got
        self.release(p, "box")
        self.content["box"] = self.octets(src)
        self.same("box")

    def resize(self):
        """An object and a volume grow, and keep what they have; the new room is used. A size below the content is refused."""
        self.ctl("export", "create", "raw", f"size={8 * self.unit}", f"path={self.site.data}/raw.img", "format=volume")
        src = self.file("raw.src", 2 * self.unit)
        self.copy("bob", src, "@raw")
        before = int(self.value("weft_export_capacity_bytes", export="raw"))
        for export in ("box", "raw"):
            assert self.ctl("export", "resize", export, str(24 * self.unit)) == {"name": export, "state": "served", "changed": True}
        assert self.value("weft_export_capacity_bytes", export="raw") == before + 16 * self.unit
        self.copy("bob", "--offset", str(before + self.unit), src, "@raw")
        for args in ((), ("--offset", str(before + self.unit))):
            self.copy("alice", "--verify-only", *args, src, "@raw")
        rc, out, err = self.site.run(*self.words("alice", "--verify-only", "--offset", str(before), src, "@raw"))
        assert rc == 3, (rc, out, err)
        self.ctl("export", "delete", "raw", "--confirm", "raw")
        os.unlink(self.site.at(f"{self.site.data}/raw.img"))
        self.same("box")
        src = self.file("large.src", 6 * self.unit)
        self.copy("alice", src, "@box")
        self.content["box"] = self.octets(src)
        assert "has room for" in self.ctl("export", "resize", "box", str(8 * self.unit), "--shrink", ok=1)
        self.same("box", "bob")

    def fill(self):
        """The small file system fills up under the volume: the push fails, says so, and is counted. The other export is served."""
        if self.small is None:
            return
        with open(f"{self.small}/filler", "wb") as f:
            while True:
                try:
                    f.write(bytes(MIB // 16))
                    f.flush()
                except OSError:
                    break
        failed = self.value("weft_export_failed_total", export="disk")
        src = self.file("late.src", 2 * self.unit)
        err = self.copy("bob", "--offset", str(8 * self.unit), src, "@disk", ok=1)
        assert "No space left on device" in err, (err, self.site.said()[-1500:])
        assert self.value("weft_export_failed_total", export="disk") > failed
        err = self.ctl("export", "create", "more", f"size={4 * self.unit}", f"path={self.site.data}/small/more.weft", ok=1)
        assert "no space" in err and not os.path.exists(f"{self.small}/more.weft"), err
        self.same("box")

    def free(self):
        """Room again: the same push succeeds, without a word to the target, and what was there before is there."""
        if self.small is None:
            return
        os.unlink(f"{self.small}/filler")
        src = f"{self.site.home}/late.src"
        self.copy("bob", "--offset", str(8 * self.unit), src, "@disk")
        out = f"{self.site.home}/late.out"
        self.copy("alice", "--offset", str(8 * self.unit), "--length", str(2 * self.unit), "@disk", out)
        assert self.octets(out) == self.octets(src)
        self.same("disk")

    def damage_and_scrub(self):
        """Octets of the volume change on its medium: the scrub finds the block, and a reader is not given it."""
        assert self.ctl("drain", "disk")["state"] == "held" and self.value("weft_export_held", export="disk") == 1
        at = self.unit // BLOCK * BLOCK
        mark = self.content["disk"][at:at + BLOCK]
        with open(self.site.at(self.disk), "r+b") as f:
            f.seek(f.read().index(mark) + 100)
            f.write(bytes(b ^ 0xff for b in mark[100:104]))
        self.ctl("online", "disk")
        self.until("the scrub finds the block", lambda: self.damaged() > 0)
        assert re.search(r"disk.*DAMAGED|DAMAGED.*disk", self.site.said()), self.site.said()[-1500:]
        out = f"{self.site.home}/damaged.out"
        err = self.copy("alice", "--length", str(3 * self.unit), "@disk", out, ok=1)
        assert "checksum" in err and not os.path.exists(self.site.at(out)), err
        self.copy("alice", "--length", str(at), "@disk", out)
        assert self.octets(out) == self.content["disk"][:at]

    def damaged(self):
        """How often a block of the volume did not have its checksum."""
        return self.value("weft_export_damaged_blocks_total", export="disk")

    def judged(self, status):
        """The findings of weft-fsck in the volume, which is out of service meanwhile."""
        rc, out, err = self.site.run("weft-fsck", "--data", "--json", self.disk)
        assert rc == status, (rc, out, err)
        return json.loads(out)["findings"]

    def fsck(self):
        """The medium is refused while it is served. Out of service, the damaged block is named and left."""
        rc, _, err = self.site.run("weft-fsck", "--data", self.disk)
        assert rc == 8 and "in use" in err, (rc, err)
        self.ctl("drain", "disk")
        at = self.unit // BLOCK * BLOCK
        found = self.judged(4)
        assert len(found) == 1 and f"octets {at} to {at + BLOCK - 1}" in found[0]["what"], found
        self.ctl("online", "disk")

    def restore(self):
        """The client's file is pushed again: the volume is whole for readers, for fsck and for the next scrub."""
        rc, out, err = self.site.run(*self.words("bob", "--verify-only", f"{self.site.home}/bob.src", "@disk"))
        assert rc == 3 and f"at octet {self.unit}," in err, (rc, out, err)
        self.copy("bob", f"{self.site.home}/bob.src", "@disk")
        self.same("disk")
        rc, out, err = self.site.run(*self.words("bob", "--verify-only", f"{self.site.home}/bob.src", "@disk"))
        assert rc == 0, (rc, out, err)
        self.ctl("drain", "disk")
        assert self.judged(0) == []
        self.ctl("online", "disk")
        # A scrub of the whole volume, and half of the next one.
        found, end = self.damaged(), time.monotonic() + 1.5 * 16 * self.unit / (SCRUB_MB_S * MIB)
        while time.monotonic() < end:
            assert self.damaged() == found, "a scrub finds damage"

    def rotate_keys(self):
        """alice gets a new key. The old one is refused from the reload on; bob's push notices nothing."""
        src = self.file("rotate.src", self.unit)
        pushing = self.slow("bob", src, "@disk")
        become = self.give_key("alice")
        self.ctl("reload")
        self.copy("alice", "@box", f"{self.site.home}/never", ok=1)
        become()
        self.same("box")
        self.release(pushing, "disk")
        self.content["disk"] = self.octets(src) + self.content["disk"][self.unit:]
        self.same("disk")

    def drop(self):
        """A client is dropped in the middle of a push: the object stays. One that tries again goes on to the end."""
        src = self.file("drop.src", 2 * self.unit)
        p = self.slow("alice", "--reconnect", "0", src, "@box")
        assert self.ctl("drop", "alice")["connections"] == 1
        _, err = p.communicate(timeout=60)
        assert p.returncode == 5 and len(err.strip().splitlines()) == 1, (p.returncode, err)
        self.hold("box", 0)
        self.until("its grant has gone", lambda: self.value("weft_export_grants", export="box") == 0)
        assert "no connection" in self.ctl("drop", "alice", ok=5)
        self.same("box")
        p = self.slow("alice", "--retries", "5", "--retry-wait", "0.2", src, "@box")
        self.ctl("drop", "alice")
        self.release(p, "box")
        self.content["box"] = self.octets(src)
        self.same("box", "bob")

    def upgrade(self):
        """Another version takes the target's place in the middle of a push, which goes on. Exports and contents are as before."""
        keys = ("name", "state", "format", "place", "capacity_bytes")
        before = [[r[k] for k in keys] for r in self.ctl("exports")["exports"]]
        src = self.file("upgrade.src", 3 * self.unit)
        p = self.slow("bob", "--retries", "30", "--retry-wait", "0.3", src, "@disk")
        self.site.upgrade()
        self.release(p, "disk")
        self.content["disk"] = self.octets(src)
        assert [[r[k] for k in keys] for r in self.ctl("exports")["exports"]] == before
        assert self.get("/readyz")[0] == 200 and self.value("weft_export_up") == 2
        self.same("disk")
        self.same("box")
        self.ctl("drain", "disk")
        assert self.judged(0) == []
        self.ctl("online", "disk")
