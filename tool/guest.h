/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that runs already, of somebody else: over its QMP socket, or through
 * libvirt, which has the socket to itself.  Nothing is changed by connecting, or by
 * going away at any moment.
 */
#ifndef TOOL_GUEST_H
#define TOOL_GUEST_H

#include <glib.h>
#include <stdbool.h>

#include "tool/json-reader.h"
#include "tool/qmp-client.h"

/* One of @qmp and @domain. */
typedef struct GuestAddress {
    char *qmp;                  /* path of a socket */
    char *domain;               /* name of libvirt's */
    char *connect;              /* URI of its libvirtd; NULL: libvirt's default */
} GuestAddress;

typedef struct Guest Guest;

Guest *guest_open(const GuestAddress *address, GError **error);
void guest_free(Guest *guest);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Guest, guest_free)

/*
 * Runs a QMP command; @arguments is a JSON object, or NULL.  Returns the answer, of
 * which the member "return" has what was asked for.
 */
JsonValue *guest_execute(Guest *guest, const char *command, const char *arguments,
                         GError **error);

/* guest-libvirt.c, or a stand-in: the same for a domain. */
typedef struct LibvirtDomain LibvirtDomain;
LibvirtDomain *libvirt_domain_open(const char *uri, const char *name, GError **error);
char *libvirt_domain_execute(LibvirtDomain *domain, const char *command, GError **error);
void libvirt_domain_free(LibvirtDomain *domain);

#endif
