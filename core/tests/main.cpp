// Catch2 v2 wants its main defined once; v3 links its own.
// SPDX-License-Identifier: MIT OR Apache-2.0
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#endif
#include "catch.hpp"
