# SPDX-License-Identifier: MIT OR Apache-2.0
# THIRD-PARTY-NOTICES: the parts of others that are compiled in, as the linker tells them, with their licences. Each link
# leaves its map in links/; of these tools/third_party.py makes the file when the package is installed. zig writes no maps:
# tools/release.py leaves there what it tells.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/links)
if(NOT SKBUILD_METADATA_DIR) # not a package
  return()
endif()
include(CheckLinkerFlag)
check_linker_flag(C "-Wl,-Map=links.map" TOPOSEAT_LINKER_WRITES_MAPS)
if(TOPOSEAT_LINKER_WRITES_MAPS)
  add_link_options(
    "-Wl,-Map=${CMAKE_BINARY_DIR}/links/$<TARGET_FILE_NAME:$<TARGET_PROPERTY:NAME>>.map")
endif()
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(notices ${CMAKE_BINARY_DIR}/THIRD-PARTY-NOTICES)
# A build from source goes on without: only a release must name them all.
install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" \"${PROJECT_SOURCE_DIR}/tools/third_party.py\"
  \"${CMAKE_BINARY_DIR}\" \"${notices}\" RESULT_VARIABLE failed)
if(failed)
  message(WARNING \"without THIRD-PARTY-NOTICES: \${failed}\")
endif()")
install(FILES ${notices} DESTINATION ${SKBUILD_METADATA_DIR}/licenses OPTIONAL)
