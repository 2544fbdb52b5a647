# SPDX-License-Identifier: BSD-3-Clause
"""Links and paths in documents."""
import fnmatch
import os
import re

LINK = re.compile(r"\]\(([^()\s]+)(?:\s+\"[^\"]*\")?\)")
CODE = re.compile(r"`([^`]+)`")
FOLDERS = ("lib/", "apps/", "drivers/", "test/", "docs/", ".ci/", ".githooks/")
# It names files that may have another name today.
HISTORY = "docs/changelog.md"
# Files that a reader of docs/drivers.md creates.
EXAMPLES = ("drivers/hash/sum32",)


def is_document(name):
    """Whether the rule checks a file."""
    return name.endswith(".md") or os.path.basename(name).startswith("README")


def prose(lines):
    """(number, line) of all lines outside of fenced blocks."""
    fenced = False
    for n, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield n, line


def anchors(lines):
    """The anchors of a document: its headings, in GitHub's form, and its <a> elements."""
    found = {}
    for _, line in prose(lines):
        if line.startswith("#"):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()).lower()
            name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            found[name] = found.get(name, -1) + 1
            yield name if not found[name] else f"{name}-{found[name]}"
        yield from re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line)


def alternatives(word):
    """`a/{b,c}` stands for a/b and a/c."""
    m = re.match(r"(.*)\{([^{}]*)\}(.*)$", word)
    return [w for part in m[2].split(",") for w in alternatives(m[1] + part + m[3])] if m else [word]


def named_path(code):
    """The path of the tree at the beginning of a piece of code; None: there is none."""
    word = code.split()[0] if code.split() else ""
    word = word.split(":")[0].rstrip(".,;")
    if not word.startswith(FOLDERS) or word.startswith(EXAMPLES) or re.search(r"[<>$()\[\]=|]|\.\.\.|/[A-Z]+\b(?!\.)", word):
        return None
    return word


def check(tree):
    """(file, line, what is wrong) of each link that leads nowhere."""
    folders = {os.path.dirname(p) for p in tree.files}
    folders |= {f[:i] for f in folders for i, c in enumerate(f) if c == "/"}
    every = folders | set(tree.files)
    for name in filter(is_document, tree.files):
        for n, line in prose(tree.lines(name)):
            for target in LINK.findall(CODE.sub("", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
                if path not in every:
                    yield name, n, f"the link leads to {path}, which does not exist"
                elif anchor and path in tree.files and anchor not in anchors(tree.lines(path)):
                    yield name, n, f"{path} has no heading #{anchor}"
            for code in CODE.findall(line) if name != HISTORY else ():
                for path in alternatives(named_path(code) or ""):
                    if path and not fnmatch.filter(every, path.rstrip("/")):
                        yield name, n, f"there is no {path}"
