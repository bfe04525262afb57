/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The JSON reader: messages of QEMU, every rule of the grammar, text that is refused, and damaged
 * text.
 */
#include "tool/json-reader.h"
#include "tool/json.h"

#include <inttypes.h>
#include <string.h>

static JsonValue *parse(const char *text, GError **error)
{
    /* In a heap block of exactly this size, so that a sanitizer sees a read beyond it. */
    size_t length = strlen(text);
    g_autofree char *copy = g_memdup2(text, length);

    return json_parse(copy ? copy : "", length, error);
}

static void test_event(void)
{
    g_autoptr(JsonValue) value = parse(
        "{\"timestamp\": {\"seconds\": 1267020223, \"microseconds\": 435656}, "
        "\"event\": \"RECORDER_STOPPED\", \"data\": {\"directory\": \"/tmp/a \\\"b\\\"\", "
        "\"complete\": true, \"reason\": \"\\u00fcber\"}}\r\n", NULL);
    const JsonValue *data = json_member(value, "data");

    g_assert_cmpstr(json_member_string(value, "event"), ==, "RECORDER_STOPPED");
    g_assert_cmpstr(json_member_string(data, "directory"), ==, "/tmp/a \"b\"");
    g_assert_cmpstr(json_member_string(data, "reason"), ==, "\303\274ber");
    g_assert_true(json_member_bool(data, "complete"));
    g_assert_cmpstr(json_member(json_member(value, "timestamp"), "seconds")->text, ==,
                    "1267020223");
}

/* A member that does not exist, or is of another kind, is NULL or false. */
static void test_members(void)
{
    g_autoptr(JsonValue) value = parse("{\"s\": \"x\", \"b\": false, \"a\": [1]}", NULL);

    g_assert_null(json_member(value, "S"));
    g_assert_null(json_member_string(value, "b"));
    g_assert_false(json_member_bool(value, "b"));
    g_assert_false(json_member_bool(value, "s"));
    g_assert_null(json_member(json_member(value, "a"), "x"));
    g_assert_null(json_member_string(json_member(value, "nothing"), "x"));
    g_assert_null(json_member(NULL, "x"));
}

static void test_numbers(void)
{
    g_autoptr(JsonValue) value = parse("{\"n\": -1.5e3, \"s\": \"7\"}", NULL);

    g_assert_cmpfloat(json_member_number(value, "n"), ==, -1500);
    g_assert_cmpfloat(json_member_number(value, "s"), ==, 0);
    g_assert_cmpfloat(json_member_number(value, "x"), ==, 0);
}

/* A counter keeps all its bits, and one that does not exist differs from 0. */
static void test_u64(void)
{
    static const char *const not[] = { "\"7\"", "null", "[7]", "-1", "-0", "7.0", "7e0", "0.5",
                                       "18446744073709551616", "true" };
    static const uint64_t good[] = { 0, 7, (1ull << 53) + 1, UINT64_MAX };
    uint64_t number;

    for (unsigned i = 0; i < G_N_ELEMENTS(good); i++) {
        g_autofree char *text = g_strdup_printf("{\"n\": %" PRIu64 "}", good[i]);
        g_autoptr(JsonValue) value = parse(text, NULL);

        number = 99;
        g_assert_true(json_member_u64(value, "n", &number));
        g_assert_cmpuint(number, ==, good[i]);
    }
    number = 99;
    for (unsigned i = 0; i < G_N_ELEMENTS(not); i++) {
        g_autofree char *text = g_strdup_printf("{\"n\": %s}", not[i]);
        g_autoptr(JsonValue) value = parse(text, NULL);

        g_test_message("%s", text);
        g_assert_nonnull(value);
        g_assert_false(json_member_u64(value, "n", &number));
        g_assert_false(json_member_u64(value, "x", &number));
    }
    g_assert_false(json_member_u64(NULL, "n", &number));
    g_assert_cmpuint(number, ==, 99);
}

/* A value that was read is written without changes. */
static void test_written(void)
{
    static const char text[] =
        "{\n"
        "  \"null\": null,\n"
        "  \"n\": 18446744073709551615,\n"
        "  \"s\": \"a \\\"b\\\"\",\n"
        "  \"list\": [\n"
        "    true,\n"
        "    [],\n"
        "    {},\n"
        "    {\n"
        "      \"x\": -0.5\n"
        "    }\n"
        "  ]\n"
        "}\n";
    g_autoptr(JsonValue) value = parse(text, NULL);
    g_autofree char *written = NULL;
    Json json;

    json_init(&json);
    json_value(&json, NULL, value);
    written = json_finish(&json);
    g_assert_cmpstr(written, ==, text);
}

