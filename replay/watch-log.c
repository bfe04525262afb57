/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See watch-log.h.
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/thread.h"
#include "hw/boards.h"
#include "qapi/error.h"

#include "hw/recorder/memory-map.h"
#include "replay/access-watch.h"
#include "replay/watch-log.h"

static struct {
    FILE *file;                 /* NULL: there is no watch log */
    char *name;                 /* NULL: standard output */
    QemuMutex lock;             /* of @file: vCPUs run in parallel */
    unsigned n_vcpus;
} output;

/* Write the line of @access.  An AccessFn: several threads may call it at a time. */
static void write_line(const Access *access)
{
    uint64_t address = 0;

    memory_map_address(access->offset, &address);
    QEMU_LOCK_GUARD(&output.lock);
    if (access->stream < output.n_vcpus) {
        fprintf(output.file, "%u:", access->stream);
    } else {
        fprintf(output.file, "dma:");
    }
    fprintf(output.file, "%" PRIu64 " %s 0x%" PRIx64 ",%u", access->position, access_name(access),
            address, access->size);
    if (access->by != ACCESS_BY_DMA) {
        fprintf(output.file, " pc 0x%" PRIx64, access->pc);
    }
    fprintf(output.file, " 0x%" PRIx64, access->before);
    if (access->is_write) {
        fprintf(output.file, " -> 0x%" PRIx64, access->after);
    }
    fputc('\n', output.file);
}

/* Return "0x40000000 to 0x5fffffff": the addresses of main memory.  The caller frees the text. */
static char *memory_of_guest(void)
{
    g_autofree char *map = memory_map_describe();
    g_auto(GStrv) lines = g_strsplit(map, "\n", -1);
    g_autoptr(GString) text = g_string_new(NULL);

    for (char **line = lines; *line; line++) {
        uint64_t address, size, offset;

        if (sscanf(*line, "%" SCNx64 " %" SCNx64, &address, &size) == 2 &&
            memory_map_offset(address, &offset)) {
            g_string_append_printf(text, "%s0x%" PRIx64 " to 0x%" PRIx64, text->len ? ", " : "",
                                   address, address + size - 1);
        }
    }
    return g_string_free(g_steal_pointer(&text), false);
}

static bool check_range(const PlayerWatch *watch, uint64_t *offset, Error **errp)
{
    uint64_t last;

    if (watch->size == 0 || watch->size > ACCESS_WATCH_MAX_SIZE) {
        error_setg(errp, "%" PRIu64 " bytes cannot be watched: 1 to %u can", watch->size,
                   ACCESS_WATCH_MAX_SIZE);
        return false;
    }
    if (watch->address > UINT64_MAX - watch->size || !memory_map_offset(watch->address, offset) ||
        !memory_map_offset(watch->address + watch->size - 1, &last) ||
        last - *offset != watch->size - 1) {
        g_autofree char *where = memory_of_guest();

        error_setg(errp, "0x%" PRIx64 " cannot be watched: the guest's memory is at %s",
                   watch->address, where);
        return false;
    }
    if (!watch->reads && !watch->writes) {
        error_setg(errp, "neither reads nor writes are to be watched");
        return false;
    }
    return true;
}

bool watch_log_start(const PlayerWatch *watch, Error **errp)
{
    uint64_t offset;

    output.n_vcpus = MACHINE(qdev_get_machine())->smp.cpus;
    if (!check_range(watch, &offset, errp)) {
        return false;
    }
    output.file = watch->file ? fopen(watch->file, "wxe") : stdout;
    if (!output.file) {
        error_setg_errno(errp, errno, "cannot create %s", watch->file);
        return false;
    }
    output.name = g_strdup(watch->file);
    qemu_mutex_init(&output.lock);
    access_watch_start(offset, watch->size, watch->reads, watch->writes, write_line);
    return true;
}

void watch_log_end(void)
{
    bool good;

    if (!output.file) {
        return;
    }
    access_watch_end();
    good = fflush(output.file) == 0 && !ferror(output.file);
    if (output.name) {
        good &= fclose(output.file) == 0;
    }
    if (!good) {
        error_report("%s does not have all accesses: %s", output.name ?: "standard output",
                     strerror(errno));
    }
    output.file = NULL;
    g_clear_pointer(&output.name, g_free);
    qemu_mutex_destroy(&output.lock);
}
