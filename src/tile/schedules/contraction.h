// What the `contract` schedule multiplies, as found in a group.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tile/schedules/contract_blocking.h"
#include "tile/schedules/group_lowering.h"

namespace opweld::tile {

// Why a group is refused whose outputs are neither over the result, nor over parts or heads of it.
inline constexpr std::string_view kNotOverResult =
    "an output does not have the shape of the matmul's result";

// Some of the columns or all, heads side by side: what is stored of them lies behind views.
struct HeadSegment {
  std::vector<const Node*> views;  // the first is the slice of columns, or else they are all
  // Of what lies behind the views, the axis that has a head's elements, if there is one.
  std::optional<std::size_t> head_axis;
  std::vector<DomainOutput> outputs;

  [[nodiscard]] bool has_all_columns() const { return views.front()->op() != "slice"; }
  [[nodiscard]] Dim first() const {
    return has_all_columns() ? Dim(0) : views.front()->attributes().shape("starts").back();
  }
  [[nodiscard]] Dim columns() const {
    const Node& view = *views.front();
    return (has_all_columns() ? view.operand(0) : view.result())->shape().back();
  }
};

// The matmul of a group: result [batch..., M, N] = a [.., M, K] . b [.., K, N]; of a grouped one,
// result [M, N] = a [M, K] . b [group, K, N].
struct Contraction {
  const Node* node = nullptr;
  const Value* a = nullptr;
  const Value* b = nullptr;
  const Value* result = nullptr;
  Shape batch;  // batch axes that are walked one by one
  Dim rows;     // M; leading axes are merged into it when b has no batch axes
  Dim columns;  // of what is stored: N / parts
  Dim depth;
  // The result is read in so many slices of equal width, element by element, and not as a whole.
  int parts = 1;
  // What b is made of, if it is a constant: it is packed once outside the kernel, as it is stored.
  const Value* weights = nullptr;
  bool merges_rows = false;
  bool grouped = false;
  const Value* bias = nullptr;  // of a grouped one, [group, N]
  // What is stored over the result, or over parts of it.
  std::vector<DomainOutput> outputs;
  // Columns of a head where what is stored are segments of heads (see head_segments.h), else 0.
  std::int64_t head = 0;
  // A head from its first column to its last; the parts are then those of each stretch.
  std::vector<ColumnStretch> stretches;
  std::vector<HeadSegment> segments;
};

// Fails where the group is not one matmul and what reads it.
Expected<Contraction> find_contraction(const Graph& group);
// Of one matmul among others.
Contraction contraction_of(const Node& node);

// Of what the nodes make, `results` are wanted. Finds where they are over the result of the matmul,
// over parts of it or over heads, and notes it in the contraction.
Status find_results(std::span<const Node* const> nodes, std::span<const Value* const> results,
                    Contraction& contraction);

// The class of its kernel (BlockingChoices::shape).
std::string contract_class(const Contraction& contraction, const ContractSizes& sizes);

}  // namespace opweld::tile
