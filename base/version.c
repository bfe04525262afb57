/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which Reprise this is.  Version and patch level come from the build
 * (meson.build, scripts/patch-level); nothing else depends on them, so that a
 * new patch level compiles one small file.
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
