/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Summaries of logs for users: an event as text, the totals of a whole log.
 */
#include "recording/log-reader.h"

/* Append a set of streams, "{0,2}". */
static void format_set(GString *text, uint64_t set)
{
    const char *before = "{";

    for (unsigned i = 0; i < 64; i++) {
        if (set >> i & 1) {
            g_string_append_printf(text, "%s%u", before, i);
            before = ",";
        }
    }
    g_string_append(text, set ? "}" : "{}");
}

char *log_event_format_fields(const LogEvent *event)
{
    const LogEventInfo *info = &log_event_table()[event->kind];
    GString *text = g_string_new(NULL);

    for (unsigned i = 0; i < info->n_values; i++) {
        g_string_append_printf(text, "%s%s=", i ? " " : "", info->field[i]);
        if (info->set[i]) {
            format_set(text, event->value[i]);
        } else {
            g_string_append_printf(text, info->hex[i] ? "0x%" G_GINT64_MODIFIER "x"
                                                      : "%" G_GUINT64_FORMAT, event->value[i]);
        }
    }
    if (info->has_bytes) {
        g_string_append_printf(text, "%sbytes=%zu", text->len ? " " : "", event->n_bytes);
    }
    return g_string_free(text, FALSE);
}

char *log_event_format(const LogEvent *event)
{
    g_autofree char *fields = log_event_format_fields(event);

    return g_strdup_printf("%s at %" G_GUINT64_FORMAT "%s%s", log_event_name(event->kind),
                           event->position, *fields ? ": " : "", fields);
}

bool log_reader_cut_off(const LogReader *reader)
{
    return log_reader_totals(reader)->cut_off;
}

bool log_totals_read(const char *directory, unsigned n_vcpus, unsigned stream,
                     LogSubstream substream, LogTotals *totals, GError **error)
{
    g_autoptr(LogReader) reader = log_reader_open(directory, n_vcpus, stream, substream, error);
    LogReaderResult result = LOG_READER_BAD;
    LogEvent event;

    if (reader) {
        do {
            result = log_reader_next(reader, &event, error);
        } while (result == LOG_READER_EVENT);
        *totals = *log_reader_totals(reader);
    }
    return result == LOG_READER_END;
}
