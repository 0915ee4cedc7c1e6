// Graphs that nobody means: whatever is asked of a builder, the answer is a graph that can be
// compiled and run, or an error.
#include <random>

#include "compute.h"
#include "ops/op.h"
#include "runtime/compare.h"

namespace opweld {
namespace {

using testing::message_of;

constexpr unsigned kSeeds = 100;
constexpr DType kDTypes[] = {DType::F32, DType::F16, DType::I64, DType::I32, DType::Bool};

// A graph of random operators on random operands. The same seeds build the same graph.
class Chaos {
 public:
  // Adds one operator after another, as long as the builder takes one of many tries.
  Result<Model> build(unsigned seed) {
    constexpr int kTries = 150;
    constexpr std::size_t kOperators = 6;
    std::vector<unsigned> accepted;
    for (int attempt = 0; attempt < kTries && accepted.size() < kOperators; ++attempt) {
      accepted.push_back(seed * kTries + static_cast<unsigned>(attempt));
      GraphBuilder builder;
      replay(builder, seed, accepted);
      if (builder.status()) continue;
      EXPECT_FALSE(tensors_.back().valid());
      EXPECT_NE(builder.status().error().message, "");
      EXPECT_FALSE(builder.finish());
      accepted.pop_back();
    }
    GraphBuilder builder("chaos");
    replay(builder, seed, accepted);
    for (std::size_t i = 1; i < tensors_.size(); ++i) {
      if (i + 1 == tensors_.size() || random_() % 4 == 0) {
        builder.output("y" + std::to_string(i), tensors_[i]);
      }
    }
    return builder.finish();
  }

 private:
  void replay(GraphBuilder& builder, unsigned seed, const std::vector<unsigned>& operators) {
    random_.seed(seed);
    tensors_ = {GraphTensor()};
    for (int i = 0; i < 3; ++i) {
      tensors_.push_back(builder.input("x" + std::to_string(i), pick(kDTypes), sizes()));
    }
    for (const unsigned each : operators) {
      random_.seed(each);
      tensors_.push_back(add_operator(builder));
    }
  }

  template <typename List>
  typename std::iterator_traits<decltype(std::begin(std::declval<const List&>()))>::value_type pick(
      const List& list) {
    return *(std::begin(list) + static_cast<std::ptrdiff_t>(random_() % std::size(list)));
  }
  std::int64_t small() { return static_cast<std::int64_t>(random_() % 7) - 2; }

  Size size() {
    const Size sizes[] = {0, 1, 2, 3, 4, "s", "t", Size("s"), 2, 4};
    return pick(sizes);
  }
  std::vector<Size> sizes() {
    std::vector<Size> result;
    for (std::size_t rank = random_() % 5; rank > 0; --rank) result.push_back(size());
    return result;
  }

  // Of the kind that the schema wants, mostly.
  AttributeValue attribute(AttributeKind kind) {
    if (random_() % 32 == 0) kind = static_cast<AttributeKind>(random_() % 8);
    std::vector<std::int64_t> integers;
    for (std::size_t count = random_() % 5; count > 0; --count) integers.push_back(small());
    switch (kind) {
      case AttributeKind::Integer:
        return small();
      case AttributeKind::Real:
        return static_cast<double>(small()) / 2;
      case AttributeKind::Text: {
        constexpr const char* kTexts[] = {"none", "top_left", "bottom_right", "tanh", "constant",
                                          "edge", "reflect",  "wrap",         "add",  ""};
        return pick(kTexts);
      }
      case AttributeKind::Type:
        return pick(kDTypes);
      case AttributeKind::Ints:
        return integers;
      case AttributeKind::Doubles:
        return std::vector<double>(integers.begin(), integers.end());
      case AttributeKind::Shape:
        return sizes();
      case AttributeKind::Tensor: {
        static const std::vector<float> kValues = {1, 2, 3, 4};
        return TensorView(kValues, {2, 2});
      }
    }
    return 0;
  }

  GraphTensor add_operator(GraphBuilder& builder) {
    const OpDef& def = *pick(all_ops());
    AttributeList attributes;
    for (const AttributeDef& each : def.attributes) {
      if (!each.required && random_() % 2 == 0) continue;
      attributes.emplace_back(std::string(each.name), attribute(each.kind));
    }
    std::vector<GraphTensor> operands;
    for (const OperandDef& each : def.operands) {
      GraphTensor operand = pick(tensors_);
      // One of a dtype that fits, if luck will have it.
      for (int attempt = 0; attempt < 8; ++attempt) {
        if (operand.valid() && (each.dtypes & dtype_bit(operand.dtype())) != 0) break;
        operand = pick(tensors_);
      }
      operands.push_back(operand);
    }
    std::size_t results = 1;
    if (def.name == "top_k") results = 2;
    if (def.name == "sort_by_group") results = 3;
    return builder.op_results(def.name, results, operands, attributes).front();
  }

  std::mt19937 random_;
  std::vector<GraphTensor> tensors_;
};

Tensor internal(const HostTensor& tensor) {
  return Tensor::borrow(tensor.dtype(), tensor.sizes(),
                        static_cast<const std::byte*>(tensor.data()), nullptr);
}

// Numbers that are indices, shifts and conditions as well: 0, 1 and 2.
Tensor some_tensor(const TensorInfo& info, std::int64_t length) {
  Sizes sizes;
  for (const Size& size : info.sizes) sizes.push_back(size.constant().value_or(length));
  Tensor tensor = Tensor::allocate(info.dtype, sizes).value();
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) tensor.set_int(i, i % 3);
  return tensor;
}

// At every level, and at every length, the same: results up to rounding, or an error.
void run(const Model& model) {
  std::vector<Program> programs;
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
    const auto program = model.compile({.fusion = level, .threads = 1});
    EXPECT_EQ(program.ok(), program.error().message.empty());
    if (program) programs.push_back(*program);
  }
  ASSERT_TRUE(programs.empty() || programs.size() == 3) << model.text();
  for (const std::int64_t length : {0, 1, 2, 4}) {
    if (programs.empty()) continue;
    std::vector<Tensor> tensors;
    std::vector<TensorView> inputs;
    for (const TensorInfo& input : model.inputs()) {
      const Tensor& tensor = tensors.emplace_back(some_tensor(input, length));
      inputs.emplace_back(tensor.dtype(), tensor.sizes(), tensor.data(),
                          static_cast<std::size_t>(tensor.num_bytes()));
    }
    const auto plain = programs[0].run(inputs);
    for (const Program& program : programs) {
      const auto outputs = program.run(inputs);
      ASSERT_EQ(outputs.ok(), plain.ok()) << message_of(outputs) << message_of(plain) << "\n"
                                          << model.text();
      EXPECT_EQ(outputs.ok(), outputs.error().message.empty());
      for (std::size_t i = 0; outputs && i < outputs->size(); ++i) {
        const HostTensor& actual = (*outputs)[i];
        const HostTensor& expected = (*plain)[i];
        ASSERT_EQ(actual.sizes(), expected.sizes());
        const Comparison comparison =
            compare(internal(actual), internal(expected), default_tolerance(actual.dtype()));
        EXPECT_TRUE(comparison.equal) << comparison.message << "\n" << model.text();
      }
    }
  }
}

TEST(Misuse, RandomGraphsAreRefusedOrRun) {
  Chaos chaos;
  unsigned built = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const Result<Model> model = chaos.build(seed);
    if (!model) continue;
    ++built;
    run(*model);
  }
  EXPECT_GT(built, kSeeds / 2);
}

}  // namespace
}  // namespace opweld
