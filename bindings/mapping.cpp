// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bindings.hpp"

void bind_mapping(nb::module_ & /*module*/) {}
