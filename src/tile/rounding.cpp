#include "tile/rounding.h"

#include <algorithm>

#include "ops/op.h"
#include "tile/schedules/attention_form.h"
#include "tile/schedules/attention_rows.h"
#include "tile/schedules/chain_stages.h"
#include "tile/schedules/contract_task.h"

namespace opweld::tile {

namespace {

bool contains(std::span<const Node* const> nodes, const Node* node) {
  return std::ranges::find(nodes, node) != nodes.end();
}

class RoundingFinder {
 public:
  RoundingFinder(const Graph& primitives, const LowerOptions& options, const Bindings& sizes)
      : primitives_(primitives), options_(options), sizes_(sizes) {}

  Rounding strict() {
    for (const auto& node : primitives_.nodes()) {
      for (const Value* operand : node->operands())
        rounding_.as_stored.emplace(operand, node.get());
    }
    return std::move(rounding_);
  }

  Rounding contract() {
    for (const auto& node : primitives_.nodes()) {
      if (op_def(*node).trait == FusionTrait::Contract) take_matmul(*node, false);
    }
    const auto collection = find_row_collection(primitives_, find_row_sort(primitives_).others);
    if (collection) take_collection(*collection);
    return std::move(rounding_);
  }

  Rounding attention() {
    for (const auto& node : primitives_.nodes()) {
      if (op_def(*node).trait == FusionTrait::Attention) take_attention(*node);
    }
    return std::move(rounding_);
  }

  Rounding chain() {
    const auto chain = find_chain(primitives_);
    if (!chain) return std::move(rounding_);  // it would not have been lowered
    std::set<const Value*> held;
    for (const ChainStage& stage : chain->stages) {
      for (const Value* value : stage.held) {
        held.insert(value);
        // Within the stage that makes it, it is still at hand as it was computed.
        for (const Use& use : value->uses()) {
          if (!contains(stage.nodes, use.node)) rounding_.as_stored.emplace(value, use.node);
        }
      }
    }
    take_collection(chain->collection);
    for (const ChainStage& stage : chain->stages) {
      if (stage.matmul != nullptr)
        take_matmul(*stage.matmul, held.contains(stage.matmul->operand(0)));
      if (stage.attention != nullptr) take_attention(*stage.attention);
    }
    return std::move(rounding_);
  }

 private:
  void take_matmul(const Node& node, bool held) {
    if (tile::on_matrix_unit(contraction_of(node), options_, held)) {
      rounding_.on_matrix_unit.insert(&node);
    }
  }

  void take_collection(const RowCollection& collection) {
    if (!collection.collects()) return;
    for (const Use& use : collection.rows->uses()) {
      if (contains(collection.nodes, use.node))
        rounding_.as_stored.emplace(collection.rows, use.node);
    }
  }

  void take_attention(const Node& node) {
    const auto attention = attention_of(node);
    if (!attention || !tile::on_matrix_unit(*attention, options_)) return;
    const auto queries = attention->queries.evaluate(sizes_);
    if (!queries || !has_many_queries(*attention, *queries)) return;
    rounding_.on_matrix_unit.insert(&node);
    const std::int64_t chosen = options_.blocking.key_block;
    rounding_.bf16_weight_keys[&node] = chosen != 0 ? chosen : kMatrixKeyBlock;
  }

  const Graph& primitives_;
  const LowerOptions& options_;
  const Bindings& sizes_;
  Rounding rounding_;
};

}  // namespace

Rounding rounding_of(const Graph& primitives, KernelKind kind, const LowerOptions& options,
                     const Bindings& sizes) {
  RoundingFinder finder(primitives, options, sizes);
  // A call evaluates operator by operator, each of them stored.
  if (options.strict || kind == KernelKind::Extern) return finder.strict();
  switch (kind) {
    case KernelKind::Contract:
      return finder.contract();
    case KernelKind::Chain:
      return finder.chain();
    case KernelKind::Attention:
      return finder.attention();
    default:
      return {};
  }
}

}  // namespace opweld::tile
