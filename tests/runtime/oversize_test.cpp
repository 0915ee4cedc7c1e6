// What is said of tensors for which there is no room: which, of which type, whose, and the way out.
#include "runtime/oversize.h"

#include <gmock/gmock.h>

#include "compile.h"
#include "ops/builder.h"
#include "report/account.h"

namespace opweld {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

Executable compiled(const std::string& text, FusionLevel level = FusionLevel::None) {
  CompileOptions options;
  options.level = level;
  options.threads = 1;
  return std::move(compile(parse_graph(text).value(), options).value().executable);
}

// Inputs of a few megabytes at the most, which nothing touches.
Expected<std::vector<Tensor>> run_with_sizes(const std::string& text, std::int64_t size,
                                             FusionLevel level = FusionLevel::None) {
  Executable model = compiled(text, level);
  std::vector<Tensor> inputs;
  for (const Value* input : model.graph().inputs()) {
    Bindings sizes;
    for (const Dim& symbol : model.graph().symbols()) sizes.set(symbol.as_symbol()->name, size);
    inputs.push_back(
        Tensor::allocate(input->dtype(), evaluate(input->shape(), sizes).value()).value());
  }
  return model.run(inputs);
}

// x, y and z spread over each other; what is summed up is far larger than any of them.
const std::string kSpread = R"(graph g(%x: f32[a, 1, 1], %y: f32[1, b, 1], %z: f32[1, 1, c]) {
  %p = mul(%x, %y) @"/spread/first"
  %q = mul(%p, %z) @"/spread/second"
  %r = reduce_sum(%q) {axes = [0, 1, 2]} @"/sum"
  return %r as "r" })";

TEST(Oversize, AnIntermediateThatMemoryDoesNotHold) {
  const auto result = run_with_sizes(kSpread, 1 << 18);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::Failure);
  EXPECT_THAT(result.error().message,
              AllOf(HasSubstr("out of memory: the intermediate tensors of a run need "),
                    HasSubstr("the largest is f32[262144, 262144, 262144], made by mul "
                              "'/spread/second'"),
                    EndsWith("Smaller sizes need less (a = 262144, b = 262144, c = 262144)")));
}

TEST(Oversize, AnIntermediateThatCannotBeAddressed) {
  for (const std::int64_t size : {1 << 20, 1 << 22}) {
    const auto result = run_with_sizes(kSpread, size);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::Usage);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("too large to address: f32["), HasSubstr("made by mul '/spread/"),
                      HasSubstr(fmt::format("b = {}", size))));
  }
}

TEST(Oversize, AnOutput) {
  const std::string text = R"(graph g(%x: f32[a, 1], %y: f32[1, b]) {
    %p = mul(%x, %y) @"/outer"
    return %p as "p" })";
  const auto result = run_with_sizes(text, std::int64_t{1} << 24);
  if (!result) {
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("out of memory: the elements of output 'p' need "),
                      HasSubstr("f32[16777216, 16777216], made by mul '/outer'"),
                      HasSubstr("a = 16777216")));
  } else {
    ADD_FAILURE() << "a petabyte was there";
  }
}

TEST(Oversize, ASizeThatCannotBeRepresented) {
  const std::string text = R"(graph g(%x: f32[a, 1, 1], %y: f32[1, b, 1], %z: f32[1, 1, c]) {
    %p = mul(%x, %y)
    %q = mul(%p, %z)
    %r = reshape(%q) {shape = <a*b*c>} @"/flat"
    %s = neg(%r) @"/neg"
    return %s as "s" })";
  const auto result = run_with_sizes(text, 1 << 22);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::Usage);
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("made by "), HasSubstr("c = 4194304")));
}

TEST(Oversize, AnAccountNamesTheKernel) {
  Executable model = compiled(kSpread);
  const Bindings sizes = {{"a", 1 << 22}, {"b", 1 << 22}, {"c", 1 << 22}};
  const auto traffic = total_traffic(model.plan(), sizes);
  ASSERT_FALSE(traffic);
  EXPECT_THAT(traffic.error().message, HasSubstr("made by mul '/spread/"));
}

TEST(Oversize, SaysOfFixedSizesThatTheyAre) {
  const Graph graph = parse_graph("graph g(%x: f32[2, 3]) { return %x as \"y\" }").value();
  EXPECT_EQ(tensor_text(*graph.inputs()[0], {}), "f32[2, 3], input 'x'");
  const auto error = out_of_memory("the buffers", 7, tensor_text(*graph.inputs()[0], {}), {});
  EXPECT_THAT(error.value().message,
              AllOf(HasSubstr("the buffers need 7 bytes; the largest is f32[2, 3], input 'x'. "),
                    HasSubstr("All sizes of the model are fixed")));
}

}  // namespace
}  // namespace opweld
