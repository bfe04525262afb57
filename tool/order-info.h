/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What `reprise info` tells of each order of a recording: its bytes, its episodes, and how parallel
 * a replay by it can be.
 */
#ifndef TOOL_ORDER_INFO_H
#define TOOL_ORDER_INFO_H

#include "recording/critical-path.h"
#include "recording/episode-stats.h"
#include "recording/manifest.h"
#include "tool/json.h"

typedef struct OrderInfo {
    double race_bytes;          /* per 1000 instructions */
    EpisodeStats episodes;      /* not of FDR */
    CriticalPath path;          /* longest is 0 if it is unknown */
} OrderInfo;

/* Find out about all orders of the recording.  Return false and @error if a log is bad. */
bool order_info_read(const char *directory, const Manifest *manifest,
                     OrderInfo info[RACE_ORDERS], GError **error);

/* Write the keys that tell of the order that is followed, and "orders" with all. */
void order_info_json(Json *json, const Manifest *manifest, const OrderInfo info[RACE_ORDERS]);
/* Print rows for people.  @row prints a name and a text. */
void order_info_print(const Manifest *manifest, const OrderInfo info[RACE_ORDERS],
                      void (*row)(const char *name, const char *format, ...));

#endif
