#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The index of every MUST and SHOULD of the texts that the stack implements, and their ledger.

    rules.py TEXT...           bring index.tsv and docs/conformance/ up to date with the texts
    rules.py --check TEXT...   only print what would change; exit status 1 if anything would
    rules.py --show TEXT...    print the sentences with their place, to write a paraphrase of each
    rules.py --all TEXT...     print every sentence with its digest, counted or not

A TEXT is the RFC Editor's rfcNNNN.txt or a draft's text, or a folder, of which the files named in DOCUMENTS are read.
The texts are not part of this repository. index.tsv identifies a sentence by its document, its section, its ordinal
among the counted sentences of that section, and a digest. Beside that it has a paraphrase of the rule. A sentence
counts when it has a keyword of RFC 2119 other than MAY and OPTIONAL. If it ends with a colon, the following list is
part of it. Other sentences count when they were chosen, because the draft also states rules in plain words. To choose a
sentence, add a line to index.tsv with its digest (--all prints it), any ordinal, and a paraphrase. Then run an update,
which moves the line to its place. The keyword of such a sentence is MAY or `stated`.

An update keeps the paraphrase of a sentence that did not change, even if it moved, and its row of the ledger. A new
sentence gets an empty paraphrase and an empty row. The test `ledger` fails until both are written.
"""
import hashlib
import os
import re
import sys

DOCUMENTS = ("rfc5040", "rfc5041", "rfc5042", "rfc5044", "rfc6581", "rfc7306", "draft-talpey-rdma-commit-02", "rfc8166", "rfc8167",
             "draft-ietf-nfsv4-rpcrdma-version-two-07")
LEDGERS = {"draft-talpey-rdma-commit-02": "commit-02",  # whose table has a shorter name
           "draft-ietf-nfsv4-rpcrdma-version-two-07": "rpcrdma-v2"}
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INDEX = os.path.join(ROOT, "test", "conform", "index.tsv")
LEDGER = os.path.join(ROOT, "docs", "conformance")
FIELDS = ("document", "section", "ordinal", "keywords", "digest", "paraphrase")
TABLE = "| section | rule | keyword | what it asks for | code | how it stands |\n|---|---|---|---|---|---|\n"

KEYWORD = re.compile(r"\b(MUST NOT|MUST|SHALL NOT|SHALL|SHOULD NOT|SHOULD|REQUIRED|NOT RECOMMENDED|RECOMMENDED)\b")
MAY = re.compile(r"\bMAY\b")
FOOTER = re.compile(r"\[Page \d+\]\s*$")
HEADER = re.compile(r"RFC \d+ .*\b(19|20)\d\d$")
HEADING = re.compile(r"(?:Appendix )?((?:\d+|[A-Z])(?:\.\d+)*)(?:[.:]\s+|\s\s+)\S")
BULLET = re.compile(r"([*o+-]|\d+[.):]|\(?[a-z0-9]{1,3}[.)])\s+\S")
TERM = re.compile(r"[A-Z][^.:]{0,40}: ")  # of a list of definitions
DRAWING = re.compile(r"\+-|-\+|--{4,}|={5,}|^\s*\|.*\|\s*$|\s\|\s.*\s\|")
BOILERPLATE = re.compile(r"interpreted as described in|RFC ?2119")
ABBREVIATION = re.compile(r"(\b(e\.g|i\.e|et al|cf|vs|etc|Fig|Sec|No)|^\d+)\.$")


def paragraphs(text):
    """Yield (section, indent, words) for each paragraph, with pages joined and drawings left out."""
    pages = text.replace("\r", "").split("\f")
    lines = []
    for page in pages:
        body = page.split("\n")
        body = [b.rstrip() for b in body if not FOOTER.search(b) and not HEADER.match(b)]
        while body and not body[0]:
            body.pop(0)
        while body and not body[-1]:
            body.pop()
        if not body:
            continue
        # A paragraph continues on the next page unless its last line can end it.
        if lines and re.search(r"[.:;!?)\"']$", lines[-1]) or lines and HEADING.match(body[0]):
            lines.append("")
        lines += body
    section, block = None, []
    for line in lines + [""]:
        heading = HEADING.match(line)
        starts = heading or BULLET.match(line.strip())
        if (not line or starts) and block:
            drawn = any(DRAWING.search(b) for b in block)
            if section and not drawn:
                yield section, len(block[0]) - len(block[0].lstrip()), " ".join(" ".join(block).split())
            elif section and KEYWORD.search(" ".join(block)):
                print(f"# section {section}: a figure with a keyword is left out: {block[0].strip()[:50]}",
                      file=sys.stderr)
            block = []
        if heading:
            section = heading.group(1)
        elif line:
            if not line.startswith(" "):  # a heading without number, authors' addresses
                section = None
            block.append(line)


def sentences(words):
    """Split a paragraph; abbreviations and section numbers do not end a sentence."""
    start = 0
    for end in re.finditer(r"[.!?][\"')\]]*\s+(?=[A-Z(\"'\[])", words):
        head = words[start:end.start() + 1]
        if ABBREVIATION.search(head):
            continue
        yield words[start:end.end()].strip()
        start = end.end()
    if words[start:].strip():
        yield words[start:].strip()


def ledger_file(document):
    """Path of a document's table."""
    return os.path.join(LEDGER, LEDGERS.get(document, document) + ".md")


