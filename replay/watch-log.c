/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See watch-log.h.
 */
#include "qemu/osdep.h"
#include "qemu/error-report.h"
#include "qemu/thread.h"
#include "hw/boards.h"
#include "qapi/error.h"

#include "hw/recorder/machine-state.h"
#include "replay/access-watch.h"
#include "replay/watch-log.h"

static struct {
    FILE *file;                 /* NULL: there is no watch log */
    char *name;                 /* NULL: standard output */
    QemuMutex lock;             /* of @file: vCPUs run in parallel */
    uint64_t ram_address;       /* of main memory, guest-physical */
    unsigned n_vcpus;
} output;

/* Write the line of @access.  An AccessFn: several threads may call it at a time. */
static void write_line(const Access *access)
{
    QEMU_LOCK_GUARD(&output.lock);
    if (access->stream < output.n_vcpus) {
        fprintf(output.file, "%u:", access->stream);
    } else {
        fprintf(output.file, "dma:");
    }
    fprintf(output.file, "%" PRIu64 " %s 0x%" PRIx64 ",%u", access->position, access_name(access),
            output.ram_address + access->offset, access->size);
    if (access->by != ACCESS_BY_DMA) {
        fprintf(output.file, " pc 0x%" PRIx64, access->pc);
    }
    fprintf(output.file, " 0x%" PRIx64, access->before);
    if (access->is_write) {
        fprintf(output.file, " -> 0x%" PRIx64, access->after);
    }
    fputc('\n', output.file);
}

static bool check_range(const PlayerWatch *watch, Error **errp)
{
    uint64_t start = output.ram_address;
    uint64_t size = MACHINE(qdev_get_machine())->ram_size;

    if (watch->size == 0 || watch->size > ACCESS_WATCH_MAX_SIZE) {
        error_setg(errp, "%" PRIu64 " bytes cannot be watched: 1 to %u can", watch->size,
                   ACCESS_WATCH_MAX_SIZE);
        return false;
    }
    if (watch->address < start || watch->address - start >= size ||
        watch->size > size - (watch->address - start)) {
        error_setg(errp, "0x%" PRIx64 " cannot be watched: the guest's memory is at 0x%" PRIx64
                   " to 0x%" PRIx64, watch->address, start, start + size - 1);
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
    output.ram_address = machine_state_ram_address();
    output.n_vcpus = MACHINE(qdev_get_machine())->smp.cpus;
    if (!check_range(watch, errp)) {
        return false;
    }
    output.file = watch->file ? fopen(watch->file, "wxe") : stdout;
    if (!output.file) {
        error_setg_errno(errp, errno, "cannot create %s", watch->file);
        return false;
    }
    output.name = g_strdup(watch->file);
    qemu_mutex_init(&output.lock);
    access_watch_start(watch->address - output.ram_address, watch->size, watch->reads,
                       watch->writes, write_line);
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
