# SPDX-License-Identifier: BSD-3-Clause
"""Pages of programs, from what they print for --help."""
import re

from roff import Page, esc, prose

ITEM = re.compile(r"^( {2,})(\S.*?)(?: {2,}(\S.*))?$")


def indent_of(text):
    """Blanks before the first word."""
    return len(text) - len(text.lstrip())


def head_markup(head):
    """An option with its short and long names in bold; what stands for a value in italics."""
    def word(m):
        if m[0].startswith("-"):
            return f"\\fB{esc(m[0])}\\fP"
        if re.fullmatch(r"[A-Z][A-Z0-9_.]*", m[0]):
            return f"\\fI{esc(m[0])}\\fP"
        return esc(m[0])
    if head.startswith("-"):
        return re.sub(r"--?[A-Za-z0-9?][\w-]*|[A-Za-z_][\w.]*|[^\w-]+|.", word, head)
    return f"\\fB{esc(head)}\\fP"


def blocks(lines):
    """The indented lines below each other, as ("item", head, text) and ("para", text)."""
    # The column of the texts: where most of those begin that stand two blanks or more behind a head.
    cols = [m.start(3) for t in lines if (m := ITEM.match(t)) and m[3]]
    cols += [indent_of(t) for t in lines if indent_of(t) > 6]
    col = max(set(cols), key=cols.count) if cols else 0
    out, i = [], 0
    while i < len(lines):
        t = lines[i]
        head, text = t.strip(), ""
        if m := ITEM.match(t):
            head, text = m[2], m[3] or ""
        if not text and head.startswith("-") and len(t) > col > indent_of(t) and t[col - 1] == " " != t[col]:
            head, text = t[:col].strip(), t[col:].strip()
        own = indent_of(t)
        i += 1
        # What is indented further goes on, but for options without a short name.
        while i < len(lines) and indent_of(lines[i]) > own and (indent_of(lines[i]) >= col or lines[i].strip()[0] != "-"):
            text += " " + lines[i].strip()
            i += 1
        if text or head.startswith("-"):
            out.append(["item", head, text.strip()])
        elif out and out[-1][0] == "para":
            out[-1][1] += " " + head
        else:
            out.append(["para", head])
    return out


def read_help(text):
    """(synopsis lines, [(kind, ...)]) of a help text; kinds: heading, para, item, inner (an indented paragraph)."""
    lines = [t.rstrip() for t in text.rstrip("\n").split("\n")]
    end = lines.index("")
    usage = [re.sub(r"^(usage|Usage): ?", "", t) for t in lines[:end]]
    synopsis = []
    for t in usage:
        if t.startswith("weft-") or t.strip().startswith("weft-"):
            synopsis.append(t.strip())
        else:
            synopsis[-1] += " " + t.strip()
    parts, i = [], end
    while i < len(lines):
        t = lines[i]
        if not t:
            i += 1
        elif t.startswith(" "):
            j = i
            while j < len(lines) and lines[j].startswith(" "):
                j += 1
            parts += [(("inner", b[1]) if b[0] == "para" else tuple(b)) for b in blocks(lines[i:j])]
            i = j
        else:
            j = i
            while j < len(lines) and lines[j] and not lines[j].startswith(" "):
                j += 1
            # A last line with a colon is the heading of what stands below, if a sentence does not go on in it.
            if lines[j - 1].endswith(":") and j < len(lines) and lines[j].startswith(" ") and (j == i + 1 or lines[j - 2].endswith(".")):
                if j > i + 1:
                    parts.append(("para", " ".join(lines[i:j - 1])))
                parts.append(("heading", lines[j - 1][:-1]))
            else:
                parts.append(("para", " ".join(lines[i:j])))
            i = j
    return synopsis, parts


def synopsis_markup(text):
    """A line of the synopsis: the program's name in bold."""
    text, _, note = re.sub(r" {2,}", "\t", text).partition("\t")
    m = re.match(r"(weft-\S+)(.*)", text)
    out = f"\\fB{esc(m[1])}\\fP{esc(m[2])}" if m else esc(text)
    return out + (f"\n.RS 4\n{prose(note)}\n.RE" if note else "")


def help_page(name, section, version, about, text, more):
    """The page of a program. more: fills in what a help does not say, page.heading() and so on."""
    synopsis, parts = read_help(text)
    page = Page(name, section, version, about)
    page.heading("SYNOPSIS")
    for i, s in enumerate(synopsis):
        page.lines += [".br"] * (i > 0) + synopsis_markup(s).split("\n")
    page.heading("DESCRIPTION")
    options, later = False, []
    for i, (kind, *words) in enumerate(parts):
        if words[0].startswith("Exit status"):
            later = parts[i:]
            break
        # The first option, or the heading above it, ends the description.
        opens = kind == "item" and words[0].startswith("-") or kind == "heading" and re.search("option|^Commands", words[0], re.I)
        if opens and not options:
            page.heading("OPTIONS")
            options = True
        add_part(page, kind, words)
    if later:
        page.heading("EXIT STATUS")
        status = later[0][1]
        status = re.sub(r"^Exit status[,;:]? ?", "", status)
        if m := re.match(r"(a sum): ", status):
            page.para("It is " + m[1] + ".")
            status = status[m.end():]
        if "; " in status and re.match(r"\d", status):
            for one in re.split(r"; (?=(?:\d+)\b)", status):
                number, _, what = one.partition(" ")
                page.item(f"\\fB{number}\\fP", prose(what.strip().removesuffix(".")))
        elif status:
            page.para(prose(status[0].upper() + status[1:].removesuffix(".") + "."))
        for kind, *words in later[1:]:
            add_part(page, kind, words)
    more(page)
    return page


def add_part(page, kind, words):
    """One part of a help text."""
    if kind == "heading":
        page.heading(words[0], 2)
    elif kind == "para":
        page.para(prose(words[0]))
    elif kind == "inner":
        page.para(prose(words[0]), indent=True)
    else:
        page.item(head_markup(words[0]), prose(words[1]))
