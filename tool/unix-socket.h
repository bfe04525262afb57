/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unix sockets that have a path.
 */
#ifndef TOOL_UNIX_SOCKET_H
#define TOOL_UNIX_SOCKET_H

#include <glib.h>
#include <stdbool.h>
#include <sys/un.h>

/* Fill in @address for connect() and bind().  Return false and @error if @path is too long. */
bool unix_socket_address(const char *path, struct sockaddr_un *address, GError **error);

/*
 * Listen on @path; only this user may connect.  Return the descriptor, which children inherit; -1
 * and @error on failure.  A socket on which no process listens any more is replaced.  Any other
 * file of that name is left untouched.
 */
int unix_socket_listen(const char *path, GError **error);

#endif
