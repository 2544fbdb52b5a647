# SPDX-License-Identifier: BSD-3-Clause
"""Which pages there are, and what neither --help nor a document says of them."""

# (page, section): the command that prints the page's text, what it is in one line, what follows in Markdown, pages beside it.
PROGRAMS = {
    ("weft-target", 8): (["weft-target"], "export files, persistent memory, logs and volumes over RDMA", """
## Files

- `/etc/weft/target.ini`: the configuration of the service, weft.conf(5)
- `/run/weft/control.sock`: the control socket, which weft-ctl(8) uses
- `/var/lib/weft`: the service's exports, and in `state` those that were made at run time

## Signals

| signal | effect |
|---|---|
| SIGTERM, SIGINT | close the connections, make what is under way durable, and end |
| SIGHUP | read the configuration again |

## Environment

| variable | meaning |
|---|---|
| `NOTIFY_SOCKET`, `WATCHDOG_USEC` | set by systemd: where the target tells that it is ready, and how often that its workers poll |
| `XDG_RUNTIME_DIR` | where DPDK keeps its files if the target is not root |

## Examples

Check a configuration, then serve it:

```
weft-target --check-config -c /etc/weft/target.ini
weft-target -c /etc/weft/target.ini
```
""", ["weft.conf(5)", "weft-ctl(8)", "weft-doctor(8)", "weft-fsck(8)", "weft-cp(1)", "weft-volumes(7)", "weft-host-auth(7)"]),
    ("weft-ctl", 8): (["weft-ctl"], "look into a running weft-target and change what it does", """
## Environment

| variable | meaning |
|---|---|
| `WEFT_CTL_SOCKET` | path of the control socket, unless `--socket` names one |

## Examples

```
weft-ctl status
weft-ctl watch --interval 1 clients
weft-ctl export create demo size=256M path=/var/lib/weft/demo.weft
```
""", ["weft-target(8)", "weft-control(7)"]),
    ("weft-doctor", 8): (["weft-doctor"], "see what a machine lacks for weft, and give a NIC to it", """
## Examples

```
weft-doctor -c /etc/weft/target.ini
weft-doctor bind 0000:3b:00.0
```
""", ["weft-target(8)", "weft.conf(5)", "weft-nics(7)"]),
    ("weft-fsck", 8): (["weft-fsck"], "examine an export of weft-target offline, and repair it", """
## Examples

```
weft-ctl offline demo
weft-fsck --data /var/lib/weft/demo.weft
weft-ctl online demo
```
""", ["weft-target(8)", "weft-ctl(8)"]),
    ("weft-cp", 1): (["weft-cp"], "copy files to and from exports of a weft-target", """
## Environment

| variable | meaning |
|---|---|
| `WEFT_CONFIG` | configuration whose ports are used, unless `--config` or `--dev` is given |

## Examples

Push, make a list, and pull:

```
weft-cp README.md weft://10.0.0.1/demo
weft-cp --list weft://10.0.0.1
weft-cp weft://10.0.0.1/demo /tmp/out
```

From a pipe, over restarts of the target, and compared:

```
tar c /home | weft-cp - weft://10.0.0.1/home
weft-cp --retries 20 disk.img weft://10.0.0.1/disk
weft-cp --verify-only disk.img weft://10.0.0.1/disk
```
""", ["weft-copy(7)", "weft-target(8)", "weft.conf(5)", "weft-volumes(7)"]),
    ("weft-perf", 1): (["weft-perf"], "measure the latency and rate of RDMA operations, calls, logs and volumes", "",
                       ["weft-perf-compare(1)", "weft-perf-sweep(1)", "weft-perf-reproduce(1)", "weft-ping(1)", "weft.conf(5)"]),
    ("weft-perf-compare", 1): (["weft-perf", "compare"], "compare two sets of results of weft-perf", "", ["weft-perf(1)"]),
    ("weft-perf-sweep", 1): (["weft-perf", "sweep"], "run the tests of a plan, and draw diagrams", "", ["weft-perf(1)"]),
    ("weft-perf-reproduce", 1): (["weft-perf", "reproduce"], "make an earlier run of weft-perf again, and compare", "",
                                 ["weft-perf(1)", "weft-perf-compare(1)"]),
    ("weft-ping", 1): (["weft-ping"], "check that an iWARP host answers, in the protocol of rping", "", ["rping(1)", "weft-perf(1)"]),
    ("weft-console", 1): (["weft-console"], "a prompt to an RDMA stack, for people and scripts", """
## Environment

| variable | meaning |
|---|---|
| `WEFT_CONSOLE_HISTORY` | file of the prompt's history; empty: none |
| `XDG_STATE_HOME` | folder below which the history is kept otherwise |
""", ["weft-console-commands(7)", "weft-visibility(7)"]),
    ("weft-run", 1): (["weft-run"], "run unmodified RDMA programs over weft", """
## Environment

| variable | meaning |
|---|---|
| `WEFT_CONFIG` | configuration whose ports are used, unless `--config` or `--dev` is given |
| `WEFT_PORTD` | socket of the weft-portd whose address is used, unless `--config`, `--dev` or `--portd` is given |

## Examples

```
weft-run --portd /run/weft/portd.sock rping -s -v
weft-run --dev net_memif0,role=server,id=0,socket=m --address 10.0.0.1/24 rping -s -v
weft-run --dev net_memif0,role=client,id=0,socket=m --address 10.0.0.2/24 rping -c -a 10.0.0.1 -v -C 5
```
""", ["rping(1)", "weft-portd(8)", "weft.conf(5)"]),
    ("weft-portd", 8): (["weft-portd"], "own a device, and let several processes share its address", """
## Files

- `$XDG_RUNTIME_DIR/weft-portd.sock`, of root `/run/weft/portd.sock`: the control socket, unless `--socket` names another one.
  The file beside it that ends with `.lock` stays: its lock tells whether a weft-portd has the socket

## Environment

| variable | meaning |
|---|---|
| `XDG_RUNTIME_DIR` | where the control socket is, and where DPDK keeps its files, unless weft-portd runs as root |

## Signals

SIGTERM and SIGINT end it. The processes then have a port without a link: their connections end as when a NIC is removed.

## Examples

Two servers with one address:

```
weft-portd --dev net_af_packet0,iface=eth1 --address 10.0.0.1/24 --socket /run/weft/p
weft-run --portd /run/weft/p ib_send_bw -R -p 18515
weft-run --portd /run/weft/p ib_send_bw -R -p 18516
```
""", ["weft-run(1)", "weft.conf(5)", "weft-visibility(7)"]),
}

