/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Devices that write guest RAM: a stream of its own.
 */
#ifndef RECORDER_DMA_H
#define RECORDER_DMA_H

#include "protocol/sphere.h"
#include "recording/log-writer.h"

void recorder_dma_start(LogStream *log, Processor *processor);
/* The mode has changed. */
void recorder_dma_renew_rings(void);
uint64_t recorder_dma_steps(void);
/* No device writes memory in between. */
void recorder_dma_hold(void);
void recorder_dma_release(void);
uint64_t recorder_dma_arcs(void);

#endif
