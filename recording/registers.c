/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers in logs and as text; docs/log-format.md, "Registers", describes the
 * bytes.
 */
#include <inttypes.h>
#include <string.h>

#include "recording/log-buffer.h"
#include "recording/log-cursor.h"
#include "recording/registers.h"

/* The most differences that are shown: further ones mostly follow from the first. */
#define MOST_SHOWN 8

static const struct {
    const char *name;
    unsigned count;
} names[] = {
#define X(name, count, value) { name, count },
    ARM_REGISTERS(X)
#undef X
};

char *register_name(unsigned index)
{
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        const char *hash = strchr(names[i].name, '#');

        if (index < names[i].count) {
            return hash ? g_strdup_printf("%.*s%u%s", (int)(hash - names[i].name),
                                          names[i].name, index, hash + 1)
                        : g_strdup(names[i].name);
        }
        index -= names[i].count;
    }
    g_assert_not_reached();
}

/* The digest depends on every bit, and on the order of the registers. */
uint64_t registers_digest(const Registers *registers)
{
    uint64_t digest = 0;

    for (unsigned i = 0; i < REGISTERS_COUNT; i++) {
        digest = (digest ^ registers->value[i]) * UINT64_C(0x9e3779b97f4a7c15);
        digest ^= digest >> 32;
    }
    return digest;
}

bool registers_equal(const Registers *a, const Registers *b)
{
    return memcmp(a->value, b->value, sizeof(a->value)) == 0;
}

void registers_log(LogStream *stream, Position position, Registers *logged,
                   const Registers *now)
{
    g_autoptr(LogBuffer) changes = log_buffer_new();
    uint64_t n_changed = 0;
    unsigned next = 0;

    for (unsigned i = 0; i < REGISTERS_COUNT; i++) {
        if (now->value[i] != logged->value[i]) {
            log_put_u64(changes, i - next);
            log_put_u64(changes, now->value[i] ^ logged->value[i]);
            next = i + 1;
            n_changed++;
        }
    }
    *logged = *now;
    log_event_bytes(stream, LOG_EVENT_REGISTERS, position, n_changed, changes->data,
                    changes->used);
}

const char *registers_apply(Registers *logged, const void *bytes, size_t n_bytes)
{
    uint64_t index = 0;
    LogCursor cursor;

    log_cursor_init(&cursor, bytes, n_bytes);
    while (log_cursor_ok(&cursor) && !log_cursor_at_end(&cursor)) {
        uint64_t skipped = log_get_u64(&cursor);
        uint64_t change = log_get_u64(&cursor);

        if (skipped >= REGISTERS_COUNT - index) {
            return "a register that the vCPU does not have";
        }
        index += skipped;
        logged->value[index++] ^= change;
    }
    return cursor.error;
}

char *registers_difference(const Registers *expected, const Registers *seen)
{
    g_autoptr(GString) text = g_string_new(NULL);
    unsigned n = 0;

    for (unsigned i = 0; i < REGISTERS_COUNT; i++) {
        if (expected->value[i] != seen->value[i] && n++ < MOST_SHOWN) {
            g_autofree char *name = register_name(i);

            g_string_append_printf(text, "%s%s expected 0x%" PRIx64 ", seen 0x%" PRIx64,
                                   n > 1 ? "; " : "", name, expected->value[i], seen->value[i]);
        }
    }
    if (n > MOST_SHOWN) {
        g_string_append_printf(text, "; %u more differ", n - MOST_SHOWN);
    }
    return n ? g_strdup(text->str) : NULL;
}
