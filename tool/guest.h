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
 * The same for a libvirt domain (guest-libvirt.c, or stubs in a build without libvirt).
 * libvirt_domain_execute() takes and returns a QMP message; the result is to be freed.
 */
typedef struct LibvirtDomain LibvirtDomain;
LibvirtDomain *libvirt_domain_open(const char *uri, const char *name, GError **error);
char *libvirt_domain_execute(LibvirtDomain *domain, const char *command, GError **error);
void libvirt_domain_free(LibvirtDomain *domain);

#endif
