/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where episodes of Karma and Rerun end, behind the sphere.  The random tester shows that all
 * conflicts are ordered; it would not notice if episodes were longer than they need be, or if a
 * flush logged less than it can.
 *
 * Episodes are printed as "0-5<1>2": from position 0 to 5, edges come from vCPU 1 and lead to 2;
 * those of Rerun as "0-5@3", with their time.
 */
#include <glib.h>
#include <inttypes.h>

#include "protocol/sphere-internal.h"
#include "recording/karma-episodes.h"
#include "recording/rerun-episodes.h"

#define VCPUS 2
#define PAGE_SIZE (1u << SPHERE_PAGE_SHIFT)
#define PAGES 2

static struct {
    uint64_t memory[PAGES * PAGE_SIZE / 8];
    Sphere *sphere;
    Position position[VCPUS];
    GString *karma[VCPUS], *rerun[VCPUS];
} world __attribute__((aligned(PAGE_SIZE)));

/* --- the logs -------------------------------------------------------------------------- */

static void print_set(GString *text, char sign, uint32_t set)
{
    for (unsigned i = 0; set >> i; i++) {
        if (set >> i & 1) {
            g_string_append_printf(text, "%c%u", sign, i);
        }
    }
}

static void print_length(GString *text, Position begin, Position end)
{
    g_string_append_printf(text, "%s%" PRIu64 "-%" PRIu64, text->len ? " " : "", begin, end);
}

static void karma_episode(void *log, const KarmaClosed *closed)
{
    GString *text = world.karma[GPOINTER_TO_UINT(log)];

    print_length(text, closed->begin, closed->end);
    print_set(text, '<', closed->pred);
    print_set(text, '>', closed->succ);
}

static void rerun_episode(void *log, const RerunClosed *closed)
{
    GString *text = world.rerun[GPOINTER_TO_UINT(log)];

    print_length(text, closed->begin, closed->end);
    g_string_append_printf(text, "@%" PRIu64, closed->time);
}

static void check_logs(unsigned i, const char *karma, const char *rerun)
{
    g_assert_cmpstr(world.karma[i]->str, ==, karma);
    g_assert_cmpstr(world.rerun[i]->str, ==, rerun);
}

/* --- what vCPUs do ------------------------------------------------------------------------ */

static void kick(G_GNUC_UNUSED void *user)
{
}

static const SphereOps ops = {
    .kick = kick, .karma_episode = karma_episode, .rerun_episode = rerun_episode,
};

static Processor *vcpu(unsigned i)
{
    return sphere_vcpu(world.sphere, i);
}

static void begin(Position max)
{
    const Orders orders = {
        .set = 1 << RACE_KARMA | 1 << RACE_RERUN,
        .max = { [RACE_KARMA] = max, [RACE_RERUN] = max },
    };

    world.sphere = sphere_new(VCPUS, 1, world.memory, sizeof(world.memory), &ops, &orders);
    for (unsigned i = 0; i < VCPUS; i++) {
        sphere_set_log(vcpu(i), GUINT_TO_POINTER(i));
        world.position[i] = 0;
        world.karma[i] = g_string_new("");
        world.rerun[i] = g_string_new("");
        sphere_run(vcpu(i));
    }
}

static void cut(void)
{
    for (unsigned i = 0; i < VCPUS; i++) {
        sphere_cut_episodes(vcpu(i), world.position[i]);
    }
}

static void end(void)
{
    for (unsigned i = 0; i < VCPUS; i++) {
        g_string_free(world.karma[i], true);
        g_string_free(world.rerun[i], true);
    }
    sphere_free(world.sphere);
}

static void be_safe(unsigned i)
{
    sphere_safe(vcpu(i), world.position[i]);
}

/* Make a step that accesses @page, for which no other vCPU must be asked. */
static void make_access(unsigned i, unsigned page, SphereAccess access)
{
    sphere_boundary(vcpu(i), world.position[i]);
    g_assert_cmpint(sphere_acquire(vcpu(i), page * PAGE_SIZE, 8, access), ==, SPHERE_GRANTED);
    sphere_arcs(vcpu(i), NULL, NULL);
    world.position[i]++;
}

/* --- cases -------------------------------------------------------------------------------- */

/* vCPU 0 stores to page 0, and has made 5 steps. */
static void store_first(Position max)
{
    begin(max);
    make_access(0, 0, SPHERE_WRITE);
    world.position[0] = 5;
}

static void a_taker_ends_episodes_of_rerun_only(void)
{
    store_first(0);
    be_safe(0);
    make_access(1, 0, SPHERE_READ);
    be_safe(1);
    sphere_run(vcpu(0));
    world.position[0] = 9;
    be_safe(0);
    cut();
    check_logs(0, "0-9>1", "0-5@0 5-9@1");
    check_logs(1, "0-1<0", "0-1@1");
    end();
}

