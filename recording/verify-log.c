/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Verifies one log.  The log reader checks the bytes; this file checks the events, by the
 * rules of docs/log-format.md that replay relies on.
 */
#include "recording/verify.h"

#include <inttypes.h>

#include "recording/log-reader.h"
#include "recording/registers.h"

typedef struct Check {
    const Manifest *manifest;
    const RegisterSet *set;
    OrderSet orders;            /* as the log's header has them */
    bool is_dma;
    Position reached;           /* steps that were made so far; of a log of episodes: their end */
    uint64_t next_time;         /* the least time of the next STAMPED */
    Registers registers;        /* as logged last */
    bool registers_are_new;     /* the event before was REGISTERS, */
    Position registers_at;      /* at this position */
    VerifiedLog *log;
} Check;

static bool in_ram(const Check *check, uint64_t address, uint64_t n)
{
    return address <= check->manifest->ram_size && n <= check->manifest->ram_size - address;
}

/* Check the position of an event, and count steps.  Return what is wrong, or NULL. */
static const char *check_step(Check *check, const LogEvent *event)
{
    bool is_step = log_event_is_step(event->kind);

    if (check->is_dma) {
        /* Steps of DMA are numbered without a gap. */
        if (is_step && event->position != check->reached) {
            return "steps of DMA are missing, or there twice";
        }
        check->reached += is_step;
        return NULL;
    }
    if (event->position < check->reached) {
        return "an event at a step that has ended";
    }
    check->reached = event->position + is_step;
    return NULL;
}

static const char *check_digest(const Check *check, const LogEvent *event)
{
    if (!check->registers_are_new || check->registers_at != event->position) {
        return "a digest without its registers";
    }
    return registers_digest(check->set, &check->registers) == event->value[0] ? NULL
           : "registers and their digest do not agree";
}

static const char *check_dma_event(const Check *check, const LogEvent *event)
{
    switch (event->kind) {
    case LOG_EVENT_WAIT:
    case LOG_EVENT_STEP:
        return NULL;
    case LOG_EVENT_DMA_WRITE:
        return in_ram(check, event->value[0], event->n_bytes) ? NULL
               : "DMA to where no memory is";
    default:
        return "an event that DMA does not have";
    }
}

static const char *check_vcpu_event(Check *check, const LogEvent *event)
{
    const char *wrong = NULL;

    switch (event->kind) {
    case LOG_EVENT_DMA_WRITE:
        return "an event that a vCPU does not have";
    case LOG_EVENT_ACCESS_FLAG:
        return in_ram(check, event->value[0], sizeof(uint64_t)) ? NULL
               : "a flag to where no memory is";
    case LOG_EVENT_REGISTERS:
        wrong = registers_apply(check->set, &check->registers, event->bytes, event->n_bytes);
        break;
    case LOG_EVENT_DIGEST:
    case LOG_EVENT_END:
        wrong = check_digest(check, event);
        break;
    default:
        break;
    }
    check->registers_are_new = event->kind == LOG_EVENT_REGISTERS;
    check->registers_at = event->position;
    return wrong;
}

static const char *check_event(Check *check, const LogEvent *event)
{
    const char *wrong = check->log->has_end ? "an event after the end" : check_step(check, event);

    if (!wrong) {
        wrong = check->is_dma ? check_dma_event(check, event) : check_vcpu_event(check, event);
    }
    check->log->arcs += event->kind == LOG_EVENT_WAIT;
    if (event->kind == LOG_EVENT_END) {
        check->log->has_end = true;
        check->log->end_registers = event->value[0];
    }
    return wrong;
}

/* --- logs of episodes ------------------------------------------------------------ */

/* Check an event of the karma log or of the rerun log.  Return what is wrong, or NULL. */
static const char *check_episode(Check *check, const LogEvent *event)
{
    bool is_empty = event->position == check->reached;

    check->reached = event->position;
    if (log_event_is_cut(event->kind)) {
        return is_empty ? NULL : "steps before a cut that no episode has";
    }
    if (event->kind == LOG_EVENT_EPISODE) {
        check->log->arcs += __builtin_popcountll(event->value[0]) + event->n_bytes;
        return is_empty && event->value[0] ? "an episode without a step that comes after others"
                                           : NULL;
    }
    check->log->arcs++;
    if (event->value[0] < check->next_time) {
        return "a time that is not later than that of the episode before";
    }
    check->next_time = event->value[0] + 1;
    return NULL;
}

