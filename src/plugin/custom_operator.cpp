#include "plugin/custom_operator.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>

#include "ops/broadcast.h"
#include "ops/infer_helpers.h"
#include "plugin/body.h"
#include "plugin/call.h"
#include "plugin/scalar_formula.h"
#include "plugin/size_formula.h"

namespace opweld {

namespace {

// The compute types of operands, nothing for what is absent.
std::vector<std::optional<DType>> types_of(const OpContext& context, std::size_t count) {
  std::vector<std::optional<DType>> types(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (context.has(static_cast<int>(i))) types[i] = context.operands[i]->dtype();
  }
  return types;
}

// Bodies that stand in bodies; one that stands in itself would go on for ever.
class Nesting {
 public:
  Nesting() { ++depth(); }
  ~Nesting() { --depth(); }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

  static bool is_too_deep() { return depth() > kMost; }

 private:
  static constexpr int kMost = 16;
  static int& depth() {
    thread_local int instance = 0;
    return instance;
  }
};

bool are_known(std::span<Value* const> operands) {
  return std::ranges::all_of(operands, [](const Value* operand) {
    return operand == nullptr || std::ranges::all_of(operand->shape(), &Dim::is_constant);
  });
}

}  // namespace

CustomOperator::CustomOperator(Declaration declaration, const OpOrigin& origin)
    : declaration_(std::move(declaration)), origin_(origin) {}

Expected<std::unique_ptr<CustomOperator>> CustomOperator::create(Declaration declaration,
                                                                 const OpOrigin& origin) {
  std::unique_ptr<CustomOperator> made(new CustomOperator(std::move(declaration), origin));
  const Declaration& declared = made->declaration_;
  if (declared.expression) {
    if (const Status status = made->check_expression(); !status) {
      return fail("operator '{}': its expression: {}", declared.name, status.error().message);
    }
  }
  if (declared.body) {
    if (const Status status = check_body(*declared.body, declared); !status) {
      return fail("operator '{}': its body: {}", declared.name, status.error().message);
    }
  }
  made->define();
  return made;
}

void CustomOperator::define() {
  def_.name = declaration_.name;
  def_.summary = declaration_.summary;
  def_.origin = &origin_;
  for (const Declaration::Operand& each : declaration_.operands) {
    def_.operands.push_back({each.name, each.dtypes, each.group, each.arity});
  }
  for (const Declaration::AttributeRule& each : declaration_.attributes) {
    def_.attributes.push_back({each.name, each.kind, !each.fallback});
  }
  def_.infer = [this](const OpContext& context) { return infer(context); };
  const auto compute = [this](const EvalContext& context) { return this->compute(context); };
  if (declaration_.expression) {
    def_.trait = FusionTrait::Pointwise;
    def_.evaluate = [this](const EvalContext& context) { return evaluate_expression(context); };
    def_.scalar = [this](const OpContext& context, ExprPool& pool, std::span<const Expr> x) {
      std::vector<DType> types(declaration_.operands.size(), DType::F32);
      for (std::size_t i = 0; i < types.size(); ++i) {
        if (context.has(static_cast<int>(i))) types[i] = context.operands[i]->dtype();
      }
      const auto expr = scalar(x, context.attributes, result_dtype(0, types), false, pool);
      assert(expr && "the node went through the shape rule, which builds the expression");
      return *expr;
    };
  } else if (declaration_.body) {
    def_.trait = FusionTrait::Composite;
    def_.body = [this](Graph& graph, const Node& node) { return body(graph, node); };
  } else {
    def_.trait = FusionTrait::Opaque;
    def_.of_bits = true;
    def_.evaluate = compute;
    return;
  }
  if (declaration_.compute != nullptr) def_.kernel = compute;
}

tl::unexpected<Error> CustomOperator::told(const Error& error) const {
  return tl::unexpected(Error{error.kind, fmt::format("{} (plugin '{}', {})", error.message,
                                                      origin_.plugin, origin_.path)});
}

DType CustomOperator::result_dtype(std::size_t result, std::span<const DType> operands) const {
  const Declaration::Result& declared = declaration_.results[result];
  return declared.like < 0 ? declared.dtype : operands[static_cast<std::size_t>(declared.like)];
}

// ---- the shape rule ----

Expected<std::vector<TensorType>> CustomOperator::infer(const OpContext& context) {
  auto types = infer_checked(context);
  if (!types) return told(types.error());
  return types;
}

Expected<std::vector<TensorType>> CustomOperator::infer_checked(const OpContext& context) {
  OPWELD_TRY(const Attributes attributes, complete_attributes(declaration_, context.attributes));
  const OpContext whole{context.operands, attributes, context.assumptions};
  std::vector<TensorType> types;
  if (declaration_.body) {
    OPWELD_TRY(types, types_of_body(whole));
  } else {
    OPWELD_TRY(types, declared_types(whole));
  }
  OPWELD_CHECK(check_shapes(whole, types));
  return types;
}

Expected<std::vector<TensorType>> CustomOperator::declared_types(const OpContext& context) {
  const auto present = types_of(context, declaration_.operands.size());
  std::vector<DType> operands;
  for (const auto& type : present) operands.push_back(type.value_or(DType::F32));
  if (declaration_.expression) {
    ExprPool pool;
    std::vector<Expr> arguments;
    for (std::size_t i = 0; i < present.size(); ++i) {
      arguments.push_back(present[i] ? pool.input(static_cast<int>(i), compute_dtype(*present[i]))
                                     : kNoExpr);
    }
    const DType dtype = result_dtype(0, operands);
    const auto expr = scalar(arguments, context.attributes, dtype, false, pool);
    if (!expr) return fail("its expression: {}", expr.error().message);
    return infer_pointwise(context, dtype);
  }
  std::vector<TensorType> types;
  bool known = false;
  std::vector<Sizes> asked;
  for (std::size_t i = 0; i < declaration_.results.size(); ++i) {
    const Declaration::Result& result = declaration_.results[i];
    if (result.shape) {
      auto shape = build_shape(*result.shape, {declaration_.operand_names, context});
      if (!shape) return fail("the shape of result '{}': {}", result.name, shape.error().message);
      types.push_back({result_dtype(i, operands), std::move(*shape)});
      continue;
    }
    if (asked.empty()) {
      OPWELD_TRY(asked, shapes_of(context, known));
      if (!known) {
        return fail(
            "the shape of result '{}' has no formula, so that shapes() is asked; but the sizes of "
            "the operands are not all known before a run. Give it a formula, such as \"x\"",
            result.name);
      }
    }
    types.push_back({result_dtype(i, operands), Shape(asked[i].begin(), asked[i].end())});
  }
  return types;
}

Expected<std::vector<TensorType>> CustomOperator::types_of_body(const OpContext& context) const {
  const Nesting nesting;
  if (Nesting::is_too_deep()) return fail("its body is defined in terms of itself");
  Graph scratch;
  std::vector<Value*> operands;
  std::vector<DType> dtypes(declaration_.operands.size(), DType::F32);
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    const Value* const operand = context.operands[i];
    operands.push_back(operand == nullptr ? nullptr : scratch.add_input("", operand->type()));
    if (operand == nullptr) continue;
    operands.back()->set_contents(operand->contents());
    dtypes[i] = operand->dtype();
  }
  const OpContext inside{operands, context.attributes, context.assumptions};
  const auto results =
      build_body(declaration_, {declaration_.operand_names, inside}, scratch, nullptr, {});
  if (!results) return fail("its body: {}", results.error().message);
  for (const SizeAssumption& each : scratch.assumptions()) {
    if (context.assumptions != nullptr) context.assumptions->push_back(each);
  }
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < results->size(); ++i) {
    const TensorType& type = (*results)[i]->type();
    if (type.dtype != result_dtype(i, dtypes)) {
      return fail("its body gives result '{}' the type {}, and {} is declared",
                  declaration_.results[i].name, to_string(type),
                  to_string(result_dtype(i, dtypes)));
    }
    types.push_back(type);
  }
  return types;
}

