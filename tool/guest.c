/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that runs already, reached over its QMP socket or through libvirt.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* struct ucred */
#endif
#include "tool/guest.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tool/unix-socket.h"

/* QEMU greets at once, unless another client is connected. */
#define GREETING_US (10 * G_USEC_PER_SEC)

struct Guest {
    QmpClient *qmp;             /* NULL: @domain is set */
    LibvirtDomain *domain;      /* NULL: @qmp is set */
    GQueue *events;             /* JsonValue * that came during commands; NULL: they are dropped */
};

/* --- QMP ---------------------------------------------------------------------- */

static int connect_to(const char *path, GError **error)
{
    struct sockaddr_un address;
    int fd;

    if (!unix_socket_address(path, &address, error)) {
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_CLOSED,
                    "cannot connect to %s: %s (start QEMU with -qmp unix:%s,server=on,wait=off)",
                    path, g_strerror(errno), path);
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

/*
 * Return true if @message may be a greeting.  Before it, events may come, and answers to a client
 * that was connected earlier.
 */
static bool is_first(const JsonValue *message)
{
    return !json_member(message, "event") && !json_member(message, "return") &&
           !json_member(message, "error");
}

static void keep_event(Guest *guest, JsonValue **message)
{
    if (guest->events && json_member(*message, "event")) {
        g_queue_push_tail(guest->events, g_steal_pointer(message));
    }
}

/*
 * Return the greeting, or the answer to the last command, to be freed by the caller.  Return NULL
 * and @error if the connection is closed, or with the text @silence after @deadline.
 */
static JsonValue *receive(Guest *guest, bool greeting, int64_t deadline, const char *silence,
                          GError **error)
{
    QmpClient *qmp = guest->qmp;
    g_autoptr(GError) trouble = NULL;

    for (;;) {
        g_autoptr(JsonValue) message = qmp_client_next(qmp, &trouble);
        struct pollfd fd = { .fd = qmp_client_fd(qmp), .events = POLLIN };
        int64_t left = deadline - g_get_monotonic_time();

        if (message && (greeting ? is_first(message) : qmp_client_answers(qmp, message))) {
            return g_steal_pointer(&message);
        }
        if (trouble) {
            g_propagate_error(error, g_steal_pointer(&trouble));
            return NULL;
        }
        if (message) {
            keep_event(guest, &message);
            continue;
        }
        if (fd.fd < 0 || left <= 0) {
            g_set_error(error, QMP_ERROR, QMP_ERROR_CLOSED, "%s",
                        fd.fd < 0 ? "QEMU no longer answers" : silence);
            return NULL;
        }
        poll(&fd, 1, deadline == INT64_MAX ? -1 : (int)(left / 1000 + 1));
        qmp_client_receive(qmp);
    }
}

static bool greet(Guest *guest, const char *path, GError **error)
{
    g_autofree char *silence = g_strdup_printf(
        "nobody answers on %s: QEMU talks with one at a time, is somebody else connected?", path);
    g_autoptr(JsonValue) greeting = receive(guest, true,
                                            g_get_monotonic_time() + GREETING_US, silence, error);
    g_autoptr(JsonValue) answer = NULL;

    if (!greeting) {
        return false;
    }
    if (!json_member(greeting, "QMP")) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_PROTOCOL, "%s is no QMP socket of QEMU", path);
        return false;
    }
    answer = guest_execute(guest, "qmp_capabilities", NULL, error);
    return answer != NULL;
}

/* --- the interface ------------------------------------------------------------ */

Guest *guest_open(const GuestAddress *address, GError **error)
{
    g_autoptr(Guest) guest = g_new0(Guest, 1);
    int fd;

    if (address->domain) {
        guest->domain = libvirt_domain_open(address->connect, address->domain, error);
        return guest->domain ? g_steal_pointer(&guest) : NULL;
    }
    fd = connect_to(address->qmp, error);
    if (fd < 0) {
        return NULL;
    }
    guest->qmp = qmp_client_new(fd);
    return greet(guest, address->qmp, error) ? g_steal_pointer(&guest) : NULL;
}

void guest_keep_events(Guest *guest)
{
    guest->events = guest->events ?: g_queue_new();
}

bool guest_send(Guest *guest, const char *command, const char *arguments)
{
    return qmp_client_send(guest->qmp, command, arguments, NULL);
}

JsonValue *guest_take_message(Guest *guest)
{
    JsonValue *message = g_queue_pop_head(guest->events);

    if (!message) {
        qmp_client_receive(guest->qmp);
        message = qmp_client_next(guest->qmp, NULL);
    }
    return message;
}

int guest_fd(const Guest *guest)
{
    return qmp_client_fd(guest->qmp);
}

int guest_process(const Guest *guest)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(guest_fd(guest), SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        return -1;
    }
    return pidfd_open(peer.pid, 0);
}

void guest_free(Guest *guest)
{
    if (guest) {
        if (guest->events) {
            g_queue_free_full(guest->events, (GDestroyNotify)json_value_free);
        }
        qmp_client_free(guest->qmp);
        libvirt_domain_free(guest->domain);
        g_free(guest);
    }
}

static JsonValue *ask_libvirt(Guest *guest, const char *command, const char *arguments,
                              GError **error)
{
    g_autofree char *text = g_strdup_printf("{\"execute\": \"%s\", \"arguments\": %s}",
                                            command, arguments ? arguments : "{}");
    g_autofree char *answer = libvirt_domain_execute(guest->domain, text, error);

    return answer ? json_parse(answer, strlen(answer), error) : NULL;
}

JsonValue *guest_execute(Guest *guest, const char *command, const char *arguments,
                         GError **error)
{
    g_autoptr(JsonValue) answer = NULL;
    const JsonValue *refusal;

    if (guest->domain) {
        answer = ask_libvirt(guest, command, arguments, error);
    } else if (qmp_client_send(guest->qmp, command, arguments, error)) {
        answer = receive(guest, false, INT64_MAX, "", error);
    }
    refusal = json_member(answer, "error");
    if (refusal) {
        const char *why = json_member_string(refusal, "desc");
        bool unknown = g_strcmp0(json_member_string(refusal, "class"), "CommandNotFound") == 0;

        g_set_error(error, QMP_ERROR, QMP_ERROR_REFUSED, "%s%s", why ? why : command,
                    unknown ? ": is the guest's QEMU one of Reprise?" : "");
        return NULL;
    }
    return g_steal_pointer(&answer);
}
