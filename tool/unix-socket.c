/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unix sockets that have a path.
 */
#include "tool/unix-socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

bool unix_socket_address(const char *path, struct sockaddr_un *address, GError **error)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(address->sun_path)) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NAMETOOLONG,
                    "the path of the socket %s is too long: give a shorter one", path);
        return false;
    }
    strcpy(address->sun_path, path);
    return true;
}

static int refuse(GError **error, const char *path, const char *why)
{
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "cannot listen on %s: %s", path, why);
    return -1;
}

/*
 * Remove a socket on which no process listens.  Return true if nothing is in the way of bind();
 * false and @error if a process listens there, or the file is no socket.
 */
static bool remove_stale(const struct sockaddr_un *address, GError **error)
{
    const char *path = address->sun_path;
    struct stat info;
    int fd, result, why;

    if (lstat(path, &info) < 0) {
        return true;            /* if the path cannot be used, bind() reports why */
    }
    if (!S_ISSOCK(info.st_mode)) {
        refuse(error, path, "it exists, and is no socket: give another path");
        return false;
    }
    /* Only connect() shows whether a process listens.  A busy one must not block the tool. */
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    result = connect(fd, (const struct sockaddr *)address, sizeof(*address));
    why = errno;
    close(fd);
    if (result == 0 || why == EAGAIN) {
        refuse(error, path, "somebody else does already: give another path");
        return false;
    }
    if (why != ECONNREFUSED) {
        refuse(error, path, g_strerror(why));
        return false;
    }
    unlink(path);
    return true;
}

int unix_socket_listen(const char *path, GError **error)
{
    struct sockaddr_un address;
    mode_t mask;
    int fd, result;

    if (!unix_socket_address(path, &address, error) || !remove_stale(&address, error)) {
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    mask = umask(0077);
    result = bind(fd, (const struct sockaddr *)&address, sizeof(address));
    umask(mask);
    if (result == 0) {
        result = listen(fd, 1);
    }
    if (result < 0) {
        refuse(error, path, g_strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}
