/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See access-watch.h.
 *
 * An access is noted when its host address is known, before the data is transferred.  The access is
 * reported at the vCPU's next noted access at another position, or at its next boundary, whichever
 * is first.  Until then the bytes are as the access left them: if writes are watched, all writes of
 * this vCPU are noted, so none comes in between.  A write of another stream waits for a position
 * that this vCPU publishes at a boundary, and the report precedes that.
 *
 * In the middle of a TB, the host's return address gives the position: a TB is charged when it is
 * entered, and the instructions from this one to the end of the TB have not been made.
 */
#include "qemu/osdep.h"
#include "qemu/bitmap.h"
#include "accel/tcg/internal-common.h"
#include "exec/cputlb.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"

#include "hw/recorder/access.h"
#include "hw/recorder/machine-state.h"
#include "hw/recorder/recorder.h"
#include "hw/recorder/target.h"
#include "hw/recorder/translations.h"
#include "hw/recorder/vcpu.h"
#include "recording/position.h"
#include "replay/access-watch.h"

#define PAGE 4096u

/* The size of the largest atomic access. */
#define MOST_COMPARED 16

/* A pending access: noted, but not reported. */
typedef struct Noted {
    Access access;
    uint64_t first;             /* of the bytes that are accessed and watched; in main memory */
    unsigned n;                 /* how many they are */
    uint8_t before[MOST_COMPARED];
} Noted;

/* Accesses of a vCPU at @position.  The vCPU thread's, or the main thread's while it is stopped. */
typedef struct Noter {
    Position position;
    GArray *noted;
    unsigned long *read, *written;      /* which watched bytes were; a bit for each */
} Noter;

static struct {
    uint64_t offset;
    uint64_t size;
    bool reads, writes;         /* what is reported */
    bool sees_reads;            /* loads are noted: to be reported, or to recognise atomics */
    AccessFn *fn;
    unsigned n_vcpus;
    Noter *noters;              /* one for each vCPU */
} watch;


const char *access_name(const Access *access)
{
    static const char *const names[] = {
#define X(kind, name) [ACCESS_BY_##kind] = name,
        ACCESS_BYS(X)
#undef X
    };

    if (access->by == ACCESS_BY_INSTRUCTION) {
        return access->is_write ? "store" : "load";
    }
    return names[access->by];
}

/* --- what is watched ------------------------------------------------------------- */

bool recorder_notes_page_slow(ram_addr_t page, bool write)
{
    uint64_t offset = page - recorder_ram.start;

    return (write ? watch.writes : watch.sees_reads) && offset < recorder_ram.size &&
           offset < watch.offset + watch.size && watch.offset < offset + PAGE;
}

/* Set *@first and *@n to the watched part of @size bytes at @offset.  Return false if empty. */
static bool clip(uint64_t offset, uint64_t size, uint64_t *first, unsigned *n)
{
    uint64_t end = MIN(offset + size, watch.offset + watch.size);

    *first = MAX(offset, watch.offset);
    *n = end > *first ? end - *first : 0;
    return *n > 0;
}

/* Return the first 8 of @n little-endian bytes as a number. */
static uint64_t value_of(const void *bytes, unsigned n)
{
    uint64_t value = 0;

    memcpy(&value, bytes, MIN(n, sizeof(value)));
    return le64_to_cpu(value);
}

/* --- vCPUs ------------------------------------------------------------------------- */

/* Return true if @access is to be reported.  Of an atomic @is_write need not be known yet. */
static bool is_wanted(const Access *access)
{
    bool reads = !access->is_write || access->by == ACCESS_BY_ATOMIC;

    return (reads && watch.reads) || (access->is_write && watch.writes);
}

/* Report @noted, which was made, if it is wanted. */
static void tell(Noted *noted)
{
    const uint8_t *now = recorder_ram.host + noted->first;
    Access *access = &noted->access;

    if (access->by == ACCESS_BY_ATOMIC) {
        access->is_write = memcmp(noted->before, now, MIN(noted->n, MOST_COMPARED)) != 0;
    }
    access->after = access->is_write ? value_of(now, noted->n) : access->before;
    if (is_wanted(access)) {
        watch.fn(access);
    }
}

