/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The messages of a QMP connection: JSON objects, a line each.  Receiving never blocks: the caller
 * polls qmp_client_fd().
 */
#ifndef TOOL_QMP_CLIENT_H
#define TOOL_QMP_CLIENT_H

#include <glib.h>
#include <stdbool.h>

#include "tool/json-reader.h"

/* The longest message that is accepted, in bytes.  No command of the tool has a longer answer. */
#define QMP_MAX_MESSAGE (1 << 20)

typedef struct QmpClient QmpClient;

/* Make a client on the connected socket @fd, which the client closes. */
QmpClient *qmp_client_new(int fd);
void qmp_client_free(QmpClient *client);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(QmpClient, qmp_client_free)

/* Return the descriptor to poll for POLLIN; -1 when QEMU has closed the connection. */
int qmp_client_fd(const QmpClient *client);

/* Send a command.  @arguments is a JSON object, or NULL.  Return false and @error if closed. */
bool qmp_client_send(QmpClient *client, const char *command, const char *arguments,
                     GError **error);

/*
 * Return true if @message is the answer to the last command.  Answers to a client that was
 * connected earlier, and did not wait for them, may arrive here.
 */
bool qmp_client_answers(const QmpClient *client, const JsonValue *message);

/* Read what has arrived, if anything, without blocking. */
void qmp_client_receive(QmpClient *client);

/*
 * Return the next message, to be freed by the caller.  Return NULL if none is complete, and set
 * @error if QEMU sent something that is not QMP.
 */
JsonValue *qmp_client_next(QmpClient *client, GError **error);

#define QMP_ERROR qmp_error_quark()
GQuark qmp_error_quark(void);

typedef enum QmpError {
    QMP_ERROR_CLOSED,           /* QEMU is gone */
    QMP_ERROR_PROTOCOL,         /* the peer does not speak QMP */
    QMP_ERROR_REFUSED,          /* QEMU answered with an error */
    QMP_ERROR_INTERRUPTED,      /* a signal told the tool to end */
} QmpError;

#endif
