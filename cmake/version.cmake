# SPDX-License-Identifier: MIT OR Apache-2.0
# The version stands in one place, where the command line prints it from.
set(version_file "${CMAKE_CURRENT_LIST_DIR}/../src/toposeat/installed.py")
file(STRINGS "${version_file}" version_line REGEX "^VERSION = ")
string(REGEX MATCH "[0-9][0-9.]*" toposeat_version "${version_line}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${version_file}")
