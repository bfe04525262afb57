/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All events of a log, in one list: the enum, the printable names, the writer,
 * the reader and the dumper are made from it, and cannot drift.
 *
 * A vCPU has at least two logs.  In the *order* log, an event happens between two steps,
 * at its position; replay runs up to the next event and stops there.  The *data*
 * log has the values that instructions consume, in program order: replay does
 * not stop for them, but checks that it consumes each at the recorded position.
 * The DMA pseudo-processor has no data log; its position counts its steps.
 *
 * FDR's order of steps is in the order log: the WAITs of a step come before all its other events.
 * Those of Karma and Rerun are in logs of their own, the *karma* log and the *rerun* log, which
 * have the episodes of a stream (karma-episodes.h, rerun-episodes.h), each where it ends.  orders.h
 * says which orders a recording can have.
 *
 * X(kind, name, log, account, step, fields): account says under which heading
 * `reprise info` counts the bytes.  step is true if the event is itself a step, and
 * hence the last at its position.  fields names the integers of the event, in order,
 * separated by spaces; ":x" after a name marks an address, a register or a digest,
 * which is printed in hexadecimal; ":s" marks a set of streams, a bit for each; "bytes" as the last
 * one is a run of bytes.
 */
#ifndef RECORDING_LOG_EVENTS_H
#define RECORDING_LOG_EVENTS_H

#include <stdbool.h>

#include "recording/orders.h"

#define LOG_EVENTS(X) \
    /* this stream may not go on before the other one has ended that many steps */ \
    X(WAIT,      "wait",      ORDER, RACE,  false, "stream steps") \
    /* an interrupt was taken; the delivery is a step */ \
    X(INTERRUPT, "interrupt", ORDER, INPUT, true,  "number kind") \
    /* a halted vCPU went on */ \
    X(WAKE,      "wake",      ORDER, INPUT, true,  "") \
    /* a step without effect: an instruction was begun, and abandoned to wait */ \
    X(STEP,      "step",      ORDER, RACE,  true,  "") \
    /* another processor changed page tables: drop one translation, or all (all ones) */ \
    X(DROP,      "drop",      ORDER, RACE,  false, "address:x") \
    /* firmware turned the vCPU on */ \
    X(START,     "start",     ORDER, INPUT, true,  "entry:x context:x level") \
    /* for checking: digests of the registers, and of all device stores so far */ \
    X(DIGEST,    "digest",    ORDER, CHECK, false, "registers:x stores:x") \
    /* the DMA pseudo-processor wrote guest RAM */ \
    X(DMA_WRITE, "dma-write", ORDER, DMA,   true,  "address:x bytes") \
    /* the recording ends here */ \
    X(END,       "end",       ORDER, CHECK, false, "registers:x stores:x") \
    /* a device load, and whether the bus answered */ \
    X(LOAD,      "load",      DATA,  INPUT, false, "value:x result") \
    /* a device store that the bus refused (others are not inputs) */ \
    X(STORE_RESULT, "store-result", DATA, INPUT, false, "result") \
    /* a read of a system register whose value comes from outside the sphere */ \
    X(SYSREG,    "sysreg",    DATA,  INPUT, false, "value:x") \
    /* WFI: whether the vCPU halted */ \
    X(WFI,       "wfi",       DATA,  INPUT, false, "halted") \
    /* a firmware call: whether it returns, and its result */ \
    X(PSCI,      "psci",      DATA,  INPUT, false, "returns result") \
    /* the registers that the next digest or end is computed from (registers.h) */ \
    X(REGISTERS, "registers", ORDER, CHECK, false, "changed bytes") \
    /* no effect: the vCPU got here, which waiting streams need if the log is cut off */ \
    X(MARK,      "mark",      ORDER, RACE,  false, "") \
    /* a step: a page table walk set an access flag; the whole word */ \
    X(ACCESS_FLAG, "access-flag", ORDER, INPUT, true,  "address:x value:x") \
    /* Karma: an episode ended; sets of streams, and each stream of pred that counts once more */ \
    X(EPISODE,   "episode",   KARMA, KARMA, false, "pred:s succ:s bytes") \
    /* Karma: a barrier: no stream goes on before all others have come to theirs */ \
    X(CUT,       "cut",       KARMA, KARMA, false, "") \
    /* Rerun: an episode ended, and its time */ \
    X(STAMPED,   "stamped",   RERUN, RERUN, false, "time") \
    /* Rerun: a barrier, as CUT */ \
    X(STAMPED_CUT, "stamped-cut", RERUN, RERUN, false, "") \
    /* a step: the guest finds memory elsewhere; the new map, as text with that many ranges */ \
    X(MAP,       "map",       ORDER, INPUT, true,  "ranges bytes")

typedef enum LogEventKind {
#define X(kind, name, log, account, step, fields) LOG_EVENT_##kind,
    LOG_EVENTS(X)
#undef X
    LOG_EVENT_KINDS
} LogEventKind;

/* X(log, name): the logs of a stream, which are separate files. */
#define LOG_SUBSTREAM_LIST(X) \
    X(ORDER, "order") \
    X(DATA, "data") \
    X(KARMA, "karma") \
    X(RERUN, "rerun")

typedef enum LogSubstream {
#define X(log, name) LOG_##log,
    LOG_SUBSTREAM_LIST(X)
#undef X
    LOG_SUBSTREAMS
} LogSubstream;

/* X(account, name): the headings under which `reprise info` counts bytes. */
#define LOG_ACCOUNT_LIST(X) \
    X(RACE, "race") \
    X(INPUT, "input") \
    X(DMA, "dma") \
    X(CHECK, "check") \
    X(KARMA, "karma") \
    X(RERUN, "rerun")

typedef enum LogAccount {
#define X(account, name) LOG_ACCOUNT_##account,
    LOG_ACCOUNT_LIST(X)
#undef X
    LOG_ACCOUNTS
} LogAccount;

#define LOG_EVENT_MAX_FIELDS 4

/* An entry of the list above.  Constant; any thread may read it. */
typedef struct LogEventInfo {
    const char *name;
    LogSubstream substream;
    LogAccount account;
    bool is_step;
    unsigned n_values;                          /* integer fields */
    char field[LOG_EVENT_MAX_FIELDS][16];       /* their names */
    bool hex[LOG_EVENT_MAX_FIELDS];             /* printed in hexadecimal */
    bool set[LOG_EVENT_MAX_FIELDS];             /* a set of streams */
    bool has_bytes;                             /* a run of bytes follows */
} LogEventInfo;

/* Return the table of all LOG_EVENT_KINDS entries. */
const LogEventInfo *log_event_table(void);

const char *log_event_name(LogEventKind kind);
/* Return true if the event is itself a step, and hence the last at its position. */
bool log_event_is_step(LogEventKind kind);
const char *log_substream_name(LogSubstream substream);
const char *log_account_name(LogAccount account);
/*
 * Return true if an account that has @bytes belongs in a summary for users, of a recording with
 * these orders.  Accounts of other orders would only confuse.
 */
bool log_account_is_shown(LogAccount account, OrderSet orders, uint64_t bytes);
/* Return the log that has the order. */
LogSubstream log_of_order(RaceOrder order);
/* Return true if the event is a barrier at which all streams meet. */
static inline bool log_event_is_cut(LogEventKind kind)
{
    return kind == LOG_EVENT_CUT || kind == LOG_EVENT_STAMPED_CUT;
}

#endif