/* --- all logs ------------------------------------------------------------------------ */

static const char *check_any(Check *check, LogSubstream substream, const LogEvent *event)
{
    switch (substream) {
    case LOG_ORDER:
        if (event->kind == LOG_EVENT_WAIT && !order_set_has(check->orders, RACE_FDR)) {
            return "a wait, though the recording was made without the order fdr";
        }
        return check_event(check, event);
    case LOG_KARMA:
    case LOG_RERUN:
        return check_episode(check, event);
    default:
        return NULL;
    }
}

/*
 * Open a log.  If its first part was dropped, begin at the checkpoint @first: a recorder that was
 * killed while it dropped the part before @first may have left more of the log, from a checkpoint
 * on whose registers are not known any more.
 */
static LogReader *open_log(const char *directory, unsigned n_vcpus, const CheckpointPosition *first,
                           unsigned stream, LogSubstream substream, GError **error)
{
    LogReader *reader = log_reader_open(directory, n_vcpus, stream, substream, error);
    Position reached;

    if (reader && first && log_reader_dropped(reader, &reached)) {
        log_reader_free(reader);
        return log_reader_open_at(directory, n_vcpus, stream, substream,
                                  log_place_of(first->logs, stream, substream), error);
    }
    return reader;
}

/* If the first part of the log was dropped, start from the state after it. */
static void begin_after_dropped(Check *check, const LogReader *reader,
                                const CheckpointPosition *first, unsigned stream)
{
    check->log->dropped = log_reader_dropped(reader, &check->reached);
    if (!check->log->dropped || !first) {
        return;
    }
    check->reached = check->is_dma ? first->dma_steps : first->point->at[stream];
    if (!check->is_dma) {
        check->registers = first->logged[stream];
    }
}

bool verify_log(const char *directory, const Manifest *manifest, const CheckpointPosition *first,
                unsigned stream, LogSubstream substream, VerifiedLog *log, GError **error)
{
    g_autoptr(LogReader) reader = open_log(directory, manifest->n_vcpus, first, stream, substream,
                                           error);
    Check check = { .manifest = manifest, .set = register_set(manifest->arch),
                    .is_dma = stream == manifest->n_vcpus, .log = log };
    LogReaderResult result = LOG_READER_BAD;
    LogEvent event;

    *log = (VerifiedLog) { .bytes = reader ? log_reader_totals(reader)->good_bytes : 0 };
    if (reader && log_reader_orders(reader) != log_directory_orders(directory)) {
        g_set_error(error, VERIFY_ERROR, VERIFY_ERROR_LOG,
                    "%s: it belongs to a recording of other orders", log_reader_path(reader));
        log->bytes = 0;
        return false;
    }
    if (reader) {
        check.orders = log_reader_orders(reader);
        begin_after_dropped(&check, reader, first, stream);
    }
    while (reader && (result = log_reader_next(reader, &event, error)) == LOG_READER_EVENT) {
        const char *wrong = check_any(&check, substream, &event);

        if (wrong) {
            g_set_error(error, VERIFY_ERROR, VERIFY_ERROR_LOG, "%s: byte %" PRIu64 ": in the block "
                        "that begins here, %s at position %" PRIu64 ": %s",
                        log_reader_path(reader), log_reader_block(reader),
                        log_event_name(event.kind), event.position, wrong);
            return false;
        }
        if (log_reader_at_block_end(reader)) {
            const LogTotals *totals = log_reader_totals(reader);

            log->events = totals->events;
            log->bytes = totals->good_bytes;
            log->last = totals->last;
            log->reached = substream == LOG_ORDER ? check.reached : event.position;
        }
    }
    if (result == LOG_READER_END) {
        log->bytes = log_reader_totals(reader)->good_bytes;     /* an empty last block counts */
        log->cut_off = log_reader_cut_off(reader);
    }
    return result == LOG_READER_END;
}
