// Models of one matmul with a prologue on either operand and epilogues behind it, as text, and
// inputs for them: every choice of a few factors, for tests that go through all of them in pairs.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "runtime/compare.h"
#include "tile/contract_factors.h"
#include "tile/group_runner.h"

namespace opweld::testing {

class ContractModel {
 public:
  explicit ContractModel(const ContractChoice& of) : of_(of) { text_ = made_text(); }

  [[nodiscard]] const std::string& text() const { return text_; }

  // Sizes of what is free: with 0, 1, and primes.
  [[nodiscard]] std::vector<Bindings> sizes() const {
    std::vector<Bindings> sizes;
    const bool long_depth = depth_size() > 1000;
    const auto add = [&](std::int64_t b, std::int64_t m, std::int64_t k, std::int64_t n) {
      sizes.push_back({{"b", b}, {"m", m}, {"k", k}, {"n", n}});
    };
    if (of_[kRight] == kFreeInput) {
      add(1, 13, 0, 5);
      add(1, 13, 5, 0);
      add(2, 1, 1, 1);
    }
    if (free_batch()) add(0, 3, 29, 33);
    if (of_[kRows] == 0) {
      for (const std::int64_t m : {0, 1, 2, 13, 16}) add(2, m, 29, 33);
      add(1, long_depth ? 33 : 250, 29, 33);
    } else {
      add(long_depth ? 1 : 2, 5, 29, 33);
    }
    return sizes;
  }

  // Random. What a prologue makes of them is exact in any dtype, but for a norm, so that it is the
  // same whether it is rounded on its way or not; and so small that sums of many products are, too.
  [[nodiscard]] std::vector<Tensor> random_inputs(const Bindings& sizes) const {
    const Graph graph = parse_graph(text()).value();
    std::vector<Tensor> inputs;
    for (const Value* input : graph.inputs()) {
      const auto seed = static_cast<unsigned>(inputs.size()) + 1;
      Tensor tensor = random_tensor(input->type(), evaluate(input->shape(), sizes).value(), seed);
      const std::string& name = input->name();
      const bool scales = name == "ws" || (name == "xs" && of_[kLeft] == kScaledRows);
      const bool is_left = name == "a" || name == "x" || (name == "xs" && !scales);
      for (std::int64_t i = 0; (scales || is_left) && i < tensor.num_elements(); ++i) {
        const double x = tensor.get_double(i);
        const double part = std::round(x * 32) / (depth_size() > 1000 ? 1024 : 32);
        tensor.set_double(i, scales ? std::exp2(std::round(x)) : part);
      }
      inputs.push_back(std::move(tensor));
    }
    return inputs;
  }

  [[nodiscard]] DType dtype() const { return kDTypes[at(of_[kDType])]; }
  [[nodiscard]] bool is_half() const { return testing::is_half(of_[kDType]); }
  [[nodiscard]] std::string target() const { return kVectorTargets[at(of_[kVectors])]; }
  [[nodiscard]] bool strict() const { return of_[kStrict] != 0; }

 private:
  static std::size_t at(int level) { return static_cast<std::size_t>(level); }

  // Statements are made in the order of the graph; inputs and constants are noted on the way.
  std::string made_text() {
    const std::string left = make_left();
    const std::string right = make_right();
    std::string body = left + right + "%p = matmul(%a, %w)\n";
    std::string value = "%p";
    std::string product = value;
    if (of_[kForm] == kGatePair) {
      body += half("g", 0) + half("u", 1) + "%gs = silu(%g)\n%gu = mul(%gs, %u)\n";
      value = "%gu";
      product = "%g";
    }
    value = take_step(of_[kStep], "i", value, body);
    const std::string between = value;
    value = take_step(of_[kThen], "j", value, body);
    if (of_[kCast] != 0) {
      body += fmt::format("%k = cast({}) {{to = {}}}\n", value, result_dtype());
      value = "%k";
    }
    const std::string second = of_[kResults] == 0 ? "" : of_[kResults] == 1 ? between : product;
    if (second == value) {  // a value is stored once
      body += "%n = neg(" + value + ")\n";
      value = "%n";
    }
    std::string results = store(value, body);
    if (!second.empty()) results += ", " + second + " as \"second\"";
    if (of_[kOfRows] != kNoStatistic) {
      add_statistic(value, body);
      results += ", %st as \"statistic\"";
    }
    return fmt::format("graph g({}) {{\n{}{}return {}\n}}", inputs_, constants_, body, results);
  }

