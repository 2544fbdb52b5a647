#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The coverage of the fuzz entries: coverage.py PROFDATA -object EXE [-object EXE]...

Prints lines and branches by layer. Then it prints the code that is never reached: by reason (unreached.txt gives one
for a function or a file), and functions without a reason, with their lines. test/fuzz/run --coverage makes the profile.

The first part is llvm-cov's summary, which adds up functions (for an inline one, the instance with the best coverage).
The second part is by the lines of each file. The sums differ a little.
"""
import collections
import fnmatch
import json
import os
import re
import subprocess
import sys

LAYERS = ["base", "netif", "tcp", "mpa", "ddp", "rdmap", "mem", "verbs", "place", "cm", "rpcrdma"]
HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.dirname(os.path.dirname(HERE))


def export(args, how):
    return subprocess.run(["llvm-cov-14", "export", "-instr-profile", sys.argv[1], *how, *args], check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def layer_of(path):
    m = re.search(r"(?:^|/)lib/([a-z]+)/[^/]+$", os.path.relpath(os.path.realpath(path), SRC))
    return m.group(1) if m and m.group(1) in LAYERS else None


def reasons():
    """[(glob of the path, glob of the function, reason)]; the first match counts"""
    out = []
    for line in open(os.path.join(HERE, "unreached.txt"), encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            what, why = line.rstrip("\n").split(None, 1)
            path, _, function = what.partition(":")
            out.append((path, function or "*", why))
    return out


def lcov(text):
    """path -> ({line: count}, [(first line, function, count)])"""
    files, lines, functions = {}, None, None
    for line in text.splitlines():
        tag, _, rest = line.partition(":")
        if tag == "SF":
            lines, functions = files.setdefault(os.path.relpath(os.path.realpath(rest), SRC), ({}, {}))
        elif tag == "FN":
            at, name = rest.split(",", 1)
            functions[name.rsplit(":", 1)[-1]] = [int(at), 0]
        elif tag == "FNDA":
            count, name = rest.split(",", 1)
            functions[name.rsplit(":", 1)[-1]][1] += int(count)
        elif tag == "DA":
            at, count = rest.split(",")[:2]
            lines[int(at)] = lines.get(int(at), 0) + int(count)
    return files


def ranges(numbers):
    out = []
    for n in numbers:
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def main():
    args = sys.argv[2:]
    first = args.index("-object")  # llvm-cov expects the first file without the option
    args = [args[first + 1], *args[:first], *args[first + 2:]]
    summary = json.loads(export(args, ["-format=text", "-summary-only"]))["data"][0]["files"]
    sums = {layer: collections.Counter() for layer in LAYERS}
    for f in summary:
        layer = layer_of(f["filename"])
        if layer:
            for kind in ("lines", "branches", "functions"):
                sums[layer][kind] += f["summary"][kind]["count"]
                sums[layer][kind + " hit"] += f["summary"][kind]["covered"]
    print(f"{'layer':9}{'lines':>15}{'':>7}{'branches':>15}{'':>7}{'functions':>13}")
    for layer in LAYERS:
        s = sums[layer]
        cols = []
        for kind, width in (("lines", 15), ("branches", 15), ("functions", 13)):
            n, hit = s[kind], s[kind + " hit"]
            cols.append(f"{f'{hit}/{n}':>{width}}{100 * hit / n if n else 0:6.1f}%")
        print(f"{layer:9}" + "".join(cols))

    why = reasons()
    by_reason = collections.defaultdict(collections.Counter)
    rest = collections.defaultdict(list)
    for path, (lines, functions) in sorted(lcov(export(args, ["-format=lcov"])).items()):
        layer = layer_of(os.path.join(SRC, path))
        if not layer:
            continue
        starts = sorted((at, name, count) for name, (at, count) in functions.items())
        missed = collections.defaultdict(list)
        for n in sorted(n for n, count in lines.items() if count == 0):
            owner = [s for s in starts if s[0] <= n]
            missed[owner[-1] if owner else (0, "", 1)].append(n)
        for (_, name, count), numbers in missed.items():
            reason = next((r for p, f, r in why if fnmatch.fnmatch(path, p) and fnmatch.fnmatch(name, f)), None)
            if reason:
                by_reason[reason][layer] += len(numbers)
            else:
                rest[path].append((name, count == 0, numbers))
    print("\nnever reached, lines by reason:")
    for reason, layers in sorted(by_reason.items(), key=lambda x: -sum(x[1].values())):
        print(f"  {sum(layers.values()):5} {reason} ("
              + ", ".join(f"{layer} {n}" for layer, n in layers.most_common()) + ")")
    print(f"  {sum(len(n) for fs in rest.values() for _, _, n in fs):5} without a reason given:")
    for path, functions in rest.items():
        print(f"    {path}")
        for name, never, numbers in functions:
            print(f"      {name}: " + (f"never entered ({len(numbers)} lines)" if never else ranges(numbers)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
