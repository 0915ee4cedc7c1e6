// Where values live during a run: every reader finds what was written for it.
#include "runtime/storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "fusion/planning.h"
#include "fusion/random_model.h"

namespace opweld::testing {
namespace {

using Place = StorageMap::Place;

PlannedGraph unfused(const std::string& text) {
  PlanSettings settings;
  settings.level = FusionLevel::None;
  return PlannedGraph(text, settings);
}

const Value* value_named(const Graph& graph, std::string_view name) {
  for (const Value* input : graph.inputs()) {
    if (input->name() == name) return input;
  }
  for (const auto& node : graph.nodes()) {
    for (int i = 0; i < node->num_results(); ++i) {
      if (node->result(i)->name() == name) return node->result(i);
    }
  }
  ADD_FAILURE() << "no value " << name;
  return nullptr;
}

TEST(Storage, EveryKindOfValueHasItsPlace) {
  const PlannedGraph planned = unfused(R"(graph g(%x: f32[n], %y: f32[n]) {
    %c = constant {value = f32[1] {2.0}}
    %a = exp(%y)
    %b = mul(%a, %c)
    %r = reshape(%b) {shape = <n, 1>}
    return %r as "r", %x as "x", %c as "c", %b as "b", %b as "again"
  })");
  const StorageMap storage(planned.graph(), planned.plan());
  const auto place = [&](std::string_view name) {
    const StorageMap::Slot slot = storage.slot(value_named(planned.graph(), name));
    return std::pair{slot.place, slot.index};
  };
  EXPECT_EQ(place("x"), (std::pair{Place::Input, 0}));
  EXPECT_EQ(place("y"), (std::pair{Place::Input, 1}));
  EXPECT_EQ(place("c"), (std::pair{Place::Constant, 0}));
  EXPECT_EQ(place("a"), (std::pair{Place::Arena, 0}));
  // The reshape is b's memory, and the first output that shows it is where b is written.
  EXPECT_EQ(place("b"), (std::pair{Place::Output, 0}));
  EXPECT_EQ(place("r"), (std::pair{Place::Output, 0}));
}

TEST(Storage, ProducersAreFoundThroughReshapes) {
  const PlannedGraph planned = unfused(R"(graph g(%x: f32[n], %y: f32[n]) {
    %a = exp(%x)
    %b = exp(%y)
    %r = reshape(%a) {shape = <n, 1>}
    %c = mul(%r, %r)
    %d = add(%c, %b)
    return %d as "d"
  })");
  const StorageMap storage(planned.graph(), planned.plan());
  EXPECT_EQ(producers_of(planned.plan(), storage),
            (std::vector<std::vector<int>>{{}, {}, {0}, {1, 2}}));
}

TEST(Storage, ReshapesOfInputsAndConstantsAreTheirMemory) {
  const PlannedGraph planned = unfused(R"(graph g(%x: f32[n, 4]) {
    %c = constant {value = f32[4] {1.0, 2.0, 3.0, 4.0}}
    %r = reshape(%x) {shape = <4 * n>}
    %s = reshape(%r) {shape = <n, 2, 2>}
    %d = reshape(%c) {shape = <2, 2>}
    %y = add(%s, %d)
    return %y as "y"
  })");
  const StorageMap storage(planned.graph(), planned.plan());
  EXPECT_EQ(storage.root(value_named(planned.graph(), "s")), value_named(planned.graph(), "x"));
  EXPECT_EQ(storage.slot(value_named(planned.graph(), "s")).place, Place::Input);
  EXPECT_EQ(storage.slot(value_named(planned.graph(), "d")).place, Place::Constant);
}

// Of %b, which a kernel computes from %a.
bool in_place(const std::string& operation) {
  const PlannedGraph planned = unfused("graph g(%x: f32[n, n], %v: f32[n]) {\n  %a = exp(%x)\n  " +
                                       operation + "\n  %y = neg(%b)\n  return %y as \"y\"\n}");
  const StorageMap storage(planned.graph(), planned.plan());
  const StorageMap::Slot slot = storage.slot(value_named(planned.graph(), "b"));
  EXPECT_EQ(slot.place, Place::Arena);
  return storage.arena()[static_cast<std::size_t>(slot.index)].in_place_of >= 0;
}

