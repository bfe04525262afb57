/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A request that was put into an inbox is served, however host cores reorder memory accesses.
 *
 * The testers of tests/protocol/model compute and wait a lot between requests.  The threads here
 * only request lines and serve, so that they meet within a few nanoseconds.
 */
#include <glib.h>
#include <unistd.h>

#include "protocol/sphere-internal.h"

#define MOST_PROCESSORS 4
#define LINES 16
#define PATIENCE_S 60

static uint8_t memory[1 << SPHERE_PAGE_SHIFT];
static int n_requests;

static void kick(void *user)
{
    (void)user;                 /* not needed: processors look at their inbox at every step */
}

static void emit(Processor *to, unsigned from, Position source, void *opaque)
{
    g_assert_cmpuint(from, !=, to->index);
    g_assert_cmpuint(source, >, 0);
    (void)opaque;
}

static const SphereOps ops = { .kick = kick };

/* Positions advance by 2, since a processor that got a line may be safe only a step later. */
static gpointer processor_thread(gpointer opaque)
{
    Processor *p = opaque;
    g_autoptr(GRand) rand = g_rand_new_with_seed(p->index);
    Position position = 0;

    sphere_run(p);
    for (int i = 0; i < n_requests; i++) {
        position += 2;
        sphere_boundary(p, position);
        sphere_serve(p, position);
        if (sphere_acquire(p, g_rand_int_range(rand, 0, LINES) << SPHERE_LINE_SHIFT, 8,
                           SPHERE_WRITE) == SPHERE_ASKED) {
            sphere_await(p, position);
        }
        sphere_arcs(p, emit, NULL);
    }
    sphere_safe(p, position + 2);
    return NULL;
}

/* A thread that has ended leaves its processor safe, so that no other thread waits for it. */
static void test_no_request_is_lost(gconstpointer opaque)
{
    int n_threads = GPOINTER_TO_INT(opaque);
    GThread *thread[MOST_PROCESSORS];
    Sphere *sphere = sphere_new(n_threads, 1, memory, sizeof(memory), &ops, &orders_fdr);

    n_requests = 400000 / n_threads;
    alarm(PATIENCE_S);
    for (int i = 0; i < n_threads; i++) {
        thread[i] = g_thread_new("processor", processor_thread, &sphere->processor[i]);
    }
    for (int i = 0; i < n_threads; i++) {
        g_thread_join(thread[i]);
    }
    alarm(0);
    sphere_free(sphere);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/inbox/two", GINT_TO_POINTER(2), test_no_request_is_lost);
    g_test_add_data_func("/inbox/three", GINT_TO_POINTER(3), test_no_request_is_lost);
    g_test_add_data_func("/inbox/four", GINT_TO_POINTER(4), test_no_request_is_lost);
    return g_test_run();
}
