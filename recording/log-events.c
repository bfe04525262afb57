/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The list of events (LOG_EVENTS) as a table, for the writer, the reader and
 * the dumper.
 */
#include <glib.h>
#include <pthread.h>
#include <string.h>

#include "recording/log-events.h"

/* Follow the name of a field that is printed in hexadecimal, or as a set of streams. */
#define HEX_MARK ":x"
#define SET_MARK ":s"

static LogEventInfo table[LOG_EVENT_KINDS] = {
#define X(kind, name_, log, account_, step, fields)                             \
    [LOG_EVENT_##kind] = {                                                      \
        .name = name_,                                                          \
        .substream = LOG_##log,                                                 \
        .account = LOG_ACCOUNT_##account_,                                      \
        .is_step = step,                                                        \
    },
    LOG_EVENTS(X)
#undef X
};

static const char *const field_lists[LOG_EVENT_KINDS] = {
#define X(kind, name, log, account, step, fields) [LOG_EVENT_##kind] = fields,
    LOG_EVENTS(X)
#undef X
};

/* Return true if the @n bytes at @field end with @mark. */
static bool has_mark(const char *field, size_t n, const char *mark)
{
    size_t length = strlen(mark);

    return n > length && strncmp(field + n - length, mark, length) == 0;
}

static void parse_fields(LogEventInfo *info, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, " ");

        /* "bytes" is the last field: nothing may come after it. */
        g_assert(n > 0 && !info->has_bytes);
        if (n == strlen("bytes") && strncmp(list, "bytes", n) == 0) {
            info->has_bytes = true;
        } else {
            unsigned i = info->n_values++;
            size_t length = MIN(n, strcspn(list, ":"));

            g_assert(i < LOG_EVENT_MAX_FIELDS && length < sizeof(info->field[i]));
            memcpy(info->field[i], list, length);
            info->hex[i] = has_mark(list, n, HEX_MARK);
            info->set[i] = has_mark(list, n, SET_MARK);
        }
        list += n;
        list += *list == ' ';
    }
}

static void parse_table(void)
{
    for (int kind = 0; kind < LOG_EVENT_KINDS; kind++) {
        parse_fields(&table[kind], field_lists[kind]);
    }
}

const LogEventInfo *log_event_table(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, parse_table);
    return table;
}

const char *log_event_name(LogEventKind kind)
{
    g_assert(kind < LOG_EVENT_KINDS);
    return table[kind].name;
}

bool log_event_is_step(LogEventKind kind)
{
    g_assert(kind < LOG_EVENT_KINDS);
    return table[kind].is_step;
}

const char *log_substream_name(LogSubstream substream)
{
    static const char *const names[LOG_SUBSTREAMS] = {
#define X(log, name) [LOG_##log] = name,
        LOG_SUBSTREAM_LIST(X)
#undef X
    };

    g_assert(substream < LOG_SUBSTREAMS);
    return names[substream];
}

const char *log_account_name(LogAccount account)
{
    static const char *const names[LOG_ACCOUNTS] = {
#define X(account, name) [LOG_ACCOUNT_##account] = name,
        LOG_ACCOUNT_LIST(X)
#undef X
    };

    g_assert(account < LOG_ACCOUNTS);
    return names[account];
}

bool log_account_is_shown(LogAccount account, OrderSet orders, uint64_t bytes)
{
    return bytes > 0 || (account == LOG_ACCOUNT_KARMA ? order_set_has(orders, RACE_KARMA) :
                         account != LOG_ACCOUNT_RERUN || order_set_has(orders, RACE_RERUN));
}

LogSubstream log_of_order(RaceOrder order)
{
    static const LogSubstream logs[RACE_ORDERS] = {
        [RACE_FDR] = LOG_ORDER,
        [RACE_KARMA] = LOG_KARMA,
        [RACE_RERUN] = LOG_RERUN,
    };

    g_assert(order < RACE_ORDERS);
    return logs[order];
}
