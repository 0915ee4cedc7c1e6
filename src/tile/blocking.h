// Block sizes as a parameter of the schedules that have a choice: what tuning decides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/dim.h"

namespace opweld::tile {

// A zero is what follows from the target descriptor. Every schedule takes what concerns it; the
// values must be of those that it offers (BlockingChoices). The sizes of `contract` change no bit
// of any result: in all of them each sum is formed in the same order.
struct Blocking {
  // contract; see ContractBlocking
  int tile_rows = 0;        // of a register tile
  int tile_vectors = 0;     // and its columns, in vectors
  std::int64_t depth = 0;   // of a block; on a matrix unit of a dot
  std::int64_t rows = 0;    // at most so many a task
  std::int64_t panels = 0;  // a task

  // attention
  std::int64_t queries = 0;    // rows of a task, at most
  std::int64_t key_block = 0;  // keys that a task looks at at once

  bool operator==(const Blocking&) const = default;
  [[nodiscard]] bool is_default() const { return *this == Blocking(); }
  // Whether results may differ from the default's, by rounding: those of another block of keys
  // always, those of other rows where what hidden keys hold in V is no number.
  [[nodiscard]] bool reorders() const { return key_block != 0 || queries != 0; }
};

// "register tile 12 x 2, depth 512"; "the default".
std::string to_text(const Blocking& blocking);

// What a lowered kernel could have been instead. Kernels of one class are alike enough for one
// measurement to serve them: same schedule, same types, sizes that round to the same numbers.
struct BlockingChoices {
  // "f32 * x 384 . f32 384 x 1536": sizes that are not known are '*'. Empty where there is no
  // choice.
  std::string shape;
  std::vector<Blocking> candidates;  // at most kMostCandidates, the default not among them
};

// The size as classes have it: rounded to the nearest of 1, 2, 3, 4, 6, 8, 12, 16 ...; '*' where it
// is not known.
std::string rounded_text(const Dim& size);

// A handful: together with the default no more than eight are measured.
inline constexpr std::size_t kMostCandidates = 7;

}  // namespace opweld::tile
