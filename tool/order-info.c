/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See order-info.h.  Karma's critical path is that of the waits that its edges become.  Rerun's is
 * the idealised one: all episodes of one time together, and those of the next time after the last
 * of them.  Its waits, for all episodes of an earlier time, say just that.
 */
#include "tool/order-info.h"

#include <inttypes.h>

bool order_info_read(const char *directory, const Manifest *manifest,
                     OrderInfo info[RACE_ORDERS], GError **error)
{
    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        Manifest by = *manifest;        /* to follow another order */

        if (!orders_has(&manifest->orders, i)) {
            continue;
        }
        if (i != RACE_FDR && !episode_stats_read(directory, manifest->n_vcpus, i,
                                                 &info[i].episodes, error)) {
            return false;
        }
        /* It is unknown if the logs have no order, as those of a trace. */
        by.follow = i;
        if (!critical_path_find(directory, &by, &info[i].path, NULL)) {
            info[i].path = (CriticalPath) { 0 };
        }
    }
    return true;
}

/* --- for programs ----------------------------------------------------------------------- */

static void json_cost(Json *json, const OrderInfo *info)
{
    json_double(json, "race_bytes_per_1000_instructions", info->race_bytes);
    if (info->path.longest == 0) {
        json_null(json, "critical_path");
        return;
    }
    json_open(json, "critical_path", '{');
    json_u64(json, "steps", info->path.steps);
    json_u64(json, "longest", info->path.longest);
    json_close(json, '{');
}

static void json_order(Json *json, RaceOrder order, uint64_t max, const OrderInfo *info)
{
    json_open(json, order_name(order), '{');
    json_cost(json, info);
    if (order != RACE_FDR) {
        json_u64(json, "max_steps", max);
        json_u64(json, "episodes", info->episodes.episodes);
        json_u64(json, "median_steps", info->episodes.median);
        json_u64(json, "longest_steps", info->episodes.longest);
    }
    if (order == RACE_KARMA) {
        json_u64(json, "edges", info->episodes.edges);
    }
    json_close(json, '{');
}

void order_info_json(Json *json, const Manifest *manifest, const OrderInfo info[RACE_ORDERS])
{
    g_autofree char *orders = orders_format(&manifest->orders);

    json_cost(json, &info[manifest->follow]);
    json_string(json, "order", orders);
    json_open(json, "orders", '{');
    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        if (orders_has(&manifest->orders, i)) {
            json_order(json, i, manifest->orders.max[i], &info[i]);
        }
    }
    json_close(json, '{');
}

/* --- for people --------------------------------------------------------------------------- */

static void print_order(RaceOrder order, const char *by, const OrderInfo *info,
                        void (*row)(const char *name, const char *format, ...))
{
    row("race log", "%.2f bytes per 1000 instructions%s", info->race_bytes, by);
    if (order != RACE_FDR) {
        row("episodes", "%" PRIu64 "%s, %" PRIu64 " steps in the median, at most %" PRIu64,
            info->episodes.episodes, by, info->episodes.median, info->episodes.longest);
    }
    if (order == RACE_KARMA) {
        row("edges", "%" PRIu64 "%s", info->episodes.edges, by);
    }
    if (info->path.longest > 0) {
        row("critical path", "%" PRIu64 " of %" PRIu64 " steps%s: %.2f vCPUs at once, at most",
            info->path.longest, info->path.steps, by,
            (double)info->path.steps / info->path.longest);
    }
}

void order_info_print(const Manifest *manifest, const OrderInfo info[RACE_ORDERS],
                      void (*row)(const char *name, const char *format, ...))
{
    g_autofree char *orders = orders_format(&manifest->orders);

    if (manifest->orders.set != ORDER_SET_FDR) {
        row("order", "%s", orders);
    }
    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        g_autofree char *by = manifest->orders.set == ORDER_SET_FDR ? g_strdup("") :
                              g_strdup_printf(" by %s", order_name(i));

        if (orders_has(&manifest->orders, i)) {
            print_order(i, by, &info[i], row);
        }
    }
}
