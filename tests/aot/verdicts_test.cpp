// Of a model that was read from its file the same is told as of the one that was compiled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "aot/written_model.h"
#include "compiled_account.h"
#include "fusion/random_model.h"
#include "report/account.h"
#include "report/why.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;

// Compiled, and read again from a file that was written with what there is to tell.
class ToldTwice {
 public:
  explicit ToldTwice(Graph graph) : compiled_(compile_it(std::move(graph))) {
    const std::string path = folder_.path() + "/model.opw";
    record_ = to_json(compiled_.executable.graph(), account_record(compiled_, "m", sizes(7)));
    const aot::Origin origin{"test", "host", compiled_.features, "auto", false, 2};
    const Status written = aot::write_model(path, compiled_.executable, origin, "{}", record_);
    EXPECT_TRUE(written) << written.error().message;
    auto loaded = aot::load_model_file(path);
    EXPECT_TRUE(loaded) << loaded.error().message;
    loaded_ = std::make_unique<aot::LoadedModel>(std::move(*loaded));
  }

  [[nodiscard]] const Compiled& compiled() const { return compiled_; }
  [[nodiscard]] const Executable& executable() const { return loaded_->executable; }
  [[nodiscard]] const std::string& record() const { return record_; }
  [[nodiscard]] AccountRecord read() const {
    EXPECT_EQ(loaded_->verdicts, record_);
    auto record = parse_account_record(loaded_->executable, loaded_->verdicts);
    EXPECT_TRUE(record) << record.error().message;
    return std::move(*record);
  }

  // Every free size the same.
  [[nodiscard]] Bindings sizes(std::int64_t size) const {
    Bindings bindings;
    for (const Dim& dim : compiled_.executable.graph().symbols()) {
      bindings.set(dim.as_symbol()->name, size);
    }
    return bindings;
  }

 private:
  static Compiled compile_it(Graph graph) {
    CompileOptions options;
    options.keep_objects = true;
    options.history = true;
    options.threads = 2;
    auto made = compile(std::move(graph), options);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }

  TemporaryFolder folder_;
  Compiled compiled_;
  std::string record_;
  std::unique_ptr<aot::LoadedModel> loaded_;
};

std::string told(const Executable& executable, const FusionPlan& plan, const History& history,
                 const Bindings& sizes) {
  const ModelNames names(executable.graph(), &history);
  const LaunchAccount launches = executable.launches(sizes, true).value();
  return explain_json(plan, sizes, launches, {}, &names).value();
}

// Names, bytes and verdicts of whole plans, for operators with names in the model and without.
TEST(StoredVerdicts, TellTheSameAtAnySizes) {
  std::size_t edges = 0;
  std::size_t versions = 0;
  constexpr unsigned kGraphs = 30;
  for (unsigned seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(seed);
    const ToldTwice model(RandomModel(seed).make());
    const AccountRecord record = model.read();
    EXPECT_EQ(record.model, "m");
    EXPECT_EQ(record.sizes, model.sizes(7));
    for (const std::int64_t size : {1, 7, 300}) {
      const Bindings sizes = model.sizes(size);
      const Executable& before = model.compiled().executable;
      const std::size_t version = before.version_for(sizes);
      const FusionPlan& plan = record.plans.at(version);
      EXPECT_EQ(told(model.executable(), plan, *record.history, sizes),
                told(before, before.versions()[version].plan, *model.compiled().history, sizes));
      edges += plan.verdicts.size();
    }
    versions += record.plans.size();
  }
  EXPECT_GT(edges, 0U);
  EXPECT_GT(versions, kGraphs) << "some graphs have two plans";
}

