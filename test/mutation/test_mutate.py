#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of test/mutate, on a small project: test_mutate.py SRC. Prints TAP."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
SRC = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(SRC, "test"))
from mutation import source, tests  # noqa: E402

TOY = """\
#include "toy.h"

/* RFC 9999 s2.1: at most eight. */
int
toy_fits(int n)
{
	WEFT_LOG(toy, "asked about %d, less than %d",
	         n + 1, 8 < n);
	assert(n >= 0);
	if (n > 8)
		return 0;
	toy_count(n);
	return 1;
}

/* A change of this expression changes no result, so no test can notice it. */
int
toy_same(int n)
{
	return n * 1 + 0;
}

int asked;

void
toy_count(int n)
{
	asked = n;
}
"""
HEAD = """\
#include <assert.h>
#define WEFT_LOG(...) ((void)0)
int toy_fits(int n);
int toy_same(int n);
void toy_count(int n);
extern int asked;
"""
TEST = """\
#include <stdio.h>
#include <string.h>
#include "toy.h"
int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--list") == 0)
		return puts("fits") < 0;
	puts(toy_fits(3) == 1 && toy_fits(9) == 0 && toy_same(4) == 4 ? "ok 1 fits" : "not ok 1 fits");
	return 0;
}
"""
EDGE = TEST.replace("toy_fits(3)", "toy_fits(8)").replace("fits\"", "edge\"")
MESON = """\
project('toy', 'c')
lib = static_library('weft_toy', 'lib/toy/toy.c', include_directories: 'lib/toy')
foreach n : ['toy', 'edge']
  test(n, executable('test_' + n, 'test' / (n == 'toy' ? 'toy' : 'other') / 'test_' + n + '.c',
    include_directories: 'lib/toy', link_with: lib), suite: 'unit')
endforeach
"""
n_done = bad = 0


def check(what, cond, why=""):
    """One TAP line."""
    global n_done, bad
    n_done += 1
    bad += not cond
    if not cond and why:
        print("# " + str(why).replace("\n", "\n# "))
    print(f"{'ok' if cond else 'not ok'} {n_done} {what}")


def put(top, path, text):
    """A file of the project."""
    os.makedirs(os.path.dirname(os.path.join(top, path)), exist_ok=True)
    with open(os.path.join(top, path), "w", encoding="utf-8") as f:
        f.write(text)


made = {(m.line, m.operator, m.new) for m in source.mutants("toy.c", TOY)}
check("lines of a log and an assert have no mutants", not {n for n, _, _ in made} & {1, 3, 7, 8, 9}, made)
check("comparison, negation, dropped branch", {(10, "comparison", "if (n >= 8)"), (10, "constant", "if (n > 9)"),
      (10, "negated condition", "if (!(n > 8))"), (10, "dropped branch", "if (0)")} <= made, made)
check("dropped call, dropped assignment", {(12, "dropped call", ";"), (28, "dropped assignment", ";")} <= made, made)
check("neither declarations nor prototypes are dropped", not any(n in (23, 26) for n, _, _ in made), made)
odd = list(source.mutants("odd.c", 'int a[] = {"<= 3", 1};\n#define LEN 4\n#define F(x) \\\n\t((x) + 1)\n#if 3 < 4\n'))
check("strings and long macros have none, simple ones have", {m.line for m in odd} == {1, 2} and
      all('"<= 3"' in m.new for m in odd if m.line == 1), odd)
check("free() is not dropped", not list(source.mutants("f.c", "void\nf(void *p)\n{\n\tfree(p);\n}\n")))
check("a rule is what the function's comments cite", source.cited(TOY, 10, "draft-x") == {("rfc9999", "2.1")} and
      source.rules_in("draft s4.3, RFC 8166 s3.4.6.2 and s4", "v2") ==
      {("v2", "4.3"), ("rfc8166", "3.4.6.2"), ("rfc8166", "4")})

