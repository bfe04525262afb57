/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The messages of a QMP connection.
 */
#include "tool/qmp-client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

G_DEFINE_QUARK(qmp-error-quark, qmp_error)

struct QmpClient {
    int fd;                     /* -1: closed */
    GString *input;
    unsigned n_sent;
    char *id;                   /* of the last command */
};

QmpClient *qmp_client_new(int fd)
{
    QmpClient *client = g_new0(QmpClient, 1);

    client->fd = fd;
    client->input = g_string_new(NULL);
    return client;
}

static void hang_up(QmpClient *client)
{
    if (client->fd >= 0) {
        close(client->fd);
        client->fd = -1;
    }
}

void qmp_client_free(QmpClient *client)
{
    if (!client) {
        return;
    }
    hang_up(client);
    g_string_free(client->input, TRUE);
    g_free(client->id);
    g_free(client);
}

int qmp_client_fd(const QmpClient *client)
{
    return client->fd;
}

bool qmp_client_send(QmpClient *client, const char *command, const char *arguments,
                     GError **error)
{
    g_autofree char *text = NULL;
    const char *at;
    size_t left;

    g_free(client->id);
    client->id = g_strdup_printf("reprise-%d-%u", (int)getpid(), client->n_sent++);
    at = text = g_strdup_printf("{\"execute\": \"%s\", \"arguments\": %s, \"id\": \"%s\"}\n",
                                command, arguments ? arguments : "{}", client->id);
    left = strlen(text);
    while (left > 0) {
        /* A closed connection is an error, not a SIGPIPE. */
        ssize_t sent = client->fd < 0 ? -1 : send(client->fd, at, left, MSG_NOSIGNAL);

        if (sent < 0 && (client->fd < 0 || errno != EINTR)) {
            g_set_error(error, QMP_ERROR, QMP_ERROR_CLOSED, "QEMU no longer answers");
            return false;
        }
        at += MAX(sent, 0);
        left -= MAX(sent, 0);
    }
    return true;
}

bool qmp_client_answers(const QmpClient *client, const JsonValue *message)
{
    return g_strcmp0(json_member_string(message, "id"), client->id) == 0 && client->id &&
           (json_member(message, "return") || json_member(message, "error"));
}

void qmp_client_receive(QmpClient *client)
{
    char bytes[4096];
    ssize_t n;

    while (client->fd >= 0 && client->input->len <= QMP_MAX_MESSAGE) {
        n = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n > 0) {
            g_string_append_len(client->input, bytes, n);
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else if (n == 0 || errno != EINTR) {
            hang_up(client);
        }
    }
}

JsonValue *qmp_client_next(QmpClient *client, GError **error)
{
    GString *input = client->input;
    const char *newline = memchr(input->str, '\n', input->len);
    g_autoptr(JsonValue) message = NULL;
    size_t length;

    if (!newline) {
        if (input->len > QMP_MAX_MESSAGE) {
            g_set_error(error, QMP_ERROR, QMP_ERROR_PROTOCOL,
                        "QEMU sent a message of more than %d bytes", QMP_MAX_MESSAGE);
        }
        return NULL;
    }
    length = newline - input->str;
    message = json_parse(input->str, length, error);
    g_string_erase(input, 0, length + 1);
    if (message && message->kind != JSON_OBJECT) {
        g_set_error(error, QMP_ERROR, QMP_ERROR_PROTOCOL, "QEMU sent no QMP message");
        return NULL;
    }
    return g_steal_pointer(&message);
}
