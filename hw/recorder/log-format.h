/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What writer (hw/recorder) and reader (replay) of a log must agree on.
 * docs/log-format.md describes the bytes.
 */
#ifndef RECORDER_LOG_FORMAT_H
#define RECORDER_LOG_FORMAT_H

/*
 * Bump it when a reader of the former version would misread what is written
 * now: another integer coding, another meaning of a field.  Additions that a
 * former reader can skip, or must refuse by name, are feature bits instead.
 */
#define LOG_VERSION 1

/*
 * Integers: 7 bits a byte, least significant group first, the top bit set on
 * all bytes but the last; signed ones zigzagged first, so that small
 * differences of either sign stay small.
 */
#define LOG_VARINT_MAX_BYTES 10
#define LOG_VARINT_MORE      0x80
#define LOG_VARINT_BITS      7

#endif
