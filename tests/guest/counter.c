// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A server that counts requests, and a client that checks every answer.
 *
 * Usage:  counter serve [-e EVERY] [-f FILE] [-l LIE] PORT
 *         counter ask [-p SECONDS] [-w MILLISECONDS] ADDRESS PORT AMOUNT
 *         counter [-t THREADS] [-n ROUNDS] [THREADS [ROUNDS]]
 *
 * The server answers the request "K\n" with "K N\n".  N is its own count of requests, of all
 * connections.  With -e it prints "count N" for each N that EVERY divides, before it sends N.
 * With -f it appends "N" to a file, and has it on the disk, before it sends N.
 * With -l it does one thing wrong at the request number LIE_AT, to show that the client notices;
 * see `lies`.
 *
 * The client connects as soon as the server listens, and sends one request after another.  AMOUNT
 * is a number of answers, as 1000, or of seconds, as 2s.  With -w the client waits before each
 * request but the first.  It prints one line:
 *
 *   counter: answers=A first=N last=N median_ms=M longest_ms=L
 *
 * where the times are those from a request to its answer.  Then it exits with 0; or with 1 as soon
 * as it sees something wrong, which it names on stderr.  No answer in SECONDS (-p; 60) is wrong.
 *
 * Without a role, each thread is the client of a server of its own, a process, over the loopback
 * device.  That exercises the guest's network stack: sockets, software interrupts, TCP's timers.
 *
 * Self-check: each answer is that to the latest request.  Its count is one more than that before.
 * The connection is neither reset nor closed before the client has closed it.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define USAGE "usage: counter serve [-e EVERY] [-f FILE] [-l LIE] PORT\n" \
              "       counter ask [-p SECONDS] [-w MILLISECONDS] ADDRESS PORT AMOUNT\n"

#define LINE_SIZE 64            /* of a request or an answer */
#define LIE_AT 100              /* the count at which the server lies */
#define BACKLOG 8
#define RETRY_NS 20000000       /* between attempts to connect */

/* Of the times to answer, for their median; the last bucket also has all longer ones. */
#define BUCKET_NS 10000
#define BUCKETS 100000

typedef enum Lie {
    LIE_NONE, LIE_SKIP, LIE_REPEAT, LIE_RESTART, LIE_STALE, LIE_CLOSE, LIE_SILENT, LIE_LAST
} Lie;

static const char *const lies[LIE_LAST] = {
    [LIE_NONE] = "none",
    [LIE_SKIP] = "skip",                /* a count is left out */
    [LIE_REPEAT] = "repeat",            /* a count comes twice */
    [LIE_RESTART] = "restart",          /* the count begins at 1 again */
    [LIE_STALE] = "stale",              /* the answer is to the request before */
    [LIE_CLOSE] = "close",              /* the connection is closed */
    [LIE_SILENT] = "silent",            /* there is no answer */
};

/* A connection, and what was received of the next line. */
typedef struct Peer {
    int fd;
    size_t length;
    char text[LINE_SIZE];
} Peer;

/* What a client has seen. */
typedef struct Tally {
    uint64_t answers, first, last;      /* how many, and counts */
    uint64_t longest_ns;
    uint32_t buckets[BUCKETS];
} Tally;

static void __attribute__((noreturn)) usage_error(void)
{
    dprintf(STDERR_FILENO, USAGE);
    exit(2);
}

/* Return the number in the text; what may follow is one @unit, if that is not NULL. */
static unsigned long parse_number(const char *text, unsigned long max, const char *unit)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || errno || !value || value > max ||
        (*end && (!unit || strcmp(end, unit) != 0))) {
        usage_error();
    }
    return value;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec time = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

    nanosleep(&time, NULL);
}

/* --- lines -------------------------------------------------------------------------------- */

static struct sockaddr_in address_of(uint32_t host, unsigned port)
{
    return (struct sockaddr_in) {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(host), .sin_port = htons(port)
    };
}