// What else tells shapes must tell the same.
Status CustomOperator::check_shapes(const OpContext& context, std::span<const TensorType> types) {
  const char* const source = declaration_.body ? "its body" : "its expression";
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Declaration::Result& result = declaration_.results[i];
    if (!result.shape || (!declaration_.body && !declaration_.expression)) continue;
    auto shape = build_shape(*result.shape, {declaration_.operand_names, context});
    if (!shape) return fail("the shape of result '{}': {}", result.name, shape.error().message);
    if (!unify_shapes(*shape, types[i].shape, "the declared shape", context.assumptions)) {
      return fail("the shape rule lies: result '{}' is {} by its formula, and {} by {}",
                  result.name, to_string(*shape), to_string(types[i].shape), source);
    }
  }
  bool known = false;
  OPWELD_TRY(const std::vector<Sizes> asked, shapes_of(context, known));
  for (std::size_t i = 0; known && i < types.size(); ++i) {
    const Shape shape(asked[i].begin(), asked[i].end());
    if (unify_shapes(shape, types[i].shape, "shapes()", context.assumptions)) continue;
    return fail("the shape rule lies: result '{}' is {} by {}, and {} by shapes()",
                declaration_.results[i].name, to_string(types[i].shape),
                declaration_.results[i].shape ? "its formula" : source, to_string(shape));
  }
  return {};
}

// Of shapes(), where there is one and all sizes are known.
Expected<std::vector<Sizes>> CustomOperator::shapes_of(const OpContext& context, bool& known) {
  known = declaration_.shapes != nullptr && are_known(context.operands);
  if (!known) return std::vector<Sizes>();
  std::vector<PluginOperand> shown;
  shown.reserve(context.operands.size());
  std::vector<const PluginOperand*> operands;
  for (const Value* operand : context.operands) {
    if (operand == nullptr) {
      operands.push_back(nullptr);
      continue;
    }
    PluginOperand next{operand->dtype(), {}, nullptr};
    for (const Dim& size : operand->shape()) next.sizes.push_back(*size.constant());
    if (!checked_num_elements(next.sizes)) return fail("the sizes of an operand overflow");
    shown.push_back(std::move(next));
    operands.push_back(&shown.back());
  }
  const std::lock_guard lock(turn_);
  return ask_shapes(declaration_, operands, context.attributes);
}

