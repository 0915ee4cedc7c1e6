// On-chip pressure as it is estimated from a tile program, against what LLVM's register allocator
// spills of it.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "codegen/cpu/kernel.h"
#include "codegen/cpu/spills.h"
#include "ops/builder.h"
#include "tile/lower.h"
#include "tile/pressure.h"

namespace opweld::testing {
namespace {

struct Sample {
  std::string name;
  KernelKind kind;
  std::string text;
};

std::string inputs_text(const std::string& dtype, int count, const std::string& shape) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}%x{}: {}[{}]", i == 0 ? "" : ", ", i, dtype, shape);
  }
  return text;
}

// So many values, each through an operator and then combined with two others, so that all of them
// are needed at once; and the sum of what comes of it.
Sample mixed(const std::string& dtype, const std::string& op, int width) {
  std::mt19937 random(static_cast<unsigned>(width));
  std::vector<int> order(static_cast<std::size_t>(width));
  std::iota(order.begin(), order.end(), 0);
  std::string body;
  for (int i = 0; i < width; ++i) {
    body += fmt::format("%a0_{0} = {1}(%x{0})\n", i, op);
  }
  constexpr const char* kPairs[] = {"add", "mul", "sub", "max"};
  for (int round = 1; round <= 2; ++round) {
    std::ranges::shuffle(order, random);
    for (int i = 0; i < width; ++i) {
      body += fmt::format("%a{0}_{2} = {4}(%a{1}_{2}, %a{1}_{3})\n", round, round - 1, i,
                          order[static_cast<std::size_t>(i)], kPairs[random() % 4]);
    }
  }
  body += "%s0 = add(%a2_0, %a2_0)\n";
  for (int i = 1; i < width; ++i) body += fmt::format("%s{0} = add(%s{1}, %a2_{0})\n", i, i - 1);
  return {fmt::format("mixed {} {}", op, width), KernelKind::Map,
          fmt::format("graph g({}) {{\n{} return %s{} as \"y\"\n}}", inputs_text(dtype, width, "n"),
                      body, width - 1)};
}

// A chain of one operator after the other.
Sample chained(const std::string& dtype, const std::string& op, int length) {
  std::string body = "%v0 = add(%x0, %x1)\n";
  for (int i = 1; i <= length; ++i) {
    body += fmt::format("%u{0} = {2}(%v{1})\n%v{0} = add(%u{0}, %x{3})\n", i, i - 1, op, i % 3);
  }
  return {fmt::format("chained {} {}", op, length), KernelKind::Map,
          fmt::format("graph g({}) {{\n{} return %v{} as \"y\"\n}}", inputs_text(dtype, 3, "n"),
                      body, length)};
}

// Operators that read what came before, of the last `window` values.
Sample random_graph(const std::string& dtype, int nodes, int window) {
  std::mt19937 random(static_cast<unsigned>(nodes * window));
  constexpr const char* kSingles[] = {"neg", "abs", "exp", "tanh", "sigmoid", "erf", "sqrt"};
  constexpr const char* kPairs[] = {"add", "mul", "sub", "max"};
  std::vector<std::string> values = {"%x0", "%x1", "%x2"};
  std::string body;
  const auto pick = [&] {
    const auto first = values.size() - std::min(values.size(), static_cast<std::size_t>(window));
    return values[first + random() % (values.size() - first)];
  };
  for (int i = 0; i < nodes; ++i) {
    const std::string name = fmt::format("%v{}", i);
    body += random() % 3 == 0
                ? fmt::format("{} = {}({})\n", name, kSingles[random() % 7], pick())
                : fmt::format("{} = {}({}, {})\n", name, kPairs[random() % 4], pick(), pick());
    values.push_back(name);
  }
  body += fmt::format("%s0 = add({}, {})\n", values[3], values[4]);
  for (int i = 1; i + 1 < nodes; ++i) {
    body += fmt::format("%s{} = add(%s{}, %v{})\n", i, i - 1, i + 1);
  }
  return {fmt::format("random {} of {}", nodes, window), KernelKind::Map,
          fmt::format("graph g({}) {{\n{} return %s{} as \"y\"\n}}", inputs_text(dtype, 3, "n"),
                      body, nodes - 2)};
}

// Rows: a softmax or a norm with operators before and behind.
Sample rows(const std::string& dtype, const std::string& norm, const std::string& op, int addends) {
  std::string body = "%v0 = neg(%x0)\n";
  for (int i = 1; i <= addends; ++i) body += fmt::format("%v{0} = add(%v{1}, %x{0})\n", i, i - 1);
  body += fmt::format("%o = {}(%v{})\n%n = {}\n%g = {}(%n)\n%y = add(%g, %x0)\n", op, addends, norm,
                      op);
  const std::string constants = fmt::format(
      "%gamma = constant {{value = {0}[768] random 2}}\n"
      "%beta = constant {{value = {0}[768] random 3}}\n",
      dtype);
  return {fmt::format("rows {} {} {}", norm.substr(0, norm.find('(')), op, addends),
          KernelKind::Row,
          fmt::format("graph g({}) {{\n{}{} return %y as \"y\"\n}}",
                      inputs_text(dtype, addends + 1, "n, 768"), constants, body)};
}

