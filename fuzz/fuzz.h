/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A fuzz target is one function of libFuzzer's form, and a folder of seeds. */
#ifndef TOPOSEAT_FUZZ_H
#define TOPOSEAT_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
