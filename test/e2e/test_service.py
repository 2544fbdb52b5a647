#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-target as a service: what it tells a manager, the watchdog while one worker is stopped, and the unit under
systemd-analyze. test_service.py BUILD [CASE...]"""
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import time

from weft_e2e import APPS, Skip, Target, app, main, make_file, path, run

WATCHDOG_S = 1.2
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17


class Manager:
    """A socket as NOTIFY_SOCKET, and what came to it."""

    def __init__(self, name, abstract=False, **env):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        where = f"@weft-{os.getpid()}-{name}" if abstract else path(name + ".notify")
        self.sock.bind(where.replace("@", "\0", 1) if abstract else where)
        self.sock.settimeout(0.05)
        self.env = {"NOTIFY_SOCKET": where, "WATCHDOG_USEC": str(int(WATCHDOG_S * 1e6)), **env}
        self.target = Target(name, {"file": {"path": path(name + ".file"), "size": "1M", "persist": "file"}},
                             extra="[weft]\nworkers = 2\n")

    def start(self):
        before = dict(os.environ)
        os.environ.update(self.env)
        try:
            self.target.start()
        finally:
            os.environ.clear()
            os.environ.update(before)
        return self

    def read(self, seconds):
        got, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                got.append(self.sock.recv(4096).decode())
            except TimeoutError:
                pass
        return got


def test_paths():
    """The folders of the unit are those of the programs' defaults and of the documents."""
    src = os.path.join(os.path.dirname(__file__), "..", "..")

    def read(name):
        with open(os.path.join(src, name)) as f:
            return f.read()

    unit = dict(re.findall(r"^(\w+)=(.*)$", read("apps/target/weft-target.service.in"), re.M))
    run_dir, state_dir = "/run/" + unit["RuntimeDirectory"], "/var/lib/" + unit["StateDirectory"]
    _, help_ctl, _ = run([app("weft-ctl"), "--help"])
    _, help_conf, _ = run([app("weft-target"), "--help-config"])
    assert f"\n                     {run_dir}/control.sock\n" in help_ctl, help_ctl
    assert f"`{run_dir}/control.sock`" in help_conf and f"`{state_dir}/state`" in help_conf, "the keys control and state"
    assert f"d {state_dir} {unit['StateDirectoryMode']} weft weft" in read("apps/target/weft-target.tmpfiles")
    assert f"d {state_dir}/state 0700 weft weft" in read("apps/target/weft-target.tmpfiles")
    assert f"state = {state_dir}/state\n" in read("apps/package/target.ini")
    assert read("apps/target/weft-target.sysusers").rstrip().endswith(state_dir)
    assert unit["ExecStart"].split()[-1] == "/etc/weft/target.ini" == unit["ExecStart"].split(" -c ")[1]
    # Who may use the socket has to be able to reach it.
    assert unit["RuntimeDirectoryMode"] in ("0750", "0755") and f"XDG_RUNTIME_DIR={run_dir}" in unit["Environment"]


def test_messages():
    for abstract in (False, True):
        m = Manager(f"sv{abstract:d}", abstract).start()
        got = m.read(1)
        assert got[0] == "READY=1\nSTATUS=serving 1 exports", got
        assert got.count("WATCHDOG=1") >= 2, got
        # A program of before in this process may have asked the manager for more time (weft-ctl restart).
        assert got[1] == f"WATCHDOG_USEC={WATCHDOG_S * 1e6:.0f}", got
        os.kill(m.target.proc.pid, signal.SIGHUP)
        got = [g for g in m.read(1.5) if g != "WATCHDOG=1"]
        assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", got[0]) and got[1].startswith("READY=1"), got
        assert m.target.term() == 0
        got = [g for g in m.read(0.2) if g != "WATCHDOG=1"]
        assert got == ["STOPPING=1"], got


