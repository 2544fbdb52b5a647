#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`test/run WHAT` finds what it names: check_some.py BUILD. Prints TAP."""
import contextlib
import io
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import some  # noqa: E402

BUILD = sys.argv[1]
every = some.tests(BUILD)


def by_layer():
    """The tests of a folder are exactly its own, without those that run only when named."""
    for folder in ("base", "mpa", "verbs", "e2e", "access"):
        found, case = some.named(every, folder)
        assert case is None and found and {t.folder for t in found} == {folder}, (folder, [t.name for t in found])
        assert not any(t.suites & some.ALONE for t in found), folder
        left = {t.name for t in every if t.folder == folder} - {t.name for t in found}
        assert all(t.suites & some.ALONE for t in every if t.name in left), (folder, left)


def by_room():
    """Each room of lib names tests, also where test/ has no folder of its name."""
    for room in os.listdir(os.path.join(some.HERE, "..", "..", "lib")):
        if os.path.exists(os.path.join(some.HERE, "..", "..", "lib", room, "meson.build")):
            found, _ = some.named(every, room)
            assert found and {t.folder for t in found} <= {room} | some.folders_of(room), room
    assert {t.folder for t in some.named(every, "cm")[0]} == {"verbs"}


def every_test_has_a_folder():
    """The others are tests of the whole tree."""
    without = {t.name for t in every if not t.folder}
    assert not without, without


def by_name_and_case():
    """A test by its name, and the beginning of a case's name after a colon."""
    found, case = some.named(every, "mpa_marker:wrong")
    assert [t.name for t in found] == ["mpa_marker"] and case == "wrong"
    found, case = some.named(every, "mpa:wrong")
    assert len(found) > 1 and case == "wrong"
    script = next(t for t in every if t.name == "e2e_ping")
    assert "bad_servers" in script.cases() and script.program is None


def layer_before_test():
    """`tcp` is the layer, even if one of its tests has the same name; `test_tcp` is that test."""
    both = {t.name for t in every} & {t.folder for t in every}
    assert {"tcp", "ddp", "engine"} <= both, both
    for name in both:
        found, _ = some.named(every, name)
        assert {t.folder for t in found} == {name} and name in {t.name for t in found}, (name, [t.name for t in found])
        found, _ = some.named(every, "test_" + name)
        assert [t.name for t in found] == [name], (name, [t.name for t in found])
    assert len(some.named(every, "tcp")[0]) > 20


def nothing():
    """An unknown name is reported in one line."""
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        try:
            some.named(every, "nonsense")
        except SystemExit as e:
            assert e.code == 2
        else:
            raise AssertionError("found something")
    assert err.getvalue().startswith("test/run: no suite, layer or test 'nonsense'") and err.getvalue().count("\n") == 1


def what_is_built():
    """A program needs its own target, a script the targets that it starts."""
    found, _ = some.named(every, "mpa_marker")
    assert some.targets(BUILD, found) == ["test/test_mpa_marker"], some.targets(BUILD, found)
    found, _ = some.named(every, "e2e_ping")
    assert {"test/e2e/ping_probe", "apps/ping/weft-ping"} <= set(some.targets(BUILD, found))
    found, case = some.named(every, "lint:headers")
    assert some.targets(BUILD, found) == [] and any(case in t.cases() for t in found)


bad = 0
CASES = (by_layer, by_room, every_test_has_a_folder, by_name_and_case, layer_before_test, nothing, what_is_built)
for n, fn in enumerate(CASES, 1):
    try:
        fn()
        print(f"ok {n} {fn.__name__}")
    except AssertionError as e:
        bad += 1
        print(f"not ok {n} {fn.__name__}\n# {e}")
print(f"1..{len(CASES)}")
sys.exit(bad > 0)
