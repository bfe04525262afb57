/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise dump`: prints the events of a recording's logs, a line each.  The command reads the
 * logs alone, so that it also works on a recording whose other files are lost.
 */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "recording/log-block.h"
#include "recording/log-reader.h"
#include "recording/position.h"
#include "tool/json.h"
#include "tool/tool.h"

typedef struct Dump {
    char *directory;
    int64_t vcpu;               /* print only this vCPU; -1: all streams */
    gboolean dma;               /* print only DMA */
    int64_t count;              /* lines that may still be printed; -1: no limit */
    char *from;                 /* a position or a point; NULL: the start */
    gboolean json;
    unsigned n_vcpus;
    Position *first;            /* first position to print, for each stream; DMA is the last */
} Dump;

static void dump_clear(Dump *dump)
{
    g_free(dump->from);
    g_free(dump->first);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Dump, dump_clear)

static const char usage[] =
    "usage: reprise dump DIR [OPTION...]\n"
    "\n"
    "Print the events of a recording's logs, a line each: whose, which log, the\n"
    "position, what.  Needs the logs alone.\n"
    "\n"
    "  --vcpu N      only this vCPU\n"
    "  --dma         only what devices wrote to memory\n"
    "  --from POS    from this position on, of every stream; or from a point,\n"
    "                0:1500,1:0, and all of DMA\n"
    "  --count N     no more than so many events\n"
    "  --json        each event as a JSON object, with all of its bytes\n"
    "  --help        show this text\n"
    "\n"
    "exit status: 0 success; 2 the logs cannot be read, or not to their end\n";

/* One of the logs of a stream, which are merged. */
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

/*
 * Return the log whose event comes next.  At the same position, order comes before data, and both
 * come after the ends of the episodes before.
 */
static LogSubstream choose(const Input *inputs)
{
    static const LogSubstream turns[] = { LOG_KARMA, LOG_RERUN, LOG_ORDER, LOG_DATA };
    LogSubstream next = LOG_ORDER;
    bool found = false;

    for (unsigned i = 0; i < G_N_ELEMENTS(turns); i++) {
        const Input *input = &inputs[turns[i]];

        if (input->reader && input->result == LOG_READER_EVENT &&
            (!found || input->event.position < inputs[next].event.position)) {
            next = turns[i];
            found = true;
        }
    }
    return next;
}

/* --- an event ---------------------------------------------------------------- */

/* Begin an object on one line, with the stream and the log of an event. */
static void json_begin(Json *json, const Dump *dump, unsigned stream, LogSubstream substream)
{
    json_init_line(json);
    json_open(json, NULL, '{');
    if (stream < dump->n_vcpus) {
        json_u64(json, "vcpu", stream);
    } else {
        json_null(json, "vcpu");        /* DMA */
    }
    json_string(json, "log", log_substream_name(substream));
}

static void json_print(Json *json)
{
    g_autofree char *line = NULL;

    json_close(json, '{');
    line = json_finish(json);
    fputs(line, stdout);
}

/* Addresses and digests become text: programs that read numbers as doubles would lose bits. */
static void json_field(Json *json, const LogEventInfo *info, unsigned i, uint64_t value)
{
    if (info->set[i]) {
        json_open(json, info->field[i], '[');
        for (unsigned stream = 0; stream < 64; stream++) {
            if (value >> stream & 1) {
                json_u64(json, NULL, stream);
            }
        }
        json_close(json, '[');
    } else if (info->hex[i]) {
        g_autofree char *text = g_strdup_printf("0x%" G_GINT64_MODIFIER "x", value);

        json_string(json, info->field[i], text);
    } else {
        json_u64(json, info->field[i], value);
    }
}

static char *hex_bytes(const LogEvent *event)
{
    static const char digits[] = "0123456789abcdef";
    char *text = g_malloc(2 * event->n_bytes + 1);

    for (size_t i = 0; i < event->n_bytes; i++) {
        text[2 * i] = digits[event->bytes[i] >> 4];
        text[2 * i + 1] = digits[event->bytes[i] & 15];
    }
    text[2 * event->n_bytes] = '\0';
    return text;
}

static void print_json(const Dump *dump, unsigned stream, LogSubstream substream,
                       const LogEvent *event)
{
    const LogEventInfo *info = &log_event_table()[event->kind];
    Json json;

    json_begin(&json, dump, stream, substream);
    json_u64(&json, "position", event->position);
    json_string(&json, "event", info->name);
    json_open(&json, "fields", '{');
    for (unsigned i = 0; i < info->n_values; i++) {
        json_field(&json, info, i, event->value[i]);
    }
    if (info->has_bytes) {
        g_autofree char *bytes = hex_bytes(event);

        json_string(&json, "bytes", bytes);
    }
    json_close(&json, '{');
    json_print(&json);
}

static char *stream_name(const Dump *dump, unsigned stream)
{
    return stream == dump->n_vcpus ? g_strdup("dma") : g_strdup_printf("vcpu %u", stream);
}

static void print_event(const Dump *dump, unsigned stream, LogSubstream substream,
                        const LogEvent *event)
{
    g_autofree char *name = NULL;
    g_autofree char *fields = NULL;

    if (dump->json) {
        print_json(dump, stream, substream, event);
        return;
    }
    name = stream_name(dump, stream);
    fields = log_event_format_fields(event);
    printf("%s %-5s  @%" G_GUINT64_FORMAT "  %s%s%s\n", name, log_substream_name(substream),
           event->position, log_event_name(event->kind), *fields ? " " : "", fields);
}

static void print_cut_off(const Dump *dump, unsigned stream, LogSubstream substream,
                          Position last)
{
    if (dump->json) {
        Json json;

        json_begin(&json, dump, stream, substream);
        json_u64(&json, "cut_off_after", last);
        json_print(&json);
    } else {
        g_autofree char *name = stream_name(dump, stream);

        printf("%s %-5s  cut off after @%" G_GUINT64_FORMAT "\n", name,
               log_substream_name(substream), last);
    }
}

/* --- a stream ---------------------------------------------------------------- */

static bool merge(Dump *dump, unsigned stream, Input *inputs, GError **error)
{
    for (;;) {
        LogSubstream next = choose(inputs);

        if (inputs[next].result != LOG_READER_EVENT) {
            break;
        }
        if (inputs[next].event.position >= dump->first[stream]) {
            print_event(dump, stream, next, &inputs[next].event);
            /* The log behind the last wanted line is not read, and may be damaged. */
            if (dump->count > 0 && --dump->count == 0) {
                return true;
            }
        }
        if (!advance(&inputs[next], error)) {
            return false;
        }
    }
    for (int i = 0; i < LOG_SUBSTREAMS; i++) {
        if (inputs[i].reader && inputs[i].result == LOG_READER_END &&
            log_reader_cut_off(inputs[i].reader)) {
            print_cut_off(dump, stream, i, log_reader_totals(inputs[i].reader)->last);
        }
    }
    return true;
}

static bool dump_stream(Dump *dump, unsigned stream, GError **error)
{
    Input inputs[LOG_SUBSTREAMS] = { 0 };
    OrderSet orders = log_directory_orders(dump->directory);
    bool ok = true;

    for (int i = 0; i < LOG_SUBSTREAMS && ok; i++) {
        if (log_file_exists(dump->n_vcpus, orders, stream, i)) {
            inputs[i].reader = log_reader_open(dump->directory, dump->n_vcpus, stream, i, error);
            ok = inputs[i].reader && advance(&inputs[i], error);
        }
    }
    ok = ok && merge(dump, stream, inputs, error);
    for (int i = 0; i < LOG_SUBSTREAMS; i++) {
        log_reader_free(inputs[i].reader);
    }
    return ok;
}

/* --- the command line -------------------------------------------------------- */

/* Parse decimal digits only; GOption would also accept "-1" and "0x10". */
static bool parse_number(const char *option, const char *text, int64_t *number, int *status)
{
    guint64 value;

    if (!text) {
        return true;
    }
    if (!g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT64, &value, NULL)) {
        g_autofree char *what = g_strdup_printf("dump: %s wants a number, got '%s'", option, text);

        *status = usage_error("%s", what);
        return false;
    }
    *number = value;
    return true;
}

static bool parse_arguments(Dump *dump, int argc, char **argv, int *status)
{
    g_autofree char *vcpu = NULL;
    g_autofree char *count = NULL;
    gboolean help = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        { "vcpu", 0, 0, G_OPTION_ARG_STRING, &vcpu, NULL, NULL },
        { "dma", 0, 0, G_OPTION_ARG_NONE, &dump->dma, NULL, NULL },
        { "from", 0, 0, G_OPTION_ARG_STRING, &dump->from, NULL, NULL },
        { "count", 0, 0, G_OPTION_ARG_STRING, &count, NULL, NULL },
        { "json", 0, 0, G_OPTION_ARG_NONE, &dump->json, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };

    if (!parse_options("dump", entries, &help, usage, &argc, &argv, status) ||
        !parse_number("--vcpu", vcpu, &dump->vcpu, status) ||
        !parse_number("--count", count, &dump->count, status)) {
        return false;
    }
    if (argc < 2) {
        *status = usage_error("%s", "dump: which recording? Give its directory");
    } else if (argc > 2) {
        *status = usage_error("dump takes one directory, got '%s' too", argv[2]);
    } else if (dump->dma && dump->vcpu >= 0) {
        *status = usage_error("%s", "dump: --vcpu and --dma exclude each other");
    } else {
        dump->directory = argv[1];
        return true;
    }
    return false;
}

/* Parse --from into @dump->first.  A point gives a position per vCPU, a position is for all. */
static bool find_first(Dump *dump, GError **error)
{
    g_autoptr(Point) point = NULL;
    guint64 position = 0;

    dump->first = g_new0(Position, dump->n_vcpus + 1);
    if (dump->from && strchr(dump->from, ':')) {
        point = point_parse(dump->from, dump->n_vcpus, error);
        if (!point) {
            return false;
        }
        memcpy(dump->first, point->at, dump->n_vcpus * sizeof(Position));
        return true;
    }
    if (dump->from && !g_ascii_string_to_unsigned(dump->from, 10, 0, G_MAXUINT64, &position,
                                                  NULL)) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                    "--from wants a position or a point, 1500 or 0:1500,1:0, got '%s'",
                    dump->from);
        return false;
    }
    for (unsigned i = 0; i <= dump->n_vcpus; i++) {
        dump->first[i] = position;
    }
    return true;
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
    if (!find_first(dump, error)) {
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
    g_auto(Dump) dump = { .vcpu = -1, .count = -1 };
    g_autoptr(GError) error = NULL;
    int status;

    if (!parse_arguments(&dump, argc, argv, &status)) {
        return status;
    }
    return dump_streams(&dump, &error) ? STATUS_OK : input_error(error);
}