def rules(text, chosen=(), every=False):
    """Return [(section, ordinal, keywords, digest, sentence)] of one document, in its order.

    chosen: digests of sentences that count without a keyword; every: all count.
    """
    found, ordinal = [], {}
    units = list(paragraphs(text))
    for n, (section, indent, words) in enumerate(units):
        for sentence in sentences(words):
            keywords = list(dict.fromkeys(KEYWORD.findall(sentence)))
            if BOILERPLATE.search(sentence):
                continue
            if not keywords:
                if not every and hashlib.sha256(sentence.encode()).hexdigest()[:12] not in chosen:
                    continue
                keywords = ["MAY" if MAY.search(sentence) else "stated"]
            elif sentence.endswith(":"):
                for later, deeper, item in units[n + 1:]:
                    if later != section or (deeper <= indent and not BULLET.match(item) and not TERM.match(item)):
                        break
                    sentence += " / " + item
            ordinal[section] = ordinal.get(section, 0) + 1
            digest = hashlib.sha256(sentence.encode()).hexdigest()[:12]
            found.append((section, ordinal[section], ", ".join(keywords), digest, sentence))
    return found


def texts(arguments):
    """Return {document: text} of files and of folders."""
    files = []
    for name in arguments:
        files += ([p for d in DOCUMENTS if os.path.exists(p := os.path.join(name, d + ".txt"))]
                  if os.path.isdir(name) else [name])
    named = {}
    for path in files:
        document = os.path.basename(path).removesuffix(".txt")
        if document not in DOCUMENTS:
            sys.exit(f"rules.py: {path}: not one of {', '.join(DOCUMENTS)}")
        with open(path, encoding="utf-8", errors="replace") as f:
            named[document] = f.read()
    if not named:
        sys.exit("rules.py: no texts: name rfcNNNN.txt files, or a folder that has them")
    return named


def read_index():
    """Return [dict] of index.tsv."""
    if not os.path.exists(INDEX):
        return []
    with open(INDEX, encoding="utf-8") as f:
        lines = [line.rstrip("\n") for line in f if not line.startswith("#")]
    return [dict(zip(FIELDS, line.split("\t"))) for line in lines[1:]]


def ledger_rows(document):
    """Return (text before the table, {(section, ordinal): (keywords, paraphrase, code, standing)}, text after it)."""
    path = ledger_file(document)
    if not os.path.exists(path):
        return f"# {document.upper().replace('RFC', 'RFC ')}\n\n", {}, ""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    head, mark, rest = text.partition(TABLE)
    if not mark:
        sys.exit(f"{path}: has no table of rules")
    table, _, tail = rest.partition("\n\n")
    rows = {}
    for line in filter(None, table.split("\n")):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) != 6:
            sys.exit(f"{path}: not six cells: {line}")
        key = (cells[0], cells[1])
        if key in rows:
            sys.exit(f"{path}: two rows for section {key[0]} rule {key[1]}")
        rows[key] = tuple(cells[2:])
    return head, rows, tail


