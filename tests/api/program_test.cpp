// Loading, compiling, running and reading the account.
#include "opweld/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "compute.h"
#include "opweld/functions.h"
#include "opweld/model.h"

namespace opweld {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using testing::message_of;

// y = gelu(x w) + x, z = row maxima of it.
Model small_model() {
  static const std::vector<float> kWeights = [] {
    std::vector<float> values(64);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
    return values;
  }();
  GraphBuilder builder("small");
  const GraphTensor x = builder.input("x", DType::F32, {"batch", "s", 8});
  const GraphTensor w = builder.weight("w", TensorView(kWeights, {8, 8}));
  const GraphTensor y = gelu(matmul(x, w)) + x;
  builder.output("y", y);
  builder.output("z", reduce_max(y, {-1}, false));
  return builder.finish().value();
}

std::vector<float> ramp(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 11) / 8 - 0.5F);
  return values;
}

TEST(Program, OneCompileServesEveryLength) {
  const Program fused = small_model().compile().value();
  const Program plain = small_model().compile({.fusion = FusionLevel::None}).value();
  for (const std::int64_t length : {1, 3, 7, 8, 15, 16, 17, 31, 33, 640}) {
    const std::vector<float> x = ramp(2 * length * 8);
    const TensorView view(x, {2, length, 8});
    const auto a = fused.run({view});
    const auto b = plain.run({view});
    ASSERT_TRUE(a && b) << message_of(a) << message_of(b);
    EXPECT_EQ((*a)[0].sizes(), (Sizes{2, length, 8}));
    EXPECT_EQ((*a)[1].sizes(), (Sizes{2, length}));
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT((*a)[i].to_doubles(),
                  ::testing::Pointwise(::testing::DoubleNear(1e-5), (*b)[i].to_doubles()));
    }
  }
}

TEST(Program, AnEmptyBatchGivesEmptyResults) {
  const auto outputs =
      small_model().compile()->run({TensorView(DType::F32, {0, 5, 8}, nullptr, 0)});
  ASSERT_TRUE(outputs) << message_of(outputs);
  EXPECT_EQ((*outputs)[0].sizes(), (Sizes{0, 5, 8}));
  EXPECT_TRUE((*outputs)[0].to_doubles().empty());
}

TEST(Program, StrictIsBitIdenticalToUnfused) {
  const std::vector<float> x = ramp(33 * 8);
  std::vector<std::vector<double>> results;
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
    const auto program = small_model().compile({.fusion = level, .numerics = Numerics::Strict});
    results.push_back(program->run({TensorView(x, {1, 33, 8})})->front().to_doubles());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Program, RunsIntoTheCallersMemory) {
  const Program program = small_model().compile().value();
  const std::vector<float> x = ramp(24);
  const auto expected = program.run({TensorView(x, {1, 3, 8})}).value();
  EXPECT_EQ(program.output_sizes({{1, 3, 8}}).value(), (std::vector<Sizes>{{1, 3, 8}, {1, 3}}));
  std::vector<float> y(24);
  std::vector<float> z(3);
  RunReport report;
  const auto done =
      program.run_into({TensorView(x, {1, 3, 8})},
                       {MutableTensorView(y, {1, 3, 8}), MutableTensorView(z, {1, 3})}, &report);
  ASSERT_TRUE(done) << message_of(done);
  EXPECT_THAT(expected[0].elements<float>().value(), ::testing::ElementsAreArray(y));
  EXPECT_THAT(expected[1].elements<float>().value(), ::testing::ElementsAreArray(z));
  const Account account = program.account({{"batch", 1}, {"s", 3}}).value();
  EXPECT_EQ(report.kernels, std::ssize(account.kernels));
  EXPECT_EQ(report.kernel_seconds.size(), account.kernels.size());
  EXPECT_EQ(report.bytes_read, account.bytes_read);
  EXPECT_EQ(report.bytes_written, account.bytes_written);
}

