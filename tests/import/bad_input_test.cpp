// Models that must be refused, with a message that says where and why; never a crash.
#include <random>

#include "import/model_builder.h"
#include "import/onnx/layer_scope.h"

namespace opweld {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

ModelBuilder relu_model() {
  ModelBuilder model;
  model.input("x", {"n"}).output("y");
  model.node("Relu", {"x"}, {"y"}).name("act");
  return model;
}

std::string bytes_error(const std::string& bytes) {
  const auto graph = import_onnx_bytes(std::as_bytes(std::span(bytes)), "m", "");
  return graph ? "" : graph.error().message;
}

TEST(BadInput, IsNoModel) {
  EXPECT_THAT(bytes_error(""), HasSubstr("m: is empty"));
  EXPECT_THAT(bytes_error("hello world, this is text"), StartsWith("m: "));
  EXPECT_THAT(bytes_error(std::string(1000, '\0')), HasSubstr("not an ONNX file"));
  EXPECT_THAT(bytes_error("\x08\x08"), HasSubstr("no graph"));
  EXPECT_THAT(import_onnx("/nowhere/model.onnx").error().message, HasSubstr("/nowhere/model.onnx"));
  EXPECT_THAT(import_onnx("/").error().message, HasSubstr("not a regular file"));
}

TEST(BadInput, IsTruncated) {
  const std::string whole = relu_model().bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    const std::string error = bytes_error(whole.substr(0, length));
    // Cut between two fields the rest may be a model, but one that lacks its graph or opset.
    EXPECT_NE(error, "");
  }
  EXPECT_EQ(bytes_error(whole), "");
}

TEST(BadInput, ListsAllUnsupportedOperatorsWithCounts) {
  ModelBuilder model = relu_model();
  model.node("Compress", {"x"}, {"a"}).name("first");
  model.node("Compress", {"x"}, {"b"});
  model.node("Foo", {"x"}, {"c"}).domain("com.example");
  EXPECT_THAT(import_error(model), AllOf(HasSubstr("3 nodes"), HasSubstr("2 x Compress"),
                                         HasSubstr("'first'"), HasSubstr("1 x com.example.Foo")));
}

TEST(BadInput, NamesThatDoNotFit) {
  ModelBuilder cycle;
  cycle.input("x", {"n"}).output("b");
  cycle.node("Add", {"x", "b"}, {"a"}).name("loop");
  cycle.node("Relu", {"a"}, {"b"});
  EXPECT_THAT(import_error(cycle),
              AllOf(HasSubstr("model.onnx: node 'loop' (Add)"), HasSubstr("cycle")));
  ModelBuilder missing;
  missing.input("x", {"n"}).output("y");
  missing.node("Add", {"x", "nothing"}, {"y"});
  EXPECT_THAT(import_error(missing), AllOf(HasSubstr("'nothing'"), HasSubstr("makes 'y' (Add)")));
  ModelBuilder twice = relu_model();
  twice.node("Neg", {"x"}, {"y"}).name("again");
  EXPECT_THAT(import_error(twice), AllOf(HasSubstr("'again'"), HasSubstr("exists already")));
  ModelBuilder inputs = relu_model();
  inputs.input("x", {"n"});
  EXPECT_THAT(import_error(inputs), HasSubstr("input 'x' is declared twice"));
  ModelBuilder output = relu_model();
  output.output("z");
  EXPECT_THAT(import_error(output), HasSubstr("output 'z'"));
  ModelBuilder none;
  none.input("x", {"n"});
  EXPECT_THAT(import_error(none), HasSubstr("no outputs"));
}

