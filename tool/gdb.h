/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The address at which a debugger reaches QEMU's gdbstub, and a gdb that the tool starts.
 *
 * The tool makes the listening socket, and QEMU inherits it.  So the tool reports at once an
 * address that is in use, and a debugger that connects too early waits.
 */
#ifndef TOOL_GDB_H
#define TOOL_GDB_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/emulator.h"

typedef struct GdbAddress {
    int fd;                     /* the listening socket; -1: closed */
    char *remote;               /* argument of gdb's `target remote` */
    bool is_port;
    char *path;                 /* of the socket file that the tool made; NULL: none */
    dev_t device;               /* of that file */
    ino_t inode;
    char *directory;            /* private directory of the socket; NULL: none */
    char *commands;             /* file in @directory with commands for gdb; NULL: none */
    char *x86_16, *x86_32;      /* files for the command `bits`; NULL: none */
} GdbAddress;

#define GDB_ADDRESS_NONE { .fd = -1 }

/*
 * Listen on a port of 127.0.0.1 (0: any free one), on a Unix socket, or on a Unix socket in a
 * private directory.  Call one of these, once, on GDB_ADDRESS_NONE.  Return false and @error if
 * that fails.  gdb_address_clear() is needed in both cases.
 */
bool gdb_address_port(GdbAddress *address, uint16_t port, GError **error);
bool gdb_address_socket(GdbAddress *address, const char *path, GError **error);
bool gdb_address_private(GdbAddress *address, GError **error);

/*
 * Write @address->commands and what these need, files beside a private socket that
 * gdb_address_clear() removes.
 * Return false and @error if that fails.
 */
bool gdb_address_add_commands(GdbAddress *address, GError **error);

/* Close the socket, which QEMU has inherited.  Its path is kept, to be removed later. */
void gdb_address_close(GdbAddress *address);

/* Close the socket, remove the files that were made, and free the strings. */
void gdb_address_clear(GdbAddress *address);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(GdbAddress, gdb_address_clear)

/*
 * Return the path of the program @given, or of gdb-multiarch or else gdb if @given is NULL, to be
 * freed by the caller; NULL and @error if it is not installed.
 */
char *gdb_find(const char *given, GError **error);

typedef struct Gdb Gdb;

/*
 * Start gdb on the tool's terminal, which is gdb's alone, including Ctrl-C, until gdb ends.
 * @emulator must outlive the result.
 */
Gdb *gdb_start(char **argv, Emulator *emulator, GError **error);
/* End gdb if it still runs. */
void gdb_free(Gdb *gdb);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Gdb, gdb_free)

/* Return the deadline for emulator_wait() after which gdb_has_ended() must be called again. */
int64_t gdb_deadline(const Gdb *gdb);
/* Return true if gdb has ended.  *@status is its exit status, or 128 + signal, as in shells. */
bool gdb_has_ended(Gdb *gdb, int *status);

#endif
