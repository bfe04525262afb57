/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes JSON (RFC 8259).
 */
#include "tool/json.h"

#include <inttypes.h>

void json_init(Json *json)
{
    *json = (Json){ .text = g_string_new(NULL) };
}

void json_init_line(Json *json)
{
    json_init(json);
    json->one_line = true;
}

char *json_finish(Json *json)
{
    g_assert(json->depth == 0);
    g_string_append_c(json->text, '\n');
    return g_string_free(g_steal_pointer(&json->text), FALSE);
}

static void append_quoted(GString *text, const char *value)
{
    g_autofree char *valid = g_utf8_make_valid(value, -1);

    g_string_append_c(text, '"');
    for (const char *p = valid; *p; p++) {
        if (*p == '"' || *p == '\\') {
            g_string_append_printf(text, "\\%c", *p);
        } else if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            g_string_append_printf(text, "\\u%04x", (unsigned char)*p);
        } else {
            g_string_append_c(text, *p);
        }
    }
    g_string_append_c(text, '"');
}

static void new_line(Json *json)
{
    if (json->one_line) {
        return;
    }
    g_string_append_c(json->text, '\n');
    for (unsigned i = 0; i < json->depth; i++) {
        g_string_append(json->text, "  ");
    }
}

static void begin_value(Json *json, const char *key)
{
    if (json->after_value) {
        g_string_append(json->text, json->one_line ? ", " : ",");
    }
    if (json->depth > 0) {
        new_line(json);
    }
    if (key) {
        append_quoted(json->text, key);
        g_string_append(json->text, ": ");
    }
    json->after_value = true;
}

void json_open(Json *json, const char *key, char bracket)
{
    begin_value(json, key);
    g_string_append_c(json->text, bracket);
    json->depth++;
    json->after_value = false;
}

void json_close(Json *json, char bracket)
{
    g_assert(json->depth > 0);
    json->depth--;
    if (json->after_value) {
        new_line(json);
    }
    g_string_append_c(json->text, bracket == '{' ? '}' : ']');
    json->after_value = true;
}

void json_string(Json *json, const char *key, const char *value)
{
    if (!value) {
        json_null(json, key);
        return;
    }
    begin_value(json, key);
    append_quoted(json->text, value);
}

void json_u64(Json *json, const char *key, uint64_t value)
{
    begin_value(json, key);
    g_string_append_printf(json->text, "%" PRIu64, value);
}

void json_double(Json *json, const char *key, double value)
{
    char number[G_ASCII_DTOSTR_BUF_SIZE];

    begin_value(json, key);
    g_string_append(json->text, g_ascii_formatd(number, sizeof(number), "%.6f", value));
}

void json_bool(Json *json, const char *key, bool value)
{
    begin_value(json, key);
    g_string_append(json->text, value ? "true" : "false");
}

void json_null(Json *json, const char *key)
{
    begin_value(json, key);
    g_string_append(json->text, "null");
}

static void put_items(Json *json, const char *key, const JsonValue *value, char bracket)
{
    json_open(json, key, bracket);
    for (guint i = 0; i < value->items->len; i++) {
        json_value(json, value->kind == JSON_OBJECT ? g_ptr_array_index(value->keys, i) : NULL,
                   g_ptr_array_index(value->items, i));
    }
    json_close(json, bracket);
}

void json_value(Json *json, const char *key, const JsonValue *value)
{
    switch (value->kind) {
    case JSON_NULL:
        json_null(json, key);
        break;
    case JSON_BOOL:
        json_bool(json, key, value->boolean);
        break;
    case JSON_NUMBER:
        begin_value(json, key);
        g_string_append(json->text, value->text);
        break;
    case JSON_STRING:
        json_string(json, key, value->text);
        break;
    case JSON_ARRAY:
        put_items(json, key, value, '[');
        break;
    case JSON_OBJECT:
        put_items(json, key, value, '{');
        break;
    }
}
