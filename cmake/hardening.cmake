# SPDX-License-Identifier: MIT OR Apache-2.0
# Hardening of everything that is compiled here, in this one place. tools/hardened.py reads from built files whether they
# have it. A build with sanitizers has theirs instead.
#
# | program                              | stack protector | no executable stack | PIE | RELRO, BIND_NOW | FORTIFY |
# |--------------------------------------|-----------------|---------------------|-----|-----------------|---------|
# | dynamic programs, libraries          | yes             | yes                 | yes | yes             | yes     |
# | toposeat_spank.so                    | yes             | yes                 | yes | RELRO only      | yes     |
# | toposeat-exec, static, glibc         | yes             | yes                 | no  | no use          | yes     |
# | toposeat-exec, static, musl          | yes             | yes                 | no  | no use          | has none |
#
# Why the exceptions are as they are: docs/adr/0056-distribution.md.
if(TOPOSEAT_SANITIZE)
  return()
endif()
include(CheckPIESupported)
check_pie_supported()

add_compile_options(-fstack-protector-strong)
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
# The C library checks nothing in code that is not optimised, and warns. A distribution may have set another level.
add_compile_options(
  "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")

# A static program is not a PIE, and imports nothing by which a stack protector is seen: GCC writes it down. Asked for a
# static PIE, musl-gcc makes a program that needs musl's loader.
set(TOPOSEAT_STATIC_OPTIONS -frecord-gcc-switches)
set(TOPOSEAT_MUSL_OPTIONS ${TOPOSEAT_STATIC_OPTIONS} -fstack-protector-strong -Wl,-z,noexecstack)

# For sources that run at each call of MPI: only functions with buffers are protected. The strong form adds about ten
# instructions to each call, for the address of a clock's value.
set(TOPOSEAT_PER_CALL_OPTIONS -fstack-protector)
