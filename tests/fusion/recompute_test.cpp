// Cheap producers of several readers, computed in each of them.
#include "fusion/recompute.h"

#include <algorithm>
#include <cstring>

#include "compile.h"
#include "fusion/planning.h"
#include "graph/text.h"
#include "ops/reference.h"
#include "runtime/compare.h"

namespace opweld::testing {
namespace {

// Statements from %x on; rows and columns of one tensor are reduced, which no schedule does in one
// kernel.
std::string over_rows_and_columns(const std::string& inputs, const std::string& statements,
                                  const std::string& of = "p", const std::string& more = "") {
  return "graph g(" + inputs + ") {\n" + statements + "  %a = reduce_max(%" + of +
         ") {axes = [1], keepdims = 0}\n  %b = reduce_sum(%" + of +
         ") {axes = [0], keepdims = 0}\n  return %a as \"a\", %b as \"b\"" + more + "\n}";
}

const std::string kCast =
    over_rows_and_columns("%x: f16[2048, 1024]", "  %p = cast(%x) {to = f32}\n");

PlannedGraph without_recomputing(const std::string& text) {
  PlanSettings settings;
  settings.recompute = false;
  return PlannedGraph(text, settings);
}

std::int64_t bytes(const FusionPlan& plan, const Bindings& sizes = {}) {
  Dim sum = 0;
  for (const Kernel& kernel : plan.kernels) {
    sum += FusionPlan::bytes_read(kernel) + FusionPlan::bytes_written(kernel);
  }
  return sum.evaluate(sizes).value();
}

TEST(Recompute, ACastIsDoneByEachOfItsReaders) {
  EXPECT_EQ(without_recomputing(kCast).text(), "0 row: cast + reduce_max\n1 reduce: reduce_sum\n");
  const PlannedGraph planned(kCast);
  EXPECT_EQ(planned.text(), "0 row: again cast + reduce_max\n1 reduce: again cast + reduce_sum\n");
  EXPECT_EQ(planned.edge("p", "a"), "fused");
  EXPECT_EQ(planned.edge("p", "b"), "fused");
  EXPECT_EQ(planned.verdict("p", "a").detail, "computed in 2 kernels");
  EXPECT_EQ(planned.verdict("p", "b").kernel, 1);
}

TEST(Recompute, SaysWhatItSavesAndAdds) {
  const PlannedGraph planned(kCast);
  ASSERT_EQ(planned.plan().recomputations.size(), 1U);
  const Recomputation& only = planned.plan().recomputations[0];
  EXPECT_EQ(only.value->name(), "p");
  EXPECT_EQ(only.kernels, 2);
  // It is not written, and the second reader reads half as many bytes.
  constexpr std::int64_t kElements = 2048 * 1024;
  EXPECT_EQ(only.bytes_saved, Dim(kElements * 4 + kElements * 2));
  EXPECT_EQ(only.flops_added, Dim(kElements));
  EXPECT_EQ(bytes(without_recomputing(kCast).plan()) - bytes(planned.plan()), kElements * 6);
}

TEST(Recompute, AChainOfProducersGoesAsOne) {
  const std::string text =
      over_rows_and_columns("%x: f16[n, 512], %r: f32[n, 1]",
                            "  %o = cast(%x) {to = f32}\n  %q = mul(%o, %r)\n  %p = neg(%q)\n");
  EXPECT_EQ(without_recomputing(text).text(),
            "0 row: cast + mul + neg + reduce_max\n1 reduce: reduce_sum\n");
  const PlannedGraph planned(text);
  EXPECT_EQ(planned.text(),
            "0 row: again cast + again mul + again neg + reduce_max\n"
            "1 reduce: again cast + again mul + again neg + reduce_sum\n");
  EXPECT_EQ(planned.edge("o", "q"), "fused");
  for (const std::int64_t rows : {1, 17, 4096}) {
    const Bindings sizes = {{"n", rows}};
    EXPECT_LT(bytes(planned.plan(), sizes), bytes(without_recomputing(text).plan(), sizes));
  }
}

// A sum of two tensors is as much to read as it is to write and to read.
TEST(Recompute, WideOperandsAreNotReadAgain) {
  const std::string text =
      over_rows_and_columns("%x: f32[2048, 1024], %y: f32[2048, 1024]", "  %p = add(%x, %y)\n");
  const PlannedGraph planned(text);
  EXPECT_EQ(planned.text(), "0 row: add + reduce_max\n1 reduce: reduce_sum\n");
  EXPECT_TRUE(planned.plan().recomputations.empty());
}

// Where arithmetic bounds the readers, more of it is not cheaper than what it saves.
TEST(Recompute, DearOperatorsAreDoneOnce) {
  const auto text = [](const std::string& op) {
    std::string statements = "  %p0 = cast(%x) {to = f32}\n";
    for (int i = 0; i < 7; ++i) {
      statements += fmt::format("  %p{} = {}(%p{}, %e)\n", i + 1, op, i);
    }
    return over_rows_and_columns("%x: f16[2048, 1024], %e: f32[2048, 1]", statements, "p7");
  };
  EXPECT_EQ(PlannedGraph(text("mul")).plan().recomputations.size(), 1U);
  EXPECT_TRUE(PlannedGraph(text("pow")).plan().recomputations.empty());
}

TEST(Recompute, ProductsAndReductionsAreDoneOnce) {
  for (const std::string producer :
       {"  %w = constant {value = f32[64, 1024] random 1}\n  %p = matmul(%x, %w)\n",
        "  %m = reduce_max(%x) {axes = [1], keepdims = 1}\n"
        "  %p = expand(%m) {shape = <2048, 1024>}\n  %q = abs(%p)\n"}) {
    const std::string text = over_rows_and_columns("%x: f32[2048, 64]", producer);
    const PlannedGraph planned(text);
    for (const Recomputation& each : planned.plan().recomputations) {
      EXPECT_NE(each.value->producer()->op(), "matmul");
      EXPECT_NE(each.value->producer()->op(), "reduce_max");
    }
  }
}

TEST(Recompute, WhatIsWantedInMemoryIsWritten) {
  const std::string text = over_rows_and_columns(
      "%x: f16[2048, 1024]", "  %p = cast(%x) {to = f32}\n", "p", ", %p as \"p\"");
  EXPECT_EQ(PlannedGraph(text).text(), "0 row: cast + reduce_max\n1 reduce: reduce_sum\n");
}

TEST(Recompute, CallsHaveNoInsideToComputeItIn) {
  const PlannedGraph planned(R"(graph g(%x: f16[2048, 1024]) {
    %p = cast(%x) {to = f32}
    %a = reduce_max(%p) {axes = [1], keepdims = 0}
    %v, %i = top_k(%p) {axis = 1, k = <8>, largest = 0, sorted = 1}
    return %a as "a", %v as "v"
  })");
  EXPECT_TRUE(planned.plan().recomputations.empty());
}

TEST(Recompute, StreamsStayApart) {
  std::string text = kCast;
  text.replace(text.find("{to = f32}"), 10, "{to = f32} @\"p\" stream \"one\"");
  const std::string same = text;
  text.replace(text.find("{axes = [0], keepdims = 0}"), 26,
               "{axes = [0], keepdims = 0} @\"b\" stream \"two\"");
  EXPECT_EQ(PlannedGraph(same).plan().recomputations.size(), 1U);
  EXPECT_TRUE(PlannedGraph(text).plan().recomputations.empty());
}

TEST(Recompute, OnlyWithTheFullRulesAtTheFullLevel) {
  PlanSettings linear;
  linear.rules = RuleSet::Linear;
  EXPECT_TRUE(PlannedGraph(kCast, linear).plan().recomputations.empty());
  PlanSettings library;
  library.level = FusionLevel::Ops;
  EXPECT_TRUE(PlannedGraph(kCast, library).plan().recomputations.empty());
  PlanSettings switched_off;
  switched_off.without = {KernelKind::Reduce};
  EXPECT_TRUE(PlannedGraph(kCast, switched_off).plan().recomputations.empty());
}

// What is read by the operator that each kernel computes is read by each.
TEST(Recompute, AnEdgeToItIsKeptWhereAKernelReadsItsOperand) {
  const std::string text = over_rows_and_columns("%x: f16[2048, 1024], %z: f16[2048, 1024]",
                                                 "  %o = add(%x, %z)\n  %p = cast(%o) {to = f32}\n",
                                                 "p", ", %o as \"o\"");
  const PlannedGraph planned(text);
  EXPECT_EQ(planned.text(),
            "0 row: add + again cast + reduce_max\n1 reduce: again cast + reduce_sum\n");
  EXPECT_EQ(planned.edge("o", "p"), "F-RECOMPUTE: computed in 2 kernels");
  EXPECT_EQ(planned.edge("p", "b"), "fused");
}

// Rows of %p are reduced, and then columns of %p, less a product with the former if they feed that.
std::string over_shifted_columns(const std::string& op, bool feeds) {
  return "graph g(%x: f16[512, 4096], %w: f32[512, 512]) {\n  %o = cast(%x) {to = f32}\n  %p = " +
         op + "(%o)\n  %a = reduce_max(%p) {axes = [1], keepdims = 1}\n  %s = matmul(%w, %a)\n" +
         (feeds ? "  %d = sub(%p, %s)\n  %b = reduce_sum(%d) {axes = [0], keepdims = 0}\n"
                : "  %b = reduce_sum(%p) {axes = [0], keepdims = 0}\n") +
         "  return %b as \"b\", %s as \"s\"\n}";
}

// Two kernels may come by other last bits of what IEEE 754 does not round, and a row's greatest
// element would not be its maximum any more. floor is not among what is known to be rounded so, and
// costs what neg costs: the pairs differ in nothing else.
TEST(Recompute, WhatOneReaderFeedsAnotherIsTheSameInBoth) {
  const auto is_recomputed = [](const std::string& text) {
    const PlannedGraph planned(text);
    const auto& made = planned.plan().recomputations;
    return std::ranges::any_of(made, [](const auto& each) { return each.value->name() == "p"; });
  };
  EXPECT_TRUE(is_recomputed(over_shifted_columns("neg", true)));
  EXPECT_FALSE(is_recomputed(over_shifted_columns("floor", true)));
  // Where the readers do not feed each other either will do, whoever wrote the value.
  for (const char* op : {"neg", "floor"}) {
    EXPECT_TRUE(is_recomputed(over_shifted_columns(op, false))) << op;
    const std::string statements = fmt::format("  %o = cast(%x) {{to = f32}}\n  %p = {}(%o)\n", op);
    EXPECT_TRUE(is_recomputed(over_rows_and_columns("%x: f16[2048, 1024]", statements))) << op;
  }
}

// Fused, unfused and with a value written once; at vector multiples and tails.
TEST(Recompute, ComputesTheSameBits) {
  const std::vector<std::string> texts = {
      over_rows_and_columns("%x: f16[n, m]", "  %p = cast(%x) {to = f32}\n"),
      over_rows_and_columns("%x: bf16[n, m]",
                            "  %o = cast(%x) {to = f32}\n  %q = mul(%o, %o)\n  %p = neg(%q)\n"),
      over_rows_and_columns("%x: f32[n, 1], %y: f32[m]", "  %p = mul(%x, %y)\n"),
      over_rows_and_columns("%x: f32[m, n]",
                            "  %o = transpose(%x) {permutation = [1, 0]}\n"
                            "  %p = abs(%o)\n"),
  };
  for (const std::string& text : texts) {
    SCOPED_TRACE(text);
    const auto compiled = [&](FusionLevel level, bool strict) {
      CompileOptions options;
      options.level = level;
      options.strict = strict;
      options.threads = 2;
      return std::move(compile(parse_graph(text).value(), options).value().executable);
    };
    Executable together = compiled(FusionLevel::Auto, false);
    Executable apart = compiled(FusionLevel::None, false);
    Executable strict = compiled(FusionLevel::Auto, true);
    Executable strict_apart = compiled(FusionLevel::None, true);
    const Graph graph = parse_graph(text).value();
    for (const auto& [rows, columns] : {std::pair{1, 1}, std::pair{3, 7}, std::pair{16, 17},
                                        std::pair{33, 64}, std::pair{130, 640}}) {
      std::vector<Tensor> inputs;
      for (const Value* input : graph.inputs()) {
        const Bindings sizes = {{"n", rows}, {"m", columns}};
        Tensor tensor =
            Tensor::allocate(input->dtype(), evaluate(input->shape(), sizes).value()).value();
        for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
          tensor.set_double(i, static_cast<double>((i * 37 + 11) % 101) / 16 - 3);
        }
        // What is no number is none in the same places.
        if (tensor.num_elements() > 5) tensor.set_double(3, HUGE_VAL);
        inputs.push_back(std::move(tensor));
      }
      const auto expected = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
      const auto check = [&](Executable& model) {
        auto results = model.run(inputs).value();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const Comparison same =
              compare(results[i], expected[i], default_tolerance(results[i].dtype()));
          EXPECT_TRUE(same.equal) << rows << " x " << columns << ": " << same.message;
        }
        return results;
      };
      check(together);
      check(apart);
      const auto one = check(strict);
      const auto other = check(strict_apart);
      for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_EQ(std::memcmp(one[i].data(), other[i].data(),
                              static_cast<std::size_t>(one[i].num_bytes())),
                  0);
      }
    }
  }
}

TEST(Recompute, TheRecordOfThePlanHasIt) {
  const Graph graph = parse_graph(kCast).value();
  const Target target = host_target();
  PlanOptions options;
  options.target = &target;
  options.oracle = schedules_for(target);
  const std::vector<FusionPlan> plans = {plan_fusion(graph, options).value()};
  ASSERT_EQ(plans[0].recomputations.size(), 1U);
  // A kernel that recomputes what it does not hold, or alone, is no plan.
  FusionPlan broken = plans[0];
  broken.kernels[1].recomputed.clear();
  EXPECT_NE(check_plan(graph, broken), "");
  broken = plans[0];
  broken.kernels.pop_back();
  EXPECT_NE(check_plan(graph, broken), "");
}

}  // namespace
}  // namespace opweld::testing
