# SPDX-License-Identifier: MIT OR Apache-2.0
# Of src/toposeat/installed.py, by tools/generate_reference.py: the core may lie where that does not.
set(toposeat_version "0.1.0")