  [[nodiscard]] std::string_view other_dtype() const {
    return to_string(kOtherDTypes[at(of_[kDType])]);
  }
  [[nodiscard]] std::string_view narrower_dtype() const {
    return to_string(is_half() ? DType::I8 : dtype() == DType::F64 ? DType::F32 : DType::F16);
  }
  [[nodiscard]] std::string_view result_dtype() const {
    if (of_[kCast] == 1) return other_dtype();
    return dtype() == DType::BF16 ? "f16" : "bf16";
  }
  [[nodiscard]] std::int64_t depth_size() const { return kDepths[at(of_[kDepth])]; }
  [[nodiscard]] std::string depth() const {
    return of_[kRight] == kFreeInput ? "k" : std::to_string(depth_size());
  }
  // Of the right operand.
  [[nodiscard]] std::string columns() const {
    if (of_[kRight] == kFreeInput) return "n";
    const std::int64_t count = kColumnCounts[at(of_[kColumns])];
    switch (of_[kForm]) {
      case kHeads:
      case kRotated:
        return "128";
      case kSegments:
        return "192";
      case kGatePair:
        return std::to_string(2 * count);
      default:
        return std::to_string(count);
    }
  }
  [[nodiscard]] std::string width() const {
    return of_[kForm] == kGatePair ? std::to_string(kColumnCounts[at(of_[kColumns])]) : columns();
  }
  [[nodiscard]] std::string rows() const { return kRowCounts[at(of_[kRows])]; }
  // Free where nothing says how many matrices there are.
  [[nodiscard]] bool free_batch() const {
    return of_[kRight] != kConstantBatch && (of_[kRank] == 0 || has_batch(of_[kRight]));
  }
  [[nodiscard]] std::string batch() const { return of_[kRight] == kConstantBatch ? "2" : "b"; }
  // Leading axes of the left operand and of the product.
  [[nodiscard]] std::string left_batch() const { return of_[kRank] == 0 ? batch() + ", " : ""; }
  [[nodiscard]] std::string result_batch() const {
    return of_[kRank] == 0 || (has_batch(of_[kRight]) && of_[kRight] != kBroadcastBatch)
               ? batch() + ", "
           : of_[kRight] == kBroadcastBatch ? "1, "
                                            : "";
  }
  [[nodiscard]] std::string result_shape() const {
    return result_batch() + rows() + ", " + width();
  }

  std::string input(const std::string& name, const std::string& type) {
    inputs_ += fmt::format("{}%{}: {}", inputs_.empty() ? "" : ", ", name, type);
    return "%" + name;
  }
  [[nodiscard]] std::string typed(const std::string& shape) const {
    return fmt::format("{}[{}]", to_string(dtype()), shape);
  }
  [[nodiscard]] std::string typed_otherwise(const std::string& shape) const {
    return fmt::format("{}[{}]", other_dtype(), shape);
  }
  // An input where its size is free.
  std::string constant(const std::string& name, const std::string& type, int seed) {
    if (of_[kRight] == kFreeInput) return input(name, type);
    constants_ += fmt::format("%{} = constant {{value = {} random {}}}\n", name, type, seed);
    return "%" + name;
  }
  std::string make_left() {
    const std::string shape = left_batch() + rows() + ", " + depth();
    const std::string zeros = of_[kRank] == 0 ? "0, 0" : "0";
    const std::string ones = of_[kRank] == 0 ? "1, 1" : "1";
    switch (of_[kLeft]) {
      case kPointwise:
        input("x", typed(shape));
        return "%a = relu(%x)\n";
      case kScaledRows:
        input("x", typed(shape));
        input("xs", typed(left_batch() + rows() + ", 1"));
        return "%a = mul(%x, %xs)\n";
      case kColumnMaxima:
        input("x", typed(shape));
        input("xs", typed(depth()));
        return "%a = max(%x, %xs)\n";
      case kCastRows:
        input("x", typed_otherwise(shape));
        return fmt::format("%a = cast(%x) {{to = {}}}\n", to_string(dtype()));
      case kTransposedRows:
        input("x", typed(left_batch() + depth() + ", " + rows()));
        return fmt::format("%a = transpose(%x) {{permutation = [{}]}}\n",
                           of_[kRank] == 0 ? "0, 2, 1" : "1, 0");
      case kSlicedRows:
        input("x", typed(left_batch() + rows() + ", " + depth() + " + 3"));
        return fmt::format("%a = slice(%x) {{starts = <{}, 3>, sizes = <{}>, steps = [{}, 1]}}\n",
                           zeros, shape, ones);
      case kGatheredRows:
        input("x", typed("5, " + depth()));
        input("xi", "i64[" + left_batch() + rows() + "]");
        return "%a = gather(%x, %xi) {axis = 0}\n";
      case kRmsNorm:
        input("x", typed(shape));
        return "%xn = rms_norm(%x, " + constant("xg", typed(depth()), 7) +
               ") {axis = -1, epsilon = 0.25}\n" + scaled_for_depth("xn");
      case kLayerNorm:
        input("x", typed(shape));
        return "%xn = layer_norm(%x, " + constant("xg", typed(depth()), 7) + ", " +
               constant("xb", typed(depth()), 8) + ") {axis = -1, epsilon = 0.25}\n" +
               scaled_for_depth("xn");
      case kSoftmax:
        input("x", typed(shape));
        return "%a = softmax(%x) {axis = -1}\n";
      default:
        input("a", typed(shape));
        return "";
    }
  }

