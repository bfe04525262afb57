/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers in logs and as text; docs/log-format.md, "Registers", describes the
 * bytes.
 */
#include <inttypes.h>
#include <string.h>

#include "base/summed-text.h"
#include "recording/log-buffer.h"
#include "recording/log-cursor.h"
#include "recording/log-reader.h"
#include "recording/manifest.h"
#include "recording/registers.h"

/* The most differences that are shown: further ones mostly follow from the first. */
#define MOST_SHOWN 8

#define ARCH_FILE "arch"
#define MOST_ARCH_BYTES 100

/* A register, or @count of them: '#' in the name stands for the index. */
struct RegisterName {
    const char *name;
    unsigned count;
};

#define X(name, count, value) { name, count },
static const struct RegisterName arm_names[] = { ARM_REGISTERS(X) };
static const struct RegisterName x86_names[] = { X86_REGISTERS(X) };
#undef X

const RegisterSet arm_register_set = { "aarch64", ARM_REGISTERS_COUNT, arm_names };
const RegisterSet x86_register_set = { "x86_64", X86_REGISTERS_COUNT, x86_names };

static const RegisterSet *const sets[] = { &arm_register_set, &x86_register_set };

const RegisterSet *register_set(const char *arch)
{
    for (size_t i = 0; i < G_N_ELEMENTS(sets); i++) {
        if (g_strcmp0(arch, sets[i]->arch) == 0) {
            return sets[i];
        }
    }
    return NULL;
}

bool register_set_save(const RegisterSet *set, const char *directory, GError **error)
{
    g_autofree char *path = g_build_filename(directory, ARCH_FILE, NULL);
    g_autoptr(GString) text = g_string_new(set->arch);

    g_string_append_c(text, '\n');
    return summed_text_create(path, text, false, error);
}

const RegisterSet *register_set_load(const char *directory, GError **error)
{
    g_autofree char *path = g_build_filename(directory, ARCH_FILE, NULL);
    g_autoptr(GString) text = NULL;
    const RegisterSet *set;

    if (!g_file_test(path, G_FILE_TEST_EXISTS)) {
        g_autoptr(Manifest) manifest = manifest_load(directory, error);

        return manifest ? register_set(manifest->arch) : NULL;
    }
    text = summed_text_read(path, MOST_ARCH_BYTES, error);
    if (!text) {
        return NULL;
    }
    set = register_set(g_strchomp(text->str));
    if (!set) {
        g_set_error(error, LOG_READER_ERROR, LOG_READER_ERROR_DAMAGED,
                    "%s: an architecture that reprise does not know", path);
    }
    return set;
}

char *register_name(const RegisterSet *set, unsigned index)
{
    const struct RegisterName *at = set->names;
    const char *hash;

    g_assert(index < set->count);
    for (; index >= at->count; at++) {
        index -= at->count;
    }
    hash = strchr(at->name, '#');
    return hash ? g_strdup_printf("%.*s%u%s", (int)(hash - at->name), at->name, index, hash + 1)
                : g_strdup(at->name);
}

/* The digest depends on every bit, and on the order of the registers. */
uint64_t registers_digest(const RegisterSet *set, const Registers *registers)
{
    uint64_t digest = 0;

    for (unsigned i = 0; i < set->count; i++) {
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

    for (unsigned i = 0; i < REGISTERS_MOST; i++) {
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

const char *registers_apply(const RegisterSet *set, Registers *logged, const void *bytes,
                            size_t n_bytes)
{
    uint64_t index = 0;
    LogCursor cursor;

    log_cursor_init(&cursor, bytes, n_bytes);
    while (log_cursor_ok(&cursor) && !log_cursor_at_end(&cursor)) {
        uint64_t skipped = log_get_u64(&cursor);
        uint64_t change = log_get_u64(&cursor);

        if (skipped >= set->count - index) {
            return "a register that the vCPU does not have";
        }
        index += skipped;
        logged->value[index++] ^= change;
    }
    return cursor.error;
}

char *registers_difference(const RegisterSet *set, const Registers *expected,
                           const Registers *seen)
{
    g_autoptr(GString) text = g_string_new(NULL);
    unsigned n = 0;

    for (unsigned i = 0; i < set->count; i++) {
        if (expected->value[i] != seen->value[i] && n++ < MOST_SHOWN) {
            g_autofree char *name = register_name(set, i);

            g_string_append_printf(text, "%s%s expected 0x%" PRIx64 ", seen 0x%" PRIx64,
                                   n > 1 ? "; " : "", name, expected->value[i], seen->value[i]);
        }
    }
    if (n > MOST_SHOWN) {
        g_string_append_printf(text, "; %u more differ", n - MOST_SHOWN);
    }
    return n ? g_strdup(text->str) : NULL;
}
