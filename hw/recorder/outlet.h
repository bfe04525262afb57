/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue of output of the guest, each piece with its epoch.  BQL held.
 */
#ifndef RECORDER_OUTLET_H
#define RECORDER_OUTLET_H

/*
 * Send some of @n bytes, which were put with @flags.  Return how many; 0: not now, so the outlet is
 * flushed again later.
 */
typedef size_t OutletSend(void *opaque, unsigned flags, const uint8_t *data, size_t n);

typedef struct OutletOptions {
    OutletSend *send;           /* called by outlet_flush() */
    void *opaque;
    bool is_stream;             /* bytes may be sent in other portions than they were put */
} OutletOptions;

typedef struct Outlet Outlet;

Outlet *outlet_new(const OutletOptions *options);
/* Free it with what it has.  Return how much memory that took. */
uint64_t outlet_free(Outlet *outlet);
/* Append @n bytes.  Return how much more memory the outlet takes. */
uint64_t outlet_put(Outlet *outlet, uint64_t epoch, unsigned flags, const uint8_t *data, size_t n);
/* Of a stream, return the last epoch up to @epoch of which all was sent; else @epoch. */
uint64_t outlet_sent(const Outlet *outlet, uint64_t epoch);
/* Send all up to @epoch.  Return false if some of it is left.  Reduce *@memory by what is freed. */
bool outlet_flush(Outlet *outlet, uint64_t epoch, uint64_t *memory);

#endif
