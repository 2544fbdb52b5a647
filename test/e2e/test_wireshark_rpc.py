#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/wireshark/rpcordma2.lua in tshark: written messages of every header type, and weft-cp's calls.

test_wireshark_rpc.py BUILD [CASE...]
"""
import struct

from test_visible import start
from test_wireshark import Conn, fields, no_lua_errors, tshark, untagged
from weft_e2e import main, make_file, path

SEG_A, SEG_B = (0x11223344, 4096, 1, 2), (0x55667788, 16, 0, 0x80000000)
CALL, REPLY = (0, 2, 100003, 3, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0)  # RFC 5531 s9, after the XID: NFS version 3, NULL
UNKNOWN = ("-o", "rpc.dissect_unknown_programs:TRUE")


def words(*w):
    return struct.pack(f">{len(w)}I", *w)


def msg(htype, *body, xid=77, vers=2, credit=9):
    return untagged(0x03, 0, words(xid, vers, credit, htype, *body))


# Draft s6.3, each type with all its fields.
MESSAGES = {
    4: (9, 2, 5000), 5: (), 6: (1, 99, 3, 0x61626300), 7: (3, 1, 4, 8192, 5, 0, 6, 8, 1, 0x6b000000),
    8: (0x55667788, 1, 0, *SEG_A, 1, 0, *SEG_B, 0, 1, 72, *SEG_A, 0, 1, 2, *SEG_A, *SEG_B, 1, 0, 0, 1, 1, *SEG_B),
    9: (70000, 77, *CALL), 10: (0, 0, 0, 0, 77, *CALL),
    11: (1, 1, *SEG_A, 0, 1, 1, *SEG_B), 12: (4, 77, *REPLY), 13: (0, 77, *REPLY),
}


def test_every_type():
    """Draft s6.1 table 2: the header is shown, and the complete RPC message after it is decoded."""
    c = Conn("types.pcap")
    for htype, body in MESSAGES.items():
        c.send(htype > 10 or htype in (4, 5), msg(htype, *body))
    f = c.done()
    got = fields(f, "rpcordma2", "rpcordma2.htype", "rpcordma2.xid", "rpcordma2.version", "rpcordma2.credit")
    assert got == [[[str(t)], ["0x0000004d"], ["2"], ["9"]] for t in MESSAGES], got
    assert fields(f, "rpcordma2.err", "rpcordma2.err", "rpcordma2.err.chunk_index",
                  "rpcordma2.err.length_needed") == [[["9"], ["2"], ["5000"]]]
    assert fields(f, "rpcordma2.htype == 7", "rpcordma2.prop", "rpcordma2.prop.value", "rpcordma2.prop.data") == [
        [["1", "5", "6"], ["8192"], ["000000016b000000"]]]
    assert fields(f, "rpcordma2.htype == 8", "rpcordma2.inv_handle", "rpcordma2.position", "rpcordma2.segments",
                  "rpcordma2.handle") == [[["0x55667788"], ["0", "0", "72"], ["2", "0", "1"], [
                      "0x11223344", "0x55667788", "0x11223344", "0x11223344", "0x55667788", "0x55667788"]]]
    assert fields(f, "rpcordma2.htype == 11", "rpcordma2.length", "rpcordma2.offset") == [
        [["4096", "16"], ["0x0000000100000002", "0x0000000080000000"]]]
    assert fields(f, "rpcordma2.remaining", "rpcordma2.remaining") == [[["70000"]], [["4"]]]
    # The two complete messages reach the RPC dissector.
    assert fields(f, "rpc", "rpcordma2.htype", "rpc.xid", "rpc.msgtyp") == [
        [["10"], ["0x0000004d"], ["0"]], [["13"], ["0x0000004d"], ["1"]]]
    assert fields(f, "rpcordma2.rpc.program", "rpcordma2.rpc.program", "rpcordma2.rpc.version",
                  "rpcordma2.rpc.procedure") == [[["100003"], ["3"], ["0"]]]
    text = tshark(f, "-Y", "rpcordma2")
    for name in ("ERROR", "GRANT", "CONNPROP_MIDDLE", "CONNPROP_FINAL", "CALL_EXTERNAL", "CALL_MIDDLE", "CALL_INLINE",
                 "REPLY_EXTERNAL", "REPLY_MIDDLE", "REPLY_INLINE"):
        assert "RDMA2_" + name in text, (name, text)
    no_lua_errors(f)


def test_errors():
    """Draft s6.3.1: the words of each arm. An unknown code is reported."""
    c = Conn("errs.pcap")
    arms = {1: (1, 1), 2: (), 3: (), 4: (), 5: (), 6: (8,), 7: (8,), 8: (16,), 9: (1, 100), 10: (900,), 11: (), 100: (), 42: ()}
    for code, body in arms.items():
        c.send(1, msg(4, code, *body))
    f = c.done()
    assert [int(r[0][0]) for r in fields(f, "rpcordma2.err", "rpcordma2.err")] == list(arms)
    assert len(tshark(f, "-Y", "rpcordma2.unknown_error").splitlines()) == 1
    assert fields(f, "rpcordma2.err.max", "rpcordma2.err.max") == [[["8"]], [["8"]], [["16"]]]
    no_lua_errors(f)


def test_reduced():
    """With reduced items the RPC message is incomplete, and is shown as octets."""
    c = Conn("reduced.pcap")
    c.send(0, msg(10, 0, 1, 40, *SEG_A, 0, 0, 0, 77, *CALL))
    c.send(1, msg(13, 1, 1, *SEG_B, 0, 77, *REPLY))
    c.send(0, msg(10, 0, 1, 40, *SEG_A, 0, 0, 0, 78, *CALL))
    f = c.done()
    assert len(fields(f, "rpcordma2.payload", "rpcordma2.payload")) == 3
    assert tshark(f, "-Y", "rpc") == ""
    assert len(tshark(f, "-Y", "rpcordma2.wrong_xid").splitlines()) == 1
    no_lua_errors(f)


def test_nothing_else():
    """Truncated messages, other versions, other types, wrong counts: not decoded, and no Lua error."""
    c = Conn("cut.pcap")
    n = 0
    for htype, body in MESSAGES.items():
        whole = words(77, 2, 9, htype, *body)
        head = len(whole) - 4 * {9: 9, 10: 9, 12: 5, 13: 5}.get(htype, 0)
        for cut in range(0, head):
            c.send(0, untagged(0x03, 0, whole[:cut]))
            n += 1
    for body in ((0, 2), (0, 0xFFFFFFFF), (0, 1, 40), (0, 0, 1, 0xFFFFFFFF)):
        c.send(0, msg(10, *body, 77, *CALL))
    c.send(0, msg(7, 0xFFFFFFFF), msg(7, 1, 1, 0xFFFFFFFF), msg(7, 1, 1, 5, 1, 2)[:-1])
    for htype in (0, 1, 2, 3, 14, 0xFFFFFFFF):
        c.send(0, msg(htype, *MESSAGES[10]))
    for vers in (0, 1, 3, 0xFFFFFFFF):
        c.send(0, msg(10, *MESSAGES[10], vers=vers))
    f = c.done()
    assert tshark(f, "-Y", "rpcordma2") == "" and n > 300
    no_lua_errors(f)


def test_calls():
    """Each call of weft-cp to weft-target has its reply, and Wireshark's RPC dissector pairs them."""
    f = path("rpc.pcapng")
    t, tel = start("wsr", {"demo": {"path": path("wsr.exp"), "size": "4M"}})
    assert tel.ask(f"/weft/capture,p0,{f}") == f
    rc, out, err = t.cp(make_file("wsr.src", 100000, 3), "weft://10.0.0.1/demo")
    assert rc == 0, err
    st = tel.ask("/weft/capture_stop,p0")
    assert st["dropped"] == 0 and st["error"] == 0, st
    t.term()
    calls = [r[0][0] for r in fields(f, "rpcordma2.htype == 10", "rpcordma2.xid")]
    replies = [r[0][0] for r in fields(f, "rpcordma2.htype == 13", "rpcordma2.xid")]
    assert calls and sorted(calls) == sorted(replies), (calls, replies)
    assert len(fields(f, "rpcordma2.rpc.program", "rpcordma2.rpc.procedure")) == len(calls)
    assert len(tshark(f, *UNKNOWN, "-Y", "rpc.msgtyp == 0").splitlines()) == len(calls)
    text = tshark(f, *UNKNOWN, "-Y", "rpcordma2")
    assert text.count("Reply (Call In ") == len(replies), text
    assert tshark(f, "-Y", "rpcordma2.wrong_xid or rpcordma2.unknown_error or rpcordma") == ""
    no_lua_errors(f)


if __name__ == "__main__":
    main([v for k, v in list(globals().items()) if k.startswith("test_")])
