// Reductions over any set of axes.
//
// Floats gather in double here and in the compute type in kernels, and are rounded to the dtype at
// the end. Integers wrap to their width. Over no elements a reduction gives its neutral value: 0
// for a sum, 1 for a product, -inf or the least integer for a maximum, NaN for a mean.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "graph/convert.h"
#include "ops/axes.h"
#include "ops/broadcast.h"
#include "ops/composite.h"
#include "ops/families.h"

namespace opweld {
namespace {

Expected<std::vector<TensorType>> infer_reduction(const OpContext& context) {
  const TensorType& x = context.type(0);
  OPWELD_TRY(const auto axes, reduction_axes(context.attributes, x.rank()));
  return std::vector<TensorType>{
      {x.dtype, reduced_shape(x.shape, axes, keeps_dims(context.attributes))}};
}

// ---- what each reduction does; T is double for floats, int64 for integers and bools ----

template <typename T>
struct Steps {
  T (*start)(DType dtype);                                   // gathered over no elements
  T (*join)(T gathered, T x);                                // one element more
  T (*finish)(T gathered, std::int64_t count, DType dtype);  // the result, of `count` elements
};

template <typename T, T value>
T always(DType) {
  return value;
}

template <typename T>
T as_gathered(T gathered, std::int64_t, DType) {
  return gathered;
}

// Sums and products of int64 wrap.
template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_same_v<T, double>) return a + b;
  return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

template <typename T>
T product(T a, T b) {
  if constexpr (std::is_same_v<T, double>) return a * b;
  return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

template <typename T>
T greater(T a, T b) {  // a NaN among floats wins: one in `a` stays, since no b is above it
  if constexpr (std::is_same_v<T, double>) return b > a || std::isnan(b) ? b : a;
  return a < b ? b : a;
}

double greater_number(double a, double b) {  // no `a` is NaN, and none becomes it
  return b > a ? b : a;
}

template <typename T>
T lesser(T a, T b) {
  if constexpr (std::is_same_v<T, double>) return b < a || std::isnan(b) ? b : a;
  return b < a ? b : a;
}

template <typename T>
T least_value(DType dtype) {
  if constexpr (std::is_same_v<T, double>) return -std::numeric_limits<double>::infinity();
  if (dtype == DType::U8) return 0;
  return std::numeric_limits<std::int64_t>::min() >> (64 - 8 * byte_size(dtype));
}

template <typename T>
T greatest_value(DType dtype) {
  if constexpr (std::is_same_v<T, double>) return std::numeric_limits<double>::infinity();
  if (dtype == DType::U8) return std::numeric_limits<std::uint8_t>::max();
  return std::numeric_limits<std::int64_t>::max() >> (64 - 8 * byte_size(dtype));
}

template <typename T>
T mean(T gathered, std::int64_t count, DType dtype) {
  if constexpr (std::is_same_v<T, double>) return gathered / static_cast<double>(count);
  return count == 0 ? 0 : wrap_integer(gathered, dtype) / count;
}

template <typename T>
constexpr Steps<T> kSum{always<T, T{0}>, sum<T>, as_gathered<T>};
template <typename T>
constexpr Steps<T> kMean{always<T, T{0}>, sum<T>, mean<T>};
template <typename T>
constexpr Steps<T> kProd{always<T, T{1}>, product<T>, as_gathered<T>};
template <typename T>
constexpr Steps<T> kMax{least_value<T>, greater<T>, as_gathered<T>};
template <typename T>
constexpr Steps<T> kMin{greatest_value<T>, lesser<T>, as_gathered<T>};
template <typename T>
constexpr Steps<T> kSumSquare{
    always<T, T{0}>, [](T gathered, T x) { return sum(gathered, product(x, x)); }, as_gathered<T>};
template <typename T>
constexpr Steps<T> kL1{always<T, T{0}>,
                       [](T gathered, T x) { return sum(gathered, x < 0 ? product<T>(x, -1) : x); },
                       as_gathered<T>};

constexpr Steps<double> kL2{kSumSquare<double>.start, kSumSquare<double>.join,
                            [](double sum, std::int64_t, DType) { return std::sqrt(sum); }};
constexpr Steps<double> kLogSum{kSum<double>.start, kSum<double>.join,
                                [](double sum, std::int64_t, DType) { return std::log(sum); }};
constexpr Steps<double> kMaxNumber{kMax<double>.start, greater_number, as_gathered<double>};
constexpr Steps<std::int64_t> kAny{always<std::int64_t, 0>, greater<std::int64_t>,
                                   as_gathered<std::int64_t>};
constexpr Steps<std::int64_t> kAll{always<std::int64_t, 1>, lesser<std::int64_t>,
                                   as_gathered<std::int64_t>};

// ---- evaluation ----

// Calls visit(position in x, position in the result) for every element of x.
template <typename Visit>
void for_each_reduced(const EvalContext& context, const Visit& visit) {
  const Sizes& sizes = context.operands[0]->sizes();
  const auto axes = reduction_axes(context.attributes, context.operands[0]->rank());
  const Sizes kept = reduced_sizes(sizes, *axes, true);  // repeats along the reduced axes
  const Sizes* operand = &kept;
  for (BroadcastWalk walk(sizes, {&operand, 1}); !walk.done(); walk.advance()) {
    visit(walk.position(), static_cast<std::size_t>(walk.offsets()[0]));
  }
}

template <typename T>
std::vector<T> gather(const EvalContext& context, T start, T (*join)(T, T),
                      T (Tensor::*get)(std::int64_t) const) {
  const Tensor& x = *context.operands[0];
  std::vector<T> gathered(static_cast<std::size_t>(context.results[0].num_elements()), start);
  for_each_reduced(context, [&](std::int64_t from, std::size_t to) {
    gathered[to] = join(gathered[to], (x.*get)(from));
  });
  return gathered;
}

template <typename T>
Status reduce(const EvalContext& context, const Steps<T>& steps,
              T (Tensor::*get)(std::int64_t) const, void (Tensor::*set)(std::int64_t, T)) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  const auto gathered = gather(context, steps.start(x.dtype()), steps.join, get);
  const std::int64_t results = std::max<std::int64_t>(result.num_elements(), 1);
  const std::int64_t count = x.num_elements() / results;
  for (std::size_t i = 0; i < gathered.size(); ++i) {
    const T value = steps.finish(gathered[i], count, x.dtype());
    (result.*set)(static_cast<std::int64_t>(i), value);
  }
  return {};
}

template <const Steps<double>& steps>
Status evaluate_floats(const EvalContext& context) {
  return reduce(context, steps, &Tensor::get_double, &Tensor::set_double);
}

template <const Steps<std::int64_t>& steps>
Status evaluate_integers(const EvalContext& context) {
  return reduce(context, steps, &Tensor::get_int, &Tensor::set_int);
}

template <const Steps<double>& real, const Steps<std::int64_t>& integer>
Status evaluate_numbers(const EvalContext& context) {
  return is_float(context.operands[0]->dtype()) ? evaluate_floats<real>(context)
                                                : evaluate_integers<integer>(context);
}

// ---- log_sum_exp: log(sum(exp(x - m))) + m, where m is the maximum, or 0 if that is infinite ----

Status evaluate_log_sum_exp(const EvalContext& context) {
  const Tensor& x = *context.operands[0];
  Tensor& result = context.results[0];
  auto shift =
      gather(context, least_value<double>(x.dtype()), greater<double>, &Tensor::get_double);
  for (double& m : shift) m = std::isinf(m) ? 0 : m;
  std::vector<double> sums(shift.size(), 0.0);
  for_each_reduced(context, [&](std::int64_t from, std::size_t to) {
    sums[to] += std::exp(x.get_double(from) - shift[to]);
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    result.set_double(static_cast<std::int64_t>(i), std::log(sums[i]) + shift[i]);
  }
  return {};
}

Expected<std::vector<Value*>> log_sum_exp_body(Graph& graph, const Node& node) {
  Builder builder = body_builder(graph, node);
  const DType dtype = compute_dtype(node.operand(0)->dtype());
  Attributes attributes = node.attributes();
  attributes.set("keepdims", std::int64_t{1});
  Value* x = builder.cast(node.operand(0), dtype);
  // Where an element is NaN, so is the sum.
  Value* maximum = builder.op("reduce_max_number", {x}, attributes);
  Value* infinite = builder.op("is_inf", {maximum});
  Value* shift = builder.op("select", {infinite, builder.scalar(0, dtype), maximum});
  Value* exponentials = builder.op("exp", {builder.binary("sub", x, shift)});
  Value* sums = builder.op("reduce_sum", {exponentials}, attributes);
  Value* result = builder.binary("add", builder.op("log", {sums}), shift);
  result = builder.cast(result, node.result()->dtype());
  if (!keeps_dims(node.attributes())) result = builder.reshape(result, node.result()->shape());
  return finish_body(builder, result);
}

// ---- shape values: reductions of a list of sizes ----

template <Dim (*combine)(const Dim&, const Dim&)>
std::optional<std::vector<Dim>> contents_of_list(const OpContext& context) {
  const Value& x = *context.operands[0];
  if (!x.contents() || x.contents()->empty() || x.rank() != 1) return std::nullopt;
  const auto axes = reduction_axes(context.attributes, 1);
  if (!axes) return std::nullopt;
  if (axes->empty()) return x.contents();
  Dim result = x.contents()->front();
  for (std::size_t i = 1; i < x.contents()->size(); ++i)
    result = combine(result, (*x.contents())[i]);
  if (result.is_overflow()) return std::nullopt;
  return std::vector<Dim>{result};
}

Dim sum_of(const Dim& a, const Dim& b) {
  return a + b;
}

Dim product_of(const Dim& a, const Dim& b) {
  return a * b;
}

// ---- the definitions ----

OpDef reduction_op(std::string_view name, std::string_view summary, DTypeSet dtypes,
                   Status (*evaluate)(const EvalContext&),
                   std::optional<std::vector<Dim>> (*contents)(const OpContext&) = nullptr) {
  return {.name = name,
          .summary = summary,
          .trait = FusionTrait::Reduce,
          .operands = {{"x", dtypes}},
          .attributes = {{"axes", AttributeKind::Ints, false},
                         {"keepdims", AttributeKind::Integer, false}},
          .infer = infer_reduction,
          .contents = contents,
          .evaluate = evaluate};
}

OpDef log_sum_exp_op() {
  OpDef def =
      reduction_op("reduce_log_sum_exp", "log(sum(exp(x))) without overflow: -inf over no elements",
                   kFloats, evaluate_log_sum_exp);
  def.trait = FusionTrait::Composite;
  def.body = log_sum_exp_body;
  return def;
}

}  // namespace

std::span<const OpDef> reduce_ops() {
  using Int = std::int64_t;
  static const OpDef defs[] = {
      reduction_op("reduce_sum", "the sum over `axes` (all where absent)", kNumbers,
                   evaluate_numbers<kSum<double>, kSum<Int>>, contents_of_list<sum_of>),
      reduction_op("reduce_mean", "the sum divided by the count; of integers truncated", kNumbers,
                   evaluate_numbers<kMean<double>, kMean<Int>>),
      reduction_op("reduce_max", "the greatest element; NaN if one is NaN", kNumbers,
                   evaluate_numbers<kMax<double>, kMax<Int>>, contents_of_list<max>),
      reduction_op("reduce_max_number",
                   "the greatest element that is not NaN; -inf if there is none", kFloats,
                   evaluate_floats<kMaxNumber>),
      reduction_op("reduce_min", "the least element; NaN if one is NaN", kNumbers,
                   evaluate_numbers<kMin<double>, kMin<Int>>, contents_of_list<min>),
      reduction_op("reduce_prod", "the product", kNumbers,
                   evaluate_numbers<kProd<double>, kProd<Int>>, contents_of_list<product_of>),
      reduction_op("reduce_sum_square", "the sum of squares", kNumbers,
                   evaluate_numbers<kSumSquare<double>, kSumSquare<Int>>),
      reduction_op("reduce_l1", "the sum of magnitudes", kNumbers,
                   evaluate_numbers<kL1<double>, kL1<Int>>),
      reduction_op("reduce_l2", "the square root of the sum of squares", kFloats,
                   evaluate_floats<kL2>),
      reduction_op("reduce_log_sum", "the logarithm of the sum", kFloats, evaluate_floats<kLogSum>),
      log_sum_exp_op(),
      reduction_op("reduce_any", "whether one element is true", kBool, evaluate_integers<kAny>),
      reduction_op("reduce_all", "whether every element is true", kBool, evaluate_integers<kAll>),
  };
  return defs;
}

}  // namespace opweld
