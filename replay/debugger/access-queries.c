/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See access-queries.h.
 */
#include "qemu/osdep.h"
#include "exec/cpu-common.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"

#include "base/page-history.h"
#include "hw/recorder/memory-map.h"
#include "replay/debugger/access-queries.h"
#include "replay/debugger/debugger.h"

/* How many steps are replayed at a time: at first, and at most. */
#define NEAR 1000000u
#define FAR (256 * NEAR)
/* access_query_who(): how many accesses it wants on each side of now, and from how far away. */
#define ENOUGH 8
#define AROUND (64 * NEAR)

static struct {
    GMutex lock;
    GArray *accesses;           /* of Access; those of one stream in order */
} noted;

bool access_query_find_memory(CPUState *cpu, uint64_t address, uint64_t size, bool physical,
                              uint64_t *offset, Error **errp)
{
    uint64_t page = address & -(uint64_t)PAGE_HISTORY_PAGE, where = page;

    if (size == 0 || size > PAGE_HISTORY_PAGE - address % PAGE_HISTORY_PAGE) {
        error_setg(errp, "%" PRIu64 " bytes at 0x%" PRIx64 " are none, or more than one page", size,
                   address);
        return false;
    }
    if (!physical) {
        where = cpu_get_phys_page_debug(cpu, page);
        if (where == -1) {
            error_setg(errp, "0x%" PRIx64 " is not mapped now, as vCPU %d sees it", address,
                       cpu->cpu_index);
            return false;
        }
    }
    if (!memory_map_offset(where, offset)) {
        error_setg(errp, "0x%" PRIx64 " is not in the guest's memory", address);
        return false;
    }
    *offset += address % PAGE_HISTORY_PAGE;
    return true;
}

/* Keep @access.  An AccessFn: any thread. */
static void note(const Access *access)
{
    g_mutex_lock(&noted.lock);
    g_array_append_val(noted.accesses, *access);
    g_mutex_unlock(&noted.lock);
}

/* Keep @access instead of the stream's previous access.  An AccessFn: any thread. */
static void note_last(const Access *access)
{
    g_mutex_lock(&noted.lock);
    for (unsigned i = 0; i < noted.accesses->len; i++) {
        if (g_array_index(noted.accesses, Access, i).stream == access->stream) {
            g_array_remove_index(noted.accesses, i);
            break;
        }
    }
    g_array_append_val(noted.accesses, *access);
    g_mutex_unlock(&noted.lock);
}

/*
 * Replay from moment @low to @high, and call @fn for writes to the bytes, and for reads if @reads.
 * The debugger is at @high then.  Return false and set @errp on failure.
 */
static bool look(uint64_t low, uint64_t high, uint64_t offset, uint64_t size, bool reads,
                 AccessFn *fn, Error **errp)
{
    bool done;

    if (!debugger_jump(low, errp)) {
        return false;
    }
    access_watch_start(offset, size, reads, true, fn);
    done = debugger_walk(high, errp);
    access_watch_end();
    return done;
}

/* Return an array of Access for each stream, in the order in which the stream made them. */
static GPtrArray *by_stream(unsigned n_streams)
{
    GPtrArray *streams = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);

    for (unsigned i = 0; i < n_streams; i++) {
        g_ptr_array_add(streams, g_array_new(false, false, sizeof(Access)));
    }
    for (unsigned i = 0; i < noted.accesses->len; i++) {
        const Access *access = &g_array_index(noted.accesses, Access, i);

        g_array_append_val(streams->pdata[access->stream], *access);
    }
    return streams;
}

/* Return the noted accesses, all after @low, as SeenAccess in the order of all steps. */
static GArray *put_in_order(uint64_t low)
{
    unsigned n_streams = MACHINE(qdev_get_machine())->smp.cpus + 1;
    GArray *seen = g_array_new(false, false, sizeof(SeenAccess));
    g_autoptr(GPtrArray) streams = by_stream(n_streams);
    g_autofree unsigned *next = g_new0(unsigned, n_streams);
    g_autoptr(TotalOrder) order = debugger_order(low);
    Run run;

    while (seen->len < noted.accesses->len && total_order_next(order, UINT64_MAX, &run, NULL)) {
        uint64_t began = total_order_moment(order) - (run.to - run.from);
        const GArray *accesses = streams->pdata[run.stream];

        for (unsigned *i = &next[run.stream]; *i < accesses->len; ++*i) {
            const Access *access = &g_array_index(accesses, Access, *i);
            SeenAccess one = { began + (access->position - run.from), *access, -1 };

            if (access->position >= run.to) {
                break;
            }
            g_array_append_val(seen, one);
        }
    }
    return seen;
}

