# SPDX-License-Identifier: BSD-3-Clause
"""Judge the capture of a run: tshark's marks of our frames compared with those of siw's, and our Terminates octet by
octet."""
import subprocess

from kernel_net import Fail, check

ERROR = 0x800000
OPCODES = {0: "Write", 1: "Read Request", 2: "Read Response", 3: "Send", 4: "Send with Invalidate",
           5: "Send with Solicited Event", 7: "Terminate"}
FIELDS = ["frame.number", "ip.src", "ipv6.src", "frame.len", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message",
          "tcp.checksum.status", "ip.checksum.status", "iwarp_rdma.opcode", "iwarp_mpa.ulpdulength"]
# These dissectors look for their own header in any short Send, take ours for one, and call it malformed.
GUESSERS = ["--disable-protocol", "rpcordma", "--disable-protocol", "smb_direct"]


def tshark(file, *options, input=None):
    # Frames may be reordered or repeated. Without reassemble_out_of_order tshark does not reassemble their payload. The
    # client's port is random. Without try_heuristic_first a port that tshark knows (57000 is IRC) selects another
    # dissector, and iWARP is not recognized.
    r = subprocess.run(["tshark", "-n", "-r", file, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
                        "-o", "tcp.reassemble_out_of_order:TRUE", "-o", "tcp.try_heuristic_first:TRUE", *options],
                       input=input, capture_output=True, timeout=180)
    if r.returncode != 0:
        raise Fail("tshark: " + r.stderr.decode().strip())
    return r.stdout.decode().splitlines()


def fields(file, names, *options, **kw):
    """Frames as {field: text}."""
    lines = tshark(file, *options, "-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=,",
                   *[x for f in names for x in ("-e", f)], **kw)
    return [dict(zip(names, line.split("|"))) for line in lines]


def numbers(text):
    return [int(x, 0) for x in text.split(",") if x]


def messages(v):
    """Content of a frame: (opcode, ULPDU length) of each FPDU."""
    return set(zip(numbers(v["iwarp_rdma.opcode"]), numbers(v["iwarp_mpa.ulpdulength"])))


def marked(v):
    return bool(v["_ws.malformed"]) or max(numbers(v["_ws.expert.severity"]), default=0) >= ERROR


def complaint(file, bad):
    """A report of the bad frames: tshark's message for each, and the whole dissection and the octets of the first."""
    lines = [f"frame {v['frame.number']}: {v['_ws.expert.message']}" for v in bad[:10]]
    whole = tshark(file, "-Y", f"frame.number == {bad[0]['frame.number']}", "-V", "-x")
    return "\n".join(lines + [line for line in whole if line.strip()][-45:])


