// Runs a raising pass over a graph given as text, and holds it to the numbers: what the graph means
// in double precision stays, for special values too, and half types do not become less accurate.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/builder.h"
#include "ops/reference.h"

namespace opweld {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline std::string joined(std::initializer_list<std::string_view> parts) {
  std::string result;
  for (const std::string_view part : parts) result += part;
  return result;
}

struct RaisingCase {
  Status (*pass)(Graph&);
  Bindings sizes;
  // Planted into the inputs, each into a line of the last axis of its own, in a run of their own.
  std::vector<double> special = {kInf, -kInf, kNan, 0.0, 1e30, 1e-30};
  // Of results in double precision, relative to the greater of 1 and the value.
  double tolerance = 1e-9;
};

struct RaisedWithNotes {
  Graph graph;
  std::vector<std::string> notes;
};

// The graph behind a pass that notes what it leaves as it is, and why.
inline RaisedWithNotes raised_with_notes(const Graph& before,
                                         Status (*pass)(Graph&, std::vector<std::string>*)) {
  RaisedWithNotes result{before.clone(), {}};
  const Status done = pass(result.graph, &result.notes);
  EXPECT_TRUE(done) << (done ? "" : done.error().message);
  const Status sound = verify(result.graph);
  EXPECT_TRUE(sound) << (sound ? "" : sound.error().message);
  return result;
}

inline Tensor random_input(const Value* input, const Bindings& sizes, unsigned seed) {
  Tensor tensor = Tensor::allocate(input->dtype(), evaluate(input->shape(), sizes).value()).value();
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(-2, 2);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (is_float(input->dtype())) {
      tensor.set_double(i, real(random));
    } else {
      tensor.set_int(i, input->dtype() == DType::Bool ? i % 3 != 1 : i % 4);
    }
  }
  return tensor;
}

inline std::vector<Tensor> random_inputs(const Graph& graph, const Bindings& sizes,
                                         const std::vector<double>& special) {
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) {
    Tensor tensor = random_input(input, sizes, static_cast<unsigned>(inputs.size()) + 1);
    const std::int64_t line = tensor.rank() == 0 ? 1 : tensor.sizes().back();
    for (std::size_t i = 0; i < special.size() && is_float(input->dtype()); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i) * line + line / 2;
      if (at < tensor.num_elements()) tensor.set_double(at, special[i]);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

inline std::vector<Tensor> results_of(const Graph& graph, const std::vector<Tensor>& inputs,
                                      bool in_f64) {
  auto results = evaluate(graph, inputs, {.in_f64 = in_f64, .observer = {}});
  EXPECT_TRUE(results) << (results ? "" : results.error().message);
  return results ? std::move(*results) : std::vector<Tensor>{};
}

inline void expect_same(const std::vector<Tensor>& before, const std::vector<Tensor>& after,
                        double tolerance) {
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    ASSERT_EQ(before[i].sizes(), after[i].sizes());
    for (std::int64_t j = 0; j < before[i].num_elements(); ++j) {
      const double a = before[i].get_double(j);
      const double b = after[i].get_double(j);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      ASSERT_NEAR(a, b, tolerance * std::max(1.0, std::abs(a))) << "result " << i << " at " << j;
    }
  }
}

// The greatest distance of finite results from those in double precision.
inline double greatest_error(const std::vector<Tensor>& rounded, const std::vector<Tensor>& exact) {
  double greatest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    for (std::int64_t j = 0; j < exact[i].num_elements(); ++j) {
      const double distance = std::abs(rounded[i].get_double(j) - exact[i].get_double(j));
      if (std::isfinite(exact[i].get_double(j))) greatest = std::max(greatest, distance);
    }
  }
  return greatest;
}

// The graph after the pass.
inline Graph raised_graph(const std::string& text, const RaisingCase& of) {
  auto parsed = parse_graph(text);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message) << "\n" << text;
  if (!parsed) return Graph();
  const Graph before = std::move(*parsed);
  Graph after = before.clone();
  const Status done = of.pass(after);
  EXPECT_TRUE(done) << (done ? "" : done.error().message);
  const Status sound = verify(after);
  EXPECT_TRUE(sound) << (sound ? "" : sound.error().message);
  for (const auto& special : {std::vector<double>{}, of.special}) {
    const auto inputs = random_inputs(before, of.sizes, special);
    const auto exact = results_of(before, inputs, true);
    expect_same(exact, results_of(after, inputs, true), of.tolerance);
    if (!special.empty()) continue;
    const double error_before = greatest_error(results_of(before, inputs, false), exact);
    const double error_after = greatest_error(results_of(after, inputs, false), exact);
    EXPECT_LE(error_after, error_before * 1.001) << "less accurate than before";
  }
  return after;
}

// The operators after the pass, in order and without constants: "mul rms_norm".
inline std::string raised(const std::string& text, const RaisingCase& of) {
  std::string names;
  const Graph graph = raised_graph(text, of);
  for (const auto& node : graph.nodes()) {
    if (node->op() == "constant") continue;
    names += (names.empty() ? "" : " ") + node->op();
  }
  return names;
}

// The text of the graph after the pass, without types.
inline std::string raised_text(const std::string& text, const RaisingCase& of) {
  return to_text(raised_graph(text, of), {.types = false, .sources = false});
}

}  // namespace opweld
