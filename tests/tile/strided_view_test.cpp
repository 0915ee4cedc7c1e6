#include "tile/strided_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "ops/builder.h"

namespace opweld::tile {
namespace {

using Places = std::vector<std::int64_t>;

// The oracle: a view as the list of the places of all its elements, in row-major order.
struct ExplicitView {
  Sizes sizes;
  Places places;
};

std::int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// The index with this row-major number.
Sizes index_of(std::int64_t number, const Sizes& sizes) {
  Sizes index(sizes.size());
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    index[axis] = number % sizes[axis];
    number /= sizes[axis];
  }
  return index;
}

std::int64_t number_of(const Sizes& index, const Sizes& sizes) {
  std::int64_t number = 0;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis)
    number = number * sizes[axis] + index[axis];
  return number;
}

// A view over `sizes` whose element at an index is the element of `source` at source_index(index).
template <typename SourceIndex>
ExplicitView rearranged(const ExplicitView& source, const Sizes& sizes,
                        const SourceIndex& source_index) {
  ExplicitView result{sizes, {}};
  for (std::int64_t number = 0; number < product(sizes); ++number) {
    const Sizes index = source_index(index_of(number, sizes));
    result.places.push_back(
        source.places[static_cast<std::size_t>(number_of(index, source.sizes))]);
  }
  return result;
}

Sizes evaluated(const Shape& shape, const Bindings& bindings) {
  const auto sizes = evaluate(shape, bindings);
  EXPECT_TRUE(sizes.has_value());
  return sizes.value_or(Sizes{});
}

ExplicitView enumerated(const StridedView& view, const Bindings& bindings) {
  const Sizes sizes = evaluated(view.shape, bindings);
  const Sizes strides = evaluated(view.strides, bindings);
  ExplicitView result{sizes, {}};
  for (std::int64_t number = 0; number < product(sizes); ++number) {
    const Sizes index = index_of(number, sizes);
    result.places.push_back(std::inner_product(index.begin(), index.end(), strides.begin(),
                                               view.offset.evaluate(bindings).value()));
  }
  return result;
}

// Whether any strides at all describe the view: those between neighbours at the origin must then.
bool has_strides(const ExplicitView& view) {
  if (view.places.empty()) return true;
  Sizes strides(view.sizes.size(), 0);
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    if (view.sizes[axis] == 1) continue;
    Sizes neighbour(strides.size(), 0);
    neighbour[axis] = 1;
    strides[axis] =
        view.places[static_cast<std::size_t>(number_of(neighbour, view.sizes))] - view.places[0];
  }
  for (std::int64_t number = 0; number < product(view.sizes); ++number) {
    const Sizes index = index_of(number, view.sizes);
    if (view.places[static_cast<std::size_t>(number)] !=
        std::inner_product(index.begin(), index.end(), strides.begin(), view.places[0])) {
      return false;
    }
  }
  return true;
}

Shape constants(const Sizes& sizes) {
  return {sizes.begin(), sizes.end()};
}

// Random views: a strided one and the oracle, taken through the same steps.
class Walk {
 public:
  Walk(unsigned seed, bool with_empty) : random_(seed), with_empty_(with_empty) {
    Sizes sizes;
    const int rank = below(5);
    for (int axis = 0; axis < rank; ++axis) sizes.push_back(random_size());
    explicit_.sizes = sizes;
    explicit_.places.resize(static_cast<std::size_t>(product(sizes)));
    std::iota(explicit_.places.begin(), explicit_.places.end(), 0);
    strided_ = StridedView::contiguous(constants(sizes));
  }

  // False when the walk ends: no strides describe the next view, and that is so.
  bool step() {
    switch (below(4)) {
      case 0:
        transpose();
        return true;
      case 1:
        slice();
        return true;
      case 2:
        expand();
        return true;
      default:
        return reshape();
    }
  }

  void check() const {
    const ExplicitView actual = enumerated(strided_, {});
    EXPECT_EQ(actual.sizes, explicit_.sizes);
    EXPECT_EQ(actual.places, explicit_.places);
  }

 private:
  int below(int bound) { return std::uniform_int_distribution<>(0, bound - 1)(random_); }
  std::int64_t random_size() { return with_empty_ ? below(4) : below(4) + 1; }

  void transpose() {
    Ints permutation(explicit_.sizes.size());
    std::iota(permutation.begin(), permutation.end(), 0);
    std::shuffle(permutation.begin(), permutation.end(), random_);
    Sizes sizes;
    for (const auto axis : permutation) {
      sizes.push_back(explicit_.sizes[static_cast<std::size_t>(axis)]);
    }
    explicit_ = rearranged(explicit_, sizes, [&](const Sizes& index) {
      Sizes source(index.size());
      for (std::size_t i = 0; i < index.size(); ++i) {
        source[static_cast<std::size_t>(permutation[i])] = index[i];
      }
      return source;
    });
    strided_ = strided_.transpose(permutation);
  }

