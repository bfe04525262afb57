/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise repair`: cuts a recording that is damaged, or was never finished, to the part that can
 * be replayed.
 */
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>

#include "recording/log-format.h"
#include "recording/manifest.h"
#include "recording/repair.h"
#include "recording/verify.h"
#include "tool/tool.h"

static const char usage[] =
    "usage: reprise repair DIR [--dry-run]\n"
    "\n"
    "Cut a recording that is damaged, or whose recorder was killed, to the longest\n"
    "part from its start that can be replayed.  Logs are cut behind their last good\n"
    "block, and the manifest says that the recording is not complete, why, and how\n"
    "far it goes.  Nothing is lost: what is cut off, and the former manifest, are\n"
    "kept in DIR/" REPAIR_CUT_OFF ".\n"
    "\n"
    "  --dry-run  only say what would be done\n"
    "  --help     show this text\n"
    "\n"
    "What cannot be repaired: the manifest, the first 32 bytes of a log, the\n"
    "checkpoint at the start.  A recording that is being made must be stopped first.\n"
    "\n"
    "exit status: 0 repaired, or there was nothing to repair; 2 it cannot be\n"
    "repaired, and why\n";

static void show(const char *directory, const RepairPlan *plan, bool dry_run)
{
    g_autofree char *cut = point_format(plan->cut);

    for (unsigned i = 0; i < plan->files->len; i++) {
        const RepairFile *file = plan->files->pdata[i];

        printf("%s/%s: %" PRIu64 " of %" PRIu64 " bytes are kept: %s\n", directory, file->name,
               file->kept, file->size, file->why);
    }
    if (plan->checkpoint_fault) {
        printf("%s: this checkpoint and later ones are left out\n", plan->checkpoint_fault);
    }
    if (dry_run) {
        printf("%s would replay up to %s; nothing was changed\n", directory, cut);
    } else {
        printf("%s was repaired and replays up to %s; what was cut off is in %s/%s\n", directory,
               cut, directory, REPAIR_CUT_OFF);
    }
}

static int not_repairable(const char *directory, const char *why)
{
    fflush(stdout);
    fprintf(stderr, "reprise: %s cannot be repaired: %s\n", directory, why);
    return STATUS_USAGE;
}

/* Nothing is to be cut.  Return STATUS_OK, or report a fault that cutting does not repair. */
static int nothing_to_do(const char *directory, const Manifest *manifest)
{
    g_auto(Verified) verified = { 0 };

    verify_recording(directory, manifest, &verified);
    if (verified.faults->len > 0) {
        return not_repairable(directory, verified.faults->pdata[0]);
    }
    printf("%s needs no repair\n", directory);
    return STATUS_OK;
}

static int repair(const char *directory, bool dry_run)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Manifest) manifest = manifest_load(directory, &error);
    g_autoptr(RepairPlan) plan = NULL;

    if (!manifest) {
        return input_error(error);
    }
    if (manifest->log_version != LOG_VERSION) {
        fprintf(stderr, "reprise: %s has log format %u, this reprise repairs format %d\n",
                directory, manifest->log_version, LOG_VERSION);
        return STATUS_USAGE;
    }
    plan = repair_plan(directory, manifest, &error);
    if (!plan) {
        return not_repairable(directory, error->message);
    }
    if (!plan->needed) {
        return nothing_to_do(directory, manifest);
    }
    if (!dry_run && !repair_do(directory, manifest, plan, &error)) {
        return input_error(error);
    }
    show(directory, plan, dry_run);
    return STATUS_OK;
}

int run_repair(int argc, char **argv)
{
    gboolean help = FALSE, dry_run = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        { "dry-run", 'n', 0, G_OPTION_ARG_NONE, &dry_run, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    int status;

    if (!parse_options("repair", entries, &help, usage, &argc, &argv, &status)) {
        return status;
    }
    if (argc != 2) {
        return argc < 2 ? usage_error("%s", "repair: which recording? Give its directory")
                        : usage_error("repair takes one directory, got '%s' too", argv[2]);
    }
    return repair(argv[1], dry_run);
}