// A cache of 6 positions that two rows are appended to, in the memory that it lies in.
TEST(Program, UpdatesACacheInPlace) {
  GraphBuilder builder("cache");
  const GraphTensor past = builder.input("past", DType::F32, {1, 6, 4});
  const GraphTensor x = builder.input("x", DType::F32, {1, "s", 4});
  const GraphTensor at = builder.input("at", DType::I64, {1});
  builder.output("present",
                 builder.op("tensor_scatter", {past, -x, at}, {{"axis", 1}, {"mode", "linear"}}));
  const Model model = builder.finish().value();
  CompileSettings settings;
  settings.in_place["present"] = "past";
  const Program program = model.compile(settings).value();
  std::vector<float> cache(24, 9);
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<std::int64_t> position = {3};
  const auto append = [&] {
    return program.run_into(
        {TensorView(cache, {1, 6, 4}), TensorView(rows, {1, 2, 4}), TensorView(position, {1})},
        {MutableTensorView(cache, {1, 6, 4})});
  };
  ASSERT_TRUE(append());
  std::vector<float> expected(24, 9);
  for (std::size_t i = 0; i < rows.size(); ++i) expected[12 + i] = -rows[i];
  EXPECT_EQ(cache, expected);
  position = {5};
  EXPECT_THAT(message_of(append()), HasSubstr("write index 5"));
  EXPECT_EQ(cache, expected);

  settings.in_place = {{"present", "x"}};
  EXPECT_THAT(message_of(model.compile(settings)), HasSubstr("must be of one type"));
  settings.in_place = {{"future", "past"}};
  EXPECT_THAT(message_of(model.compile(settings)), HasSubstr("no output 'future'"));
  const Program copying = model.compile().value();
  EXPECT_THAT(copying.account({{"s", 1}}).value().notes,
              Contains(HasSubstr("declare it in place (present=past)")));
}

TEST(Program, RunsByName) {
  const Program program = small_model().compile().value();
  const std::vector<float> x = ramp(8);
  const auto outputs = program.run_named({{"x", TensorView(x, {1, 1, 8})}});
  ASSERT_TRUE(outputs) << message_of(outputs);
  EXPECT_EQ(outputs->at("z").to_doubles(),
            program.run({TensorView(x, {1, 1, 8})}).value()[1].to_doubles());
  EXPECT_THAT(message_of(program.run_named({})), HasSubstr("'x' is missing"));
  EXPECT_THAT(message_of(program.run_named(
                  {{"x", TensorView(x, {1, 1, 8})}, {"q", TensorView(x, {1, 1, 8})}})),
              AllOf(HasSubstr("no input 'q'"), HasSubstr("x")));
}

