#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the real target gives to who has shown nothing. test_strangers.py BUILD [CASE...]"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
sys.dont_write_bytecode = True
from test_auth import fails, key, start  # noqa: E402
from weft_e2e import main, make_file  # noqa: E402


def test_optional_held_off():
    """With `optional`, an address that has to wait is served like all that show nothing; it may not try."""
    t, tel = start("oheld", "optional")
    src = make_file("oheld1", 1 << 20, 4)
    for _ in range(5):
        fails(t, src, "does not know this name", args=["--auth", f"alice:{key('wrong')}"])
    fails(t, src, "takes none now", args=["--auth", f"alice:{key('alice')}"])
    t.push(src, "demo")
    now = tel.ask("/weft/target/clients")
    assert (now["passed"], now["refused"], now["held_off"]) == (0, 5, 1), now
    assert "has to wait" in t.logged()
    assert t.term() == 0


if __name__ == "__main__":
    main([test_optional_held_off])
