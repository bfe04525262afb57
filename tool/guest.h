/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that runs already, in a QEMU that the tool did not start.  The guest is reached over its
 * QMP socket, or through libvirt, which keeps the socket to itself.  Connecting and disconnecting,
 * at any moment, do not change the guest.
 */
#ifndef TOOL_GUEST_H
#define TOOL_GUEST_H

#include <glib.h>
#include <stdbool.h>

#include "tool/json-reader.h"
#include "tool/qmp-client.h"

/* Exactly one of @qmp and @domain is set. */
typedef struct GuestAddress {
    char *qmp;                  /* path of a QMP socket */
    char *domain;               /* name of a libvirt domain */
    char *connect;              /* libvirt URI; NULL: libvirt's default */
} GuestAddress;

typedef struct Guest Guest;

/*
 * Connect to a guest; NULL and @error if it cannot be reached.  Over QMP, QEMU must greet within 10
 * seconds.
 */
Guest *guest_open(const GuestAddress *address, GError **error);
void guest_free(Guest *guest);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Guest, guest_free)

/*
 * Run a QMP command and wait for its end, without a limit.  @arguments is a JSON object, or NULL.
 * Return the answer, to be freed by the caller, whose member "return" holds the result; NULL and
 * @error if QEMU refuses or is gone.
 */
JsonValue *guest_execute(Guest *guest, const char *command, const char *arguments,
                         GError **error);

/*
 * For guests that are reached over QMP, without waiting.  guest_send() sends a command, and returns
 * false if QEMU is gone.  guest_take_message() returns the next event, or answer to such a command,
 * that has come, to be freed by the caller; NULL if there is none.  guest_fd() is to be polled for
 * POLLIN; it is -1 when QEMU is gone.  guest_keep_events() keeps events from now on, also those
 * that come during guest_execute().
 */
void guest_keep_events(Guest *guest);
bool guest_send(Guest *guest, const char *command, const char *arguments);
JsonValue *guest_take_message(Guest *guest);
int guest_fd(const Guest *guest);
/* Return the process at the other end of the QMP socket as a pidfd, the caller's; -1: not known. */
int guest_process(const Guest *guest);

/*
 * The same for a libvirt domain (guest-libvirt.c, or stubs in a build without libvirt).
 * libvirt_domain_execute() takes and returns a QMP message; the result is to be freed.
 */
typedef struct LibvirtDomain LibvirtDomain;
LibvirtDomain *libvirt_domain_open(const char *uri, const char *name, GError **error);
char *libvirt_domain_execute(LibvirtDomain *domain, const char *command, GError **error);
void libvirt_domain_free(LibvirtDomain *domain);

#endif