TEST(Program, SeveralThreadsMayRunIt) {
  const Program program = small_model().compile({.threads = 2}).value();
  const std::vector<float> x = ramp(17 * 8);
  const auto expected = program.run({TensorView(x, {1, 17, 8})}).value()[0].to_doubles();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int run = 0; run < 10; ++run) {
        const std::int64_t length = i % 2 == 0 ? 17 : 9;
        const std::span<const float> part(x.data(), static_cast<std::size_t>(length) * 8);
        const auto y = program.run({TensorView(part, {1, length, 8})}).value()[0].to_doubles();
        EXPECT_TRUE(std::equal(y.begin(), y.end(), expected.begin()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Program, RunsInASingleLaunch) {
  const Program apart = small_model().compile({.fusion = FusionLevel::None}).value();
  const Program together =
      small_model().compile({.fusion = FusionLevel::None, .single_launch = true}).value();
  const std::vector<float> x = ramp(2 * 33 * 8);
  const TensorView view(x, {2, 33, 8});
  RunReport report;
  const auto expected = apart.run({view}, &report).value();
  EXPECT_EQ(report.launches, report.kernels);
  EXPECT_EQ(report.barriers, 0);
  const auto outputs = together.run({view}, &report).value();
  EXPECT_EQ(report.launches, 1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(outputs[i].to_doubles(), expected[i].to_doubles());
  std::vector<float> y(x.size());
  std::vector<float> z(66);
  ASSERT_TRUE(together.run_into(
      {view}, {MutableTensorView(y, {2, 33, 8}), MutableTensorView(z, {2, 33})}, &report));
  EXPECT_EQ(report.launches, 1);
  EXPECT_EQ(outputs[0].to_doubles(), std::vector<double>(y.begin(), y.end()));

  // matmul, gelu, add, reduce_max: each reads the one before.
  const SymbolValues sizes{{"batch", 2}, {"s", 33}};
  const Account account = together.account(sizes).value();
  EXPECT_EQ(account.launches, 1);
  EXPECT_EQ(account.barriers, report.barriers);
  EXPECT_EQ(account.kernels.front().stretch, 0);
  EXPECT_EQ(account.kernels.back().stretch, account.barriers);
  EXPECT_THAT(together.account_json(sizes).value(),
              HasSubstr(fmt::format("\"launches\":1,\"barriers\":{}", account.barriers)));
  EXPECT_EQ(apart.account(sizes)->launches, 4);
  EXPECT_EQ(apart.account(sizes)->barriers, 0);
}

TEST(Program, TellsItsTypes) {
  const Program program = small_model().compile({.threads = 1}).value();
  EXPECT_EQ(program.inputs()[0].to_string(), "x: f32[batch, s, 8]");
  EXPECT_EQ(program.outputs()[1].to_string(), "z: f32[batch, s]");
  EXPECT_EQ(program.threads(), 1);
  EXPECT_GT(program.compile_seconds(), 0);
}

// ---- the account ----

TEST(ProgramAccount, CountsWhatCrossesKernels) {
  GraphBuilder builder;
  const GraphTensor x = builder.input("x", DType::F32, {"n"});
  builder.output("y", exp(x) * 2);
  const Model model = builder.finish().value();
  const auto fused = model.compile()->account({{"n", 1000}});
  ASSERT_TRUE(fused) << message_of(fused);
  ASSERT_EQ(fused->kernels.size(), 1U);
  EXPECT_EQ(fused->kernels[0].operators, "exp + mul");
  EXPECT_EQ(fused->bytes_written, 4000);
  EXPECT_THAT(fused->edges, Contains(Field(&EdgeAccount::fused, true)));
  EXPECT_THAT(fused->log,
              Contains(HasSubstr("AutoFusion: exp + mul -> FusedKernel_0 saves 8.0 kB")));

  const auto plain = model.compile({.fusion = FusionLevel::None})->account({{"n", 1000}});
  ASSERT_EQ(plain->kernels.size(), 2U);
  EXPECT_EQ(plain->bytes_written, 8000);
  EXPECT_EQ(plain->bytes_read, fused->bytes_read + 4000);
  ASSERT_EQ(plain->edges.size(), 1U);
  EXPECT_EQ(plain->edges[0].code, "F-LEVEL");
  EXPECT_THAT(plain->edges[0].remedy, HasSubstr("auto"));
  EXPECT_THAT(plain->log, Contains(HasSubstr("[F-LEVEL]")));

  const auto json = model.compile()->account_json({{"n", 1000}});
  ASSERT_TRUE(json);
  EXPECT_THAT(*json, AllOf(HasSubstr(R"("totals")"), HasSubstr(R"("written_bytes":4000)")));
}

TEST(ProgramAccount, WantsAValueForEverySymbol) {
  const Program program = small_model().compile().value();
  EXPECT_THAT(message_of(program.account({{"s", 4}})), HasSubstr("'batch' has no value"));
  EXPECT_THAT(message_of(program.account({{"s", 4}, {"batch", 1}, {"t", 1}})),
              AllOf(HasSubstr("no free size 't'"), HasSubstr("batch, s")));
  EXPECT_THAT(message_of(program.account({{"s", -4}, {"batch", 1}})), HasSubstr("-4"));
  EXPECT_THAT(message_of(program.account_json({})), HasSubstr("has no value"));
  // Beyond 64 bits.
  EXPECT_FALSE(program.account({{"s", INT64_C(1) << 40}, {"batch", INT64_C(1) << 40}}));
}

// ---- used wrongly ----

TEST(ProgramMisuse, Inputs) {
  const Program program = small_model().compile().value();
  const std::vector<float> x = ramp(24);
  const std::vector<double> doubles(24);
  const auto failure = [&](const std::vector<TensorView>& inputs) {
    const auto outputs = program.run(inputs);
    EXPECT_FALSE(outputs);
    EXPECT_EQ(outputs.error().kind, ErrorKind::Usage);
    return message_of(outputs);
  };
  EXPECT_THAT(failure({}), HasSubstr("1 inputs, but 0"));
  EXPECT_THAT(failure({TensorView(x, {1, 3, 8}), TensorView(x, {1, 3, 8})}), HasSubstr("2"));
  EXPECT_THAT(failure({TensorView(doubles, {1, 3, 8})}), AllOf(HasSubstr("'x'"), HasSubstr("f64")));
  EXPECT_THAT(failure({TensorView(x, {3, 8})}), AllOf(HasSubstr("'x'"), HasSubstr("rank")));
  EXPECT_THAT(failure({TensorView(x, {1, 4, 6})}), AllOf(HasSubstr("axis 2"), HasSubstr("8")));
  EXPECT_THAT(failure({TensorView(x, {1, 4, 8})}), AllOf(HasSubstr("128 bytes"), HasSubstr("96")));
  EXPECT_THAT(failure({TensorView(x, {1, 2, 8})}), HasSubstr("96"));
  EXPECT_THAT(failure({TensorView(DType::F32, {1, 3, 8}, nullptr, 96)}), HasSubstr("null"));
  EXPECT_THAT(failure({TensorView()}), HasSubstr("'x'"));
  EXPECT_THAT(failure({TensorView(x, {-1, -3, 8})}), HasSubstr("'x'"));
  EXPECT_THAT(failure({TensorView(DType::F32, {INT64_MAX, 3, 8}, x.data(), 96)}),
              HasSubstr("too large"));
  EXPECT_THAT(failure({TensorView(static_cast<DType>(99), {1, 3, 8}, x.data(), 96)}),
              HasSubstr("dtype"));
  EXPECT_THAT(message_of(program.output_sizes({{1, -3, 8}})), HasSubstr("'x'"));
  EXPECT_THAT(message_of(program.output_sizes({})), HasSubstr("1 inputs, but 0"));
  EXPECT_TRUE(program.run({TensorView(x, {1, 3, 8})}));  // which none of these has spoilt
}

TEST(ProgramMisuse, Outputs) {
  const Program program = small_model().compile().value();
  std::vector<float> x = ramp(24);
  std::vector<float> y(24);
  std::vector<float> z(3);
  const auto failure = [&](const std::vector<MutableTensorView>& outputs) {
    const auto done = program.run_into({TensorView(x, {1, 3, 8})}, outputs);
    EXPECT_FALSE(done);
    return message_of(done);
  };
  EXPECT_THAT(failure({}), HasSubstr("2 outputs, but 0"));
  EXPECT_THAT(failure({MutableTensorView(y, {1, 3, 8})}), HasSubstr("2 outputs, but 1"));
  EXPECT_THAT(failure({MutableTensorView(y, {3, 8}), MutableTensorView(z, {1, 3})}),
              AllOf(HasSubstr("'y'"), HasSubstr("f32[1, 3, 8]")));
  EXPECT_THAT(failure({MutableTensorView(y, {1, 3, 9}), MutableTensorView(z, {1, 3})}),
              HasSubstr("bytes"));
  EXPECT_THAT(failure({MutableTensorView(y, {1, 3, 8}),
                       MutableTensorView(DType::F32, {1, 3}, nullptr, 12)}),
              AllOf(HasSubstr("'z'"), HasSubstr("null")));
  EXPECT_THAT(failure({MutableTensorView(x, {1, 3, 8}), MutableTensorView(z, {1, 3})}),
              HasSubstr("overlaps"));
  EXPECT_THAT(failure({MutableTensorView(y, {1, 3, 8}),
                       MutableTensorView(DType::F32, {1, 3}, y.data() + 4, 12)}),
              HasSubstr("'z' overlaps"));
}

TEST(ProgramMisuse, IndicesOutOfRangeFailAtRunTime) {
  GraphBuilder builder;
  const GraphTensor table = builder.input("table", DType::F32, {4, 2});
  builder.output("y", gather(table, builder.input("ids", DType::I64, {"n"})));
  const Program program = builder.finish()->compile().value();
  const std::vector<float> rows = ramp(8);
  EXPECT_TRUE(
      program.run({TensorView(rows, {4, 2}), TensorView(std::vector<std::int64_t>{3, -4}, {2})}));
  const auto outputs =
      program.run({TensorView(rows, {4, 2}), TensorView(std::vector<std::int64_t>{3, 4}, {2})});
  EXPECT_FALSE(outputs);
  EXPECT_EQ(outputs.error().kind, ErrorKind::Failure);
}

TEST(ProgramMisuse, Settings) {
  const Model model = small_model();
  EXPECT_THAT(message_of(model.compile({.target = "pdp-11"})),
              AllOf(HasSubstr("pdp-11"), HasSubstr("host-generic")));
  EXPECT_THAT(message_of(model.compile({.threads = -1})), HasSubstr("[0, 1024]"));
  EXPECT_THAT(message_of(model.compile({.threads = 1 << 30})), HasSubstr("[0, 1024]"));
  EXPECT_THAT(message_of(model.compile({.fusion = static_cast<FusionLevel>(7)})),
              HasSubstr("fusion"));
  EXPECT_THAT(message_of(model.compile({.numerics = static_cast<Numerics>(7)})),
              HasSubstr("numerics"));
}

TEST(ProgramMisuse, FilesAndTexts) {
  EXPECT_THAT(message_of(Model::load("no/such/model.onnx")), HasSubstr("no/such/model.onnx"));
  EXPECT_THAT(message_of(Model::load("no/such/model.graph")), HasSubstr("no/such/model.graph"));
  EXPECT_FALSE(Model::load(""));
  EXPECT_THAT(message_of(Model::parse("graph g(%x: f32[s]) { return %y as \"y\" }")),
              HasSubstr("line 1"));
  EXPECT_FALSE(Model::parse(""));
}

TEST(Model, LoadsATextFile) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("opweld_model_" + std::to_string(getpid()) + ".graph");
  std::ofstream(path) << "graph g(%x: f32[s]) { %y = exp(%x) return %y as \"y\" }";
  const auto model = Model::load(path.string());
  std::filesystem::remove(path);
  ASSERT_TRUE(model) << message_of(model);
  const auto y = model->compile()->run({TensorView(std::vector<float>{0}, {1})});
  EXPECT_THAT(y->front().to_doubles(), ElementsAre(1));
}

// ---- tensors ----

TEST(Model, TellsWhatItMeansInDoublePrecision) {
  const auto model = Model::parse(
      "graph g(%x: f32[n], %i: i64[n]) { %y = reciprocal(%x) %z = add(%i, %i) "
      "return %y as \"y\", %z as \"z\", %x as \"same\" }");
  ASSERT_TRUE(model) << message_of(model);
  const std::vector<float> x = {3, 7};
  const std::vector<std::int64_t> i = {4, 5};
  const auto outputs = model->reference({TensorView(x, {2}), TensorView(i, {2})});
  ASSERT_TRUE(outputs) << message_of(outputs);
  EXPECT_EQ((*outputs)[0].dtype(), DType::F64);
  EXPECT_THAT((*outputs)[0].to_doubles(), ElementsAre(1.0 / 3, 1.0 / 7));
  EXPECT_EQ((*outputs)[1].dtype(), DType::I64);
  EXPECT_THAT((*outputs)[1].to_doubles(), ElementsAre(8, 10));
  EXPECT_THAT((*outputs)[2].to_doubles(), ElementsAre(3, 7));
  EXPECT_NE((*outputs)[2].data(), static_cast<const void*>(x.data()));
  const auto wrong = model->reference({TensorView(x, {2}), TensorView(x, {2})});
  EXPECT_THAT(message_of(wrong), HasSubstr("'i'"));
  EXPECT_EQ(wrong.error().kind, ErrorKind::Usage);
}

TEST(HostTensor, OwnsConvertsAndChecks) {
  const std::vector<float> values = {1, 2, 3};
  HostTensor copy = HostTensor::copy_of(TensorView(values, {3})).value();
  copy.elements<float>().value()[1] = 7;
  EXPECT_THAT(copy.to_doubles(), ElementsAre(1, 7, 3));
  EXPECT_EQ(values[1], 2);
  EXPECT_THAT(message_of(copy.elements<double>()), AllOf(HasSubstr("f32"), HasSubstr("f64")));
  EXPECT_TRUE(HostTensor().to_doubles().empty());
  EXPECT_FALSE(HostTensor::allocate(DType::F32, {-1}));
  EXPECT_FALSE(HostTensor::allocate(DType::F32, {INT64_MAX, 8}));
  EXPECT_FALSE(HostTensor::allocate(static_cast<DType>(40), {1}));
  EXPECT_FALSE(HostTensor::copy_of(TensorView(values, {4})));
  const std::vector<std::uint16_t> half = {0x3c00, 0xc000};  // 1 and -2
  const HostTensor halves =
      HostTensor::copy_of(TensorView(DType::F16, {2}, half.data(), 4)).value();
  EXPECT_THAT(halves.to_doubles(), ElementsAre(1, -2));
  EXPECT_EQ(HostTensor::allocate(DType::I64, {}).value().num_bytes(), 8U);
  HostTensor moved = std::move(copy);
  EXPECT_THAT(moved.to_doubles(), ElementsAre(1, 7, 3));
}

}  // namespace
}  // namespace opweld
