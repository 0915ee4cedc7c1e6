// Operators whose declarations can be read and that go wrong with a model: each does so in one way.
#include <opweld/custom_op.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace {

constexpr OpweldOperand kX[] = {{"x", OPWELD_ONLY(OPWELD_F32), 0, OPWELD_REQUIRED}};
constexpr OpweldResult kShapedX[] = {{"y", "x", "x"}};
constexpr OpweldResult kUnshaped[] = {{"y", "x", nullptr}};
constexpr OpweldResult kLarger[] = {{"y", "x", "[x[0] + 1]"}};
constexpr OpweldResult kIntegers[] = {{"y", "i64", nullptr}};
constexpr OpweldResult kDividedByZero[] = {{"y", "x", "[x[0] / n]"}};
constexpr OpweldResult kNegative[] = {{"y", "x", "[n - 4]"}};
constexpr OpweldResult kNoSuchAxis[] = {{"y", "x", "[x[3]]"}};

OpweldOp op(const char* name, const OpweldResult* result) {
  OpweldOp made{};
  made.size = sizeof(OpweldOp);
  made.domain = "test.faulty";
  made.name = name;
  made.operands = kX;
  made.operand_count = 1;
  made.results = result;
  made.result_count = 1;
  return made;
}

OpweldOp opaque(const char* name, int (*compute)(const OpweldCall*),
                const OpweldResult* result = kShapedX) {
  OpweldOp made = op(name, result);
  made.compute = compute;
  return made;
}

OpweldOp with_body(const char* name, const char* body, const OpweldResult* result = kUnshaped) {
  OpweldOp made = op(name, result);
  made.body = body;
  return made;
}

OpweldOp with_shapes(const char* name, int (*shapes)(const OpweldCall*, OpweldShape*),
                     const OpweldResult* result = kShapedX) {
  OpweldOp made = opaque(name, [](const OpweldCall*) { return 0; }, result);
  made.shapes = shapes;
  return made;
}

OpweldOp with_size(OpweldOp made) {
  static const OpweldAttribute kN[] = {
      {"n", OPWELD_INTEGER, 0, 0, 0, nullptr, nullptr, nullptr, 0}};
  made.attributes = kN;
  made.attribute_count = 1;
  return made;
}

int write(const OpweldCall* call, std::int64_t first, std::int64_t count) {
  auto* y = static_cast<float*>(call->outputs[0].data);
  for (std::int64_t i = first; i < first + count; ++i) y[i] = 1;
  return 0;
}

const std::vector<OpweldOp>& all() {
  static const std::vector<OpweldOp> kAll = {
      opaque("Says",
             [](const OpweldCall* call) {
               call->fail(call, "the moon is full");
               return 1;
             }),
      opaque("Mute", [](const OpweldCall*) { return 17; }),
      opaque("Throws", [](const OpweldCall*) -> int { throw std::runtime_error("out of paint"); }),
      opaque("ThrowsAnything", [](const OpweldCall*) -> int { throw 3; }),
      opaque("WritesBehind",
             [](const OpweldCall* call) { return write(call, 0, call->outputs[0].elements + 1); }),
      opaque("WritesBefore", [](const OpweldCall* call) { return write(call, -1, 2); }),
      // Takes its result for twice as large.
      opaque("WritesTwice",
             [](const OpweldCall* call) { return write(call, 0, 2 * call->outputs[0].elements); }),
      with_shapes("TooSmall",
                  [](const OpweldCall* call, OpweldShape* results) {
                    results[0].rank = 1;
                    results[0].sizes[0] = call->inputs[0].sizes[0] - 1;
                    return 0;
                  }),
      with_shapes("TooLarge",
                  [](const OpweldCall* call, OpweldShape* results) {
                    results[0].rank = 1;
                    results[0].sizes[0] = call->inputs[0].sizes[0] + 1;
                    return 0;
                  }),
      with_shapes("OtherRank",
                  [](const OpweldCall* call, OpweldShape* results) {
                    results[0].rank = 2;
                    results[0].sizes[0] = call->inputs[0].sizes[0];
                    results[0].sizes[1] = 1;
                    return 0;
                  }),
      with_shapes("RankBeyond",
                  [](const OpweldCall*, OpweldShape* results) {
                    results[0].rank = OPWELD_MAX_RANK + 1;
                    return 0;
                  }),
      with_shapes("NegativeSize",
                  [](const OpweldCall*, OpweldShape* results) {
                    results[0].rank = 1;
                    results[0].sizes[0] = -5;
                    return 0;
                  }),
      with_shapes("ShapesThrows",
                  [](const OpweldCall*, OpweldShape*) -> int {
                    throw std::out_of_range("no shape today");
                  }),
      with_shapes("ShapesFails",
                  [](const OpweldCall* call, OpweldShape*) {
                    call->fail(call, "x is too odd");
                    return 1;
                  }),
      with_shapes(
          "ShapesOnly",
          [](const OpweldCall* call, OpweldShape* results) {
            results[0].rank = 1;
            results[0].sizes[0] = call->inputs[0].sizes[0];
            return 0;
          },
          kUnshaped),
      with_body("BadSyntax", "%y = add(%x, %x\nreturn %y"),
      with_body("UnknownOperator", "%y = frobnicate(%x)\nreturn %y"),
      with_body("UnknownValue", "%y = add(%x, %z)\nreturn %y"),
      with_body("NoReturn", "%y = add(%x, %x)"),
      with_body("TwoReturned", "%y = add(%x, %x)\nreturn %y, %x"),
      with_body("OtherType", "%y = neg(%x)\nreturn %y", kIntegers),
      with_body("OtherShape", "%y = neg(%x)\nreturn %y", kLarger),
      with_body("OfItself", "%y = test.faulty.OfItself(%x)\nreturn %y"),
      with_size(opaque(
          "DividedByZero", [](const OpweldCall*) { return 0; }, kDividedByZero)),
      with_size(opaque(
          "Negative", [](const OpweldCall*) { return 0; }, kNegative)),
      opaque(
          "NoSuchAxis", [](const OpweldCall*) { return 0; }, kNoSuchAxis),
      with_shapes(
          "ShapesAgainstFormula",
          [](const OpweldCall* call, OpweldShape* results) {
            results[0].rank = 1;
            results[0].sizes[0] = 2 * call->inputs[0].sizes[0];
            return 0;
          },
          kLarger),
  };
  return kAll;
}

}  // namespace

extern "C" OPWELD_PLUGIN_EXPORT const OpweldPlugin* opweld_plugin(std::uint32_t) {
  static const auto kPointers = [] {
    std::vector<const OpweldOp*> pointers;
    for (const OpweldOp& each : all()) pointers.push_back(&each);
    return pointers;
  }();
  static const OpweldPlugin kPlugin = {OPWELD_CUSTOM_OP_ABI, "faulty", nullptr, kPointers.data(),
                                       kPointers.size()};
  return &kPlugin;
}
