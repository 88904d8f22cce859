/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A fuzz target is one function of libFuzzer's form, and a folder of seeds. driver.c feeds it a few
   inputs in every `make test`; libFuzzer, where clang has it, many in `make lint-deep`. */
#ifndef TOPOSEAT_FUZZ_H
#define TOPOSEAT_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Inputs that were not refused: a target that takes all of them, or none, tests nothing. */
extern unsigned long fuzz_taken;

#endif
