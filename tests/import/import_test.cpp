// Names, types, initializers, functions and branches of models.
#include "import/onnx/import.h"

#include <filesystem>
#include <fstream>

#include "import/model_builder.h"

namespace opweld {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// A folder that is gone after the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "opweld-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = (std::filesystem::path(path_) / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

 private:
  std::string path_;
};

ModelBuilder add_model() {
  ModelBuilder model;
  model.input("x", {"batch", "3"}).output("y");
  model.initializer(tensor_proto<float>("w", {3}, {1, 2, 3}));
  model.node("Add", {"x", "w"}, {"y"}).name("/layers.4/Add");
  return model;
}

TEST(Import, MakesAGraphOfInputsConstantsAndNodes) {
  const auto graph = add_model().import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ASSERT_EQ(graph->inputs().size(), 1U);
  EXPECT_EQ(to_string(graph->inputs()[0]->type()), "f32[batch, 3]");
  const Node* node = graph->outputs()[0].value->producer();
  EXPECT_EQ(node->op(), "add");
  EXPECT_EQ(node->source(), (Source{"/layers.4/Add", "Add", "layers.4"}));
  EXPECT_EQ(graph->outputs()[0].name, "y");
  EXPECT_EQ(node->operand(1)->name(), "w");
  expect_output(add_model(), {floats({2, 3}, {0, 0, 0, 1, 1, 1})}, DType::F32, {2, 3},
                {1, 2, 3, 2, 3, 4});
  expect_output(add_model(), {floats({0, 3}, {})}, DType::F32, {0, 3}, {});
}

TEST(Import, NamesFreeDimensions) {
  ModelBuilder model;
  model.input("x", {"batch", "?", "2"}).input("z_1", {"?"}).input("z", {"?", "z_1_0"}).output("x");
  const auto graph = model.import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(to_string(graph->inputs()[0]->type()), "f32[batch, x_1, 2]");
  // A name that is taken by a dim_param is not given to another size.
  EXPECT_EQ(to_string(graph->inputs()[1]->type()), "f32[z_1_0_]");
}

TEST(Import, FixesDimensions) {
  const auto graph = add_model().import({{{"batch", 5}}});
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(to_string(graph->inputs()[0]->type()), "f32[5, 3]");
  const auto unknown = add_model().import({{{"length", 5}}});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().kind, ErrorKind::Usage);
  EXPECT_THAT(unknown.error().message, HasSubstr("'length'"));
  EXPECT_THAT(unknown.error().message, HasSubstr("batch"));
  EXPECT_THAT(import_error(add_model(), {{{"batch", -1}}}), HasSubstr("-1"));
}

TEST(Import, KeepsOutputsThatAreInputsInitializersOrRepeated) {
  ModelBuilder model;
  model.input("x", {"2"}).output("x").output("w").output("i").output("y");
  model.initializer(tensor_proto<float>("w", {1}, {7}));
  model.node("Identity", {"x"}, {"i"});
  model.node("Relu", {"x"}, {"y"});
  const auto outputs = run(model, {floats({2}, {-1, 1})});
  ASSERT_EQ(outputs.size(), 4U);
  expect_tensor(outputs[0], DType::F32, {2}, {-1, 1});
  expect_tensor(outputs[1], DType::F32, {1}, {7});
  expect_tensor(outputs[2], DType::F32, {2}, {-1, 1});
  expect_tensor(outputs[3], DType::F32, {2}, {0, 1});
}

TEST(Import, TakesAnInputWithADefaultForAConstant) {
  ModelBuilder model = add_model();
  model.input("w", {"3"});
  const auto graph = model.import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->inputs().size(), 1U);
}

