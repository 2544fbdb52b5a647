#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""No library and no program that is installed holds a hook of the tests: check_product.py BUILD SABOTAGED. Prints TAP.

A hook is a symbol, or a name in a string or in what debuggers read. SABOTAGED is a program that tests link with hooks; there
and in two copies of a library the check must find them."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HOOK = re.compile(rb"[\w.-]*(?:sabotage|test_hook|for_tests?)[\w.-]*", re.I)


def product(build):
    """Shared libraries, static libraries and programs that `meson install` would install."""
    libraries = [p for p in glob.glob(f"{build}/libweft*.so") + glob.glob(f"{build}/libweft*.a")]
    return libraries + [p for p in glob.glob(f"{build}/apps/*/weft-*") if os.path.isfile(p) and os.access(p, os.X_OK)]


def hooks(path, without):
    """Names of hooks in a file. Paths of the source tree and of the build are no names."""
    symbols = subprocess.run(["nm", path], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    with open(path, "rb") as f:
        octets = f.read()
    for p in without:
        octets = octets.replace(os.fsencode(p), b"")
    return {m[0].decode() for text in (symbols, octets) for m in HOOK.finditer(text)}


def check(n, what, faults):
    """One TAP line; returns whether it is good."""
    for f in faults:
        print("# " + f)
    print(f"{'not ok' if faults else 'ok'} {n} {what}")
    return not faults


def main():
    """The command line."""
    build, sabotaged = sys.argv[1:]
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    without = [os.path.abspath(build), source]
    files = product(build)
    good = check(1, f"{len(files)} libraries and programs hold no hook",
                 [f"{f}: {' '.join(sorted(found))}" for f in files for found in [hooks(f, without)] if found]
                 + ["too few of them were found"] * (len(files) < 8))
    found = hooks(sabotaged, without)
    good &= check(2, "hooks are found where they are", ["rdmap_sabotaged: not found"] * ("rdmap_sabotaged" not in found))
    with tempfile.TemporaryDirectory() as tmp:
        planted = os.path.join(tmp, "libweft.so")
        shutil.copy(f"{build}/libweft.so", planted)
        subprocess.run(["objcopy", "--add-symbol", "weft_engine_sabotage=.text:0,local", planted], check=True)
        good &= check(3, "a local symbol", ["not found"] * (hooks(planted, without) != {"weft_engine_sabotage"}))
        shutil.copy(f"{build}/libweft.so", planted)
        with open(planted, "ab") as f:
            f.write(b"\0weft_clock_for_test\0")
        good &= check(4, "a string", ["not found"] * (hooks(planted, without) != {"weft_clock_for_test"}))
    print("1..4")
    return int(not good)


sys.exit(main())
