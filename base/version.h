/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The version of this build, which every recording states.
 */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

const char *reprise_version(void);      /* of the project, "0.1.0" */
const char *reprise_patch_level(void);  /* digest of qemu-patches/ */

#endif