def merge(document, found, old):
    """Return (new entries, {new key: old key}, reports) of one document."""
    by_digest = {}
    for e in old:
        by_digest.setdefault(e["digest"], []).append(e)
    taken, matched = set(), {}
    for rule in found:  # the same sentence, in its own section first
        section, ordinal, _, digest, _ = rule
        same = [e for e in by_digest.get(digest, []) if id(e) not in taken]
        same.sort(key=lambda e: (e["section"] != section, abs(int(e["ordinal"]) - ordinal)))
        if same:
            taken.add(id(same[0]))
            matched[rule[:2]] = same[0]
    left = {(e["section"], e["ordinal"]): e for e in old if id(e) not in taken}
    entries, moved, reports = [], {}, []
    for section, ordinal, keywords, digest, sentence in found:
        e = matched.get((section, ordinal))
        where = f"{document} section {section} rule {ordinal}"
        if e is None:
            e = left.pop((section, str(ordinal)), None)
            reports.append(f"{'changed' if e else 'new'}: {where}: {sentence}")
        elif (e["section"], e["ordinal"]) != (section, str(ordinal)):
            reports.append(f"moved: {where}, was section {e['section']} rule {e['ordinal']}")
        entries.append(dict(zip(FIELDS, (document, section, str(ordinal), keywords, digest,
                                         e["paraphrase"] if e else ""))))
        if e:
            moved[(section, str(ordinal))] = (e["section"], e["ordinal"])
    reports += [f"gone: {document} section {s} rule {o}: {e['paraphrase']}" for (s, o), e in left.items()]
    return entries, moved, reports


def write_all(index, touched):
    """Write index.tsv, and the tables of the documents in `touched` ({document: {new key: old key}})."""
    with open(INDEX, "w", encoding="utf-8") as f:
        f.write("# SPDX-License-Identifier: BSD-3-Clause\n# Made by rules.py; the last column is ours to write.\n")
        f.write("\t".join(FIELDS) + "\n")
        f.writelines("\t".join(e[k] for k in FIELDS) + "\n" for e in index)
    os.makedirs(LEDGER, exist_ok=True)
    for document, moved in touched.items():
        head, rows, tail = ledger_rows(document)
        lines = []
        for e in index:
            if e["document"] == document:
                key = (e["section"], e["ordinal"])
                code, standing = rows.get(moved.get(key), ("",) * 4)[2:]
                lines.append(f"| {key[0]} | {key[1]} | {e['keywords']} | {e['paraphrase']} | {code} | {standing} |\n")
        with open(ledger_file(document), "w", encoding="utf-8") as f:
            f.write(head + TABLE + "".join(lines) + ("\n" + tail if tail else ""))


def main(arguments):
    mode = arguments.pop(0) if arguments and arguments[0] in ("--check", "--show", "--all") else None
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    named, index, touched, reports = texts(arguments), read_index(), {}, []
    for document, text in named.items():
        old = [e for e in index if e["document"] == document]
        found = rules(text, {e["digest"] for e in old}, mode == "--all")
        if mode == "--show":
            print("".join(f"{document}\t{s}\t{o}\t{t}\n" for s, o, _, _, t in found), end="")
            continue
        if mode == "--all":
            print("".join(f"{document}\t{s}\t{k}\t{d}\t{t}\n" for s, _, k, d, t in found), end="")
            continue
        entries, touched[document], said = merge(document, found, old)
        reports += said
        index = sorted([e for e in index if e["document"] != document] + entries,
                       key=lambda e: DOCUMENTS.index(e["document"]))
    if mode in ("--show", "--all"):
        return 0
    print("\n".join(reports + [f"{len(index)} rules, {len(reports)} differences"]))
    if mode == "--check":
        return 1 if reports else 0
    write_all(index, touched)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
