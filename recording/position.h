/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Positions, and points in a recording.
 *
 * A step is the atom of ordering on one vCPU (docs/glossary.md); a
 * position is how many steps a vCPU has ended since recording started.  There
 * is no global clock, so a point in a recording is one position per vCPU.
 *
 * Users write points down and come back to them, so a point has one text form,
 * the same in every command and message: `0:1500,1:0,2:73`.
 */
#ifndef RECORDING_POSITION_H
#define RECORDING_POSITION_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef uint64_t Position;

/* The most vCPUs that one recording can have.  Bounds what readers allocate. */
#define RECORDER_MAX_VCPUS 256

typedef struct Point {
    unsigned n_vcpus;
    Position at[];
} Point;

/* Return a point with every vCPU at 0: the start of a recording. */
Point *point_new(unsigned n_vcpus);
void point_free(Point *point);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Point, point_free)

/*
 * Convert a point to text, and back.  The caller frees the result.  A text names
 * all vCPUs of the recording, once each, in order; otherwise point_parse()
 * returns NULL and sets @error.
 */
char *point_format(const Point *point);
Point *point_parse(const char *text, unsigned n_vcpus, GError **error);

/* Return true if @a lies before @b, or at @b, on every vCPU. */
bool point_includes(const Point *b, const Point *a);

#define POINT_ERROR point_error_quark()
GQuark point_error_quark(void);

typedef enum PointError {
    POINT_ERROR_SYNTAX,
    POINT_ERROR_VCPUS,
} PointError;

#endif
