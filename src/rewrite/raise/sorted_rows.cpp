#include "rewrite/raise/sorted_rows.h"

#include <optional>

#include "ops/builder.h"
#include "ops/sort_by_group.h"
#include "rewrite/dce.h"
#include "rewrite/index_range.h"
#include "rewrite/match.h"
#include "rewrite/raise/numbered_rows.h"
#include "rewrite/ramp.h"

namespace opweld {

namespace {

bool is_place(DType dtype) {
  return dtype == DType::I64 || dtype == DType::I32;
}

// A sort of all elements of a vector, the least first.
bool sorts(const Node& node) {
  if (node.op() != "top_k") return false;
  const Value* const x = node.operand(0);
  const Attributes& attributes = node.attributes();
  return x->rank() == 1 && is_place(x->dtype()) && attributes.integer("largest", 1) == 0 &&
         attributes.integer("sorted", 1) != 0 && attributes.shape("k")[0] == x->shape()[0];
}

bool looks_up_rows(const Use& use) {
  return use.node->op() == "gather" && use.index == 1 &&
         use.node->attributes().integer("axis") == 0;
}

bool multiplies_up_to_ends(const Node& node) {
  return node.op() == "grouped_matmul" && node.attributes().integer("cumulative", 0) != 0;
}

// ---- counts ----

// What numbers of rows are before casts that keep them.
const Value* behind_count_casts(const Value* value) {
  const auto counts = [](const Value* v) {
    return is_place(v->dtype()) || v->dtype() == DType::F32 || v->dtype() == DType::F64;
  };
  while (counts(value)) {
    const Node* const cast = made_by(value, "cast");
    if (cast == nullptr) return value;
    value = cast->operand(0);
  }
  return nullptr;
}

// The summands [R, E] of the counts [E] whose running sum the value is; null if it is none.
const Value* counted_behind(const Value* ends) {
  const Value* const sums = behind_count_casts(ends);
  const Node* const running = sums == nullptr ? nullptr : made_by(sums, "cumsum");
  if (running == nullptr || running->attributes().integer("exclusive", 0) != 0 ||
      running->attributes().integer("reverse", 0) != 0) {
    return nullptr;
  }
  const Value* const counts = behind_count_casts(running->operand(0));
  const Node* const sum = counts == nullptr ? nullptr : made_by(counts, "reduce_sum");
  if (sum == nullptr || sum->operand(0)->rank() != 2 || !sum->attributes().has("axes")) {
    return nullptr;
  }
  const Ints& axes = sum->attributes().ints("axes");
  const bool over_rows = axes == Ints{0} || axes == Ints{-2};
  return over_rows && sum->attributes().integer("keepdims", 1) == 0 ? sum->operand(0) : nullptr;
}

// Whether row i is one in column i and zero in all others.
bool is_identity(const Tensor& table) {
  const std::int64_t count = table.sizes()[0];
  if (table.sizes() != Sizes{count, count}) return false;
  for (std::int64_t i = 0; i < table.num_elements(); ++i) {
    const double element =
        is_float(table.dtype()) ? table.get_double(i) : static_cast<double>(table.get_int(i));
    if (element != (i / count == i % count ? 1 : 0)) return false;
  }
  return true;
}

class SortedRows {
 public:
  SortedRows(Graph& graph, Node& sort, std::vector<std::string>* notes)
      : graph_(graph),
        sort_(sort),
        notes_(notes),
        groups_(sort.operand(0)),
        order_(sort.result(1)),
        rows_(groups_->shape()[0]) {}

  Status run() {
    const Node* const product = product_of_sorted_rows();
    if (product == nullptr) return {};
    const auto groups = groups_of(*product);
    if (!groups) return note(*product, groups.error());
    return put(product->operand(2), *groups);
  }

 private:
  // ---- what is asked ----

  // A grouped matmul by ends of groups that reads rows in this order, or what they are the choices
  // of; null if there is none.
  [[nodiscard]] const Node* product_of_sorted_rows() const {
    for (const Use& use : order_->uses()) {
      const bool is_quotient = use.node->op() == "div" && use.index == 0;
      const Node* const found =
          is_quotient ? product_of_rows_at(use.node->result()) : product_of_rows(use);
      if (found != nullptr) return found;
    }
    return nullptr;
  }

  static const Node* product_of_rows_at(const Value* places) {
    for (const Use& use : places->uses()) {
      if (const Node* const found = product_of_rows(use)) return found;
    }
    return nullptr;
  }

  static const Node* product_of_rows(const Use& use) {
    if (!looks_up_rows(use)) return nullptr;
    const Value* rows = use.node->result();
    const Node* const reader = only_reader(rows);
    if (reader != nullptr && reader->op() == "cast") rows = reader->result();
    for (const Use& read : rows->uses()) {
      if (read.index == 0 && multiplies_up_to_ends(*read.node)) return read.node;
    }
    return nullptr;
  }

  // How many groups there are.
  [[nodiscard]] Expected<std::int64_t> groups_of(const Node& product) const {
    const Value* const sorted = sort_.result(0);
    const Value* const groups = groups_;
    for (const Value* value : {groups, sorted, static_cast<const Value*>(order_)}) {
      if (!stays_on_its_stream(value)) return fail("they are on different streams");
    }
    const auto count = product.operand(2)->shape()[0].constant();
    if (!count) return fail("how many groups there are is known at run time only");
    const auto limit = index_limit(groups_);
    const auto beyond = limit ? limit->constant() : std::nullopt;
    if (!beyond) return fail("what it sorts may be any number, and groups are below {}", *count);
    if (*beyond > *count) {
      return fail("what it sorts may be up to {}, and groups are below {}", *beyond - 1, *count);
    }
    const Value* const counted = counted_behind(product.operand(2));
    if (counted == nullptr) return fail("the groups' ends are no running sum of counts");
    for (const Value* numbers : {sorted, groups}) {
      const auto table = rows_by_number(counted, numbers, *count);
      if (table && is_identity(*table)) return *count;
    }
    return fail("the groups' ends count something else than the rows of each group");
  }

