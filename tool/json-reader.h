/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads JSON (RFC 8259) strictly, for the messages of QEMU over QMP.
 *
 * The reader is stricter than the RFC where a C program could be misled: no object has a member
 * twice, no string has a zero character, and nesting is bounded.
 *
 * Why not json-glib: the tool needs only glib and lz4, and json-glib would add GObject and GIO.
 * Its integers are signed, while QMP has uint64.
 */
#ifndef TOOL_JSON_READER_H
#define TOOL_JSON_READER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

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
    GPtrArray *keys;            /* char *, of an object: a key for each item */
} JsonValue;

/*
 * Parse a single value, which only white space may follow.  Return it, to be freed by the caller;
 * NULL and @error if @text is not JSON.
 */
JsonValue *json_parse(const char *text, size_t length, GError **error);
void json_value_free(JsonValue *value);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(JsonValue, json_value_free)

/*
 * Return the member @key of an object; it belongs to @value.  Return NULL (false, 0) if there is no
 * such member, it is of another kind, or @value is NULL or no object.  json_member_number() is for
 * seconds and ratios: a double does not hold all counters.
 */
const JsonValue *json_member(const JsonValue *value, const char *key);
const char *json_member_string(const JsonValue *value, const char *key);
bool json_member_bool(const JsonValue *value, const char *key);
double json_member_number(const JsonValue *value, const char *key);

/*
 * Set @number to the member @key, if that is a number of digits alone which fits.  Return false,
 * and leave @number as it was, if there is no such member.
 */
bool json_member_u64(const JsonValue *value, const char *key, uint64_t *number);

#define JSON_ERROR json_error_quark()
GQuark json_error_quark(void);

typedef enum JsonError {
    JSON_ERROR_SYNTAX,
} JsonError;

#endif
