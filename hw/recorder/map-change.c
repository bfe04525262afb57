/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See map-change.h.
 *
 * Other vCPUs find the new map as soon as they miss in their TLBs.  So no other vCPU may be in the
 * middle of its work when the change begins, nor have come to a boundary when it is logged, which
 * is done while no vCPU is in cpu_exec().  Who was in no step, and passed no boundary, has made no
 * access with the new map.  In practice the others are halted.  The change comes after all steps
 * that they have made, and before all that they will make.
 */
#include "qemu/osdep.h"
#include "exec/cpu-common.h"

#include "hw/recorder/access.h"
#include "hw/recorder/map-change.h"
#include "hw/recorder/memory-map.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "hw/recorder/vcpu.h"
#include "protocol/sphere.h"
#include "recording/log-writer.h"

/* The change under way.  BQL; after @by was set, the thread of @by. */
static struct {
    CPUState *by;               /* NULL: none; atomic */
    char *map;
    uint64_t safepoints[SPHERE_MAX_VCPUS];      /* that the vCPUs had made when it began */
    bool others_run;            /* when it began */
} change;

/* The latest change that was logged: others come after it when they next run. */
static Processor *last_by;
static Position last_position;

static void end_change(void)
{
    g_clear_pointer(&change.map, g_free);
    qatomic_set(&change.by, NULL);
}

void recorder_map_changes_start(void)
{
    end_change();
}

/*
 * Look at the boundaries first: a vCPU that begins to run after it was looked at passes another
 * one.  A halted vCPU may look for work in cpu_exec() meanwhile; it wakes up under the BQL.
 */
void recorder_map_begins(void)
{
    CPUState *other;

    if (!recorder_recording() || change.by) {
        return;
    }
    change.others_run = false;
    CPU_FOREACH(other) {
        change.safepoints[other->cpu_index] =
            qatomic_load_acquire(&other->recorder->record.safepoints);
        change.others_run |= other != current_cpu && qatomic_read(&other->running) &&
                             !other->halted;
    }
}

void recorder_map_changed(const char *map)
{
    CPUState *cpu = current_cpu;

    if (!recorder_recording()) {
        return;
    }
    if (!cpu || (change.by && change.by != cpu)) {
        recorder_fail("the guest's memory map changes");
        return;
    }
    if (!memory_map_is_saved(map)) {
        recorder_fail("the guest maps a ROM of a device that was plugged in while recorded");
    }
    qatomic_set(&change.by, cpu);
    g_free(change.map);
    change.map = g_strdup(map);
}

static void log_map(CPUState *cpu)
{
    uint64_t n_ranges = 0;

    for (const char *c = change.map; *c; c++) {
        n_ranges += *c == '\n';
    }
    log_event_bytes(cpu->recorder->log, LOG_EVENT_MAP, recorder_position(cpu), n_ranges,
                    change.map, strlen(change.map));
    recorder_step_slow(cpu);
}

bool recorder_log_map(CPUState *cpu)
{
    if (qatomic_read(&change.by) != cpu) {
        return false;
    }
    if (cpu->recorder->alone) {
        log_map(cpu);
        end_change();
    } else {
        cpu->exception_index = EXCP_ATOMIC;     /* go on in recorder_log_map_exclusively() */
    }
    return true;
}

/* The others run again after the exclusive region: by then the vCPU has published the change. */
bool recorder_log_map_exclusively(CPUState *cpu)
{
    CPUState *other;

    if (qatomic_read(&change.by) != cpu) {
        return false;
    }
    CPU_FOREACH(other) {
        RecordingVcpu *record = &other->recorder->record;

        if (other == cpu) {
            continue;
        }
        if (change.others_run || record->safepoints != change.safepoints[other->cpu_index]) {
            recorder_fail("the guest's memory map changes while other vCPUs run");
        }
        sphere_come_after(cpu->recorder->record.processor, record->processor,
                          recorder_position(other));
        qatomic_set(&record->follows_map, true);
    }
    recorder_log_arcs(cpu);
    log_map(cpu);
    last_by = cpu->recorder->record.processor;
    last_position = recorder_position(cpu);
    end_change();
    return true;
}

void recorder_follow_map(CPUState *cpu)
{
    RecordingVcpu *record = &cpu->recorder->record;

    if (qatomic_read(&record->follows_map)) {
        record->follows_map = false;
        sphere_come_after(record->processor, last_by, last_position);
        recorder_log_arcs(cpu);
    }
}