class Capture:
    """One capture of many connections; weft: its addresses."""

    def __init__(self, file, weft):
        self.file, self.weft, self.read = file, weft, {}

    def frames(self, *options):
        if options not in self.read:
            self.read[options] = fields(self.file, FIELDS, *options)
        return self.read[options]

    def ours(self, v):
        return (v["ip.src"] or v["ipv6.src"]) in self.weft

    def as_it_comes(self):
        """tshark with its defaults marks none of our messages that it does not mark when siw sends the same."""
        theirs = set()
        for v in self.frames():
            if not self.ours(v) and marked(v):
                theirs |= messages(v)
        bad = [v for v in self.frames() if self.ours(v) and marked(v) and not messages(v) & theirs]
        check(not bad, "\n".join(f"frame {v['frame.number']}: {v['_ws.expert.message']}: {sorted(messages(v))}" for v in bad[:10]))

    def without_guesses(self):
        """With its guessing dissectors off, tshark marks none of our messages at all."""
        bad = [v for v in self.frames(*GUESSERS) if self.ours(v) and marked(v)]
        check(not bad, "\n".join(f"frame {v['frame.number']}: {v['_ws.expert.message']}: {sorted(messages(v))}" for v in bad[:10]))

    def checksums(self):
        mine = [v for v in self.frames(*GUESSERS) if self.ours(v)]
        bad = [v["frame.number"] for v in mine
               if v["tcp.checksum.status"][:1] == "0" or v["ip.checksum.status"][:1] == "0"]
        check(not bad, f"bad checksum in frames {bad[:10]}")
        check(sum(v["tcp.checksum.status"] == "1" for v in mine) > 100, "too few checksums were verified")
        long = [v["frame.number"] for v in mine if int(v["frame.len"]) > 1514]
        check(not long, f"frames beyond the MTU: {long[:10]}")

    def crcs(self):
        """tshark checks CRCs after a start-up frame has set the flag. siw itself has checked those of long frames."""
        count, mine = {}, None
        for line in tshark(self.file, *GUESSERS, "-Y", "iwarp_mpa.crc_check && frame.len < 600", "-O", "iwarp_mpa"):
            if line.startswith("Internet Protocol"):
                mine = f"Src: {self.weft[0]}," in line or f"Src: {self.weft[1]}," in line
            elif "CRC check:" in line:
                key = (mine, "Good" in line)
                count[key] = count.get(key, 0) + 1
        check(set(count) == {(True, True), (False, True)} and min(count.values()) > 50, f"(weft's, good): {count}")

    def opcodes(self):
        for side in (True, False):
            seen = set()
            for v in self.frames(*GUESSERS):
                if self.ours(v) == side:
                    seen |= {op for op, _ in messages(v)}
            lack = [name for op, name in OPCODES.items() if op not in seen]
            check(not lack, f"never sent by {'weft' if side else 'siw'}: {', '.join(lack)}")

    def terminates(self, want):
        """want: {port of the server: "layer/type/code"} of each Terminate that we had to send: the word of RFC 5040
        s4.8."""
        got = {}
        some = subprocess.run(["tcpdump", "-r", self.file, "-w", "-", " or ".join(f"port {p}" for p in want)],
                              capture_output=True, timeout=60).stdout
        for v in fields("-", ["ip.src", "ipv6.src", "tcp.srcport", "tcp.payload"], "-Y", "iwarp_rdma.opcode == 7", input=some):
            if not self.ours(v):
                continue
            octets = bytes.fromhex(v["tcp.payload"])
            while octets:
                n = int.from_bytes(octets[:2], "big")
                if octets[3] & 0xf == 7:
                    got[int(v["tcp.srcport"])] = octets[20:2 + n]
                octets = octets[2 + n + -(2 + n) % 4 + 4:]
        check(set(got) == set(want), f"Terminates from ports {sorted(got)}, not {sorted(want)}")
        for port, text in want.items():
            layer, etype, code = (int(x, 16) for x in text.split("/"))
            t = got[port]
            check(t[:2] == bytes([layer << 4 | etype, code]), f"port {port}: {t[:4].hex()} is not {text}")
            # The headers that Figure 10 requires: DDP's for all of these, and a Read Request's for a protection error.
            with_read = layer == 0 and etype == 1 and t[7] & 0xf == 1
            size = 4 + 2 + (14 if t[6] & 0x80 else 18) + (28 if with_read else 0)
            check(t[2:4] == bytes([0xe0 if with_read else 0xc0, 0]) and len(t) == size, f"port {port}: {t.hex()}")


def cases(capture, terminates, whole):
    """whole: every case has run, so everything must be in the capture."""
    return [("tshark: nothing of ours is marked that is not marked when siw sends it", capture.as_it_comes),
            ("tshark: nothing of ours is marked without its guesses", capture.without_guesses),
            ("tshark: checksums and frame lengths", capture.checksums),
            ("tshark: CRCs of both", capture.crcs),
            *([("tshark: every opcode from both", capture.opcodes)] if whole else []),
            ("tshark: our Terminates, octet by octet", lambda: capture.terminates(terminates))]
