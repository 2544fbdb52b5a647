#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""perftest over weft: every program that iWARP can serve with every option: test_perftest.py BUILD [CASE...]. TAP.

Each pair runs on buffers that are mapped files. So beside the figures the test compares the memory of both ends: what
the operations should have moved from one end to the other.
"""
import math
import os
import random
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import SERVER, check  # noqa: E402

SIZE = 4096
OPTIONS = {"plain": [], "-e": ["-e"], "-b": ["-b"], "-q 8": ["-q", "8"], "-a": ["-a"], "-I 64": ["-I", "64"], "-r 64": ["-r", "64"],
           "--use-srq": ["--use-srq"], "-D 1": ["-D", "1"], "-l 8": ["-l", "8"]}
# What perftest itself refuses, whatever the device: (a part of the program's name, the option, a part of its message).
REFUSED = [("ib_write", "-e", "Events feature not available on WRITE verb"), ("_lat", "-b", "only available in BW test"),
           ("_lat", "-q 8", "only available on bw tests"), ("ib_atomic", "-a", "Message size cannot be changed"),
           ("ib_read", "-I 64", "Inline feature not available"), ("ib_atomic", "-I 64", "Inline feature not available"),
           ("ib_write", "-r 64", "rx depth can be only 1"), ("ib_read", "-r 64", "rx depth can be only 1"),
           ("ib_atomic", "-r 64", "rx depth can be only 1"), ("ib_write", "--use-srq", "in SEND tests"),
           ("ib_read", "--use-srq", "in SEND tests"), ("ib_atomic", "--use-srq", "in SEND tests"),
           ("_lat", "-l 8", "supported in BW tests only")]
draw = random.Random(int(os.environ.get("WEFT_TEST_SEED", "1")))


def refusal(program, option):
    """What perftest says to this option, or None."""
    for part, o, text in REFUSED:
        if o == option and part in program:
            return text
    return None


def rows(e):
    """The lines of figures that an end printed."""
    number = r"(?:[\d.]+|inf|-?nan)"
    return [[float(x) for x in line.split()] for line in e.out.splitlines() if re.fullmatch(rf"\s+\d+(\s+{number}){{3,}}\s*", line)]


def peers(e):
    """The queue pairs that an end tells: (its own, the other's)."""
    return [re.findall(side + r" address: LID \w+ QPN (0x\w+) PSN (0x\w+)", e.out) for side in ("local", "remote")]


def iterations(program, option):
    """How many to ask for. perftest waits for ever with numbers that are no multiple of its --cq-mod, which is 100."""
    return (1000 if option == "-e" else 200) if program.endswith("_bw") else 10


def octets(program, option):
    """The size to ask for. With -e a sender that waits for a credit sleeps until a Send completes. It sleeps for ever if all
    have completed before the peer has granted the credit, so what is in flight has to be less than what one credit is for."""
    return 8 if "atomic" in program else 64 if option == "-I 64" else 65536 if option == "-e" else SIZE


def figures(program, option, s, c):
    """The figures that both ends printed are those of what was asked for."""
    lat = program.endswith("_lat")
    size = octets(program, option)
    sizes = [2 ** n for n in range(1, 24)] if option == "-a" else [size]
    told = [s, c] if "send" in program or program == "ib_write_lat" else [c]
    for e in told:
        got = rows(e)
        # perftest measures the frequency of the CPU for each row. On a busy machine it finds none, says so, and the row has times
        # of "inf" or rates of 0.
        unmeasured = len(re.findall(r"Correlation coefficient r\^2: \S+ < ", e.out + e.err))
        check([r[0] for r in got] == sizes, f"sizes {[r[0] for r in got]}", e)
        for r in got:
            if option == "-D 1":
                check(r[1] > 0, f"no iterations: {r}", e)
            else:
                check(r[1] == iterations(program, option) * (8 if option == "-q 8" else 1), f"iterations: {r}", e)
            if (math.isinf(r[2]) if lat and option != "-D 1" else r[3] == 0) and unmeasured > 0:
                unmeasured -= 1
                print(f"# {program} {option}: no times of {r[0]:.0f} octets", flush=True)
            elif lat and option != "-D 1":
                check(0 < r[2] <= r[4] <= r[3] and r[2] <= r[5] <= r[3], f"times: {r}", e)
            elif not lat:
                check(r[3] > 0 and abs(r[3] - r[4] * r[0] * 1e6 / 2 ** 20) <= 0.02 * r[3] + 0.02, f"rates: {r}", e)
    (sl, sr), (cl, cr) = peers(s), peers(c)
    check(sl == cr and sr == cl and len(sl) == (8 if option == "-q 8" else 1), f"queue pairs: {peers(s)} {peers(c)}", s, c)


def contents(program, option, files):
    """What the operations should have moved is at the other end."""
    n = 8 if option == "-q 8" else 1
    size = octets(program, option)
    s, c = files
    pairs = []
    if "atomic" in program:
        # Each adds one to the other end's word and fetches what it was.
        words = [[int.from_bytes(f[at:at + size], "little") for at in range(0, len(f), 64)] for f in (s, c)]
        if n == 1 and option != "-b":
            check(any((w - 1) % 2 ** 64 == words[1][0] for w in words[0]), f"fetched {words[1][:4]}, left {words[0][:4]}")
        return
    for i in range(n):
        # Each half of the buffer has a page of 4096 octets for every queue pair.
        first, second = (slice(at * max(size, SIZE), at * max(size, SIZE) + size) for at in (i, n + i))
        back = option == "-b" or program.endswith("_lat")
        if "read" in program:
            pairs += [("client's Read", c[first], s[second])] + ([("server's Read", s[first], c[second])] if option == "-b" else [])
        else:
            pairs += [("client's data", s[second], c[first])] + ([("server's data", c[second], s[first])] if back else [])
    for what, at, of in pairs:
        check(len(of) == size and at == of, f"the {what} differs: {at[:16].hex()} {of[:16].hex()}")


def one(build, program, option):
    """One pair."""
    runs = [] if option == "-D 1" else ["-n", str(iterations(program, option))]
    if option != "-a" and "atomic" not in program:
        runs += ["-s", str(octets(program, option))]
    argv = [program, "-R", "-F", *runs, *OPTIONS[option]]
    says = refusal(program, option)
    with rig.Rig(build) as r:
        if says is not None:
            e = r.start("server", argv)
            check(e.wait() == 1 and says in e.out + e.err, e)
            return
        files = [r.path(x) for x in ("server", "client")]
        for f in files:
            with open(f, "wb") as out:
                out.write(draw.randbytes(40 << 20 if option == "-a" else 1 << 20))
        s, c = r.perftest(*(["stdbuf", "-oL", *argv, "--mmap=" + f, *to] for f, to in zip(files, ([], [SERVER]))))
        figures(program, option, s, c)
        if option not in ("-a", "-D 1"):
            try:
                contents(program, option, [open(f, "rb").read() for f in files])  # pylint: disable=consider-using-with
            except rig.Fail as e:
                raise rig.Fail(f"{e}\n" + c.told() + s.told()) from None


def case(program):
    """The case of a program: all options."""
    def run(build):
        rig.need(program)
        faults = []
        for option in OPTIONS:
            try:
                one(build, program, option)
            except rig.Fail as e:
                faults.append(f"{program} -R {option}: {e}")
        check(not faults, *faults)
    run.__name__ = program
    run.__doc__ = f"{program} -R with {', '.join(OPTIONS)}: figures, and memory at both ends"
    return run


if __name__ == "__main__":
    rig.main([case(f"ib_{verb}_{kind}") for verb in ("write", "read", "send", "atomic") for kind in ("bw", "lat")])