def test_priorities():
    """Lines begin with their priority where standard error is the journal that JOURNAL_STREAM names, and only there."""
    name = path("sv5.log")
    with open(name, "w"):
        st = os.stat(name)
    m = Manager("sv5", JOURNAL_STREAM=f"{st.st_dev}:{st.st_ino}").start()
    with open(m.target.conf) as f:
        text = f.read()
    # A setting that is not in force until a restart is to be looked at; a file with a fault is a fault.
    for fresh, said in ((text.replace("workers = 2", "workers = 1"), "changes with a restart"),
                        (text + "nonsense = 1\n", "nothing was changed")):
        with open(m.target.conf, "w") as f:
            f.write(fresh)
        os.kill(m.target.proc.pid, signal.SIGHUP)
        end = time.monotonic() + 10
        while said not in m.target.logged() and time.monotonic() < end:
            time.sleep(0.05)
    assert m.target.term() == 0
    lines = m.target.logged().splitlines()
    assert lines and all(re.match("<[346]>weft-target: ", t) for t in lines), lines
    for mark, said in (("<3>", "nothing was changed"), ("<4>", "changes with a restart")):
        assert [t for t in lines if t.startswith(mark)] == [t for t in lines if said in t] != [], (mark, lines)
    m.target.start(ok=False)
    assert m.target.logged().startswith("weft-target: "), m.target.logged()
    m = Manager("sv6", JOURNAL_STREAM=f"{st.st_dev}:{st.st_ino}").start()
    assert m.target.term() == 0 and "<" not in m.target.logged(), m.target.logged()


LEVELS = {"2": "critical", "3": "error", "4": "warning", "5": "notice", "6": "info", "7": "debug"}
RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"


def busy(name, args=(), extra="", **env):
    """The log of a target with much to say: lines of the library for debugging, names with odd octets, pushes, faults."""
    odd = path(name).encode() + b".\xff\xc3\xa9\"\\\xed\xa0\x80\xc2\x9b"
    m = Manager(name, **env)
    t = m.target
    t.args = args
    with open(t.conf, "rb") as f:
        text = f.read()
    text = (text.replace(b"workers = 2", b"workers = 2\nlog_level = weft.*:debug")
            .replace(b"[target]\n", b"[target]\n" + extra.encode()) + b"[export odd]\npath = " + odd + b"\npersist = file\n")
    with open(t.conf, "wb") as f:
        f.write(text)
    m.start()
    src = make_file(name + ".src", 100000, 1)
    t.push(src, "file")
    assert t.cp(src, "weft://10.0.0.1/nothing")[0] != 0
    for fresh, said in ((text, "read again"), (text + b"nonsense\xfe = 1\n", "nothing was changed")):
        with open(t.conf, "wb") as f:
            f.write(fresh)
        os.kill(t.proc.pid, signal.SIGHUP)
        end = time.monotonic() + 10
        while said.encode() not in logged(t) and time.monotonic() < end:
            time.sleep(0.05)
    assert t.term() == 0
    return t, logged(t)


def logged(t):
    with open(t.log, "rb") as f:
        return f.read()


def judge_json(log, mark):
    """Each line is one object with the four members, behind its priority in the journal. The messages by component."""
    said, before = {}, ""
    for line in log.splitlines():
        head, body = line[:len(mark) and 3].decode(), line[len(mark) and 3:]
        assert min(body) >= 0x20 and 0x7f not in body, line
        one = json.loads(body.decode("utf-8", errors="strict"))
        assert not re.search("[\u0080-\u009f]", body.decode()), line
        assert list(one) == ["time", "level", "component", "message"] and all(isinstance(v, str) for v in one.values()), line
        assert re.fullmatch(RFC3339, one["time"]) and one["level"] in LEVELS.values(), line
        assert not mark or re.fullmatch("<[2-7]>", head) and LEVELS[head[1]] == one["level"], line
        # Lines of several threads may change places by a moment.
        assert one["time"][:17] >= before[:17], (before, line)
        before = one["time"]
        said.setdefault(one["component"], []).append((one["level"], one["message"]))
    return said


def test_log_json():
    """log_format = json: each line is an object by itself, of the library's as well, whatever octets it tells of."""
    name = path("sv7.log")
    with open(name, "w"):
        st = os.stat(name)
    for name, extra, args, env, mark in (("sv7", "log_format = json\n", (), {"JOURNAL_STREAM": f"{st.st_dev}:{st.st_ino}"}, "<"),
                                         ("sv8", "", ("--log-format", "json"), {}, "")):
        t, log = busy(name, args, extra, **env)
        said = judge_json(log, mark)
        ours = said["weft-target"]
        assert any(m.startswith("ready: ") and at == "info" for at, m in ours), ours
        assert any("nothing was changed" in m and at == "error" for at, m in ours), ours
        assert any("\ufffd\u00e9\"\\\ufffd\ufffd\ufffd" in m for _, m in ours), ours
        assert [c for c in said if c.startswith("weft.")], list(said)
        # A file with a fault: the option has that line, too; what a person asks for is text.
        t.start(ok=False)
        assert t.proc.wait(timeout=20) == 1
        if args:
            assert [at for at, _ in judge_json(logged(t), "")["weft-target"]] == ["error"]
    rc, _, err = run([app("weft-target"), "-c", t.conf, "--log-format", "xml"])
    assert rc == 2 and "--log-format: 'xml' is not text|time|json" in err, err


