/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The manifest: what was saved is loaded, and any other file is refused with an error of one line.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/version.h"
#include "recording/log-format.h"
#include "recording/manifest.h"
#include "tests/recording/file-limit.h"

#define FUZZ_ROUNDS 20000

static char *directory;
static char *path;

static void assert_same(const Manifest *a, const Manifest *b)
{
    g_assert_cmpuint(a->log_version, ==, b->log_version);
    g_assert_cmpstr(a->reprise_version, ==, b->reprise_version);
    g_assert_cmpstr(a->patch_level, ==, b->patch_level);
    g_assert_cmpstr(a->qemu_version, ==, b->qemu_version);
    g_assert_cmpstr(a->arch, ==, b->arch);
    g_assert_cmpstr(a->machine, ==, b->machine);
    g_assert_cmpstr(a->machine_options ?: "", ==, b->machine_options);
    g_assert_cmpstr(a->cpu, ==, b->cpu);
    g_assert_cmpuint(a->n_vcpus, ==, b->n_vcpus);
    g_assert_cmpuint(a->ram_size, ==, b->ram_size);
    g_assert_cmpstr(a->console ?: "", ==, b->console);
    g_assert_cmpuint(a->console_address, ==, b->console_address);
    g_assert_cmpmem(&a->orders, sizeof(a->orders), &b->orders, sizeof(b->orders));
    g_assert_cmpint(a->follow, ==, b->follow);
    g_assert_cmpstr(a->start, ==, b->start);
    g_assert_cmpint(a->start_time, ==, b->start_time);
    g_assert_cmpint(a->live, ==, b->live);
    g_assert_cmpint(a->standby, ==, b->standby);
    g_assert_cmpstr(a->command_directory ?: "", ==, b->command_directory ?: "");
    g_assert_cmpint(!a->devices, ==, !b->devices);
    if (a->devices) {
        g_assert_cmpstrv(a->devices, b->devices);
    }
    g_assert_cmpint(!a->command, ==, !b->command);
    if (a->command) {
        g_assert_cmpstrv(a->command, b->command);
    }
    g_assert_cmpint(a->complete, ==, b->complete);
    g_assert_cmpstr(a->end_reason ?: "", ==, b->end_reason);
    g_assert_cmpint(!a->end, ==, !b->end);
    if (a->end) {
        g_assert_cmpmem(a->end->at, a->end->n_vcpus * sizeof(Position),
                        b->end->at, b->end->n_vcpus * sizeof(Position));
        g_assert_cmpfloat(a->seconds, ==, b->seconds);
        g_assert_cmpmem(a->register_digests, a->n_vcpus * sizeof(uint64_t),
                        b->register_digests, b->n_vcpus * sizeof(uint64_t));
        g_assert_cmpmem(a->instructions, a->n_vcpus * sizeof(uint64_t),
                        b->instructions, b->n_vcpus * sizeof(uint64_t));
        g_assert_cmpuint(a->arcs, ==, b->arcs);
        g_assert_cmpstr(a->ram_digest ?: "", ==, b->ram_digest);
    }
    g_assert_cmpint(!a->cut, ==, !b->cut);
    if (a->cut) {
        g_assert_true(point_includes(a->cut, b->cut) && point_includes(b->cut, a->cut));
    }
    g_assert_cmpuint(a->checkpoints->len, ==, b->checkpoints->len);
    for (unsigned i = 0; i < a->checkpoints->len; i++) {
        g_assert_cmpstr(a->checkpoints->pdata[i], ==, b->checkpoints->pdata[i]);
    }
}

/* Return a manifest at the start of a recording, with only the keys that are required. */
static Manifest *started(unsigned n_vcpus)
{
    Manifest *manifest = manifest_new(n_vcpus);

    manifest->qemu_version = g_strdup("10.0.2 (Debian 1:10.0.2+ds-2)");
    manifest->arch = g_strdup("aarch64");
    manifest->machine = g_strdup("virt-10.0");
    manifest->cpu = g_strdup("cortex-a72,pmu=off");
    manifest->ram_size = UINT64_C(512) << 20;
    manifest->start = g_strdup(MANIFEST_START_POWER_ON);
    return manifest;
}

