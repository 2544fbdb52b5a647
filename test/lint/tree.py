# SPDX-License-Identifier: BSD-3-Clause
"""The tree that lint.py checks: its tracked files, and the exceptions."""
import functools
import os
import subprocess

EXCEPTIONS = "test/lint/exceptions"
# Inputs of the fuzzers are octets and not text.
OCTETS = ("test/fuzz/corpus/",)


def git(top, *args):
    """Run git and return its output."""
    return subprocess.run(["git", "-C", top, *args], stdout=subprocess.PIPE, text=True, check=True).stdout


class Tree:
    """Tracked files below a folder. changed: the files that the slow rules check; None: all."""

    def __init__(self, top, paths, changed=None):
        self.top = top
        self.files = [p for p in paths if os.path.isfile(self.path(p)) and not os.path.islink(self.path(p))]
        self.changed = None if changed is None else set(changed)
        self.exceptions, self.exception_line, self.exception_reason = self._read_exceptions()

    def path(self, name):
        """Path of a file of the tree."""
        return os.path.join(self.top, name)

    @functools.lru_cache(maxsize=None)
    def octets(self, name):
        """Content of a file."""
        with open(self.path(name), "rb") as f:
            return f.read()

    @functools.lru_cache(maxsize=None)
    def lines(self, name):
        """Lines of a file, without their ends."""
        text = self.octets(name).decode("utf-8", "replace")
        return text.removesuffix("\n").split("\n") if text else []

    def is_text(self, name):
        """Whether a file is text."""
        return not name.startswith(OCTETS) and b"\0" not in self.octets(name)

    def interpreter(self, name):
        """The interpreter that the first line names ("bash", "python3"), or an empty text."""
        first = self.octets(name)[:80].split(b"\n")[0]
        return first.decode("utf-8", "replace").split()[-1].split("/")[-1] if first.startswith(b"#!") else ""

    def c_files(self):
        """C sources and headers."""
        return [p for p in self.files if p.endswith((".c", ".h"))]

    def shell_files(self):
        """Shell scripts, by name or by interpreter."""
        return [p for p in self.files if p.endswith(".sh") or self.interpreter(p) in ("sh", "bash", "dash")]

    def python_files(self):
        """Python sources, by name or by interpreter."""
        return [p for p in self.files if p.endswith(".py") or self.interpreter(p).startswith("python")]

    def of_change(self, names):
        """The files among `names` that changed."""
        return [p for p in names if self.changed is None or p in self.changed]

    def _read_exceptions(self):
        """{rule: {file: number}}, {(rule, file): line} and {(rule, file): reason}."""
        known, where, why = {}, {}, {}
        if EXCEPTIONS in self.files:
            for n, row in enumerate(self.lines(EXCEPTIONS), 1):
                if row and not row.startswith("#"):
                    rule, number, name, *reason = row.split(None, 3)
                    known.setdefault(rule, {})[name] = int(number)
                    where[rule, name] = n
                    why[rule, name] = "".join(reason)
        return known, where, why


def tracked(top):
    """Paths of all tracked files."""
    return [p for p in git(top, "ls-files", "-z").split("\0") if p]
