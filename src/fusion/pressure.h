// What one task of a kernel takes of the chip, the measure behind the reason "pressure", and how
// many tasks there are.
#pragma once

#include "support/dim.h"
#include "target/target.h"

namespace opweld {

struct Pressure {
  // Bytes of the cache buffers, and of the outer ones.
  Dim cache_bytes = 0;
  Dim outer_bytes = 0;
  // The most vector values that are needed at one time. An estimate: the code generator orders
  // operations as the program does, but moves what is invariant.
  int vector_registers = 0;
  // How many tasks there are, which could run at once.
  Dim tasks = 1;
  // Rows that a task takes through several stages, for each of which it goes through all weights; 0
  // where tasks are of another kind.
  Dim rows_per_task = 0;
  // What the rule for these goes by: the same, or of experts the tokens that each core has.
  Dim rows_per_weight = 0;

  // Bytes that must be on chip at once, against Target::on_chip_bytes: the buffers, and the vectors
  // beyond Target::vector_registers, which spill.
  [[nodiscard]] Dim on_chip_bytes(const Target& target) const;
};

}  // namespace opweld
