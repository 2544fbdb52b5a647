#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-console at a terminal: keys, completion, history, Ctrl-C, its size. test_console_pty.py BUILD [CASE...]"""
import fcntl
import os
import pty
import re
import select
import signal
import stat
import struct
import termios
import time

from test_console import alone, loop, script
from weft_e2e import app, main, memif, path, run

UP, DOWN, TAB, CTRL_C = b"\x1b[A", b"\x1b[B", b"\t", b"\x03"
PROMPT = b"weft> "


class Terminal:
    """A console on a pseudo-terminal. Without other options its port has no peer."""

    def __init__(self, history, options=("--dev", "net_null0,no-rx=1", "--address", "10.0.0.1/24"), rows=0):
        self.said = b""
        self.seen = 0
        self.options = options
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if rows:
                fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
            os.environ["WEFT_CONSOLE_HISTORY"] = history
            if history == "default":
                del os.environ["WEFT_CONSOLE_HISTORY"]
            os.execv(app("weft-console"), [app("weft-console"), *options])

    def __enter__(self):
        if "-f" not in self.options:
            self.until(PROMPT)
        return self

    def __exit__(self, *_):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def until(self, what, send=b"", limit=30):
        """Send keys, and read on until the output contains `what`; returns what came, up to there."""
        os.write(self.fd, send)
        end = time.monotonic() + limit
        while what not in self.said[self.seen:]:
            assert time.monotonic() < end, (what, self.said[self.seen:])
            if select.select([self.fd], [], [], 0.1)[0]:
                self.said += os.read(self.fd, 4096)
        at = self.said.index(what, self.seen) + len(what)
        got, self.seen = self.said[self.seen:at], at
        return got

    def until_one(self, *whats, send=b"", limit=30):
        """The same for several texts; returns the one that came."""
        os.write(self.fd, send)
        end = time.monotonic() + limit
        while True:
            for what in whats:
                if what in self.said[self.seen:]:
                    self.until(what)
                    return what
            assert time.monotonic() < end, (whats, self.said[self.seen:])
            if select.select([self.fd], [], [], 0.1)[0]:
                self.said += os.read(self.fd, 4096)

    def until_keys_are_signals(self):
        """A command runs: Ctrl-C is no key of the line editor."""
        end = time.monotonic() + 20
        while not termios.tcgetattr(self.fd)[3] & termios.ISIG:
            assert time.monotonic() < end
            time.sleep(0.01)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def run(self, line):
        """A line's output: between its echo and the next prompt."""
        self.until(line, line)
        return self.until(PROMPT, b"\n")

    def quit(self):
        os.write(self.fd, b"quit\n")
        status = os.waitpid(self.pid, 0)[1]
        self.pid = 0
        assert os.waitstatus_to_exitcode(status) == 0, self.said


def test_prompt():
    with Terminal("") as t:
        assert b"weft-console " in t.said and b"'help' lists the commands" in t.said
        assert b"region 1: stag" in t.run(b"register memory 4096")
        assert b"region 1: stag" in t.run(b"show regions")
        assert b"<1>" in t.run(b"echo <$region>")
        assert b"error: $nowhere is not set" in t.run(b"echo $nowhere")
        # A command that fails ends nothing.
        assert b"there is no region 7" in t.run(b"dump 7 0 1")
        assert b"expected x, got: y" in t.run(b"expect x echo y")
        t.quit()


