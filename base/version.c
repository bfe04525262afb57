/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The version of this build.  Version and patch level come from meson.build and
 * scripts/patch-level.  No other file depends on them, so that a new patch level
 * recompiles one small file.
 */
#include "base/version.h"
#include "patch-level.h"

const char *reprise_version(void)
{
    return REPRISE_VERSION;
}

const char *reprise_patch_level(void)
{
    return REPRISE_PATCH_LEVEL;
}
