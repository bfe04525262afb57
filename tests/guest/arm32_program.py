# SPDX-License-Identifier: GPL-2.0-or-later
"""A program for AArch32 user mode, in A32 and T32, for which no compiler is needed.

It makes system calls, counts under exclusives, multiplies in vectors, calls
Thumb code, and prints RESULT.
"""

import struct

RESULT = "5f140000"
ADDRESS = 0x10000

# Offset, bytes in memory, instruction.
CODE = """
00 40d04de2 sub sp, sp, #64
04 0000a0e3 mov r0, #0
08 00008de5 str r0, [sp]
0c 6440a0e3 mov r4, #100
10 1470a0e3 mov r7, #20                   ; 1:  the sum of 100 to 1, under exclusives
14 000000ef svc #0
18 9f2f9de1 ldrex r2, [sp]
1c 042082e0 add r2, r2, r4
20 923f8de1 strex r3, r2, [sp]
24 000033e3 teq r3, #0
28 faffff1a bne 18
2c 014054e2 subs r4, r4, #1
30 f6ffff1a bne 10
34 00509de5 ldr r5, [sp]
38 530080f2 vmov.i32 q0, #0x3             ; times three, in vectors
3c 105ba2ee vdup.32 q1, r5
40 520920f2 vmul.i32 q0, q0, q1
44 105b31ee vmov.32 r5, d1[1]
48 130000fa blx 9c
4c 0860a0e3 mov r6, #8                    ; as eight hexadecimal digits
50 0c108de2 add r1, sp, #12
54 0a30a0e3 mov r3, #10
58 013041e4 strb r3, [r1], #-1
5c 0f2005e2 and r2, r5, #15
60 0a0052e3 cmp r2, #10
64 302082b2 addlt r2, r2, #48
68 572082a2 addge r2, r2, #87
6c 012041e4 strb r2, [r1], #-1
70 2552a0e1 lsr r5, r5, #4
74 016056e2 subs r6, r6, #1
78 f7ffff1a bne 5c
7c 0100a0e3 mov r0, #1                    ; write(1, sp + 4, 9)
80 04108de2 add r1, sp, #4
84 0920a0e3 mov r2, #9
88 0470a0e3 mov r7, #4
8c 000000ef svc #0
90 0000a0e3 mov r0, #0                    ; exit(0)
94 0170a0e3 mov r7, #1
98 000000ef svc #0
9c 41f23420 movw r0, #4660                ; thumb: minus 0x1234, bits reversed
a0 8542     cmp r5, r0
a2 8cbf     ite hi
a4 2d1a     subhi r5, r5, r0
a6 2d18     addls r5, r5, r0
a8 95faa5f5 rbit r5, r5
ac 7047     bx lr
"""


def elf():
    """A static executable, all of it in one segment."""
    code = b"".join(bytes.fromhex(line.split()[1]) for line in CODE.strip().splitlines())
    header = 52 + 32
    size = header + len(code)
    ident = b"\x7fELF\1\1\1".ljust(16, b"\0")
    return (ident +
            struct.pack("<HHIIIIIHHHHHH", 2, 40, 1, ADDRESS + header, 52, 0, 0x5000400, 52, 32, 1,
                        0, 0, 0) +
            struct.pack("<8I", 1, 0, ADDRESS, ADDRESS, size, size, 5, 0x1000) + code)
