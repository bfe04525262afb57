/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See disks.h.
 *
 * A write is of the epoch in which it was begun.  It has also ended then: the end of an epoch waits
 * for requests (epochs.c).  What the disk had is in its file before the write begins, so a recorder
 * that is killed at any moment leaves a disk that can be brought back to the end of any epoch whose
 * files are there.
 *
 * Writes that overlap and are under way together may be saved in any order: the first one to be
 * saved is undone last, and none of them had begun when it read what the disk had.
 */
#include "qemu/osdep.h"
#include "block/block-io.h"
#include "block/block_int.h"
#include "hw/qdev-core.h"
#include "qobject/qdict.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "system/block-backend.h"

#include <sys/stat.h>

#include "hw/recorder/disks.h"
#include "hw/recorder/epochs.h"
#include "hw/recorder/recorder.h"
#include "recording/disk-undo.h"

#define FILTER "reprise-undo"

/* A disk that the guest may write. */
typedef struct Disk {
    BlockBackend *blk;
    char *device;
    char *image;                /* a path; NULL: it is no raw image, or has no path */
} Disk;

static struct {
    GPtrArray *filters;         /* of BlockDriverState; or NULL */
    DiskUndo *undo;             /* NULL: nothing is saved */
} disks;

/* --- which disks there are ------------------------------------------------------------------ */

static void disk_free(void *opaque)
{
    Disk *disk = opaque;

    g_free(disk->device);
    g_free(disk->image);
    g_free(disk);
}

/* Return the path of the file whose bytes are those of the disk, or NULL. */
static char *image_of(BlockBackend *blk)
{
    BlockDriverState *file;
    int64_t size;

    GRAPH_RDLOCK_GUARD_MAINLOOP();

    file = bdrv_skip_filters(blk_bs(blk));
    size = bdrv_getlength(file);
    if (g_strcmp0(bdrv_get_format_name(file), "raw") == 0 && file->file) {
        file = bdrv_skip_filters(file->file->bs);
    }
    if ((g_strcmp0(bdrv_get_format_name(file), "file") != 0 &&
         g_strcmp0(bdrv_get_format_name(file), "host_device") != 0) ||
        size < 0 || bdrv_getlength(file) != size || !*file->exact_filename) {
        return NULL;
    }
    return g_strdup(file->exact_filename);
}

static gint compare_devices(gconstpointer a, gconstpointer b)
{
    return strcmp((*(Disk *const *)a)->device, (*(Disk *const *)b)->device);
}

/* Return all disks, sorted by their devices; of Disk. */
static GPtrArray *all_disks(void)
{
    GPtrArray *all = g_ptr_array_new_with_free_func(disk_free);

    for (BlockBackend *blk = blk_all_next(NULL); blk; blk = blk_all_next(blk)) {
        DeviceState *device = blk_get_attached_dev(blk);
        Disk *disk;

        if (device && blk_is_available(blk) && blk_is_writable(blk)) {
            disk = g_new0(Disk, 1);
            disk->blk = blk;
            disk->device = object_get_canonical_path(OBJECT(device));
            disk->image = image_of(blk);
            g_ptr_array_add(all, disk);
        }
    }
    g_ptr_array_sort(all, compare_devices);
    return all;
}

static bool are_read_only(const char *what, const char *why, Error **errp)
{
    for (BlockBackend *disk = blk_all_next(NULL); disk; disk = blk_all_next(disk)) {
        if (blk_is_available(disk) && blk_is_writable(disk)) {
            error_setg(errp, "cannot %s, since what the guest writes to disk %s %s: make it "
                       "read-only", what, *blk_name(disk) ? blk_name(disk) : "without a name", why);
            return false;
        }
    }
    return true;
}

/* Flash is memory, too, which a standby would have to bring back. */
static bool is_flash(BlockBackend *blk)
{
    Object *device = OBJECT(blk_get_attached_dev(blk));

    return object_dynamic_cast(device, "cfi.pflash01") ||
           object_dynamic_cast(device, "cfi.pflash02");
}