/* Return false, with errno, if the connection has failed. */
static bool __attribute__((format(printf, 2, 3))) send_line(Peer *peer, const char *fmt, ...)
{
    char line[LINE_SIZE];
    int length;
    va_list ap;

    va_start(ap, fmt);
    length = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    return send(peer->fd, line, length, MSG_NOSIGNAL) == length;
}

/*
 * Put the next line, without its end, into @line, which has LINE_SIZE bytes.  Return false if
 * there is none: with 0 in errno where the peer has closed the connection, else with why.
 */
static bool receive_line(Peer *peer, char *line)
{
    char *end;
    size_t used;

    while (!(end = memchr(peer->text, '\n', peer->length))) {
        size_t room = sizeof(peer->text) - peer->length;
        ssize_t got = room ? recv(peer->fd, peer->text + peer->length, room, 0) : -1;

        if (got <= 0) {
            errno = got == 0 ? 0 : room ? errno : EMSGSIZE;
            return false;
        }
        peer->length += got;
    }
    used = end + 1 - peer->text;
    memcpy(line, peer->text, used);
    line[used - 1] = '\0';
    peer->length -= used;
    memmove(peer->text, end + 1, peer->length);
    return true;
}

static void send_at_once(int fd)
{
    int one = 1;

    check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0, "TCP_NODELAY: %m");
}

/* --- the server --------------------------------------------------------------------------- */

static _Atomic uint64_t *requests;      /* of all processes that serve a connection */
static unsigned long print_every;
static int journal = -1;                /* a file, or none */
static Lie lie;

/* Return the next count, true or not; @request: what will be answered. */
static uint64_t next_count(uint64_t *request)
{
    uint64_t count = atomic_fetch_add(requests, 1) + 1;

    if (count != LIE_AT) {
        return count;
    }
    switch (lie) {
    case LIE_SKIP:
        return atomic_fetch_add(requests, 1) + 1;
    case LIE_REPEAT:
        return atomic_fetch_sub(requests, 1) - 1;
    case LIE_RESTART:
        atomic_store(requests, 1);
        return 1;
    case LIE_STALE:
        --*request;
        return count;
    case LIE_CLOSE:
        _exit(0);
    case LIE_SILENT:
        pause();
        _exit(0);
    default:
        return count;
    }
}

static void write_down(uint64_t count)
{
    if (journal >= 0) {
        check(dprintf(journal, "%" PRIu64 "\n", count) > 0 && fdatasync(journal) == 0,
              "cannot write the journal: %m");
    }
}

/* Serve a connection until the client closes it, or is lost. */
static void serve_connection(int fd)
{
    Peer client = { .fd = fd };
    char line[LINE_SIZE];

    send_at_once(fd);
    while (receive_line(&client, line)) {
        char *end;
        uint64_t request = strtoull(line, &end, 10), count;

        check(*line && !*end, "request %s is no number", line);
        count = next_count(&request);
        write_down(count);
        if (print_every && count % print_every == 0) {
            dprintf(STDOUT_FILENO, "count %" PRIu64 "\n", count);
        }
        if (!send_line(&client, "%" PRIu64 " %" PRIu64 "\n", request, count)) {
            break;
        }
    }
    close(fd);
}

/* Return a socket that listens; @port: 0 stands for any. */
static int listen_at(uint32_t host, unsigned port)
{
    struct sockaddr_in address = address_of(host, port);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    check(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
          bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
          listen(fd, BACKLOG) == 0, "cannot listen at port %u: %m", port);
    return fd;
}

static int accept_from(int listener)
{
    int fd = accept(listener, NULL, NULL);

    check(fd >= 0, "accept: %m");
    return fd;
}

static Lie parse_lie(const char *name)
{
    for (Lie i = LIE_NONE; i < LIE_LAST; i++) {
        if (strcmp(name, lies[i]) == 0) {
            return i;
        }
    }
    usage_error();
}

