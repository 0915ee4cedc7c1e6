// Random graphs of real operators, whose values stay small enough for tolerances to mean something.
//
// Every value carries a bound on its magnitude; operators that would let it grow beyond a few units
// are preceded by a tanh. Shapes come from few sizes, so that values meet: n and m, free or, for n,
// now and then as many rows as chains over blocks of rows ask for, and constants. Some outputs are
// caches that lie in place of an input. The same seed makes the same graph.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ops/builder.h"
#include "target/target.h"

namespace opweld::testing {

class RandomModel {
 public:
  // Of about so many operators; 0: of a few.
  explicit RandomModel(unsigned seed, int operators = 0) : random_(seed), operators_(operators) {}

  Graph make() {
    if (one_in(3)) n_ = kRowsOfAChain * host_target().cores;
    const Shape shapes[] = {{n_, kWidth}, {m_, kWidth}, {n_, kHeads, kHead}, {kWidth}, {n_, 1}};
    const int inputs = 2 + below(3);
    for (int i = 0; i < inputs; ++i) {
      const Shape& shape = shapes[i == 0 ? 0 : below(5)];
      values_.push_back(
          {graph_.add_input(fmt::format("x{}", i), {DType::F32, shape}), kInputBound});
    }
    for (int i = operators_ > 0 ? operators_ : 4 + below(16); i > 0; --i) add_operator();
    give_out();
    return std::move(graph_);
  }

  static constexpr double kInputBound = 2;

 private:
  static constexpr std::int64_t kHeads = 4;
  static constexpr std::int64_t kHead = 8;
  static constexpr std::int64_t kWidth = kHeads * kHead;
  static constexpr std::int64_t kRowsOfAChain = 200;  // for each core
  static constexpr double kLargest = 6;

  struct Bounded {
    Value* value;
    double bound;
  };

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  bool one_in(int n) { return below(n) == 0; }

  // Recent values more often, so that chains form; old ones too, so that they fork.
  Bounded pick() {
    const int count = static_cast<int>(values_.size());
    const int back = one_in(2) ? below(std::min(count, 3)) : below(count);
    return values_[static_cast<std::size_t>(count - 1 - back)];
  }

  Bounded tamed(Bounded x) { return x.bound <= kLargest ? x : Bounded{node("tanh", {x.value}), 1}; }

  Value* node(std::string_view op, std::vector<Value*> operands, Attributes attributes = {}) {
    auto made = build_node(graph_, op, std::move(operands), std::move(attributes));
    if (!made) {
      ADD_FAILURE() << made.error().message;
      return values_.front().value;
    }
    return (*made)->result();
  }

  void keep(Value* value, double bound) { values_.push_back({value, bound}); }

  void add_operator() {
    const Bounded x = tamed(pick());
    switch (below(13)) {
      case 0:
      case 1:
        return add_unary(x);
      case 2:
      case 3:
      case 4:
        return add_binary(x);
      case 5:
        return add_reduction(x);
      case 6:
        return add_norm(x);
      case 7:
        return add_matmul(x);
      case 8:
        return add_reshape(x);
      case 9:
        return add_transpose(x);
      case 10:
        return add_slice_or_concat(x);
      case 11:
        return add_attention(x);
      default:
        return add_expand(x);
    }
  }

  void add_unary(Bounded x) {
    struct Unary {
      const char* op;
      double bound;  // 0: that of the operand
    };
    constexpr Unary kUnary[] = {{"tanh", 1}, {"sigmoid", 1}, {"neg", 0},  {"abs", 0},
                                {"relu", 0}, {"silu", 0},    {"gelu", 0}, {"sin", 1}};
    const Unary& unary = kUnary[below(8)];
    keep(node(unary.op, {x.value}), unary.bound > 0 ? unary.bound : x.bound);
  }

  static bool broadcast(const Shape& a, const Shape& b) {
    for (std::size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
      const Dim& left = a[a.size() - i];
      const Dim& right = b[b.size() - i];
      if (!(left == right) && !(left == Dim(1)) && !(right == Dim(1))) return false;
    }
    return true;
  }

  void add_binary(Bounded x) {
    std::vector<Bounded> partners = {x};
    for (const Bounded& each : values_) {
      if (each.bound <= kLargest && broadcast(x.value->shape(), each.value->shape())) {
        partners.push_back(each);
      }
    }
    const Bounded y = partners[static_cast<std::size_t>(below(static_cast<int>(partners.size())))];
    constexpr const char* kBinary[] = {"add", "sub", "mul", "max", "min"};
    const int which = below(5);
    const std::vector<Value*> operands =
        one_in(2) ? std::vector{x.value, y.value} : std::vector{y.value, x.value};
    const double sum = x.bound + y.bound;
    const double bounds[] = {sum, sum, x.bound * y.bound, sum, sum};
    keep(node(kBinary[which], operands), bounds[which]);
  }

  // Of an axis or two, never of sizes that may be zero where that has no result.
  void add_reduction(Bounded x) {
    constexpr const char* kReductions[] = {"reduce_mean", "reduce_max", "reduce_min"};
    const int rank = x.value->rank();
    Ints axes = {below(rank)};
    if (rank > 2 && one_in(3)) axes = {1, 2};
    keep(node(kReductions[below(3)], {x.value},
              {{"axes", axes}, {"keepdims", std::int64_t{one_in(3) ? 0 : 1}}}),
         x.bound);
    if (values_.back().value->rank() == 0) values_.pop_back();
  }

