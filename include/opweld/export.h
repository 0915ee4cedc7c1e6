// Marks what the shared library gives out; everything else in it is hidden.
#pragma once

#define OPWELD_API __attribute__((visibility("default")))
