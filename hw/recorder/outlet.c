/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See outlet.h.
 */
#include "qemu/osdep.h"

#include "hw/recorder/outlet.h"

/* What was put in one epoch, or a packet. */
typedef struct Piece {
    uint64_t epoch;
    unsigned flags;
    size_t sent;
    GByteArray *data;
} Piece;

struct Outlet {
    OutletOptions options;
    GQueue pieces;              /* grows at its tail */
};

static void piece_free(Piece *piece)
{
    g_byte_array_unref(piece->data);
    g_free(piece);
}

Outlet *outlet_new(const OutletOptions *options)
{
    Outlet *outlet = g_new0(Outlet, 1);

    outlet->options = *options;
    g_queue_init(&outlet->pieces);
    return outlet;
}

static uint64_t memory_of(const Piece *piece)
{
    return sizeof(*piece) + piece->data->len - piece->sent;
}

uint64_t outlet_free(Outlet *outlet)
{
    uint64_t memory = 0;
    Piece *piece;

    while ((piece = g_queue_pop_head(&outlet->pieces))) {
        memory += memory_of(piece);
        piece_free(piece);
    }
    g_free(outlet);
    return memory;
}

uint64_t outlet_put(Outlet *outlet, uint64_t epoch, unsigned flags, const uint8_t *data, size_t n)
{
    Piece *piece = g_queue_peek_tail(&outlet->pieces);
    uint64_t memory = n;

    if (!piece || !outlet->options.is_stream || piece->epoch != epoch || piece->flags != flags) {
        piece = g_new0(Piece, 1);
        piece->epoch = epoch;
        piece->flags = flags;
        piece->data = g_byte_array_new();
        g_queue_push_tail(&outlet->pieces, piece);
        memory += sizeof(*piece);
    }
    g_byte_array_append(piece->data, data, n);
    return memory;
}

uint64_t outlet_sent(const Outlet *outlet, uint64_t epoch)
{
    const Piece *oldest = g_queue_peek_head((GQueue *)&outlet->pieces);

    return outlet->options.is_stream && oldest ? MIN(epoch, oldest->epoch - 1) : epoch;
}

bool outlet_flush(Outlet *outlet, uint64_t epoch, uint64_t *memory)
{
    Piece *piece;

    while ((piece = g_queue_peek_head(&outlet->pieces)) && piece->epoch <= epoch) {
        size_t n = outlet->options.send(outlet->options.opaque, piece->flags,
                                        piece->data->data + piece->sent,
                                        piece->data->len - piece->sent);

        piece->sent += n;
        *memory -= n;
        if (n == 0) {
            return false;
        }
        if (piece->sent == piece->data->len) {
            *memory -= memory_of(piece);
            piece_free(g_queue_pop_head(&outlet->pieces));
        }
    }
    return true;
}