static void begin(void)
{
    noted.accesses = g_array_new(false, false, sizeof(Access));
}

/*
 * Free what was noted and go back to moment @now.  Return true if this succeeds and @done.  If not
 * @done, @errp is set already, and keeps that error.
 */
static bool end(uint64_t now, bool done, Error **errp)
{
    g_clear_pointer(&noted.accesses, g_array_unref);
    return debugger_jump(now, done ? errp : NULL) && done;
}

bool access_query_last_write(uint64_t offset, uint64_t size, SeenAccess *last, Error **errp)
{
    uint64_t now = debugger_moment(), high = now, width = NEAR;
    bool done = true, found = false;

    begin();
    while (done && !found && high > debugger_first()) {
        uint64_t low = high - debugger_first() > width ? high - width : debugger_first();

        done = look(low, high, offset, size, false, note_last, errp);
        if (done && noted.accesses->len > 0) {
            g_autoptr(GArray) seen = put_in_order(low);

            found = seen->len > 0;
            if (found) {
                *last = g_array_index(seen, SeenAccess, seen->len - 1);
            }
        }
        high = low;
        width = MIN(width * 4, FAR);
    }
    return end(now, done, errp) && found;
}

/* Return how many accesses of @seen lie before @now. */
static unsigned count_before(const GArray *seen, uint64_t now)
{
    unsigned n = 0;

    while (n < seen->len && g_array_index(seen, SeenAccess, n).moment < now) {
        n++;
    }
    return n;
}

/*
 * Set @from of all accesses, as if each stream had a cache.  A read by a stream without a copy gets
 * one from the last writer.  A write invalidates the copies of all other streams; of these, @from
 * is the stream that used its copy last.
 */
static void find_transfers(GArray *seen)
{
    unsigned n_streams = MACHINE(qdev_get_machine())->smp.cpus + 1;
    g_autofree unsigned *used = g_new0(unsigned, n_streams);    /* last use + 1; 0: no copy */
    int writer = -1;

    for (unsigned i = 0; i < seen->len; i++) {
        SeenAccess *one = &g_array_index(seen, SeenAccess, i);
        int stream = one->access.stream;

        if (!one->access.is_write) {
            one->from = used[stream] || writer == stream ? -1 : writer;
        } else {
            for (int other = 0; other < n_streams; other++) {
                if (other != stream && used[other] &&
                    (one->from < 0 || used[other] > used[one->from])) {
                    one->from = other;
                }
            }
            memset(used, 0, n_streams * sizeof(*used));
            writer = stream;
        }
        used[stream] = i + 1;
    }
}

GArray *access_query_who(uint64_t offset, uint64_t size, unsigned *n_before, Error **errp)
{
    uint64_t now = debugger_moment();
    g_autoptr(GArray) seen = NULL;
    bool done = true;

    begin();
    for (uint64_t width = NEAR; done && width <= AROUND; width *= 8) {
        uint64_t low = now - debugger_first() > width ? now - width : debugger_first();
        uint64_t high = debugger_last() - now > width ? now + width : debugger_last();

        g_array_set_size(noted.accesses, 0);
        g_clear_pointer(&seen, g_array_unref);
        done = look(low, high, offset, size, true, note, errp);
        if (done) {
            seen = put_in_order(low);
            find_transfers(seen);
            *n_before = count_before(seen, now);
        }
        if (done && *n_before >= ENOUGH && seen->len - *n_before >= ENOUGH) {
            break;
        }
    }
    if (!end(now, done, errp)) {
        return NULL;
    }
    if (seen->len > *n_before + ENOUGH) {
        g_array_set_size(seen, *n_before + ENOUGH);
    }
    if (*n_before > ENOUGH) {
        g_array_remove_range(seen, 0, *n_before - ENOUGH);
        *n_before = ENOUGH;
    }
    return g_steal_pointer(&seen);
}
