/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stream of DMA: writes of devices to guest RAM.  See dma.c.
 */
#ifndef RECORDER_DMA_H
#define RECORDER_DMA_H

#include "protocol/sphere.h"
#include "recording/log-writer.h"

/* Start the stream with its @log and its @processor of the sphere.  Main thread, BQL held. */
void recorder_dma_start(LogStream *log, Processor *processor);
/*
 * Make devices look up the rings that they have cached, after recorder_mode has changed.  Main
 * thread, BQL held.
 */
void recorder_dma_renew_rings(void);
/* Return the number of steps of the stream so far.  Any thread. */
uint64_t recorder_dma_steps(void);
/* Keep devices from writing guest RAM between these two.  Waits for a write under way. */
void recorder_dma_hold(void);
void recorder_dma_release(void);
/* Return the number of arcs that lead to the stream.  No device writes. */
uint64_t recorder_dma_arcs(void);

#endif