TEST(Import, ReadsTypedFieldsOfTensors) {
  onnx::TensorProto half;
  half.set_name("h");
  half.set_data_type(onnx::TensorProto::FLOAT16);
  half.add_dims(2);
  half.add_int32_data(0x3C00);  // 1
  half.add_int32_data(0xC000);  // -2
  onnx::TensorProto flags;
  flags.set_name("b");
  flags.set_data_type(onnx::TensorProto::BOOL);
  flags.add_dims(2);
  flags.add_int32_data(1);
  flags.add_int32_data(0);
  ModelBuilder model;
  model.initializer(half).initializer(flags).output("h").output("b");
  const auto outputs = run(model, {});
  ASSERT_EQ(outputs.size(), 2U);
  expect_tensor(outputs[0], DType::F16, {2}, {1, -2});
  expect_tensor(outputs[1], DType::Bool, {2}, {1, 0});
}

TEST(Import, MakesBoolsOfArbitraryBytes) {
  ModelBuilder model;
  model.initializer(tensor_proto<std::uint8_t>("b", {3}, {0, 1, 255})).output("b");
  const auto outputs = run(model, {});
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(std::to_integer<int>(outputs[0].data()[2]), 1);
}

// ---- files ----

onnx::TensorProto external(const std::string& location, const std::string& offset,
                           const std::string& length) {
  onnx::TensorProto proto;
  proto.set_name("w");
  proto.set_data_type(onnx::TensorProto::FLOAT);
  proto.add_dims(2);
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const std::string& key, const std::string& value) {
    if (value.empty()) return;
    auto* entry = proto.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", offset);
  add("length", length);
  return proto;
}

std::string file_error(const Folder& folder, const onnx::TensorProto& weights) {
  ModelBuilder model;
  model.initializer(weights).output("w");
  const auto graph = import_onnx(folder.write("model.onnx", model.bytes()));
  return graph ? "" : graph.error().message;
}

TEST(Import, ReadsExternalData) {
  const Folder folder;
  const float values[] = {0, 1.5F, -2};
  const std::string path =
      folder.write("w.bin", std::string(reinterpret_cast<const char*>(values), sizeof values));
  EXPECT_EQ(file_error(folder, external("w.bin", "4", "8")), "");
  EXPECT_EQ(file_error(folder, external("w.bin", "4", "")), "");
  ModelBuilder model;
  model.initializer(external("w.bin", "4", "8")).output("w");
  auto graph = import_onnx(folder.write("model.onnx", model.bytes()));
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const auto outputs = evaluate(*graph, {});
  ASSERT_TRUE(outputs.has_value());
  expect_tensor((*outputs)[0], DType::F32, {2}, {1.5, -2});
}

TEST(Import, RefusesExternalDataThatIsMissingShortOrElsewhere) {
  const Folder folder;
  static_cast<void>(folder.write("w.bin", std::string(8, '\0')));
  EXPECT_THAT(file_error(folder, external("none.bin", "", "")), HasSubstr("none.bin"));
  EXPECT_THAT(file_error(folder, external("none.bin", "", "")), HasSubstr("initializer 'w'"));
  EXPECT_THAT(file_error(folder, external("../w.bin", "", "")), HasSubstr("refused"));
  EXPECT_THAT(file_error(folder, external("a/../../w.bin", "", "")), HasSubstr("refused"));
  EXPECT_THAT(file_error(folder, external("/etc/passwd", "", "")), HasSubstr("refused"));
  EXPECT_THAT(file_error(folder, external("", "", "")), HasSubstr("names no file"));
  EXPECT_THAT(file_error(folder, external("w.bin", "4", "8")), HasSubstr("incomplete"));
  EXPECT_THAT(file_error(folder, external("w.bin", "18446744073709551615", "8")),
              HasSubstr("incomplete"));
  EXPECT_THAT(file_error(folder, external("w.bin", "-4", "8")), HasSubstr("-4"));
  EXPECT_THAT(file_error(folder, external("w.bin", "0", "4")), HasSubstr("has 4 bytes"));
}

