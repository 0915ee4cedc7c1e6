#include "tile/schedules/chain_stages.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ops/op.h"
#include "tile/element_builder.h"
#include "tile/schedules/head_rows.h"
#include "tile/schedules/reduction_recipe.h"
#include "tile/schedules/scattered_output.h"

namespace opweld::tile {

namespace {

class ChainFinder {
 public:
  explicit ChainFinder(const Graph& group) : group_(group) {}

  Expected<Chain> run() {
    chain_.sort = find_row_sort(group_);
    OPWELD_TRY(chain_.collection, find_row_collection(group_, chain_.sort.others));
    for (const Node* node : chain_.collection.before) {
      OPWELD_TRY(const std::size_t stage, stage_of(*node));
      for (int i = 0; i < node->num_results(); ++i) stages_of_[node->result(i)] = stage;
      hold_operands(*node, stage);
    }
    if (chain_.stages.empty()) return fail("it has neither a matmul nor a reduction");
    collect_nodes();
    for (const Value* value : chain_.collection.wanted) OPWELD_CHECK(add_wanted(value));
    OPWELD_CHECK(check_experts());
    OPWELD_CHECK(check_rows());
    return std::move(chain_);
  }

 private:
  // Stages count from 1; 0 is what inputs alone decide.
  Expected<std::size_t> stage_of(const Node& node) {
    std::size_t latest = 0;
    for (const Value* operand : node.operands()) {
      if (operand != nullptr) latest = std::max(latest, stages_of_[operand]);
    }
    if (op_def(node).trait == FusionTrait::Contract) {
      if (latest < chain_.stages.size()) return fail("it has matmuls side by side");
      chain_.stages.push_back({.kind = ChainStage::Kind::Contract, .matmul = &node});
      return latest + 1;
    }
    if (op_def(node).trait == FusionTrait::Attention) {
      if (!chain_.stages.empty()) return fail("it has an attention behind other stages");
      chain_.stages.push_back({.kind = ChainStage::Kind::Attention, .attention = &node});
      return 1;
    }
    if (is_staged_reduction(node)) {
      if (is_of_heads(node, latest)) return latest;
      const auto is_row = [&](std::size_t stage) {
        return stage > 0 && stage <= chain_.stages.size() &&
               chain_.stages[stage - 1].kind == ChainStage::Kind::Row;
      };
      if (is_row(latest)) return latest;
      if (is_row(latest + 1)) return latest + 1;
      if (latest < chain_.stages.size()) return fail("it has a reduction beside a matmul");
      chain_.stages.push_back({.kind = ChainStage::Kind::Row});
      return latest + 1;
    }
    if (&node == chain_.sort.node) {
      return latest == 0 ? Expected<std::size_t>(latest) : fail("it sorts by what a stage makes");
    }
    if (!has_element_form(node) && !is_store(node) && node.op() != "constant") {
      return fail("operator '{}' has no element form", node.op());
    }
    return latest;
  }

  // Whether it reduces heads of what the last matmul makes: a task has whole ones (head_rows.h).
  bool is_of_heads(const Node& reduction, std::size_t latest) const {
    if (latest == 0 || latest != chain_.stages.size()) return false;
    const Node* const matmul = chain_.stages[latest - 1].matmul;
    return matmul != nullptr && reduces_heads(reduction, *matmul->result());
  }

  Status add_wanted(const Value* value) {
    const std::size_t made = stages_of_[value];
    if (made == 0) return fail("an output is made by none of its stages");
    ChainStage& stage = chain_.stages[made - 1];
    if (value != chain_.collection.rows) {
      stage.outputs.push_back(value);
      return {};
    }
    if (made != chain_.stages.size()) return fail("rows are looked up before the last stage");
    stage.looked_up = value;
    return {};
  }

  // Rows of experts are not those of the tokens, of which other stages would be.
  Status check_experts() const {
    const auto is_grouped = [](const ChainStage& stage) {
      return stage.matmul != nullptr && stage.matmul->op() == "grouped_matmul";
    };
    const bool any = std::ranges::any_of(chain_.stages, is_grouped);
    const bool sorts = chain_.sort.node != nullptr;
    if (!any) return sorts ? fail("it sorts rows for no experts") : Status();
    const Node* first = nullptr;
    for (const ChainStage& stage : chain_.stages) {
      if (!is_grouped(stage)) return fail("its stages have rows of tokens and rows of experts");
      if (first == nullptr) first = stage.matmul;
      if (stage.matmul->operand(2) != first->operand(2)) {
        return fail("its experts have different rows");
      }
    }
    return {};
  }

  void hold_operands(const Node& node, std::size_t stage) {
    for (const Value* operand : node.operands()) {
      if (operand == nullptr) continue;
      const std::size_t made = stages_of_[operand];
      if (made == 0 || made == stage) continue;
      std::vector<const Value*>& held = chain_.stages[made - 1].held;
      if (std::find(held.begin(), held.end(), operand) == held.end()) held.push_back(operand);
    }
  }

  void collect_nodes() {
    for (const Node* node : chain_.collection.before) {
      const std::size_t made = stages_of_[node->result()];
      for (std::size_t stage = 1; stage <= chain_.stages.size(); ++stage) {
        if (made == 0 || made == stage) chain_.stages[stage - 1].nodes.push_back(node);
      }
    }
  }

  Status check_rows() {
    std::optional<Dim> rows;
    for (const ChainStage& stage : chain_.stages) {
      // What a matmul makes may be stored behind views of its result.
      std::vector<const Value*> made = stage.held;
      if (stage.matmul != nullptr) {
        const int rank = stage.matmul->op() == "grouped_matmul" ? 3 : 2;
        if (stage.matmul->operand(1)->rank() != rank) return fail("weights have batch axes");
        made.push_back(stage.matmul->result());
      } else if (stage.kind == ChainStage::Kind::Row) {
        made.insert(made.end(), stage.outputs.begin(), stage.outputs.end());
      }
      for (const Value* value : made) {
        if (value->rank() < 1) return fail("a stage makes a number, not rows");
        const Dim here = merged_rows(value->shape());
        if (rows && *rows != here) return fail("its stages have different rows");
        rows = here;
      }
    }
    if (!rows) return fail("nothing reads what it makes");
    chain_.rows = *rows;
    return {};
  }

  const Graph& group_;
  Chain chain_;
  std::map<const Value*, std::size_t> stages_of_;
};

}  // namespace

Dim merged_rows(const Shape& shape) {
  return num_elements(Shape(shape.begin(), shape.end() - 1));
}

std::vector<const Value*> ChainStage::wanted() const {
  std::vector<const Value*> values = held;
  for (const Value* output : outputs) {
    if (std::ranges::find(values, output) == values.end()) values.push_back(output);
  }
  if (looked_up != nullptr) values.push_back(looked_up);
  return values;
}

Expected<Chain> find_chain(const Graph& group) {
  return ChainFinder(group).run();
}

}  // namespace opweld::tile