// ---- the expression ----

Expected<Expr> CustomOperator::scalar(std::span<const Expr> arguments, const Attributes& given,
                                      DType result, bool wide, ExprPool& pool) const {
  OPWELD_TRY(const Attributes attributes, complete_attributes(declaration_, given));
  std::vector<Expr> all(arguments.begin(), arguments.end());
  all.resize(declaration_.operands.size(), kNoExpr);
  DType type = compute_dtype(result);
  if (wide && is_float(type)) type = DType::F64;
  return build_scalar(*declaration_.expression, {declaration_.operand_names, all, attributes}, type,
                      wide ? Arithmetic::Wide : Arithmetic::Compute, pool);
}

Status CustomOperator::check_expression_of(std::span<const DType> operands,
                                           const Attributes& attributes) const {
  ExprPool pool;
  std::vector<Expr> arguments;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    arguments.push_back(pool.input(static_cast<int>(i), compute_dtype(operands[i])));
  }
  const auto expr = scalar(arguments, attributes, result_dtype(0, operands), false, pool);
  if (!expr) return tl::unexpected(expr.error());
  return {};
}

// With all operands of one type, for every type that the first one admits: a mistake shows as the
// plugin is loaded, and not as the first model of some type is.
Status CustomOperator::check_expression() const {
  Attributes attributes;
  for (const Declaration::AttributeRule& rule : declaration_.attributes) {
    if (rule.fallback) continue;
    const std::array<Attribute, 5> examples = {Attribute(std::int64_t{1}), Attribute(1.0),
                                               Attribute(std::string()), Attribute(Ints()),
                                               Attribute(Doubles())};
    attributes.set(rule.name, examples[static_cast<std::size_t>(plugin_kind(rule.kind) - 1)]);
  }
  const auto admits = [](const Declaration::Operand& operand, DType dtype) {
    return (operand.dtypes & dtype_bit(dtype)) != 0;
  };
  for (int first = 0; first < kDTypeCount; ++first) {
    const auto dtype = static_cast<DType>(first);
    if (!admits(declaration_.operands[0], dtype)) continue;
    std::vector<DType> operands;
    for (const Declaration::Operand& operand : declaration_.operands) {
      DType own = dtype;
      for (int other = 0; other < kDTypeCount && !admits(operand, own); ++other) {
        own = static_cast<DType>(other);
      }
      operands.push_back(own);
    }
    OPWELD_CHECK(check_expression_of(operands, attributes));
  }
  return {};
}

Status CustomOperator::evaluate_expression(const EvalContext& context) const {
  ExprPool pool;
  std::vector<Expr> arguments;
  std::vector<ScalarValue> inputs(declaration_.operands.size());
  for (std::size_t i = 0; i < declaration_.operands.size(); ++i) {
    const Tensor* const operand = context.operands[i];
    if (operand == nullptr) {
      arguments.push_back(kNoExpr);
      continue;
    }
    const DType type = is_float(operand->dtype()) ? DType::F64 : compute_dtype(operand->dtype());
    arguments.push_back(pool.input(static_cast<int>(i), type));
  }
  Tensor& result = context.results[0];
  const auto expr = scalar(arguments, context.attributes, result.dtype(), true, pool);
  if (!expr) return told(expr.error());
  OPWELD_TRY(ScalarInterpreter interpreter, ScalarInterpreter::make(pool, *expr));
  for_each_broadcast(context, [&](std::int64_t at, std::span<const std::int64_t> from) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Tensor* const operand = context.operands[i];
      if (operand == nullptr) continue;
      if (is_float(operand->dtype())) {
        inputs[i].real = operand->get_double(from[i]);
      } else {
        inputs[i].integer = operand->get_int(from[i]);
      }
    }
    const ScalarValue value = interpreter(inputs);
    if (is_float(result.dtype())) {
      result.set_double(at, value.real);
    } else {
      result.set_int(at, value.integer);
    }
  });
  return {};
}

// ---- the body, and the plugin's own code ----

Expected<std::vector<Value*>> CustomOperator::body(Graph& graph, const Node& node) const {
  auto attributes = complete_attributes(declaration_, node.attributes());
  if (!attributes) return told(attributes.error());
  const OpContext context{node.operands(), *attributes};
  // All of them do the work of one operator of the model, by the name that it has there.
  Source source = node.source();
  if (source.name.empty()) source.name = node.display_name();
  if (source.op.empty()) source.op = declaration_.name;
  auto results = build_body(declaration_, {declaration_.operand_names, context}, graph,
                            node.result()->producer(), source);
  if (!results) return told(results.error());
  return results;
}

Status CustomOperator::compute(const EvalContext& context) {
  auto attributes = complete_attributes(declaration_, context.attributes);
  if (!attributes) return told(attributes.error());
  const Status status =
      call_compute(declaration_, context.operands, *attributes, context.results, turn_);
  if (!status) return told(status.error());
  return {};
}

}  // namespace opweld
