/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See checkpoint-position.h.  The file is text: lines of words in a fixed order (summed-text.h).
 */
#include "recording/checkpoint-position.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "recording/log-block.h"
#include "recording/manifest.h"

#define TITLE "reprise place 1"
/* Most of the file is registers, of up to 16 digits and a space each. */
#define MOST_BYTES (1 << 24)

static LogPlaces *places_new(unsigned n_streams)
{
    LogPlaces *places = g_malloc0(sizeof(*places) +
                                  n_streams * LOG_SUBSTREAMS * sizeof(places->place[0]));

    places->n_streams = n_streams;
    return places;
}

CheckpointPosition *checkpoint_position_new(unsigned n_vcpus)
{
    CheckpointPosition *place = g_new0(CheckpointPosition, 1);

    place->n_vcpus = n_vcpus;
    place->point = point_new(n_vcpus);
    place->stores = g_new0(uint64_t, n_vcpus);
    place->logged = g_new0(Registers, n_vcpus);
    return place;
}

void checkpoint_position_free(CheckpointPosition *place)
{
    if (place) {
        point_free(place->point);
        log_places_free(place->logs);
        g_free(place->stores);
        g_free(place->logged);
        g_free(place);
    }
}

/* --- writing ---------------------------------------------------------------- */

static void put_log(GString *text, const CheckpointPosition *place, unsigned stream,
                    LogSubstream substream)
{
    const LogPlace *log = log_place_of(place->logs, stream, substream);
    g_autofree char *name = NULL;

    if (log_file_exists(place->n_vcpus, place->logs->episodes, stream, substream)) {
        name = log_file_name(place->n_vcpus, stream, substream);
        g_string_append_printf(text, "%s offset %" PRIu64 " block %" PRIu64 " start %" PRIu64 "\n",
                               name, log->offset, log->block, log->start);
    }
}

/* Return the number of registers up to the last that is not zero. */
static unsigned n_used(const Registers *registers)
{
    unsigned n = REGISTERS_MOST;

    while (n > 0 && registers->value[n - 1] == 0) {
        n--;
    }
    return n;
}

static GString *format(const CheckpointPosition *place)
{
    GString *text = g_string_new(TITLE "\n");
    g_autofree char *point = point_format(place->point);

    g_string_append_printf(text, "point %s\ndma %" PRIu64 "\n", point, place->dma_steps);
    for (unsigned i = 0; i <= place->n_vcpus; i++) {
        for (int j = 0; j < LOG_SUBSTREAMS; j++) {
            put_log(text, place, i, j);
        }
    }
    for (unsigned i = 0; i < place->n_vcpus; i++) {
        g_string_append_printf(text, "stores %016" PRIx64 "\nregisters", place->stores[i]);
        for (unsigned j = 0; j < n_used(&place->logged[i]); j++) {
            g_string_append_printf(text, " %" PRIx64, place->logged[i].value[j]);
        }
        g_string_append_c(text, '\n');
    }
    return text;
}

bool checkpoint_position_save(const CheckpointPosition *place, const char *path, GError **error)
{
    g_autoptr(GString) text = format(place);

    return summed_text_create(path, text, true, error);
}

/* --- reading ---------------------------------------------------------------- */

/* Return the next line without its newline, and advance *@rest; NULL if there is none. */
static char *take_line(char **rest)
{
    char *line = *rest;
    char *end = strchr(line, '\n');

    if (!end) {
        return NULL;
    }
    *end = '\0';
    *rest = end + 1;
    return line;
}

static bool take_word(char **rest, const char *word)
{
    if (!g_str_has_prefix(*rest, word)) {
        return false;
    }
    *rest += strlen(word);
    return true;
}

static bool take_number(char **rest, int base, uint64_t *number)
{
    char *end;

    if (!g_ascii_isxdigit(**rest)) {
        return false;
    }
    errno = 0;
    *number = g_ascii_strtoull(*rest, &end, base);
    if (errno || end == *rest) {
        return false;
    }
    *rest = end;
    return true;
}