// Operators that became parts of others, were computed before any run, or changed nothing.
TEST(StoredVerdicts, KnowWhatBecameOfEveryOperator) {
  const ToldTwice model(parse_graph(R"(graph g(%x: f32[n, 24]) {
    %c = constant {value = f32[24] random 1}
    %k = neg(%c) @"/folded" op "Neg"
    %i = reshape(%x) {shape = <n, 24>} @"/same" op "Reshape"
    %s = sigmoid(%i) @"/sigmoid" op "Sigmoid"
    %m = mul(%i, %s) @"/mul" op "Mul"
    %a = add(%m, %k) @"/add" op "Add"
    %b = add(%m, %k) @"/twin" op "Add"
    %y = mul(%a, %b)
    return %y as "y" })")
                            .value());
  const AccountRecord record = model.read();
  const History& fresh = *model.compiled().history;
  std::set<History::Fate> fates;
  const Bindings sizes = model.sizes(9);
  const ModelNames names_before(model.compiled().executable.graph(), &fresh);
  const ModelNames names_after(model.executable().graph(), &*record.history);
  ASSERT_EQ(record.history->operators().size(), fresh.operators().size());
  for (const History::Operator& each : fresh.operators()) {
    const auto expected = fresh.outcome(each.name);
    const auto found = record.history->outcome(each.name);
    EXPECT_EQ(found.fate, expected.fate) << each.name;
    EXPECT_EQ(found.pass, expected.pass) << each.name;
    EXPECT_EQ(found.into, expected.into) << each.name;
    fates.insert(found.fate);
    const auto before = why_there({model.compiled().executable.graph(),
                                   model.compiled().executable.plan(sizes), sizes, names_before},
                                  each.name);
    const auto after =
        why_there({model.executable().graph(), record.plans.back(), sizes, names_after}, each.name);
    ASSERT_EQ(before.has_value(), after.has_value());
    EXPECT_EQ(after->happened, before->happened);
    EXPECT_EQ(after->rule, before->rule);
    EXPECT_EQ(after->change, before->change);
  }
  EXPECT_GE(fates.size(), 4U);
}

// Messages name operators as they did before, also those that go by a number.
TEST(StoredVerdicts, OperatorsKeepTheirNames) {
  const ToldTwice model(RandomModel(3).make());
  const auto& before = model.compiled().executable.graph().nodes();
  const auto& after = model.executable().graph().nodes();
  ASSERT_EQ(before.size(), after.size());
  std::size_t unnamed = 0;
  for (auto a = before.begin(), b = after.begin(); a != before.end(); ++a, ++b) {
    if ((*a)->op() == "constant") continue;
    EXPECT_EQ((*a)->display_name(), (*b)->display_name());
    unnamed += (*a)->source().name.empty() ? 1 : 0;
  }
  EXPECT_GT(unnamed, 0U);
}

TEST(StoredVerdicts, OfAnotherModelAreRefused) {
  const ToldTwice one(RandomModel(1).make());
  const ToldTwice other(RandomModel(2).make());
  const auto record = parse_account_record(one.executable(), other.record());
  ASSERT_FALSE(record);
  EXPECT_THAT(record.error().message, HasSubstr("its account makes no sense"));
}

// Whatever stands in the text, it is an error or can be told.
TEST(StoredVerdicts, AnyTextIsAnErrorOrATellableRecord) {
  const ToldTwice model(RandomModel(5).make());
  for (const char* text : {"", "{}", "[]", "null", R"({"model": 3})", "\xff"}) {
    EXPECT_FALSE(parse_account_record(model.executable(), text)) << text;
  }
  std::mt19937 random(1);
  constexpr std::string_view kTelling = "0123456789-,[]{}\":%nf";
  int read = 0;
  constexpr int kTries = 1500;
  for (int i = 0; i < kTries; ++i) {
    std::string text = model.record();
    for (int j = 0; j <= i % 2; ++j) {
      text[random() % text.size()] = kTelling[random() % kTelling.size()];
    }
    const auto record = parse_account_record(model.executable(), text);
    if (!record) continue;
    ++read;
    const History nothing({}, {});
    const ModelNames names(model.executable().graph(),
                           record->history ? &*record->history : &nothing);
    const Bindings sizes = model.sizes(5);
    const FusionPlan& plan = record->plans[model.executable().version_for(sizes)];
    const LaunchAccount launches = model.executable().launches(sizes, true).value();
    // Sizes that no longer make sense may be an error.
    (void)explain_json(plan, sizes, launches, {}, &names);
    (void)edge_log(plan, sizes);
    for (const Verdict& verdict : plan.verdicts) {
      (void)why_there({model.executable().graph(), plan, sizes, names},
                      verdict.producer->display_name());
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, kTries);
}

}  // namespace
}  // namespace opweld::testing
