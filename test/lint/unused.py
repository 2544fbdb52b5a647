# SPDX-License-Identifier: BSD-3-Clause
"""Functions of lib and drivers that the product does not use: only tests call them, or nothing does."""
import collections
import re

PRODUCT = ("lib/", "drivers/", "apps/")
# Drivers that only test programs link.
TESTS_OWN = ("drivers/persist/sim/", "drivers/block/fault/")
# In a definition the name of the function begins a line, after the line of its type.
DEFINED = re.compile(r"^(?!static\b)(?!.*\bstatic\b)[\w][^\n;{}()#=]*\n(\w+)\((?=[^;{}]*\)\s*(?:__\w+\([^{};]*\)\s*)?\{)", re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.S)
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
PROTOTYPE = re.compile(r"^[\w][^\n;{}()#=]*?\b(\w+)\([^;{}]*\)(?:\s*__\w+\([^;{}]*\))?;", re.M)


def code(tree, name):
    """A source without comments and strings."""
    return COMMENT.sub(lambda m: " " if m[0].startswith("/") else '""', "\n".join(tree.lines(name)))


def unused(tree):
    """(file, line, name) of each function that is neither static nor installed, and that the product does not use."""
    defined, words, declared = {}, collections.Counter(), collections.Counter()
    installed = set()
    for name in tree.c_files():
        if not name.startswith(PRODUCT) or name.startswith(TESTS_OWN):
            continue
        text = code(tree, name)
        words.update(WORD.findall(text))
        declared.update(PROTOTYPE.findall(text))
        if name.startswith("lib/include/"):
            installed.update(WORD.findall(text))
        elif name.endswith(".c") and not name.startswith("apps/"):
            for m in DEFINED.finditer(text):
                defined[m[1]] = name
    for function, name in sorted(defined.items()):
        if function in installed or function == "main" or words[function] > 1 + declared[function]:
            continue
        line = next(n for n, text in enumerate(tree.lines(name), 1) if text.startswith(function + "("))
        yield name, line, function