/* A process serves each connection, so that a client that is lost keeps no other from asking. */
static void __attribute__((noreturn)) serve(int argc, char **argv)
{
    unsigned port;
    int opt, listener;

    while ((opt = getopt(argc, argv, "e:f:l:")) != -1) {
        switch (opt) {
        case 'e':
            print_every = parse_number(optarg, ULONG_MAX, NULL);
            break;
        case 'f':
            journal = open(optarg, O_WRONLY | O_CREAT | O_APPEND, 0644);
            check(journal >= 0, "%s: %m", optarg);
            break;
        case 'l':
            lie = parse_lie(optarg);
            break;
        default:
            usage_error();
        }
    }
    if (argc - optind != 1) {
        usage_error();
    }
    port = parse_number(argv[optind], UINT16_MAX, NULL);
    signal(SIGCHLD, SIG_IGN);
    listener = listen_at(INADDR_ANY, port);
    dprintf(STDOUT_FILENO, "counter: serves port %u\n", port);
    for (;;) {
        int fd = accept_from(listener);
        pid_t pid = fork();

        check(pid >= 0, "fork: %m");
        if (!pid) {
            close(listener);
            serve_connection(fd);
            _exit(0);
        }
        close(fd);
    }
}

/* --- the client --------------------------------------------------------------------------- */

static unsigned long patience_s = GUEST_PATIENCE_NS / 1000000000;
static unsigned long wait_ms;

/* Return a connection; wait for the server to listen. */
static int connect_to(uint32_t host, unsigned port)
{
    struct sockaddr_in address = address_of(host, port);
    struct timeval patience = { .tv_sec = patience_s };
    uint64_t begin = guest_now_ns();

    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        check(fd >= 0 &&
              setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
              setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0,
              "socket: %m");
        send_at_once(fd);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
            return fd;
        }
        check((errno == ECONNREFUSED || errno == EHOSTUNREACH || errno == ENETUNREACH ||
               errno == ETIMEDOUT) && guest_now_ns() - begin < patience_s * 1000000000ull,
              "cannot connect: %m");
        close(fd);
        sleep_ns(RETRY_NS);
    }
}

static void __attribute__((noreturn)) connection_is_lost(uint64_t request)
{
    if (errno == EAGAIN) {
        die("no answer to request %" PRIu64 " in %lu s", request, patience_s);
    }
    if (errno) {
        die("the connection failed at request %" PRIu64 ": %m", request);
    }
    die("the server closed the connection at request %" PRIu64, request);
}