def test_completion():
    with Terminal("") as t:
        t.until(b"connections", b"show con" + TAB)
        t.until(PROMPT, b"\n")
        t.until(b"register", b"regi" + TAB)
        got = t.until(b"memory", TAB + TAB)
        assert b"file" in got + t.until(b"weft> register", b""), got
        t.until(PROMPT, CTRL_C)
        # Within another command, too.
        t.until(b"polls", b"expect x sho" + TAB + b"po" + TAB)
        t.until(PROMPT, CTRL_C)
        t.until(b"drivers", b"repeat 2 show dr" + TAB)
        assert t.until(PROMPT, b"\n").count(b"hash crc32c") == 2
        t.quit()
    # What exists: QPs, regions, ports.
    with Terminal("") as t:
        assert b"region 1:" in t.run(b"register memory 4096")
        assert b"\n 1 [" in t.until(b"weft> deregister ", b"deregister " + TAB)
        t.until(PROMPT, CTRL_C)
        t.run(b"register memory 4096")
        got = t.until(b"weft> deregister ", b"deregister " + TAB)
        assert b"\n 1 [" in got and b"\n 2 [" in got, got
        t.until(b"2", b"2")
        t.until(PROMPT, b"\n")
        got = t.until(b"weft> dump ", b"dump " + TAB)
        assert b"\n 1 [" in got and b"\n 2 [" not in got, got
        assert b"................" in t.until(PROMPT, b"1 0 16\n")
        got = t.until(b"weft> post write ", b"post write " + TAB)
        assert b"post write QP REGION" in got, got
        t.until(PROMPT, CTRL_C)
        # Options, windows, SRQs.
        t.run(b"allocate window")
        t.run(b"create srq 4")
        got = t.until(b"weft> free window ", b"free window " + TAB)
        assert b"\n 1 [" in got, got
        t.until(PROMPT, CTRL_C)
        got = t.until(b"weft> destroy srq ", b"destroy srq " + TAB)
        assert b"\n 1 [" in got, got
        t.until(PROMPT, CTRL_C)
        t.run(b"log create")
        got = t.until(b"weft> log read ", b"log read " + TAB)
        assert b"\n 1 [" in got, got
        t.until(PROMPT, CTRL_C)
        t.until(b"unsignaled", b"post imm 1 7 uns" + TAB)
        t.until(PROMPT, CTRL_C)
        t.until(b"send-invalidate", b"terminate 1 se" + TAB)
        t.until(PROMPT, CTRL_C)
        assert b"capture port NAME FILE" in t.until(b"weft> capture port ", b"capture port " + TAB)
        t.until(PROMPT, CTRL_C)
        t.quit()


def test_usage():
    """A line that cannot be run shows the usage of its command, within another command the inner one's."""
    with Terminal("") as t:
        got = t.run(b"connect")
        assert b"error: bad arguments" in got and b"usage: connect ADDRESS PORT: " in got, got
        got = t.run(b"expect x dump 1")
        assert b"bad arguments" in got and b"usage: dump REGION OFFSET BYTES" in got and b"usage: expect" not in got, got
        got = t.run(b"nonsense")
        assert b"error: no such command" in got and b"usage" not in got, got
        # In 80 columns, broken between words.
        for line, usage in ((b"show", b"show NOUN [OBJECT] [detail] [json] [where K=V]; 'show nouns' lists them"),
                            (b"start write", b"start write QP REGION STAG OPTIONS: size, depth, count, rate, offset, span"),
                            (b"terminate", b"terminate QP write|flush|verify|atomic-write|fetch-add|send-invalidate: provoke one")):
            got = t.run(line)
            assert all(len(row) < 80 for row in got.split(b"\r\n")), got
            assert b"usage: " + usage in got.replace(b"\r\n    ", b" "), got
        # Checks that come later than those of cmdline.
        t.run(b"register memory 4096")
        for line, usage in ((b"set worker 5", b"set worker N"), (b"let 1x = 3", b"let NAME = VALUE"), (b"source nofile", b"source FILE"),
                            (b"stop", b"stop: end all"), (b"dump", b"dump REGION OFFSET BYTES"), (b"dump 1 4000 97", b"dump REGION"),
                            (b"capture start f opcode fly", b"capture start FILE OPTIONS"), (b"listen 70000", b"listen PORT"),
                            (b"inject start p0 drop 2", b"inject start NAME"), (b"expect x", b"expect [not] TEXT"),
                            (b"wait until echo x", b"wait until COMMAND"), (b"expect x source nofile", b"source FILE")):
            got = t.run(line)
            assert b"error: " in got and b"usage: " + usage in got, (line, got)
        assert b"usage" not in t.run(b"expect fail set worker 5") + t.run(b"echo x"), t.said
        assert b"example: post imm $qp 0x1122" in t.run(b"help post imm")
        t.quit()


