/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The answer of query-recorder as text.
 */
#ifndef MONITOR_RECORDER_STATUS_H
#define MONITOR_RECORDER_STATUS_H

#include "qapi/qapi-types-recorder.h"

/* Return @info as a table of several lines, to be freed by the caller. */
char *recorder_status_text(const RecorderInfo *info);

#endif
