/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads JSON (RFC 8259), strictly: for what QEMU answers over QMP.
 *
 * Stricter than the RFC where a C program would be fooled: no member twice, no
 * zero character in a string, bounded nesting.
 */
#ifndef TOOL_JSON_READER_H
#define TOOL_JSON_READER_H

#include <glib.h>
#include <stdbool.h>

#define JSON_MAX_DEPTH 64

typedef enum JsonKind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
} JsonKind;

typedef struct JsonValue {
    JsonKind kind;
    bool boolean;
    char *text;                 /* of a string; of a number, as it was written */
    GPtrArray *items;           /* JsonValue *, of an array or an object */
    GPtrArray *keys;            /* char *, of an object: one for each item */
} JsonValue;

/* One value and nothing after it, but for white space. */
JsonValue *json_parse(const char *text, size_t length, GError **error);
void json_value_free(JsonValue *value);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(JsonValue, json_value_free)

/*
 * The member of an object: NULL (false) if it is not there, or is of another
 * kind, or @value is NULL or no object.
 */
const JsonValue *json_member(const JsonValue *value, const char *key);
const char *json_member_string(const JsonValue *value, const char *key);
bool json_member_bool(const JsonValue *value, const char *key);
/* 0 instead of NULL. */
double json_member_number(const JsonValue *value, const char *key);

#define JSON_ERROR json_error_quark()
GQuark json_error_quark(void);

typedef enum JsonError {
    JSON_ERROR_SYNTAX,
} JsonError;

#endif
