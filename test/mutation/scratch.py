# SPDX-License-Identifier: BSD-3-Clause
"""A copy of the part of a build directory that a layer's tests are linked from. One object can be exchanged there and one
test linked anew, and the build directory itself does not change."""
import json
import os
import re
import shlex
import shutil
import subprocess

COMPILE_S = 120


def sh(argv, cwd, check=True, timeout=600):
    """Run a command and capture its output."""
    p = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)
    if check and p.returncode:
        raise RuntimeError(f"{' '.join(argv)[:400]}: {(p.stderr or p.stdout)[-2000:]}")
    return p


class Scratch:
    """src: the source tree; build: an up-to-date build directory of it; root: an empty folder for this copy."""

    def __init__(self, src, build, root, layer, test_programs):
        self.src, self.build, self.root, self.layer = src, build, root, layer
        self.tree = os.path.join(root, "build")
        os.makedirs(self.tree)
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
            commands = json.load(f)
        self.outputs, self.command = {}, {}
        for c in commands:
            path = os.path.relpath(os.path.join(c["directory"], c["file"]), src)
            if path.startswith(layer + "/"):
                self.outputs.setdefault(path, []).append(c["output"])
                if path not in self.command or "-fPIC" in c["command"]:
                    self.command[path] = self.flags(c["command"])
        self.links, self.archives = {}, {}
        for program in test_programs:
            line = sh(["ninja", "-t", "commands", program], build).stdout.strip().split("\n")[-1]
            self.links[program] = shlex.split(line)
            for word in self.links[program]:
                self.copy(word)
        self.objects = {}
        self.pch, self.plain = None, set()  # plain: files that are compiled without the precompiled header
        lld = shutil.which("ld.lld")
        self.link_args = ["-fuse-ld=lld", "-Wl,-S"] if lld else ["-Wl,-S"]

    def flags(self, command):
        """The compiler and its options, without those for files, warnings, optimisation and debug information."""
        words = shlex.split(command)
        words = words[words.index("ccache") + 1:] if "ccache" in words[:2] else words
        out, skip = [], False
        for w in words:
            if skip or w in ("-MD", "-c", "-g", "-fPIC") or re.match(r"-W(?!l)|-O|-fdiagnostics", w):
                skip = False
            elif w in ("-MQ", "-MF", "-o"):
                skip = True
            elif not w.endswith(".c"):
                out.append(w)
        return out + ["-w", "-g0", "-fPIC", "-pipe"]

    def copy(self, word):
        """Copy an input of a link, and the members of a thin archive."""
        origin, here = os.path.join(self.build, word), os.path.join(self.tree, word)
        if not word.endswith((".o", ".a")) or os.path.isabs(word) or os.path.exists(here) or not os.path.exists(origin):
            return
        os.makedirs(os.path.dirname(here), exist_ok=True)
        if word.endswith(".o"):
            shutil.copy(origin, here)
            return
        members = sh(["ar", "t", word], self.build).stdout.split()
        with open(origin, "rb") as f:
            thin = f.read(7) == b"!<thin>"
        if not thin:
            shutil.copy(origin, here)
            return
        for m in members:
            self.copy(m)
            self.archives.setdefault(m, set()).add(word)
        sh(["ar", "csrDT", word] + members, self.tree)

    def compile(self, path, text, out, extra=()):
        """Compile a text as if it stood in the file `path`. Whether it compiles."""
        folder = os.path.join(self.root, "src")
        os.makedirs(folder, exist_ok=True)
        file = os.path.join(folder, os.path.basename(path))
        with open(file, "w", encoding="utf-8") as f:
            f.write(text)
        flags = list(self.command[path])
        if self.pch and not extra and path not in self.plain:
            i = flags.index("-include") if "-include" in flags else len(flags)
            flags[i:i] = ["-include", self.pch]
        here = ["-iquote", os.path.join(self.src, os.path.dirname(path))]
        try:
            p = sh(flags + here + (list(extra) or ["-O1"]) + ["-o", out, "-c", file], self.build, check=False,
                   timeout=COMPILE_S)
        except subprocess.TimeoutExpired:
            return False
        return p.returncode == 0

    def prepare(self):
        """Precompile the headers that the layer's files include, if they compile together."""
        names = []
        for path in sorted(self.command):
            with open(os.path.join(self.src, path), encoding="utf-8") as f:
                names += [(n, path) for n in re.findall(r"^#include\s+([<\"][^>\"]+[>\"])", f.read(), re.M)]
        seen = list(dict.fromkeys(n for n, _ in names))
        seen.sort(key=lambda n: n[0] == '"')
        head = os.path.join(self.root, "layer.h")
        with open(head, "w", encoding="utf-8") as f:
            f.write("#include <rte_config.h>\n" + "".join(f"#include {n}\n" for n in seen))
        flags = next(iter(self.command.values()), None)
        if flags:
            p = sh(flags + ["-iquote", os.path.join(self.src, self.layer), "-O1", "-x", "c-header", "-o",
                            head + ".gch", head], self.build, check=False)
            self.pch = head if p.returncode == 0 else None

    def original(self, path):
        """The object of the unchanged file, compiled as mutants are. None: it does not compile."""
        if path not in self.objects:
            with open(os.path.join(self.src, path), encoding="utf-8") as f:
                text = f.read()
            out = os.path.join(self.root, path.replace("/", "_") + ".o")
            self.plain.add(path)
            ok = self.compile(path, text, out)
            if ok and self.pch:
                # A header that the file does not include may change its object, for example by a macro that renames calls.
                self.plain.remove(path)
                with_all = out + ".pch"
                same = self.compile(path, text, with_all)
                if same:
                    with open(out, "rb") as a, open(with_all, "rb") as b:
                        same = a.read() == b.read()
                if not same:
                    self.plain.add(path)
            self.objects[path] = out if ok else None
        return self.objects[path]

    def put(self, path, obj):
        """Exchange a file's object everywhere in the copy."""
        for out in self.outputs[path]:
            here = os.path.join(self.tree, out)
            if os.path.exists(here):
                shutil.copy(obj, here)
            for archive in self.archives.get(out, ()):
                members = sh(["ar", "t", archive], self.tree).stdout.split()
                os.unlink(os.path.join(self.tree, archive))
                sh(["ar", "csrDT", archive] + members, self.tree)

    def link(self, program, extra=()):
        """Link one test from the copy. Its path, or None if it does not link."""
        words = list(self.links[program])
        os.makedirs(os.path.join(self.tree, os.path.dirname(program)), exist_ok=True)
        p = sh(words + self.link_args + list(extra), self.tree, check=False)
        return os.path.join(self.tree, program) if p.returncode == 0 else None
