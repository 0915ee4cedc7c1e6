// What every schedule begins and ends with: params for the group's edge, loops that carry their
// bounds, and stores that know where an output's elements lie.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tile/element_builder.h"
#include "tile/index_math.h"
#include "tile/lower.h"
#include "tile/program_builder.h"
#include "tile/strided_view.h"

namespace opweld::tile {

// An output of the group and the value, equal to it up to reshape and transpose, whose index space
// the schedule walks. `view` gives the place in the output's buffer of each of the value's
// elements.
struct DomainOutput {
  const Value* value = nullptr;
  const Value* output = nullptr;
  StridedView view;
  // The tensor_scatter that makes the output, if one does: the view is then that of its update in
  // the cache, but for what the write indices add (see scattered_output.h).
  const Node* scatter = nullptr;
};

// The output seen from a value of shape `domain` that it is reached from by reshapes and transposes
// alone, and a tensor_scatter as the last; absent when there is none.
std::optional<DomainOutput> output_over(const Value* output, const Shape& domain);
std::vector<const Value*> outputs_of(const Graph& group);
std::vector<const Node*> nodes_of(const Graph& group);
// All of the results; `refusal` is the error where one of them is not reached.
Expected<std::vector<DomainOutput>> outputs_over(std::span<const Value* const> results,
                                                 const Shape& domain, std::string_view refusal);

// A value that a schedule can read in place: the param that holds its elements, and where.
struct StridedOperand {
  MemoryRef param;
  StridedView view;
};

class GroupLowering {
 public:
  GroupLowering(const Graph& group, const LowerOptions& options, std::string name);

  // Asks for a constant matrix [.., K, N] in panels of `columns` columns, an equal share of them
  // from each of the `parts` matrices that lie side by side in it, or in each of the `stretches`
  // that repeat in it, and with its depth in `pairs` (see Param). Before bind_params.
  void request_packed(const Value* constant, int columns, int parts = 1, bool pairs = false,
                      std::vector<ColumnStretch> stretches = {}) {
    packed_[constant] = {columns, parts, pairs, std::move(stretches)};
  }
  // Inputs, constants of more than one element and outputs become params, in that order.
  void bind_params();
  [[nodiscard]] MemoryRef packed_param(const Value* constant) const {
    return {Access::Memory::Param, elements_.param_of(constant)};
  }

  // Lanes of every vector loop: one for each 32 bits, whatever is computed, so that the order of a
  // reduction does not depend on what else its kernel does.
  [[nodiscard]] int lanes() const { return options_.target->vector_bits / 32; }

  Expr grid(const std::string& name, const Dim& extent, std::int64_t step = 1);
  using LoopBody = std::function<Status(Expr variable)>;
  Status serial(const std::string& name, const Dim& extent, const LoopBody& body);
  // With an extent known only as an expression, at most `bound`.
  Status serial(const std::string& name, Expr extent, const Dim& bound, const LoopBody& body);
  Status serial(const std::string& name, Expr extent, const Dim& bound, std::int64_t step,
                const LoopBody& body);
  Status vector(const std::string& name, const Dim& extent, int unroll, const LoopBody& body);
  Status vector(const std::string& name, Expr extent, const Dim& bound, int unroll,
                const LoopBody& body);
  // A grid axis in steps of `chunk` with a vector loop over each step, as one walk over [0,
  // extent); `body` gets the position. Just the vector loop when the extent is a constant within
  // the chunk. Must come after all other grid axes.
  Status chunked_vector(const std::string& name, const Dim& extent, std::int64_t chunk, int unroll,
                        const LoopBody& body);
  // The same with further loops between the grid axis and the vector loop: `around` opens them and
  // calls what it is given inside.
  using Body = std::function<Status()>;
  Status chunked_vector(const std::string& name, const Dim& extent, std::int64_t chunk, int unroll,
                        const std::function<Status(const Body&)>& around, const LoopBody& body);

  // From here on outputs that are larger than caches are stored past them: for a schedule that
  // stores each element once and does not read it again.
  void store_past_caches() { stores_past_caches_ = true; }
  // Whether the output is larger than caches are; kNoExpr where it is not.
  Expr exceeds_caches(const Value* output);

  // The index so many steps further along an axis of that size, or that of its last element.
  Index ahead(std::span<const Expr> index, std::size_t axis, const Dim& size, std::int64_t steps);

  // Stores the element of output.value at `index` into the output, in lanes where `where` holds.
  Status store(const DomainOutput& output, std::span<const Expr> index, Expr where = kNoExpr);
  // The same of two elements, of which the second lies behind the first in the output; those of
  // neighbouring lanes are two apart.
  Status store_interleaved(const DomainOutput& output, std::span<const Expr> first,
                           std::span<const Expr> second);

  // The value as a strided view of a group's input, or of an output that is read back; absent when
  // it must be computed. After bind_params.
  [[nodiscard]] std::optional<StridedOperand> strided_operand(const Value* value) const;

  // While this lives, some outputs are read where they lie, and not computed: of elements that the
  // task itself has stored before.
  class ReadBack {
   public:
    ReadBack(GroupLowering& owner, std::vector<const Value*> outputs);
    ~ReadBack();
    ReadBack(const ReadBack&) = delete;
    ReadBack& operator=(const ReadBack&) = delete;

   private:
    GroupLowering& owner_;
  };

  [[nodiscard]] const Graph& group() const { return group_; }
  [[nodiscard]] const LowerOptions& options() const { return options_; }
  [[nodiscard]] ProgramBuilder& program() { return program_; }
  [[nodiscard]] IndexMath& math() { return math_; }
  [[nodiscard]] ElementBuilder& elements() { return elements_; }

  LoweredKernel finish();

 private:
  MemoryRef bind_constant(const Value* value, const std::string& name);
  // Where in the output the element at `index` of output.value goes.
  Expected<Access> place_in_output(const DomainOutput& output, std::span<const Expr> index,
                                   Expr where);

  const Graph& group_;
  const LowerOptions& options_;
  ProgramBuilder program_;
  IndexMath math_;
  ElementBuilder elements_;
  std::vector<LoweredKernel::ConstantParam> constants_;
  struct Packing {
    int columns;
    int parts;
    bool pairs;
    std::vector<ColumnStretch> stretches;
  };
  std::map<const Value*, Packing> packed_;
  std::map<const Value*, MemoryRef> output_params_;
  std::vector<const Value*> read_back_;
  bool stores_past_caches_ = false;
};

}  // namespace opweld::tile
