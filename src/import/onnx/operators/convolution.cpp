// Conv over any number of spatial axes, as a matrix product of windows and filters.
//
//   windows [N, (G,) P, C/G * K] . filters [(G,) C/G * K, M/G]  ->  [N, (G,) P, M/G]  ->  y [N, M,
//   ...]
//
// P counts the windows of an image and K the elements of a window of one channel. Windows that lie
// side by side (the patches of an embedding: kernel and stride are equal) are a reshape; others are
// looked up at positions that are arithmetic on sizes. Either is an index map, which the product
// absorbs as it reads its rows; where it is not, the account has the kernel that writes the
// windows.
#include <algorithm>
#include <numeric>

#include "import/onnx/operators/table.h"
#include "ops/infer_helpers.h"

namespace opweld {
namespace {

// Along one spatial axis.
struct WindowAxis {
  Dim size;  // of x
  Dim kernel;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  Dim before = 0;  // zeros added
  Dim after = 0;
  Dim count = 0;  // of windows

  // From the first element of a window to its last.
  [[nodiscard]] Dim extent() const { return (kernel - 1) * dilation + 1; }
  [[nodiscard]] Dim padded() const { return before + size + after; }
  [[nodiscard]] bool is_padded() const { return before != Dim(0) || after != Dim(0); }
  // Whether each window begins where the one before it ends.
  [[nodiscard]] bool is_side_by_side() const {
    return kernel == Dim(stride) && (dilation == 1 || stride == 1);
  }
  [[nodiscard]] bool is_single() const { return kernel == Dim(1); }
};

struct Convolution {
  std::vector<WindowAxis> axes;
  std::int64_t groups = 1;
  Dim channels_each;  // of x, for one group
  Dim filters_each;   // of y, likewise
};

// A list with an element for each spatial axis, at least `least`; all `otherwise` where absent.
Expected<Ints> for_each_axis(NodeContext& c, std::string_view name, std::size_t count,
                             std::int64_t otherwise, std::int64_t least) {
  const Ints values = c.integers_attribute(name).value_or(Ints(count, otherwise));
  if (values.size() != count) {
    return fail("attribute '{}' has {} elements, and there should be {}", name, values.size(),
                count);
  }
  for (const std::int64_t value : values) {
    if (value < least) {
      return fail("attribute '{}' must not be below {}, but an element of it is {}", name, least,
                  value);
    }
  }
  return values;
}

// The windows' kernels, strides and dilations.
Expected<std::vector<WindowAxis>> window_axes(NodeContext& c) {
  const Shape& x = c.operand(0)->shape();
  const Shape& w = c.operand(1)->shape();
  const std::size_t count = x.size() - 2;
  OPWELD_TRY(const Ints strides, for_each_axis(c, "strides", count, 1, 1));
  OPWELD_TRY(const Ints dilations, for_each_axis(c, "dilations", count, 1, 1));
  std::vector<WindowAxis> axes(count);
  for (std::size_t i = 0; i < count; ++i) {
    axes[i] = {x[i + 2], w[i + 2], strides[i], dilations[i]};
  }
  if (const auto stated = c.integers_attribute("kernel_shape")) {
    if (stated->size() != count) {
      return fail("attribute 'kernel_shape' has {} elements, and there should be {}",
                  stated->size(), count);
    }
    for (std::size_t i = 0; i < count; ++i) {
      OPWELD_TRY(axes[i].kernel,
                 unify_sizes(axes[i].kernel, (*stated)[i],
                             fmt::format("axis {} of 'w' and 'kernel_shape'", i + 2), nullptr));
    }
  }
  return axes;
}

// As many windows as there are strides, with half of what they reach beyond x at either end.
void pad_to_same(WindowAxis& axis, bool more_before) {
  axis.count = ceil_div(axis.size, axis.stride);
  const Dim added = max((axis.count - 1) * axis.stride + axis.extent() - axis.size, Dim(0));
  const Dim half = floor_div(added, 2);
  axis.before = more_before ? added - half : half;
  axis.after = added - axis.before;
}

Status add_padding(NodeContext& c, std::vector<WindowAxis>& axes) {
  const std::string mode = c.text("auto_pad", "NOTSET");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    for (WindowAxis& axis : axes) pad_to_same(axis, mode == "SAME_LOWER");
    return {};
  }
  if (mode != "NOTSET" && mode != "VALID") {
    return fail("auto_pad '{}' is none of NOTSET, VALID, SAME_UPPER and SAME_LOWER", mode);
  }
  if (mode == "NOTSET") {
    OPWELD_TRY(const Ints pads, for_each_axis(c, "pads", 2 * axes.size(), 0, 0));
    for (std::size_t i = 0; i < axes.size(); ++i) {
      axes[i].before = pads[i];
      axes[i].after = pads[axes.size() + i];
    }
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    WindowAxis& axis = axes[i];
    axis.count = floor_div(axis.padded() - axis.extent(), axis.stride) + 1;
    if (axis.count.upper_bound() < 0) {
      return fail("a window of {} elements is longer than axis {} of x, which has {} with padding",
                  axis.extent(), i + 2, axis.padded());
    }
  }
  return {};
}

Status check_agreement(NodeContext& c, const Dim& a, const Dim& b, std::string_view what) {
  std::vector<SizeAssumption> assumptions;
  OPWELD_CHECK(unify_sizes(a, b, what, &assumptions));
  for (SizeAssumption& each : assumptions) {
    c.builder().graph().assume_equal(each.left, each.right, each.reason);
  }
  return {};
}

Expected<Convolution> convolution_of(NodeContext& c) {
  const Shape& x = c.operand(0)->shape();
  const Shape& w = c.operand(1)->shape();
  if (x.size() < 3) return fail("wants x of rank 3 or more, it has rank {}", x.size());
  if (w.size() != x.size()) return fail("x has rank {}, but w has rank {}", x.size(), w.size());
  Convolution found;
  found.groups = c.integer("group", 1);
  if (found.groups < 1) return fail("attribute 'group' is {}", found.groups);
  found.channels_each = w[1];
  found.filters_each = floor_div(w[0], found.groups);
  OPWELD_CHECK(check_agreement(c, x[1], w[1] * found.groups,
                               "the channels of x and those of w in all groups"));
  OPWELD_CHECK(check_agreement(c, w[0], found.filters_each * found.groups,
                               "the filters of w and those of equal groups"));
  if (c.has(2)) {
    if (c.operand(2)->rank() != 1) {
      return fail("wants a bias of rank 1, it has rank {}", c.operand(2)->rank());
    }
    OPWELD_CHECK(check_agreement(c, c.operand(2)->shape()[0], w[0],
                                 "the elements of the bias and the filters of w"));
  }
  OPWELD_TRY(found.axes, window_axes(c));
  OPWELD_CHECK(add_padding(c, found.axes));
  return found;
}

Value* padded(Builder& b, Value* x, const std::vector<WindowAxis>& axes) {
  if (std::ranges::none_of(axes, &WindowAxis::is_padded)) return x;
  Shape before(2, 0);
  Shape after(2, 0);
  for (const WindowAxis& axis : axes) {
    before.push_back(axis.before);
    after.push_back(axis.after);
  }
  return b.op("pad", {x},
              {{"before", std::move(before)},
               {"after", std::move(after)},
               {"mode", std::string("constant")}});
}

// `count` elements of axis `at`, `step` apart.
Value* every(Builder& b, Value* x, int at, const Dim& count, std::int64_t step) {
  Shape starts(x->shape().size(), 0);
  Shape sizes = x->shape();
  Ints steps(x->shape().size(), 1);
  sizes[static_cast<std::size_t>(at)] = count;
  steps[static_cast<std::size_t>(at)] = step;
  return b.op("slice", {x},
              {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", steps}});
}

// i64[count, kernel]: where the elements of windows lie.
Value* positions(Builder& b, const WindowAxis& axis) {
  const auto counted = [&](std::int64_t along, std::int64_t factor) {
    Value* count =
        b.op("iota", {},
             {{"shape", Shape{axis.count, axis.kernel}}, {"axis", along}, {"dtype", DType::I64}});
    if (factor == 1) return count;
    return b.binary("mul", count, b.scalar(static_cast<double>(factor), DType::I64));
  };
  return b.binary("add", counted(0, axis.stride), counted(1, axis.dilation));
}

// Axis `at` of x, cut into windows: [..., count, kernel, ...].
Value* in_windows(Builder& b, Value* x, int at, const WindowAxis& axis) {
  if (x == nullptr) return nullptr;
  if (!axis.is_side_by_side() && !axis.is_single()) {
    return b.op("gather", {x, positions(b, axis)}, {{"axis", std::int64_t{at}}});
  }
  const std::int64_t step = axis.is_side_by_side() ? 1 : axis.stride;
  const Dim used = axis.count * axis.kernel;
  if (step != 1 || used != axis.padded()) x = every(b, x, at, used, step);
  if (x == nullptr) return nullptr;
  Shape shape = x->shape();
  shape[static_cast<std::size_t>(at)] = axis.count;
  shape.insert(shape.begin() + at + 1, axis.kernel);
  return b.reshape(x, std::move(shape));
}

// x [N, C, ...] as [N, (G,) P, C/G * K].
Value* windows_of(Builder& b, Value* x, const Convolution& of) {
  const Dim batch = x->shape()[0];
  x = padded(b, x, of.axes);
  for (std::size_t i = of.axes.size(); i-- > 0;) {
    x = in_windows(b, x, static_cast<int>(i) + 2, of.axes[i]);
  }
  if (x == nullptr) return nullptr;
  // [N, G, C/G, count, kernel, count, kernel ...]: windows first, then what is in them.
  Shape apart = x->shape();
  apart[1] = of.channels_each;
  apart.insert(apart.begin() + 1, of.groups);
  Ints order{0, 1};
  const auto count = static_cast<std::int64_t>(of.axes.size());
  for (std::int64_t i = 0; i < count; ++i) order.push_back(3 + 2 * i);
  order.push_back(2);
  for (std::int64_t i = 0; i < count; ++i) order.push_back(4 + 2 * i);
  Dim windows = 1;
  Dim elements = of.channels_each;
  for (const WindowAxis& axis : of.axes) {
    windows *= axis.count;
    elements *= axis.kernel;
  }
  Value* sorted = b.transpose(b.reshape(x, std::move(apart)), std::move(order));
  return b.reshape(sorted, of.groups == 1 ? Shape{batch, windows, elements}
                                          : Shape{batch, of.groups, windows, elements});
}

// w [M, C/G, ...] as [(G,) C/G * K, M/G].
Value* filters_of(Builder& b, Value* w, const Convolution& of) {
  const Dim elements = product(w->shape(), 1, w->shape().size());
  if (of.groups == 1) return b.transpose(b.reshape(w, {of.filters_each, elements}), {1, 0});
  return b.transpose(b.reshape(w, {of.groups, of.filters_each, elements}), {0, 2, 1});
}

Expected<Values> conv(NodeContext& c) {
  Builder& b = c.builder();
  OPWELD_TRY(const Convolution of, convolution_of(c));
  Value* y = b.binary("matmul", windows_of(b, c.operand(0), of), filters_of(b, c.operand(1), of));
  const bool grouped = of.groups != 1;
  if (c.has(2)) {
    Value* bias = c.operand(2);
    if (grouped) bias = b.reshape(bias, {of.groups, 1, of.filters_each});
    y = b.binary("add", y, bias);
  }
  y = b.transpose(y, grouped ? Ints{0, 1, 3, 2} : Ints{0, 2, 1});
  Shape shape{c.operand(0)->shape()[0], of.filters_each * of.groups};
  for (const WindowAxis& axis : of.axes) shape.push_back(axis.count);
  return one(b.reshape(y, std::move(shape)));
}

constexpr OperatorRule kRules[] = {{"Conv", conv, "", 2, 3}};

}  // namespace

std::span<const OperatorRule> convolution_operators() {
  return kRules;
}

}  // namespace opweld