with tempfile.TemporaryDirectory(prefix="weft-mutate-test-", dir="/var/tmp") as top:
    room = os.path.join(top, "room")
    os.mkdir(room)
    mark = os.path.join(top, "late")
    late = tests.run(["sh", "-c", f"(sleep 3; touch {mark}) & echo not ok 1 x; sleep 60"], room, None, 30)
    check("the first failure ends a test", late[0] == "fail: not ok 1 x", late)
    check("a test that waits without end is stopped", tests.run(["sleep", "60"], room, None, 1)[0] == "time")
    spun = tests.run(["sh", "-c", "while :; do :; done"], room, 1, 60)
    check("a test that computes without end is stopped", spun[0].startswith("fail: "), spun)
    crash = tests.run(["sh", "-c", "touch /tmp/weft-mutate-left $TMPDIR/x; kill -SEGV $$"], room, None, 30)
    check("a crash is a failure", crash[0] == "fail: exit -11", crash)
    check("a crashed test leaves no files", os.listdir(room) == [] and
          (os.geteuid() != 0 or not os.path.exists("/tmp/weft-mutate-left")), os.listdir(room))
    if os.geteuid() != 0 and os.path.exists("/tmp/weft-mutate-left"):
        os.unlink("/tmp/weft-mutate-left")

    toy = os.path.join(top, "toy")
    put(toy, "lib/toy/toy.c", TOY)
    put(toy, "lib/toy/toy.h", HEAD)
    put(toy, "test/toy/test_toy.c", TEST)
    put(toy, "test/other/test_edge.c", EDGE)
    put(toy, "meson.build", MESON)
    shutil.copy(os.path.join(SRC, "test", "mutate"), os.path.join(toy, "test", "mutate"))
    shutil.copytree(os.path.join(SRC, "test", "mutation"), os.path.join(toy, "test", "mutation"))
    subprocess.run(["meson", "setup", "build-test"], cwd=toy, capture_output=True, check=True)

    def mutate(*options):
        """(exit status, survivors, figures of the toy layer, all output)."""
        r = subprocess.run([sys.executable, os.path.join(toy, "test", "mutate"), "lib/toy", "--json", "--count", "99",
                            "--room", room, *options], capture_output=True, text=True)
        try:
            layer = json.loads(r.stdout)["layers"][0]
        except (ValueError, LookupError):
            return r.returncode, set(), {}, r.stdout + r.stderr
        return r.returncode, {row["new"] for row in layer["rows"] if row["verdict"] == "survived"}, layer, r.stderr

    os.makedirs(os.path.join(toy, "docs"))
    put(toy, "docs/conformance.md", "| RFC 9999 s5 | another rule | `edge:edge` |\n")
    status, left, layer, said = mutate()
    check("a mutant that no test of the layer notices survives", status == 1 and "if (n >= 8)" in left, (status, left, said))
    check("a mutant that a test notices does not survive", not {"if (0)", "if (!(n > 8))", "if (n > 9)"} & left, left)
    check("a change that leaves the object as it was is no mutant", layer and all(r["new"] != "return n * 1 - 0;"
                                                                 for r in layer["rows"]), layer)
    check("no progress is printed to a pipe", said == "", said)
    put(toy, "docs/conformance.md", "| RFC 9999 s2.1 | at most eight | `edge:edge` |\n")
    _, more, _, said = mutate()
    check("a test that a conformance table names for the rule runs", left - more == {"if (n >= 8)", "if (n > 7)"},
          (left, more, said))
    put(toy, "test/other/test_edge.c", EDGE.replace("int main(", "#include <unistd.h>\nint main(").replace(
        "\tputs(toy_fits", "\tif (access(\"" + top + "/bad\", F_OK) == 0)\n\t\treturn puts(\"not ok 1 edge\");\n\tputs(toy_fits"))
    kept = os.path.join(top, "kept")
    os.mkdir(kept)
    mutate("--reach", kept)
    open(os.path.join(top, "bad"), "w").close()
    status, none, layer, said = mutate("--reach", kept)
    check("a test that fails without a mutant kills no mutant, and is named", none == left and any(
        "without a mutant" in why for _, why in layer.get("left_out", [])), (none, layer, said))
    os.unlink(os.path.join(top, "bad"))
    status, left_now, layer, said = mutate()
    check("that test runs again once it passes", left_now == more, (left_now, said))
    slow = TEST.replace("int main(", "#include <sys/resource.h>\nint main(")
    slow = slow.replace('puts("fits") < 0', 'puts("fits") < 0 || puts("spin") < 0')
    slow = slow.replace("\tputs(toy_fits", """\
	struct rusage u = {0};
	while ((argc < 2 || strcmp(argv[1], "spin") == 0) && u.ru_utime.tv_sec + u.ru_stime.tv_sec < 8)
		getrusage(RUSAGE_SELF, &u);
	puts(toy_fits""")
    put(toy, "test/toy/test_toy.c", slow)
    _, _, by_case, said = mutate("--slow", "1.5", "--own")  # else a test of another folder may be asked first
    check("a program that takes too long runs case by case", any(
        r["by"].startswith("toy:fits: ") for r in by_case.get("rows", [])), (by_case, said))
    put(toy, "test/toy/test_toy.c", TEST)
    put(toy, "test/mutate.equivalent", "".join(
        f"lib/toy/toy.c\nin: {r['function']}\n- {r['old']}\n+ {r['new']}\nwhy: no test asks\n  what was counted.\n" for r in layer["rows"]
        if r["verdict"] == "survived"))
    status, none, layer, said = mutate()
    check("a listed mutant counts as equivalent", status == 0 and not none and
          layer["equivalent"] > 0 == layer["survived"], (status, none, layer, said))
    check("a run leaves no files", os.listdir(room) == [], os.listdir(room))
    time.sleep(max(0, 3.5 - (time.time() - os.stat(toy).st_mtime)))
    check("a stopped test leaves no child process", not os.path.exists(mark))

    listing = [sys.executable, os.path.join(toy, "test", "mutate"), "lib/toy", "--list", "--count", "99"]

    def order(*options):
        """The mutants in the order in which they are tried, without line numbers."""
        out = subprocess.run(listing + list(options), capture_output=True, text=True, check=True).stdout
        return [tuple(out.split("\n")[i + 1:i + 3]) for i in range(0, out.count("\n") - 2, 3)]

    first, other = order(), order("--seed", "2")
    put(toy, "lib/toy/toy.c", TOY.replace("int asked;", "int\ntoy_new(int n)\n{\n\treturn n < 5;\n}\n\nint asked;"))
    now = order()
    check("the order depends on the seed", sorted(first) == sorted(other) and first != other, (first, other))
    check("a change elsewhere does not change the order",
          len(now) > len(first) and [m for m in now if "5" not in m[0]] == first, (first, now))

listed = {}
path = os.path.join(SRC, "test", "mutate.equivalent")
main = {"__name__": "mutate", "__file__": os.path.join(SRC, "test", "mutate")}
with open(main["__file__"], encoding="utf-8") as f:
    exec(compile(f.read(), main["__file__"], "exec"), main)
stale = []
for (file, function, old, new), why in main["equivalents"](path).items():
    if file not in listed:
        try:
            with open(os.path.join(SRC, file), encoding="utf-8") as f:
                listed[file] = {(w, m.old, m.new) for m in source.mutants(file, f.read())
                                for w in (m.function, "")}
        except OSError:
            listed[file] = set()
    if (function, old, new) not in listed[file] or len(why) < 12:
        stale.append(f"{file}: {function}: - {old} + {new}")
check("every entry of test/mutate.equivalent is a mutant, with a reason", not stale, "\n".join(stale))
print(f"1..{n_done}")
sys.exit(bad != 0)
