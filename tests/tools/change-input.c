/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Copies the logs of a recording and changes one input, for the tests of divergence.  Prints the
 * position of that input.
 *
 *     change-input FROM TO KIND POSITION
 *
 * The first event of this kind at or after the position gets the lowest bit of its first value
 * flipped.  TO must exist and have no logs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "recording/log-block.h"
#include "tests/recording/log-test.h"

static void check(bool ok, GError *error)
{
    if (!ok) {
        g_printerr("change-input: %s\n", error ? error->message : "failed");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    g_autoptr(LogWriter) writer = NULL;
    GError *error = NULL;
    bool changed = false;
    unsigned n_vcpus;

    check(argc == 5, NULL);
    n_vcpus = log_directory_n_vcpus(argv[1], &error);
    check(n_vcpus > 0, error);
    writer = log_writer_new(argv[2], n_vcpus, ORDER_SET_FDR, &error);
    check(writer, error);
    for (unsigned i = 0; i <= n_vcpus; i++) {
        LogStream *stream = log_writer_stream(writer, i);

        for (int log = 0; log < LOG_SUBSTREAMS; log++) {
            g_autoptr(LogReader) reader = NULL;
            LogEvent event;

            if (!log_file_exists(n_vcpus, ORDER_SET_FDR, i, log)) {
                continue;
            }
            reader = log_reader_open(argv[1], n_vcpus, i, log, &error);
            check(reader, error);
            while (log_reader_next(reader, &event, &error) == LOG_READER_EVENT) {
                if (!changed && g_str_equal(log_event_name(event.kind), argv[3]) &&
                    event.position >= g_ascii_strtoull(argv[4], NULL, 10)) {
                    event.value[0] ^= 1;
                    changed = true;
                    printf("%" G_GUINT64_FORMAT "\n", event.position);
                }
                write_event(stream, &event);
                log_stream_boundary(stream);
            }
            check(!error, error);
        }
    }
    check(changed && log_writer_finish(writer, &error), error);
    return 0;
}
