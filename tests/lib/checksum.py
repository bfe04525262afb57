# SPDX-License-Identifier: GPL-2.0-or-later
"""CRC-32C, bit by bit as docs/log-format.md names it, and what tests sum with it."""

import os

SUM = "\n[checksum]\n"


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def change_manifest(directory, key, value):
    """Another value of a key that is there; the checksum is right again."""
    path = os.path.join(directory, "manifest")
    with open(path) as file:
        lines = file.read().split(SUM)[0].splitlines()
    if not any(line.startswith(f"{key}=") for line in lines):
        raise AssertionError(f"no {key} in {lines}")
    text = "\n".join(f"{key}={value}" if line.startswith(f"{key}=") else line
                     for line in lines) + "\n" + SUM
    with open(path, "w") as file:
        file.write(f"{text}crc32c={crc32c(text.encode()):08x}\n")
