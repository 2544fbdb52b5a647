# SPDX-License-Identifier: BSD-3-Clause
"""Mutants of C source: which lines may be changed, and how. Writes no file.

These lines are not changed, because no test is meant to notice:
- comments, blank lines, preprocessor lines other than `#define NAME expression`;
- statements that write a log (LOG_WORDS) or the text of telemetry, with all their lines;
- asserts (ASSERT_WORDS), which hold unless the program is already wrong;
- taking a lock (LOCK_WORDS): these tests cannot notice a race, the suite tsan does;
- calls of free(): the suite asan looks for leaks;
- hints to the processor (HINT_WORDS), and likely() and unlikely() themselves. Their argument is changed.
"""
import re
from collections import namedtuple

LOG_WORDS = ("WEFT_LOG", "WEFT_LOG_REGISTER", "RTE_LOG", "rte_log", "perror", "rte_tel_")
ASSERT_WORDS = ("RTE_ASSERT", "RTE_VERIFY", "assert", "static_assert", "_Static_assert", "RTE_BUILD_BUG_ON")
LOCK_WORDS = ("pthread_mutex_lock", "pthread_rwlock_rdlock", "pthread_rwlock_wrlock", "rte_spinlock_lock",
              "rte_rwlock_read_lock", "rte_rwlock_write_lock")
HINT_WORDS = ("rte_prefetch", "__builtin_prefetch", "rte_pause")

# line: from 1. old and new: the text of the line, stripped. function: the one that contains it, or the next one.
Mutant = namedtuple("Mutant", "path line operator old new text function")

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LOGIC = {"&&": "||", "||": "&&"}
ARITHMETIC = {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++", "<<": ">>", ">>": "<<",
              "&": "|", "|": "&", "|=": "&=", "&=": "|="}
TOKEN = re.compile(r"[A-Za-z_]\w*|0[xX][0-9a-fA-F]+[uUlL]*|\d[\w.]*|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||"
                   r"[-+*/%&|^]=|\S")
EXCLUDED = re.compile(r"^\s*(?:\}?\s*(?:if|else)\b[^;]*\)\s*)?(?:%s)\w*\s*\(" %
                      "|".join(re.escape(w) for w in LOG_WORDS + ASSERT_WORDS + LOCK_WORDS + HINT_WORDS))
CALL = re.compile(r"^\s*(?!free\()(?:\(void\)\s*)?[A-Za-z_][\w.>\-]*(?:\[[^\]]*\])?\s*\(.*\);$")
ASSIGNMENT = re.compile(r"^\s*[*(]*[A-Za-z_][\w.\->\[\]()* +]*\s*(?:[-+|&^*/]|<<|>>)?=(?!=)[^;]*;$|"
                        r"^\s*[A-Za-z_][\w.\->\[\]()*]*(?:\+\+|--);$")
DECLARATION = re.compile(r"^\s*(?:(?:static|const|struct|enum|unsigned|signed|union|volatile)\s|"
                         r"(?:bool|int|char|void|long|size_t|ssize_t|u?int\d*_t|uintptr_t|\w+_t)\s+[*\w])")


