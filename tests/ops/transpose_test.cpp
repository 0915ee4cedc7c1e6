#include "ops/run_op.h"

namespace opweld {
namespace {

void expect_transpose(const Sizes& x, const Ints& permutation, const Sizes& sizes,
                      const std::vector<int>& sources) {
  expect_move({"transpose", {x}, {}, {{"permutation", permutation}}, sizes, sources});
}

TEST(Transpose, MovesAxes) {
  expect_transpose({2, 3}, {1, 0}, {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_transpose({2, 3, 4}, {2, 0, 1}, {4, 2, 3}, {0, 4, 8,  12, 16, 20, 1, 5, 9,  13, 17, 21,
                                                     2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23});
  expect_transpose(
      {2, 1, 3, 2, 2}, {4, 1, 3, 0, 2}, {2, 1, 2, 2, 3},
      {0, 4, 8, 12, 16, 20, 2, 6, 10, 14, 18, 22, 1, 5, 9, 13, 17, 21, 3, 7, 11, 15, 19, 23});
}

TEST(Transpose, ScalarsVectorsAndEmptyTensors) {
  expect_transpose({}, {}, {}, {0});
  expect_transpose({3}, {0}, {3}, {0, 1, 2});
  expect_transpose({2, 0, 3}, {2, 1, 0}, {3, 0, 2}, {});
}

TEST(Transpose, RefusesWhatIsNoPermutation) {
  const Tensor x = floats({2, 3}, {0, 1, 2, 3, 4, 5});
  expect_error(run_op("transpose", {x}, {{"permutation", Ints{0}}}), "1 entries, x has rank 2");
  expect_error(run_op("transpose", {x}, {{"permutation", Ints{1, 1}}}), "names axis 1 twice");
  expect_error(run_op("transpose", {x}, {{"permutation", Ints{0, 2}}}), "axis 2 is out of range");
  expect_error(run_op("transpose", {x}, {{"permutation", Ints{0, -1}}}), "axis -1 is out of range");
}

}  // namespace
}  // namespace opweld