static Manifest *ended(unsigned n_vcpus)
{
    Manifest *manifest = started(n_vcpus);

    manifest->machine_options = g_strdup("gic-version=2,its=off");
    manifest->console = g_strdup("pl011");
    manifest->console_address = 0x9000000;
    manifest->start_time = 1763170000;
    manifest->complete = true;
    manifest->end_reason = g_strdup("guest shut down: \\ \"quoted\" \xc3\xa4; done");
    manifest->end = point_new(n_vcpus);
    manifest->seconds = 12.345678901234567;
    manifest->arcs = UINT64_MAX;
    manifest->ram_digest = g_strdup("0123456789abcdef0123456789abcdef");
    for (unsigned i = 0; i < n_vcpus; i++) {
        manifest->end->at[i] = UINT64_MAX - i;
        manifest->register_digests[i] = i * UINT64_C(0x9e3779b97f4a7c15);
        manifest->instructions[i] = i ? 1000 + i : UINT64_MAX;
    }
    manifest_add_checkpoint(manifest, "checkpoint-0");
    manifest_add_checkpoint(manifest, "checkpoint-1.a");
    return manifest;
}

#define SUM "\n[checksum]\n"

/* Return @text with a right checksum, to be freed by the caller. */
static char *summed(const char *text)
{
    g_autofree char *content = g_strdup(text);
    g_autofree char *start = NULL;
    char *sum = strstr(content, SUM);

    if (sum) {
        *sum = '\0';
    }
    start = g_strconcat(content, SUM, NULL);
    return g_strdup_printf("%scrc32c=%08x\n", start, recording_crc32c(0, start, strlen(start)));
}

/* Return a manifest of a recording that is not complete, and is replayed up to a cut. */
static Manifest *cut(unsigned n_vcpus)
{
    Manifest *manifest = started(n_vcpus);

    manifest->cut = point_new(n_vcpus);
    manifest->cut->at[n_vcpus - 1] = UINT64_MAX;
    return manifest;
}

/* Return a manifest of a recording from which the guest can go on. */
static Manifest *live(unsigned n_vcpus)
{
    Manifest *manifest = started(n_vcpus);

    manifest->live = true;
    manifest->standby = n_vcpus % 2;
    manifest->command = g_strsplit("/usr/bin/qemu|-append|a \"b;c\" \\ =\xc3\xa4||-S", "|", -1);
    manifest->command_directory = g_strdup("/srv/me; you");
    manifest->devices = g_strsplit("/machine/a virtio;net|/machine/b[0] x", "|", -1);
    return manifest;
}

static char *saved_text(const Manifest *manifest)
{
    g_autoptr(GError) error = NULL;
    char *text;

    manifest_save(manifest, directory, &error);
    g_assert_no_error(error);
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    return text;
}

static void test_round_trip(void)
{
    static Manifest *(*const make[])(unsigned) = { started, ended, cut, live };
    const unsigned sizes[] = { 1, 2, 64, RECORDER_MAX_VCPUS };

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes) * G_N_ELEMENTS(make); i++) {
        unsigned n = sizes[i / G_N_ELEMENTS(make)];
        g_autoptr(Manifest) manifest = make[i % G_N_ELEMENTS(make)](n);
        g_autofree char *text = saved_text(manifest);
        g_autoptr(GError) error = NULL;
        g_autoptr(Manifest) loaded = manifest_load(directory, &error);

        g_assert_no_error(error);
        assert_same(manifest, loaded);
        g_assert_true(manifest_check_replayable(loaded, &error));
        g_assert_no_error(error);
    }
}

