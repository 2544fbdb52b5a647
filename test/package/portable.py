#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions beyond the baseline of the default build: portable.py BUILD. TAP.

Disassembles the libraries and programs. Instructions of AVX, BMI and the like may stand only in functions that are called
after a look at the processor.
"""
import json
import os
import re
import subprocess
import sys

# Encoded with a VEX or EVEX prefix, or of BMI1, BMI2, LZCNT, MOVBE, AES and PCLMULQDQ: none is in DPDK's -march=corei7.
NEWER = re.compile(r"^(v(?!err\b|erw\b|erwl?\b|mcall\b|mmcall\b)[a-z0-9]+|andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|s(ar|hl|hr)x"
                   r"|lzcnt|movbe|aes(enc|dec|imc|keygenassist)\w*|pclmul\w*|k(mov|or|and|not|unpck)[bwdq]+)$")
# Called only where the processor has them.
GUARDED = {"sum_avx2", "weft_vec_clear", "mpa_crc_wide_add", "mpa_crc_wide_copy", "mpa_crc_wide_copy_sum"}
FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
PREFIXES = {"lock", "rep", "repz", "repnz", "bnd", "notrack", "data16", "cs", "ds", "addr32", "rex.W"}


def newer(path):
    """{function: its first instruction beyond the baseline} of a file."""
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    found, name = {}, None
    for line in out.splitlines():
        m = FUNCTION.match(line)
        if m:
            name = m[1]
            continue
        words = line.split("\t", 1)[-1].split()
        while words and words[0] in PREFIXES:
            words.pop(0)
        if words and ":\t" in line and NEWER.match(words[0]):
            found.setdefault(name, line.split("\t", 1)[1].strip())
    return found


def main():
    build = sys.argv[1]
    with open(os.path.join(build, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as f:
        options = {o["name"]: o["value"] for o in json.load(f)}
    if options["march"]:
        print(f"1..0 # SKIP built with -Dmarch={options['march']}")
        return 0
    with open(os.path.join(build, "meson-info", "intro-targets.json"), encoding="utf-8") as f:
        files = sorted(t["filename"][0] for t in json.load(f)
                       if t["type"] in ("shared library", "executable") and t["installed"])
    n = bad = 0
    guarded = set()
    for path in files:
        if not os.path.exists(path):
            continue
        n += 1
        found = newer(path)
        wrong = {k: v for k, v in found.items() if k.split(".")[0] not in GUARDED}
        guarded |= {k.split(".")[0] for k in found} & GUARDED
        bad += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {n} {os.path.basename(path)} keeps to the baseline")
        for k, v in list(wrong.items())[:10]:
            print(f"#   {k}: {v}")
    # The look itself finds what is there.
    n += 1
    ok = guarded == GUARDED
    bad += not ok
    print(f"{'ok' if ok else 'not ok'} {n} the guarded functions have newer instructions # {sorted(guarded)}")
    print(f"1..{n}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
