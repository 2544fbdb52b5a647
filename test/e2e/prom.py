# SPDX-License-Identifier: BSD-3-Clause
"""The text format of Prometheus, strictly, and the part of PromQL that apps/target/weft-alerts.yml uses."""
import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?[0-9.]+(?:e-?[0-9]+)?|\+Inf|NaN)$")


def parse(text):
    """{name: type}, {name: {labels: value}}; labels are a sorted tuple of pairs. Asserts all rules of the format."""
    types, samples, family = {}, {}, None
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in types, f"{family} in two groups"
            types[family] = None
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family and types[name] is None and kind in ("gauge", "counter", "histogram"), line
            types[name] = kind
        else:
            m = SAMPLE.match(line)
            assert m, f"no sample: {line!r}"
            name = m[1]
            base = re.sub("_(bucket|sum|count)$", "", name) if types[family] == "histogram" else name
            assert base == family, (name, family)
            assert (types[family] == "counter") == name.endswith("_total"), line
            labels = tuple(sorted((k, v) for k, v in re.findall(LABEL, m[2] or "")))
            assert labels not in samples.setdefault(name, {}), f"twice: {line}"
            samples[name][labels] = float(m[m.lastindex])
    for name, kind in types.items():
        if kind == "histogram":
            histogram(name, samples)
    return types, samples


def histogram(name, samples):
    """Buckets grow, the last one is +Inf and the count."""
    series = {}
    for labels, v in samples.get(f"{name}_bucket", {}).items():
        rest = tuple(p for p in labels if p[0] != "le")
        series.setdefault(rest, []).append((float(dict(labels)["le"].replace("+Inf", "inf")), v))
    for rest, buckets in series.items():
        buckets.sort()
        assert [v for _, v in buckets] == sorted(v for _, v in buckets), (name, rest, buckets)
        assert buckets[-1] == (math.inf, samples[f"{name}_count"][rest]), (name, rest)
        assert rest in samples[f"{name}_sum"]


class Promql:
    """An expression over samples of two times. A vector is {labels: value}; of a range it is {labels: (before, now)}."""

    def __init__(self, before, now, seconds):
        self.before, self.now, self.seconds = before, now, seconds

    def value(self, text):
        """The vector of an expression."""
        self.tokens = re.findall(r'[a-zA-Z_][a-zA-Z0-9_:]*|\{[^}]*\}|\[[^\]]*\]|[0-9.]+|==|!=|>=|<=|[><()/,]', text)
        self.at = 0
        v = self.both()
        assert self.at == len(self.tokens), (text, self.tokens[self.at:])
        return v

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, want=None):
        t = self.peek()
        assert t is not None and (want is None or t == want), (want, self.tokens, self.at)
        self.at += 1
        return t

    def both(self):
        v = self.compare()
        while self.peek() == "and":
            self.take()
            other = self.compare()
            v = {k: x for k, x in v.items() if k in other}
        return v

    def compare(self):
        v = self.quotient()
        if self.peek() in ("==", ">", "<"):
            op, n = self.take(), float(self.take())
            v = {k: x for k, x in v.items() if (x == n if op == "==" else x > n if op == ">" else x < n)}
        return v

    def quotient(self):
        v = self.term()
        while self.peek() == "/":
            self.take()
            w = self.term()
            v = {k: (x / w[k] if w[k] else math.nan) for k, x in v.items() if k in w}
        return v

    def term(self):
        word = self.take()
        if word in ("rate", "increase"):
            self.take("(")
            v = {k: max(b - a, 0) / (self.seconds if word == "rate" else 1) for k, (a, b) in self.term().items()}
            self.take(")")
        elif word == "sum":
            self.take("by")
            self.take("(")
            by = [self.take()]
            while self.peek() == ",":
                self.take()
                by.append(self.take())
            self.take(")")
            self.take("(")
            v = {}
            for k, x in self.both().items():
                key = tuple(p for p in k if p[0] in by)
                v[key] = v.get(key, 0) + x
            self.take(")")
        elif word == "histogram_quantile":
            self.take("(")
            q = float(self.take())
            self.take(",")
            v = self.quantile(q, self.both())
            self.take(")")
        else:
            v = self.select(word)
        return v

    @staticmethod
    def quantile(q, buckets):
        series, out = {}, {}
        for k, x in buckets.items():
            series.setdefault(tuple(p for p in k if p[0] != "le"), []).append((float(dict(k)["le"].replace("+Inf", "inf")), x))
        for rest, b in series.items():
            b.sort()
            low, below = 0.0, 0.0
            for le, n in b:
                if b[-1][1] > 0 and n >= q * b[-1][1]:
                    out[rest] = low if le == math.inf else low + (le - low) * (q * b[-1][1] - below) / max(n - below, 1e-9)
                    break
                low, below = le, n
        return out

    def select(self, name):
        want, ranged = {}, False
        if (self.peek() or "").startswith("{"):
            want = dict(re.findall(LABEL, self.take()))
        if (self.peek() or "").startswith("["):
            self.take()
            ranged = True
        v = {k: x for k, x in self.now.get(name, {}).items() if all(dict(k).get(n) == x for n, x in want.items())}
        return {k: (self.before.get(name, {}).get(k, 0), x) for k, x in v.items()} if ranged else v


def rules(file):
    """{alarm: expression} of a file of rules, which has no other forms than ours."""
    with open(file) as f:
        text = f.read()
    found = re.findall(r"- alert: (\w+)\n        expr: (.*)\n", text)
    assert len(found) == text.count("- alert:") == text.count("summary:") > 0
    return dict(found)