  std::string number(const std::string& name, const std::string& value) {
    constants_ +=
        fmt::format("%{} = constant {{value = {}[] {{{}}}}}\n", name, to_string(dtype()), value);
    return "%" + name;
  }

  // Sums of many numbers of the size of one would be rounded by more than what cancels in them.
  std::string scaled_for_depth(const std::string& value) {
    const std::string factor = number("xc", depth_size() > 1000 ? "0.03125" : "1.0");
    return "%a = mul(%" + value + ", " + factor + ")\n";
  }

  std::string make_right() {
    const std::string shape = depth() + ", " + columns();
    const std::string turned = columns() + ", " + depth();
    switch (of_[kRight]) {
      case kConstant:
        constant("w", typed(shape), 1);
        return "";
      case kCastConstant:
        // Of half as many bits, which the wider type holds exactly.
        return fmt::format("%w = cast({}) {{to = {}}}\n",
                           constant("wo", fmt::format("{}[{}]", narrower_dtype(), shape), 1),
                           to_string(dtype()));
      case kTransposedConstant:
        return "%w = transpose(" + constant("wo", typed(turned), 1) + ") {permutation = [1, 0]}\n";
      case kConstantBatch:
        constant("w", typed("2, " + shape), 1);
        return "";
      case kTransposedInput:
        return "%w = transpose(" + input("wo", typed(turned)) + ") {permutation = [1, 0]}\n";
      case kScaledInput:
        input("wo", typed(shape));
        return "%w = mul(%wo, " + input("ws", typed(columns())) + ")\n";
      case kInputBatch:
        input("w", typed(batch() + ", " + shape));
        return "";
      case kBroadcastBatch:
        input("w", typed("1, " + shape));
        return "";
      default:
        input("w", typed(shape));
        return "";
    }
  }

  [[nodiscard]] std::string half(const std::string& name, int which) const {
    const std::string zeros = of_[kRank] == 0 ? "0, 0" : "0";
    const std::string ones = of_[kRank] == 0 ? "1, 1" : "1";
    return fmt::format("%{} = slice(%p) {{starts = <{}, {}>, sizes = <{}>, steps = [{}, 1]}}\n",
                       name, zeros, which * kColumnCounts[at(of_[kColumns])], result_shape(), ones);
  }

  // Appends the step to the body and returns the name of what it makes.
  std::string take_step(int which, const std::string& name, const std::string& of,
                        std::string& body) {
    if (which == kNoStep) return of;
    const std::string operand = name + "o";
    body += "%" + name + " = ";
    switch (which) {
      case kBias:
        body += "add(" + of + ", " + constant(operand, typed(width()), 2) + ")\n";
        break;
      case kGelu:
        body += "gelu(" + of + ")\n";
        break;
      case kSilu:
        body += "silu(" + of + ")\n";
        break;
      case kRelu:
        body += "relu(" + of + ")\n";
        break;
      case kResidual:
        body += "add(" + input(operand, typed(result_shape())) + ", " + of + ")\n";
        break;
      case kRowFactor:
        body += "mul(" + of + ", " + input(operand, typed(result_batch() + rows() + ", 1")) + ")\n";
        break;
      case kColumnFactor:
        body += "mul(" + input(operand, typed(width())) + ", " + of + ")\n";
        break;
      case kClip:
        body += "clip(" + of + ", " + number(name + "l", "-1.5") + ", " +
                number(name + "h", "2.0") + ")\n";
        break;
      default:
        body += "select(" + input(operand, "bool[" + rows() + ", " + width() + "]") + ", " + of +
                ", " + number(name + "f", "-3.0") + ")\n";
    }
    return "%" + name;
  }

