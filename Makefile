# SPDX-License-Identifier: GPL-2.0-or-later
#
# The few commands of this project; `make help` lists them.  All building is
# done by ninja in two folders that configure made: build/core (our own code,
# the tool, the unit tests) and build/qemu (the patched QEMU, our code in it).

-include build/config.mk

NINJA := ninja
EMULATORS := $(addprefix qemu-system-,$(TARGETS))

.PHONY: all images symbols demo check cross bench soak patches-edit patches-refresh clean help

all: build/config.mk
	@$(NINJA) -C build/core --quiet
	@$(PYTHON) scripts/manual > build/reprise.1
	$(NINJA) -C build/qemu $(EMULATORS)
	@mkdir -p build/bin
	@ln -f build/core/reprise $(addprefix build/qemu/,$(EMULATORS)) build/bin/

# Hard links above, not symbolic ones: QEMU looks for ../share/qemu from where
# its binary is.

build/config.mk:
	@echo "make: not configured yet: run ./configure first" >&2; exit 1

# The guests: kernel, initramfs, test programs.
images: build/config.mk
	images/build $(addprefix --arch ,$(TARGETS))

# For gdb, of each guest: 270 MB to fetch, 310 (x86_64: 600) to keep.  make check goes on without
# them where that takes long.
symbols: images
	$(foreach arch,$(TARGETS),images/symbols --arch $(arch) &&) true

# The shortest way to see it work: threads race, and the replay has their result.
demo: all images
	@scripts/demo

check: all images
	@$(foreach arch,$(TARGETS),images/symbols --arch $(arch) --within 600 || \
	    echo 'make check: tests that need these symbols will be skipped' >&2;)
	$(PYTHON) tests/run

# The back end of the other host architecture, emulated.  WHAT='bare linux': Linux, too.
cross: all images
	@tests/cross/run $(WHAT)

# What recording and replaying cost; best on a host that does nothing else.
# WHAT='one smp2 smp4': some only.
bench: all images
	PYTHON=$(PYTHON) tests/bench/run $(WHAT)

# Hours; Ctrl-C stops it, the next one goes on.  CASES='smp-racey-* stress': some only.
soak: all images
	PYTHON=$(PYTHON) tests/soak/run $(foreach case,$(CASES),'$(case)')

# The patches to QEMU (docs/patches.md).
patches-edit patches-refresh: patches-%: build/config.mk
	@scripts/patches $* build/src/qemu

clean:
	rm -rf build

help:
	@echo 'make                  build build/bin/reprise and build/bin/qemu-system-*'
	@echo 'make demo             record a guest that runs a racy program, and replay it'
	@echo 'make check            all tests; ends with "N passed, N failed"'
	@echo 'make cross            record and replay on the other host architecture, emulated (WHAT=linux)'
	@echo 'make bench            time a guest plain, recorded, replayed; build/bench.json (WHAT=smp4)'
	@echo "make soak             the long tests; Ctrl-C stops them, make soak goes on (CASES='smp-*')"
	@echo 'make images           the guest images alone'
	@echo 'make symbols          the symbols of the guests'\'' kernels, for gdb'
	@echo 'make patches-edit     change the patches to QEMU, as commits'
	@echo 'make patches-refresh  write those commits back to qemu-patches/'
	@echo 'make clean            remove build/; then run ./configure again'
