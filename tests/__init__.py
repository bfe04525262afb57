# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests, by the rooms that they are about; tests/run runs them."""
