#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print test/nvmf/dhchap_vectors.inc: responses of DH-HMAC-CHAP, computed by hashlib and hmac alone. clang-format its output."""
import base64
import hashlib
import hmac
import struct
import zlib

HOST = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
SUBSYS = "nqn.2026-01.org.example:disk"
HASHES = {1: hashlib.sha256, 2: hashlib.sha384, 3: hashlib.sha512}


def response(key, bind, h, challenge, shared, seq, tid, role, own, peer):
    if bind:
        key = hmac.new(key, (own + "NVMe-over-Fabrics").encode(), HASHES[bind]).digest()
    if shared:
        challenge = hmac.new(HASHES[h](shared).digest(), challenge, HASHES[h]).digest()
    text = challenge + struct.pack("<IHB", seq, tid, 0) + role.encode() + own.encode() + b"\0" + peer.encode()
    return hmac.new(key, text, HASHES[h]).hexdigest()


print("/* SPDX-License-Identifier: BSD-3-Clause */\n/** @file Made by dhchap_vectors.py. */")
for bind in range(4):
    for h in HASHES:
        n = HASHES[h]().digest_size
        key = bytes(range(7, 7 + (32, 32, 48, 64)[bind]))
        text = f"DHHC-1:{bind:02}:{base64.b64encode(key + struct.pack('<I', zlib.crc32(key))).decode()}:"
        for shared in (b"", bytes(i % 256 for i in range(256))):
            for role in ("HostHost", "Controller"):
                own, peer = (HOST, SUBSYS) if role == "HostHost" else (SUBSYS, HOST)
                got = response(key, bind, h, bytes(range(n)), shared, 0x12345678, 0xabcd, role, own, peer)
                print(f'{{"{text[:60]}"\n "{text[60:]}",\n {h}, {len(shared)}, "{role}", "{own}",')
                print(f' "{peer}",\n "{got[:64]}"\n "{got[64:]}"}},')