def test_completion_of_words():
    """Values of options, keys behind where, variables."""
    with Terminal("") as t:
        t.until(b"write ", b"capture start f opcode wr" + TAB)
        t.until(PROMPT, CTRL_C)
        t.until(b"write,read ", b"capture start f opcode write,re" + TAB)
        t.until(PROMPT, CTRL_C)
        got = t.until(b"weft> capture start f opcode ", b"capture start f opcode " + TAB)
        assert b"atomic-write" in got and b"verify" in got, got
        t.until(PROMPT, CTRL_C)
        t.until(b"drop ", b"capture start f opcode read unknown d" + TAB)
        t.until(PROMPT, CTRL_C)
        t.until(b"where speed_mbps=", b"show ports where spe" + TAB)
        t.until(PROMPT, b"0\n")
        t.until(b"where polls>0 msgs_in=", b"show workers where polls>0 msgs_i" + TAB)
        t.until(PROMPT, CTRL_C)
        t.run(b"register memory 4096")
        t.until(b"echo $region ", b"echo $reg" + TAB)
        assert b"\n1 \r\n" in t.until(PROMPT, b"\n")
        got = t.until(b"weft> echo $", b"echo $" + TAB)
        assert b"$region" in got and b"$stag" in got, got
        t.until(PROMPT, CTRL_C)
        t.quit()


def test_log_above_the_line():
    """A line of the log that comes while a line is edited stands above it, and the line goes on."""
    sock = path("above.sock")
    with Terminal("", ("--dev", memif(0, "server", sock), "--address", "10.0.0.1/24"), rows=24) as t:
        t.run(b"listen 7471")
        t.run(b"set log weft.*:debug")
        t.until(b"echo ed", b"echo ed")
        rc, _, err = run([app("weft-console"), "--dev", memif(0, "client", sock), "--address", "10.0.0.2/24", "-f",
                          script("above.cli", "connect 10.0.0.1 7471\ndisconnect $qp\n")], timeout=60)
        assert rc == 0, err
        t.until(b"qp 1: established")
        t.until(b"weft> echo ed")
        logged = t.said[t.said.index(b"echo ed"):]
        assert re.search(rb"[\nJ]weft.mpa: stream", logged), logged
        # nothing stands behind the line but what erases it
        assert not re.search(rb"weft> echo ed(?!\x1b\[0K(\r\x1b\[J|$)|$)", logged), logged
        assert logged.startswith(b"echo ed\r\x1b[J"), logged
        t.until(b"ited", b"ited")
        assert b"\nedited\r\n" in t.until(PROMPT, b"\n")
        t.run(b"set log weft.*:error")
        t.quit()


def test_wait_until_is_broken():
    """What wait until has waited for is broken between words at the prompt."""
    with Terminal("", rows=24) as t:
        words = b" ".join([b"word"] * 15 + [b"the-end"])
        got = t.run(b"wait until echo " + words + b" more more contains the-end")
        rows = got.replace(b"\r", b"").split(b"\n")
        assert any(b"the-end" in row for row in rows) and all(len(row) <= 80 for row in rows), got
        assert b" ".join(b"".join(rows[1:-1]).replace(b"    ", b" ").split()).startswith(words), got
        t.quit()


def test_history():
    """By the arrow keys, within a session and from the one before."""
    file = path("history")
    with Terminal(file) as t:
        t.run(b"echo one")
        t.run(b"echo two")
        t.run(b" echo secret")
        t.until(b"echo secret", UP)
        t.until(b"echo two", UP)
        t.until(b"echo one", UP)
        t.until(b"echo two", DOWN)
        assert b"\ntwo\r\n" in t.until(PROMPT, b"\n")
        t.quit()
    with open(file) as f:
        kept = f.read()
    assert kept == "echo one\necho two\n", kept
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    with Terminal(file) as t:
        t.until(b"echo two", UP)
        t.until(b"echo one", UP)
        assert b"\none\r\n" in t.until(PROMPT, b"\n")
        t.quit()


