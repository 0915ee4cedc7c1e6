#include "import/onnx/survey.h"

#include <set>
#include <vector>

#include "import/onnx/operators/table.h"

namespace opweld {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

class Surveyor {
 public:
  explicit Surveyor(const FunctionTable& functions) : functions_(functions) {}

  void visit(const Nodes& nodes) {
    for (const auto& node : nodes) visit(node);
  }

  // Functions found on the way are visited one by one, however they call each other.
  void visit_functions() {
    while (!pending_.empty()) {
      const onnx::FunctionProto* function = pending_.back();
      pending_.pop_back();
      visit(function->node());
    }
  }

  Survey take() { return std::move(survey_); }

 private:
  void visit(const onnx::NodeProto& node) {
    const std::string domain = normal_domain(node.domain());
    const std::string name = qualified_name(domain, node.op_type());
    ++survey_.operators[name];
    if (const auto function = functions_.find({domain, node.op_type()});
        function != functions_.end()) {
      if (seen_.insert(function->second).second) pending_.push_back(function->second);
      return;
    }
    const bool is_if = domain.empty() && node.op_type() == "If";
    if (is_if || find_operator(domain, node.op_type())) return;
    Survey::Unsupported& entry = survey_.unsupported[name];
    if (entry.count++ > 0) return;
    entry.why = reason_unsupported(domain, node.op_type());
    entry.first = node_label(node);
  }

  const FunctionTable& functions_;
  std::set<const onnx::FunctionProto*> seen_;
  std::vector<const onnx::FunctionProto*> pending_;
  Survey survey_;
};

}  // namespace

Survey survey_operators(const onnx::GraphProto& graph, const FunctionTable& functions) {
  Surveyor surveyor(functions);
  surveyor.visit(graph.node());
  surveyor.visit_functions();
  return surveyor.take();
}

Status require_supported(const Survey& survey) {
  if (survey.unsupported.empty()) return {};
  std::vector<std::string> lines;
  std::int64_t total = 0;
  for (const auto& [name, entry] : survey.unsupported) {
    total += entry.count;
    lines.push_back(
        fmt::format("\n  {} x {}: {} (first: {})", entry.count, name, entry.why, entry.first));
  }
  return fail("{} node{} cannot be imported:{}", total, total == 1 ? "" : "s",
              fmt::join(lines, ""));
}

}  // namespace opweld