  void slice() {
    Sizes starts;
    Sizes sizes;
    Ints steps;
    for (const std::int64_t extent : explicit_.sizes) {
      if (extent == 0) {
        starts.push_back(0);
        sizes.push_back(0);
        steps.push_back(1);
        continue;
      }
      const auto first = below(static_cast<int>(extent));
      const auto last = below(static_cast<int>(extent));
      const int step = (below(2) + 1) * (last < first ? -1 : 1);
      starts.push_back(first);
      sizes.push_back((last - first) / step + 1);
      steps.push_back(step);
    }
    explicit_ = rearranged(explicit_, sizes, [&](Sizes index) {
      for (std::size_t i = 0; i < index.size(); ++i) index[i] = starts[i] + index[i] * steps[i];
      return index;
    });
    strided_ = strided_.slice(constants(starts), constants(sizes), steps);
  }

  void expand() {
    Sizes sizes = explicit_.sizes;
    if (product(sizes) > 200 || sizes.size() > 5) return;
    for (std::int64_t& size : sizes) {
      if (size == 1) size = random_size();
    }
    const std::size_t added = below(2);
    for (std::size_t i = 0; i < added; ++i) sizes.insert(sizes.begin(), random_size());
    const Sizes before = explicit_.sizes;
    explicit_ = rearranged(explicit_, sizes, [&](const Sizes& index) {
      Sizes source(index.begin() + static_cast<std::ptrdiff_t>(added), index.end());
      for (std::size_t i = 0; i < source.size(); ++i) {
        if (before[i] == 1) source[i] = 0;
      }
      return source;
    });
    strided_ = strided_.expand(constants(sizes));
  }

  // A random factorisation of the number of elements.
  Sizes random_sizes(std::int64_t count) {
    if (count == 0) return {random_size(), 0, random_size()};
    Sizes sizes;
    while (count > 1) {
      std::vector<std::int64_t> divisors;
      for (std::int64_t divisor = 1; divisor <= count; ++divisor) {
        if (count % divisor == 0) divisors.push_back(divisor);
      }
      sizes.push_back(divisors[static_cast<std::size_t>(below(static_cast<int>(divisors.size())))]);
      count /= sizes.back();
    }
    return sizes;
  }

  bool reshape() {
    explicit_.sizes = random_sizes(product(explicit_.sizes));
    const auto reshaped = strided_.reshape(constants(explicit_.sizes));
    EXPECT_EQ(reshaped.has_value(), has_strides(explicit_));
    if (!reshaped) return false;
    strided_ = *reshaped;
    return true;
  }

  std::mt19937 random_;
  bool with_empty_;
  ExplicitView explicit_;
  StridedView strided_;
};

TEST(StridedView, AgreesWithEnumerationOnRandomWalks) {
  int longest = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Walk walk(seed, seed % 5 == 0);
    int steps = 0;
    while (steps < 6 && walk.step()) {
      walk.check();
      ++steps;
    }
    longest = std::max(longest, steps);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_EQ(longest, 6);
}

class SymbolicView : public testing::Test {
 protected:
  Dim b_ = Dim::symbol("b");
  Dim s_ = Dim::symbol("s");
};

TEST_F(SymbolicView, HeadsSplitFromAProjection) {
  // [b, s, 384] -> [b, s, 12, 32] -> [b, 12, s, 32] -> rows of [b*12, s, 32].
  const auto heads = StridedView::contiguous({b_, s_, 384}).reshape({b_, s_, 12, 32});
  ASSERT_TRUE(heads.has_value());
  EXPECT_EQ(heads->strides, (Shape{s_ * 384, 384, 32, 1}));
  EXPECT_TRUE(heads->is_contiguous());
  const StridedView turned = heads->transpose({0, 2, 1, 3});
  EXPECT_EQ(turned.strides, (Shape{s_ * 384, 32, 384, 1}));
  EXPECT_FALSE(turned.is_contiguous());
  // Batch and head do not merge: b steps by s*384, 12 heads by 32 end at 384.
  EXPECT_EQ(turned.reshape({b_ * 12, s_, 32}), std::nullopt);
  const auto split = turned.reshape({b_, 3, 4, s_, 2, 16});
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->strides, (Shape{s_ * 384, 128, 32, 384, 16, 1}));
}

TEST_F(SymbolicView, ContiguousShapesReshapeToContiguousOnes) {
  const Shape flat{b_ * s_, 384};
  EXPECT_EQ(StridedView::contiguous({b_, s_, 12, 32}).reshape(flat), StridedView::contiguous(flat));
  const Shape with_units{1, b_, 1, s_, 384, 1};
  EXPECT_EQ(StridedView::contiguous(flat).reshape(with_units), StridedView::contiguous(with_units));
}

