#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The manual pages: man.py SOURCE BUILD. TAP.

They are made anew and compared with what they are about: --help, the tables of options in the sources, --help-config, the
functions that the libraries export. groff renders each without a warning.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = sys.argv[1:3]
OPTION = re.compile(r"(?<![\w/.-])(--[a-z]\w*(?:[-_]\w+)*|-[A-Za-z])(?![\w])")
# What --help does not say stands in sections of its own.
OWN = ("NAME", "FILES", "SIGNALS", "ENVIRONMENT", "EXAMPLES", "SEE ALSO")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "docs", "man"))

from make import folder_of  # noqa: E402
from pages import PROGRAMS  # noqa: E402

count = bad = 0


def check(name, wrong):
    """One line of the result; wrong: what is, one line each."""
    global count, bad
    count += 1
    bad += bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {count} {name}")
    for w in list(wrong)[:20]:
        print(f"#   {w}")


def groff(page, width=80):
    """(text, warnings) of a page."""
    p = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-Kutf8", f"-rLL={width}n", "-P-cbou", page], capture_output=True, text=True,
                       check=False, env={**os.environ, "LC_ALL": "C.UTF-8"})
    return p.stdout, p.stderr


def sections(text):
    """{heading: text} of a rendered page."""
    out, name = {}, ""
    for t in text.split("\n")[1:]:
        if re.match(r"[A-Z]", t):
            name = t.strip()
        else:
            out[name] = out.get(name, "") + t + "\n"
    return out


def program(words):
    """What a program says for these words."""
    path = os.path.join(BUILD, "apps", folder_of(words[0]), words[0])
    return subprocess.run([path, *words[1:]], stdout=subprocess.PIPE, text=True, check=True).stdout


def main():
    if shutil.which("groff") is None:
        print("1..0 # SKIP there is no groff: apt-get install groff-base, or .ci/deps test as root")
        return 0
    tmp = tempfile.mkdtemp(prefix="weft-man.")
    try:
        subprocess.run([sys.executable, os.path.join(SOURCE, "docs/man/make.py"), BUILD, tmp], check=True)
        judge(tmp)
    finally:
        shutil.rmtree(tmp)
    print(f"1..{count}")
    return 1 if bad else 0


def judge(tmp):
    """All checks of the pages below tmp."""
    files = {os.path.basename(f): f for f in glob.glob(tmp + "/man*/*")}
    texts, warned = {}, []
    for name, file in sorted(files.items()):
        with open(file, encoding="utf-8") as f:
            first = f.readline()
        if first.startswith(".so "):
            if os.path.basename(first[4:].strip()) not in files:
                warned.append(f"{name} leads to {first[4:].strip()}, which is not there")
            continue
        warned += [f"{name}: {w}" for w in groff(file)[1].splitlines()]
        texts[name] = groff(file, 2000)[0]
    check(f"{len(texts)} pages render without a warning, and the others lead to them", warned)
    nonsense = os.path.join(tmp, "nonsense.1")
    with open(nonsense, "w", encoding="utf-8") as f:
        f.write(".TH X 1\n.SH NAME\nx \\- y\n.NOSUCH\n")
    check("a page with a macro that there is not would have been found", [] if groff(nonsense)[1] else ["no warning"])

    # The same options on both sides, and those of the tables by which programs read their command lines.
    wrong, hidden = [], []
    for (page, section), (command, *_) in PROGRAMS.items():
        name = f"{page}.{section}"
        if name not in texts:
            hidden.append(page)
            continue
        shown = OPTION.findall("\n".join(v for k, v in sections(texts[name]).items() if k not in OWN))
        said = OPTION.findall(program([*command, "--help"]))
        wrong += [f"{name} has no {o}" for o in sorted(set(said) - set(shown))]
        wrong += [f"{name} has {o}, --help has not" for o in sorted(set(shown) - set(said))]
        if len(command) > 1:
            continue
        for source in glob.glob(os.path.join(SOURCE, "apps", folder_of(page), "*.c")):
            with open(source, encoding="utf-8") as f:
                table = re.findall(r'\{"([a-z][\w-]*)",\s*(?:no|required|optional)_argument', f.read())
            whole = "".join(t for n, t in texts.items() if n.startswith(page))
            wrong += [f"{os.path.relpath(source, SOURCE)} takes --{o}, {name} says nothing of it" for o in table
                      if not re.search(rf"--{o}(?![\w-])", whole)]
    check("options: pages, --help and sources agree" + (f" # without {hidden}" if hidden else ""), wrong)

    conf = texts["weft.conf.5"]
    keys = re.findall(r"^\| `(\w+)` \|", program(["weft-target", "--help-config"]), re.M)
    check(f"{len(keys)} keys of the configuration are in weft.conf(5)",
          [k for k in keys if not re.search(rf"^ +{k} = ", conf, re.M)] or ([] if len(keys) > 50 else ["too few keys"]))
    ctl = program(["weft-ctl", "--commands"]).split("\n")[:-1]
    check("commands of weft-ctl", [c for c in ctl if not re.search(rf"^ +{c}\b", texts["weft-ctl.8"], re.M)] or ([] if ctl else ["none"]))
    exported = set()
    for m in glob.glob(os.path.join(SOURCE, "lib", "*.map")):
        with open(m, encoding="utf-8") as f:
            exported |= set(re.findall(r"^\s+(weft_\w+);", f.read(), re.M))
    check(f"{len(exported)} functions that the libraries export have pages",
          [e for e in sorted(exported) if e + ".3" not in files] or ([] if len(exported) > 100 else ["too few functions"]))
    # A function's page has its declaration, and the words of its comment.
    worker = texts["weft-worker.3"]
    whole = re.search(r"bool weft_env_huge\(void\);\s+Whether hugepages are in use\.", worker)
    check("a declaration and its comment", [] if whole else [worker[:400]])


if __name__ == "__main__":
    sys.exit(main())
