/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logs the write bits that a vCPU had at the end of each step.  Programs seldom store to just the
 * word that would show a missing arc, but with a write bit they might have.
 */
#include <string.h>

#include "tests/protocol/model/vcpu.h"

/* Others may take offered lines meanwhile, and change their bytes. */
static uint8_t l1_of(const Vcpu *v, unsigned page, unsigned line)
{
    return __atomic_load_n(&v->processor->l1[page * SPHERE_PAGE_LINES + line], __ATOMIC_RELAXED);
}

/*
 * Return true if the L1 bytes of @page can be relied on.  While a vCPU is in user mode, others may
 * take lines of closed pages, and change these bytes.
 */
static bool reaches(const Vcpu *v, unsigned page)
{
    return !v->processor->in_user || sphere_is_open(guest.sphere, page << SPHERE_PAGE_SHIFT);
}

void write_bits_before(Vcpu *v, uint32_t offset)
{
    v->page = offset >> SPHERE_PAGE_SHIFT;
    if (reaches(v, v->page)) {
        for (unsigned i = 0; i < sizeof(v->had); i++) {
            v->had[i] = l1_of(v, v->page, i);
        }
    } else {
        memset(v->had, 0, sizeof(v->had));
    }
}

/* A request was granted, and perhaps more lines of its page. */
void write_bits_got(Vcpu *v)
{
    for (unsigned i = 0; i < GUEST_USED_LINES; i++) {
        bool asked_for = v->processor->request.lines >> i & 1;

        if (l1_of(v, v->page, i) & L1_WRITE && (asked_for || !(v->had[i] & L1_WRITE))) {
            v->write_bits[v->page] |= UINT32_C(1) << i;
        }
    }
}

static void log_write_bit(const Vcpu *v, unsigned page, unsigned line)
{
    unsigned word = (page * SPHERE_PAGE_LINES + line) * GUEST_LINE_WORDS;
    WriteBit bit = { .step = v->stream->steps->len, .word = word };

    for (unsigned i = 0; i < GUEST_LINE_WORDS; i++) {
        memory_read(&guest.memory, (word + i) * 8, &bit.version[i]);
    }
    g_array_append_val(v->stream->write_bits, bit);
}

/* Lines that the vCPU has lost meanwhile are left out: it could not have stored to them. */
void write_bits_end_step(Vcpu *v)
{
    for (unsigned page = 0; page < GUEST_PAGES; page++) {
        uint32_t lines = reaches(v, page) ? v->write_bits[page] : 0;

        for (unsigned i = 0; lines >> i; i++) {
            if (lines >> i & 1 && l1_of(v, page, i) & L1_WRITE) {
                log_write_bit(v, page, i);
            }
        }
        v->write_bits[page] = 0;
    }
}