/* Recordings of FDR alone have no [order], as those before there were others. */
static void test_orders(void)
{
    static const struct {
        const char *orders, *line;
    } cases[] = {
        { "fdr", NULL },
        { "karma", "\n[order]\nrecorded=karma:16384\n" },
        { "fdr,rerun:0,karma:5", "\n[order]\nrecorded=fdr,karma:5,rerun:0\n" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(Manifest) manifest = ended(2);
        g_autoptr(Manifest) loaded = NULL;
        g_autofree char *text = NULL;
        g_autoptr(GError) error = NULL;
        Orders orders;

        g_assert_true(orders_parse(cases[i].orders, &orders, NULL));
        manifest_set_orders(manifest, &orders);
        text = saved_text(manifest);
        g_assert_cmpint(!strstr(text, "order]"), ==, !cases[i].line);
        g_assert_true(!cases[i].line || strstr(text, cases[i].line));
        loaded = manifest_load(directory, &error);
        g_assert_no_error(error);
        assert_same(manifest, loaded);
        /* Another one can be followed, if it is there. */
        g_assert_cmpint(manifest_follow(loaded, "here", "rerun", &error), ==,
                        orders_has(&orders, RACE_RERUN));
        if (error) {
            g_assert_true(g_str_has_prefix(error->message, "here was not recorded with the order "
                                           "rerun: it has "));
            g_assert_cmpint(loaded->follow, ==, orders_first(&orders));
        } else {
            g_assert_cmpint(loaded->follow, ==, RACE_RERUN);
        }
    }
}

static void write_manifest(const char *text, size_t length)
{
    FILE *file;

    g_unlink(path);     /* some file systems sync a file that is replaced */
    file = fopen(path, "wb");
    g_assert_cmpuint(fwrite(text, 1, length, file), ==, length);
    fclose(file);
}

static void expect_refused(const char *text, ssize_t length, int code, const char *word)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(g_file_set_contents(path, text, length, NULL));
    g_assert_null(manifest_load(directory, &error));
    g_assert_error(error, MANIFEST_ERROR, code);
    if (!strstr(error->message, word) || strchr(error->message, '\n')) {
        g_error("'%s' expected in one line: %s", word, error->message);
    }
}

/*
 * Return @text with the match of @pattern, which must exist, replaced, and a new checksum.  To be
 * freed by the caller.
 */
static char *edited(const char *text, const char *pattern, const char *replacement)
{
    g_autoptr(GRegex) regex = g_regex_new(pattern, G_REGEX_MULTILINE, 0, NULL);
    g_autofree char *changed = NULL;

    g_assert_nonnull(regex);
    g_assert_true(g_regex_match(regex, text, 0, NULL));
    changed = g_regex_replace_literal(regex, text, -1, 0, replacement, 0, NULL);
    return summed(changed);
}

#define ORIGIN "[origin]\ndevices=a;\n"

