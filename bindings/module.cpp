// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bindings.hpp"

NB_MODULE(_ext, module) {
  module.doc() = "Compiled core of toposeat. Private: use toposeat._core.";
  bind_network(module);
  bind_evaluate(module);
  bind_mapping(module);
  bind_scale(module);
  bind_search(module);
  bind_groups(module);
}
