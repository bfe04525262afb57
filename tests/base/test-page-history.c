/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Versions of a small memory whose whole history is known: in each tick two pages are written,
 * always in the same way.  A random walk lets time go on, adds and removes versions, and goes back
 * and forth between them.  At each version, memory must be as it was at that tick.
 */
#include <stdbool.h>
#include <string.h>

#include "base/page-history.h"

enum { PAGES = 24, TICKS = 200, TRIES = 4000 };

static uint8_t past[TICKS + 1][PAGES][PAGE_HISTORY_PAGE];   /* memory before each tick */
static uint8_t memory[PAGES][PAGE_HISTORY_PAGE] __attribute__((aligned(64)));
static uint8_t written[TICKS];                              /* the first of two pages */

static void make_past(void)
{
    for (unsigned i = 0; i < PAGES; i += 2) {
        memset(past[0][i], i, PAGE_HISTORY_PAGE);
    }
    for (unsigned tick = 0; tick < TICKS; tick++) {
        memcpy(past[tick + 1], past[tick], sizeof(past[tick]));
        written[tick] = g_test_rand_int_range(0, PAGES - 1);
        memset(past[tick + 1][written[tick]], tick, 100);
        past[tick + 1][written[tick] + 1][tick] ^= 0x55;
    }
}

static void write_page(uint32_t page, const uint8_t *bytes)
{
    memcpy(memory[page], bytes, PAGE_HISTORY_PAGE);
}

typedef struct Walk {
    PageHistory *history;
    GArray *ticks;              /* of each version */
    unsigned version, tick;     /* where the walk is */
    GArray *pages;              /* written since that version */
} Walk;

static unsigned tick_of(const Walk *walk, unsigned version)
{
    return g_array_index(walk->ticks, unsigned, version);
}

static void run(Walk *walk, unsigned to)
{
    for (; walk->tick < to; walk->tick++) {
        for (uint32_t page = written[walk->tick]; page < written[walk->tick] + 2u; page++) {
            memcpy(memory[page], past[walk->tick + 1][page], PAGE_HISTORY_PAGE);
            g_array_append_val(walk->pages, page);
        }
    }
}

static gint compare_pages(gconstpointer a, gconstpointer b)
{
    return *(const uint32_t *)a - *(const uint32_t *)b;
}

/* Sort the pages and remove duplicates, as a dirty bitmap would list them. */
static void sort_pages(GArray *pages)
{
    unsigned n = 0;

    g_array_sort(pages, compare_pages);
    for (unsigned i = 0; i < pages->len; i++) {
        if (n == 0 || g_array_index(pages, uint32_t, i) != g_array_index(pages, uint32_t, n - 1)) {
            g_array_index(pages, uint32_t, n++) = g_array_index(pages, uint32_t, i);
        }
    }
    g_array_set_size(pages, n);
}

static void go(Walk *walk, unsigned version)
{
    sort_pages(walk->pages);
    page_history_go(walk->history, walk->version, walk->pages, version, write_page);
    g_array_set_size(walk->pages, 0);
    walk->version = version;
    walk->tick = tick_of(walk, version);
}

/* Add a version here, unless there is one.  The walk may have passed later versions. */
static void add(Walk *walk)
{
    unsigned before = walk->version;

    while (before + 1 < walk->ticks->len && tick_of(walk, before + 1) <= walk->tick) {
        before++;
    }
    walk->version = before;
    if (tick_of(walk, before) != walk->tick) {
        sort_pages(walk->pages);
        page_history_add(walk->history, before, walk->pages, memory[0]);
        g_array_insert_val(walk->ticks, before + 1, walk->tick);
        walk->version++;
    }
    g_array_set_size(walk->pages, 0);
}

static void remove_one(Walk *walk)
{
    unsigned version = g_test_rand_int_range(0, walk->ticks->len);

    if (version > 0 && version != walk->version) {
        page_history_remove(walk->history, version);
        g_array_remove_index(walk->ticks, version);
        walk->version -= version < walk->version;
    }
}

static void test_random(void)
{
    Walk walk = {
        .ticks = g_array_new(false, true, sizeof(unsigned)),
        .pages = g_array_new(false, false, sizeof(uint32_t)),
    };

    make_past();
    memcpy(memory, past[0], sizeof(memory));
    walk.history = page_history_new(memory[0], PAGES);
    g_array_set_size(walk.ticks, 1);
    for (unsigned i = 0; i < TRIES; i++) {
        unsigned to = walk.tick + g_test_rand_int_range(0, TICKS / 4);

        switch (g_test_rand_int_range(0, 4)) {
        case 0:
            run(&walk, MIN(to, TICKS));
            break;
        case 1:
            add(&walk);
            break;
        case 2:
            remove_one(&walk);
            break;
        case 3:
            go(&walk, g_test_rand_int_range(0, walk.ticks->len));
            break;
        }
        g_assert_cmpuint(page_history_n_versions(walk.history), ==, walk.ticks->len);
        g_assert_cmpmem(memory, sizeof(memory), past[walk.tick], sizeof(memory));
    }
    while (walk.ticks->len > 1) {
        go(&walk, 0);
        page_history_remove(walk.history, walk.ticks->len - 1);
        g_array_set_size(walk.ticks, walk.ticks->len - 1);
    }
    g_assert_cmpuint(page_history_bytes(walk.history), ==, 0);
    page_history_free(walk.history);
    g_array_unref(walk.ticks);
    g_array_unref(walk.pages);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/page-history/random", test_random);
    return g_test_run();
}
