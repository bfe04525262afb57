/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue of closed episodes, from the thread that ends an episode to the thread that logs it.
 * Any number fit, since a taker that must end a stream's episode cannot wait until the owner logs.
 * No locks: each function is called with the lock of the stream held.
 */
#ifndef RECORDING_EPISODE_QUEUE_H
#define RECORDING_EPISODE_QUEUE_H

#include <glib.h>
#include <stdbool.h>
#include <string.h>

typedef struct EpisodeQueue {
    GArray *items;
    unsigned taken;             /* how many of @items have been popped */
    bool any;                   /* whether items are left; atomic */
} EpisodeQueue;

static inline void episode_queue_init(EpisodeQueue *queue, size_t item_size)
{
    *queue = (EpisodeQueue) { g_array_new(false, false, item_size), 0, false };
}

static inline void episode_queue_clear(EpisodeQueue *queue)
{
    g_array_unref(queue->items);
}

static inline void episode_queue_push(EpisodeQueue *queue, const void *item)
{
    g_array_append_vals(queue->items, item, 1);
    __atomic_store_n(&queue->any, true, __ATOMIC_RELAXED);
}

/* Move the oldest item to @item.  Return false if there is none. */
static inline bool episode_queue_pop(EpisodeQueue *queue, void *item)
{
    size_t size = g_array_get_element_size(queue->items);

    if (queue->taken == queue->items->len) {
        return false;
    }
    memcpy(item, queue->items->data + queue->taken++ * size, size);
    if (queue->taken == queue->items->len) {
        g_array_set_size(queue->items, 0);
        queue->taken = 0;
        __atomic_store_n(&queue->any, false, __ATOMIC_RELAXED);
    }
    return true;
}

/*
 * Return true if there is an item.  Needs no lock: a caller without one may miss an item that
 * another thread pushes meanwhile.
 */
static inline bool episode_queue_any(const EpisodeQueue *queue)
{
    return __atomic_load_n(&queue->any, __ATOMIC_RELAXED);
}

#endif