static void tell_all(Noter *noter)
{
    for (unsigned i = 0; i < noter->noted->len; i++) {
        tell(&g_array_index(noter->noted, Noted, i));
    }
    g_array_set_size(noter->noted, 0);
}

static void start_anew(Noter *noter, Position position)
{
    noter->position = position;
    bitmap_zero(noter->read, watch.size);
    bitmap_zero(noter->written, watch.size);
}

/*
 * Return true if these bytes were noted already, for an access of the same kind at this position:
 * QEMU has restarted the instruction.  Remember them.
 */
static bool is_known(Noter *noter, uint64_t first, unsigned n, bool write)
{
    unsigned long *bits = write ? noter->written : noter->read;
    uint64_t start = first - watch.offset;
    bool known = find_next_zero_bit(bits, start + n, start) == start + n;

    bitmap_set(bits, start, n);
    return known;
}

/*
 * Make a pending load an atomic if @access is a store of the same atomic instruction to the same
 * bytes, and return true.  If there is one vCPU, TCG makes an atomic as a load and a store.
 */
static bool completes_atomic(CPUState *cpu, Noter *noter, const Access *access)
{
    for (unsigned i = 0; access->is_write && access->by == ACCESS_BY_INSTRUCTION &&
         i < noter->noted->len; i++) {
        Access *other = &g_array_index(noter->noted, Noted, i).access;

        if (other->by == ACCESS_BY_INSTRUCTION && !other->is_write &&
            other->offset == access->offset && other->size == access->size &&
            recorder_is_atomic(cpu, access->pc)) {
            other->by = ACCESS_BY_ATOMIC;
            other->is_write = true;
            return true;
        }
    }
    return false;
}

/*
 * Merge @access into the last pending access if it follows that without a gap, and return true.
 * @access may be the next element of a vector, the part in a second page, or the second register of
 * a pair.
 */
static bool continues_last(Noter *noter, const Access *access)
{
    Noted *last = noter->noted->len ?
        &g_array_index(noter->noted, Noted, noter->noted->len - 1) : NULL;
    unsigned had;

    if (!last || last->access.by != access->by || last->access.is_write != access->is_write ||
        last->access.offset + last->access.size != access->offset) {
        return false;
    }
    had = last->n;
    last->access.size += access->size;
    clip(last->access.offset, last->access.size, &last->first, &last->n);
    /* The added bytes were not written yet. */
    for (unsigned i = had; i < MIN(last->n, MOST_COMPARED); i++) {
        last->before[i] = recorder_ram.host[last->first + i];
    }
    last->access.before = value_of(last->before, last->n);
    return true;
}

static void note(CPUState *cpu, Noter *noter, const Access *access)
{
    Noted noted = { .access = *access };

    clip(access->offset, access->size, &noted.first, &noted.n);
    if (is_known(noter, noted.first, noted.n, access->is_write) ||
        completes_atomic(cpu, noter, access) || continues_last(noter, access)) {
        return;
    }
    memcpy(noted.before, recorder_ram.host + noted.first, MIN(noted.n, MOST_COMPARED));
    noted.access.before = value_of(noted.before, noted.n);
    g_array_append_val(noter->noted, noted);
}

/* Return the position of the instruction at @retaddr; 0: the vCPU is at a boundary. */
static Position position_of(CPUState *cpu, uintptr_t retaddr)
{
    int left = retaddr ? cpu_insns_left(retaddr) : -1;

    return recorder_position(cpu) - MAX(left, 0);
}

void access_watch_note(CPUState *cpu, const void *host, unsigned size, AccessBy by, bool write,
                       uintptr_t retaddr)
{
    Access access = { .by = by, .is_write = write, .size = size };
    uint64_t first;
    Noter *noter;
    unsigned n;

    if (!cpu->recorder || !recorder_ram_offset(host, &access.offset) ||
        !clip(access.offset, size, &first, &n) || (!is_wanted(&access) && !watch.sees_reads)) {
        return;
    }
    noter = &watch.noters[cpu->cpu_index];
    if (by == ACCESS_BY_INSTRUCTION && !retaddr) {
        access.by = ACCESS_BY_DELIVERY;         /* no generated code is running */
    }
    access.stream = cpu->cpu_index;
    access.position = position_of(cpu, retaddr);
    access.pc = recorder_pc(cpu, retaddr);
    if (access.position != noter->position) {
        tell_all(noter);
        start_anew(noter, access.position);
    }
    note(cpu, noter, &access);
}

