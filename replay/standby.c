/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See standby.h.  Replay brings memory and registers to the end of an epoch, where they were
 * compared; the recorder has left the state of its devices there (recording/epoch-state.h).  The
 * output of that epoch and of those before may have been seen, that of later ones was held.  So
 * whoever goes on from there contradicts nothing that anybody has seen.
 *
 * Until then the standby is deaf and mute.  Packets that come would wait in its devices, and be
 * delivered when they are long outdated; so its network backends are cut.  What is cut is the
 * backend alone: whether the guest's own device has a link is part of the state.
 */
#include "qemu/osdep.h"
#include "chardev/char.h"
#include "migration/misc.h"
#include "net/announce.h"
#include "net/net.h"
#include "qapi/qapi-events-recorder-replay.h"
#include "qemu/thread.h"
#include "system/runstate.h"
#include "system/system.h"

#include "hw/recorder/disks.h"
#include "hw/recorder/live.h"
#include "hw/recorder/machine-state.h"
#include "recording/epoch-state.h"
#include "replay/epoch-check.h"
#include "replay/player-internal.h"
#include "replay/standby.h"

/* As much as a guest holds unless the user says otherwise (hold.h). */
#define MOST_KEPT (64 << 20)

/* The first standby that takes over makes this file in the recording: there must be no second. */
#define TAKEN_OVER "taken-over"

/* What the guest has written to its console in an epoch. */
typedef struct Kept {
    uint64_t epoch;
    GByteArray *bytes;
} Kept;

static struct {
    bool is_open;
    QemuMutex lock;             /* of the rest while vCPUs run */
    GQueue *kept;               /* of Kept */
    size_t n_kept;              /* bytes */
} standby;

/* --- networks ------------------------------------------------------------------------------ */

static void cut_link(NICState *nic, void *opaque)
{
    bool *is_cut = opaque;
    unsigned n = MAX(nic->conf->peers.queues, 1);

    for (unsigned i = 0; i < n; i++) {
        NetClientState *backend = qemu_get_subqueue(nic, i)->peer;

        if (backend) {
            backend->link_down = *is_cut;
        }
    }
}

static void cut_links(bool is_cut)
{
    qemu_foreach_nic(cut_link, &is_cut);
}

/* --- console ------------------------------------------------------------------------------- */

static void kept_free(Kept *kept)
{
    g_byte_array_unref(kept->bytes);
    g_free(kept);
}

static void free_all_kept(GQueue *kept)
{
    g_queue_free_full(kept, (GDestroyNotify)kept_free);
}

/* Drop what was released long ago: the recorder holds no more than this. */
static void drop_oldest(void)
{
    while (standby.n_kept > MOST_KEPT && standby.kept->length > 1) {
        Kept *oldest = g_queue_pop_head(standby.kept);

        standby.n_kept -= oldest->bytes->len;
        kept_free(oldest);
    }
}

void standby_keep(uint8_t byte)
{
    uint64_t epoch = epoch_check_current();
    Kept *kept;

    qemu_mutex_lock(&standby.lock);
    kept = g_queue_peek_tail(standby.kept);
    if (!kept || kept->epoch != epoch) {
        kept = g_new0(Kept, 1);
        kept->epoch = epoch;
        kept->bytes = g_byte_array_new();
        g_queue_push_tail(standby.kept, kept);
        drop_oldest();
    }
    g_byte_array_append(kept->bytes, &byte, 1);
    standby.n_kept++;
    qemu_mutex_unlock(&standby.lock);
}

/* Write what was not released.  Some of it may have been at the last moment: it comes twice. */
static void show_kept(const GQueue *all, uint64_t released)
{
    Chardev *console = serial_hd(0);

    for (const GList *link = all->head; link; link = link->next) {
        const Kept *kept = link->data;

        if (kept->epoch > released && console) {
            qemu_chr_write_all(console, kept->bytes->data, kept->bytes->len);
        }
    }
}

/* --- start and end --------------------------------------------------------------------------- */

static bool is_free(const char *directory, Error **errp)
{
    g_autofree char *path = g_build_filename(directory, TAKEN_OVER, NULL);

    if (g_file_test(path, G_FILE_TEST_EXISTS)) {
        error_setg(errp, "another standby has taken over already: there is %s", path);
        return false;
    }
    return true;
}

/* Be the only one that takes over.  Return false and set @error if another one has. */
static bool claim(char **error)
{
    g_autofree char *path = g_build_filename(player.recording, TAKEN_OVER, NULL);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    if (fd < 0) {
        *error = errno == EEXIST ? g_strdup("another standby has")
                                 : g_strdup_printf("cannot create %s: %s", path, strerror(errno));
        return false;
    }
    close(fd);
    return true;
}

bool standby_open(const char *directory, Error **errp)
{
    static bool once;

    if (!player.manifest->standby) {
        error_setg(errp, "this recording is not made for a standby: see reprise protect");
        return false;
    }
    if (!recorder_is_recorded_machine(player.manifest, errp) ||
        !is_free(directory, errp) || !recorder_disks_open(player.manifest->disks, errp)) {
        return false;
    }
    if (!once) {
        once = true;
        qemu_mutex_init(&standby.lock);
    }
    standby.is_open = true;
    standby.kept = g_queue_new();
    standby.n_kept = 0;
    cut_links(true);
    return true;
}

void standby_close(void)
{
    if (standby.is_open) {
        standby.is_open = false;
        g_clear_pointer(&standby.kept, free_all_kept);
        cut_links(false);
    }
    player.standby = false;
}

/*
 * Take the disks, and load the state of devices into the machine, which has just been a replay.  It
 * has never run as a machine, and if it was loaded in part it never must.
 */
static bool load(const char *directory, uint64_t number, const GByteArray *state, Error **errp)
{
    bool loaded;

    runstate_set(RUN_STATE_PRELAUNCH);
    runstate_set(RUN_STATE_INMIGRATE);
    loaded = recorder_disks_take(directory, number, errp) && machine_state_load_epoch(state, errp);
    runstate_set(loaded ? RUN_STATE_PAUSED : RUN_STATE_INTERNAL_ERROR);
    return loaded;
}

void standby_go_live(uint64_t number, uint64_t released)
{
    static AnnounceTimer announce;
    g_autoptr(GError) error = NULL;
    g_autoptr(GByteArray) state = epoch_state_read(player.recording, number, &error);
    g_autofree char *objection = NULL;
    g_autofree char *directory = g_strdup(player.recording);
    GQueue *kept;
    Error *failure = NULL;

    if (!state || !claim(&objection)) {
        player.divergence = g_strdup_printf("cannot take over: %s", objection ?: error->message);
        player_end();
        return;
    }
    vm_stop(RUN_STATE_PAUSED);          /* no end of the replay: player.arrived is still set */
    kept = g_steal_pointer(&standby.kept);
    player_leave();
    if (!load(directory, number, state, &failure)) {
        RecorderReplayEnd *end = g_new0(RecorderReplayEnd, 1);

        end->divergence = g_strdup_printf("cannot take over: epoch %" PRIu64 ": %s", number,
                                          error_get_pretty(failure));
        error_free(failure);
        free_all_kept(kept);
        player_tell_end(end);
        return;
    }
    vm_start();
    qemu_announce_self(&announce, migrate_announce_params());
    qapi_event_send_recorder_live(number);
    show_kept(kept, released);          /* before the guest writes more: that needs the BQL */
    free_all_kept(kept);
}
