# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder's QMP commands, in real emulators.

query-recorder also shows that our core library is in QEMU: versions and the
point come from there, and must be those of the tool beside it.
"""

import os

from tests.lib.process import run
from tests.lib.qmp import Qemu
from tests.lib.tap import check, main, test_each
from tests.lib.tool import BIN, built_arches


@test_each(built_arches())
def query_recorder_answers(arch):
    tool = run(os.path.join(BIN, "reprise"), "--version").stdout
    with Qemu(arch, "-smp", "3") as qemu:
        info = qemu.qmp("query-recorder")["return"]
        check(info["state"] == "off", info)
        check(info["point"] == "0:0,1:0,2:0", info)
        check(tool == f"reprise {info['version']} (log format {info['log-version']}, "
                      f"QEMU patches {info['patch-level']})\n", f"{tool} {info}")


@test_each(built_arches())
def query_recorder_refuses_arguments(arch):
    with Qemu(arch) as qemu:
        answer = qemu.qmp("query-recorder", nonsense=True)
        check("nonsense" in answer["error"]["desc"], answer)


@test_each(built_arches())
def the_package_is_named(arch):
    with Qemu(arch) as qemu:
        version = qemu.greeting["QMP"]["version"]
        check(version["package"] == "Reprise", version)
        check((version["qemu"]["major"], version["qemu"]["minor"]) == (10, 0), version)


main()