TEST(Import, MapsWeightsInsteadOfCopyingThem) {
  const Folder folder;
  ModelBuilder model;
  model.initializer(tensor_proto<float>("w", {4}, {1, 2, 3, 4})).output("w");
  // Some padding puts the raw bytes at a multiple of four.
  for (std::size_t padding = 0; padding < 4; ++padding) {
    model.proto.set_doc_string(std::string(padding, ' '));
    auto graph = import_onnx(folder.write("model.onnx", model.bytes()));
    ASSERT_TRUE(graph.has_value());
    const Tensor value = graph->outputs()[0].value->producer()->attributes().tensor("value");
    *graph = Graph();  // the tensor alone keeps the file mapped
    expect_tensor(value, DType::F32, {4}, {1, 2, 3, 4});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(value.data()) % 4, 0U);
  }
}

TEST(Import, ReadsTensorFiles) {
  const Folder folder;
  const auto proto = tensor_proto<std::int64_t>("t", {2, 1}, {5, -6});
  const auto read = read_tensor_pb(folder.write("t.pb", proto.SerializeAsString()));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  expect_tensor(*read, DType::I64, {2, 1}, {5, -6});
  EXPECT_FALSE(read_tensor_pb(folder.write("bad.pb", "\x01\x02\x03")).has_value());
  EXPECT_FALSE(read_tensor_pb("/nowhere/t.pb").has_value());
}

TEST(Import, InspectsModels) {
  ModelBuilder model = add_model();
  model.node("Compress", {"y"}, {"n"});
  model.node("Foo", {"y"}, {"f"}).domain("com.example");
  model.proto.set_producer_name("someone");
  const Folder folder;
  const auto info = inspect_onnx(folder.write("model.onnx", model.bytes()));
  ASSERT_TRUE(info.has_value()) << info.error().message;
  EXPECT_EQ(info->opset, 17);
  EXPECT_EQ(info->producer, "someone");
  ASSERT_EQ(info->inputs.size(), 1U);
  EXPECT_EQ(info->inputs[0].type, "f32[batch, 3]");
  EXPECT_EQ(info->operators.at("Add"), 1);
  ASSERT_EQ(info->unsupported.size(), 2U);
  EXPECT_EQ(info->unsupported[0].op, "Compress");
  EXPECT_EQ(info->unsupported[1].op, "com.example.Foo");
}

// ---- functions and branches ----

// Scaled(x) = x * factor + x, with the factor an attribute of the call.
ModelBuilder function_model() {
  ModelBuilder model;
  model.proto.add_opset_import()->set_domain("local");
  model.proto.mutable_opset_import(1)->set_version(1);
  auto* function = model.proto.add_functions();
  function->set_name("Scaled");
  function->set_domain("local");
  function->add_input("a");
  function->add_output("b");
  function->add_attribute("factor");
  function->add_opset_import()->set_version(17);
  add_node(*function, "Constant", {}, {"f"})
      .refer("value_float", "factor", onnx::AttributeProto::FLOAT);
  add_node(*function, "Mul", {"a", "f"}, {"m"}).name("Mul");
  add_node(*function, "Add", {"m", "a"}, {"b"}).name("Add");
  model.input("x", {"2"}).output("y");
  return model;
}

TEST(Import, InlinesFunctions) {
  ModelBuilder model = function_model();
  model.node("Scaled", {"x"}, {"t"}).domain("local").name("/block.0").set("factor", 2.0);
  model.node("Scaled", {"t"}, {"y"}).domain("local").name("/block.1/Scaled").set("factor", 3.0);
  expect_output(model, {floats({2}, {1, -2})}, DType::F32, {2}, {12, -24});
  const auto graph = model.import();
  ASSERT_TRUE(graph.has_value());
  EXPECT_EQ(graph->outputs()[0].value->producer()->source().name, "/block.1/Scaled/Add");
  EXPECT_EQ(graph->outputs()[0].value->producer()->source().scope, "block.1");
}

