/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DMA as a pseudo-processor (FDR, section 5): every write of a device to guest RAM is a step of its
 * own stream, logged with its data.
 *
 * DMA is the sphere's last processor.  It is RUNNING while a device writes, and holds the lines
 * that are written; otherwise it is SAFE.  It has no L1.  It serves one writer at a time, and one
 * page at a time.  A DMA step gets its number when the processor holds all its lines, and the
 * processor is SAFE whenever it waits for more.  So DMA never keeps lines while it waits.
 *
 * If a vCPU is alone, all of memory is one line (access.c).
 *
 * While recording, buffers that devices map for writing are bounced, and cached virtqueue rings
 * take the slow path.  So each write happens at a definite moment.
 *
 * Concurrency: devices write in any thread.  dma.lock is held from recorder_dma_begin() to
 * recorder_dma_end(), and protects all fields; @steps is also read without it.
 */
#include "qemu/osdep.h"
#include "exec/memory.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "hw/virtio/virtio.h"

#include "hw/recorder/access.h"
#include "hw/recorder/dma.h"
#include "hw/recorder/episodes.h"
#include "hw/recorder/machine-state.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/session.h"
#include "hw/recorder/translations.h"
#include "protocol/sphere.h"
#include "recording/log-format.h"
#include "recording/log-writer.h"
#include "recording/position.h"

#define PAGE (1u << SPHERE_PAGE_SHIFT)

static struct {
    QemuMutex lock;             /* held by the writer, from begin to end */
    CPUState *paused;           /* vCPU whose thread makes the write (SAFE), or NULL */
    LogStream *log;
    Processor *processor;
    uint64_t steps;
    uint64_t arcs;
} dma;

/*
 * This thread is between begin and end, and holds dma.lock.  Each thread has its own: a write that
 * did not begin must not take the begin of another thread, and its lock, for its own.  No coroutine
 * yields between begin and end.
 */
static __thread bool begun;

static bool is_main_memory(MemoryRegion *mr)
{
    return mr == MACHINE(qdev_get_machine())->ram;
}

static bool past_one_vcpu(void)
{
    return !recorder_several_vcpus;
}

static void emit_wait(Processor *p, unsigned from, Position source, void *opaque)
{
    dma.arcs += log_wait(dma.log, sphere_floor(p), from, source);
}

/*
 * Hold the lines of @size bytes at @offset, within one page.  Return false if the processor had to
 * wait for them: it may have lost other lines meanwhile.
 */
static bool hold(uint64_t offset, unsigned size)
{
    bool at_once = sphere_acquire(dma.processor, offset, size, SPHERE_WRITE) == SPHERE_GRANTED;

    if (!at_once) {
        if (!sphere_is_granted(dma.processor) && !sphere_is_settled(dma.processor, dma.steps)) {
            log_event(dma.log, LOG_EVENT_STEP, dma.steps++);
        }
        sphere_await(dma.processor, dma.steps);
    }
    sphere_arcs(dma.processor, emit_wait, NULL);
    return at_once;
}

/*
 * Hold all lines of a write.  A store of up to 8 bytes may lie in two pages, and cannot be divided:
 * repeat until the processor holds both at once.
 */
static void hold_all(uint64_t offset, unsigned size)
{
    unsigned first = MIN(size, PAGE - offset % PAGE);

    hold(offset, first);
    while (first < size && !(hold(offset + first, size - first) & hold(offset, first))) {
        /* repeat */
    }
}

hwaddr recorder_dma_begin_slow(MemoryRegion *mr, hwaddr offset, hwaddr size)
{
    CPUState *paused = recorder_wait_begin();

    qemu_mutex_lock(&dma.lock);
    begun = true;
    dma.paused = paused;
    log_stream_resume(dma.log);
    sphere_run(dma.processor);
    sphere_boundary(dma.processor, dma.steps);
    if (past_one_vcpu()) {
        hold(0, 1);
    } else if (is_main_memory(mr)) {
        size = size <= 8 ? size : MIN(size, PAGE - offset % PAGE);
        hold_all(offset, size);
    }
    return size;
}

static void log_write(MemoryRegion *mr, hwaddr offset, hwaddr size)
{
    if (!is_main_memory(mr)) {
        recorder_fail("a device wrote to %s, which is not main memory", memory_region_name(mr));
        return;
    }
    if (past_one_vcpu()) {
        recorder_translations_written(first_cpu, offset, size);
    }
    machine_state_written(offset, size);
    while (size > 0) {
        hwaddr n = MIN(size, LOG_EVENT_MAX_BYTES);

        log_event_bytes(dma.log, LOG_EVENT_DMA_WRITE, dma.steps, offset,
                        (uint8_t *)memory_region_get_ram_ptr(mr) + offset, n);
        dma.steps++;
        offset += n;
        size -= n;
    }
}

void recorder_dma_end_slow(MemoryRegion *mr, hwaddr offset, hwaddr size)
{
    CPUState *paused;

    if (!begun) {
        recorder_fail("guest memory was written behind the recorder's back");
        return;
    }
    paused = dma.paused;
    log_write(mr, offset, size);
    if (!sphere_is_settled(dma.processor, dma.steps)) {
        log_event(dma.log, LOG_EVENT_STEP, dma.steps++);
    }
    recorder_episodes_boundary(dma.processor, dma.log, dma.steps, 0);
    log_stream_boundary(dma.log);
    log_stream_rest(dma.log, dma.steps);
    sphere_safe(dma.processor, dma.steps);
    begun = false;
    qemu_mutex_unlock(&dma.lock);
    recorder_wait_end(paused);
}

void recorder_rom_written_slow(MemoryRegion *mr)
{
    recorder_fail("the guest writes to %s", memory_region_name(mr));
}

/* --- start and stop --------------------------------------------------------- */

/* Make a virtio device look up its cached rings again. */
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

void recorder_dma_start(LogStream *log, Processor *processor)
{
    static bool once;

    if (!once) {
        once = true;
        qemu_mutex_init(&dma.lock);
    }
    dma.log = log;
    dma.processor = processor;
    log_stream_rest(log, 0);
    dma.steps = 0;
    dma.arcs = 0;
}

void recorder_dma_renew_rings(void)
{
    object_child_foreach_recursive(object_get_root(), renew_rings, NULL);
}

uint64_t recorder_dma_steps(void)
{
    return qatomic_read(&dma.steps);
}

void recorder_dma_hold(void)
{
    qemu_mutex_lock(&dma.lock);
}

void recorder_dma_release(void)
{
    qemu_mutex_unlock(&dma.lock);
}

uint64_t recorder_dma_arcs(void)
{
    return dma.arcs;
}
