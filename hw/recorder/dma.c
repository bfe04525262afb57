/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DMA as a pseudo-processor (FDR, section 5; design 3.6): every write of a device
 * to guest RAM is a step of its own stream, with its data.
 *
 * A write takes place while all vCPUs are safe.  A vCPU holds its run lock while
 * it runs, and lets go of it between two steps, while it waits for the big lock,
 * and during its own device accesses; a writer takes all run locks.  One
 * writer at a time: a DMA step gets its number when it holds everything, and it
 * never waits holding some (holes.md 17).
 *
 * Arcs.  The step waits for the position that each vCPU has reached; a vCPU in
 * a device access has made all RAM accesses of that instruction, so it counts as
 * done.  The vCPU's next step waits for the DMA step: the WAIT is logged at its
 * next boundary, to which it goes before it enters another TB.
 *
 * Buffers that devices map are bounced, and cached rings go the slow way, while
 * recording: a write has a definite moment (hook map, B.1).
 */
#include "qemu/osdep.h"
#include "exec/memory.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "hw/virtio/virtio.h"

#include "hw/recorder/log-format.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/recorder-internal.h"

static struct {
    QemuMutex lock;             /* the writer; before any run lock */
    bool begun;
    bool by_running_vcpu;       /* whose run lock the writer has already */
    LogStream *log;
    uint64_t steps;
    Position waited_for;        /* the vCPU's position in the last WAIT */
} dma;

static QemuCond dma_done;
static QemuMutex dma_done_lock;

/* --- vCPUs ------------------------------------------------------------------ */

void recorder_enter_running(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    qemu_mutex_lock(&v->run_lock);
    v->running = true;
    log_stream_resume(v->log);
}

void recorder_leave_running(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    log_stream_rest(v->log);
    v->running = false;
    qemu_mutex_unlock(&v->run_lock);
}

CPUState *recorder_wait_begin_slow(void)
{
    CPUState *cpu = current_cpu;

    if (!cpu || !cpu->recorder || !cpu->recorder->running) {
        return NULL;
    }
    recorder_leave_running(cpu);
    return cpu;
}

void recorder_dma_safepoint(CPUState *cpu)
{
    RecorderVcpu *v = cpu->recorder;

    /* Not at the end of a recording, when the vCPU does not run. */
    if (unlikely(qatomic_read(&v->dma_waiting)) && v->running) {
        recorder_leave_running(cpu);
        qemu_mutex_lock(&dma_done_lock);
        while (qatomic_read(&v->dma_waiting)) {
            qemu_cond_wait(&dma_done, &dma_done_lock);
        }
        qemu_mutex_unlock(&dma_done_lock);
        recorder_enter_running(cpu);
    }
    if (v->dma_seen != dma.steps) {
        v->dma_seen = dma.steps;
        log_event(v->log, LOG_EVENT_WAIT, recorder_position(cpu),
                  (uint64_t)MACHINE(qdev_get_machine())->smp.max_cpus, dma.steps);
    }
}

/* --- devices ---------------------------------------------------------------- */

void recorder_dma_begin_slow(void)
{
    CPUState *cpu = first_cpu;
    RecorderVcpu *v = cpu->recorder;

    qemu_mutex_lock(&dma.lock);
    dma.begun = true;
    if (!v) {
        return;                 /* being attached or detached: it is stopped */
    }
    dma.by_running_vcpu = current_cpu == cpu && v->running;
    if (!dma.by_running_vcpu) {
        qatomic_inc(&v->dma_waiting);
        /* Pairs with the clearing of icount_decr.high before a boundary. */
        smp_mb();
        qatomic_set(&cpu->neg.icount_decr.u16.high, -1);
        qemu_mutex_lock(&v->run_lock);
    }
}

static void log_write(CPUState *cpu, MemoryRegion *mr, hwaddr offset, hwaddr size)
{
    Position position = recorder_position(cpu);

    if (mr != MACHINE(qdev_get_machine())->ram) {
        recorder_fail("a device wrote to %s, which is not main memory", memory_region_name(mr));
        return;
    }
    if (position != dma.waited_for) {
        dma.waited_for = position;
        log_event(dma.log, LOG_EVENT_WAIT, dma.steps, (uint64_t)cpu->cpu_index, position);
    }
    recorder_tables_written(cpu, offset, size);
    while (size > 0) {
        hwaddr n = MIN(size, LOG_EVENT_MAX_BYTES);

        log_event_bytes(dma.log, LOG_EVENT_DMA_WRITE, dma.steps, offset,
                        (uint8_t *)memory_region_get_ram_ptr(mr) + offset, n);
        dma.steps++;
        offset += n;
        size -= n;
    }
    /* The next step waits for this one: no TB before the boundary. */
    qatomic_set(&cpu->neg.icount_decr.u16.high, -1);
}

void recorder_dma_end_slow(MemoryRegion *mr, hwaddr offset, hwaddr size)
{
    CPUState *cpu = first_cpu;
    RecorderVcpu *v = cpu->recorder;

    if (!dma.begun) {
        recorder_fail("guest memory was written behind the recorder's back");
        return;
    }
    if (v) {
        log_stream_resume(dma.log);
        log_write(cpu, mr, offset, size);
        log_stream_boundary(dma.log);
        log_stream_rest(dma.log);
        if (!dma.by_running_vcpu) {
            qemu_mutex_unlock(&v->run_lock);
            qemu_mutex_lock(&dma_done_lock);
            qatomic_dec(&v->dma_waiting);
            qemu_cond_broadcast(&dma_done);
            qemu_mutex_unlock(&dma_done_lock);
        }
    }
    dma.begun = false;
    qemu_mutex_unlock(&dma.lock);
}

/* --- start and stop --------------------------------------------------------- */

/* Rings that devices have cached are looked up anew, now that recording is on or off. */
static int renew_rings(Object *object, void *opaque)
{
    VirtIODevice *vdev = (VirtIODevice *)object_dynamic_cast(object, TYPE_VIRTIO_DEVICE);

    for (int i = 0; vdev && i < VIRTIO_QUEUE_MAX && virtio_queue_get_num(vdev, i); i++) {
        if (virtio_queue_get_desc_addr(vdev, i)) {
            virtio_init_region_cache(vdev, i);
        }
    }
    return 0;
}

void recorder_dma_start(LogStream *log)
{
    static bool once;

    if (!once) {
        once = true;
        qemu_mutex_init(&dma.lock);
        qemu_mutex_init(&dma_done_lock);
        qemu_cond_init(&dma_done);
    }
    dma.log = log;
    log_stream_rest(log);
    dma.steps = 0;
    dma.waited_for = UINT64_MAX;
    object_child_foreach_recursive(object_get_root(), renew_rings, NULL);
}

void recorder_dma_stop(void)
{
    object_child_foreach_recursive(object_get_root(), renew_rings, NULL);
}

uint64_t recorder_dma_steps(void)
{
    return dma.steps;
}