TEST(BadInput, TypesThatDoNotFit) {
  ModelBuilder mixed;
  mixed.input("x", {"n"}).ints_input("i", {"n"}).output("y");
  mixed.node("Add", {"x", "i"}, {"y"}).name("sum");
  EXPECT_THAT(import_error(mixed),
              AllOf(HasSubstr("node 'sum' (Add)"), HasSubstr("f32"), HasSubstr("i64")));
  ModelBuilder text;
  text.input("x", {"n"}, onnx::TensorProto::STRING).output("x");
  EXPECT_THAT(import_error(text), AllOf(HasSubstr("input 'x'"), HasSubstr("string")));
  ModelBuilder future;
  future.input("x", {"n"}, 99).output("x");
  EXPECT_THAT(import_error(future), HasSubstr("element type 99"));
  ModelBuilder declared = relu_model();
  declared.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  EXPECT_THAT(import_error(declared), HasSubstr("declared as int64"));
  ModelBuilder attribute;
  attribute.input("x", {"n"}).output("y");
  attribute.node("Softmax", {"x"}, {"y"}).name("s").set("axis", "last");
  EXPECT_THAT(import_error(attribute), AllOf(HasSubstr("'s'"), HasSubstr("'axis'")));
}

TEST(BadInput, SizesThatDoNotFit) {
  ModelBuilder negative;
  negative.input("x", {"-3"}).output("x");
  EXPECT_THAT(import_error(negative), AllOf(HasSubstr("input 'x'"), HasSubstr("-3")));
  ModelBuilder huge;
  huge.input("x", {"2000000000", "2000000000", "2000000000"}).output("x");
  EXPECT_THAT(import_error(huge), HasSubstr("more elements"));
  ModelBuilder depth;
  depth.input("a", {"2", "3"}).input("b", {"4", "5"}).output("y");
  depth.node("MatMul", {"a", "b"}, {"y"}).name("mm");
  EXPECT_THAT(import_error(depth), HasSubstr("node 'mm' (MatMul)"));
  ModelBuilder rankless = relu_model();
  rankless.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_THAT(import_error(rankless), HasSubstr("no shape"));
}

TEST(BadInput, InitializersThatDoNotFit) {
  const auto error = [](const onnx::TensorProto& tensor) {
    ModelBuilder model;
    model.initializer(tensor).output("w");
    return import_error(model);
  };
  EXPECT_THAT(error(tensor_proto<float>("w", {3}, {1, 2})),
              AllOf(HasSubstr("initializer 'w'"), HasSubstr("8 bytes")));
  EXPECT_THAT(error(tensor_proto<float>("w", {-1}, {})), HasSubstr("impossible sizes"));
  EXPECT_THAT(error(tensor_proto<float>("w", {1LL << 40, 1LL << 40}, {})),
              HasSubstr("impossible sizes"));
  EXPECT_THAT(error(tensor_proto<float>("w", {1LL << 50}, {})), HasSubstr("0 bytes"));
  onnx::TensorProto few;  // nothing of that size may be allocated
  few.set_name("w");
  few.set_data_type(onnx::TensorProto::FLOAT);
  few.add_dims(1LL << 50);
  few.add_float_data(1);
  EXPECT_THAT(error(few), HasSubstr("has 1 elements"));
  onnx::TensorProto text;
  text.set_name("w");
  text.set_data_type(onnx::TensorProto::STRING);
  EXPECT_THAT(error(text), HasSubstr("string"));
}

TEST(BadInput, OpsetsThatAreUnknown) {
  ModelBuilder old(6);
  old.input("x", {"n"}).output("y");
  old.node("Relu", {"x"}, {"y"});
  EXPECT_THAT(import_error(old), HasSubstr("opset 6"));
  ModelBuilder future(1000);
  future.input("x", {"n"}).output("y");
  future.node("Relu", {"x"}, {"y"});
  EXPECT_THAT(import_error(future), HasSubstr("opset 1000"));
  ModelBuilder none = relu_model();
  none.proto.clear_opset_import();
  EXPECT_THAT(import_error(none), HasSubstr("which opset"));
}

TEST(BadInput, StructureThatDependsOnData) {
  ModelBuilder model;
  model.input("x", {"4"}).ints_input("shape", {"2"}).output("y");
  model.node("Reshape", {"x", "shape"}, {"y"}).name("view");
  EXPECT_THAT(import_error(model),
              AllOf(HasSubstr("node 'view' (Reshape)"), HasSubstr("the new shape"),
                    HasSubstr("depends on the data")));
}