static void test_refusals(void)
{
    static const struct {
        const char *pattern, *replacement;
        int code;
        const char *word;
    } cases[] = {
        { "^vcpus=.*", "vcpus=0", MANIFEST_ERROR_INVALID, "0 vCPUs" },
        { "^vcpus=.*", "vcpus=257", MANIFEST_ERROR_INVALID, "257" },
        { "^vcpus=.*", "vcpus=-1", MANIFEST_ERROR_INVALID, "vcpus" },
        { "^vcpus=.*", "vcpus=two\\nlines", MANIFEST_ERROR_INVALID, "two\\nlines" },
        { "^vcpus=.*", "vcpus=3", MANIFEST_ERROR_INVALID, "point" },
        { "^ram-size=.*", "ram-size=0", MANIFEST_ERROR_INVALID, "bytes of RAM" },
        { "^ram-size=.*", "ram-size=99999999999999999", MANIFEST_ERROR_INVALID, "bytes of RAM" },
        { "^ram-size=.*", "ram-size=99999999999999999999", MANIFEST_ERROR_INVALID, "ram-size" },
        { "^ram-size=.*", "ram-size=512M", MANIFEST_ERROR_INVALID, "512M" },
        { "^log-version=.*", "log-version=0", MANIFEST_ERROR_INVALID, "log format 0" },
        { "^log-version=.*", "log-version=x", MANIFEST_ERROR_INVALID, "log-version" },
        { "^log-version=.*", "log-version=9", MANIFEST_ERROR_VERSION, "log format 9" },
        { "^log-version=.*\n", "", MANIFEST_ERROR_FOREIGN, "log-version" },
        { "^\\[start\\]", "[required]\ntime-machine=1\n[start]", MANIFEST_ERROR_VERSION,
          "needs 'time-machine'" },
        { "^type=.*", "type=virt -hda x", MANIFEST_ERROR_INVALID, "[machine] type" },
        { "^type=.*", "type=", MANIFEST_ERROR_INVALID, "type is empty" },
        { "^options=.*", "options=dtb=/etc/passwd", MANIFEST_ERROR_INVALID, "options" },
        { "^cpu=.*", "cpu=a\\qb", MANIFEST_ERROR_INVALID, "[machine] cpu" },
        { "^qemu-version=.*", "qemu-version=1\\n2", MANIFEST_ERROR_INVALID, "1\\n2" },
        { "^console=.*", "console=", MANIFEST_ERROR_INVALID, "console" },
        { "^console-address=.*", "console-address=0xgg", MANIFEST_ERROR_INVALID, "0xgg" },
        { "^reason=power-on", "reason=magic", MANIFEST_ERROR_INVALID, "magic" },
        { "^time=.*", "time=-5", MANIFEST_ERROR_INVALID, "time" },
        { "^complete=.*", "complete=perhaps", MANIFEST_ERROR_INVALID, "perhaps" },
        { "^point=.*\n", "", MANIFEST_ERROR_INVALID, "without an end" },
        { "^point=.*", "point=0:1,7:2", MANIFEST_ERROR_INVALID, "point" },
        { "^complete=true", "complete=true\ncut=0:1,1:2", MANIFEST_ERROR_INVALID, "a cut" },
        { "^complete=true", "complete=false\ncut=0:1", MANIFEST_ERROR_INVALID, "[end] cut" },
        { "^seconds=.*", "seconds=nan", MANIFEST_ERROR_INVALID, "seconds" },
        { "^seconds=.*", "seconds=-1", MANIFEST_ERROR_INVALID, "seconds" },
        { "^seconds=.*", "seconds=1e999", MANIFEST_ERROR_INVALID, "seconds" },
        { "^seconds=.*", "seconds=1 day", MANIFEST_ERROR_INVALID, "seconds" },
        { "^register-digests=.*", "register-digests=1", MANIFEST_ERROR_INVALID, "one per vCPU" },
        { "^register-digests=.*", "register-digests=1,2,3", MANIFEST_ERROR_INVALID,
          "one per vCPU" },
        { "^instructions=.*", "instructions=1,x", MANIFEST_ERROR_INVALID, "'x'" },
        { "^ram-digest=.*", "ram-digest=", MANIFEST_ERROR_INVALID, "digest of RAM" },
        { "^ram-digest=.*", "ram-digest=0123456789ABCDEF0123456789abcdef",
          MANIFEST_ERROR_INVALID, "ram-digest" },
        { "^names=.*", "names=../../etc;", MANIFEST_ERROR_INVALID, "../../etc" },
        { "^names=.*", "names=a..b;", MANIFEST_ERROR_INVALID, "a..b" },
        { "^names=.*", "names=.hidden;", MANIFEST_ERROR_INVALID, ".hidden" },
        { "^names=.*", "names=a;;", MANIFEST_ERROR_INVALID, "name ''" },
        { "^names=.*", "names=a;b;a;", MANIFEST_ERROR_INVALID, "twice" },
        { "^\\[end\\]", "[order]\nrecorded=\n[end]", MANIFEST_ERROR_INVALID,
          "[order] recorded: no order" },
        { "^\\[end\\]", "[order]\nrecorded=fdr,karma:x\n[end]", MANIFEST_ERROR_INVALID,
          "[order] recorded: 'karma:x'" },
        { "^\\[end\\]", "[order]\nrecorded=x\\ny\n[end]", MANIFEST_ERROR_INVALID,
          "[order] recorded: unknown order 'x\\ny'" },
        { "^\\[end\\]", "[order]\n[end]", MANIFEST_ERROR_INVALID, "no usable recorded" },
        { "^\\[end\\]", "[origin]\nlive=true\n[end]", MANIFEST_ERROR_INVALID,
          "no usable devices" },
        { "^\\[end\\]", ORIGIN "live=true\n[end]", MANIFEST_ERROR_INVALID, "no usable directory" },
        { "^\\[end\\]", ORIGIN "live=1\ndirectory=\n[end]", MANIFEST_ERROR_INVALID,
          "live is '1'" },
        { "^\\[end\\]", ORIGIN "live=true\nstandby=1\ndirectory=\n[end]",
          MANIFEST_ERROR_INVALID, "standby is '1'" },
        { "^\\[end\\]", ORIGIN "live=true\ndirectory=a\\nb\n[end]", MANIFEST_ERROR_INVALID,
          "[origin] directory has a character that may not be there: 'a\\nb'" },
        { "^\\[end\\]", ORIGIN "live=true\ndirectory=\ncommand=a;b\\tc;\n[end]",
          MANIFEST_ERROR_INVALID, "'b\\tc'" },
        { "^\\[end\\]", ORIGIN "live=true\ndirectory=\ncommand=\n[end]",
          MANIFEST_ERROR_INVALID, "0 items" },
        { "^\\[end\\]", "[end", MANIFEST_ERROR_FOREIGN, "KEY=VALUE" },
        { "^arch=", "arch", MANIFEST_ERROR_FOREIGN, "KEY=VALUE" },
        { "^arch=.*", "arch=\xff\xfe", MANIFEST_ERROR_FOREIGN, "KEY=VALUE" },
    };
    g_autoptr(Manifest) manifest = ended(2);
    g_autofree char *text = saved_text(manifest);
    g_autofree char *huge = g_strnfill(MANIFEST_MAX_BYTES + 1, '#');

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *bad = edited(text, cases[i].pattern, cases[i].replacement);

        expect_refused(bad, -1, cases[i].code, cases[i].word);
    }
    expect_refused("", 0, MANIFEST_ERROR_FOREIGN, "log-version");
    expect_refused("\177ELF\0\0", 6, MANIFEST_ERROR_FOREIGN, "KEY=VALUE");
    expect_refused("[Desktop Entry]\nName=x\n", -1, MANIFEST_ERROR_FOREIGN, "log-version");
    expect_refused(huge, -1, MANIFEST_ERROR_FOREIGN, "manifest: too long");
}

