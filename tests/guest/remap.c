/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads that unmap and change pages which other threads are using.
 *
 * Exercises: page faults of several vCPUs on one page at once, which one vCPU resolves while the
 * others are taking theirs; translations that other vCPUs hold while the entry is cleared, made
 * read-only or replaced (T pages), and that are made again at once; code that one vCPU changes
 * while others run it, and stores of several words beside that code (I pages); kernel stacks that
 * come and go.
 *
 * All threads share a few pages of data and one page of code.  Each act of a thread is random: it
 * reads or writes a word, drops a page or maps a new page in its place, makes a page read-only or
 * writable, calls the function, changes the function, or writes data beside it.  A write that a
 * read-only page refuses is not repeated.
 *
 * Self-check: a word that is read was written to that page by some thread, or is zero; the function
 * returns a value that some thread made it return.
 */
#define _GNU_SOURCE
#include "guest.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 4
#define ACTS 100                /* acts of a thread in a round */
#define DATA 256                /* where data begins in the page of code */
#define WIDE 48                 /* bytes that are written at once */

#if defined(__aarch64__)
/* movz w0, #value; ret */
#define CODE_WORD(value) (0x52800000u | (value) << 5)
static const uint32_t code_template[] = { CODE_WORD(0), 0xd65f03c0u };
#define CODE_CHANGES 0          /* index of the word with the value */
#elif defined(__x86_64__)
/* three nops; mov eax, value; ret: so the value is aligned */
#define CODE_WORD(value) (value)
static const uint32_t code_template[] = { 0xb8909090u, CODE_WORD(0), 0xc3 };
#define CODE_CHANGES 1
#else
#error "which code returns a number here?"
#endif
#define CODE_VALUES 1000

static size_t page_size;
static char *data;
static char *code;
static atomic_ulong refused, called;
static _Thread_local sigjmp_buf on_refusal;

static void refuse(int signal)
{
    (void)signal;
    siglongjmp(on_refusal, 1);
}

/* --- data ------------------------------------------------------------------------- */

/* Return a random word that encodes its page. */
static uint64_t word_for(unsigned page, uint64_t random)
{
    return random << 8 | (page + 1);
}

static volatile uint64_t *any_word(unsigned page, uint64_t random)
{
    return (volatile uint64_t *)(data + page * page_size + random % (page_size / 8) * 8);
}

static void read_word(unsigned page, uint64_t random)
{
    uint64_t seen = *any_word(page, random % 64);

    check(seen == 0 || (seen & 0xff) == page + 1, "page %u has %" PRIx64, page, seen);
}

static void write_word(unsigned page, uint64_t random)
{
    if (sigsetjmp(on_refusal, 1) == 0) {
        *any_word(page, random % 64) = word_for(page, random);
    } else {
        atomic_fetch_add(&refused, 1);
    }
}

static void drop_page(unsigned page, uint64_t random)
{
    char *at = data + page * page_size;

    if (random & 1) {
        check(madvise(at, page_size, MADV_DONTNEED) == 0, "madvise: %m");
    } else {
        check(mmap(at, page_size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at, "mmap: %m");
    }
}

static void protect_page(unsigned page, uint64_t random)
{
    check(mprotect(data + page * page_size, page_size,
                   random & 1 ? PROT_READ | PROT_WRITE : PROT_READ) == 0, "mprotect: %m");
}

/* --- code ------------------------------------------------------------------------- */

static void call_code(void)
{
    unsigned (*function)(void) = (unsigned (*)(void))code;
    unsigned value = function();

    check(value < CODE_VALUES, "the function returned %u", value);
    atomic_fetch_add(&called, 1);
}

static void change_code(uint64_t random)
{
    uint32_t *word = (uint32_t *)code + CODE_CHANGES;

    __atomic_store_n(word, CODE_WORD(random % CODE_VALUES), __ATOMIC_RELAXED);
    __builtin___clear_cache((char *)word, (char *)(word + 1));
}

/* Write words in one line, or across two. */
static void write_beside_code(uint64_t random)
{
    uint64_t words[WIDE / 8];

    for (unsigned i = 0; i < WIDE / 8; i++) {
        words[i] = word_for(PAGES, random);
    }
    memcpy(code + DATA + random % 8 * 16, words, WIDE);
}

static void read_beside_code(uint64_t random)
{
    uint64_t seen = *(volatile uint64_t *)(code + DATA + random % 16 * 8);

    check(seen == 0 || (seen & 0xff) == PAGES + 1, "beside the code is %" PRIx64, seen);
}

static void make_code(void)
{
    code = mmap(NULL, page_size, PROT_READ | PROT_WRITE | PROT_EXEC,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(code != MAP_FAILED, "mmap: %m");
    memcpy(code, code_template, sizeof(code_template));
    __builtin___clear_cache(code, code + sizeof(code_template));
}

/* --- threads ------------------------------------------------------------------------ */

static void *do_nothing(void *opaque)
{
    return opaque;
}

static void raise_thread(void)
{
    pthread_t thread;

    check(pthread_create(&thread, NULL, do_nothing, NULL) == 0, "pthread_create");
    check(pthread_join(thread, NULL) == 0, "pthread_join");
}

static void act(uint64_t random)
{
    unsigned page = random >> 8 & (PAGES - 1);
    uint64_t rest = random >> 16;

    switch (random % 32) {
    case 0 ... 7:
        read_word(page, rest);
        break;
    case 8 ... 15:
        write_word(page, rest);
        break;
    case 16 ... 18:
        drop_page(page, rest);
        break;
    case 19 ... 20:
        protect_page(page, rest);
        break;
    case 21 ... 25:
        call_code();
        break;
    case 26:
        change_code(rest);
        break;
    case 27 ... 28:
        write_beside_code(rest);
        break;
    case 29 ... 30:
        read_beside_code(rest);
        break;
    default:
        if (rest % 8 == 0) {
            raise_thread();
        }
    }
}

static void quarrel(unsigned id)
{
    for (unsigned long i = 0; i < guest.rounds * ACTS; i++) {
        act(guest_mix((uint64_t)id << 40 | i));
    }
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = refuse };

    page_size = sysconf(_SC_PAGESIZE);
    guest_init("remap", 20, argc, argv);
    check(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction: %m");
    data = guest_map(PAGES * page_size, MAP_PRIVATE);
    make_code();
    guest_parallel(guest.threads, quarrel);
    check(atomic_load(&called) > 0, "the function was never called");
    guest_result("called=%lu refused=%lu", atomic_load(&called), atomic_load(&refused));
    return 0;
}