TEST(BadInput, DeepNesting) {
  onnx::GraphProto inner;
  add_node(inner, "Identity", {"x"}, {"r"});
  inner.add_output()->set_name("r");
  for (int depth = 0; depth < 40; ++depth) {
    onnx::GraphProto outer;
    add_node(outer, "If", {"c"}, {"r"}).set("then_branch", inner).set("else_branch", inner);
    outer.add_output()->set_name("r");
    outer.mutable_node(0)->mutable_attribute()->RemoveLast();
    inner = outer;
  }
  ModelBuilder model;
  model.input("x", {"n"}).output("y");
  model.initializer(tensor_proto<std::uint8_t>("c", {}, {1}));
  model.node("If", {"c"}, {"y"}).set("then_branch", inner);
  EXPECT_NE(import_error(model), "");  // more than protobuf nests
}

// A model with something of everything, to be broken.
ModelBuilder varied_model() {
  ModelBuilder model;
  model.input("x", {"batch", "s", "4"}).output("y").output("v");
  model.initializer(tensor_proto<float>("w", {4, 4}, std::vector<float>(16, 0.5F)));
  model.ints("shape", {0, -1, 2, 2}).ints("one", {1}).ints("end", {-1});
  model.node("MatMul", {"x", "w"}, {"m"}).name("/layer.0/MatMul");
  model.node("Reshape", {"m", "shape"}, {"r"});
  model.node("Transpose", {"r"}, {"t"}).set("perm", std::vector<std::int64_t>{0, 2, 1, 3});
  model.node("Softmax", {"t"}, {"p"}).set("axis", -1);
  model.node("Slice", {"p", "one", "end", "one"}, {"sl"});
  model.node("ReduceMean", {"sl"}, {"y"}).set("axes", std::vector<std::int64_t>{-1});
  model.node("Shape", {"x"}, {"sh"});
  model.node("Gather", {"sh", "one"}, {"g"}).set("axis", 0);
  model.node("ConstantOfShape", {"g"}, {"v"});
  return model;
}

TEST(BadInput, MutatedBytesNeverCrash) {
  const std::string whole = varied_model().bytes();
  ASSERT_EQ(bytes_error(whole), "");
  std::mt19937 random(7);
  int imported = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = whole;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 8);
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 16));
      }
      if (bytes.empty()) break;
    }
    const auto graph = import_onnx_bytes(std::as_bytes(std::span(bytes)), "m", "");
    if (!graph) {
      EXPECT_NE(graph.error().message, "");
      continue;
    }
    ++imported;
    const Status verified = verify(*graph);
    EXPECT_TRUE(verified.has_value()) << verified.error().message;
  }
  // Names and payloads can change without harm, lengths cannot.
  EXPECT_GT(imported, 0);
  EXPECT_LT(imported, kRounds);
}

TEST(LayerScope, IsThePathUpToTheFirstNumber) {
  EXPECT_EQ(layer_scope("/encoder/layer.0/attention/MatMul"), "encoder/layer.0");
  EXPECT_EQ(layer_scope("/model/layers.12/mlp/act_fn/Mul"), "model/layers.12");
  EXPECT_EQ(layer_scope("model.layers.3.mlp.Mul_7"), "model.layers.3");
  EXPECT_EQ(layer_scope("/h/5/Add"), "h/5");
  EXPECT_EQ(layer_scope("/blocks.2/Add"), "blocks.2");
  EXPECT_EQ(layer_scope("/embeddings/Add_1"), "");
  EXPECT_EQ(layer_scope("Add.3"), "");  // the node itself
  EXPECT_EQ(layer_scope("0/Add"), "");
  EXPECT_EQ(layer_scope(""), "");
  EXPECT_EQ(layer_of_namespace(": pkg.LlamaForCausalLM/model: pkg.LlamaModel/model.layers.0: "
                               "pkg.Layer/model.layers.0.self_attn: pkg.Attention/mm: aten.mm"),
            "model.layers.0");
  EXPECT_EQ(layer_of_namespace(": A/h.11: B/h.11.experts.3: C/add: aten.add.Tensor"), "h.11");
  EXPECT_EQ(layer_of_namespace(": A/embed: B/index_1: aten.index.Tensor"), "");
  EXPECT_EQ(layer_of_namespace("///: :"), "");
  EXPECT_EQ(layer_of_namespace(""), "");
}

}  // namespace
}  // namespace opweld
