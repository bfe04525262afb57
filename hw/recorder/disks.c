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
#include "qapi/error.h"
#include "qobject/qdict.h"
#include "qemu/error-report.h"
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
    Error *why;                 /* nobody else may change the nodes */
    bool is_blocked;            /* nobody may now */
    DiskUndo *undo;             /* NULL: nothing is saved */
    GArray *images;             /* of a standby, descriptors; or NULL */
} disks;

/* --- which disks there are ------------------------------------------------------------------ */

static void disk_free(void *opaque)
{
    Disk *disk = opaque;

    g_free(disk->device);
    g_free(disk->image);
    g_free(disk);
}

/* Return true if this process has the file open: a path may lead to another one by now. */
static bool is_open(const struct stat *file)
{
    g_autoptr(GDir) fds = g_dir_open("/proc/self/fd", 0, NULL);
    const char *name;

    while (fds && (name = g_dir_read_name(fds))) {
        struct stat st;

        if (fstat(atoi(name), &st) == 0 && st.st_dev == file->st_dev &&
            st.st_ino == file->st_ino) {
            return true;
        }
    }
    return false;
}

/* Return the path of the file whose bytes are those of the disk, or NULL. */
static char *image_of(BlockBackend *blk)
{
    BlockDriverState *file;
    struct stat st;
    int64_t size;

    GRAPH_RDLOCK_GUARD_MAINLOOP();

    file = bdrv_skip_filters(blk_bs(blk));
    size = bdrv_getlength(file);
    if (g_strcmp0(bdrv_get_format_name(file), "raw") == 0 && file->file) {
        file = bdrv_skip_filters(file->file->bs);
    }
    if ((g_strcmp0(bdrv_get_format_name(file), "file") != 0 &&
         g_strcmp0(bdrv_get_format_name(file), "host_device") != 0) ||
        size < 0 || bdrv_getlength(file) != size || stat(file->exact_filename, &st) < 0 ||
        (S_ISREG(st.st_mode) && st.st_size != size) || !is_open(&st)) {
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

/* Return what a manifest says of a disk whose image has been stat'ed. */
static char *describe(const Disk *disk, const struct stat *image)
{
    return g_strdup_printf("%s %" PRIu64 ":%" PRIu64 " %" PRId64, disk->device,
                           (uint64_t)image->st_dev, (uint64_t)image->st_ino,
                           blk_getlength(disk->blk));
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

        if (disk->image) {              /* else nothing of it is saved: it is no standby's */
            stat(disk->image, &st);
        }
        texts[i] = describe(disk, &st);
    }
    return texts;
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
            recorder_epochs_settle();
            recorder_epochs_forget_states();
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

/* Without a function of its own, discards do nothing: what they discard would have to be saved. */
static BlockDriver filter_driver = {
    .format_name = FILTER,
    .instance_size = sizeof(Filter),
    .bdrv_open = filter_open,
    .bdrv_child_perm = bdrv_default_perms,
    .bdrv_co_getlength = filter_getlength,
    .bdrv_co_preadv_part = filter_read,
    .bdrv_co_pwritev_part = filter_write,
    .bdrv_co_pwrite_zeroes = filter_write_zeroes,
    .is_filter = true,
};

static void register_filter(void)
{
    bdrv_register(&filter_driver);
}

block_init(register_filter);

/* --- while recording ------------------------------------------------------------------------- */

/* Let nobody else change what is between a disk's device and its image; or end that. */
static void block_others(bool is_blocked)
{
    GRAPH_RDLOCK_GUARD_MAINLOOP();

    for (unsigned i = 0; disks.filters && i < disks.filters->len; i++) {
        for (BlockDriverState *node = disks.filters->pdata[i]; node;
             node = node->file ? node->file->bs : NULL) {
            if (is_blocked) {
                bdrv_op_block_all(node, disks.why);
            } else {
                bdrv_op_unblock_all(node, disks.why);
            }
        }
    }
}

static void take_out(void *opaque)
{
    GPtrArray *filters = g_steal_pointer(&disks.filters);

    for (unsigned i = 0; filters && i < filters->len; i++) {
        Error *error = NULL;

        if (bdrv_drop_filter(filters->pdata[i], &error) < 0) {
            warn_report_err(error);     /* somebody uses it: it may stay, and does nothing */
        }
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
    if (!disks.why) {
        error_setg(&disks.why, "a standby must find what the guest writes");
    }
    disks.filters = g_ptr_array_new();
    for (unsigned i = 0; i < all->len; i++) {
        BlockDriverState *below = blk_bs(((Disk *)all->pdata[i])->blk), *filter;
        QDict *options = qdict_new();

        qdict_put_str(options, "driver", FILTER);
        qdict_put_str(options, "file", bdrv_get_node_name(below));
        filter = bdrv_insert_node(below, options, BDRV_O_RDWR, errp);
        if (!filter) {
            return false;
        }
        ((Filter *)filter->opaque)->disk = i;
        g_ptr_array_add(disks.filters, filter);
    }
    block_others(true);
    disks.is_blocked = true;
    return true;
}

void recorder_disks_start(int directory_fd, const char *directory)
{
    disks.undo = disk_undo_new(directory_fd, directory);
}

void recorder_disks_stop(void)
{
    g_clear_pointer(&disks.undo, disk_undo_free);
    if (disks.is_blocked) {
        disks.is_blocked = false;
        block_others(false);
    }
    if (disks.filters) {
        aio_bh_schedule_oneshot(qemu_get_aio_context(), take_out, NULL);
    }
}

/* --- a standby ------------------------------------------------------------------------------ */

/*
 * QEMU's locks of an image are of single bytes (block/file-posix.c): one for each permission that
 * it has, and one for each that it leaves to nobody else.
 */
enum {
    LOCKED_OWN = 100, LOCKED_OTHERS = 200,
    PERM_READ = 0, PERM_WRITE = 1, PERM_RESIZE = 3,
};

static const int locks[] = {
    LOCKED_OWN + PERM_READ, LOCKED_OWN + PERM_WRITE,
    LOCKED_OTHERS + PERM_WRITE, LOCKED_OTHERS + PERM_RESIZE,
};

static void close_images(void)
{
    for (unsigned i = 0; disks.images && i < disks.images->len; i++) {
        close(g_array_index(disks.images, int, i));
    }
    g_clear_pointer(&disks.images, g_array_unref);
}

bool recorder_disks_open(char *const *recorded, Error **errp)
{
    g_autoptr(GPtrArray) all = all_disks();

    close_images();
    disks.images = g_array_new(false, false, sizeof(int));
    for (unsigned i = 0; i < all->len || (recorded && recorded[i]); i++) {
        const Disk *disk = i < all->len ? all->pdata[i] : NULL;
        int fd = disk && disk->image ? open(disk->image, O_RDWR | O_CLOEXEC) : -1;
        g_autofree char *text = NULL;
        struct stat st;

        if (fd >= 0) {
            g_array_append_val(disks.images, fd);
        }
        if (fd >= 0 && fstat(fd, &st) == 0) {
            text = describe(disk, &st);
        }
        if (!recorded || !text || g_strcmp0(recorded[i], text) != 0) {
            error_setg(errp, "this machine writes other disks: give it the images of the guest "
                       "itself, with file.locking=off");
            close_images();
            return false;
        }
    }
    return true;
}

/* Return false and set @errp if another QEMU writes the image, or means to. */
static bool lock(int fd, Error **errp)
{
    if (qemu_lock_fd_test(fd, LOCKED_OWN + PERM_WRITE, 1, true) < 0 ||
        qemu_lock_fd_test(fd, LOCKED_OTHERS + PERM_WRITE, 1, true) < 0) {
        error_setg(errp, "another process uses the image of a disk");
        return false;
    }
    for (unsigned i = 0; i < ARRAY_SIZE(locks); i++) {
        if (qemu_lock_fd(fd, locks[i], 1, false) < 0) {
            error_setg(errp, "cannot lock the image of a disk");
            return false;
        }
    }
    return true;
}

bool recorder_disks_take(const char *directory, uint64_t epoch, Error **errp)
{
    const int *fds = (const int *)disks.images->data;
    g_autoptr(GError) error = NULL;

    for (unsigned i = 0; i < disks.images->len; i++) {
        if (!lock(fds[i], errp)) {
            return false;
        }
    }
    if (!disk_undo_roll_back(directory, epoch, fds, disks.images->len, &error)) {
        error_setg(errp, "%s", error->message);
        return false;
    }
    /* Later writes may reach the host's disk before earlier ones that are undone. */
    for (unsigned i = 0; i < disks.images->len; i++) {
        if (fdatasync(fds[i]) < 0) {
            error_setg_errno(errp, errno, "cannot write the image of a disk");
            return false;
        }
    }
    return true;
}
