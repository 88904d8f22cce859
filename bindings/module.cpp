// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bindings.hpp"

NB_MODULE(_ext, module) {
  module.doc() = "Compiled core of toposeat. Private: use toposeat._core.";
  nanobind::set_leak_warnings(false); // a command ends without a last search for circles
  bind_network(module);
  bind_evaluate(module);
  bind_mapping(module);
  bind_scale(module);
  bind_search(module);
  bind_groups(module);
}
