#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the first inputs of the entries mpa, ddp, qp and target: every opcode, every state, each kind of grant, with and
without markers.

    test/fuzz/seeds.py [DIR]     DIR [test/fuzz/corpus]: into DIR/mpa, DIR/ddp, DIR/qp and DIR/target, as seed-*

The octets are those that fuzz_mpa.c, fuzz_ddp.c, fuzz_qp.c, qp_peer.c, qp_local.c and fuzz_target.c read. After a change of these
files, run this program.
"""

import os
import struct
import sys


def u16(v):
    return struct.pack('>H', v)


# ---- qp: three octets of attributes, operations, and a last octet that selects the end ----

PEER, LOCAL = 1, 0
# the peer: fields of the operation octet
RAW, SEND, WRITE, REQUEST, ANSWER, TERMINATE, LIFE = (k << 1 | PEER for k in (0, 1, 2, 3, 4, 6, 7))
POST, RECV, GRANT, WINDOW, END = (k << 1 | LOCAL for k in (0, 3, 5, 6, 7))
MORE = 0x20     # the next operation happens at the same moment
HOLD = 0x80     # a segment that is not the last one of its message

WR = ['send', 'send_inv', 'write', 'read', 'flush', 'verify', 'atomic_write', 'fetch_add',
      'masked_fetch_add', 'cmp_swap', 'masked_cmp_swap', 'imm', 'write_imm', 'fast_reg', 'local_inv',
      'bind_mw']
PIECES = {'send', 'send_inv', 'write', 'write_imm', 'read', 'fast_reg', 'bind_mw'}
ASK = {'read', 'flush', 'verify', 'atomic_write', 'fetch_add', 'masked_fetch_add', 'cmp_swap', 'masked_cmp_swap'}
RESPONDER, INITIATOR = bytes([0x02, 0x02, 0x12]), bytes([0x03, 0x02, 0x12])


def post(name, how=0, off=64, length=200, flags=0):
    b = bytes([POST | flags, how, WR.index(name)])
    return b + (u16(off) + u16(length) if name in PIECES else b'')


def recv(off=0, length=1000, how=0, flags=0):
    return bytes([RECV | flags, how]) + u16(off) + u16(length)


def send(kind=0, length=40, flags=0, stag=0):
    return bytes([SEND | flags, kind, length, stag, 0x31])


def write(stag=0, off=100, length=64, flags=0):
    return bytes([WRITE | flags, stag, length]) + u16(off) + b'\x51'


def request(kind, stag=0, length=64, off=128, flags=0):
    return bytes([REQUEST | flags, stag | kind << 4]) + u16(length) + u16(off)


def answer(how=0, more=b''):
    return bytes([ANSWER, how]) + b'\x42' + more


FLUSH_STATES = {
    'rts': b'',
    'closing': bytes([END | 0x80]),
    'terminate': bytes([TERMINATE, 0x10, 1]),
    'error': bytes([LIFE | 0x80]),
    'destroyed': bytes([END | 0x40]),
    'eof': bytes([LIFE | 0x40]),
}
LAST = {'destroy': b'\x00', 'fin': b'\x01', 'reset': b'\x02'}


def qp():
    out = {}
    speak = recv() + send()
    for role, attr in (('resp', RESPONDER), ('init', INITIATOR)):
        for i, name in enumerate(WR):
            back = answer() if name in ASK else b''
            out[f'wr-{role}-{name}'] = attr + speak + post(name) + back + LAST['fin']
        for state, b in FLUSH_STATES.items():
            work = b''.join(post(n, flags=MORE) for n in
                            ('read', 'fetch_add', 'flush', 'verify', 'send', 'read'))
            out[f'state-{role}-{state}'] = attr + speak + work + b + post('write') + recv() + \
                send() + LAST['reset']
        out[f'idle-{role}'] = attr[:2] + b'\xf2\0\0' + recv() + bytes([END | 0x80]) + LAST['destroy']
    for i in range(6):
        out[f'peer-send-{i}'] = RESPONDER + recv() + recv() + send(i, 8 if i > 3 else 30) + LAST['fin']
    for i, name in enumerate(('read', 'read2', 'atomic', 'atomic2', 'flush', 'verify', 'awrite')):
        out[f'peer-{name}'] = RESPONDER + request(i, 5 if i in (4, 5) else 0, 2) + LAST['fin']
    out['peer-write'] = RESPONDER + write() + LAST['fin']
    out['peer-write-bounds'] = RESPONDER + write(off=3880, length=200) + LAST['fin']
    out['peer-write-ro'] = RESPONDER + write(stag=1) + LAST['fin']
    out['peer-terminate'] = RESPONDER + bytes([TERMINATE, 0x10, 1]) + LAST['fin']
    out['peer-crc'] = RESPONDER + bytes([RAW | 0x40, 4, 1, 2, 3, 4]) + LAST['fin']
    out['peer-raw'] = RESPONDER + bytes([RAW | 0x80, 4, 1, 2, 3, 4]) + LAST['fin']
    out['peer-segments'] = RESPONDER + recv() + send(flags=HOLD) + send(flags=HOLD) + send() + LAST['fin']
    out['peer-cut-off'] = RESPONDER + recv() + send(flags=HOLD) + bytes([LIFE | 0x80]) + LAST['reset']
    out['markers'] = bytes([0x06, 0x06, 0x12]) + speak + write(length=200) + write(length=250) + \
        post('send', length=3000) + LAST['fin']
    out['no-crc'] = bytes([0x0a, 0x0a, 0x12]) + speak + write() + post('write') + LAST['fin']
    out['rev1'] = bytes([0x01, 0x00, 0x12]) + speak + post('write') + LAST['fin']
    out['fallback'] = bytes([0x03, 0x00, 0x12]) + recv() + LAST['fin']
    out['p2p'] = bytes([0x12, 0x72, 0x12]) + post('send') + recv() + send() + LAST['fin']
    out['p2p-read'] = bytes([0x13, 0x52, 0x12]) + answer() + post('send') + LAST['fin']
    out['reject'] = bytes([0x03, 0x02, 0x13]) + recv() + LAST['fin']
    out['rejected'] = bytes([0x02, 0x02, 0x32]) + recv() + LAST['fin']
    srq = bytes([0x42, 0x02, 0x12])
    out['srq'] = srq + recv() + recv() + send() + send(flags=HOLD) + LAST['reset']
    out['srq-dry'] = srq + recv() + send() + send() + LAST['fin']
    grant = recv() + recv() + send()
    out['window'] = RESPONDER + grant + post('bind_mw', 0x14) + write(stag=8, off=0) + \
        send(1, 4, stag=8) + write(stag=8, off=0) + LAST['fin']
    out['window-local-inv'] = RESPONDER + grant + post('bind_mw', 0x14) + post('local_inv', 8) + \
        write(stag=8, off=0) + LAST['fin']
    out['window-dealloc'] = RESPONDER + grant + post('bind_mw', 0x1c) + bytes([WINDOW]) + \
        write() + LAST['fin']
    out['window-lent'] = RESPONDER + grant + post('bind_mw', 0x1c) + bytes([GRANT]) + write() + LAST['fin']
    out['fast'] = RESPONDER + grant + post('fast_reg', 0x14, 0, 2000) + write(stag=4) + \
        post('local_inv', 4) + write(stag=4) + LAST['fin']
    out['fast-send-inv'] = RESPONDER + grant + post('fast_reg', 0x24, 0, 2000) + request(0, 4) + \
        send(1, 4, stag=4) + post('fast_reg', 0x24, 0, 900) + write(stag=4) + LAST['fin']
    out['rereg'] = RESPONDER + request(0, 0, 3000) + bytes([GRANT | MORE]) + request(0, 10) + \
        bytes([GRANT]) + LAST['fin']
    out['answer-wrong'] = RESPONDER + speak + post('read') + answer(2, b'\x01') + LAST['fin']
    for name, how, more in (('low', 4, b'\xf0'), ('high', 4, b'\x10'), ('long', 8, b'\x08'), ('less', 8, b'\xf8'), ('open', 24, b'\x08')):
        out[f'answer-{name}'] = RESPONDER + speak + post('read') + bytes([ANSWER, how, 0x42]) + more + LAST['fin']
    out['answer-short'] = RESPONDER + speak + post('read', length=3000) + answer(32) + \
        bytes([LIFE | 0x80]) + LAST['reset']
    out['answer-order'] = RESPONDER + speak + post('read', flags=MORE) + post('fetch_add') + \
        answer(1) + LAST['fin']
    for where, bit in (('wc', 0x40), ('event', 0x80)):
        for name, act in (('destroy', END | 0x40), ('disconnect', END | 0x80), ('post', POST),
                          ('grant', GRANT), ('window', WINDOW)):
            for role, attr in (('resp', RESPONDER), ('init', INITIATOR)):
                for at in (1, 2):
                    out[f'in-{where}-{name}-{role}-{at}'] = attr[:2] + bytes([0x12 | bit, at, act]) + \
                        recv() + recv() + send() + post('read', flags=MORE) + post('send') + send() + \
                        LAST['fin']
    out['fence'] = RESPONDER + speak + post('read') + post('send', 0x80) + answer() + LAST['fin']
    return out


# ---- mpa ----

def mpa():
    out = {}

    def full(initiator, rev, ours, theirs):
        """Start-up to full operation. ours, theirs: 2 markers, 1 no CRC."""
        how = (4 if initiator else 0) | (8 if rev == 2 else 0) | (0x20 if theirs & 1 else 0)
        b = bytes([4 | initiator | (8 if rev == 2 else 0), 7, ours >> 1 | (ours & 1) << 1])
        b += bytes([3, how, (theirs & 2) | (1 if rev == 2 else 0), 0xfe])
        return b if initiator else b + bytes([6, 0])

    def fpdu(length, piece=0xfe):
        return bytes([1, 4 | 8]) + u16(length) + bytes([piece])

    def say(length):
        return bytes([6, 4 | 8, length // 6])

    for initiator in (0, 1):
        for ours in range(4):
            for theirs in range(4):
                rev = 1 + (ours & 1)
                flow = fpdu(1400) + say(1400) + fpdu(700) + say(700) + fpdu(200, 101) + say(200) + \
                    fpdu(2) + fpdu(1021, 8)
                out[f'full-{initiator}-{ours}-{theirs}'] = full(initiator, rev, ours, theirs) + flow
        for rev in (1, 2):
            start = full(initiator, rev, 2, 2)
            out[f'bad-crc-{initiator}-{rev}'] = start + bytes([1, 1, 20, 0, 5, 7, 0xfe]) + fpdu(40)
            out[f'eof-{initiator}-{rev}'] = start + fpdu(40) + bytes([5 | 0x80])
            out[f'cut-off-{initiator}-{rev}'] = start + bytes([0, 3, 0, 40, 1, 0xfe]) + bytes([5 | 0x80])
            out[f'late-{initiator}-{rev}'] = start[:3] + bytes([4 | 0x80, 60])
    out['reject'] = full(1, 2, 0, 0)[:4] + bytes([0x0c, 5, 0xfe])
    out['rejected'] = full(0, 2, 0, 0)[:7] + bytes([6, 1])
    for i in range(1, 8):
        out[f'p2p-{i}'] = bytes([0x2d, 7, 0, 3, 0x0c, 9 | i << 4, 0xfe]) + say(100)
        out[f'p2p-resp-{i}'] = bytes([0x0c, 7, 0, 3, 8, 9 | i << 4, 0xfe, 6, 0]) + bytes([1, 0, 0, 0xfe]) + say(100)
    return out


# ---- ddp ----

def ddp():
    out = {}

    def tagged(grant, right=0, at=0, off=16, length=40, op=0x41):
        b = bytes([op, grant | right << 4, at, length, 7])
        return b + (u16(off) if at & 3 == 0 else b'') + b'\x02\x05\x0b'

    def untagged(qn, op=0x43, how=0, more=b'', length=30):
        return bytes([op, qn | how]) + more + bytes([length, 9, 1, 20])

    for i, name in enumerate(('rw', 'lend', 'ro', 'sink', 'high', 'other', 'fast')):
        out[f'to-{name}'] = tagged(i) + tagged(i)
        out[f'sink-{name}'] = tagged(i, 1)
        out[f'end-{name}'] = tagged(i, 0, 1)
        out[f'beyond-{name}'] = tagged(i, 0, 5)
        out[f'before-{name}'] = tagged(i, 0, 0xfe)
        out[f'revoke-{name}'] = tagged(i) + bytes([5 | i << 3, 0]) + tagged(i)
    for i in range(4):
        out[f'queue-{i}'] = untagged(i, 0x03) + untagged(i) + untagged(i)
        for name, off in (('high', b'\x01'), ('low', b'\xff')):
            out[f'msn-{name}-{i}'] = untagged(i) + untagged(i, how=8, more=off)
            out[f'mo-{name}-{i}'] = untagged(i, 0x03) + untagged(i, how=16, more=off)
        out[f'wrap-{i}'] = bytes([6, 0x01]) + untagged(i) + untagged(i)
        out[f'long-{i}'] = bytes([6, 0x02]) + untagged(i)
    out['queue-other'] = untagged(0, how=4, more=b'\0\0\0\4')
    for where, op in (('ours', 4), ('theirs', 4 | 8)):
        for base in range(4):
            out[f'window-{where}-{base}'] = bytes([op | (base << 1 | 8) << 4 & 0xf0]) + \
                u16(100) + u16(300) + tagged(8 if op & 8 else 7, 0, 2)
    out['stale'] = bytes([5, 0]) + tagged(9)
    out['any-stag'] = tagged(15)
    out['refused'] = bytes([0x87]) + tagged(0) + untagged(0)
    out['raw'] = bytes([0, 18]) + bytes(range(18)) + b'\x00'
    out['short'] = bytes([0, 5, 0xc1, 0x40, 1, 2, 3, 0])
    out['version'] = bytes([0, 20, 0x42, 0x43]) + bytes(18) + b'\x00'
    # the first octet selects the stream that exists at the start
    return {name: b'\x00' + data for name, data in out.items()}


def target():
    """Inputs of fuzz_target: calls of volumes, windows, a device that is stuck or fails, ends."""
    E = {0: 0, 1: 1, 512: 3, 4096: 5, 65536: 7, 131072: 8, 1 << 20: 9}

    def e(v):
        return bytes([E[v] if v in E else 160 + v // 4096])

    def call(proc, args=b'', how=0, conn=0, more=0):
        return bytes([conn << 6 | more, proc, how]) + args

    def open_(conn=0, how=1):
        return call(2, how=how, conn=conn)

    def rng(proc, off=0, length=0, how=0, handle=0, conn=0):
        return call(proc, bytes([handle]) + e(off) + e(length), how, conn)

    def wopen(off=0, length=65536, how=1, handle=0, conn=0):
        return call(12, bytes([handle]) + e(off) + e(length), how, conn)

    def rdma(window=0, length=4096, how=0x40, conn=0):
        return bytes([4 | conn << 6, how, window]) + e(length)

    def device(how, more=0):
        return bytes([5, how, more])

    def wait(how=199):
        return bytes([7, how])

    stuck, go, fail, well = device(0xc0), device(1), device(3 | 1 << 3, 0), device(4)
    every = b''.join(rng(p, 4096, 4096) for p in (4, 5, 6, 7, 9, 10, 11))
    compare = call(8, bytes([0]) + e(4096) + e(512))
    return {
        'calls': b'\0' + call(0) + call(1) + open_() + every + compare + rng(6, 0, 0) + call(3, bytes([0])) + b'\0',
        'inline': b'\1' + open_() + call(5, bytes([0]) + e(1) + e(512), 0x41) + call(4, bytes([0]) + e(1) + e(4096), 0x40) + b'\0',
        'sums': b'\2' + open_() + every + rng(5, 1, 65536, 1) + wait() + every + b'\0',
        'rights': b'\3' + open_(how=2) + every + compare + b'\0',
        'windows': b'\0' + open_() + wopen() + rdma() + rdma(length=65536) + call(13, bytes([0]) + e(65536) + e(65536), 1)
                   + rdma() + call(14, bytes([0])) + b'\0',
        'overlap': b'\1' + open_() + open_(1) + wopen() + wopen(conn=1, handle=1) + rng(5, 0, 4096, conn=1, handle=1) + b'\0',
        'pressure': b'\0' + open_() + open_(1) + b''.join(wopen(i * 65536) for i in (0, 1)) * 2
                    + b''.join(call(12, bytes([0, 160 + 16 * i]) + e(65536), 1) for i in range(5))
                    + b''.join(call(12, bytes([1, 160 + 16 * i]) + e(65536), 1, 1) for i in range(5)) + wait() * 3 + b'\0',
        'stuck-close': b'\0' + open_() + stuck + every + wopen() + wait() + call(3, bytes([0])) + wait() + go + wait() + b'\0',
        'stuck-gone': b'\1' + open_() + wopen() + stuck + rdma() + every + b'\6\2' + open_(1) + rng(5, 0, 4096, 1, 1, 1) + go + b'\1',
        'stuck-end': b'\0' + open_() + wopen() + stuck + rdma() + every + wopen(131072) + b'\1',
        'fails': b'\0' + open_() + fail + every + every + well + every + b'\0',
        'revoked': b'\2' + open_() + wopen() + rdma() + stuck + every + b'\6\0' + wait() * 6 + go + b'\0',
        'dead': b'\2' + open_() + stuck + every + b'\6\1' + wait(255) * 3 + open_(1) + rng(5, 4096, 4096, 0, 1, 1) + go + b'\0',
        'raw': b'\0' + open_() + b''.join(bytes([3, 0x80 | p, 32]) + bytes(range(32)) for p in range(17)) + b'\0',
        'list': b'\2' + open_() + call(21) + call(21, how=1) + call(21, how=0x80) + b'\0',
        'memory': b'\2' + open_() + call(4, bytes([0]) + e(0) + e(1 << 20), 0, 0, 0x20) * 6 + b'\0',
    }


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), 'corpus')
    for entry, inputs in (('mpa', mpa()), ('ddp', ddp()), ('qp', qp()), ('target', target())):
        os.makedirs(os.path.join(root, entry), exist_ok=True)
        for name, data in inputs.items():
            with open(os.path.join(root, entry, 'seed-' + name), 'wb') as f:
                f.write(data)
        print(f'{entry}: {len(inputs)} inputs, {sum(map(len, inputs.values()))} octets')


main()