/* No key may be missing; any may be added. */
static void test_keys(void)
{
    g_autoptr(Manifest) manifest = ended(2);
    g_autofree char *text = saved_text(manifest);
    g_autofree char *content = g_strndup(text, strstr(text, SUM) - text);
    g_autofree char *longer = g_strconcat(content, "\n[end]\nbeer=free\n[later]\nx=y\n", NULL);
    g_autofree char *more = summed(longer);
    g_auto(GStrv) lines = g_strsplit(content, "\n", -1);
    g_autoptr(GError) error = NULL;
    g_autoptr(Manifest) loaded = NULL;

    for (unsigned i = 0; lines[i]; i++) {
        g_autofree char *rest = NULL;
        g_autofree char *kept = NULL;
        g_autofree char *word = NULL;
        g_autoptr(GError) refusal = NULL;
        g_autoptr(Manifest) none = NULL;
        char *line = lines[i];
        char *equals = strchr(line, '=');

        if (!equals || line[0] == '#') {
            continue;
        }
        lines[i] = "";
        rest = g_strjoinv("\n", lines);
        kept = summed(rest);
        lines[i] = line;
        g_assert_true(g_file_set_contents(path, kept, -1, NULL));
        none = manifest_load(directory, &refusal);
        if (none) {
            g_error("loaded without: %s", line);
        }
        word = g_strndup(line, equals - line);
        g_assert_true(strstr(refusal->message, word) || g_str_equal(word, "point"));
    }

    g_assert_true(g_file_set_contents(path, more, -1, NULL));
    loaded = manifest_load(directory, &error);
    g_assert_no_error(error);
    assert_same(manifest, loaded);
}

