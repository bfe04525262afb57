/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the manifest share: manifest.c (in memory, saving),
 * manifest-load.c, manifest-check.c.
 */
#ifndef RECORDING_MANIFEST_INTERNAL_H
#define RECORDING_MANIFEST_INTERNAL_H

#include "recording/manifest.h"

/*
 * The text keys, in one table for loading, saving, checking and freeing.
 * Words become part of a QEMU command line in replay: no spaces, no quotes, and no '/', so that a
 * hostile recording cannot name a file of the host.
 */
typedef enum TextKind {
    TEXT_WORD,              /* letters, digits and ._=,+- */
    TEXT_LINE,              /* anything printable */
} TextKind;

typedef struct TextKey {
    const char *group;
    const char *key;
    size_t offset;
    TextKind kind;
    bool needed;            /* must not be empty */
} TextKey;

extern const TextKey manifest_text_keys[];
extern const size_t manifest_n_text_keys;

static inline char **text_of(const Manifest *manifest, const TextKey *key)
{
    return (char **)((uintptr_t)manifest + key->offset);
}

/* Return "" for NULL, which stays in a field that the caller has not set. */
static inline const char *text_or_empty(const char *text)
{
    return text ? text : "";
}

/*
 * Return true if the manifest is sound, else false and @error.  Loading ends with
 * this check, since a recording may come from anywhere.  Saving begins with it, so
 * that nothing is saved that could not be loaded.
 */
bool manifest_valid(const Manifest *manifest, GError **error);

/* The text ends with its checksum (base/summed-text.h), in a section of its own. */
#define MANIFEST_SUM_SECTION "\n[checksum]\n"
/* Manifests of earlier log versions have no checksum. */
#define MANIFEST_SUM_SINCE  3

/* Set @error to "bad manifest: ..." and return false. */
G_GNUC_PRINTF(2, 3)
bool manifest_invalid(GError **error, const char *format, ...);

/* Return @text shortened, escaped and quoted for a message, to be freed by the caller. */
char *manifest_quote(const char *text);

/* Set @error to "cannot VERB PATH: ..." from errno, and return false. */
bool manifest_io_error(GError **error, const char *verb, const char *path);

#endif
