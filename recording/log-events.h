/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything that a log can say, in one list: the enum, the printable names,
 * the writer, the reader and the dumper are made from it, and cannot drift.
 *
 * A vCPU has two logs.  In the *order* log, an event happens between two steps,
 * at its position; replay runs up to the next one and stops there.  In the
 * *data* log are values that instructions consume in program order: replay does
 * not stop for them, it finds its position to be the recorded one.  The DMA
 * pseudo-processor has an order log alone; its position counts its writes.
 *
 * WAITs of a step come before all other events of it (order log).
 *
 * X(kind, name, log, account, fields): account says under which heading
 * `reprise info` counts the bytes; fields names the integers of the event, in
 * order, separated by spaces; "bytes" as the last one is a run of bytes.
 */
#ifndef RECORDING_LOG_EVENTS_H
#define RECORDING_LOG_EVENTS_H

#include <stdbool.h>

#define LOG_EVENTS(X) \
    /* may not go on before stream has ended that many steps */ \
    X(WAIT,      "wait",      ORDER, RACE,  "stream steps") \
    /* an interrupt was taken; the delivery is a step */ \
    X(INTERRUPT, "interrupt", ORDER, INPUT, "exception level") \
    /* a halted vCPU went on */ \
    X(WAKE,      "wake",      ORDER, INPUT, "") \
    /* a step without effect: an instruction was tried, and had to wait */ \
    X(STEP,      "step",      ORDER, RACE,  "") \
    /* another changed tables: drop the translation of a page, or all (all ones) */ \
    X(DROP,      "drop",      ORDER, RACE,  "address") \
    /* firmware turned the vCPU on */ \
    X(START,     "start",     ORDER, INPUT, "entry context level") \
    /* check: registers, and all device stores so far */ \
    X(DIGEST,    "digest",    ORDER, CHECK, "registers stores") \
    /* the DMA pseudo-processor wrote guest RAM */ \
    X(DMA_WRITE, "dma-write", ORDER, DMA,   "address bytes") \
    /* the recording ends here */ \
    X(END,       "end",       ORDER, CHECK, "registers stores") \
    /* a device load, and whether the bus answered */ \
    X(LOAD,      "load",      DATA,  INPUT, "value result") \
    /* a device store that the bus refused (others are not inputs) */ \
    X(STORE_RESULT, "store-result", DATA, INPUT, "result") \
    /* a system register that looks outside */ \
    X(SYSREG,    "sysreg",    DATA,  INPUT, "value") \
    /* WFI: did it halt? */ \
    X(WFI,       "wfi",       DATA,  INPUT, "halted") \
    /* a firmware call: does it return, with what? */ \
    X(PSCI,      "psci",      DATA,  INPUT, "returns result") \
    /* what the next digest or end is of (registers.h) */ \
    X(REGISTERS, "registers", ORDER, CHECK, "changed bytes") \
    /* nothing: the vCPU came so far, for those who wait for it if the log is cut off */ \
    X(MARK,      "mark",      ORDER, RACE,  "") \
    /* a walk set a flag: the whole word; that is a step */ \
    X(ACCESS_FLAG, "access-flag", ORDER, INPUT, "address value")

typedef enum LogEventKind {
#define X(kind, name, log, account, fields) LOG_EVENT_##kind,
    LOG_EVENTS(X)
#undef X
    LOG_EVENT_KINDS
} LogEventKind;

typedef enum LogSubstream {
    LOG_ORDER,
    LOG_DATA,
    LOG_SUBSTREAMS
} LogSubstream;

typedef enum LogAccount {
    LOG_ACCOUNT_RACE,
    LOG_ACCOUNT_INPUT,
    LOG_ACCOUNT_DMA,
    LOG_ACCOUNT_CHECK,
    LOG_ACCOUNTS
} LogAccount;

#define LOG_EVENT_MAX_FIELDS 4

/* The list above, taken apart.  Constant; any thread may read it. */
typedef struct LogEventInfo {
    const char *name;
    LogSubstream substream;
    LogAccount account;
    unsigned n_values;                          /* integer fields */
    char field[LOG_EVENT_MAX_FIELDS][16];       /* their names */
    bool hex[LOG_EVENT_MAX_FIELDS];             /* people read it in hexadecimal */
    bool has_bytes;                             /* a run of bytes follows */
} LogEventInfo;

/* LOG_EVENT_KINDS entries. */
const LogEventInfo *log_event_table(void);

const char *log_event_name(LogEventKind kind);
/* Is the event a step itself?  Then it is the last at its position. */
bool log_event_is_step(LogEventKind kind);
const char *log_substream_name(LogSubstream substream);
const char *log_account_name(LogAccount account);

#endif
