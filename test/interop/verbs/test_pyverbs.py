#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's pyverbs tests of the API over weft: test_pyverbs.py BUILD [MODULE...]. TAP.

Debian has the module (package python3-pyverbs) but not the tests. WEFT_PYVERBS_TESTS names a source tree of rdma-core 44.
A test that fails has to fail for a known reason: it connects queue pairs by ibv_modify_qp(), which iWARP has not.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
from rig import check  # noqa: E402

# The table of the README: how many of each module pass, fail and are skipped, with rdma-core 44.0.
README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "README.md")
with open(README, encoding="utf-8") as readme:
    ROWS = {name: tuple(map(int, n)) for name, *n in re.findall(r"^\| test_(\w+) \| (\d+) \| (\d+) \| (\d+) \|", readme.read(), re.M)}
KNOWN = r"Failed to modify QP state to RTS. Errno: 22"


def results(text):
    """(test, ok|FAIL|ERROR|skipped and why) of unittest's verbose output."""
    out, name = [], None
    for line in text.split("\n=====")[0].splitlines():
        m = re.match(r"(test_\w+) \(", line)
        name = m[1] if m else name
        m = re.search(r"(?:^|\.\.\. )(ok|FAIL|ERROR|skipped .*)$", line)
        if m and name:
            out.append((name, m[1]))
            name = None
    return out


def case(module):
    """The case of a module."""
    def run(build):
        tree = os.environ.get("WEFT_PYVERBS_TESTS")
        if not tree or not os.path.exists(os.path.join(tree, "tests/run_tests.py")):
            raise rig.Skip("WEFT_PYVERBS_TESTS names no source tree of rdma-core")
        with rig.Rig(build) as r:
            e = r.start("server", ["env", "-C", tree, "/usr/bin/python3", "tests/run_tests.py", "--dev", "weft0", "-v",
                                   "tests.test_" + module])
            e.wait(60)
            if "No module named 'pyverbs'" in e.err:
                raise rig.Skip("python3-pyverbs is not installed")
            got = results(e.err)
            for name, what in got:
                print(f"# {module} {name}: {what}")
            bad = sum(w in ("FAIL", "ERROR") for _, w in got)
            seen = (sum(w == "ok" for _, w in got), bad, sum(w.startswith("skipped") for _, w in got))
            check(seen == ROWS[module], f"passed, failed, skipped: {seen}; the README has {ROWS[module]}", e)
            check(len(re.findall(KNOWN, e.err)) >= bad, "a test fails for a reason that is not known", e)
    run.__name__ = module
    run.__doc__ = f"pyverbs' test_{module}: {ROWS[module][0]} pass, {ROWS[module][1]} fail, {ROWS[module][2]} skipped"
    return run


if __name__ == "__main__":
    rig.main([case(m) for m in ROWS])