TEST(Import, NodesHaveTheStreamOfTheirMetadata) {
  ModelBuilder model = function_model();
  model.node("Neg", {"x"}, {"n"}).metadata("layer", "0").metadata("stream", "copy");
  model.node("Neg", {"n"}, {"m"}).metadata("layer", "0");
  model.node("Scaled", {"m"}, {"t"}).domain("local").set("factor", 2.0).metadata("stream", "two");
  model.node("Identity", {"t"}, {"y"});
  const auto graph = model.import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  std::vector<std::pair<std::string, std::string>> streams;
  for (const auto& node : graph->nodes()) {
    if (node->op() != "constant") streams.emplace_back(node->op(), node->source().stream);
  }
  // What a function is made of is where its call is.
  EXPECT_THAT(streams, ElementsAre(Pair("neg", "copy"), Pair("neg", ""), Pair("mul", "two"),
                                   Pair("add", "two")));
}

TEST(Import, NodesAreOfTheLayerOfTheirNameOrElseOfTheirNamespace) {
  ModelBuilder model;
  model.input("x", {"2"}).output("y");
  const char* const modules = ": pkg.Model/model.layers.3: pkg.Layer/neg: aten.neg.default";
  model.node("Neg", {"x"}, {"a"}).name("node_neg_7").metadata("namespace", modules);
  model.node("Neg", {"a"}, {"b"}).name("/h.1/neg").metadata("namespace", modules);
  model.node("Neg", {"b"}, {"y"}).name("node_neg_8").metadata("namespace", ": pkg.Model/neg: neg");
  const auto graph = model.import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  std::vector<std::string> layers;
  for (const auto& node : graph->nodes()) layers.push_back(node->source().scope);
  EXPECT_THAT(layers, ElementsAre("model.layers.3", "h.1", ""));
}

TEST(Import, RefusesFunctionsThatCallThemselves) {
  ModelBuilder model = function_model();
  model.node("Scaled", {"x"}, {"y"}).domain("local").set("factor", 2.0);
  add_node(*model.proto.mutable_functions(0), "Scaled", {"b"}, {"c"}).domain("local");
  EXPECT_THAT(import_error(model), HasSubstr("calls itself"));
}

TEST(Import, TakesTheBranchOfAKnownCondition) {
  for (const bool condition : {true, false}) {
    ModelBuilder model;
    model.input("x", {"2"}).output("y");
    model.initializer(tensor_proto<std::uint8_t>("c", {}, {condition}));
    model.node("Not", {"c"}, {"n"});  // the condition is computed
    onnx::GraphProto negate;
    add_node(negate, "Neg", {"x"}, {"r"});  // reads a name from outside
    negate.add_output()->set_name("r");
    onnx::GraphProto keep;
    add_node(keep, "Identity", {"x"}, {"r"});
    add_node(keep, "Compress", {"x"}, {"never"});
    keep.add_output()->set_name("r");
    if (condition) keep.mutable_node()->RemoveLast();  // only a branch that is taken must be known
    model.node("If", {"n"}, {"y"}).set("then_branch", negate).set("else_branch", keep);
    const double sign = condition ? 1 : -1;
    expect_output(model, {floats({2}, {1, 2})}, DType::F32, {2}, {sign, sign * 2});
  }
}

TEST(Import, RefusesOtherControlFlow) {
  ModelBuilder model;
  model.input("c", {}, onnx::TensorProto::BOOL).output("y");
  onnx::GraphProto branch;
  add_node(branch, "Identity", {"c"}, {"r"});
  branch.add_output()->set_name("r");
  model.node("If", {"c"}, {"y"}).name("choice").set("then_branch", branch);
  EXPECT_THAT(import_error(model), HasSubstr("model.onnx: node 'choice' (If): its condition"));
  ModelBuilder loop;
  loop.input("x", {"2"}).output("y");
  loop.node("Loop", {"", "", "x"}, {"y"}).name("repeat").set("body", branch);
  EXPECT_THAT(import_error(loop), HasSubstr("node 'repeat' (Loop)"));
}

}  // namespace
}  // namespace opweld
