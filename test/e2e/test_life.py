#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A day in the life of a target (life.py), with the programs of a build and the configuration files of the packages.

test_life.py BUILD [CASE...]. WEFT_TEST_SEED=N repeats the contents. A file system that fills up takes root.
"""
import os
import subprocess
import time

from kill_rounds import SEED
from life import MIB, Day, second_client, second_port
from test_medium import made
from test_metrics import free_port
from weft_e2e import PROCS, Skip, Target, app, main, path, run

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "apps", "package")


class Site(Target):
    """The folders of an installed target, below the test's own."""

    def __init__(self, m):
        self.m = m
        self.etc, self.data, self.home, self.run_dir = (path(n) for n in ("etc", "lib", "home", "run"))
        for d in (self.etc, self.data, self.home, self.run_dir, self.data + "/state"):
            os.mkdir(d, 0o700)
        super().__init__("life", {}, ports=0)
        target, first = (self.installed(n) for n in ("target.ini", "client.ini"))
        self.conf, self.clients = self.write("target.ini", target), [self.write("client.ini", first)]
        self.clients.append(self.write("second.ini", second_client(first)))
        with open(self.conf, "a", encoding="utf-8") as f:
            f.write(f"control = {self.run_dir}/control.sock\n")

    def installed(self, name):
        """A configuration file of the packages, with the folders of here."""
        with open(os.path.join(PACKAGE, name), encoding="utf-8") as f:
            return f.read().replace("/run/weft", self.run_dir).replace("/var/lib/weft", self.data)

    def write(self, name, text):
        """Write a file of the configuration; its path."""
        p = f"{self.etc}/{name}"
        with open(p, "w", encoding="utf-8") as f:
            f.write(text)
        return p

    def second_port(self):
        return second_port(self.installed("target.ini"))

    def words(self, *words):
        more = ["--socket", f"{self.run_dir}/control.sock"] if words[0] == "weft-ctl" else []
        return [app(words[0]), *more, *words[1:]]

    def run(self, *words):
        return run(self.words(*words), timeout=120)

    run_as_target = run

    def spawn_client(self, *words):
        p = subprocess.Popen(self.words(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        PROCS.append(p)
        return p

    def at(self, p):
        return p

    def own(self, p):
        """The target's user is that of the test."""

    def mount(self, p, mib):
        try:
            folder = self.m.tmpfs("small", f"{mib}M")
            self.m.use(self)
        except Skip as e:
            print(f"# the file system does not fill up: {e}", flush=True)
            folder = None
        os.mkdir(p) if folder is None else os.symlink(folder, p)
        return folder

    def upgrade(self):
        """The program is the same one. It is stopped as the manager of services stops it."""
        began = time.monotonic()
        assert self.term() == 0 and time.monotonic() - began < 10, self.logged()
        self.start()

    said = Target.logged


def test_life():
    with made() as m:
        site = Site(m)
        for step in Day(site, free_port(), MIB, SEED).steps():
            began = time.monotonic()
            step()
            print(f"# seed {SEED}: {step.__name__}: {time.monotonic() - began:.1f} s", flush=True)
        assert site.term() == 0, site.logged()
        # What stays is the operator's: configuration, exports, their table.
        left = {os.path.relpath(os.path.join(d, n), site.run_dir) for d, _, names in os.walk(site.run_dir) for n in names}
        assert left <= {"control.sock.lock"}, left
        assert os.path.getsize(f"{site.data}/box.weft") == 24 * MIB and os.path.exists(f"{site.data}/state/exports.ini")


if __name__ == "__main__":
    main([test_life])
