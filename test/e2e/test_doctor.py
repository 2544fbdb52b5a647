#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-doctor on machines that are planted in a folder (--sysroot): reports, exit statuses, and what bind refuses.
The machine that the test runs on is not touched. test_doctor.py BUILD [CASE...]"""
import json
import os
import sys

sys.dont_write_bytecode = True
from weft_e2e import app, main, path, run  # noqa: E402

NIC, OTHER = "0000:03:00.0", "0000:04:00.0"
PORT = f"[port p0]\ndev = {NIC}\naddress = 10.0.0.1/24\n"
ROUTES = ("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
          "ens2\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")


class Machine:
    def __init__(self, name):
        self.top = path(name)
        self.file("dev/vfio/12")
        for f in ("sys", "proc/net", "run"):
            os.makedirs(os.path.join(self.top, f), exist_ok=True)
        self.file("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: constant_tsc nonstop_tsc\n")
        self.file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "256\n")
        self.file("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "256\n")
        self.file("sys/bus/pci/drivers/vfio-pci/bind")
        self.file("sys/bus/pci/drivers_probe")

    def file(self, name, text=""):
        p = os.path.join(self.top, name)
        os.makedirs(os.path.dirname(p), exist_ok=True)
        with open(p, "w") as f:
            f.write(text)

    def read(self, name):
        with open(os.path.join(self.top, name)) as f:
            return f.read()

    def nic(self, address, driver, ifname="", group=12):
        d = f"sys/bus/pci/devices/{address}"
        for name, text in (("vendor", "0x8086"), ("device", "0x1572"), ("class", "0x020000"), ("numa_node", "-1"), ("config", ""),
                           ("driver_override", "")):
            self.file(f"{d}/{name}", text + "\n")
        if ifname:
            os.makedirs(os.path.join(self.top, d, "net", ifname))
        if driver:
            self.file(f"sys/bus/pci/drivers/{driver}/unbind")
            self.file(f"sys/bus/pci/drivers/{driver}/bind")
            os.symlink(f"../../../../bus/pci/drivers/{driver}", os.path.join(self.top, d, "driver"))
        os.makedirs(os.path.join(self.top, "sys/kernel/iommu_groups", str(group)), exist_ok=True)
        os.symlink(f"../../../../kernel/iommu_groups/{group}", os.path.join(self.top, d, "iommu_group"))
        return self

    def doctor(self, *args):
        """Exit status, standard output, standard error."""
        return run([app("weft-doctor"), "--sysroot", self.top, *args], env={**os.environ, "SSH_CONNECTION": ""})


def conf(name, text):
    with open(path(name), "w") as f:
        f.write(text)
    return path(name)


def test_ready():
    """Nothing stands in the way: status 0."""
    m = Machine("ready").nic(NIC, "vfio-pci")
    ini = conf("ready.ini", "[weft]\nmemory_mb = 64\n" + PORT)
    # Another user than root may have a small limit on locked memory, which is no fault of the planted machine.
    rc, out, err = m.doctor("-c", ini)
    assert rc == 0 or "locked memory" in out, (rc, out, err)
    if rc == 0:
        assert f"ok    {NIC} (port p0): ready: driver vfio-pci, IOMMU group 12\n" in out and "nothing stands in the way" in out, out
    assert "ok    hugepages: 32 of 2 MiB are needed, and 256 are free\n" in out, out
    assert m.doctor("-q", "-c", ini)[1] == "" or rc == 1


def test_stops():
    """Something stands in the way: status 1, and the command that mends it in a line of its own."""
    m = Machine("stops").nic(NIC, "i40e", "ens1")
    ini = conf("stops.ini", PORT)
    rc, out, err = m.doctor("--config", ini)
    assert rc == 1 and err == "", (rc, err)
    assert (f"STOP  {NIC} (port p0): the kernel has it as interface ens1 (driver i40e)\n"
            f"        weft-doctor bind {NIC}\n") in out, out
    rc, quiet, _ = m.doctor("-q", "-c", ini)
    assert rc == 1 and quiet.count("\n") == 3 and quiet.endswith("1 thing stands in the way of a target\n"), quiet
    rc, out, err = m.doctor("-c", conf("bad.ini", "[port p0]\ndev = x\n"))
    assert rc == 1 and out == "" and err.count("\n") == 1 and "bad.ini:" in err, (rc, out, err)


def test_json():
    m = Machine("json").nic(NIC, "i40e", "ens1").nic(OTHER, "i40e", "ens2", 13)
    m.file("proc/net/route", ROUTES)
    rc, out, err = m.doctor("--json")
    said = json.loads(out)
    assert rc == 1 and err == "" and said["ready"] is False and said["config"] is None, (rc, said)
    assert said["memory_mb"] == 256 and said["hugepages"][0]["needed_mb"] == 256, said
    nics = {n["address"]: n for n in said["nics"]}
    assert nics[NIC]["driver"] == "i40e" and nics[NIC]["bound"] == "kernel" and nics[NIC]["id"] == "8086:1572", nics
    assert nics[OTHER]["interface"] == "ens2" and nics[OTHER]["iommu_group"] == 13, nics
    by = {f["subject"]: f for f in said["findings"] if f["topic"] == "nic"}
    assert by[NIC]["level"] == "note" and by[NIC]["mend"] == f"weft-doctor bind {NIC}", by
    assert "the default route uses ens2" in by[OTHER]["what"] and by[OTHER]["mend"] is None, by
    assert by["NICs"]["level"] == "stop", by


def test_pools():
    """The hugepages that are needed are those of the ports' buffers, not memory_mb alone."""
    m = Machine("pools").nic(NIC, "vfio-pci")
    rc, out, _ = m.doctor("--json", "-c", conf("pools.ini", "[weft]\nmemory_mb = 32\n" + PORT + "mbufs = 131072\nmtu = 9000\n"))
    need = json.loads(out)["hugepages"][0]["needed_mb"]
    assert rc == 1 and 131072 * 9000 >> 20 < need < 131072 * 12000 >> 20, (rc, need)
    assert any(f["level"] == "stop" and "memory_mb = " in (f["mend"] or "") for f in json.loads(out)["findings"]), out