def test_history_size():
    """A long file is cut at its start, to whole lines, and a wide mode is narrowed."""
    file = path("long")
    with open(file, "w") as f:
        f.writelines(f"echo line {i}\n" for i in range(5000))
    os.chmod(file, 0o644)
    with Terminal(file) as t:
        t.until(b"echo line 4999", UP)
        t.until(PROMPT, b"\n")
        t.quit()
    with open(file) as f:
        lines = f.read().splitlines()
    assert 1000 < len(lines) < 2000 and lines[-2:] == ["echo line 4998", "echo line 4999"], (len(lines), lines[-2:])
    assert all(re.fullmatch(r"echo line \d+", line) for line in lines), lines[0]
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600


def test_history_places():
    home = path("home")
    os.makedirs(home, exist_ok=True)
    saved = dict(os.environ)
    try:
        os.environ["HOME"] = home
        os.environ.pop("XDG_STATE_HOME", None)
        with Terminal("") as t:
            t.run(b"echo one")
            t.quit()
        assert os.listdir(home) == []
        for var, folder in ((None, ".local/state"), ("XDG_STATE_HOME", "state")):
            if var:
                os.environ[var] = os.path.join(home, folder)
            with Terminal("default") as t:
                t.run(b"echo one")
                t.quit()
            with open(os.path.join(home, folder, "weft/console_history")) as f:
                assert f.read() == "echo one\n"
            assert stat.S_IMODE(os.stat(os.path.join(home, folder, "weft")).st_mode) == 0o700
        with Terminal("/nowhere/history") as t:
            assert b"no history is kept: /nowhere/history: No such file" in t.said, t.said
            t.quit()
    finally:
        os.environ.clear()
        os.environ.update(saved)


def test_ctrl_c():
    """It ends the command that runs, whichever it is, and the prompt goes on; while a line is edited it drops the line."""
    with open(path("long.cli"), "w") as f:
        f.write("echo begun\nsleep 60000\necho not reached\n")
    with Terminal("") as t:
        for line in (b"sleep 60000", b"wait for x timeout 60", b"wait until echo x contains y timeout 60",
                     b"repeat 1000000000 echo begun", b"source " + path("long.cli").encode(), b"expect fail sleep 60000"):
            t.until(line, line)
            os.write(t.fd, b"\n")
            if b"repeat" in line or b"source" in line:
                t.until(b"begun\r\n")
            t.until_keys_are_signals()
            begun = time.monotonic()
            got = t.until(b"interrupted\r\n" + PROMPT, CTRL_C, limit=10)
            assert time.monotonic() - begun < 5 and b"not reached" not in got, (line, got)
            assert b"\nstill\r\n" in t.run(b"echo still"), line
        t.until(PROMPT, b"echo dropp" + CTRL_C)
        assert b"\nnext\r\n" in t.run(b"echo next")
        # What is typed while a command runs is the next line.
        t.until(b"sleep 300", b"sleep 300")
        os.write(t.fd, b"\necho ahead\n")
        t.until(b"\nahead\r\n")
        t.until(PROMPT)
        # From another process.
        os.kill(t.pid, signal.SIGINT)
        assert b"\nstill\r\n" in t.run(b"echo still")
        t.quit()


def test_calls_under_way():
    """Ctrl-C ends the wait for room for one call more, and the line says what there is no room for."""
    with Terminal("", ("-c", loop())) as t:
        t.run(b"rpc serve 7472")
        assert b"established" in t.run(b"rpc connect 10.0.0.2 7472")
        t.run(b"inject start far drop 1")
        assert b"error" not in t.run(b"repeat 64 rpc call 1 0x20004543 1 0")
        t.until(b"rpc call 1 1 1 1", b"rpc call 1 1 1 1")
        os.write(t.fd, b"\n")
        t.until_keys_are_signals()
        got = t.until(b"interrupted\r\n" + PROMPT, CTRL_C)
        assert b"error: rpc: as many calls as may be are under way; 'wait' for their replies" in got, got
        t.run(b"inject stop far")
        t.quit()


