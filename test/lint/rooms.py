# SPDX-License-Identifier: BSD-3-Clause
"""What a room of lib may include: the rooms in `uses` of its meson.build, which docs/architecture.md draws. The compiler gets
no other folder. This rule finds what the compiler cannot: private headers of other rooms, public headers of rooms above,
and rooms in `uses` that are not needed."""
import functools
import os
import re

ORDER = "lib/meson.build"
DRAWING = "docs/architecture.md"
HEADING = "## Layers"
INCLUDE = re.compile(r'\s*#\s*include\s+(?:"([^"]+)"|<weft/([^>]+)>)')
ARROW = re.compile(r"^(\w+) +->(.*)$")


def names_after(tree, name, variable):
    """(line, names) of `variable = ['a', 'b']` in a meson file; None: no such line."""
    text = "\n".join(tree.lines(name))
    m = re.search(rf"^{variable} = \[([^\]]*)\]", text, flags=re.M)
    return m and (text.count("\n", 0, m.start()) + 1, re.findall(r"'([^']+)'", m[1]))


def drawn(tree):
    """{room: (line, rooms that an arrow leads to)} of the drawing."""
    found, below = {}, False
    for n, line in enumerate(tree.lines(DRAWING), 1):
        if line.startswith("## "):
            below = line == HEADING
        m = ARROW.match(line)
        if below and m:
            found[m[1]] = (n, m[2].split())
    return found


def included(tree, room):
    """(file, line, quoted name, name behind weft/) of each include of a room. One of the names is None."""
    for name in tree.files:
        if os.path.dirname(name) == f"lib/{room}" and name.endswith((".c", ".h")):
            for n, line in enumerate(tree.lines(name), 1):
                m = INCLUDE.match(line)
                if m:
                    yield name, n, m[1], m[2]


@functools.lru_cache(maxsize=None)
def behind(tree, order, header):
    """The rooms whose headers an interface header includes, directly or through other headers."""
    found = set()
    for line in tree.lines(header):
        m = INCLUDE.match(line)
        for other in order if m and m[1] else ():
            if f"lib/{other}/{m[1]}" in tree.files:
                found |= {other} | (behind(tree, order, f"lib/{other}/{m[1]}") if f"lib/{other}/{m[1]}" != header else set())
    return found


def check(tree):
    """(file, line, fault) of each violation."""
    if ORDER not in tree.files or not names_after(tree, ORDER, "rooms"):
        return
    order = tuple(names_after(tree, ORDER, "rooms")[1])
    picture = drawn(tree) if DRAWING in tree.files else {}
    owner = {}
    for room in order:
        for header in (names_after(tree, f"lib/{room}/meson.build", "headers") or (0, []))[1]:
            owner[header] = room
    for place, room in enumerate(order):
        build = f"lib/{room}/meson.build"
        line, uses = names_after(tree, build, "uses") or (1, [])
        for u in uses:
            if u not in order[:place]:
                yield build, line, f"uses {u}, which is not below {room} in {ORDER}"
        at, arrows = picture.pop(room, (1, None))
        if arrows is None:
            yield DRAWING, 1, f"{room} is not drawn below \"{HEADING}\""
        elif set(arrows) != set(uses):
            yield DRAWING, at, f"{room} is drawn with {' '.join(arrows) or 'no arrow'}, {build} has {' '.join(uses) or 'none'}"
        needed = set()
        for name, n, quoted, public in included(tree, room):
            if public:
                if owner.get(public, room) not in order[:place + 1]:
                    yield name, n, f"weft/{public} belongs to {owner[public]}, which is above {room}"
                continue
            if "/" in quoted:
                yield name, n, f"{quoted}: include it by its name; a path bypasses `uses` of {build}"
            for other in order:
                if other != room and f"lib/{other}/{quoted}" in tree.files:
                    needed |= {other} | behind(tree, order, f"lib/{other}/{quoted}")
                    if other not in uses:
                        yield name, n, f"{quoted} belongs to {other}, which is not in `uses` of {build}"
                    elif not quoted.startswith("weft_"):
                        yield name, n, f"{quoted} is private to {other}"
        for u in uses:
            if u not in needed:
                yield build, line, f"uses {u}, but no header of {u} is included"
    for room, (at, _) in picture.items():
        yield DRAWING, at, f"{room} is drawn, but {ORDER} has no such room"
