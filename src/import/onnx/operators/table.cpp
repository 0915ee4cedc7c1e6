#include "import/onnx/operators/table.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "ops/op.h"

namespace opweld {
namespace {

constexpr OperatorFamily* kFamilies[] = {
    activation_operators,  attention_operators, constant_operators,  contraction_operators,
    convolution_operators, einsum_operators,    index_operators,     moe_operators,
    norm_operators,        pointwise_operators, reduction_operators, shape_operators,
    slice_operators,
};

using Key = std::pair<std::string_view, std::string_view>;

const std::map<Key, const OperatorRule*>& rules() {
  static const std::map<Key, const OperatorRule*> instance = [] {
    std::map<Key, const OperatorRule*> map;
    for (OperatorFamily* family : kFamilies) {
      for (const OperatorRule& rule : family()) map.emplace(Key{rule.domain, rule.op}, &rule);
    }
    return map;
  }();
  return instance;
}

struct Reason {
  std::string_view op;
  std::string_view why;
};

constexpr std::string_view kControlFlow = "control flow over graphs is not compiled";
constexpr std::string_view kQuantised = "quantised operators are not supported yet";
constexpr std::string_view kShapeOfData = "the shape of its result depends on the data";
constexpr std::string_view kNoTensor = "only tensors are supported as values";
constexpr std::string_view kRandom = "random numbers are not supported";

constexpr Reason kReasons[] = {
    {"Loop", kControlFlow},
    {"Scan", kControlFlow},
    {"SequenceMap", kControlFlow},
    {"QuantizeLinear", kQuantised},
    {"DequantizeLinear", kQuantised},
    {"DynamicQuantizeLinear", kQuantised},
    {"MatMulInteger", kQuantised},
    {"ConvInteger", kQuantised},
    {"QLinearMatMul", kQuantised},
    {"QLinearConv", kQuantised},
    {"Compress", kShapeOfData},
    {"Unique", kShapeOfData},
    {"NonMaxSuppression", kShapeOfData},
    {"SequenceAt", kNoTensor},
    {"SequenceConstruct", kNoTensor},
    {"SequenceInsert", kNoTensor},
    {"SplitToSequence", kNoTensor},
    {"ConcatFromSequence", kNoTensor},
    {"OptionalGetElement", kNoTensor},
    {"OptionalHasElement", kNoTensor},
    {"RandomNormal", kRandom},
    {"RandomNormalLike", kRandom},
    {"RandomUniform", kRandom},
    {"RandomUniformLike", kRandom},
    {"Bernoulli", kRandom},
    {"Multinomial", kRandom},
};

// First defined in opset 1 and next changed after opset 7.
constexpr std::string_view kOldOperators[] = {
    "Constant",
    "Conv",
    "Flatten",
    "Gather",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "Hardmax",
    "Identity",
    "LogSoftmax",
    "LpNormalization",
    "Not",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Shape",
    "Size",
    "Slice",
    "Softmax",
    "Softplus",
    "Softsign",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
};

}  // namespace

bool is_same_in_old_opsets(std::string_view op) {
  return std::find(std::begin(kOldOperators), std::end(kOldOperators), op) !=
         std::end(kOldOperators);
}

std::optional<OperatorRule> find_operator(std::string_view domain, std::string_view op) {
  if (const auto found = rules().find({domain, op}); found != rules().end()) return *found->second;
  if (domain.empty()) return std::nullopt;
  const OpDef* const custom = find_op(qualified_name(domain, op));
  if (custom == nullptr || custom->origin == nullptr) return std::nullopt;
  OperatorRule rule{custom->name, import_custom_operator, custom->name, 0, kAny};
  rule.domain = custom->name.substr(0, domain.size());
  return rule;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& [key, rule] : rules()) names.push_back(qualified_name(rule->domain, rule->op));
  std::sort(names.begin(), names.end());
  return names;
}

std::string_view reason_unsupported(std::string_view domain, std::string_view op) {
  if (domain.empty()) {
    for (const Reason& reason : kReasons) {
      if (reason.op == op) return reason.why;
    }
    return "no such operator is supported";
  }
  return "operators of this domain are not known and the model holds no function of that name; a "
         "plugin can define it (--plugin LIBRARY, opweld/custom_op.h)";
}

std::string qualified_name(std::string_view domain, std::string_view op) {
  return domain.empty() ? std::string(op) : fmt::format("{}.{}", domain, op);
}

}  // namespace opweld