# Programs that are built only where their libraries are.
OPTIONAL = {"weft-run"}

# (page, section): the document below docs, what it is in one line, pages beside it.
DOCUMENTS = {
    ("weft.conf", 5): ("configuration.md", "configuration of weft-target, and of the ports of all programs of weft",
                       ["weft-target(8)", "weft-cp(1)"]),
    ("weft-control", 7): ("control.md", "the control socket of weft-target", ["weft-ctl(8)", "weft-target(8)"]),
    ("weft-copy", 7): ("weft-cp.md", "what weft-cp promises: pipes, interruptions, retries, several files, exit statuses",
                       ["weft-cp(1)", "weft-volumes(7)"]),
    ("weft-volumes", 7): ("volumes.md", "exports that are larger than memory", ["weft-target(8)", "weft-volume(3)"]),
    ("weft-host-auth", 7): ("host-auth.md", "how clients and target authenticate each other", ["weft-target(8)", "weft.conf(5)"]),
    ("weft-nics", 7): ("nics-setup.md", "from a bare server to a push, for each kind of NIC", ["weft-doctor(8)", "weft-target(8)"]),
    ("weft-metrics", 7): ("metrics.md", "metrics of weft-target for Prometheus, alarms, a dashboard", ["weft-target(8)", "weft-alarms(7)"]),
    ("weft-visibility", 7): ("visibility.md", "counters, captures and log lines", ["weft-target(8)", "weft-console(1)"]),
    ("weft-console-commands", 7): ("console.md", "the commands of weft-console, and its scripts", ["weft-console(1)"]),
    ("weft-quick-start", 7): ("guide/five-minutes.md", "from installation to the first push in five minutes",
                               ["weft-target(8)", "weft-cp(1)"]),
    ("weft-production", 7): ("guide/production.md", "what to look at before others depend on a target",
                              ["weft-target(8)", "weft-alarms(7)"]),
    ("weft-sizing", 7): ("guide/sizing.md", "memory, processors and disk of a target", ["weft-target(8)"]),
    ("weft-security", 7): ("guide/security.md", "what weft protects, and what not", ["weft-host-auth(7)", "weft.conf(5)"]),
    ("weft-restart", 7): ("guide/restart.md", "restart and replace a target without failures of its clients",
                           ["weft-target(8)", "weft-ctl(8)"]),
    ("weft-upgrade", 7): ("guide/upgrade.md", "upgrade and downgrade of programs and formats", ["weft-target(8)"]),
    ("weft-backup", 7): ("guide/backup.md", "backup and restore of exports", ["weft-cp(1)", "weft-fsck(8)"]),
    ("weft-alarms", 7): ("guide/alarms.md", "what an alarm of a target means, and what to do", ["weft-ctl(8)", "weft-fsck(8)"]),
    ("weft-programming", 7): ("programming.md", "writing programs with the library", ["weft-verbs(3)", "weft-worker(3)", "weft-log(3)"]),
}