def test_bind_refuses():
    """The interface of the default route, or of an SSH connection, is not taken; nothing is written."""
    m = Machine("refuses").nic(OTHER, "i40e", "ens2")
    m.file("proc/net/route", ROUTES)
    rc, out, err = m.doctor("bind", OTHER)
    assert rc == 1 and out == "" and err.count("\n") == 1, (rc, out, err)
    assert "the default route uses its interface ens2" in err and "--yes" in err, err
    m.file("proc/net/tcp", "h\n   0: 0102000A:0016 0902000A:9C40 01 0\n")
    rc, _, err = m.doctor("bind", OTHER)
    assert rc == 1 and "SSH connection with 10.0.2.9" in err, err
    for f in ("driver_override", "driver/unbind"):
        assert m.read(f"sys/bus/pci/devices/{OTHER}/{f}").strip() == "", f
    assert not os.path.exists(os.path.join(m.top, "run/weft-doctor"))
    assert m.doctor("bind", "0000:0f:00.0")[0] == 1
    # SSH_CONNECTION of the environment.
    m.file("proc/net/tcp")
    m.file("proc/net/route", ROUTES.replace("ens2", "ens9") + "ens2\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n")
    env = {**os.environ, "SSH_CONNECTION": "10.0.2.7 40000 10.0.2.1 2222"}
    rc, _, err = run(["sh", "-c", f'mkdir -p "{m.top}/proc/$$" && ln -s /proc/$$/environ "{m.top}/proc/$$/environ" && exec '
                      f'"{app("weft-doctor")}" --sysroot "{m.top}" bind {OTHER}'], env=env)
    assert rc == 1 and "SSH connection with 10.0.2.7" in err, (rc, err)


def test_bind_writes():
    """With --yes it writes; these files do not act as a kernel, which the program notices."""
    m = Machine("writes").nic(OTHER, "i40e", "ens2")
    m.file("proc/net/route", ROUTES)
    rc, _, err = m.doctor("bind", "--yes", OTHER)
    assert rc == 1 and "vfio-pci does not take it" in err, (rc, err)
    assert m.read(f"sys/bus/pci/devices/{OTHER}/driver/unbind") == OTHER
    assert m.read("sys/bus/pci/drivers/vfio-pci/bind") == OTHER
    # The override is taken back: sysfs takes each write as the whole content, and this file its beginning.
    assert m.read(f"sys/bus/pci/devices/{OTHER}/driver_override").startswith("\n")
    assert os.listdir(os.path.join(m.top, "run/weft-doctor")) == []
    rc, out, _ = m.doctor("restore", OTHER)
    assert rc == 0 and "has the kernel's driver i40e already" in out, (rc, out)


def test_usage():
    m = Machine("usage")
    for args, why in ((["nonsense"], "no such command"), (["bind"], "needs the address"), (["restore"], "needs the address"),
                      (["bind", "eth0"], "is no PCI address"), (["restore", NIC, "vfio-pci"], "restore knows the driver"),
                      (["bind", NIC, "vfio-pci", "x"], "no such argument"), (["--json", "bind", NIC], "are for the report"),
                      (["--yes"], "--yes is for bind"), (["-c"], "-c needs a value")):
        rc, out, err = m.doctor(*args)
        assert rc == 2 and out == "" and err.startswith("weft-doctor: ") and why in err and err.count("\n") == 1, (args, rc, err)
    rc, out, err = run([app("weft-doctor"), "--help"])
    assert rc == 0 and err == "" and "bind" in out and max(map(len, out.splitlines())) <= 80, out
    rc, out, _ = run([app("weft-doctor"), "--version"])
    assert rc == 0 and out.startswith("weft-doctor "), out
    rc, out, err = m.doctor("bind", NIC, "e1000")
    assert rc == 1 and "there is no such PCI device" in err, (rc, err)


if __name__ == "__main__":
    main([test_ready, test_stops, test_json, test_pools, test_bind_refuses, test_bind_writes, test_usage])
