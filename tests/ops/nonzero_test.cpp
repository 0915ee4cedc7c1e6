#include <gmock/gmock.h>

#include "ops/builder.h"
#include "ops/reference.h"
#include "ops/run_op.h"

namespace opweld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Expected<std::vector<Tensor>> places(std::int64_t count) {
  const Graph graph = parse_graph(
                          "graph g(%x: f32[2, 3], %n: f32[n]) {\n"
                          " %y = nonzero(%x) {count = <n>}\n return %y as \"y\"\n}")
                          .value();
  Tensor x = Tensor::allocate(DType::F32, {2, 3}).value();
  x.set_double(1, 1.5);
  x.set_double(3, -1);
  x.set_double(5, 0.25);
  return evaluate(graph, std::vector<Tensor>{x, Tensor::allocate(DType::F32, {count}).value()});
}

TEST(Nonzero, AnAxisInEachRow) {
  const auto found = places(3);
  ASSERT_TRUE(found) << found.error().message;
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < 6; ++i) indices.push_back((*found)[0].get_int(i));
  EXPECT_THAT(indices, ElementsAre(0, 1, 1, 1, 0, 2));
}

TEST(Nonzero, AnotherNumberOfThemIsAnError) {
  for (const std::int64_t count : {0, 2, 4}) {
    const auto found = places(count);
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().message, HasSubstr("3 elements are not zero"));
  }
}

}  // namespace
}  // namespace opweld