// A matmul and behind it operators that read so many further operands.
Sample product(const std::string& dtype, const std::string& op, int operands) {
  std::string body = "%m = matmul(%x0, %w)\n%v0 = " + op + "(%m)\n";
  for (int i = 1; i <= operands; ++i) {
    body += fmt::format("%u{0} = {2}(%x{0})\n%v{0} = mul(%v{1}, %u{0})\n", i, i - 1, op);
  }
  return {fmt::format("product {} {}", op, operands), KernelKind::Contract,
          fmt::format("graph g({}) {{\n%w = constant {{value = {}[256, 256] random 2}}\n{} return "
                      "%v{} as \"y\"\n}}",
                      inputs_text(dtype, operands + 1, "n, 256"), dtype, body, operands)};
}

Sample feed_forward(const std::string& dtype, const std::string& op) {
  return {"feed forward " + op, KernelKind::Chain,
          fmt::format(R"(graph g(%x: {0}[s, 768]) {{
    %wu = constant {{value = {0}[768, 1024] random 2}}
    %bu = constant {{value = {0}[1024] random 3}}
    %wd = constant {{value = {0}[1024, 768] random 4}}
    %gamma = constant {{value = {0}[768] random 6}}
    %beta = constant {{value = {0}[768] random 7}}
    %u = matmul(%x, %wu)
    %ub = add(%u, %bu)
    %h = {1}(%ub)
    %d = matmul(%h, %wd)
    %r = add(%d, %x)
    %y = layer_norm(%r, %gamma, %beta) {{axis = -1, epsilon = 1e-05}}
    return %y as "y"
  }})",
                      dtype, op)};
}

Sample attention(const std::string& dtype, const std::string& cap) {
  return {"attention" + cap, KernelKind::Attention,
          fmt::format("graph g(%q: {0}[b, 4, s, 64], %k: {0}[b, 2, t, 64], %v: {0}[b, 2, t, 64]) "
                      "{{ %y = attention(%q, %k, %v, _, _, _, _) {{scale = 0.3, causal = "
                      "\"none\"{1}}}\n return %y as \"y\" }}",
                      dtype, cap)};
}

// From what needs few registers to far more than there are.
std::vector<Sample> samples(const std::string& dtype, int registers) {
  std::vector<Sample> all;
  // Of halves fewer: they compute in f32 as well.
  const bool is_half = dtype != "f32";
  std::vector<std::string> functions = {"neg", "gelu"};
  if (!is_half) functions.insert(functions.end(), {"exp", "tanh", "log", "sin"});
  for (const std::string& function : functions) {
    for (const int eighths : {1, 4, 8, 12}) {
      all.push_back(mixed(dtype, function, registers * eighths / 8));
    }
    all.push_back(chained(dtype, function, 6));
  }
  for (const int window : {2, 6, 20}) {
    for (const int nodes : {registers, registers * 5 / 2}) {
      all.push_back(random_graph(dtype, nodes, window));
    }
  }
  for (const char* norm :
       {"softmax(%o) {axis = -1}", "rms_norm(%o, %gamma) {axis = -1, epsilon = 1e-06}",
        "layer_norm(%o, %gamma, %beta) {axis = -1, epsilon = 1e-06}"}) {
    for (const char* op : {"neg", "exp", "gelu"}) {
      for (const int addends : is_half ? std::vector{3} : std::vector{0, 8}) {
        all.push_back(rows(dtype, norm, op, addends));
      }
    }
  }
  for (const char* op : {"neg", "gelu"}) {
    for (const int operands : {0, 2}) all.push_back(product(dtype, op, operands));
    all.push_back(feed_forward(dtype, op));
  }
  all.push_back(attention(dtype, ""));
  all.push_back(attention(dtype, ", softcap = 30.0"));
  return all;
}

// What was found of one kernel.
struct Finding {
  std::string name;
  int estimate = 0;  // of vectors alive at once
  cpu::VectorSpills found;

  // Of its instructions, how many move spilled vectors.
  [[nodiscard]] double share() const {
    return static_cast<double>(found.spills) / found.instructions;
  }
};

Finding finding_of(const Sample& sample, const std::string& dtype, const Target& target,
                   cpu::KernelCompiler& compiler) {
  Finding finding;
  finding.name = dtype + " " + sample.name;
  const auto graph = parse_graph(sample.text);
  EXPECT_TRUE(graph) << graph.error().message << sample.text;
  const auto lowered = tile::lower(*graph, sample.kind, {&target, false}, "group");
  EXPECT_TRUE(lowered) << finding.name << ": " << lowered.error().message;
  finding.estimate = tile::estimate_pressure(*lowered, target).vector_registers;
  const auto spills = compiler.vector_spills(lowered->program);
  EXPECT_TRUE(spills) << finding.name << ": " << spills.error().message;
  finding.found = *spills;
  return finding;
}

