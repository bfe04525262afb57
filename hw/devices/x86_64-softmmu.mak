# SPDX-License-Identifier: GPL-2.0-or-later
#
# The devices of qemu-system-x86_64 (QEMU's --with-devices-x86_64): what the
# recorder knows, and the balloon, so that refusing it can be tested.
CONFIG_I440FX=y
CONFIG_MICROVM=y
CONFIG_Q35=y
CONFIG_PCIE_PORT=y
CONFIG_PVPANIC_ISA=y
CONFIG_PVPANIC_PCI=y
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_BALLOON=y
CONFIG_VIRTIO_BLK=y
CONFIG_VIRTIO_NET=y
CONFIG_VIRTIO_RNG=y
CONFIG_VIRTIO_SERIAL=y