def masked(text):
    """The text with comments, strings and character constants blanked. Columns and lines do not move."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0)) if m.group(0)[0] == "/" else \
            m.group(0)[0] + re.sub(r"[^\n]", "_", m.group(0)[1:-1]) + m.group(0)[-1]
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text, flags=re.S)


def excluded_lines(lines):
    """Numbers, from 0, of the lines of statements that are not changed."""
    out = set()
    depth = None
    for i, line in enumerate(lines):
        if depth is None and EXCLUDED.search(line):
            depth = 0
        if depth is not None:
            out.add(i)
            depth += line.count("(") - line.count(")")
            if depth <= 0:
                depth = None
    return out


def condition(line):
    """(start, end) of the outermost condition of an if or while that closes on this line, or None."""
    m = re.search(r"\b(?:if|while)\s*\(", line)
    if not m:
        return None
    depth = 0
    for i in range(m.end() - 1, len(line)):
        depth += {"(": 1, ")": -1}.get(line[i], 0)
        if depth == 0:
            return m.end(), i
    return None


def token_changes(line):
    """(operator, start, end, replacement) for each token of the line that has a partner."""
    tokens = [(m.group(0), m.start(), m.end()) for m in TOKEN.finditer(line)]
    for i, (t, a, b) in enumerate(tokens):
        before = tokens[i - 1][0] if i else ""
        operand = bool(re.match(r"[\w)\]]", before[-1:])) and before not in ("return", "case", "sizeof", "else")
        if t in COMPARISONS and operand:
            yield "comparison", a, b, COMPARISONS[t]
        elif t in LOGIC and operand:
            yield "logic", a, b, LOGIC[t]
        elif t in ("++", "--") or t in ARITHMETIC and operand and line[a - 1:a] == " " and line[b:b + 1] == " ":
            yield "arithmetic", a, b, ARITHMETIC[t]
        elif re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)[uUlL]*", t):
            value, suffix = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", t).groups()
            n = int(value, 16 if value[:2].lower() == "0x" else 8 if value[0] == "0" and len(value) > 1 else 10)
            yield "constant", a, b, f"{n + 1}{suffix}"
            if n > 1:
                yield "constant", a, b, f"{n - 1}{suffix}"
        elif t in ("true", "false"):
            yield "constant", a, b, "false" if t == "true" else "true"


def line_changes(line, shown):
    """(operator, new line) for one line: `line` is masked, `shown` as it stands."""
    if re.match(r"\s*#", line):
        m = re.match(r"\s*#\s*define\s+\w+\s+", line)
        if m and "\\" not in line:
            for op, a, b, new in token_changes(line[m.end():]):
                if op in ("constant", "arithmetic"):
                    yield op, shown[:m.end() + a] + new + shown[m.end() + b:]
        return
    for op, a, b, new in token_changes(line):
        yield op, shown[:a] + new + shown[b:]
    span = condition(line)
    if span:
        a, b = span
        yield "negated condition", f"{shown[:a]}!({shown[a:b]}){shown[b:]}"
        yield "dropped branch", f"{shown[:a]}0{shown[b:]}"
    body = line.rstrip()
    indent = shown[:len(shown) - len(shown.lstrip())]
    if CALL.match(body) and not re.match(r"\s*(if|while|for|switch|return|else|do)\b", body):
        yield "dropped call", indent + ";"
    elif ASSIGNMENT.match(body) and body.count("(") == body.count(")") and not DECLARATION.match(body):
        yield "dropped assignment", indent + ";"
    m = re.match(r"(\s*return )(-E[A-Z]+|[a-z]\w*);$", body)
    if m and m.group(2) not in ("true", "false"):
        yield "constant", f"{m.group(1)}0;"


def statement_begins(lines, i):
    """Whether line i begins a statement. Only a whole statement is dropped."""
    for above in range(i - 1, -1, -1):
        text = lines[above].strip()
        if text:
            return text[-1] in ";{}:" or text.startswith("#") or \
                re.search(r"\)$|^(\} )?else$|^do$", text) is not None and \
                sum(line.count("(") - line.count(")") for line in lines[max(0, above - 8):above + 1]) <= 0
    return True


def mutants(path, text):
    """Every mutant of a file."""
    shown, lines = text.split("\n"), masked(text).split("\n")
    skip = excluded_lines(lines)
    macro, function = False, ""
    for i, line in enumerate(lines):
        head = re.match(r"(\w+)\(", line)
        function = head.group(1) if head else function
        inside, macro = macro, line.rstrip().endswith("\\")
        if i in skip or inside or macro or not line.strip() or re.match(r"\s*\w+ = \w+,?$", line):
            continue
        for op, new in line_changes(line, shown[i]):
            if op.startswith("dropped") and op != "dropped branch" and not statement_begins(lines, i):
                continue
            yield Mutant(path, i + 1, op, shown[i].strip(), new.strip(),
                         "\n".join(shown[:i] + [new] + shown[i + 1:]), function)


def around(text, line):
    """(line before the function that contains a line, last line of that function), counted from 0."""
    lines = text.split("\n")
    start = line - 1
    while start > 0 and not lines[start].startswith(("}", "#")):
        start -= 1
    end = line
    while end < len(lines) and not lines[end].startswith("}"):
        end += 1
    return start, end


def cited(text, line, draft):
    """The rules whose sections the comments of the line's function name: {(document, section)}."""
    lines = text.split("\n")
    start, end = around(text, line)
    found = rules_in("\n".join(lines[start:end]), draft)
    return found or rules_in("\n".join(lines[:12]), draft)


def rules_in(text, draft):
    """{(document, section)} that a piece of text names: `RFC 5041 s7.1`, `draft s4.3`, or `s4.3` alone."""
    found = set()
    document = draft
    for m in re.finditer(r"RFC ?(\d+)|\b(draft)\b|\bs(?:ections? )?(\d+(?:\.\d+)*)", text):
        if m.group(1):
            document = "rfc" + m.group(1)
            found.add((document, ""))
        elif m.group(2):
            document = draft
        else:
            found.add((document, m.group(3)))
    return {(d, s) for d, s in found if s or not any(o == d and t for o, t in found)}