TEST_F(SymbolicView, UnitAxesComeAndGoAnywhere) {
  const StridedView turned = StridedView::contiguous({s_, 32}).transpose({1, 0});
  const auto spread = turned.reshape({1, 32, 1, s_, 1});
  ASSERT_TRUE(spread.has_value());
  EXPECT_EQ(spread->strides[1], 1);
  EXPECT_EQ(spread->strides[3], 32);
  const auto back = spread->reshape({32, s_});
  EXPECT_EQ(back, turned);
}

TEST_F(SymbolicView, SlicesKeepStridesAndMoveTheOffset) {
  const StridedView x = StridedView::contiguous({b_, s_, 64});
  const StridedView second_half = x.slice({0, 0, 32}, {b_, s_, 32}, {1, 1, 1});
  EXPECT_EQ(second_half.offset, 32);
  EXPECT_EQ(second_half.strides, (Shape{s_ * 64, 64, 1}));
  // b and s still merge; the rows are apart.
  const auto rows = second_half.reshape({b_ * s_, 32});
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->strides, (Shape{64, 1}));
  EXPECT_EQ(second_half.reshape({b_ * s_ * 32}), std::nullopt);
  const StridedView last = x.slice({0, s_ - 1, 0}, {b_, s_, 64}, {1, -1, 1});
  EXPECT_EQ(last.offset, (s_ - 1) * 64);
  EXPECT_EQ(last.strides, (Shape{s_ * 64, -64, 1}));
}

TEST_F(SymbolicView, RepeatedHeadsOfGroupedQueries) {
  // [b, 4, s, 32] -> [b, 4, 1, s, 32] -> [b, 4, 8, s, 32]: 32 heads do not merge over the repeat.
  const auto grouped = StridedView::contiguous({b_, 4, s_, 32}).reshape({b_, 4, 1, s_, 32});
  ASSERT_TRUE(grouped.has_value());
  const StridedView repeated = grouped->expand({b_, 4, 8, s_, 32});
  EXPECT_EQ(repeated.strides, (Shape{4 * s_ * 32, s_ * 32, 0, 32, 1}));
  EXPECT_EQ(repeated.reshape({b_, 32, s_, 32}), std::nullopt);
  // Two repeats side by side do.
  const StridedView scalar = StridedView::contiguous({}).expand({b_, s_});
  const auto merged = scalar.reshape({b_ * s_});
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(merged->strides, (Shape{0}));
}

TEST_F(SymbolicView, EnumeratesRightForEveryLength) {
  const auto heads = StridedView::contiguous({b_, s_, 24}).reshape({b_, s_, 6, 4});
  ASSERT_TRUE(heads.has_value());
  const StridedView turned = heads->transpose({0, 2, 1, 3});
  for (const std::int64_t batch : {1, 2, 3}) {
    for (const std::int64_t length : {0, 1, 3, 7, 8}) {
      const ExplicitView actual = enumerated(turned, {{"b", batch}, {"s", length}});
      Places expected;
      for (std::int64_t i = 0; i < batch; ++i) {
        for (std::int64_t h = 0; h < 6; ++h) {
          for (std::int64_t t = 0; t < length; ++t) {
            for (std::int64_t d = 0; d < 4; ++d) {
              expected.push_back((i * length + t) * 24 + h * 4 + d);
            }
          }
        }
      }
      EXPECT_EQ(actual.places, expected);
    }
  }
}

class ViewsOfAGraph : public SymbolicView {
 protected:
  Graph graph_;
  Builder builder_{graph_};
};

TEST_F(ViewsOfAGraph, ViewOfFollowsTheChain) {
  Value* x = graph_.add_input("x", {DType::F32, {b_, s_, 384}});
  Value* heads = builder_.transpose(builder_.reshape(x, {b_, s_, 12, 32}), {0, 2, 3, 1});
  Value* first = builder_.op("slice", {heads},
                             {{"starts", Shape{0, 1, 0, 0}},
                              {"sizes", Shape{b_, 1, 32, s_}},
                              {"steps", Ints{1, 1, 1, 1}}});
  Value* repeated = builder_.expand(first, {b_, 5, 32, s_});
  ASSERT_TRUE(builder_.status().has_value());
  const auto view = view_of(repeated, x);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->offset, 32);
  EXPECT_EQ(view->strides, (Shape{s_ * 384, 0, 1, 384}));
  EXPECT_EQ(view_of(x, x), StridedView::contiguous({b_, s_, 384}));
}

