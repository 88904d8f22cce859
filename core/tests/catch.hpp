// One include for the tests, whichever Catch2 is installed.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
