// Plugins by way of the public interface alone.
#include <algorithm>
#include <cmath>

#include "api/compute.h"

namespace opweld {
namespace {

using testing::compute;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PluginInterface, TellsWhatIsLoaded) {
  const Result<PluginInfo> info = load_plugin(OPWELD_EXAMPLE_PLUGIN);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->name, "example");
  EXPECT_EQ(info->version, "1.0");
  EXPECT_THAT(info->operators,
              ElementsAre("com.example.SoftCap", "com.example.ScaleNorm", "com.example.SortRows"));
  const auto all = loaded_plugins();
  EXPECT_TRUE(std::ranges::any_of(all, [&](const auto& each) { return each.path == info->path; }));
}

TEST(PluginInterface, SaysWhatIsWrong) {
  const Result<PluginInfo> none = load_plugin("no/such/file.so");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "plugin 'no/such/file.so': no such file");
}

TEST(PluginInterface, ItsOperatorsAreBuiltByName) {
  ASSERT_TRUE(load_plugin(OPWELD_EXAMPLE_PLUGIN));
  const auto values =
      compute({{{3}, {3, -1, 0}}}, [](GraphBuilder& builder, const std::vector<GraphTensor>& x) {
        const auto capped = builder.op("com.example.SoftCap", {x[0]}, {{"limit", 2.0}});
        return builder.op("com.example.SortRows", {capped});
      });
  EXPECT_THAT(values, ElementsAre(DoubleNear(2 * std::tanh(-0.5), 1e-6), 0,
                                  DoubleNear(2 * std::tanh(1.5), 1e-6)));
  GraphBuilder builder;
  builder.op("com.example.SoftCap", {builder.input("x", DType::I32, {3})});
  ASSERT_FALSE(builder.status());
  EXPECT_THAT(builder.status().error().message, HasSubstr("operand 'x' cannot be i32"));
}

}  // namespace
}  // namespace opweld