def test_resize():
    """The window changes while a line is edited and while a command runs; neither notices."""
    with Terminal("") as t:
        for rows, cols in ((24, 80), (10, 40), (50, 200)):
            os.write(t.fd, b"echo ed")
            t.until(b"echo ed")
            fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
            os.kill(t.pid, signal.SIGWINCH)
            t.until(b"ited", b"ited")
            assert b"\nedited\r\n" in t.until(PROMPT, b"\n")
            os.write(t.fd, b"sleep 200\n")
            t.until(b"sleep 200")
            fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows + 1, cols + 1, 0, 0))
            os.kill(t.pid, signal.SIGWINCH)
            assert b"error" not in t.until(PROMPT) and b"interrupted" not in t.said
        t.quit()


def rows_of(got):
    """The lines of a page, without what erases --More--."""
    got = re.sub(rb"--More-- \d+ % \(space, Enter, q\)|\r\x1b\[K", b"", got)
    return [row for row in got.replace(b"\r", b"").split(b"\n") if row]


def test_pager():
    """Output that is longer than the terminal comes page by page; no line is lost, and q, Ctrl-C and Ctrl-D leave."""
    more = b"(space, Enter, q)"
    with Terminal("") as t:
        # A terminal that does not say its size has no pages.
        whole = rows_of(t.run(b"help"))[:-1]
        assert len(whole) > 100 and more not in t.said, len(whole)
        t.resize(24, 80)
        t.until(b"help", b"help")
        first = t.until(more, b"\n")
        assert first.count(b"\r\n") == 24, first  # the command's own, and 23 rows
        pages = first
        pages += t.until(more, b" ")
        assert rows_of(t.until(more, b"\n")) == whole[46:47], whole[46]
        pages += whole[46] + b"\r\n"
        # The window grows and shrinks meanwhile.
        t.resize(60, 100)
        got = t.until(more, b" ")
        assert got.count(b"\r\n") == 59, got
        pages += got
        t.resize(10, 80)
        got = t.until(more, b"xf")
        assert got.count(b"\r\n") == 9, got
        pages += got
        assert rows_of(pages) == whole[:len(rows_of(pages))], pages
        for key in (b"q", CTRL_C, b"\x04"):
            got = t.until(PROMPT, key)
            assert b"usage" not in got and b"interrupted" not in got and len(rows_of(got)) == 1, got
            t.until(b"help", b"help")
            t.until(more, b"\n")
        # To the end.
        while t.until_one(more, PROMPT, send=b" ") == more:
            pass
        assert b"'help COMMAND' shows an example" in t.said[-300:], t.said[-300:]
        assert b"\nstill\r\n" in t.run(b"echo still")
        # A line that wraps takes two rows. Short output has no pages.
        t.resize(10, 40)
        assert more not in t.run(b"show regions")
        t.until(b"show nouns", b"show nouns")
        got = t.until(more, b"\n")
        assert len(rows_of(got)) == 9 and all(len(row) <= 40 for row in rows_of(got)), got
        t.until(PROMPT, b"q")
        # What commands within other commands print is not kept back.
        assert more not in t.run(b"expect help help")
        t.quit()


def test_lines_break():
    """In 80 columns lines of `show` break between words; JSON stays whole."""
    with Terminal("", ("-c", loop())) as t:
        t.run(b"listen 7471")
        t.run(b"register memory 65536")
        t.run(b"connect 10.0.0.2 7471")
        wide = [len(row) for noun in (b"port", b"connections", b"qps", b"regions") for row in rows_of(t.run(b"show " + noun))]
        assert max(wide) > 80, wide
        t.resize(1000, 80)
        for noun in (b"port", b"connections", b"qps", b"regions", b"counters", b"tcp detail", b"mpa", b"limits", b"rdmap", b"mr", b"pools"):
            got = t.run(b"show " + noun)
            assert all(len(row) <= 80 for row in got.replace(b"\r", b"").split(b"\n")), got
        assert b"\r\n    " in t.run(b"show regions")
        assert b'"rights": "local-write read write atomic visible verify bind"' in t.run(b"show mr json")
        t.quit()


