# SPDX-License-Identifier: BSD-3-Clause
"""Let the compiler read <immintrin.h> once and not for every file: precompile.py BUILD

DPDK's headers include it, and reading it takes longer than compiling most files. The build directory was set up with
-include BUILD/pch/vectors.h, which contains only that include, so it does not hide a missing include of ours. A
precompiled header fits one set of options. This program makes one for each set that enough files share.
"""
import collections
import json
import os
import shlex
import subprocess
import sys

ENOUGH = 10  # least number of files that share a set of options


def options(command):
    """The options on which a precompiled header depends, after the compiler."""
    out, words = [], iter(shlex.split(command))
    for w in words:
        if w in ("-o", "-c", "-MF", "-MQ", "-include"):
            next(words)
        elif not w.startswith(("-I", "-W", "-M", "-D", "-isystem")) and not w.endswith(".c"):
            out.append(w)
        elif w in ("-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64"):
            out.append(w)
    return tuple(out)


def main(build):
    header = os.path.join(build, "pch", "vectors.h")
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        sets = collections.Counter(options(e["command"]) for e in json.load(f))
    os.makedirs(header + ".gch", exist_ok=True)
    made = [subprocess.Popen([*o, "-x", "c-header", header, "-o", f"{header}.gch/{i}.gch"])
            for i, (o, n) in enumerate(sets.most_common()) if n >= ENOUGH]
    return max([p.wait() for p in made], default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
