#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/tensor_text.h"
#include "graph/text.h"
#include "graph/text_cursor.h"

namespace opweld {
namespace {

using Symbols = std::vector<std::shared_ptr<const SymbolInfo>>;

void collect(const Shape& shape, Symbols& symbols) {
  for (const Dim& size : shape) size.collect_symbols(symbols);
}

// Names that are no identifiers stand in quotes.
std::string name_text(const std::string& name) {
  return is_identifier(name) ? name : quoted(name);
}

std::string list_text(const Ints& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string list_text(const Doubles& values) {
  if (values.empty()) return "reals []";
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const double value : values) texts.push_back(real_bits_text(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string attribute_text(const Attribute& attribute, bool full_constants) {
  struct Visitor {
    bool full;
    std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(double value) const { return real_bits_text(value); }
    std::string operator()(const std::string& value) const { return quoted(value); }
    std::string operator()(DType value) const { return std::string(to_string(value)); }
    std::string operator()(const Ints& values) const { return list_text(values); }
    std::string operator()(const Doubles& values) const { return list_text(values); }
    std::string operator()(const Shape& shape) const {
      return fmt::format("<{}>", fmt::join(shape, ", "));
    }
    std::string operator()(const Tensor& tensor) const { return tensor_text(tensor, full); }
  };
  return std::visit(Visitor{full_constants}, attribute);
}

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options) : graph_(graph), options_(options) {}

  std::string print() {
    name_values();
    print_head();
    for (const auto& node : graph_.nodes()) print_node(*node);
    for (const SizeAssumption& assumption : graph_.assumptions()) {
      emit("  assume {} == {}, {}\n", assumption.left, assumption.right, quoted(assumption.reason));
    }
    print_return();
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void emit(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  // ---- names ----

  void name_values() {
    for (const Value* input : graph_.inputs()) name_value(*input);
    for (const auto& node : graph_.nodes()) {
      for (int index = 0; index < node->num_results(); ++index) name_value(*node->result(index));
    }
  }

  // Two values of one name are told apart by a suffix, which then belongs to the name.
  void name_value(const Value& value) {
    if (value.name().empty()) {
      names_[&value] = fmt::format("%{}", unnamed_++);
      return;
    }
    std::string name = value.name();
    for (int& suffix = suffixes_[value.name()]; !taken_.insert(name).second;) {
      name = fmt::format("{}.{}", value.name(), ++suffix);
    }
    names_[&value] = "%" + name_text(name);
  }

  // What is not of this graph, or not defined yet, is printed all the same: graphs that the
  // verifier refuses are those that one wants to see.
  std::string_view name_of(const Value* value) const {
    if (value == nullptr) return "_";
    const auto found = names_.find(value);
    return found != names_.end() ? std::string_view(found->second) : "%?";
  }

  // ---- parts ----

  void print_head() {
    emit("graph {}(", name_text(graph_.name()));
    std::string_view separator;
    for (const Value* input : graph_.inputs()) {
      emit("{}{}: {}", separator, name_of(input), to_string(input->type()));
      separator = ", ";
    }
    text_ += ')';
    print_symbols();
    text_ += " {\n";
  }

  // Symbols with a range of their own, and those that the inputs do not declare by their shapes.
  void print_symbols() {
    Symbols declared;
    for (const Value* input : graph_.inputs()) collect(input->shape(), declared);
    Symbols all = declared;
    for (const auto& node : graph_.nodes()) {
      for (int index = 0; index < node->num_results(); ++index) {
        collect(node->result(index)->shape(), all);
      }
      for (const auto& [name, attribute] : node->attributes()) {
        if (const auto* shape = std::get_if<Shape>(&attribute)) collect(*shape, all);
      }
    }
    for (const SizeAssumption& assumption : graph_.assumptions()) {
      collect({assumption.left, assumption.right}, all);
    }
    std::string_view separator = " where ";
    for (const auto& symbol : all) {
      const bool by_input = std::any_of(declared.begin(), declared.end(), [&](const auto& other) {
        return other->name == symbol->name;
      });
      if (by_input && symbol->range == SymbolRange{}) continue;
      emit("{}{}", separator, symbol->to_string());
      separator = ", ";
    }
  }

  void print_node(const Node& node) {
    std::string_view separator = "  ";
    for (int index = 0; index < node.num_results(); ++index) {
      emit("{}{}", separator, name_of(node.result(index)));
      if (options_.types) emit(": {}", to_string(node.result(index)->type()));
      separator = ", ";
    }
    emit(" = {}", name_text(node.op()));
    if (node.num_operands() > 0) {
      separator = "(";
      for (const Value* operand : node.operands()) {
        emit("{}{}", separator, name_of(operand));
        separator = ", ";
      }
      text_ += ')';
    }
    if (!node.attributes().empty()) {
      separator = " {";
      for (const auto& [name, attribute] : node.attributes()) {
        emit("{}{} = {}", separator, name_text(name),
             attribute_text(attribute, options_.full_constants));
        separator = ", ";
      }
      text_ += '}';
    }
    if (options_.sources) print_source(node.source());
    text_ += '\n';
  }

  void print_source(const Source& source) {
    if (source == Source{}) return;
    emit(" @{}", quoted(source.name));
    if (!source.op.empty()) emit(" op {}", quoted(source.op));
    if (!source.scope.empty()) emit(" scope {}", quoted(source.scope));
    if (source.operators != 1) emit(" operators {}", source.operators);
    if (!source.stream.empty()) emit(" stream {}", quoted(source.stream));
  }

  void print_return() {
    text_ += "  return";
    std::string_view separator = " ";
    for (const Graph::Output& output : graph_.outputs()) {
      emit("{}{} as {}", separator, name_of(output.value), quoted(output.name));
      if (output.in_place_of != nullptr) emit(" in_place {}", name_of(output.in_place_of));
      separator = ", ";
    }
    text_ += "\n}\n";
  }

  const Graph& graph_;
  const PrintOptions& options_;
  std::string text_;
  std::unordered_map<const Value*, std::string> names_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> suffixes_;
  int unnamed_ = 0;
};

}  // namespace

std::string to_text(const Graph& graph, const PrintOptions& options) {
  return Printer(graph, options).print();
}

std::string to_text(const Attributes& attributes) {
  std::vector<std::string> entries;
  for (const auto& [name, attribute] : attributes) {
    entries.push_back(fmt::format("{} = {}", name_text(name), attribute_text(attribute, false)));
  }
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

}  // namespace opweld