void access_watch_settle_slow(CPUState *cpu)
{
    tell_all(&watch.noters[cpu->cpu_index]);
}

/* --- writes that the log tells of ------------------------------------------------------- */

/* Write main memory as @access says, and report it if it is watched.  Return false on failure. */
static bool write_ram(Access *access, const void *bytes)
{
    uint64_t first;
    unsigned n;

    if (!recorder_notes || !watch.writes || !clip(access->offset, access->size, &first, &n)) {
        return machine_state_write_ram(access->offset, bytes, access->size);
    }
    access->before = value_of(recorder_ram.host + first, n);
    if (!machine_state_write_ram(access->offset, bytes, access->size)) {
        return false;
    }
    access->is_write = true;
    access->after = value_of(recorder_ram.host + first, n);
    watch.fn(access);
    return true;
}

bool access_watch_write_dma(Position position, uint64_t offset, const void *bytes, size_t n)
{
    Access access = {
        .stream = watch.n_vcpus,
        .position = position,
        .by = ACCESS_BY_DMA,
        .offset = offset,
        .size = n,
    };

    return write_ram(&access, bytes);
}

bool access_watch_write_flag(CPUState *cpu, Position position, uint64_t offset, uint64_t word)
{
    Access access = {
        .stream = cpu->cpu_index,
        .position = position,
        .by = ACCESS_BY_FLAG,
        .pc = recorder_notes ? recorder_pc(cpu, 0) : 0,
        .offset = offset,
        .size = sizeof(word),
    };

    return write_ram(&access, &word);
}

/* --- start and end -------------------------------------------------------------------- */

static void drop_translations(CPUState *cpu, run_on_cpu_data data)
{
    tlb_flush(cpu);
}

/* Make the next access to each page walk, and find out whether the page is watched. */
static void drop_all_translations(void)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        run_on_cpu(cpu, drop_translations, RUN_ON_CPU_NULL);
    }
}

void access_watch_start(uint64_t offset, uint32_t size, bool reads, bool writes, AccessFn *fn)
{
    access_watch_end();
    recorder_translations_start();
    g_assert(size > 0 && size <= ACCESS_WATCH_MAX_SIZE);
    g_assert(offset < recorder_ram.size && size <= recorder_ram.size - offset);
    watch.offset = offset;
    watch.size = size;
    watch.reads = reads;
    watch.writes = writes;
    watch.fn = fn;
    watch.n_vcpus = MACHINE(qdev_get_machine())->smp.cpus;
    watch.sees_reads = reads || watch.n_vcpus == 1;     /* see completes_atomic() */
    watch.noters = g_new0(Noter, watch.n_vcpus);
    for (unsigned i = 0; i < watch.n_vcpus; i++) {
        Noter *noter = &watch.noters[i];

        noter->noted = g_array_new(false, false, sizeof(Noted));
        noter->read = bitmap_new(size);
        noter->written = bitmap_new(size);
        noter->position = UINT64_MAX;
    }
    recorder_notes = true;
    drop_all_translations();
}

void access_watch_forget(void)
{
    for (unsigned i = 0; recorder_notes && i < watch.n_vcpus; i++) {
        g_array_set_size(watch.noters[i].noted, 0);
        start_anew(&watch.noters[i], UINT64_MAX);
    }
}

void access_watch_end(void)
{
    if (!recorder_notes) {
        return;
    }
    recorder_notes = false;
    for (unsigned i = 0; i < watch.n_vcpus; i++) {
        tell_all(&watch.noters[i]);
        g_array_unref(watch.noters[i].noted);
        g_free(watch.noters[i].read);
        g_free(watch.noters[i].written);
    }
    g_clear_pointer(&watch.noters, g_free);
    drop_all_translations();
}
