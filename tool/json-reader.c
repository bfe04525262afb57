/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads JSON by recursive descent, with a function for each rule of RFC 8259.
 *
 * A rule that the text breaks returns false, and leaves @at at that byte, which the error names.
 */
#include "tool/json-reader.h"

#include <string.h>

G_DEFINE_QUARK(json-error-quark, json_error)

typedef struct Parser {
    const char *at;
    const char *end;
    unsigned depth;
} Parser;

static bool parse_value(Parser *parser, JsonValue *value);

void json_value_free(JsonValue *value)
{
    if (!value) {
        return;
    }
    g_free(value->text);
    g_clear_pointer(&value->items, g_ptr_array_unref);
    g_clear_pointer(&value->keys, g_ptr_array_unref);
    g_free(value);
}

/* Return the next character; at the end 0, which matches no rule. */
static char peek(const Parser *parser)
{
    return parser->at < parser->end ? *parser->at : 0;
}

static bool take(Parser *parser, char c)
{
    if (parser->at == parser->end || *parser->at != c) {
        return false;
    }
    parser->at++;
    return true;
}

static bool take_word(Parser *parser, const char *word)
{
    for (; *word; word++) {
        if (!take(parser, *word)) {
            return false;
        }
    }
    return true;
}

static void skip_space(Parser *parser)
{
    while (parser->at < parser->end && strchr(" \t\r\n", *parser->at) && *parser->at) {
        parser->at++;
    }
}

static bool take_digits(Parser *parser)
{
    const char *start = parser->at;

    while (g_ascii_isdigit(peek(parser))) {
        parser->at++;
    }
    return parser->at > start;
}

static bool parse_number(Parser *parser, JsonValue *value)
{
    const char *start = parser->at;

    take(parser, '-');
    if (!take(parser, '0') && !take_digits(parser)) {
        return false;
    }
    if (take(parser, '.') && !take_digits(parser)) {
        return false;
    }
    if (take(parser, 'e') || take(parser, 'E')) {
        if (!take(parser, '+')) {
            take(parser, '-');
        }
        if (!take_digits(parser)) {
            return false;
        }
    }
    value->kind = JSON_NUMBER;
    value->text = g_strndup(start, parser->at - start);
    return true;
}

static bool parse_hex4(Parser *parser, gunichar *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = g_ascii_xdigit_value(peek(parser));

        if (digit < 0) {
            return false;
        }
        *unit = *unit << 4 | digit;
        parser->at++;
    }
    return true;
}

/* Parse what follows "\u".  Escapes are UTF-16, so a character may need a second one. */
static bool parse_unicode(Parser *parser, GString *text)
{
    gunichar c, low;

    if (!parse_hex4(parser, &c)) {
        return false;
    }
    if (c >= 0xd800 && c < 0xdc00) {
        if (!take_word(parser, "\\u") || !parse_hex4(parser, &low) ||
            low < 0xdc00 || low > 0xdfff) {
            return false;
        }
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c == 0 || !g_unichar_validate(c)) {
        return false;
    }
    g_string_append_unichar(text, c);
    return true;
}

static bool parse_escape(Parser *parser, GString *text)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *which;

    if (take(parser, 'u')) {
        return parse_unicode(parser, text);
    }
    which = peek(parser) ? strchr(from, peek(parser)) : NULL;
    if (!which) {
        return false;
    }
    g_string_append_c(text, to[which - from]);
    parser->at++;
    return true;
}

static bool parse_string(Parser *parser, char **string)
{
    g_autoptr(GString) text = g_string_new(NULL);

    if (!take(parser, '"')) {
        return false;
    }
    while (!take(parser, '"')) {
        if (take(parser, '\\')) {
            if (!parse_escape(parser, text)) {
                return false;
            }
        } else if (parser->at == parser->end || (unsigned char)*parser->at < 0x20) {
            return false;
        } else {
            g_string_append_c(text, *parser->at++);
        }
    }
    *string = g_strdup(text->str);
    return true;
}