def test_log_time():
    """log_format = time: each line has its time and its level. SIGHUP changes the format."""
    t, log = busy("sv9", extra="log_format = time\n")
    levels = "|".join(LEVELS.values())
    lines = log.decode("utf-8", errors="strict").splitlines()
    assert lines and all(re.match(f"{RFC3339} ({levels}) [^ ]", s) for s in lines), lines
    assert any(re.match(f"{RFC3339} error weft-target: .*nothing was changed", s) for s in lines), lines
    with open(t.conf, "rb") as f:
        text = f.read().replace(b"nonsense\xfe = 1\n", b"")
    with open(t.conf, "wb") as f:
        f.write(text)
    t.start()
    with open(t.conf, "wb") as f:
        f.write(text.replace(b"log_format = time\n", b"log_format = json\n"))
    os.kill(t.proc.pid, signal.SIGHUP)
    end = time.monotonic() + 10
    while b'"message"' not in logged(t) and time.monotonic() < end:
        time.sleep(0.05)
    assert t.term() == 0
    assert b"changes with a restart" not in logged(t) and logged(t).endswith(b'"}\n'), logged(t)


def test_no_manager():
    """Neither a watchdog of another process nor a socket that is not there disturbs."""
    m = Manager("sv2", WATCHDOG_PID="1").start()
    assert "WATCHDOG=1" not in m.read(1)
    assert m.target.term() == 0
    m = Manager("sv3", NOTIFY_SOCKET="/nowhere/socket").start()
    assert m.read(0.5) == [] and m.target.term() == 0


def test_watchdog_watches_each_worker():
    """One worker's thread is stopped: the watchdog is silent until it goes on."""
    m = Manager("sv4").start()
    assert "WATCHDOG=1" in m.read(1)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    task = f"/proc/{m.target.proc.pid}/task"
    workers = []
    for tid in os.listdir(task):
        with open(f"{task}/{tid}/comm") as f:
            if re.match(r"w\d", f.read()):
                workers.append(int(tid))
    assert len(workers) == 2, [open(f"{task}/{t}/comm").read() for t in os.listdir(task)]
    for tid in workers:
        if libc.ptrace(SEIZE, tid, 0, 0) != 0:
            raise Skip("ptrace is not allowed")
        libc.ptrace(INTERRUPT, tid, 0, 0)
        os.waitpid(tid, 0x40000000)  # __WALL
        m.read(0.7)  # what was answered before
        silent = "WATCHDOG=1" not in m.read(WATCHDOG_S)
        libc.ptrace(DETACH, tid, 0, 0)  # before anything fails: a stopped thread cannot be killed
        assert silent
        assert "WATCHDOG=1" in m.read(1)
    assert m.target.logged().count("does not poll") == 2, m.target.logged()
    assert m.target.term() == 0


def unit():
    """The unit as it is installed, with the program of this build."""
    with open(os.path.join(APPS, "target", "weft-target.service")) as f:
        text = f.read()
    text, n = re.subn(r"^ExecStart=\S+", "ExecStart=" + app("weft-target"), text, flags=re.M)
    assert n == 1
    p = path("weft-target.service")
    with open(p, "w") as f:
        f.write(text)
    return p


def analyze(*args):
    if shutil.which("systemd-analyze") is None:
        raise Skip("there is no systemd-analyze")
    rc, out, err = run(["systemd-analyze", *args])
    return rc, out + err


def test_unit_verified():
    p = unit()
    rc, text = analyze("verify", "--man=no", "--recursive-errors=no", p)
    assert rc == 0 and "weft" not in text, text
    # It would have been found.
    with open(p, "a") as f:
        f.write("[Service]\nNonsense=yes\n")
    assert "Nonsense" in analyze("verify", "--man=no", "--recursive-errors=no", p)[1]


def test_unit_exposure():
    """At most 3.0 of 10, by systemd's own judgement."""
    rc, text = analyze("security", "--offline=yes", "--threshold=30", "--no-pager", unit())
    assert rc == 0, text


if __name__ == "__main__":
    main([test_paths, test_messages, test_priorities, test_log_json, test_log_time, test_no_manager,
          test_watchdog_watches_each_worker, test_unit_verified, test_unit_exposure])
