/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Registers: names, differences, and how they are logged. */
#include <string.h>

#include "recording/log-buffer.h"
#include "recording/registers.h"
#include "tests/recording/log-test.h"

static void check_names(const char *arch, const char *const *known)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    const RegisterSet *set = register_set(arch);

    for (unsigned i = 0; i < set->count; i++) {
        char *name = register_name(set, i);

        g_assert_null(strchr(name, '#'));
        g_assert_true(g_hash_table_add(seen, name));
    }
    for (const char *const *name = known; *name; name++) {
        g_assert_true(g_hash_table_contains(seen, *name));
    }
}

static void test_names(void)
{
    static const char *const arm[] = { "x0", "x31", "pc", "elr_el1", "v31.high", NULL };
    static const char *const x86[] = { "rax", "r15", "segment5.base", "cr4", "st7.high", NULL };

    check_names("aarch64", arm);
    check_names("x86_64", x86);
    g_assert_null(register_set("riscv64"));
    g_assert_null(register_set(NULL));
}

/* A trace tells whose registers it has; a damaged file is refused. */
static void test_file(void)
{
    g_autofree char *directory = test_directory();
    g_autofree char *path = g_build_filename(directory, "arch", NULL);
    g_autoptr(GError) error = NULL;

    g_assert_true(register_set_save(register_set("x86_64"), directory, &error));
    g_assert_true(register_set_load(directory, &error) == register_set("x86_64"));
    g_assert_true(g_file_set_contents(path, "x86_65\n", -1, NULL));
    g_assert_null(register_set_load(directory, &error));
    g_assert_nonnull(error);
    remove_directory(g_steal_pointer(&directory));
}

static void test_difference(void)
{
    const RegisterSet *set = register_set("aarch64");
    Registers a = { 0 }, b = { 0 };
    g_autofree char *text = NULL, *long_text = NULL;

    g_assert_null(registers_difference(set, &a, &b));
    g_assert_cmpuint(registers_digest(set, &a), ==, registers_digest(set, &b));
    a.value[3] = 5;
    b.value[31] = 0x10;
    g_assert_cmpuint(registers_digest(set, &a), !=, registers_digest(set, &b));
    text = registers_difference(set, &a, &b);
    g_assert_cmpstr(text, ==, "x3 expected 0x5, seen 0x0; x31 expected 0x0, seen 0x10");
    memset(&b, 0xff, sizeof(b));
    long_text = registers_difference(set, &a, &b);
    g_assert_nonnull(strstr(long_text, " more differ"));
}

/* Registers are read as they were logged, however many change. */
static void test_log(void)
{
    enum { ROUNDS = 2000 };
    const RegisterSet *set = register_set("x86_64");
    g_autofree char *directory = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(LogWriter) writer = NULL;
    g_autoptr(LogReader) reader = NULL;
    Registers now = { 0 }, logged = { 0 }, read = { 0 };
    uint64_t digests[ROUNDS];
    LogEvent event;

    directory = test_directory();
    writer = log_writer_new(directory, 1, ORDER_SET_FDR, &error);
    g_assert_no_error(error);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (int n = g_test_rand_int_range(0, round % 10 ? 3 : 2 * (int)set->count); n > 0; n--) {
            now.value[g_test_rand_int_range(0, set->count)] =
                (uint64_t)g_test_rand_int() << g_test_rand_int_range(0, 33);
        }
        digests[round] = registers_digest(set, &now);
        registers_log(log_writer_stream(writer, 0), round, &logged, &now);
        g_assert_cmpmem(&logged, sizeof(logged), &now, sizeof(now));
        log_stream_boundary(log_writer_stream(writer, 0));
    }
    g_assert_true(log_writer_finish(writer, &error));

    reader = log_reader_open(directory, 1, 0, LOG_ORDER, &error);
    for (unsigned round = 0; round < ROUNDS; round++) {
        g_assert_cmpint(log_reader_next(reader, &event, &error), ==, LOG_READER_EVENT);
        g_assert_cmpuint(event.kind, ==, LOG_EVENT_REGISTERS);
        g_assert_null(registers_apply(set, &read, event.bytes, event.n_bytes));
        g_assert_cmpuint(registers_digest(set, &read), ==, digests[round]);
    }
    remove_directory(g_steal_pointer(&directory));
}

static void expect_refused(const uint64_t *numbers, size_t n, size_t cut, const char *why)
{
    g_autoptr(LogBuffer) bytes = log_buffer_new();
    Registers registers = { 0 };
    const char *wrong;

    for (size_t i = 0; i < n; i++) {
        log_put_u64(bytes, numbers[i]);
    }
    wrong = registers_apply(register_set("aarch64"), &registers, bytes->data, bytes->used - cut);
    g_assert_nonnull(wrong);
    g_assert_nonnull(strstr(wrong, why));
}

static void test_hostile(void)
{
    expect_refused((uint64_t[]) { ARM_REGISTERS_COUNT, 1 }, 2, 0, "does not have");
    expect_refused((uint64_t[]) { ARM_REGISTERS_COUNT - 1, 1, 0, 1 }, 4, 0, "does not have");
    expect_refused((uint64_t[]) { 1, 1, UINT64_MAX, 1 }, 4, 0, "does not have");
    expect_refused((uint64_t[]) { 1, 300 }, 2, 1, "");
    expect_refused((uint64_t[]) { 1, 1, 1 }, 3, 0, "");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/registers/names", test_names);
    g_test_add_func("/registers/file", test_file);
    g_test_add_func("/registers/difference", test_difference);
    g_test_add_func("/registers/log", test_log);
    g_test_add_func("/registers/hostile", test_hostile);
    return g_test_run();
}