std::vector<Finding> findings_on(const Target& target) {
  auto compiler = cpu::KernelCompiler::create(target, {});
  EXPECT_TRUE(compiler) << compiler.error().message;
  std::vector<Finding> findings;
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    for (const Sample& sample : samples(dtype, target.vector_registers)) {
      findings.push_back(finding_of(sample, dtype, target, *compiler));
    }
  }
  return findings;
}

std::string text_of(const Finding& finding) {
  return fmt::format("{}: {} vectors, {} of {} instructions spill", finding.name, finding.estimate,
                     finding.found.spills, finding.found.instructions);
}

// Places in the order of size; of equal ones, the middle of theirs.
std::vector<double> ranks(const std::vector<int>& values) {
  std::vector<double> result;
  for (const int value : values) {
    const auto less = std::ranges::count_if(values, [&](int each) { return each < value; });
    const auto equal = std::ranges::count(values, value);
    result.push_back(static_cast<double>(less) + static_cast<double>(equal - 1) / 2);
  }
  return result;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return ab / std::sqrt(aa * bb);
}

// What docs/fusion.md says of the estimate.
class Spills : public ::testing::TestWithParam<std::string> {};

TEST_P(Spills, AreWhatTheEstimateOfPressureSays) {
  // Instructions that spill, of all: so few are no loss, so many are one.
  constexpr double kHardlyAny = 0.04;
  constexpr double kSome = 0.02;
  constexpr double kFarAbove = 1.5;
  constexpr std::ptrdiff_t kOneIn = 10;
  constexpr double kCorrelation = 0.7;
  const auto target = find_target(GetParam());
  ASSERT_TRUE(target) << target.error().message;
  const int registers = target->vector_registers;
  std::ptrdiff_t fitting = 0;
  std::ptrdiff_t far_above = 0;
  std::vector<std::string> surprises;
  std::vector<int> estimates;
  std::vector<int> counts;
  for (const Finding& finding : findings_on(*target)) {
    estimates.push_back(finding.estimate);
    counts.push_back(finding.found.spills);
    if (finding.estimate <= registers) {
      ++fitting;
      if (finding.share() > kHardlyAny) surprises.push_back(text_of(finding));
    } else if (finding.estimate >= kFarAbove * registers) {
      ++far_above;
      EXPECT_GT(finding.share(), kSome) << text_of(finding);
    }
  }
  EXPECT_GE(fitting, 20);
  EXPECT_GE(far_above, 5);
  EXPECT_LE(std::ssize(surprises) * kOneIn, fitting)
      << fmt::format("{}", fmt::join(surprises, "\n"));
  const double ranked = correlation(ranks(estimates), ranks(counts));
  EXPECT_GE(ranked, kCorrelation);
  fmt::print("{}: {} kernels, {} fit, of which {} spill; {} are far above; correlation {:.2f}\n",
             GetParam(), counts.size(), fitting, surprises.size(), far_above, ranked);
}

// Those of 16 and of 32 registers that are here.
std::vector<std::string> vector_targets() {
  std::vector<std::string> targets = offered_targets();
  std::erase_if(targets, [](const std::string& name) {
    return name != "host-avx2" && name != "host-avx512";
  });
  return targets;
}

INSTANTIATE_TEST_SUITE_P(Targets, Spills, ::testing::ValuesIn(vector_targets()));

TEST(VectorSpillCount, CountsVectorsThatGoToTheStackAndBack) {
  const std::string text =
      "\t.text\n"
      "k:                                      # @k\n"
      "# %bb.0:\n"
      "\tsubq\t$24, %rsp\n"
      "\tmovq\t%rcx, -8(%rsp)                   # 8-byte Spill\n"
      "\tkmovw\t%k1, -2(%rsp)                   # 2-byte Spill\n"
      ".LBB0_1:                                # =>This Inner Loop Header: Depth=1\n"
      "\tvmovups\t%ymm0, -48(%rsp)              # 32-byte Spill\n"
      "\tvaddps\t-48(%rsp), %ymm1, %ymm1        # 32-byte Folded Reload\n"
      "\tvmovaps\t.LCPI0_1(%rip), %ymm2         # ymm2 = [1.0E+0,1.0E+0]\n"
      "\tvmovaps\t-64(%rsp), %xmm3              # 16-byte Reload\n"
      "\tjne\t.LBB0_1\n";
  const cpu::VectorSpills spills = cpu::count_vector_spills(text);
  EXPECT_EQ(spills.spills, 3);
  EXPECT_EQ(spills.instructions, 8);
}

}  // namespace
}  // namespace opweld::testing