def test_pager_in_pipes():
    """Neither a script nor a pipe has pages, also where standard input or output alone is a terminal."""
    with open(path("help.cli"), "w") as f:
        f.write("help\n")
    with Terminal("", ("--dev", "net_null0,no-rx=1", "--address", "10.0.0.1/24", "-f", path("help.cli")), rows=24) as t:
        t.until(b"'help COMMAND' shows an example")
        assert b"More" not in t.said, t.said
        assert os.waitstatus_to_exitcode(os.waitpid(t.pid, 0)[1]) == 0
        t.pid = 0
    rc, out, err = alone("-f", path("help.cli"))
    assert rc == 0 and "More" not in out and "shows an example" in out, (out, err)


def test_pager_and_events():
    """What happens while a page is looked at is told behind it."""
    with Terminal("", ("-c", loop())) as t:
        t.run(b"listen 7471")
        t.run(b"register memory 4096")
        t.run(b"connect 10.0.0.2 7471")
        t.run(b"wait for /qp $accepted: established/")
        t.resize(10, 80)
        t.run(b"start write $qp 1 $stag rate 100 count 50")
        t.until(b"(space, Enter, q)", b"help\n")
        # The traffic ends meanwhile, or afterwards on a slow machine.
        time.sleep(1)
        t.until(b"ended after 50 messages", b"q")
        assert b"\nstill\r\n" in t.run(b"echo still")
        t.quit()


def test_events_above_the_line():
    """What happens while a line is edited is told above it: the line is erased, and drawn again with what was typed."""
    with Terminal("", ("-c", loop()), rows=50) as t:
        t.run(b"listen 7471")
        t.run(b"register memory 4096")
        t.run(b"connect 10.0.0.2 7471")
        t.run(b"wait for /qp $accepted: established/")
        for typed in (b"echo typ", b"echo " + b"wide " * 20 + b"typ"):
            t.run(b"start write $qp 1 $stag rate 100 count 50")
            t.until(b"typ", typed)
            got = t.until(b"ended after 50 messages, 3200 octets") + t.until(b"typ")
            assert b"\r\x1b[Jtraffic" in got, got
            assert re.search(rb"octets\r\n.*" + PROMPT + typed, got, re.S), got
            assert (b"\x1b[1A" in got) == (len(typed) > 80), got
            got = t.until(PROMPT, b"ed\n")
            assert typed[5:] + b"ed\r\n" in got, got
        # A line that is wider than the terminal is broken between words, also while a command runs.
        t.resize(50, 60)
        for wait in (b"", b"sleep 5000\n"):
            t.until(PROMPT, b"\n")
            t.run(b"connect 10.0.0.2 7471")
            os.write(t.fd, b"post write $qp 1 0 64 0x12345 0\n" + wait)
            for way in (b"sent", b"received"):
                got = t.until(b": Terminate " + way + b": DDP layer: tagged buffer") + t.until(b"STag")
                assert re.search(rb"tagged buffer( error:)?\r\n    (error: )?invalid STag$", got), got
            if wait:
                t.until(PROMPT, CTRL_C)
        t.quit()


def test_lines_of_repeat_break():
    """What is shown within another command is broken between words, too."""
    with Terminal("", ("-c", loop()), rows=50) as t:
        t.run(b"listen 7471")
        t.run(b"connect 10.0.0.2 7471")
        for line in (b"show qps", b"repeat 3 show qps", b"repeat 2 expect peer show qps"):
            got = t.run(line)
            rows = got.replace(b"\r", b"").split(b"\n")
            assert all(len(row) <= 80 for row in rows) and any(row.startswith(b"    ") for row in rows), got
        t.quit()


def test_terminal_restored():
    """After quit the terminal is as it was."""
    with Terminal("") as t:
        during = termios.tcgetattr(t.fd)[3]
        assert not during & termios.ICANON and not during & termios.ISIG
        t.run(b"sleep 1")
        assert termios.tcgetattr(t.fd)[3] == during
        t.quit()
        try:
            assert termios.tcgetattr(t.fd)[3] & (termios.ICANON | termios.ISIG) == termios.ICANON | termios.ISIG
        except termios.error:
            pass  # the terminal went with its last process


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
