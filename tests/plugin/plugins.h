// The plugins that tests load, and graphs of their operators.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/builder.h"
#include "ops/reference.h"
#include "plugin/plugin.h"

namespace opweld {

inline std::string plugin_path(const std::string& name) {
  return std::string(OPWELD_TEST_PLUGINS) + "/" + name + ".so";
}

inline const Plugin& loaded(const std::string& path) {
  auto plugin = load_plugin_library(path);
  EXPECT_TRUE(plugin.has_value()) << (plugin ? "" : plugin.error().message);
  return **plugin;
}

inline const Plugin& sample() {
  return loaded(plugin_path("sample"));
}
inline const Plugin& faulty() {
  return loaded(plugin_path("faulty"));
}

inline Graph parsed(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.has_value()) << (graph ? "" : graph.error().message);
  return graph ? std::move(*graph) : Graph();
}

// Of a graph that cannot be built.
inline std::string refusal(const std::string& text) {
  const auto graph = parse_graph(text);
  return graph ? "built" : graph.error().message;
}

inline std::vector<Tensor> evaluated(const std::string& text, const std::vector<Tensor>& inputs) {
  auto results = evaluate(parsed(text), inputs);
  EXPECT_TRUE(results.has_value()) << (results ? "" : results.error().message);
  return results ? std::move(*results) : std::vector<Tensor>();
}

// Of a graph that is built and whose run fails.
inline std::string failure(const std::string& text, const std::vector<Tensor>& inputs) {
  const auto results = evaluate(parsed(text), inputs);
  return results ? "ran" : results.error().message;
}

inline std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(tensor.get_double(i));
  return values;
}

}  // namespace opweld
