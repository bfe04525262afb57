/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What query-recorder tells, for people.
 */
#ifndef MONITOR_RECORDER_STATUS_H
#define MONITOR_RECORDER_STATUS_H

#include "qapi/qapi-types-recorder.h"

/* As lines; to be freed. */
char *recorder_status_text(const RecorderInfo *info);

#endif
