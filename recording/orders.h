/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The orders of steps that a recording can have.  A recording has at least one.  With several, it
 * can be replayed by each of them, since all order the same steps.
 *
 * FDR's order is WAITs in the order logs.  Those of Karma and Rerun are episodes, in logs of their
 * own (karma-episodes.h, rerun-episodes.h).
 *
 * Users write a list of orders as `fdr,karma:16384,rerun`, where the number is the most steps of an
 * episode, and 0 stands for no limit.
 */
#ifndef RECORDING_ORDERS_H
#define RECORDING_ORDERS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum RaceOrder {
    RACE_FDR,
    RACE_KARMA,
    RACE_RERUN,
    RACE_ORDERS
} RaceOrder;

/* Bit o: the order o. */
typedef uint32_t OrderSet;

#define ORDER_SET(order)    (UINT32_C(1) << (order))
#define ORDER_SET_FDR       ORDER_SET(RACE_FDR)
#define ORDER_SET_ALL       (ORDER_SET(RACE_ORDERS) - 1)
/* The orders whose episodes are in logs of their own. */
#define ORDER_SET_EPISODES  (ORDER_SET_ALL & ~ORDER_SET_FDR)

/* The most steps of an episode, if the user does not say. */
#define ORDER_DEFAULT_MAX   16384

typedef struct Orders {
    OrderSet set;               /* not empty */
    uint64_t max[RACE_ORDERS];  /* the most steps of an episode; 0: unbounded; none for FDR */
} Orders;

/* FDR's alone. */
extern const Orders orders_fdr;

/* Return "fdr", "karma" or "rerun". */
const char *order_name(RaceOrder order);
/* Set *@order to the order of this name.  Return false and @error if there is none. */
bool order_parse_name(const char *name, RaceOrder *order, GError **error);

/* Parse such a list.  Return false and @error, one line that says what to do. */
bool orders_parse(const char *text, Orders *orders, GError **error);
/* Return the list with all numbers, "fdr,karma:16384", to be freed by the caller. */
char *orders_format(const Orders *orders);
/* Return the names alone, "fdr,karma", to be freed by the caller. */
char *order_set_format(OrderSet set);

static inline bool order_set_has(OrderSet set, RaceOrder order)
{
    return set & ORDER_SET(order);
}

/* Return the first order of the set, which replay follows unless it is told otherwise. */
RaceOrder order_set_first(OrderSet set);

static inline bool orders_has(const Orders *orders, RaceOrder order)
{
    return order_set_has(orders->set, order);
}

static inline RaceOrder orders_first(const Orders *orders)
{
    return order_set_first(orders->set);
}

#define ORDERS_ERROR orders_error_quark()
GQuark orders_error_quark(void);

typedef enum OrdersError {
    ORDERS_ERROR_SYNTAX,        /* no list of orders */
    ORDERS_ERROR_MISSING,       /* the recording does not have this order */
} OrdersError;

#endif
