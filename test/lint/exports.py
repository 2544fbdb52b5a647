# SPDX-License-Identifier: BSD-3-Clause
"""What the libraries export: the functions and constants that the installed headers declare, and lib/*.map lists."""
import re

# Exported, but declared in no header.
BESIDES = {
    "sendmsg": "DPDK's net_memif is to call ours (lib/netif/netif_memif.c)",
    "rte_memseg_get_fd": "DPDK's net_memif is to call ours (lib/netif/netif_memif_shared.c)",
}


def blank(m):
    """The lines of a text, empty, so that what follows keeps its line."""
    return "\n" * m[0].count("\n")


def declared(text):
    """{name: line} of the functions and constants that a header declares, and of the functions that it defines inline."""
    text = re.sub(r"/\*.*?\*/", blank, text, flags=re.S)
    text = re.sub(r"^[^\S\n]*#(?:[^\n]*\\\n)*[^\n]*$", blank, text, flags=re.M)
    text = text.replace('extern "C" {', "")

    def where(m):
        return m[1], text.count("\n", 0, m.start(1)) + 1

    inline = dict(map(where, re.finditer(r"^static inline[^;{]*?\b(weft_\w+)\s*\(", text, flags=re.M)))
    while re.search(r"\{[^{}]*\}", text):
        text = re.sub(r"\{[^{}]*\}", lambda m: ";" + blank(m), text)
    found = dict(map(where, re.finditer(r"^extern const [^;()]*?\b(weft_\w+);", text, flags=re.M)))
    for name, line in map(where, re.finditer(r"\b(weft_\w+)\s*\(", text)):
        found.setdefault(name, line)
    return {n: k for n, k in found.items() if n not in inline}, inline


def check(tree):
    """Faults of the maps and of the installed headers."""
    maps = [p for p in tree.files if p.startswith("lib/") and p.endswith(".map")]
    listed, public = {}, {}
    for p in maps:
        for n, line in enumerate(tree.lines(p), 1):
            if m := re.fullmatch(r"\s+(\w+);", line):
                listed.setdefault(m[1], (p, n))
    for p in tree.files:
        if p.startswith("lib/include/") and p.endswith(".h"):
            for name, n in declared("\n".join(tree.lines(p)))[0].items():
                public.setdefault(name, (p, n))
    for name in sorted(listed.keys() - public.keys() - BESIDES.keys()):
        yield *listed[name], f"{name} is exported, but no installed header declares it"
    for name in sorted(public.keys() - listed.keys()):
        yield *public[name], f"{name}() is declared, but no lib/*.map exports it"