/* Ask once, and check the answer. */
static void ask_once(Peer *server, Tally *tally)
{
    char line[LINE_SIZE], expected[LINE_SIZE];
    uint64_t request = tally->answers + 1, begin = guest_now_ns(), took, bucket;

    if (!send_line(server, "%" PRIu64 "\n", request) || !receive_line(server, line)) {
        connection_is_lost(request);
    }
    took = guest_now_ns() - begin;
    if (!tally->answers) {
        char *count = strchr(line, ' ');

        tally->first = count ? strtoull(count, NULL, 10) : 0;
        tally->last = tally->first - 1;
    }
    snprintf(expected, sizeof(expected), "%" PRIu64 " %" PRIu64, request, tally->last + 1);
    check(strcmp(line, expected) == 0, "the answer is \"%s\" instead of \"%s\"", line, expected);
    check(!server->length, "there is more after the answer \"%s\"", line);
    tally->answers++;
    tally->last++;
    if (took > tally->longest_ns) {
        tally->longest_ns = took;
    }
    bucket = took / BUCKET_NS;
    tally->buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

/* Ask until there are so many answers, or until that time. */
static void ask_until(int fd, uint64_t answers, uint64_t end_ns, Tally *tally)
{
    Peer server = { .fd = fd };
    char line[LINE_SIZE];

    do {
        if (wait_ms && tally->answers) {
            sleep_ns(wait_ms * 1000000ull);
        }
        ask_once(&server, tally);
    } while (tally->answers < answers && guest_now_ns() < end_ns);
    check(shutdown(fd, SHUT_WR) == 0, "shutdown: %m");
    check(!receive_line(&server, line), "there is more after the last answer: \"%s\"", line);
    if (errno) {
        connection_is_lost(tally->answers + 1);
    }
    close(fd);
}

static double median_ms(const Tally *tally)
{
    uint64_t below = 0;
    unsigned i = 0;

    while ((below += tally->buckets[i]) <= tally->answers / 2) {
        i++;
    }
    return (i + 0.5) * BUCKET_NS / 1000000;
}

static Tally *new_tally(void)
{
    return guest_map(sizeof(Tally), MAP_PRIVATE);
}

static void ask(int argc, char **argv)
{
    Tally *tally = new_tally();
    struct in_addr host;
    uint64_t answers = UINT64_MAX, seconds = 0, end_ns;
    unsigned long amount;
    int opt, fd;

    while ((opt = getopt(argc, argv, "p:w:")) != -1) {
        switch (opt) {
        case 'p':
            patience_s = parse_number(optarg, 1000000, NULL);
            break;
        case 'w':
            wait_ms = parse_number(optarg, 1000000, NULL);
            break;
        default:
            usage_error();
        }
    }
    if (argc - optind != 3 || inet_pton(AF_INET, argv[optind], &host) != 1) {
        usage_error();
    }
    amount = parse_number(argv[optind + 2], 1000000000, "s");
    if (strchr(argv[optind + 2], 's')) {
        seconds = amount;
    } else {
        answers = amount;
    }
    fd = connect_to(ntohl(host.s_addr), parse_number(argv[optind + 1], UINT16_MAX, NULL));
    end_ns = seconds ? guest_now_ns() + seconds * 1000000000 : UINT64_MAX;
    ask_until(fd, answers, end_ns, tally);
    dprintf(STDOUT_FILENO, "counter: answers=%" PRIu64 " first=%" PRIu64 " last=%" PRIu64
            " median_ms=%.2f longest_ms=%.2f\n", tally->answers, tally->first, tally->last,
            median_ms(tally), tally->longest_ns / 1000000.0);
}

/* --- both, over the loopback device ------------------------------------------------------- */

static struct {
    unsigned port;
    pid_t pid;
} servers[GUEST_MAX_THREADS];

static void start_server(unsigned id)
{
    int listener = listen_at(INADDR_LOOPBACK, 0);
    struct sockaddr_in address;
    socklen_t size = sizeof(address);

    check(getsockname(listener, (struct sockaddr *)&address, &size) == 0, "getsockname: %m");
    servers[id].port = ntohs(address.sin_port);
    servers[id].pid = fork();
    check(servers[id].pid >= 0, "fork: %m");
    if (!servers[id].pid) {
        requests = guest_map(sizeof(*requests), MAP_PRIVATE);
        serve_connection(accept_from(listener));
        _exit(0);
    }
    close(listener);
}

static void ask_own_server(unsigned id)
{
    Tally *tally = new_tally();

    ask_until(connect_to(INADDR_LOOPBACK, servers[id].port), guest.rounds, UINT64_MAX, tally);
    check(tally->first == 1 && tally->last == guest.rounds, "counts %" PRIu64 " to %" PRIu64
          " instead of 1 to %lu", tally->first, tally->last, guest.rounds);
    guest_reap(servers[id].pid, 0, "a server");
}

int main(int argc, char **argv)
{
    const char *role = argc > 1 ? argv[1] : "";
    bool serves = strcmp(role, "serve") == 0, asks = strcmp(role, "ask") == 0;

    guest_init("counter", 50, serves || asks ? 1 : argc, argv);
    requests = guest_map(sizeof(*requests), MAP_SHARED);
    optind = 0;         /* the roles' options are another vector */
    if (serves) {
        serve(argc - 1, argv + 1);
    }
    if (asks) {
        ask(argc - 1, argv + 1);
        return 0;
    }
    for (unsigned i = 0; i < guest.threads; i++) {
        start_server(i);
    }
    guest_parallel(guest.threads, ask_own_server);
    guest_result("answers=%lu", guest.threads * guest.rounds);
    return 0;
}
