# SPDX-License-Identifier: BSD-3-Clause
"""Pages of the library, from the public headers: the essay of the header, then each declaration with its comment."""
import re

from markdown_page import inline
from roff import Page, esc

SKIP = re.compile(r"^(#\s*(include|if|ifdef|ifndef|else|elif|endif|undef|pragma)\b|WEFT_API_(BEGIN|END)\b|extern \"C\")")


def comment_text(raw):
    """A comment without its frame."""
    raw = re.sub(r"^/\*\*?<?", "", raw.strip())
    raw = re.sub(r"\s*\*/$", "", raw)
    return "\n".join(re.sub(r"^[ \t]*\* ?", "", t) for t in raw.split("\n")).strip("\n")


def units(text):
    """(comment or "", declaration) of everything at the top level; ("heading", title) of the parts."""
    lines, i, doc, out = text.split("\n"), 0, "", []
    bare = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", "", m[0]), text, flags=re.S).split("\n")

    def add(doc, declared, at):
        # What has no comment and no empty line above it belongs to what is above.
        if not doc and at and lines[at - 1].strip() and not SKIP.match(lines[at - 1]) and out and out[-1][0] != "heading":
            out[-1] = (out[-1][0], out[-1][1] + "\n" + declared)
        else:
            out.append((doc, declared))

    while i < len(lines):
        t = lines[i]
        if not t.strip():
            i += 1
        elif t.startswith("/*"):
            j = i
            while "*/" not in lines[j]:
                j += 1
            raw = "\n".join(lines[i:j + 1])
            i = j + 1
            if m := re.match(r"/\* -+ (.*?) -+ \*/", raw):
                out.append(("heading", m[1]))
            elif raw.startswith("/**"):
                doc = comment_text(raw)
            elif "SPDX" not in raw and "#endif" not in raw:
                doc = comment_text(raw)
        elif SKIP.match(t):
            while lines[i].endswith("\\"):
                i += 1
            i += 1
        elif t.startswith("#"):
            j = i
            while lines[j].endswith("\\") or lines[j].count("/*") > lines[j].count("*/"):
                j += 1
            add(doc, "\n".join(lines[i:j + 1]), i)
            doc, i = "", j + 1
        else:
            j, depth, body = i, 0, []
            while True:
                code = bare[j]
                depth += code.count("{") - code.count("}")
                body.append(lines[j])
                if depth == 0 and (code.rstrip().endswith(";") or code.startswith("}")):
                    break
                j += 1
            declared = "\n".join(body)
            if re.match(r"static inline|static const", declared):
                declared = declared.split("{")[0].rstrip() + ";"
            add(doc, declared, i)
            doc, i = "", j + 1
    return out


def guard_of(text):
    """Whether a #define is the guard of the header."""
    return re.fullmatch(r"#define WEFT_\w+_H", text.strip())


def functions(declared):
    """The names of functions and variables that declarations have; of a macro with arguments, its own."""
    code = re.sub(r"/\*.*?\*/", "", declared, flags=re.S)
    names = re.findall(r"^#define (weft_\w+)\(", code, re.M)
    code = re.sub(r"^#.*(\\\n.*)*", "", code, flags=re.M)
    code = re.sub(r"\{[^{}]*\}", "", re.sub(r"\{[^{}]*\}", "", code))
    code = re.sub(r"__attribute__\s*\(\(.*?\)\)|WEFT_\w+\(.*?\)", "", code)
    for one in code.split(";"):
        if not one.lstrip().startswith("typedef") and (m := re.search(r"\b(weft_\w+)\(", one)):
            names.append(m[1])
        elif m := re.match(r"\s*extern\b.*\b(weft_\w+)\s*$", one):
            names.append(m[1])
    return names


def add_doc(page, text, pages):
    """The text of a comment: paragraphs, lists, lines of code behind a tab."""
    para, code = [], []

    def flush():
        if para:
            page.para(inline(" ".join(para), pages))
            para.clear()
        if code:
            page.code("\n".join(code))
            code.clear()

    bullet = None
    for t in text.split("\n") + [""]:
        if bullet is not None and re.match(r"^ {2}\S", t):
            bullet.append(t.strip())
            continue
        if bullet is not None:
            page.bullet("\\(bu", inline(" ".join(bullet), pages))
            bullet = None
        if not t.strip():
            flush()
        elif m := re.match(r"^- (.*)", t):
            flush()
            bullet = [m[1]]
        elif re.match(r"^(\t| {3,})", t):
            if para:
                flush()
            code.append(t.replace("\t", "", 1) if t.startswith("\t") else t.strip())
        else:
            if code:
                flush()
            para.append(t.strip())
    flush()


def about_of(essay):
    """The first sentence, for the line of the name."""
    first = re.split(r"(?<=[^.]{2})\.(?:\s|$)", " ".join(essay.split()), maxsplit=1)[0]
    if len(first) > 90 and ": " in first:
        first = first.split(": ", 1)[0]
    return first if re.match(r"[A-Z][A-Z0-9-]", first) else first[0].lower() + first[1:]


def header_page(name, header, version, text, pages, more):
    """The page of a header, and the functions that it documents."""
    essay = re.search(r"@file\s+(.*?)\s*\*/", text, re.S)
    essay = comment_text("/** " + essay[1] + " */")
    body = text[text.index("*/", text.index("@file")) + 2:]
    found = [u for u in units(body) if u[0] == "heading" or not guard_of(u[1])]
    names = []
    for doc, declared in found:
        if doc != "heading":
            names += [f for f in functions(declared) if f not in names]
    page = Page(name, 3, version, about_of(essay), names)
    page.heading("SYNOPSIS")
    page.lines.append(f"\\fB#include <weft/{esc(header)}>\\fP")
    page.heading("DESCRIPTION")
    add_doc(page, essay, pages)
    if found:
        page.heading("DECLARATIONS")
    for doc, declared in found:
        if doc == "heading":
            page.heading(declared, 2)
            continue
        page.code(declared)
        if doc:
            add_doc(page, doc, pages)
    more(page)
    return page, names
