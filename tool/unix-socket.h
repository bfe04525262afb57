/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unix sockets, by path.
 */
#ifndef TOOL_UNIX_SOCKET_H
#define TOOL_UNIX_SOCKET_H

#include <glib.h>
#include <stdbool.h>
#include <sys/un.h>

/* For connect() and bind(); false and @error if it is too long. */
bool unix_socket_address(const char *path, struct sockaddr_un *address, GError **error);

/*
 * Listens there, for this user alone; returns the descriptor, which children inherit, or -1 and
 * @error.  A socket that nobody listens on any more is replaced; whatever else has that name is
 * left as it is.
 */
int unix_socket_listen(const char *path, GError **error);

#endif
