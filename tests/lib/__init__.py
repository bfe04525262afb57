# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests share: each file says in its first lines what it has."""
