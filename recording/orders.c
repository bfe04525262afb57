/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See orders.h.
 */
#include "recording/orders.h"

#include <inttypes.h>
#include <string.h>

G_DEFINE_QUARK(orders-error-quark, orders_error)

#define WHAT_TO_GIVE "give fdr, karma[:MAX] or rerun[:MAX], separated by commas"

static const char *const names[RACE_ORDERS] = {
    [RACE_FDR] = "fdr",
    [RACE_KARMA] = "karma",
    [RACE_RERUN] = "rerun",
};

const Orders orders_fdr = { .set = ORDER_SET_FDR };

const char *order_name(RaceOrder order)
{
    g_assert(order < RACE_ORDERS);
    return names[order];
}

/* Set @error to "unknown order 'foo': give ...", where @what is "unknown order ". */
static bool refuse(GError **error, const char *what, const char *item, const char *advice)
{
    g_autofree char *start = g_strndup(item, 60);
    g_autofree char *shown = g_strescape(start, NULL);

    g_set_error(error, ORDERS_ERROR, ORDERS_ERROR_SYNTAX, "%s'%s': %s", what, shown, advice);
    return false;
}

/* Find the order whose name has the @length bytes at @name. */
static bool find_name(const char *name, size_t length, RaceOrder *order)
{
    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0) {
            *order = i;
            return true;
        }
    }
    return false;
}

bool order_parse_name(const char *name, RaceOrder *order, GError **error)
{
    return find_name(name, strlen(name), order) ||
           refuse(error, "unknown order ", name, "give fdr, karma or rerun");
}

/* Parse one item of the list, "karma:16384". */
static bool parse_item(const char *item, Orders *orders, GError **error)
{
    size_t length = strcspn(item, ":");
    const char *max = item[length] ? item + length + 1 : NULL;
    RaceOrder order;
    guint64 steps = ORDER_DEFAULT_MAX;

    if (!find_name(item, length, &order)) {
        return refuse(error, "unknown order ", item, WHAT_TO_GIVE);
    }
    if (orders_has(orders, order)) {
        return refuse(error, "", item, "this order is there already: give each once");
    }
    if (max && order == RACE_FDR) {
        return refuse(error, "", item, "fdr has no episodes: give fdr without a number");
    }
    if (max && !g_ascii_string_to_unsigned(max, 10, 0, G_MAXINT64, &steps, NULL)) {
        return refuse(error, "", item, "give the most steps of an episode as a number, "
                      "0 for no limit, as in karma:16384");
    }
    orders->set |= ORDER_SET(order);
    orders->max[order] = order == RACE_FDR ? 0 : steps;
    return true;
}

bool orders_parse(const char *text, Orders *orders, GError **error)
{
    g_auto(GStrv) items = g_strsplit(text, ",", -1);

    *orders = (Orders) { 0 };
    if (!items[0]) {
        g_set_error(error, ORDERS_ERROR, ORDERS_ERROR_SYNTAX, "no order: " WHAT_TO_GIVE);
        return false;
    }
    for (unsigned i = 0; items[i]; i++) {
        if (!parse_item(items[i], orders, error)) {
            return false;
        }
    }
    return true;
}

static char *format(OrderSet set, const uint64_t *max)
{
    GString *text = g_string_new(NULL);

    for (unsigned i = 0; i < RACE_ORDERS; i++) {
        if (!order_set_has(set, i)) {
            continue;
        }
        g_string_append_printf(text, "%s%s", text->len ? "," : "", names[i]);
        if (max && i != RACE_FDR) {
            g_string_append_printf(text, ":%" PRIu64, max[i]);
        }
    }
    return g_string_free(text, FALSE);
}

char *orders_format(const Orders *orders)
{
    return format(orders->set, orders->max);
}

char *order_set_format(OrderSet set)
{
    return format(set, NULL);
}

RaceOrder order_set_first(OrderSet set)
{
    g_assert(set & ORDER_SET_ALL);
    return __builtin_ctz(set);
}
