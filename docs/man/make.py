#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make the manual pages: make.py BUILD MANDIR [VERSION]

Nothing stands in two places: pages of programs come from what the programs of BUILD print for --help, those of the configuration
and of subjects from docs/*.md, those of the library from the comments of lib/include/weft. A function has a page that leads to
its header's. `meson install` runs this, and then MANDIR is below DESTDIR; so does the test `man`.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

from header_page import header_page  # noqa: E402
from help_page import help_page  # noqa: E402
from markdown_page import markdown, markdown_page  # noqa: E402
from pages import DOCUMENTS, OPTIONAL, PROGRAMS  # noqa: E402


def read(*where):
    """A file of the tree."""
    with open(os.path.join(TOP, *where), encoding="utf-8") as f:
        return f.read()


def folder_of(program):
    """Where a program is below apps of a build."""
    return {"weft-run": "verbs"}.get(program, program.removeprefix("weft-"))


def see_also(names):
    """What ends a page."""
    def end(page):
        page.heading("SEE ALSO")
        page.para(", ".join(re.sub(r"^(.*)\((\w+)\)$", lambda m: f"\\fB{m[1]}\\fP({m[2]})".replace("-", "\\-"), n) for n in names))
    return end


def to_pages(text, pages):
    """A help text that names pages in place of the documents that they are made of."""
    return re.sub(r"docs/([\w-]+\.md)", lambda m: "{}({})".format(*pages[m[1]]) if m[1] in pages else m[0], text)


def make(build, version):
    """{file's name: text} of all pages."""
    out = {}
    pages = {os.path.basename(doc): key for key, (doc, _, _) in DOCUMENTS.items()}
    for (name, section), (command, about, extra, beside) in PROGRAMS.items():
        path = os.path.join(build, "apps", folder_of(command[0]), command[0])
        if command[0] in OPTIONAL and not os.path.exists(path):
            continue
        text = subprocess.run([path, *command[1:], "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout

        def more(page, extra=extra, beside=beside):
            # In a page of Markdown a heading of the second level is a part; here it is a section.
            for part in re.split(r"^## ", extra, flags=re.M)[1:]:
                title, _, body = part.partition("\n")
                page.heading(title)
                markdown(page, body, pages)
            see_also(beside)(page)
        out[f"{name}.{section}"] = help_page(name, section, version, about, to_pages(text, pages), more).text()
    for (name, section), (doc, about, beside) in DOCUMENTS.items():
        out[f"{name}.{section}"] = markdown_page(name, section, version, about, read("docs", doc), pages, see_also(beside)).text()
    for header in sorted(os.listdir(os.path.join(TOP, "lib", "include", "weft"))):
        if not header.endswith(".h"):
            continue
        name = "weft-" + header.removesuffix(".h").replace("_", "-") if header != "weft.h" else "weft-h"
        page, names = header_page(name, header, version, read("lib", "include", "weft", header), pages, see_also(["weft-programming(7)"]))
        out[f"{name}.3"] = page.text()
        for n in names:
            out[f"{n}.3"] = f".so man3/{name}.3\n"
    return out


def main():
    build, mandir = sys.argv[1:3]
    if os.environ.get("MESON_INSTALL_DRY_RUN"):
        return 0
    version = sys.argv[3] if len(sys.argv) > 3 else re.search(r"version: '([^']+)'", read("meson.build"))[1]
    if not os.path.isabs(mandir):
        mandir = os.path.join(os.environ["MESON_INSTALL_DESTDIR_PREFIX"], mandir)
    for file, text in make(build, version).items():
        folder = os.path.join(mandir, "man" + file.rsplit(".", 1)[1])
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
            f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
