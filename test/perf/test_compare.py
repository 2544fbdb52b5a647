#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-perf compare on synthetic documents: rows matched, medians and intervals found here in another way, verdicts, exit statuses,
every wrong input. test_compare.py BUILD [CASE...]"""
import json
import os
import statistics
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from perf_docs import bandwidth, latency, path, weft_perf, write  # noqa: E402
from weft_e2e import main  # noqa: E402

A = [100.0, 101.0, 99.0, 103.0, 98.0]
# Pairs left out at either end, of printed tables of Mann and Whitney's test (5 %, two-sided), one more than U.
LEFT_OUT = {(5, 5): 3, (5, 6): 4, (6, 6): 6, (7, 5): 6}


def compare(*args, status=0):
    rc, out, err = weft_perf("compare", *args)
    assert rc == status and err == "", (args, rc, out, err)
    return out


def rows(*args, status=0):
    return json.loads(compare("--json", *args, status=status))["rows"]


def refused(why, *args, status=1):
    """The command fails with one line, which has `why`."""
    rc, out, err = weft_perf("compare", *args)
    assert rc == status and out == "" and why in err, (args, rc, out, err)
    assert err.count("\n") == 1 and err.startswith("weft-perf compare: "), (args, err)


def near(a, b):
    return abs(a - b) < 1e-6 * abs(b)


def test_figures():
    """Medians, ratio and interval by their definitions."""
    for na, nb in LEFT_OUT:
        a = [100 + 3.1 * i for i in range(na)]
        b = [111 + 2.3 * j for j in range(nb)]
        r, = rows(write("a.json", map_list(bandwidth, a)), write("b.json", map_list(bandwidth, b)))
        pairs = sorted(y / x for x in a for y in b)
        cut = LEFT_OUT[na, nb]
        assert near(r["median_a"], statistics.median(a)) and near(r["median_b"], statistics.median(b)), r
        assert near(r["ratio"], statistics.median(pairs)), r
        assert near(r["ratio_low"], pairs[cut - 1]) and near(r["ratio_high"], pairs[-cut]), (r, pairs)
        assert (r["rounds_a"], r["rounds_b"]) == (na, nb) and 0.95 <= r["confidence"] < 0.98, r


def map_list(make, figures, **more):
    return [make(f, **more) for f in figures]


def test_verdicts():
    """More octets a second are faster, more microseconds or cycles slower; the status says whether a row is slower."""
    a = write("a.json", map_list(bandwidth, A, size=1 << 20) + map_list(latency, A))
    for factor, verdicts, status in ((1.2, ("faster", "slower"), 3), (0.8, ("slower", "faster"), 3),
                                     (1.001, ("no difference seen",) * 2, 0)):
        b = write("b.json", map_list(bandwidth, [factor * v for v in A], size=1 << 20) + map_list(latency, [factor * v for v in A]))
        got = rows(a, b, status=status)
        assert tuple(r["verdict"] for r in got) == verdicts, got
        assert [r["metric"] for r in got] == ["average_mb_s", "t_typical_us"], got
        text = compare(a, b, status=status)
        assert all(v in text for v in verdicts), text
        assert max(map(len, text.splitlines()[2:])) <= 80, text
    b = write("b.json", map_list(bandwidth, [1.2 * v for v in A], size=1 << 20))
    assert compare(a, b).count("faster") == 2
    got = rows("-m", "cycles_per_message", a, b)
    assert [r["verdict"] for r in got] == ["faster"] and got[0]["better"] == "lower", got


def test_few_rounds():
    a, b = write("a.json", map_list(bandwidth, A)), write("b.json", map_list(bandwidth, [50] * 4))
    r, = rows(a, b)
    assert r["verdict"] == "too few rounds" and "ratio_low" not in r and near(r["ratio"], 0.5), r
    assert "too few rounds" in compare(a, b)


def test_files_of_rounds():
    """Rounds in several files on each side; as many as in one file."""
    one = [write(f"a{i}.json", [bandwidth(v)]) for i, v in enumerate(A)]
    two = [write(f"b{i}.json", [bandwidth(1.5 * v)]) for i, v in enumerate(A)]
    got = rows(*one, "--", *two)
    assert got == rows(write("a.json", map_list(bandwidth, A)), write("b.json", map_list(bandwidth, [1.5 * v for v in A])))
    assert got[0]["verdict"] == "faster", got


def test_matching():
    """Rows are matched by all keys of a job that both have. tx_depth is depth. Figures and the region found do not count."""
    a = write("a.json", [bandwidth(100, depth=1), bandwidth(100, depth=8), bandwidth(100, size=128), latency(5), bandwidth(7, test="read")])
    b = write("b.json", [bandwidth(200, depth=8, region="a file", peak_mb_s=9), {**bandwidth(300), "tx_depth": 1, "depth": None},
                         latency(5), bandwidth(1, size=256)])
    d = json.loads(compare("--json", a, b))
    assert [(r["mode"], r["bytes"], r["depth"], r["median_b"]) for r in d["rows"]] == \
        [("bandwidth", 64, 1, 300), ("bandwidth", 64, 8, 200), ("latency", 64, 1, 5)], d
    assert [(r["test"], r["bytes"]) for r in d["only_in_a"]] == [("write", 128), ("read", 64)], d
    assert [(r["test"], r["bytes"]) for r in d["only_in_b"]] == [("write", 256)], d
    text = compare(a, b)
    assert "only in A: write bandwidth 128" in text and "only in B: write bandwidth 256" in text, text
    # A key that one file does not have at all, and one that separates rows.
    a = write("a.json", map_list(bandwidth, A))
    d = json.loads(compare("--json", a, write("b.json", map_list(bandwidth, A, qps=1))))
    assert [(r["qps"], r["rounds_b"]) for r in d["rows"]] == [(1, 5)], d
    b = write("b.json", [bandwidth(v, qps=q, events=e) for v in A for q in (1, 4) for e in (False, True)])
    d = json.loads(compare("--json", b, b))
    assert sorted((r["qps"], r["events"], r["rounds_a"]) for r in d["rows"]) == [(q, e, 5) for q in (1, 4) for e in (False, True)], d
    assert "qps 4" in compare(b, b), compare(b, b)
    # Without that key in A it is not known which of B's rows is meant.
    d = json.loads(compare("--json", a, b))
    assert [r["verdict"] for r in d["rows"]] == ["matches several rows"], d
    assert [r["verdict"] for r in rows(b, a)] == ["matches several rows"] * 4
    assert "matches several rows" in compare(a, b)


def test_ignore():
    """What differs is named; --ignore leaves a key out of the jobs. Rows of one side that then have one job are not compared."""
    a, b = write("a.json", map_list(bandwidth, A, post_list=0)), write("b.json", map_list(bandwidth, [2 * v for v in A], post_list=8))
    refused("no row in common: the most similar ones differ in post_list (0 and 8)", a, b)
    d = json.loads(compare("--json", "--ignore", "post_list", a, b))
    assert [r["verdict"] for r in d["rows"]] == ["faster"] and d["ignored"] == ["post_list"] and "post_list" not in d["rows"][0], d
    text = compare("-i", "post_list", a, b)
    assert "not compared: post_list" in text and "faster" in text, text
    both = write("c.json", map_list(bandwidth, A, post_list=0) + map_list(bandwidth, A, post_list=4))
    assert [r["verdict"] for r in rows("-i", "post_list", a, both)] == ["matches several rows"]
    refused('no job has the key "nonsense"', "-i", "nonsense", a, b)


def test_metrics():
    a, b = write("a.json", map_list(bandwidth, A, odd=3)), write("b.json", map_list(bandwidth, A, odd=4))
    got = rows("-m", "odd:higher", "--metric", "mmsg_s", a, b)
    assert [(r["metric"], r["better"], r["verdict"]) for r in got] == \
        [("odd", "higher", "faster"), ("mmsg_s", "higher", "no difference seen")], got
    assert rows("-m", "odd:lower", a, b, status=3)[0]["verdict"] == "slower"
    assert rows("-m", "retransmitted_segments", a, b)[0]["verdict"].startswith("no ratio")
    assert "no ratio" in compare("-m", "retransmitted_segments", a, b)
    refused("KEY:higher or KEY:lower", "-m", "odd", a, b, status=2)
    refused("KEY:higher or KEY:lower", "-m", "odd:more", a, b, status=2)
    refused('no row that both have has the figure "absent_us"', "-m", "absent_us", a, b)


def test_null_figures():
    """A figure that was not a number is null in the document; that round does not count."""
    a, b = write("a.json", map_list(bandwidth, A)), write("b.json", map_list(bandwidth, A))
    with open(b, encoding="utf-8") as f:
        doc = json.load(f)
    doc["results"][2]["average_mb_s"] = None
    with open(b, "w", encoding="utf-8") as f:
        json.dump(doc, f)
    r, = rows(a, b)
    assert (r["rounds_a"], r["rounds_b"], r["verdict"]) == (5, 4, "too few rounds"), r


def test_names():
    """Names from a file cannot control the terminal, and an incomplete sweep is marked."""
    a = write("a.json", map_list(bandwidth, A, test="wr\x1b[31mite\n"), complete=False)
    text = compare(a, a)
    assert "\x1b" not in text and "wr?[31mite?" in text and text.count("an incomplete sweep") == 2, text
    b = write("b.json", map_list(bandwidth, A, test="wr\x1b[31mite\n"), complete=False, failed="it \x1b ended")
    assert "b.json, weft 0.1.0, incomplete: it ? ended\n" in compare(a, b)
    d = json.loads(compare("--json", a, a))
    assert d["a"] == [{"file": a, "version": "0.1.0", "complete": False}] and d["rows"][0]["test"] == "wr\x1b[31mite\n", d


def test_warnings():
    """Rows whose results have warnings are named, of each side, with one reason; JSON has the numbers of results."""
    why = "not to be trusted: this side waited 9.0 % of the time\x1b[31m"
    a = write("a.json", [bandwidth(10, warnings=[why]), bandwidth(11, warnings=[]), bandwidth(12, warnings=[why, "more"]),
                         bandwidth(10, size=128)])
    b = write("b.json", [latency(10, warnings=["few"]), bandwidth(10), bandwidth(10, size=128, warnings=None)])
    text = compare(a, b)
    named = "\nwarnings in A, 2 of 3 rounds: bandwidth of write 64 d 128: "
    assert named + "not to be trusted: this side waited 9.0 % of the time?[31m\n" in text, text
    assert "\nwarnings in B, 1 of 1 rounds: latency of write 64 d 1: few\n" in text and text.count("warnings in") == 2, text
    doc = json.loads(compare("--json", a, b))
    assert (doc["warned_a"], doc["warned_b"]) == (2, 1), doc
    assert "warnings" not in compare(write("c.json", [bandwidth(10)]), write("d.json", [bandwidth(10)]))


def test_bad_files():
    """Each wrong file gets one line that names it and says what to do."""
    good = write("good.json", map_list(bandwidth, A))
    text = json.dumps({"version": "0.1.0", "results": map_list(bandwidth, A)}).encode()
    bad = {
        b"": "is empty",
        b"nonsense": "is not JSON",
        text[:len(text) // 2]: "ends within the document",
        text + b"x": "is not JSON",
        b"[]": 'has no list "results"',
        b"{}": 'has no list "results"',
        b'{"results": 5}': 'has no list "results"',
        b'{"results": []}': "has no result",
        b'{"results": [5]}': 'result 1 has no text "test"',
        b'{"results": [{"test": "write", "mode": "latency", "bytes": 1}, {"test": 1}]}': 'result 2 has no text "test"',
        b'{"results": [{"test": "write"}]}': 'result 1 has no text "mode"',
        b'{"results": [{"test": "write", "mode": "latency", "bytes": "64"}]}': 'result 1 has no positive number "bytes"',
        b'{"results": [{"test": "write", "mode": "latency", "bytes": 0}]}': 'result 1 has no positive number "bytes"',
        b'{"results": [], "results": []}': "is not JSON",
        b'{"results": [1e999]}': "is not JSON",
        b'{"results": ["\xff"]}': "is not JSON",
        b"[" * 100000: "is not JSON",
    }
    for content, why in bad.items():
        with open(path("bad.json"), "wb") as f:
            f.write(content)
        for pair in ((good, path("bad.json")), (path("bad.json"), good)):
            refused(why, *pair)
            refused("bad.json", *pair)
    refused("cannot be read: No such file", good, path("absent.json"))
    refused("is a directory", good, os.path.dirname(good))
    os.mkfifo(path("fifo.json"))
    refused("a FIFO", good, path("fifo.json"))
    refused("no row in common", good, write("other.json", map_list(bandwidth, A, test="read")))
    refused("2001 rounds of one row", good, write("many.json", [bandwidth(5)] * 2001))


def test_command_line():
    good = write("good.json", map_list(bandwidth, A))
    for args, why in (((), "two files are needed"), ((good,), "two files are needed"), ((good, good, good), "with -- between"),
                      ((good, "--"), "both sides"), (("--", good), "both sides"), ((good, "--", good, "--json"), "options stand before"),
                      (("--nonsense", good, good), "unknown option"), (("-m",), "needs a value"),
                      ((good, good, "--", good), "is named twice"),
                      (["-m", "a_us"] * 9 + [good, good], "8 metrics at most")):
        refused(why, *args, status=2)
    rc, out, _ = weft_perf("compare", "--help")
    assert rc == 0 and out.startswith("Usage: weft-perf compare") and max(map(len, out.splitlines())) <= 80, out
    assert weft_perf("compare", "--version")[1].startswith("weft-perf compare 0.")


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
