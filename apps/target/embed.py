#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write a file as a C header: embed.py FILE NAME. `NAME` are its octets, `NAME_bytes` their number."""
import sys

with open(sys.argv[1], "rb") as f:
    data = f.read()
print("/* made from", sys.argv[1].rsplit("/", 1)[-1], "*/")
print("#include <stddef.h>")
print(f"static const unsigned char {sys.argv[2]}[] = {{")
for at in range(0, len(data), 16):
    print("\t" + ", ".join(str(b) for b in data[at:at + 16]) + ",")
print("};")
print(f"static const size_t {sys.argv[2]}_bytes = sizeof({sys.argv[2]});")
