/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise compare`: compares two runs that should be the same, a recording and a trace of its
 * replay, or two traces.  Finds, for each vCPU, the first position that both runs logged and at
 * which registers or device stores differ.
 *
 * Only order logs are read.  Those of a trace hold registers and digests, and nothing else.  If
 * the start of a log was dropped, its first registers come from the first checkpoint.
 */
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>

#include "recording/log-reader.h"
#include "recording/registers.h"
#include "recording/verify.h"
#include "tool/tool.h"

/* The log of one vCPU of one run, read up to a digest. */
typedef struct Side {
    const char *directory;
    const RegisterSet *set;
    LogReader *reader;
    bool more;                  /* false: the log has ended */
    Position position;
    uint64_t digest;
    uint64_t stores;
    Registers registers;
} Side;

/*
 * Read the log up to its next digest, or to its end (then @side->more is false).  Return false and
 * set @error if the log is bad.
 */
static bool advance(Side *side, GError **error)
{
    LogEvent event;

    for (;;) {
        const char *wrong;

        switch (log_reader_next(side->reader, &event, error)) {
        case LOG_READER_EVENT:
            break;
        case LOG_READER_END:
            side->more = false;
            return true;
        case LOG_READER_BAD:
            return false;
        }
        if (event.kind == LOG_EVENT_REGISTERS) {
            wrong = registers_apply(side->set, &side->registers, event.bytes, event.n_bytes);
            if (wrong) {
                g_set_error(error, LOG_READER_ERROR, LOG_READER_ERROR_DAMAGED,
                            "%s: registers at %" PRIu64 ": %s", log_reader_path(side->reader),
                            event.position, wrong);
                return false;
            }
        }
        if (event.kind == LOG_EVENT_DIGEST || event.kind == LOG_EVENT_END) {
            side->more = true;
            side->position = event.position;
            side->digest = event.value[0];
            side->stores = event.value[1];
            return true;
        }
    }
}

static bool same(const Side *a, const Side *b)
{
    return a->digest == b->digest && a->stores == b->stores;
}

static void print_row(const char *name, uint64_t a, uint64_t b)
{
    if (a != b) {
        printf("  %-17s  %016" PRIx64 "  %016" PRIx64 "\n", name, a, b);
    }
}

static void print_difference(unsigned vcpu, const Side *a, const Side *b, uint64_t compared,
                             Position same_at)
{
    printf("vCPU %u differs at position %" PRIu64, vcpu, a->position);
    if (compared > 0) {
        printf(", was the same at %" PRIu64 "\n", same_at);
    } else {
        printf(", the first that both have\n");
    }
    printf("  %-17s  %-16s  %s\n", "register", a->directory, b->directory);
    for (unsigned i = 0; i < a->set->count; i++) {
        g_autofree char *name = register_name(a->set, i);

        print_row(name, a->registers.value[i], b->registers.value[i]);
    }
    print_row("(device stores)", a->stores, b->stores);
}

/*
 * Compare the digests that both logs have at the same position, up to the first difference, and
 * print the result.  *@compared is the number of equal ones.  Return false and set @error if a log
 * is bad.
 */
static bool compare_vcpu(unsigned vcpu, Side *a, Side *b, bool *differs, uint64_t *compared,
                         GError **error)
{
    Position same_at = 0;

    *differs = false;
    *compared = 0;
    if (!advance(a, error) || !advance(b, error)) {
        return false;
    }
    while (a->more && b->more) {
        bool step_a = a->position <= b->position;
        bool step_b = b->position <= a->position;

        if (step_a && step_b) {
            *differs = !same(a, b);
            if (*differs) {
                print_difference(vcpu, a, b, *compared, same_at);
                return true;
            }
            same_at = a->position;
            ++*compared;
        }
        if ((step_a && !advance(a, error)) || (step_b && !advance(b, error))) {
            return false;
        }
    }
    printf("vCPU %u is the same at %" PRIu64 " positions", vcpu, *compared);
    if (*compared > 0) {
        printf(", the last %" PRIu64, same_at);
    }
    putchar('\n');
    return true;
}

/*
 * Open the order log of @vcpu.  Registers are logged as differences.  If the start of the log was
 * dropped, the first ones are differences from the registers that the first checkpoint holds.
 */
static bool open_side(Side *side, const char *directory, unsigned n_vcpus, unsigned vcpu,
                      GError **error)
{
    g_autoptr(Manifest) manifest = NULL;
    g_autoptr(CheckpointPosition) first = NULL;
    Position reached;

    side->directory = directory;
    side->set = register_set_load(directory, error);
    if (!side->set) {
        return false;
    }
    side->reader = log_reader_open(directory, n_vcpus, vcpu, LOG_ORDER, error);
    if (!side->reader || !log_reader_dropped(side->reader, &reached)) {
        return side->reader;
    }
    manifest = manifest_load(directory, error);
    first = manifest ? verify_first_place(directory, manifest) : NULL;
    if (manifest && !first) {
        g_set_error(error, LOG_READER_ERROR, LOG_READER_ERROR_DAMAGED,
                    "%s: the logs' start was dropped, and no checkpoint tells what it was",
                    directory);
    }
    if (first && first->n_vcpus > vcpu) {
        side->registers = first->logged[vcpu];
    }
    return first;
}

static bool compare(char **directories, bool *differ, uint64_t *compared, GError **error)
{
    unsigned n_vcpus = log_directory_n_vcpus(directories[0], error);

    *differ = false;
    *compared = 0;
    for (unsigned vcpu = 0; vcpu < n_vcpus; vcpu++) {
        Side sides[2] = { 0 };
        bool ok = true, one_differs;
        uint64_t one_compared;

        for (int i = 0; i < 2 && ok; i++) {
            ok = open_side(&sides[i], directories[i], n_vcpus, vcpu, error);
        }
        if (ok && sides[0].set != sides[1].set) {
            g_set_error(error, LOG_READER_ERROR, LOG_READER_ERROR_DAMAGED,
                        "%s is of an %s guest, %s of an %s guest", directories[0],
                        sides[0].set->arch, directories[1], sides[1].set->arch);
            ok = false;
        }
        ok = ok && compare_vcpu(vcpu, &sides[0], &sides[1], &one_differs, &one_compared, error);
        log_reader_free(sides[0].reader);
        log_reader_free(sides[1].reader);
        if (!ok) {
            return false;
        }
        *differ |= one_differs;
        *compared += one_compared;
    }
    return n_vcpus > 0;
}

static const char usage[] =
    "usage: reprise compare DIR DIR\n"
    "\n"
    "Find the first position of each vCPU at which two recordings, or traces of\n"
    "replays (reprise replay --trace), have different registers, and print those.\n"
    "\n"
    "  --help          show this text\n"
    "\n"
    "exit status: 0 all the same; 1 different; 2 they cannot be compared\n";

int run_compare(int argc, char **argv)
{
    gboolean help = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    g_autoptr(GError) error = NULL;
    uint64_t compared;
    bool differ;
    int status;

    if (!parse_options("compare", entries, &help, usage, &argc, &argv, &status)) {
        return status;
    }
    if (argc != 3) {
        return usage_error("compare takes two directories, recordings or traces%s",
                           argc < 3 ? "" : ", and nothing else");
    }
    if (!compare(argv + 1, &differ, &compared, &error)) {
        return input_error(error);
    }
    if (!differ && compared == 0) {
        fprintf(stderr, "reprise: %s and %s have no position in common: use the same "
                "--trace-interval\n", argv[1], argv[2]);
        return STATUS_USAGE;
    }
    return differ ? STATUS_DIVERGED : STATUS_OK;
}