static bool can_be_undone(Error **errp)
{
    g_autoptr(GPtrArray) all = all_disks();

    for (unsigned i = 0; i < all->len; i++) {
        const Disk *disk = all->pdata[i];
        const char *name = *blk_name(disk->blk) ? blk_name(disk->blk) : disk->device;

        if (!disk->image || is_flash(disk->blk)) {
            error_setg(errp, "a standby cannot take over disk %s: %s", name,
                       disk->image ? "make the flash read-only"
                                   : "give it a raw image in a file, or make it read-only");
            return false;
        }
    }
    return true;
}

bool recorder_can_have_disks(const RecorderOptions *options, Error **errp)
{
    if (options->standby) {
        return can_be_undone(errp);
    }
    return (!options->live || are_read_only("make checkpoints to go live from",
                                            "is no part of them", errp)) &&
           (!options->hold || are_read_only("hold output", "would be seen at once", errp));
}

char **recorder_own_disks(void)
{
    g_autoptr(GPtrArray) all = all_disks();
    char **texts;

    if (all->len == 0) {
        return NULL;
    }
    texts = g_new0(char *, all->len + 1);
    for (unsigned i = 0; i < all->len; i++) {
        const Disk *disk = all->pdata[i];
        struct stat st = { .st_ino = 0 };

        if (disk->image) {
            stat(disk->image, &st);
        }
        texts[i] = g_strdup_printf("%s %" PRIu64 ":%" PRIu64 " %" PRId64, disk->device,
                                   (uint64_t)st.st_dev, (uint64_t)st.st_ino,
                                   blk_getlength(disk->blk));
    }
    return texts;
}

bool recorder_are_own_disks(char *const *recorded, Error **errp)
{
    g_auto(GStrv) own = recorder_own_disks();

    if (own && recorded ? g_strv_equal((const char *const *)recorded, (const char *const *)own)
                        : !own && !recorded) {
        return true;
    }
    error_setg(errp, "this machine writes other disks: give it the images of the guest itself, "
               "with file.locking=off");
    return false;
}

/* --- the filter --------------------------------------------------------------------------- */

typedef struct Filter {
    unsigned disk;
} Filter;

/* Save what the disk has.  Return 0 or -errno. */
static int coroutine_fn GRAPH_RDLOCK save(BlockDriverState *bs, int64_t offset, int64_t bytes)
{
    const Filter *filter = bs->opaque;
    g_autofree uint8_t *old = NULL;

    if (!disks.undo) {
        return 0;
    }
    old = g_try_malloc(MIN(bytes, DISK_UNDO_MOST_BYTES));
    if (!old && bytes) {
        return -ENOMEM;
    }
    while (bytes > 0) {
        size_t n = MIN(bytes, DISK_UNDO_MOST_BYTES);
        g_autoptr(GError) error = NULL;
        int failed = bdrv_co_pread(bs->file, offset, n, old, 0);

        if (failed < 0) {
            return failed;
        }
        /* The recording may have ended meanwhile. */
        if (disks.undo && !disk_undo_save(disks.undo, recorder_epochs_current(), filter->disk,
                                          offset, old, n, &error)) {
            recorder_fail("%s", error->message);
            /* The write begins all the same, so no standby may go on from before it. */
            recorder_epochs_forget_states(recorder_epochs_written() + 2);
            return 0;
        }
        offset += n;
        bytes -= n;
    }
    return 0;
}

static int filter_open(BlockDriverState *bs, QDict *options, int flags, Error **errp)
{
    int failed = bdrv_open_file_child(NULL, options, "file", bs, errp);

    if (failed < 0) {
        return failed;
    }
    GRAPH_RDLOCK_GUARD_MAINLOOP();

    bs->supported_write_flags = BDRV_REQ_WRITE_UNCHANGED |
                                (BDRV_REQ_FUA & bs->file->bs->supported_write_flags);
    bs->supported_zero_flags = BDRV_REQ_WRITE_UNCHANGED |
        ((BDRV_REQ_FUA | BDRV_REQ_MAY_UNMAP | BDRV_REQ_NO_FALLBACK) &
         bs->file->bs->supported_zero_flags);
    return 0;
}

static int64_t coroutine_fn GRAPH_RDLOCK filter_getlength(BlockDriverState *bs)
{
    return bdrv_co_getlength(bs->file->bs);
}

static int coroutine_fn GRAPH_RDLOCK filter_read(BlockDriverState *bs, int64_t offset,
                                                 int64_t bytes, QEMUIOVector *qiov,
                                                 size_t qiov_offset, BdrvRequestFlags flags)
{
    return bdrv_co_preadv_part(bs->file, offset, bytes, qiov, qiov_offset, flags);
}