static void a_taker_splits_at_the_entry_to_user_mode(void)
{
    store_first(6);
    sphere_enter_user(vcpu(0), 5);
    world.position[0] = 9;
    g_assert_cmpuint(sphere_episode_limit(vcpu(0)), ==, 6);
    make_access(1, 0, SPHERE_READ);
    g_assert_cmpuint(sphere_episode_limit(vcpu(0)), ==, 11);
    be_safe(1);
    be_safe(0);
    cut();
    check_logs(0, "0-5>1 5-9", "0-5@0 5-9@1");
    check_logs(1, "0-1<0", "0-1@1");
    end();
}

/* vCPU 0 gives a line at 7, in user mode.  So its episode must not end at 6. */
static void a_taker_does_not_split_what_was_given(void)
{
    store_first(0);
    sphere_open_page(world.sphere, PAGE_SIZE);
    make_access(0, 1, SPHERE_WRITE);
    sphere_enter_user(vcpu(0), 6);
    world.position[0] = 7;
    be_safe(0);
    make_access(1, 1, SPHERE_READ);
    sphere_run(vcpu(0));
    make_access(1, 0, SPHERE_READ);
    be_safe(0);
    be_safe(1);
    cut();
    check_logs(0, "0-7>1", "0-7@0");
    end();
}

static void an_episode_ends_at_a_halt(void)
{
    store_first(0);
    sphere_end_episodes(vcpu(0), 5);
    be_safe(0);
    make_access(1, 0, SPHERE_READ);
    be_safe(1);
    sphere_run(vcpu(0));
    world.position[0] = 9;
    be_safe(0);
    cut();
    check_logs(0, "0-5>1 5-9", "0-5@0 5-9@1");
    end();
}

static void an_episode_ends_at_its_limit(void)
{
    store_first(4);
    sphere_limit_episodes(vcpu(0), 3, 0);
    g_assert_cmpuint(sphere_episode_limit(vcpu(0)), ==, 4);
    sphere_limit_episodes(vcpu(0), 5, 0);
    g_assert_cmpuint(sphere_episode_limit(vcpu(0)), ==, 9);
    check_logs(0, "", "0-5@0");         /* Karma's last may get successors */
    world.position[0] = 9;
    sphere_limit_episodes(vcpu(0), 9, 0);
    check_logs(0, "0-5", "0-5@0 5-9@1");
    /* What comes next has one step too many at 13: the episode ends before it. */
    world.position[0] = 12;
    sphere_limit_episodes(vcpu(0), 12, 0);
    g_assert_cmpuint(sphere_episode_limit(vcpu(0)), ==, 13);
    sphere_limit_episodes(vcpu(0), 12, 2);
    g_assert_cmpuint(sphere_episode_limit(vcpu(0)), ==, 16);
    end();
}

static void a_flush_logs_all(void)
{
    store_first(0);
    be_safe(0);
    sphere_flush_episodes(vcpu(0), 5);
    check_logs(0, "0-5", "0-5@0");
    make_access(1, 0, SPHERE_READ);
    be_safe(1);
    sphere_flush_episodes(vcpu(0), 5);
    check_logs(0, "0-5 5-5>1", "0-5@0");
    end();
}

/* vCPU 1 has got a line and has not made the step. */
static void a_flush_leaves_an_episode_that_has_not_begun(void)
{
    store_first(0);
    be_safe(0);
    make_access(1, 0, SPHERE_READ);
    world.position[1]--;
    sphere_flush_episodes(vcpu(1), 0);
    check_logs(1, "", "");
    world.position[1]++;
    sphere_flush_episodes(vcpu(1), 1);
    check_logs(1, "0-1<0", "0-1@1");
    end();
}

static void no_edge_leads_over_a_cut(void)
{
    store_first(0);
    be_safe(0);
    be_safe(1);
    cut();
    sphere_run(vcpu(1));
    make_access(1, 0, SPHERE_READ);
    be_safe(1);
    cut();
    check_logs(0, "0-5", "0-5@0");
    check_logs(1, "0-1", "0-1@1");
    end();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add_func("/episodes/" #name, name)
    ADD(a_taker_ends_episodes_of_rerun_only);
    ADD(a_taker_splits_at_the_entry_to_user_mode);
    ADD(a_taker_does_not_split_what_was_given);
    ADD(an_episode_ends_at_a_halt);
    ADD(an_episode_ends_at_its_limit);
    ADD(a_flush_logs_all);
    ADD(a_flush_leaves_an_episode_that_has_not_begun);
    ADD(no_edge_leads_over_a_cut);
    return g_test_run();
}
