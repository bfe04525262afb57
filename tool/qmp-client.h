/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The messages of a QMP connection: JSON objects, a line each.  It never waits;
 * whoever has the connection does.
 */
#ifndef TOOL_QMP_CLIENT_H
#define TOOL_QMP_CLIENT_H

#include <glib.h>
#include <stdbool.h>

#include "tool/json-reader.h"

/* More in one message is not what we asked for. */
#define QMP_MAX_MESSAGE (1 << 20)

typedef struct QmpClient QmpClient;

/* @fd is a connected socket, closed by qmp_client_free(). */
QmpClient *qmp_client_new(int fd);
void qmp_client_free(QmpClient *client);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(QmpClient, qmp_client_free)

/* To poll for POLLIN; -1 when the other side has closed. */
int qmp_client_fd(const QmpClient *client);

/* @arguments is a JSON object, or NULL. */
bool qmp_client_send(QmpClient *client, const char *command, const char *arguments,
                     GError **error);

/*
 * Is this the answer to the last command?  Those to whoever was connected before, and
 * did not wait, may come to us.
 */
bool qmp_client_answers(const QmpClient *client, const JsonValue *message);

/* Takes what has arrived, if anything. */
void qmp_client_receive(QmpClient *client);

/* The next message, NULL without @error if none is complete. */
JsonValue *qmp_client_next(QmpClient *client, GError **error);

#define QMP_ERROR qmp_error_quark()
GQuark qmp_error_quark(void);

typedef enum QmpError {
    QMP_ERROR_CLOSED,           /* the other side is gone */
    QMP_ERROR_PROTOCOL,         /* it does not speak QMP */
    QMP_ERROR_REFUSED,          /* it answered with an error */
    QMP_ERROR_INTERRUPTED,      /* we were told to end */
} QmpError;

#endif
