/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes JSON (RFC 8259), value by value; commas, quotes and indentation are added.
 *
 * @key names the member of an object; it is NULL for the elements of an array,
 * and for the outermost value.
 */
#ifndef TOOL_JSON_H
#define TOOL_JSON_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "tool/json-reader.h"

typedef struct Json {
    GString *text;
    unsigned depth;
    bool after_value;           /* a comma must come before the next value */
    bool one_line;              /* no newline inside the text */
} Json;

/* Begin a text, of several lines, or of one, for programs that read line by line. */
void json_init(Json *json);
void json_init_line(Json *json);
/* Return the text, with a newline at its end, to be freed by the caller.  @json is cleared. */
char *json_finish(Json *json);

/* @bracket is '{' or '['. */
void json_open(Json *json, const char *key, char bracket);
void json_close(Json *json, char bracket);

/* NULL becomes null; bytes that are not UTF-8 become U+FFFD. */
void json_string(Json *json, const char *key, const char *value);
void json_u64(Json *json, const char *key, uint64_t value);
void json_double(Json *json, const char *key, double value);
void json_bool(Json *json, const char *key, bool value);
void json_null(Json *json, const char *key);
/* Write a value that was read; a number keeps its digits. */
void json_value(Json *json, const char *key, const JsonValue *value);

#endif