static int coroutine_fn GRAPH_RDLOCK filter_write(BlockDriverState *bs, int64_t offset,
                                                  int64_t bytes, QEMUIOVector *qiov,
                                                  size_t qiov_offset, BdrvRequestFlags flags)
{
    return save(bs, offset, bytes) ?:
           bdrv_co_pwritev_part(bs->file, offset, bytes, qiov, qiov_offset, flags);
}

static int coroutine_fn GRAPH_RDLOCK filter_write_zeroes(BlockDriverState *bs, int64_t offset,
                                                         int64_t bytes, BdrvRequestFlags flags)
{
    return save(bs, offset, bytes) ?: bdrv_co_pwrite_zeroes(bs->file, offset, bytes, flags);
}

static int coroutine_fn GRAPH_RDLOCK filter_discard(BlockDriverState *bs, int64_t offset,
                                                    int64_t bytes)
{
    return save(bs, offset, bytes) ?: bdrv_co_pdiscard(bs->file, offset, bytes);
}

static BlockDriver filter_driver = {
    .format_name = FILTER,
    .instance_size = sizeof(Filter),
    .bdrv_open = filter_open,
    .bdrv_child_perm = bdrv_default_perms,
    .bdrv_co_getlength = filter_getlength,
    .bdrv_co_preadv_part = filter_read,
    .bdrv_co_pwritev_part = filter_write,
    .bdrv_co_pwrite_zeroes = filter_write_zeroes,
    .bdrv_co_pdiscard = filter_discard,
    .is_filter = true,
};

static void register_filter(void)
{
    bdrv_register(&filter_driver);
}

block_init(register_filter);

/* --- while recording ------------------------------------------------------------------------- */

static void take_out(void *opaque)
{
    GPtrArray *filters = g_steal_pointer(&disks.filters);

    for (unsigned i = 0; filters && i < filters->len; i++) {
        bdrv_drop_filter(filters->pdata[i], &error_abort);
        bdrv_unref(filters->pdata[i]);
    }
    if (filters) {
        g_ptr_array_unref(filters);
    }
}

bool recorder_disks_prepare(Error **errp)
{
    g_autoptr(GPtrArray) all = all_disks();

    take_out(NULL);
    disks.filters = g_ptr_array_new();
    for (unsigned i = 0; i < all->len; i++) {
        BlockDriverState *below = blk_bs(((Disk *)all->pdata[i])->blk), *filter;
        QDict *options = qdict_new();

        qdict_put_str(options, "driver", FILTER);
        qdict_put_str(options, "file", bdrv_get_node_name(below));
        filter = bdrv_insert_node(below, options, BDRV_O_RDWR, errp);
        if (!filter) {
            recorder_disks_stop();
            return false;
        }
        ((Filter *)filter->opaque)->disk = i;
        g_ptr_array_add(disks.filters, filter);
    }
    return true;
}

void recorder_disks_start(int directory_fd, const char *directory)
{
    disks.undo = disk_undo_new(directory_fd, directory);
}

void recorder_disks_stop(void)
{
    g_clear_pointer(&disks.undo, disk_undo_free);
    if (disks.filters) {
        aio_bh_schedule_oneshot(qemu_get_aio_context(), take_out, NULL);
    }
}

/* --- taking over -------------------------------------------------------------------------- */

bool recorder_disks_roll_back(const char *directory, uint64_t epoch, Error **errp)
{
    g_autoptr(GPtrArray) all = all_disks();
    g_autofree int *fds = g_new0(int, all->len + 1);
    g_autoptr(GError) error = NULL;
    bool done = true;
    unsigned n = 0;

    while (done && n < all->len) {
        const Disk *disk = all->pdata[n];

        fds[n] = open(disk->image, O_RDWR | O_CLOEXEC);
        done = fds[n] >= 0;
        if (done) {
            n++;
        } else {
            error_setg_file_open(errp, errno, disk->image);
        }
    }
    if (done && !disk_undo_roll_back(directory, epoch, fds, n, &error)) {
        error_setg(errp, "%s", error->message);
        done = false;
    }
    for (unsigned i = 0; i < n; i++) {
        close(fds[i]);
    }
    return done;
}
