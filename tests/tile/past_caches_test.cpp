// Stores that go past the caches, of outputs that these do not hold.
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

constexpr const char* kChain = R"(graph g(%x: f32[a, n], %b: f32[n]) {
  %y = add(%x, %b)
  %z = tanh(%y)
  return %z as "z"
})";
constexpr const char* kNorm = R"(graph g(%x: f32[a, n], %r: f32[a, n], %s: f32[n]) {
  %h = add(%x, %r)
  %y = rms_norm(%h, %s) {axis = -1, epsilon = 1e-05}
  return %h as "h", %y as "y"
})";

// One core with a cache of that size in bytes, below it another as large.
Expected<Target> with_caches(const std::string& name, std::int64_t bytes) {
  Expected<Target> target = find_target(name);
  if (!target) return target;
  target->cores = 1;
  target->l2_bytes = bytes;
  target->l3_bytes = bytes;
  return target;
}

TEST(PastCaches, OutputsOfFreeSizesAskForTheirSize) {
  const GroupRunner group(parse_graph(kChain), KernelKind::Map, with_caches("host", 1 << 20));
  EXPECT_NE(group.program_text().find("past caches where 1048576 <= "), std::string::npos)
      << group.program_text();
}

TEST(PastCaches, KnownSizesAreDecided) {
  const auto text_of = [](int rows) {
    const std::string text = fmt::format(R"(graph g(%x: f32[{}, 1024]) {{
      %y = tanh(%x)
      return %y as "y"
    }})",
                                         rows);
    return GroupRunner(parse_graph(text), KernelKind::Map, with_caches("host", 1 << 20))
        .program_text();
  };
  EXPECT_NE(text_of(256).find("past caches where true"), std::string::npos) << text_of(256);
  EXPECT_NE(text_of(256).find("prefetch x0["), std::string::npos) << text_of(256);
  EXPECT_EQ(text_of(255).find("past caches"), std::string::npos) << text_of(255);
  EXPECT_EQ(text_of(255).find("prefetch"), std::string::npos) << text_of(255);
}

// Rows of all lengths: most begin in the middle of a vector, where no such store may be.
TEST(PastCaches, RowsBeginAnywhere) {
  for (const char* target : {"host", "host-avx2", "host-generic"}) {
    const GroupRunner chain(parse_graph(kChain), KernelKind::Map, with_caches(target, 1));
    const GroupRunner norm(parse_graph(kNorm), KernelKind::Row, with_caches(target, 1));
    for (const std::int64_t n : kLengths) {
      chain.check({{"a", 5}, {"n", n}});
      norm.check({{"a", 5}, {"n", n}});
    }
    chain.check({{"a", 0}, {"n", 16}});
    chain.check({{"a", 3}, {"n", 0}});
  }
}

TEST(PastCaches, EveryDType) {
  for (const char* dtype : {"f64", "f32", "f16", "bf16", "i64", "i8"}) {
    for (const char* target : {"host", "host-avx2", "host-generic"}) {
      const GroupRunner group(parse_graph(fmt::format(R"(graph g(%x: {0}[a, n], %y: {0}[a, n]) {{
            %z = mul(%x, %y)
            return %z as "z"
          }})",
                                                      dtype)),
                              KernelKind::Map, with_caches(target, 1));
      for (const std::int64_t n : {3, 64, 65, 640}) group.check({{"a", 5}, {"n", n}});
    }
  }
}

// Where neighbours in a vector are not neighbours in the output.
TEST(PastCaches, OtherPlacesAreStoredAsEver) {
  const GroupRunner group(parse_graph(R"(graph g(%x: f32[a, n]) {
    %y = tanh(%x)
    %t = transpose(%y) {permutation = [1, 0]}
    return %t as "t"
  })"),
                          KernelKind::Map, with_caches("host", 1));
  for (const std::int64_t n : kLengths) group.check({{"a", 3}, {"n", n}});
}

}  // namespace
}  // namespace opweld::testing