  Status note(const Node& product, const Error& why) {
    if (notes_ != nullptr) {
      notes_->push_back(
          fmt::format("rows that '{}' sorts for '{}' are not known to be its groups: {}",
                      sort_.display_name(), product.display_name(), why.message));
    }
    return {};
  }

  // ---- what comes in place ----

  Status put(Value* ends, std::int64_t count) {
    Builder build(graph_, &sort_, raised_source(sort_, "SortByGroup"));
    OPWELD_TRY(const GroupedRows grouped, sort_by_group(build, groups_, count));
    Value* const in_order =
        build.op("gather", {groups_, grouped.order}, {{"axis", std::int64_t{0}}});
    OPWELD_CHECK(build.status());
    put_counts(ends, grouped.counts);
    OPWELD_CHECK(put_places(grouped.place));
    replace_by_raised(graph_, sort_.result(0), in_order);
    replace_by_raised(graph_, order_, grouped.order);
    return put_shares(grouped);
  }

  static void put_counts(const Value* ends, Value* counts) {
    const std::vector<Use> uses = ends->uses();
    for (const Use& use : uses) {
      if (use.index != 2 || !multiplies_up_to_ends(*use.node)) continue;
      use.node->attributes().erase("cumulative");
      use.node->set_operand(2, counts);
    }
  }

  // What inverts the order is the places.
  Status put_places(Value* place) {
    const std::vector<Use> uses = order_->uses();
    for (const Use& use : uses) {
      if (sorts(*use.node)) replace_by_raised(graph_, use.node->result(1), place);
      if (use.node->op() != "reshape") continue;
      const std::vector<Use> tuples = use.node->result()->uses();
      for (const Use& written : tuples) {
        if (written.index != 1 || !inverts(*written.node)) continue;
        Builder build(graph_, written.node, written.node->source());
        Value* const places = build.cast(place, written.node->result()->dtype());
        OPWELD_CHECK(build.status());
        replace_by_raised(graph_, written.node->result(), places);
      }
    }
    return {};
  }

  // Whether the node writes 0, 1 .. to rows, each of which is one place of a vector as long.
  [[nodiscard]] bool inverts(const Node& node) const {
    if (node.op() != "scatter_nd" || node.attributes().text("reduction") != "none") return false;
    if (node.result()->shape() != Shape{rows_} || node.operand(1)->shape() != Shape{rows_, 1}) {
      return false;
    }
    const auto written = integer_ramp(node.operand(2));
    return written && written->offset == Dim(0) && written->steps == std::vector<std::int64_t>{1};
  }

  // (rows * share[order])[place] -> rows[place] * share
  Status put_shares(const GroupedRows& grouped) {
    const std::vector<Use> uses = grouped.place->uses();
    for (const Use& use : uses) {
      if (!looks_up_rows(use)) continue;
      Node& gather = *use.node;
      const Node* const product = made_by(gather.operand(0), "mul");
      if (product == nullptr || !has_one_reader(product->result())) continue;
      for (int side = 0; side < 2; ++side) {
        Value* const rows = product->operand(1 - side);
        Value* const by_row = product->operand(side);
        if (rows->type() != product->result()->type() || rows->rank() != by_row->rank()) continue;
        Builder weighing(graph_, &gather, product->source());
        Value* const share = before_order(by_row, grouped.order, weighing);
        if (share == nullptr) continue;
        Builder looking_up(graph_, &gather, gather.source());
        Value* const found =
            looking_up.op("gather", {rows, grouped.place}, {{"axis", std::int64_t{0}}});
        OPWELD_CHECK(looking_up.status());
        Value* const weighed =
            side == 0 ? weighing.binary("mul", share, found) : weighing.binary("mul", found, share);
        OPWELD_CHECK(weighing.status());
        replace_by_raised(graph_, gather.result(), weighed);
        break;
      }
    }
    return {};
  }

  // The value with its rows as they were before they were looked up in that order; null where they
  // were not.
  Value* before_order(const Value* value, const Value* order, Builder& build) const {
    if (value->rank() == 0 || value->shape().front() != rows_) return nullptr;
    const Node* const node = value->producer();
    if (node == nullptr || !stays_on_its_stream(value)) return nullptr;
    if (node->op() == "gather") {
      const bool is_by_order = node->operand(1) == order && node->attributes().integer("axis") == 0;
      return is_by_order ? node->operand(0) : nullptr;
    }
    if (node->op() != "reshape" && node->op() != "cast") return nullptr;
    Value* const before = before_order(node->operand(0), order, build);
    if (before == nullptr) return nullptr;
    return node->op() == "cast" ? build.cast(before, value->dtype())
                                : build.reshape(before, value->shape());
  }

  Graph& graph_;
  Node& sort_;
  std::vector<std::string>* notes_;
  Value* groups_;
  Value* order_;
  Dim rows_;
};

}  // namespace

Status raise_sorted_rows(Graph& graph, std::vector<std::string>* notes) {
  for (Node* node : graph.nodes_in_order()) {
    if (sorts(*node)) OPWELD_CHECK(SortedRows(graph, *node, notes).run());
  }
  // All of the counting is dead now, not before: what is looked at next may be part of it.
  return eliminate_dead_code(graph);
}

}  // namespace opweld