TEST_F(ViewsOfAGraph, ViewOfRefusesOtherOperatorsAndCopies) {
  Value* x = graph_.add_input("x", {DType::F32, {b_, s_, 384}});
  Value* y = graph_.add_input("y", {DType::F32, {b_, s_, 384}});
  Value* turned = builder_.transpose(x, {0, 2, 1});
  Value* joined = builder_.op("concat", {x}, {{"axis", std::int64_t{0}}});
  Value* copied = builder_.reshape(turned, {b_, 384 * s_});
  ASSERT_TRUE(builder_.status().has_value());
  EXPECT_EQ(view_of(turned, y), std::nullopt);
  EXPECT_EQ(view_of(joined, x), std::nullopt);
  EXPECT_EQ(view_of(copied, x), std::nullopt);
  EXPECT_EQ(view_of(x, turned), std::nullopt);
}

TEST_F(ViewsOfAGraph, StoreViewOfAttentionsOutput) {
  Value* out = graph_.add_input("out", {DType::F32, {b_, 12, s_, 32}});
  Value* merged = builder_.reshape(builder_.transpose(out, {0, 2, 1, 3}), {b_, s_, 384});
  ASSERT_TRUE(builder_.status().has_value());
  const auto view = store_view(out, merged);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->shape, (Shape{b_, 12, s_, 32}));
  EXPECT_EQ(view->strides, (Shape{s_ * 384, 32, 384, 1}));
  EXPECT_EQ(view->offset, 0);
  EXPECT_EQ(store_view(out, out), StridedView::contiguous({b_, 12, s_, 32}));
}

TEST_F(ViewsOfAGraph, StoreViewRefusesWhatIsNoBijectiveView) {
  Value* x = graph_.add_input("x", {DType::F32, {s_, 1}});
  Value* repeated = builder_.expand(x, {s_, 4});
  Value* part = builder_.op(
      "slice", {x}, {{"starts", Shape{0, 0}}, {"sizes", Shape{s_, 1}}, {"steps", Ints{1, 1}}});
  ASSERT_TRUE(builder_.status().has_value());
  EXPECT_EQ(store_view(x, repeated), std::nullopt);
  EXPECT_EQ(store_view(x, part), std::nullopt);
  // Rows of 6 cut into [2, 3], which a transpose pulls apart: as [s, 6] they have no strides.
  Value* y = graph_.add_input("y", {DType::F32, {s_, 6}});
  Value* apart = builder_.transpose(builder_.reshape(y, {s_, 2, 3}), {2, 0, 1});
  ASSERT_TRUE(builder_.status().has_value());
  EXPECT_EQ(store_view(y, apart), std::nullopt);
}

// Random chains of reshape and transpose: element i of `from` must be element store_view(i) of
// `to`.
TEST(StoreView, AgreesWithEnumerationOnRandomChains) {
  std::mt19937 random(7);
  const std::vector<Shape> shapes = {{2, 3, 4}, {6, 4},    {24},        {2, 12},
                                     {4, 3, 2}, {1, 8, 3}, {2, 2, 2, 3}};
  int found = 0;
  for (int trial = 0; trial < 500; ++trial) {
    Graph graph;
    Builder builder(graph);
    Value* from = graph.add_input("x", {DType::F32, shapes[random() % shapes.size()]});
    Value* to = from;
    ExplicitView explicit_view{evaluated(from->shape(), {}), Places(24)};
    std::iota(explicit_view.places.begin(), explicit_view.places.end(), 0);
    int reshapes = 0;
    int transposes = 0;
    for (int step = 0; step < 4; ++step) {
      if (random() % 2 == 0) {
        ++reshapes;
        to = builder.reshape(to, shapes[random() % shapes.size()]);
        explicit_view.sizes = evaluated(to->shape(), {});
        continue;
      }
      ++transposes;
      Ints permutation(static_cast<std::size_t>(to->rank()));
      std::iota(permutation.begin(), permutation.end(), 0);
      std::shuffle(permutation.begin(), permutation.end(), random);
      to = builder.transpose(to, permutation);
      explicit_view =
          rearranged(explicit_view, evaluated(to->shape(), {}), [&](const Sizes& index) {
            Sizes source(index.size());
            for (std::size_t i = 0; i < index.size(); ++i) {
              source[static_cast<std::size_t>(permutation[i])] = index[i];
            }
            return source;
          });
    }
    ASSERT_TRUE(builder.status().has_value());
    // places[i] is which element of `from` stands at i of `to`; the store goes the other way.
    ExplicitView landing{evaluated(from->shape(), {}), Places(24)};
    for (std::size_t i = 0; i < 24; ++i) {
      landing.places[static_cast<std::size_t>(explicit_view.places[i])] =
          static_cast<std::int64_t>(i);
    }
    const auto view = store_view(from, to);
    if (view) {
      ++found;
      EXPECT_EQ(enumerated(*view, {}).places, landing.places);
    } else {
      // Only a reshape that meets a transpose on the way back can lack strides.
      EXPECT_TRUE(reshapes > 0 && transposes > 0);
    }
  }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace opweld::tile
