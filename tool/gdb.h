/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A debugger and QEMU's gdbstub: where they meet, and a gdb that we start ourselves.
 *
 * We listen, and QEMU inherits that: what is in use is found out at once and said in our words, and
 * a debugger that comes too early waits.
 */
#ifndef TOOL_GDB_H
#define TOOL_GDB_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/emulator.h"

typedef struct GdbAddress {
    int fd;                     /* listens */
    char *remote;               /* as gdb's `target remote` takes it */
    bool is_port;
    char *path;                 /* of a socket that we made; NULL: none */
    dev_t device;               /* of that */
    ino_t inode;
    char *directory;            /* made for it alone; NULL: not */
    char *commands;             /* a file of gdb's in there; NULL: none */
} GdbAddress;

#define GDB_ADDRESS_NONE { .fd = -1 }

/* One of these, once.  Port 0 is any that is free; it is on 127.0.0.1. */
bool gdb_address_port(GdbAddress *address, uint16_t port, GError **error);
bool gdb_address_socket(GdbAddress *address, const char *path, GError **error);
bool gdb_address_private(GdbAddress *address, GError **error);

/* Some commands for a gdb at a private one; gone with it. */
bool gdb_address_add_commands(GdbAddress *address, GError **error);

/* The rest is QEMU's; only the path remains to be removed. */
void gdb_address_close(GdbAddress *address);

void gdb_address_clear(GdbAddress *address);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(GdbAddress, gdb_address_clear)

/* The program: @given, or the best there is; NULL and @error if it is not installed. */
char *gdb_find(const char *given, GError **error);

typedef struct Gdb Gdb;

/* Starts it on our terminal, which it has to itself until it ends: also Ctrl-C is its. */
Gdb *gdb_start(char **argv, Emulator *emulator, GError **error);
/* Ends it if it still runs. */
void gdb_free(Gdb *gdb);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Gdb, gdb_free)

/* Until when emulator_wait() may wait, before gdb_has_ended() must be asked again. */
int64_t gdb_deadline(const Gdb *gdb);
/* Then @status is its exit status, or 128 and the signal, as shells have it. */
bool gdb_has_ended(Gdb *gdb, int *status);

#endif
