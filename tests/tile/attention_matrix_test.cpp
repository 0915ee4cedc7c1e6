// Attention in bf16, on a matrix unit where there is one: which kernels go there, and what they
// give around the sizes of panels, blocks and steps of the unit.
#include <limits>

#include "tile/attention_group.h"

namespace opweld::testing {
namespace {

const std::string kTargets[] = {"host", "host-avx512", "host-avx2"};

bool has_unit(const std::string& target) {
  return find_target(target).value().has_amx_bf16;
}

TEST(AttentionOnAMatrixUnit, ServesManyQueriesInBf16) {
  for (const std::string& target : kTargets) {
    for (const std::string dtype : {"bf16", "f16"}) {
      for (const std::string queries : {"1", "s"}) {
        for (const bool strict : {false, true}) {
          const AttentionGroup options{.queries = queries, .dtype = dtype};
          const GroupRunner group(options.text(), KernelKind::Attention, target, strict);
          const bool served = has_unit(target) && dtype == "bf16" && queries != "1" && !strict;
          EXPECT_EQ(uses_matrix_unit(group.program()), served)
              << target << ", " << queries << " queries of " << dtype << (strict ? ", strict" : "");
        }
      }
    }
  }
}

AttentionGroup bf16(std::string attributes) {
  return {.attributes = std::move(attributes), .dtype = "bf16"};
}

// Panels of 32 queries, tasks of 128; steps of 32 keys, blocks of 128.
TEST(AttentionOnAMatrixUnit, SizesAroundThoseOfItsBlocks) {
  for (const std::string& target : kTargets) {
    for (const std::string attributes :
         {"causal = \"none\"", "causal = \"top_left\"", "causal = \"bottom_right\"",
          "causal = \"bottom_right\", window_left = 40", "window_left = 33, window_right = 5"}) {
      const GroupRunner group(bf16(attributes).text(), KernelKind::Attention, target);
      for (const std::int64_t queries : {17, 31, 32, 33, 127, 128, 129, 257}) {
        for (const std::int64_t keys : {0, 1, 2, 31, 33, 127, 128, 131, 300}) {
          group.check({{"b", 1}, {"s", queries}, {"t", keys}, {"d", 24}, {"e", 40}});
        }
      }
    }
  }
}

// K and V that are computed, or stand in another order, are packed; others are read as they lie.
TEST(AttentionOnAMatrixUnit, ViewsAndWorkAroundIt) {
  for (const std::string& target : kTargets) {
    for (const std::string k : {"kt", "kn"}) {
      const GroupRunner group(fmt::format(R"(graph g(%q: bf16[b, s, 4, 32], %k: bf16[b, t, 2, 32],
                                 %v: bf16[b, 2, t, 32]) {{
    %qt = transpose(%q) {{permutation = [0, 2, 1, 3]}}
    %kt = transpose(%k) {{permutation = [0, 2, 1, 3]}}
    %kn = neg(%kt)
    %vn = abs(%v)
    %a = attention(%qt, %{}, %vn) {{scale = 0.3, causal = "bottom_right"}}
    %n = neg(%a)
    %nt = transpose(%n) {{permutation = [0, 2, 1, 3]}}
    %y = reshape(%nt) {{shape = <b, s, 128>}}
    return %y as "y"
  }})",
                                          k),
                              KernelKind::Attention, target);
      group.check({{"b", 2}, {"s", 41}, {"t", 150}});
    }
  }
}

// As the definition has it: a row that sees NaN, or a score of +inf, is NaN; -inf weighs nothing.
TEST(AttentionOnAMatrixUnit, NaNAndInfinities) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const std::string& target : kTargets) {
    AttentionGroup options = bf16("causal = \"bottom_right\"");
    options.mask = "f32[b, 1, s, t]";
    options.lse = true;
    const GroupRunner group(options.text(), KernelKind::Attention, target);
    const AttentionSizes sizes{.queries = 50, .keys = 300, .batch = 1};
    for (const double value : {kNaN, kInf, -kInf}) {
      for (const char operand : {'q', 'k', 'v', 'm'}) {
        for (const std::int64_t at : {7, 16 * 40 + 3, 16 * 299}) {
          std::vector<Tensor> inputs = attention_inputs(group, options, sizes);
          Tensor& tensor = inputs[options.place(operand)];
          tensor.set_double(at % tensor.num_elements(), value);
          SCOPED_TRACE(fmt::format("{}: {} of {} at {}", target, value, operand, at));
          group.check(inputs);
        }
      }
    }
  }
}

TEST(AttentionOnAMatrixUnit, RowsAndBlocksThatAreMaskedWhole) {
  for (const std::string& target : kTargets) {
    AttentionGroup options = bf16("causal = \"none\"");
    options.mask = "bool[b, 1, s, t]";
    options.lse = true;
    const GroupRunner group(options.text(), KernelKind::Attention, target);
    std::vector<Tensor> inputs =
        attention_inputs(group, options, {.queries = 70, .keys = 400, .batch = 1});
    for (std::int64_t query = 0; query < 70; ++query) {
      for (std::int64_t key = 0; key < 400; ++key) {
        // Every third row sees nothing, another third nothing of the first blocks.
        if (query % 3 == 0 || (query % 3 == 1 && key < 260)) {
          inputs[3].set_int(query * 400 + key, 0);
        }
      }
    }
    group.check(inputs);
  }
}

// Scores far apart, so that maxima move from block to block and most weights are zero.
TEST(AttentionOnAMatrixUnit, LargeScores) {
  for (const std::string& target : kTargets) {
    const GroupRunner group(bf16("causal = \"none\"").text(), KernelKind::Attention, target);
    std::vector<Tensor> inputs =
        group.random_inputs({{"b", 1}, {"s", 40}, {"t", 500}, {"d", 64}, {"e", 64}});
    for (std::int64_t i = 0; i < inputs[1].num_elements(); ++i) {
      inputs[1].set_double(i, inputs[1].get_double(i) * static_cast<double>(1 + i / 64 % 500));
    }
    group.check(inputs);
  }
}

}  // namespace
}  // namespace opweld::testing