/* A change of any bit, and any truncation, is noticed. */
static void test_checksum(void)
{
    g_autoptr(Manifest) manifest = ended(2);
    g_autofree char *text = saved_text(manifest);
    g_autofree char *without = g_strndup(text, strstr(text, SUM) - text);
    g_autoptr(GRegex) version = g_regex_new("log-version=\\d+", 0, 0, NULL);
    g_autofree char *old = NULL;
    size_t length = strlen(text);

    for (size_t bit = 0; bit < length * 8; bit++) {
        g_autoptr(GError) error = NULL;

        text[bit / 8] ^= 1 << bit % 8;
        write_manifest(text, length);
        g_assert_null(manifest_load(directory, &error));
        g_assert_nonnull(error);
        text[bit / 8] ^= 1 << bit % 8;
    }
    for (size_t kept = 0; kept < length; kept++) {
        g_autoptr(GError) error = NULL;

        write_manifest(text, kept);
        g_assert_null(manifest_load(directory, &error));
        g_assert_nonnull(error);
    }
    text[length / 2] ^= 1;
    expect_refused(text, -1, MANIFEST_ERROR_INVALID, "checksum");
    expect_refused(without, -1, MANIFEST_ERROR_INVALID, "checksum");
    /* A manifest from before there were checksums is of another version, and not damaged. */
    old = g_regex_replace_literal(version, without, -1, 0, "log-version=2", 0, NULL);
    write_manifest(old, strlen(old));
    g_clear_pointer(&manifest, manifest_free);
    manifest = manifest_load(directory, NULL);
    g_assert_nonnull(manifest);
    g_assert_false(manifest_check_replayable(manifest, NULL));
}

static void test_other_build(void)
{
    g_autoptr(Manifest) manifest = ended(1);
    g_autoptr(GError) patches = NULL;
    g_autoptr(GError) format = NULL;

    g_free(manifest->patch_level);
    manifest->patch_level = g_strdup("0badpatches0");
    g_assert_false(manifest_check_replayable(manifest, &patches));
    g_assert_error(patches, MANIFEST_ERROR, MANIFEST_ERROR_VERSION);
    g_assert_nonnull(strstr(patches->message, "0badpatches0"));
    g_assert_nonnull(strstr(patches->message, reprise_patch_level()));

    manifest->log_version = LOG_VERSION + 1;
    g_assert_false(manifest_check_replayable(manifest, &format));
    g_assert_error(format, MANIFEST_ERROR, MANIFEST_ERROR_VERSION);
}

static void test_no_file(void)
{
    g_autoptr(GError) missing = NULL;
    g_autoptr(GError) no_directory = NULL;
    g_autoptr(GError) fifo = NULL;

    g_unlink(path);
    g_assert_null(manifest_load(directory, &missing));
    g_assert_error(missing, MANIFEST_ERROR, MANIFEST_ERROR_FOREIGN);
    g_assert_nonnull(strstr(missing->message, "no manifest"));

    g_assert_null(manifest_load("/nonexistent", &no_directory));
    g_assert_error(no_directory, MANIFEST_ERROR, MANIFEST_ERROR_IO);

    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    g_assert_null(manifest_load(directory, &fifo));
    g_assert_error(fifo, MANIFEST_ERROR, MANIFEST_ERROR_FOREIGN);
    g_assert_nonnull(strstr(fifo->message, "/manifest: not a regular file"));
    g_unlink(path);
}

