# SPDX-License-Identifier: BSD-3-Clause
"""Pages from documents in Markdown: as much of it as docs/*.md use."""
import re

from roff import Page, esc, prose

LIST = re.compile(r"^( *)([-*]|\d+\.) +(.*)$")
INLINE = re.compile(r"(`+)(.+?)\1|\*\*(.+?)\*\*|(?<![\w*.])\*([A-Za-z][^*]*?)\*(?![\w*])|\[([^\]]+)\]\(([^)\s]+)\)")


def inline(text, pages):
    """A paragraph's text with its markup. pages: {a document's name: the page that is made of it}."""
    out, at = [], 0
    for m in INLINE.finditer(text):
        out.append(prose(text[at:m.start()]))
        at = m.end()
        if m[2] is not None:
            out.append(f"\\fB{esc(m[2].strip())}\\fP")
        elif m[3] is not None:
            out.append(f"\\fB{inline_plain(m[3], pages)}\\fP")
        elif m[4] is not None:
            out.append(f"\\fI{inline_plain(m[4], pages)}\\fP")
        else:
            out.append(link(m[5], m[6], pages))
    out.append(prose(text[at:]))
    return "".join(out)


def inline_plain(text, pages):
    """The same inside a font: what changes fonts is left out."""
    return re.sub(r"\\f[BIP]", "", inline(text, pages))


def link(text, where, pages):
    """A link: to the page that a document became, or with its address."""
    shown = inline(text, pages)
    file, _, _ = where.partition("#")
    name = file.rsplit("/", 1)[-1]
    if name in pages:
        page = f"\\fB{esc(pages[name][0])}\\fP({pages[name][1]})"
        return page if text.strip("`") == name else f"{shown} ({page})"
    if where.startswith("http") and where != text:
        return f"{shown} ({esc(where)})"
    return shown


def cells(row):
    """The cells of a table's row; a bar in code does not divide."""
    return [c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def add_table(page, rows, pages):
    """A table as a list: terminals are too narrow for what stands in these cells."""
    names = cells(rows[0])
    for row in rows[2:]:
        c = cells(row)
        head = inline(c[0], pages) or "\\&"
        if names == ["key", "values", "default", "meaning"]:
            page.item(f"{head} = {inline(c[1], pages)}", inline(c[3], pages) + ".", f"Default: {inline(c[2], pages)}.")
        elif len(c) == 2:
            page.item(head, inline(c[1], pages))
        else:
            page.item(head, *[(f"{inline(n, pages)}: " if n else "") + inline(v, pages) for n, v in zip(names[1:], c[1:]) if v])


def markdown(page, text, pages):
    """Add a document without its title."""
    lines = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S).split("\n")
    i, para = 0, []

    def flush():
        if para:
            page.para(inline(" ".join(para), pages))
            para.clear()

    while i < len(lines):
        t = lines[i]
        if t.startswith("```"):
            flush()
            j = i + 1
            while not lines[j].startswith("```"):
                j += 1
            page.code("\n".join(lines[i + 1:j]))
            i = j + 1
        elif re.match(r"#{1,4} ", t):
            flush()
            marks, _, title = t.partition(" ")
            title = re.sub(r"`|\*\*", "", title)
            if len(marks) > 1:
                page.heading(title, len(marks) - 1)
            i += 1
        elif t.startswith("|"):
            flush()
            j = i
            while j < len(lines) and lines[j].startswith("|"):
                j += 1
            add_table(page, lines[i:j], pages)
            i = j
        elif t.startswith("    ") and not para:
            j = i
            while j < len(lines) and (lines[j].startswith("    ") or not lines[j]):
                j += 1
            page.code("\n".join(x[4:] for x in lines[i:j]))
            i = j
        elif m := LIST.match(t):
            flush()
            own, words = len(m[1]), [m[3]]
            j = i + 1
            while j < len(lines) and lines[j].startswith(" " * (own + 2)) and not LIST.match(lines[j]):
                words.append(lines[j].strip())
                j += 1
            page.bullet("\\(bu" if m[2] in "-*" else m[2], inline(" ".join(words), pages), own // 2)
            i = j
        elif not t.strip():
            flush()
            i += 1
        else:
            para.append(t.lstrip("> ").strip())
            i += 1
    flush()


def markdown_page(name, section, version, about, text, pages, more):
    """The page of a document."""
    page = Page(name, section, version, about)
    page.heading("DESCRIPTION")
    markdown(page, text, pages)
    more(page)
    return page