  void add_norm(Bounded x) {
    if (one_in(2)) {
      keep(node("softmax", {x.value}, {{"axis", std::int64_t{-1}}}), 1);
      return;
    }
    const char* const norm = one_in(2) ? "rms_norm" : "layer_norm";
    keep(node(norm, {x.value}, {{"axis", std::int64_t{-1}}, {"epsilon", 0.25}}), 2 * x.bound);
  }

  void add_matmul(Bounded x) {
    if (x.value->rank() < 2 || !x.value->shape().back().constant()) return;
    const std::int64_t depth = *x.value->shape().back().constant();
    constexpr std::int64_t kColumns[] = {kWidth, kHead, 17};
    Tensor weights = Tensor::allocate(DType::F32, {depth, kColumns[below(3)]}).value();
    std::uniform_real_distribution<double> entry(-0.25, 0.25);
    for (std::int64_t i = 0; i < weights.num_elements(); ++i) weights.set_double(i, entry(random_));
    Value* constant = node("constant", {}, {{"value", weights}});
    keep(node("matmul", {x.value, constant}), x.bound * 0.25 * static_cast<double>(depth));
  }

  void add_reshape(Bounded x) {
    const Shape& shape = x.value->shape();
    Shape target = shape;
    if (shape.back() == Dim(kWidth)) {
      target.back() = kHeads;
      target.emplace_back(kHead);
    } else if (shape.size() >= 2) {
      target.pop_back();
      target.back() = shape[shape.size() - 2] * shape.back();
    }
    if (target.size() <= 4) keep(node("reshape", {x.value}, {{"shape", target}}), x.bound);
  }

  void add_transpose(Bounded x) {
    const int rank = x.value->rank();
    if (rank < 2) return;
    Ints permutation;
    for (int axis = 0; axis < rank; ++axis) permutation.push_back(axis);
    const int first = below(rank - 1);
    std::swap(permutation[static_cast<std::size_t>(first)],
              permutation[static_cast<std::size_t>(first) + 1]);
    keep(node("transpose", {x.value}, {{"permutation", permutation}}), x.bound);
  }

  void add_slice_or_concat(Bounded x) {
    const Shape& shape = x.value->shape();
    const auto last = shape.back().constant();
    if (!last || *last < 2 || *last > 4 * kWidth) return;
    if (one_in(2)) {
      const auto axis = static_cast<std::int64_t>(shape.size()) - 1;
      keep(
          node("concat", {x.value, one_in(2) ? x.value : node("neg", {x.value})}, {{"axis", axis}}),
          x.bound);
      return;
    }
    const bool backwards = one_in(3);
    Shape starts(shape.size(), Dim(0));
    Shape sizes = shape;
    Ints steps(shape.size(), 1);
    sizes.back() = *last / 2;
    starts.back() = backwards ? *last - 1 : *last - *last / 2;
    if (backwards) steps.back() = -1;
    keep(node("slice", {x.value}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}}),
         x.bound);
  }

  // Of heads side by side, which come out side by side again.
  void add_attention(Bounded x) {
    const Shape shape = x.value->shape();
    if (shape.size() != 2 || !(shape.back() == Dim(kWidth))) return;
    const Ints swap = {0, 2, 1, 3};
    Value* const split = node("reshape", {x.value}, {{"shape", Shape{1, shape[0], kHeads, kHead}}});
    Value* const heads = node("transpose", {split}, {{"permutation", swap}});
    Value* const made =
        node("attention", {heads, heads, heads},
             {{"scale", 0.25}, {"causal", std::string(one_in(2) ? "top_left" : "none")}});
    Value* const back = node("transpose", {made}, {{"permutation", swap}});
    keep(node("reshape", {back}, {{"shape", shape}}), x.bound);
    if (one_in(2)) add_matmul(tamed(values_.back()));
  }

  void add_expand(Bounded x) {
    Shape target = x.value->shape();
    if (target.front() == Dim(1)) {
      target.front() = 3;
    } else if (target.size() < 3) {
      target.insert(target.begin(), one_in(2) ? Dim(2) : n_);
    } else {
      return;
    }
    keep(node("expand", {x.value}, {{"shape", target}}), x.bound);
  }

  // All that nobody reads, and now and then something in the middle, or an input.
  void give_out() {
    int number = 0;
    for (const Bounded& each : values_) {
      const bool unread = each.value->uses().empty() && !each.value->is_graph_input();
      if (unread || one_in(8)) graph_.add_output(fmt::format("y{}", number++), each.value);
    }
    if (number == 0) graph_.add_output("y0", values_.back().value);
    if (one_in(3)) give_out_a_cache(pick().value);
  }

  // Which the value is written into.
  void give_out_a_cache(Value* value) {
    Shape shape = value->shape();
    if (shape.size() < 2) return;
    shape[1] = shape[1] + 3;
    Value* const past = graph_.add_input("past", {DType::F32, shape});
    Value* const present = node("tensor_scatter", {past, value},
                                {{"axis", std::int64_t{1}}, {"mode", std::string("linear")}});
    graph_.add_output("present", present);
    graph_.set_in_place(static_cast<int>(graph_.outputs().size()) - 1, past);
  }

  std::mt19937 random_;
  int operators_;
  Graph graph_;
  Dim n_ = Dim::symbol("n", {1, 4096, 1});
  Dim m_ = Dim::symbol("m", {1, 4096, 1});
  std::vector<Bounded> values_;
};

}  // namespace opweld::testing
