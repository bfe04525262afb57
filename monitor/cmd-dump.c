/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise dump`: the events of a recording's logs, a line each.  It reads the
 * logs alone, so that a recording whose other files are lost can be looked at.
 */
#include <glib.h>
#include <stdio.h>

#include "hw/recorder/log-block.h"
#include "replay/log-reader.h"
#include "tool.h"

typedef struct Dump {
    char *directory;
    int64_t vcpu;               /* -1: not only one */
    gboolean dma;               /* only DMA */
    int64_t count;              /* of lines that may still be printed; -1: no limit */
    unsigned n_vcpus;
} Dump;

/* One of the logs that are merged. */
typedef struct Input {
    LogReader *reader;          /* NULL: there is no such log */
    LogReaderResult result;
    LogEvent event;
} Input;

static bool advance(Input *input, GError **error)
{
    input->result = log_reader_next(input->reader, &input->event, error);
    return input->result != LOG_READER_BAD;
}

/* The log whose event comes next; at the same position, order before data. */
static LogSubstream choose(const Input *inputs)
{
    const Input *order = &inputs[LOG_ORDER];
    const Input *data = &inputs[LOG_DATA];

    if (!data->reader || data->result != LOG_READER_EVENT) {
        return LOG_ORDER;
    }
    if (order->result != LOG_READER_EVENT) {
        return LOG_DATA;
    }
    return order->event.position <= data->event.position ? LOG_ORDER : LOG_DATA;
}

static void print_event(const char *stream, LogSubstream substream, const LogEvent *event)
{
    g_autofree char *fields = log_event_format_fields(event);

    printf("%s %-5s  @%" G_GUINT64_FORMAT "  %s%s%s\n", stream, log_substream_name(substream),
           event->position, log_event_name(event->kind), *fields ? " " : "", fields);
}

static bool merge(Dump *dump, const char *stream, Input *inputs, GError **error)
{
    for (;;) {
        LogSubstream next = choose(inputs);

        if (inputs[next].result != LOG_READER_EVENT) {
            break;
        }
        print_event(stream, next, &inputs[next].event);
        /* What comes after the last line wanted may be damaged. */
        if (dump->count > 0 && --dump->count == 0) {
            return true;
        }
        if (!advance(&inputs[next], error)) {
            return false;
        }
    }
    for (int i = 0; i < LOG_SUBSTREAMS; i++) {
        if (inputs[i].reader && inputs[i].result == LOG_READER_END &&
            log_reader_cut_off(inputs[i].reader)) {
            printf("%s %-5s  cut off after @%" G_GUINT64_FORMAT "\n", stream,
                   log_substream_name(i), log_reader_totals(inputs[i].reader)->last);
        }
    }
    return true;
}

static bool dump_stream(Dump *dump, unsigned stream, GError **error)
{
    g_autofree char *name = stream == dump->n_vcpus ? g_strdup("dma")
                                                    : g_strdup_printf("vcpu %u", stream);
    Input inputs[LOG_SUBSTREAMS] = { 0 };
    bool ok = true;

    for (int i = 0; i < LOG_SUBSTREAMS && ok; i++) {
        if (log_file_exists(dump->n_vcpus, stream, i)) {
            inputs[i].reader = log_reader_open(dump->directory, dump->n_vcpus, stream, i, error);
            ok = inputs[i].reader && advance(&inputs[i], error);
        }
    }
    ok = ok && merge(dump, name, inputs, error);
    for (int i = 0; i < LOG_SUBSTREAMS; i++) {
        log_reader_free(inputs[i].reader);
    }
    return ok;
}

/* Digits only; GOption would take "-1" and "0x10" too. */
static gboolean parse_number(const char *option, const char *text, gpointer data, GError **error)
{
    Dump *dump = data;
    bool is_vcpu = g_str_equal(option, "--vcpu");
    guint64 value;

    if (!g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT64, &value, NULL)) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                    "%s wants a number, got '%s'", option, text);
        return FALSE;
    }
    *(is_vcpu ? &dump->vcpu : &dump->count) = value;
    return TRUE;
}

static bool parse_arguments(Dump *dump, int *argc, char ***argv, GError **error)
{
    const GOptionEntry entries[] = {
        { "vcpu", 0, 0, G_OPTION_ARG_CALLBACK, parse_number, NULL, NULL },
        { "dma", 0, 0, G_OPTION_ARG_NONE, &dump->dma, NULL, NULL },
        { "count", 0, 0, G_OPTION_ARG_CALLBACK, parse_number, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    GOptionGroup *group = g_option_group_new("dump", "", "", dump, NULL);

    g_option_group_add_entries(group, entries);
    g_option_context_set_main_group(context, group);
    g_option_context_set_help_enabled(context, FALSE);
    return g_option_context_parse(context, argc, argv, error);
}

static bool dump_streams(Dump *dump, GError **error)
{
    unsigned first = 0;
    unsigned last;

    dump->n_vcpus = last = log_directory_n_vcpus(dump->directory, error);
    if (dump->n_vcpus == 0) {
        return false;
    }
    if (dump->vcpu >= (int64_t)dump->n_vcpus) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                    "%s has no vCPU %" G_GINT64_FORMAT "; its vCPUs are 0 to %u",
                    dump->directory, dump->vcpu, dump->n_vcpus - 1);
        return false;
    }
    if (dump->vcpu >= 0) {
        first = last = dump->vcpu;
    } else if (dump->dma) {
        first = last;
    }
    for (unsigned stream = first; stream <= last && dump->count != 0; stream++) {
        if (!dump_stream(dump, stream, error)) {
            return false;
        }
    }
    return true;
}

int run_dump(int argc, char **argv)
{
    Dump dump = { .vcpu = -1, .count = -1 };
    g_autoptr(GError) error = NULL;

    if (!parse_arguments(&dump, &argc, &argv, &error)) {
        return usage_error("dump: %s", error->message);
    }
    if (argc != 2) {
        return argc < 2 ? usage_error("%s", "dump: which recording? Give its directory")
                        : usage_error("dump takes one directory, got '%s' too", argv[2]);
    }
    if (dump.dma && dump.vcpu >= 0) {
        return usage_error("%s", "dump: --vcpu and --dma exclude each other");
    }
    dump.directory = argv[1];
    return dump_streams(&dump, &error) ? STATUS_OK : input_error(error);
}
