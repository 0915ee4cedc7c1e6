// What a kernel of kind `chain` does one after the other with a block of rows: norms, matmuls, an
// attention before them, and the pointwise work between them. Or the matmuls of experts, the rows
// being those that chose one after those that chose another.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "support/expected.h"
#include "tile/schedules/collected_rows.h"
#include "tile/schedules/row_sort.h"

namespace opweld::tile {

struct ChainStage {
  enum class Kind : std::uint8_t { Attention, Row, Contract };
  Kind kind = Kind::Row;
  const Node* attention = nullptr;  // of an Attention stage, which is the first
  const Node* matmul = nullptr;     // of a Contract stage
  std::vector<const Node*> nodes =
      {};  // in topological order; what inputs alone decide is in every one
  // Made here, read by later stages: kept on chip for the task's rows.
  std::vector<const Value*> held = {};
  // Made here, and outputs of the group.
  std::vector<const Value*> outputs = {};
  // Made here, and looked up when all rows are there.
  const Value* looked_up = nullptr;

  // All of these that the stage has to make, each once.
  [[nodiscard]] std::vector<const Value*> wanted() const;
};

struct Chain {
  std::vector<ChainStage> stages;
  Dim rows;                       // of every stage, leading axes merged
  RowSort sort = {};              // before all stages,
  RowCollection collection = {};  // and behind them
};

// Cuts the group where a matmul or the reductions of a norm need what another made; but reductions
// of heads are of the stage whose matmul makes the heads. Fails, with the reason, where that is no
// chain: matmuls side by side, stages over different rows, an operator that no stage can hold, rows
// of experts beside others.
Expected<Chain> find_chain(const Graph& group);

// Rows of a tensor whose last axis is its columns.
Dim merged_rows(const Shape& shape);

}  // namespace opweld::tile