static void test_good(void)
{
    static const struct {
        const char *text;
        JsonKind kind;
        const char *string;
    } good[] = {
        { "null", JSON_NULL, NULL },
        { " true\t", JSON_BOOL, NULL },
        { "\r\nfalse", JSON_BOOL, NULL },
        { "0", JSON_NUMBER, "0" },
        { "-0.50e+10", JSON_NUMBER, "-0.50e+10" },
        { "18446744073709551615", JSON_NUMBER, "18446744073709551615" },
        { "1E-2", JSON_NUMBER, "1E-2" },
        { "\"\"", JSON_STRING, "" },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", JSON_STRING, "\"\\/\b\f\n\r\t" },
        { "\"\\u0041\\u00e9\\uD83D\\ude00\"", JSON_STRING, "A\303\251\360\237\230\200" },
        { "\"\177\303\251\"", JSON_STRING, "\177\303\251" },
        { "[]", JSON_ARRAY, NULL },
        { "[ ]", JSON_ARRAY, NULL },
        { "[1,[2 , {}],\"x\" ]", JSON_ARRAY, NULL },
        { "{ }", JSON_OBJECT, NULL },
        { "{\"\" : {\"\":null}}", JSON_OBJECT, NULL },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(good); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(JsonValue) value = NULL;

        g_test_message("%s", good[i].text);
        value = parse(good[i].text, &error);
        g_assert_no_error(error);
        g_assert_cmpint(value->kind, ==, good[i].kind);
        g_assert_cmpstr(value->text, ==, good[i].string);
    }
}

static void test_bad(void)
{
    static const char *const bad[] = {
        "", " ", "nul", "nulll", "True", "null null", "1 2", "+1", "-", "01", "1.", ".5",
        "1e", "1e+", "0x10", "--1", "NaN", "\"", "\"x", "\"\\", "\"\\x\"", "\"\\u12\"",
        "\"\\u12g4\"", "\"\\u0000\"", "\"\\ud800\"", "\"\\ud800x\"", "\"\\ud800\\u0041\"",
        "\"\\udc00\"", "\"\n\"", "\"\1\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"",
        "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1}", "{", "}", "{\"a\"", "{\"a\":",
        "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{\"a\" 1}", "{a:1}", "{1:1}", "{\"a\":1 \"b\":2}",
        "{\"a\":1]", "{\"a\":1,\"a\":2}", "'x'", "// x\n1", "\xef\xbb\xbf" "1",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;

        g_test_message("%u", i);
        g_assert_null(parse(bad[i], &error));
        g_assert_error(error, JSON_ERROR, JSON_ERROR_SYNTAX);
        g_assert_null(strchr(error->message, '\n'));
    }
    g_assert_null(json_parse("1\0", 2, NULL));
    g_assert_null(json_parse("\"\0\"", 3, NULL));
}

static void test_depth(void)
{
    for (int depth = 1; depth < 100000; depth *= 2) {
        g_autofree char *text = g_strnfill(2 * depth, '[');
        g_autoptr(JsonValue) value = NULL;

        memset(text + depth, ']', depth);
        value = parse(text, NULL);
        g_assert_cmpint(value != NULL, ==, depth <= JSON_MAX_DEPTH);
    }
}

/* Damaged text is refused or read; the reader does not crash. */
static void test_damaged(void)
{
    static const char whole[] =
        "{\"event\": \"X\\u00e9\\ud83d\\ude00\", \"data\": {\"a\": [1, -2.5e3, true, null]}}";

    for (int i = 0; i < 20000; i++) {
        g_autofree char *text = g_strdup(whole);
        g_autoptr(JsonValue) value = NULL;

        for (int n = g_test_rand_int_range(0, 4); n >= 0; n--) {
            text[g_test_rand_int_range(0, sizeof(whole) - 1)] =
                "{}[]\",:\\u0\1\377e-"[g_test_rand_int_range(0, 15)];
        }
        text[g_test_rand_int_range(0, sizeof(whole))] = 0;
        value = parse(text, NULL);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/json-reader/event", test_event);
    g_test_add_func("/json-reader/members", test_members);
    g_test_add_func("/json-reader/numbers", test_numbers);
    g_test_add_func("/json-reader/u64", test_u64);
    g_test_add_func("/json-reader/written", test_written);
    g_test_add_func("/json-reader/good", test_good);
    g_test_add_func("/json-reader/bad", test_bad);
    g_test_add_func("/json-reader/depth", test_depth);
    g_test_add_func("/json-reader/damaged", test_damaged);
    return g_test_run();
}
