/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See replay-end.h.
 */
#include "recording/replay-end.h"

#include "recording/cut.h"
#include "recording/total-order.h"
#include "recording/verify.h"

static Position *find_moment(const char *directory, const Manifest *manifest,
                             const CheckpointPosition *place, uint64_t moment, GError **error)
{
    g_autoptr(TotalOrder) order = total_order_open_at(directory, manifest, moment, error);
    g_autofree Position *stop = g_new(Position, manifest->n_vcpus + 1);

    if (!order) {
        return NULL;
    }
    for (unsigned i = 0; i <= manifest->n_vcpus; i++) {
        stop[i] = total_order_reached(order, i);
        if (place && i < manifest->n_vcpus && stop[i] < place->point->at[i]) {
            g_set_error(error, TOTAL_ORDER_ERROR, TOTAL_ORDER_ERROR_OUTSIDE,
                        "moment %" G_GUINT64_FORMAT " lies before the checkpoint: begin at an "
                        "earlier one", moment);
            return NULL;
        }
    }
    return g_steal_pointer(&stop);
}

Position *replay_end_find(const char *directory, const Manifest *manifest,
                          const CheckpointPosition *place, const uint64_t *until, GError **error)
{
    if (!verify_for_replay(directory, manifest, error)) {
        return NULL;
    }
    if (until) {
        return find_moment(directory, manifest, place, *until, error);
    }
    return manifest->complete ? NULL
                              : cut_find(directory, manifest->n_vcpus, manifest->cut, error);
}

unsigned replay_end_checkpoint(const char *directory, const Manifest *manifest,
                               const uint64_t *until)
{
    return until ? total_order_checkpoint(directory, manifest, *until) : 0;
}
