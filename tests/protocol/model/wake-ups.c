/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See wake-ups.h.
 */
#include <string.h>

#include "tests/protocol/model/broken-rule.h"
#include "tests/protocol/model/wake-ups.h"

/* One wake-up in so many is slow each time when it is looked for. */
#define SLOW 3

static const LoggedEpisode *present(const WakeUps *w, unsigned stream)
{
    const GArray *episodes = w->recording->stream[stream].episodes[RACE_KARMA];

    return w->entry[stream] < episodes->len ?
           &g_array_index(episodes, LoggedEpisode, w->entry[stream]) : NULL;
}

static void skip_cuts(WakeUps *w, unsigned stream, unsigned cuts)
{
    const LoggedEpisode *e;

    while (w->cuts[stream] < cuts && (e = present(w, stream))) {
        w->cuts[stream] += e->cut;
        w->entry[stream]++;
    }
}

void wake_ups_begin(WakeUps *w, const Recording *recording, unsigned cuts)
{
    memset(w, 0, sizeof(*w));
    w->recording = recording;
    for (unsigned i = 0; i <= recording->n_vcpus; i++) {
        skip_cuts(w, i, cuts);
    }
}

static unsigned pred_of(const LoggedEpisode *e, unsigned stream)
{
    return e->e.pred >> stream & 1 ? 1 + e->e.again[stream] : 0;
}

/* Let wake-ups come that @stream needs.  Return false if there are none. */
static bool come(WakeUps *w, unsigned stream, const LoggedEpisode *e, uint64_t *random)
{
    bool any = false;

    for (unsigned i = 0; i <= w->recording->n_vcpus; i++) {
        if (w->came[i][stream] < pred_of(e, i) && w->sent[i][stream]) {
            bool comes = !random_one_in(random, SLOW);

            w->sent[i][stream] -= comes;
            w->came[i][stream] += comes;
            any = true;
        }
    }
    return any;
}

static WakeUpsResult begin(WakeUps *w, unsigned stream, const LoggedEpisode *e, uint64_t *random)
{
    for (unsigned i = 0; i <= w->recording->n_vcpus; i++) {
        if (w->came[i][stream] < pred_of(e, i)) {
            return come(w, stream, e, random) ? WAKE_UPS_MOVED : WAKE_UPS_WAIT;
        }
    }
    for (unsigned i = 0; i <= w->recording->n_vcpus; i++) {
        w->came[i][stream] -= pred_of(e, i);
    }
    w->begun[stream] = true;
    return WAKE_UPS_MOVED;
}

static WakeUpsResult end(WakeUps *w, unsigned stream, const LoggedEpisode *e)
{
    for (unsigned i = 0; i <= w->recording->n_vcpus; i++) {
        w->sent[stream][i] += e->e.succ >> i & 1;
    }
    w->begun[stream] = false;
    w->entry[stream]++;
    return WAKE_UPS_MOVED;
}

/* Go behind a cut when all streams have come to it. */
static WakeUpsResult meet(WakeUps *w, unsigned stream)
{
    if (!w->at_cut[stream]) {
        w->at_cut[stream] = true;
        w->cuts[stream]++;
        return WAKE_UPS_MOVED;
    }
    for (unsigned i = 0; i <= w->recording->n_vcpus && RULE(REPLAY_MEETS); i++) {
        if (w->cuts[i] < w->cuts[stream]) {
            return WAKE_UPS_WAIT;
        }
    }
    w->at_cut[stream] = false;
    w->entry[stream]++;
    return WAKE_UPS_MOVED;
}

WakeUpsResult wake_ups_advance(WakeUps *w, unsigned stream, Position position, uint64_t *random)
{
    const LoggedEpisode *e = present(w, stream);

    if (!e) {
        return WAKE_UPS_ALLOW;
    }
    if (e->cut) {
        return meet(w, stream);
    }
    if (!w->begun[stream]) {
        return begin(w, stream, e, random);
    }
    return position < e->e.end ? WAKE_UPS_ALLOW : end(w, stream, e);
}
