/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The manifest: what a recording says about itself.  Together with the logs and
 * the checkpoints it is all that replay needs.  docs/log-format.md, "Manifest",
 * lists the keys.
 *
 * It is saved when recording starts, with each checkpoint, and when recording
 * ends.  Until then complete is false and there is no end: that is what a killed
 * recorder leaves behind.
 */
#ifndef RECORDING_MANIFEST_H
#define RECORDING_MANIFEST_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "recording/orders.h"
#include "recording/position.h"

/* The manifest owns its strings: store copies (g_strdup()).  NULL stands for "". */
typedef struct Manifest {
    /* The build that recorded; manifest_new() fills in the first three. */
    unsigned log_version;
    char *reprise_version;
    char *patch_level;
    char *qemu_version;

    /* The machine, as on QEMU's command line. */
    char *arch;                 /* "aarch64" */
    char *machine;              /* "virt-10.0" */
    char *machine_options;      /* "gic-version=3,its=on", or "" */
    char *cpu;                  /* "cortex-a72,pmu=off" */
    unsigned n_vcpus;
    uint64_t ram_size;          /* bytes */

    /* Where the guest's output goes, so that replay can show it again. */
    char *console;              /* "pl011"; "" if there is none */
    uint64_t console_address;   /* guest-physical, of the data register; 0 if none */

    Orders orders;              /* of steps, that were recorded */
    RaceOrder follow;           /* the one that replay follows; not saved */

    char *start;                /* MANIFEST_START_... */
    int64_t start_time;         /* seconds since 1970; informational */

    /*
     * Checkpoints have the state of devices, so the guest can go on from them.  How its QEMU was
     * started is for the user to see: a recording may come from anybody, so nothing is run unasked.
     */
    bool live;
    bool standby;               /* so have epochs, while the recording is made: epoch-state.h */
    char **command;             /* QEMU's command line; NULL: unknown */
    char *command_directory;    /* where it was started; "" if unknown */
    char **devices;             /* path and type of each device, sorted */
    char **disks;               /* those that the guest may write, sorted; NULL: none */

    /* The end.  The fields from @seconds on have no meaning unless @end is set. */
    bool complete;
    char *end_reason;           /* "stopped", "guest-shutdown", ... */
    Point *end;                 /* NULL: unknown (recording, killed, or repaired) */
    Point *cut;                 /* replay goes no further; NULL: as far as the logs go */
    double seconds;
    uint64_t *register_digests; /* one per vCPU */
    char *ram_digest;           /* recording/ram-digest.h */
    uint64_t *instructions;     /* one per vCPU */
    uint64_t arcs;              /* WAITs, or else what the first order of @orders has */

    /* Directories of the checkpoints, below the recording's, oldest first; of char *. */
    GPtrArray *checkpoints;
} Manifest;

#define MANIFEST_FILE "manifest"
#define MANIFEST_START_POWER_ON "power-on"
#define MANIFEST_START_RUNNING  "running"

/* Limits of what a reader accepts. */
#define MANIFEST_MAX_BYTES       (1 << 20)
#define MANIFEST_MAX_RAM         (UINT64_C(1) << 44)
#define MANIFEST_MAX_CHECKPOINTS 10000
#define MANIFEST_MAX_WORDS       1000       /* of QEMU's command line */
#define MANIFEST_MAX_DEVICES     5000
#define MANIFEST_MAX_DISKS       100

/*
 * Return the manifest of a recording that this build starts, of a machine with
 * @n_vcpus.  Per-vCPU arrays are allocated and zeroed; @end is NULL.  The order is FDR's.
 */
Manifest *manifest_new(unsigned n_vcpus);
void manifest_free(Manifest *manifest);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Manifest, manifest_free)

/* Set the orders that are recorded.  Replay follows the first of them. */
void manifest_set_orders(Manifest *manifest, const Orders *orders);
/*
 * Let replay follow the order of this name; NULL: the first one.  Return false and @error if the
 * recording in @directory does not have it.
 */
bool manifest_follow(Manifest *manifest, const char *directory, const char *name, GError **error);

void manifest_add_checkpoint(Manifest *manifest, const char *name);

/* Write DIR/manifest, and sync it.  A crash leaves the former manifest or the new one. */
bool manifest_save(const Manifest *manifest, const char *directory, GError **error);
/*
 * The same in the directory that is open as @directory_fd, even if it was renamed.  @directory is
 * its name for messages.
 */
bool manifest_save_at(const Manifest *manifest, int directory_fd, const char *directory,
                      GError **error);

/*
 * Read DIR/manifest, and trust nothing in it.  A manifest that was loaded is
 * sound, but may be of another build; see manifest_check_replayable().
 */
Manifest *manifest_load(const char *directory, GError **error);

/* Return true if @text is UTF-8, and all of it printable: so it can be a line of a manifest. */
bool manifest_is_line(const char *text);

/* Return true if this build can replay it: the log version and the patches to QEMU are the same. */
bool manifest_check_replayable(const Manifest *manifest, GError **error);

#define MANIFEST_ERROR manifest_error_quark()
GQuark manifest_error_quark(void);

typedef enum ManifestError {
    MANIFEST_ERROR_IO,          /* cannot be read or written */
    MANIFEST_ERROR_FOREIGN,     /* not a manifest at all */
    MANIFEST_ERROR_INVALID,     /* a key is missing or has an impossible value */
    MANIFEST_ERROR_VERSION,     /* made by another Reprise, or needs a newer one */
} ManifestError;

#endif
