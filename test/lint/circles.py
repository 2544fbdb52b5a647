# SPDX-License-Identifier: BSD-3-Clause
"""Circles between the sources of one folder. A source needs another one if it names a function or an object that the other
defines with external linkage, also through an inline function or a macro of the folder's headers. Needs no build."""
import os
import re

FOLDERS = ("lib/", "drivers/", "apps/")
NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.S)
FUNCTION = re.compile(r"^(?P<type>\w[^;{}()=\n]*)\n(?P<name>\w+)\([^;{]*\)\n\{", re.M)
OBJECT = re.compile(r"^(?!static\b|extern\b|typedef\b)\w[\w \t*]*?\b(?P<name>\w+)(?:\[[^\]\n]*\])*(?: =|;)", re.M)
INLINE = re.compile(r"^static inline[^\n]*\n(?P<name>\w+)\((?P<body>.*?)^\}", re.M | re.S)
MACRO = re.compile(r"^#define (?P<name>\w+)(?P<body>(?:[^\n]*\\\n)*[^\n]*)", re.M)
# Not a member: `x.name`, `x->name`, `.name =`; not a tag: `struct name`.
WORD = re.compile(r"(?<![\w.>])(?<!struct )(?<!union )(?<!enum )[A-Za-z_]\w*")


def code(tree, name):
    """Text of a file with blanks for comments and strings. Line numbers do not change."""
    return NO_CODE.sub(lambda m: " " + "\n" * m[0].count("\n"), "\n".join(tree.lines(name)) + "\n")


def words_of_headers(texts):
    """{inline function or macro: words in its body} of a folder's headers."""
    found = {}
    for text in texts:
        for pattern in (INLINE, MACRO):
            for m in pattern.finditer(text):
                found.setdefault(m["name"], set()).update(WORD.findall(m["body"]))
    return found


def needs(tree, sources, headers):
    """{source: {source that it needs: (line, name that it needs there)}}"""
    texts = {p: code(tree, p) for p in sources}
    behind = words_of_headers(code(tree, p) for p in headers)
    owner = {}
    for p, text in texts.items():
        found = [m["name"] for m in FUNCTION.finditer(text) if not m["type"].startswith("static")]
        for name in found + [m["name"] for m in OBJECT.finditer(text)]:
            owner.setdefault(name, p)
    graph = {}
    for p, text in texts.items():
        graph[p] = {}
        own = {m["name"] for m in FUNCTION.finditer(text)}
        seen = set()
        for n, line in enumerate(text.split("\n"), 1):
            words = [w for w in WORD.findall(line) if w not in own]
            while words:
                w = words.pop()
                if w in seen:
                    continue
                seen.add(w)
                words += behind.get(w, ())
                if owner.get(w, p) != p:
                    graph[p].setdefault(owner[w], (n, w))
    return graph


def reached(graph, start):
    """The sources that a source needs, directly or through others."""
    found, todo = set(), list(graph[start])
    while todo:
        p = todo.pop()
        if p not in found:
            found.add(p)
            todo += graph[p]
    return found


def circles(tree):
    """For bounded() of lint.py: {folder: (number of sources in circles, faults)}."""
    folders = {}
    for p in tree.files:
        if p.startswith(FOLDERS) and p.endswith((".c", ".h")):
            folders.setdefault(os.path.dirname(p), ([], []))[p.endswith(".h")].append(p)
    found = {}
    for folder, (sources, headers) in folders.items():
        graph = needs(tree, sources, headers)
        below = {p: reached(graph, p) for p in sources}
        faults = [(p, line, f"{name} is defined in {os.path.basename(q)}, which needs this file")
                  for p in sources for q, (line, name) in sorted(graph[p].items()) if p in below[q]]
        if faults:
            found[folder] = (sum(p in below[p] for p in sources), faults)
    return found