TEST(Storage, OnlyWhatIsReadWhereItIsWrittenIsOverwritten) {
  EXPECT_TRUE(in_place("%b = tanh(%a)"));
  EXPECT_TRUE(in_place("%b = mul(%a, %a)"));
  EXPECT_TRUE(in_place("%b = mul(%a, %v)")) << "the broadcast operand lies elsewhere";
  EXPECT_FALSE(in_place("%b = cast(%a) {to = f16}")) << "of another size";
  EXPECT_FALSE(in_place("%b = transpose(%a) {permutation = [1, 0]}"));
  EXPECT_FALSE(in_place("%b = softmax(%a) {axis = 1}"));
  EXPECT_FALSE(in_place("%b = matmul(%a, %a)"));
  EXPECT_FALSE(in_place("%b = slice(%a) {starts = <n - 1, 0>, sizes = <n, n>, steps = [-1, 1]}"));
  EXPECT_FALSE(
      in_place("%r = reduce_max(%a) {axes = [1]}\n  %b = add(%a, %r)\n"
               "  %c = sub(%a, %b)"))
      << "a later kernel reads it still";
}

// Plays a run over the arena in pieces of kArenaAlignment bytes, each marked with the value that it
// holds: a reader must find its own value in all of its pieces.
void expect_readers_find_their_values(const PlannedGraph& planned, const Bindings& sizes) {
  const StorageMap storage(planned.graph(), planned.plan());
  std::vector<Lifetime> lifetimes;
  for (const auto& value : storage.arena()) {
    lifetimes.push_back({value.value->type().num_bytes().evaluate(sizes).value(), value.first_step,
                         value.last_step, value.in_place_of});
  }
  const MemoryPlan memory = plan_memory(lifetimes).value();
  std::vector<const Value*> holds(static_cast<std::size_t>(memory.arena_bytes / kArenaAlignment));
  const auto pieces = [&](const Value* value) {
    const auto index = static_cast<std::size_t>(storage.slot(value).index);
    const auto begin = holds.begin() + memory.offsets[index] / kArenaAlignment;
    return std::pair{begin,
                     begin + (lifetimes[index].bytes + kArenaAlignment - 1) / kArenaAlignment};
  };
  for (const Kernel& kernel : planned.plan().kernels) {
    for (const Value* input : kernel.inputs) {
      if (storage.slot(input).place != Place::Arena) continue;
      const auto [begin, end] = pieces(input);
      ASSERT_EQ(std::count(begin, end, storage.root(input)), end - begin)
          << kernel.label << " reads what was overwritten";
    }
    for (const Value* output : kernel.outputs) {
      const Place place = storage.slot(output).place;
      ASSERT_TRUE(place == Place::Arena || place == Place::Output) << kernel.label;
      if (place != Place::Arena) continue;
      const auto [begin, end] = pieces(output);
      std::fill(begin, end, output);
    }
  }
}

TEST(Storage, EveryReaderFindsItsValueInRandomGraphs) {
  std::size_t overwritten = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    for (const FusionLevel level : {FusionLevel::None, FusionLevel::Auto}) {
      PlanSettings settings;
      settings.level = level;
      const PlannedGraph planned(RandomModel(seed).make(), settings);
      SCOPED_TRACE(fmt::format("seed {}", seed));
      const StorageMap storage(planned.graph(), planned.plan());
      for (const auto& value : storage.arena()) {
        overwritten += value.in_place_of >= 0 ? 1 : 0;
      }
      for (const std::int64_t n : {1, 7, 64}) {
        for (const std::int64_t m : {1, 33}) {
          expect_readers_find_their_values(planned, {{"m", m}, {"n", n}});
        }
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(overwritten, 50U) << "too few graphs reuse a place to say anything";
}

}  // namespace
}  // namespace opweld::testing