  // Appends to the body what is stored; returns the results by name.
  std::string store(const std::string& of, std::string& body) {
    const bool three = !result_batch().empty();
    switch (of_[kForm]) {
      case kMergedAxes:
        body += fmt::format("%y = reshape({}) {{shape = <{}>}}\n", of, all_elements());
        break;
      case kTransposedResult:
        body += fmt::format("%y = transpose({}) {{permutation = [{}]}}\n", of,
                            three ? "0, 2, 1" : "1, 0");
        break;
      case kHeads:
        body += heads("y", of, 2);
        break;
      case kRotated: {
        const std::string cos = input("cos", typed(rows() + ", 32"));
        const std::string sin = input("sin", typed(rows() + ", 32"));
        body += heads("h", of, 2) + "%y = rope(%h, " + cos + ", " + sin + ")\n";
        break;
      }
      case kSegments:
        body += columns_of("ys", of, 0, 128) + heads("y", "%ys", 2) +
                columns_of("zs", of, 128, 64) + heads("z", "%zs", 1);
        return "%y as \"y\", %z as \"z\"";
      default:
        return of + " as \"y\"";
    }
    return "%y as \"y\"";
  }

  // Appends %st to the body.
  void add_statistic(const std::string& of, std::string& body) {
    const auto reduced = [&](const std::string& op, const std::string& operand, bool keeps_axis) {
      return fmt::format("{}({}) {{axes = [-1], keepdims = {}}}\n", op, operand,
                         keeps_axis ? 1 : 0);
    };
    const std::string_view type = of_[kCast] == 0 ? to_string(dtype()) : result_dtype();
    const auto number = [&](const std::string& name, const std::string& value) {
      constants_ += fmt::format("%{} = constant {{value = {}[] {{{}}}}}\n", name, type, value);
      return "%" + name;
    };
    switch (of_[kOfRows]) {
      case kMean:
        body += "%st = " + reduced("reduce_mean", of, true);
        break;
      case kInverseRms:
        body += "%sq = mul(" + of + ", " + of + ")\n%sm = " + reduced("reduce_mean", "%sq", true) +
                "%sa = add(%sm, " + number("se", "0.25") + ")\n%st = rsqrt(%sa)\n";
        break;
      case kAbsoluteSum:
        body += "%st = " + reduced("reduce_l1", of, false);
        break;
      case kGreatest:
        body += "%st = " + reduced("reduce_max", of, false);
        break;
      case kLeast:
        body += "%st = " + reduced("reduce_min", of, true);
        break;
      case kAnyBelow:
        body += "%sb = lt(" + of + ", " + number("sl", "-6.0") +
                ")\n%st = " + reduced("reduce_any", "%sb", false);
        break;
      default:
        body += "%st = argmax(" + of + ") {axis = -1, keepdims = 0, select_last = 1}\n";
    }
  }

  [[nodiscard]] std::string all_elements() const {
    std::string product = rows() + " * " + width();
    if (const std::string first = result_batch(); !first.empty()) {
      product = first.substr(0, first.find(',')) + " * " + product;
    }
    return product;
  }

  [[nodiscard]] std::string columns_of(const std::string& name, const std::string& of, int first,
                                       int count) const {
    const bool three = of_[kRank] == 0;
    return fmt::format("%{} = slice({}) {{starts = <{}, {}>, sizes = <{}{}, {}>, steps = [{}]}}\n",
                       name, of, three ? "0, 0" : "0", first, result_batch(), rows(), count,
                       three ? "1, 1, 1" : "1, 1");
  }
  [[nodiscard]] std::string heads(const std::string& name, const std::string& of, int count) const {
    return fmt::format(
        "%{0}r = reshape({1}) {{shape = <{2}{3}, {4}, 64>}}\n"
        "%{0} = transpose(%{0}r) {{permutation = [{5}]}}\n",
        name, of, result_batch(), rows(), count, of_[kRank] == 0 ? "0, 2, 1, 3" : "1, 0, 2");
  }

  ContractChoice of_;
  std::string inputs_;
  std::string constants_;
  std::string text_;
};

}  // namespace opweld::testing