static bool take_log(char *line, const char *name, LogPlace *log)
{
    return take_word(&line, name) && take_word(&line, " offset ") &&
           take_number(&line, 10, &log->offset) && take_word(&line, " block ") &&
           take_number(&line, 10, &log->block) && take_word(&line, " start ") &&
           take_number(&line, 10, &log->start) && !*line;
}

static bool take_logs(char **rest, CheckpointPosition *place)
{
    for (unsigned i = 0; i <= place->n_vcpus; i++) {
        for (int j = 0; j < LOG_SUBSTREAMS; j++) {
            g_autofree char *name = NULL;
            char *line;

            if (!log_file_exists(place->n_vcpus, place->logs->episodes, i, j)) {
                continue;
            }
            name = log_file_name(place->n_vcpus, i, j);
            line = take_line(rest);
            if (!line || !take_log(line, name, log_place_of(place->logs, i, j))) {
                return false;
            }
        }
    }
    return true;
}

static bool take_vcpu(char **rest, CheckpointPosition *place, unsigned vcpu)
{
    char *stores = take_line(rest);
    char *registers = stores ? take_line(rest) : NULL;

    if (!registers || !take_word(&stores, "stores ") ||
        !take_number(&stores, 16, &place->stores[vcpu]) || *stores ||
        !take_word(&registers, "registers")) {
        return false;
    }
    for (unsigned i = 0; i < REGISTERS_MOST && *registers; i++) {
        if (!take_word(&registers, " ") ||
            !take_number(&registers, 16, &place->logged[vcpu].value[i])) {
            return false;
        }
    }
    return !*registers;
}

static bool parse(char *text, CheckpointPosition *place)
{
    char *title = take_line(&text);
    char *point = title ? take_line(&text) : NULL;
    char *dma = point ? take_line(&text) : NULL;

    if (!dma || !g_str_equal(title, TITLE) || !take_word(&point, "point ") ||
        !take_word(&dma, "dma ") || !take_number(&dma, 10, &place->dma_steps) || *dma) {
        return false;
    }
    point_free(place->point);
    place->point = point_parse(point, place->n_vcpus, NULL);
    place->logs->episodes = (strstr(text, "\nvcpu-0.karma ") ? ORDER_SET(RACE_KARMA) : 0) |
                            (strstr(text, "\nvcpu-0.rerun ") ? ORDER_SET(RACE_RERUN) : 0);
    if (!place->point || !take_logs(&text, place)) {
        return false;
    }
    for (unsigned i = 0; i < place->n_vcpus; i++) {
        if (!take_vcpu(&text, place, i)) {
            return false;
        }
    }
    return !*text;
}

CheckpointPosition *checkpoint_position_load(const char *path, unsigned n_vcpus, GError **error)
{
    g_autoptr(CheckpointPosition) place = checkpoint_position_new(n_vcpus);
    g_autoptr(GString) text = summed_text_read(path, MOST_BYTES, error);

    place->logs = places_new(n_vcpus + 1);
    if (!text) {
        return NULL;
    }
    if (!parse(text->str, place)) {
        g_set_error(error, SUMMED_TEXT_ERROR, SUMMED_TEXT_ERROR_DAMAGED,
                    "%s: it is no place of %u vCPUs", path, n_vcpus);
        return NULL;
    }
    return g_steal_pointer(&place);
}

bool checkpoint_position_find(const char *recording, const char *name, bool is_first,
                              unsigned n_vcpus, CheckpointPosition **place, GError **error)
{
    g_autofree char *path = g_build_filename(recording, name, CHECKPOINT_POSITION_FILE, NULL);

    *place = NULL;
    if (is_first && !g_file_test(path, G_FILE_TEST_EXISTS)) {
        return true;
    }
    *place = checkpoint_position_load(path, n_vcpus, error);
    return *place;
}

CheckpointPosition *checkpoint_position_first(const char *recording, unsigned n_vcpus)
{
    g_autoptr(Manifest) manifest = manifest_load(recording, NULL);
    CheckpointPosition *place = NULL;

    if (manifest && manifest->n_vcpus == n_vcpus && manifest->checkpoints->len > 0) {
        checkpoint_position_find(recording, manifest->checkpoints->pdata[0], true, n_vcpus, &place,
                                 NULL);
    }
    return place;
}
