// The page of `opweld report` for a model: it is compiled at each level of fusion, run, and shown.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "compile.h"

namespace opweld {

struct PageOptions {
  std::string model;                      // what the user calls it, such as the name of its file
  FusionLevel level = FusionLevel::Auto;  // that is shown; the others are there to be compared with
  std::string target = "host";
  // Timed runs, of which the median is shown; 0: the page has no times and no roofline.
  int repeats = 10;
};

// Of the graph, at a level; whoever asks for the page knows how else.
using CompileLevel = std::function<Expected<Compiled>(FusionLevel)>;

// What the page shows, as the one JSON document of report/page.h, at the sizes of the inputs.
Expected<std::string> model_page_json(const Graph& graph, const CompileLevel& compile_level,
                                      const PageOptions& options, std::span<const Tensor> inputs);

// Whether there can be pages; else an error that says how they come to be.
Status check_page_template();

// Puts the document into the page and that into a file, one that any browser opens without a
// network; gives the bytes written.
Expected<std::size_t> write_page(const std::string& json, const std::string& path);

}  // namespace opweld
