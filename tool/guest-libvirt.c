/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest of libvirt: virDomainQemuMonitorCommand() passes QMP through.
 *
 * The library is loaded only when it is needed.  With its dependencies, it takes ten times as long
 * to load as the tool itself.  A tool built without libvirt's headers gets stubs that report this.
 */
#include "tool/guest.h"

#ifdef HAVE_LIBVIRT

#include <dlfcn.h>
#include <stdlib.h>

#include <libvirt/libvirt.h>
#include <libvirt/libvirt-qemu.h>
#include <libvirt/virterror.h>

/* This library is linked with libvirt.so, so dlsym() finds the functions of both. */
#define LIBRARY "libvirt-qemu.so.0"

#define FUNCTIONS(X) \
    X(virConnectClose) \
    X(virConnectOpen) \
    X(virDomainFree) \
    X(virDomainIsActive) \
    X(virDomainLookupByName) \
    X(virDomainQemuMonitorCommand) \
    X(virGetLastErrorMessage) \
    X(virSetErrorFunc)

static struct {
#define X(name) __typeof__(name) *name;
    FUNCTIONS(X)
#undef X
} lib;

struct LibvirtDomain {
    virConnectPtr connection;
    virDomainPtr domain;
};

static bool load(GError **error)
{
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
#define X(name) { #name, G_STRUCT_OFFSET(__typeof__(lib), name) },
        FUNCTIONS(X)
#undef X
    };
    void *handle = dlopen(LIBRARY, RTLD_NOW);
    bool ok = handle;

    for (size_t i = 0; ok && i < G_N_ELEMENTS(functions); i++) {
        void **slot = (void **)((char *)&lib + functions[i].offset);

        ok = (*slot = dlsym(handle, functions[i].name)) != NULL;
    }
    if (!ok) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_CLOSED,
                    "cannot load libvirt (%s): install libvirt0, or use --qmp", dlerror());
    }
    return ok;
}

/* Replace libvirt's default error handler, which prints every error. */
static void say_nothing(void *opaque G_GNUC_UNUSED, virErrorPtr error G_GNUC_UNUSED)
{
}

static void set_error(GError **error, const char *what)
{
    g_autofree char *why = g_strdup(lib.virGetLastErrorMessage());

    g_set_error(error, QMP_ERROR, QMP_ERROR_CLOSED, "%s: %s", what,
                why ? g_strdelimit(why, "\n", ' ') : "unknown error");
}

LibvirtDomain *libvirt_domain_open(const char *uri, const char *name, GError **error)
{
    LibvirtDomain *domain;

    if (!load(error)) {
        return NULL;
    }
    domain = g_new0(LibvirtDomain, 1);
    lib.virSetErrorFunc(NULL, say_nothing);
    domain->connection = lib.virConnectOpen(uri);
    if (!domain->connection) {
        set_error(error, "cannot connect to libvirt");
    } else if (!(domain->domain = lib.virDomainLookupByName(domain->connection, name))) {
        set_error(error, "libvirt");
    } else if (lib.virDomainIsActive(domain->domain) != 1) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_CLOSED,
                    "the domain '%s' does not run: start it first (virsh start)", name);
    } else {
        return domain;
    }
    libvirt_domain_free(domain);
    return NULL;
}

char *libvirt_domain_execute(LibvirtDomain *domain, const char *command, GError **error)
{
    char *answer = NULL, *copy;

    if (lib.virDomainQemuMonitorCommand(domain->domain, command, &answer, 0) < 0) {
        set_error(error, "libvirt");
        return NULL;
    }
    copy = g_strdup(answer);
    free(answer);
    return copy;
}

void libvirt_domain_free(LibvirtDomain *domain)
{
    if (!domain) {
        return;
    }
    if (domain->domain) {
        lib.virDomainFree(domain->domain);
    }
    if (domain->connection) {
        lib.virConnectClose(domain->connection);
    }
    g_free(domain);
}

#else

LibvirtDomain *libvirt_domain_open(const char *uri G_GNUC_UNUSED, const char *name G_GNUC_UNUSED,
                                   GError **error)
{
    g_set_error(error, QMP_ERROR, QMP_ERROR_CLOSED, "this reprise was built without libvirt: "
                "install libvirt-dev, remove build/core, run ./configure and make; or use --qmp");
    return NULL;
}

char *libvirt_domain_execute(LibvirtDomain *domain G_GNUC_UNUSED,
                             const char *command G_GNUC_UNUSED, GError **error G_GNUC_UNUSED)
{
    g_assert_not_reached();
}

void libvirt_domain_free(LibvirtDomain *domain)
{
    g_assert(!domain);
}

#endif
