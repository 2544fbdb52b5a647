# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of packages print: TAP, a line for each case."""
import sys

count = bad = 0


def check(name, ok, *why):
    """One line of the result."""
    global count, bad
    count += 1
    bad += not ok
    print(f"{'ok' if ok else 'not ok'} {count} {name}", flush=True)
    for w in () if ok else why:
        for t in str(w).rstrip().split("\n")[-30:]:
            print(f"#   {t}")


def skip(why):
    """End without a judgement."""
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def no_program(name, package=None):
    """Why a case is skipped: what is missing, and how to get it."""
    return f"there is no {name}: apt-get install {package or name}, or .ci/deps deb as root"


def end():
    """The last line; the exit status."""
    print(f"1..{count}")
    return 1 if bad else 0
