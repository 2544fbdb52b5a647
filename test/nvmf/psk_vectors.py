#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print the known answers of test_nvmf_psk.c, made with hmac and hashlib alone."""
import base64
import hashlib
import hmac
import struct
import zlib

HOST = 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555'
SUB = 'nqn.2024-01.org.example:s1'


def expand_label(old, algo, secret, label, context):
    size = hashlib.new(algo).digest_size
    prk = hmac.new(bytes(size), secret, algo).digest()
    if old:
        info = struct.pack('<H', size) + label + context
    else:
        info = struct.pack('>HB', size, len(label)) + label + bytes([len(context)]) + context
    return hmac.new(prk, info + b'\x01', algo).digest()


def derive(key, kind, old, version, host, sub):
    """The identity of TLS and its key, of a configured key of this kind (hh of its text)."""
    algo = {32: 'sha256', 48: 'sha384'}[len(key)]
    used = {32: 1, 48: 2}[len(key)]
    retained = key if kind == 0 else expand_label(old, algo, key, b'tls13 HostNQN', host.encode())
    digest = base64.b64encode(hmac.new(retained, f'{host} {sub} NVMe-over-Fabrics'.encode(), algo).digest()).decode()
    identity = f'NVMe{version}R{used:02} {host} {sub}' + (f' {digest}' if version else '')
    context = f'{used:02} {digest}' if version else identity
    return identity, expand_label(old, algo, retained, b'tls13 nvme-tls-psk', context.encode())


def main():
    for kind, size in ((1, 32), (2, 48), (0, 32), (0, 48)):
        key = bytes(range(size))
        text = base64.b64encode(key + struct.pack('<I', zlib.crc32(key))).decode()
        for old in (False, True):
            for version in (0, 1):
                identity, psk = derive(key, kind, old, version, HOST, SUB)
                digest = identity.split()[3] if version else ''
                name = 'WEFT_NVMF_PSK_COMPAT' if old else 'WEFT_NVMF_PSK_RFC8446'
                print(f'\t{{"NVMeTLSkey-1:{kind:02}:{text}:",\n\t {name}, {version},\n\t "{digest}",\n'
                      f'\t "{psk.hex()}"}},')


if __name__ == '__main__':
    main()