static bool parse_member(Parser *parser, JsonValue *object)
{
    g_autofree char *key = NULL;

    if (!parse_string(parser, &key) ||
        g_ptr_array_find_with_equal_func(object->keys, key, g_str_equal, NULL)) {
        return false;
    }
    g_ptr_array_add(object->keys, g_steal_pointer(&key));
    skip_space(parser);
    return take(parser, ':');
}

/* Parse an array, or an object, in which a key comes before each item. */
static bool parse_items(Parser *parser, JsonValue *value)
{
    char closing = value->kind == JSON_OBJECT ? '}' : ']';

    parser->at++;
    value->items = g_ptr_array_new_with_free_func((GDestroyNotify)json_value_free);
    value->keys = g_ptr_array_new_with_free_func(g_free);
    skip_space(parser);
    if (take(parser, closing)) {
        return true;
    }
    do {
        JsonValue *item;

        skip_space(parser);
        if (value->kind == JSON_OBJECT && !parse_member(parser, value)) {
            return false;
        }
        item = g_new0(JsonValue, 1);
        g_ptr_array_add(value->items, item);
        if (!parse_value(parser, item)) {
            return false;
        }
    } while (take(parser, ','));
    return take(parser, closing);
}

static bool parse_value(Parser *parser, JsonValue *value)
{
    bool ok;

    skip_space(parser);
    if (parser->depth == JSON_MAX_DEPTH) {
        return false;
    }
    parser->depth++;
    switch (peek(parser)) {
    case '{':
    case '[':
        value->kind = peek(parser) == '{' ? JSON_OBJECT : JSON_ARRAY;
        ok = parse_items(parser, value);
        break;
    case '"':
        value->kind = JSON_STRING;
        ok = parse_string(parser, &value->text);
        break;
    case 't':
    case 'f':
        value->kind = JSON_BOOL;
        value->boolean = peek(parser) == 't';
        ok = take_word(parser, value->boolean ? "true" : "false");
        break;
    case 'n':
        value->kind = JSON_NULL;
        ok = take_word(parser, "null");
        break;
    default:
        ok = parse_number(parser, value);
        break;
    }
    parser->depth--;
    skip_space(parser);
    return ok;
}

JsonValue *json_parse(const char *text, size_t length, GError **error)
{
    Parser parser = { .at = text, .end = text + length };
    g_autoptr(JsonValue) value = g_new0(JsonValue, 1);
    const char *bad;

    if (!g_utf8_validate(text, length, &bad)) {
        g_set_error(error, JSON_ERROR, JSON_ERROR_SYNTAX,
                    "not JSON: byte %zu is not UTF-8", (size_t)(bad - text));
        return NULL;
    }
    if (!parse_value(&parser, value) || parser.at != parser.end) {
        g_set_error(error, JSON_ERROR, JSON_ERROR_SYNTAX,
                    "not JSON at byte %zu", (size_t)(parser.at - text));
        return NULL;
    }
    return g_steal_pointer(&value);
}

const JsonValue *json_member(const JsonValue *value, const char *key)
{
    guint index;

    if (!value || value->kind != JSON_OBJECT ||
        !g_ptr_array_find_with_equal_func(value->keys, key, g_str_equal, &index)) {
        return NULL;
    }
    return g_ptr_array_index(value->items, index);
}

const char *json_member_string(const JsonValue *value, const char *key)
{
    const JsonValue *member = json_member(value, key);

    return member && member->kind == JSON_STRING ? member->text : NULL;
}

bool json_member_bool(const JsonValue *value, const char *key)
{
    const JsonValue *member = json_member(value, key);

    return member && member->kind == JSON_BOOL && member->boolean;
}

double json_member_number(const JsonValue *value, const char *key)
{
    const JsonValue *member = json_member(value, key);

    return member && member->kind == JSON_NUMBER ? g_ascii_strtod(member->text, NULL) : 0;
}

bool json_member_u64(const JsonValue *value, const char *key, uint64_t *number)
{
    const JsonValue *member = json_member(value, key);
    guint64 parsed;

    /* A sign, a point or an exponent is refused: QEMU writes none in an integer. */
    if (!member || member->kind != JSON_NUMBER ||
        !g_ascii_string_to_unsigned(member->text, 10, 0, UINT64_MAX, &parsed, NULL)) {
        return false;
    }
    *number = parsed;
    return true;
}
