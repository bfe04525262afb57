/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RAM of a guest, for tests.
 */
#include "tests/recording/ram-test.h"

#include <string.h>
#include <sys/mman.h>

#include "recording/ram-digest.h"

uint8_t *guest_pages(uint64_t size)
{
    void *host = mmap(NULL, MAX(size, PAGE), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    g_assert_true(host != MAP_FAILED);
    return host;
}

void guest_add_block(Guest *guest, const char *name, uint64_t n_pages)
{
    unsigned i = guest->n_blocks++;

    g_strlcpy(guest->blocks[i].name, name, sizeof(guest->blocks[i].name));
    guest->blocks[i].size = n_pages * PAGE;
    guest->blocks[i].host = guest_pages(n_pages * PAGE);
}

void guest_free(Guest *guest)
{
    for (unsigned i = 0; i < guest->n_blocks; i++) {
        munmap(guest->blocks[i].host, MAX(guest->blocks[i].size, PAGE));
    }
    g_free(guest);
}
Guest *guest_like(const Guest *guest)
{
    Guest *other = g_new0(Guest, 1);

    for (unsigned i = 0; i < guest->n_blocks; i++) {
        guest_add_block(other, guest->blocks[i].name, guest->blocks[i].size / PAGE);
    }
    other->zeroed = true;
    return other;
}

void guest_fill_page(uint8_t *page)
{
    switch (g_test_rand_int_range(0, 4)) {
    case 0:                                     /* does not compress */
        for (unsigned i = 0; i < PAGE; i++) {
            page[i] = g_test_rand_int();
        }
        break;
    case 1:                                     /* one byte, anywhere */
        page[g_test_rand_int_range(0, PAGE)] = g_test_rand_int_range(1, 256);
        break;
    case 2:                                     /* the very last byte */
        page[PAGE - 1] = 1;
        break;
    default:
        for (unsigned i = 0; i < PAGE; i++) {
            page[i] = i * 7 % 31;
        }
    }
}

/* Make random runs of zero pages and of other pages. */
void guest_fill(Guest *guest)
{
    for (unsigned i = 0; i < guest->n_blocks; i++) {
        uint64_t n_pages = guest->blocks[i].size / PAGE;

        for (uint64_t page = 0; page < n_pages;) {
            unsigned run = g_test_rand_int_range(1, 100);
            bool zero = g_test_rand_bit();

            for (; run > 0 && page < n_pages; run--, page++) {
                if (!zero) {
                    guest_fill_page(guest->blocks[i].host + page * PAGE);
                }
            }
        }
    }
}

Guest *guest_random(void)
{
    static const char *const names[GUEST_MAX_BLOCKS] = {
        "mach-virt.ram", "virt.flash0", "0000:00:01.0/virtio-net-pci.rom", "x",
    };
    Guest *guest = g_new0(Guest, 1);
    unsigned n = g_test_rand_int_range(1, GUEST_MAX_BLOCKS + 1);

    for (unsigned i = 0; i < n; i++) {
        guest_add_block(guest, names[i], g_test_rand_int_range(0, 300));
    }
    guest_fill(guest);
    return guest;
}

uint8_t *guest_lookup(void *opaque, const char *name, uint64_t size, bool *zeroed)
{
    Guest *guest = opaque;

    g_assert_false(*zeroed);
    for (unsigned i = 0; i < guest->n_blocks; i++) {
        if (g_str_equal(guest->blocks[i].name, name) && guest->blocks[i].size == size) {
            *zeroed = guest->zeroed;
            return guest->blocks[i].host;
        }
    }
    return NULL;
}

char *guest_digest(const Guest *guest, bool backwards)
{
    RamDigest digest;

    ram_digest_init(&digest);
    for (unsigned i = 0; i < guest->n_blocks; i++) {
        unsigned k = backwards ? guest->n_blocks - 1 - i : i;
        ram_digest_add_block(&digest, guest->blocks[k].name, guest->blocks[k].host,
                             guest->blocks[k].size);
    }
    return ram_digest_format(&digest);
}

bool guest_same(const Guest *a, const Guest *b)
{
    for (unsigned i = 0; i < a->n_blocks; i++) {
        if (memcmp(a->blocks[i].host, b->blocks[i].host, a->blocks[i].size) != 0) {
            return false;
        }
    }
    return true;
}