/* A manifest that could not be loaded is not saved, and the old file stays. */
static void test_save_refusals(void)
{
    g_autoptr(Manifest) good = ended(1);
    g_autofree char *before = saved_text(good);
    g_autofree char *after = NULL;
    g_autoptr(Manifest) bad = ended(1);
    g_autoptr(GError) name = NULL;
    g_autoptr(GError) full = NULL;
    g_autoptr(GError) gone = NULL;
    rlim_t limit;

    manifest_add_checkpoint(bad, "a/b");
    g_assert_false(manifest_save(bad, directory, &name));
    g_assert_error(name, MANIFEST_ERROR, MANIFEST_ERROR_INVALID);

    signal(SIGXFSZ, SIG_IGN);
    limit = file_limit_set(100);
    g_assert_false(manifest_save(good, directory, &full));
    file_limit_set(limit);
    g_assert_error(full, MANIFEST_ERROR, MANIFEST_ERROR_IO);

    g_assert_true(g_file_get_contents(path, &after, NULL, NULL));
    g_assert_cmpstr(before, ==, after);
    g_assert_false(manifest_save(good, "/nonexistent", &gone));
    g_assert_error(gone, MANIFEST_ERROR, MANIFEST_ERROR_IO);
}

static void test_fuzz(void)
{
    g_autoptr(Manifest) manifest = ended(3);
    g_autofree char *text = saved_text(manifest);
    size_t length = strlen(text);

    for (unsigned round = 0; round < (g_test_slow() ? 100 : 1) * FUZZ_ROUNDS; round++) {
        g_autofree char *bad = g_memdup2(text, length);
        size_t kept = g_test_rand_bit() ? length : (size_t)g_test_rand_int_range(0, length);
        g_autoptr(GError) error = NULL;
        g_autoptr(Manifest) loaded = NULL;
        g_autofree char *again = NULL;

        for (int flips = g_test_rand_int_range(0, 4); flips > 0; flips--) {
            bad[g_test_rand_int_range(0, length)] ^= 1 << g_test_rand_int_range(0, 8);
        }
        if (g_test_rand_bit()) {
            bad[kept - (kept == length)] = '\0';
            again = summed(bad);
            write_manifest(again, strlen(again));
        } else {
            write_manifest(bad, kept);
        }
        loaded = manifest_load(directory, &error);
        g_assert_true(!loaded == !!error);
        if (error && strchr(error->message, '\n')) {
            g_error("more than one line: %s", error->message);
        }
    }
}

int main(int argc, char **argv)
{
    int status;

    g_test_init(&argc, &argv, NULL);
    directory = g_dir_make_tmp("reprise-manifest-XXXXXX", NULL);
    path = g_build_filename(directory, MANIFEST_FILE, NULL);
    g_test_add_func("/manifest/round-trip", test_round_trip);
    g_test_add_func("/manifest/orders", test_orders);
    g_test_add_func("/manifest/refusals", test_refusals);
    g_test_add_func("/manifest/keys", test_keys);
    g_test_add_func("/manifest/checksum", test_checksum);
    g_test_add_func("/manifest/other-build", test_other_build);
    g_test_add_func("/manifest/no-file", test_no_file);
    g_test_add_func("/manifest/save-refusals", test_save_refusals);
    g_test_add_func("/manifest/fuzz", test_fuzz);
    status = g_test_run();
    g_unlink(path);
    g_rmdir(directory);
    g_free(path);
    g_free(directory);
    return status;
}
