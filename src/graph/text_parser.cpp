#include <algorithm>
#include <unordered_map>

#include "graph/tensor_text.h"
#include "graph/text.h"
#include "graph/text_cursor.h"

namespace opweld {
namespace {

// What all tensors written out in one text may take together.
constexpr std::int64_t kTensorBudget = std::int64_t{1} << 31;

// The names in the text of a size that stand for symbols: all but those of functions.
std::vector<std::string> symbol_names(std::string_view size_text) {
  std::vector<std::string> names;
  TextCursor cursor(size_text);
  while (!cursor.at_end()) {
    std::string name(cursor.take_identifier());
    if (name.empty() && cursor.peek() == '"') name = cursor.string().value_or("");
    if (name.empty()) {
      cursor.take(cursor.peek());
    } else if (cursor.peek() != '(') {
      names.push_back(std::move(name));
    }
  }
  return names;
}

// The message of an error that quotes the whole of `text`, kept short where that is long.
std::string quoting(std::string_view text, std::string_view what, const Error& error) {
  constexpr std::size_t kLongest = 100;
  if (text.size() <= kLongest) return error.message;
  return fmt::format("{} is no {}", excerpt(text), what);
}

class Parser {
 public:
  Parser(std::string_view text, const NodeMaker& maker)
      : cursor_(text), maker_(maker), graph_(own_graph_) {}
  // Statements that go into `graph`.
  Parser(std::string_view text, const NodeMaker& maker, Graph& graph)
      : cursor_(text), maker_(maker), graph_(graph) {}

  Expected<Graph> parse() {
    OPWELD_CHECK(cursor_.expect_word("graph"));
    if (cursor_.peek() != '(') {
      OPWELD_TRY(std::string graph_name, name("the name of the graph"));
      graph_ = Graph(std::move(graph_name));
    }
    OPWELD_CHECK(parse_head());
    OPWELD_CHECK(cursor_.expect('{'));
    while (!cursor_.take_word("return")) {
      OPWELD_CHECK(cursor_.take_word("assume") ? parse_assumption() : parse_node());
    }
    OPWELD_CHECK(parse_outputs());
    OPWELD_CHECK(cursor_.expect('}'));
    if (!cursor_.at_end()) {
      return cursor_.error("expected the end of the text, found {}", cursor_.next_text());
    }
    return std::move(graph_);
  }

  Expected<std::vector<Value*>> parse_statements(const std::vector<NamedValue>& values) {
    for (const NamedValue& each : values) {
      values_[each.name] = each.value;
      if (each.value == nullptr) continue;
      std::vector<std::shared_ptr<const SymbolInfo>> symbols;
      for (const Dim& size : each.value->shape()) size.collect_symbols(symbols);
      for (const auto& symbol : symbols) {
        if (symbols_.find(symbol->name) == nullptr) OPWELD_CHECK(symbols_.add(*symbol));
      }
    }
    while (!cursor_.take_word("return")) {
      if (cursor_.at_end()) return cursor_.error("expected a statement, or 'return' and values");
      OPWELD_CHECK(cursor_.take_word("assume") ? parse_assumption() : parse_node());
    }
    std::vector<Value*> results;
    do {
      const std::size_t start = cursor_.position();
      OPWELD_TRY(Value* const value, defined_value());
      if (value == nullptr) return cursor_.error_at(start, "an absent operand cannot be returned");
      results.push_back(value);
    } while (cursor_.take(','));
    if (!cursor_.at_end()) {
      return cursor_.error("expected the end of the text, found {}", cursor_.next_text());
    }
    return results;
  }

 private:
  // A value's name as written: "%x", "%\"x\"" and "%0" are three different things to the reader, of
  // which the first two mean one value.
  struct ValueName {
    std::string key;   // "x" or "%0"
    std::string name;  // empty for numbered ones
    std::size_t position = 0;
  };

  // Shape texts of the inputs wait until `where` has declared the symbols.
  struct PendingType {
    DType dtype = DType::F32;
    Format format = Format::Plain;
    struct Size {
      std::string_view text;
      std::size_t position;
    };
    std::vector<Size> sizes;
  };

  // ---- head ----

  // An identifier, or any text in quotes.
  Expected<std::string> name(std::string_view what) {
    if (cursor_.peek() == '"') return cursor_.string();
    const std::string_view name = cursor_.take_identifier();
    if (name.empty()) return cursor_.error("expected {}, found {}", what, cursor_.next_text());
    return std::string(name);
  }

  Status parse_head() {
    std::vector<std::pair<ValueName, PendingType>> inputs;
    OPWELD_CHECK(cursor_.expect('('));
    while (!cursor_.take(')')) {
      if (!inputs.empty()) OPWELD_CHECK(cursor_.expect(','));
      OPWELD_TRY(ValueName name, value_name());
      OPWELD_CHECK(cursor_.expect(':'));
      OPWELD_TRY(PendingType type, pending_type());
      inputs.emplace_back(std::move(name), std::move(type));
    }
    if (cursor_.take_word("where")) OPWELD_CHECK(parse_symbols());
    for (const auto& [name, type] : inputs) {
      for (const PendingType::Size& size : type.sizes) {
        for (const std::string& symbol : symbol_names(size.text)) {
          if (symbols_.find(symbol) != nullptr) continue;
          if (auto status = symbols_.add({symbol, {}}); !status) {
            return cursor_.error_at(size.position, status.error().message);
          }
        }
      }
    }
    for (auto& [name, pending] : inputs) {
      OPWELD_TRY(TensorType type, resolve(pending));
      Value* input = graph_.add_input(name.name, std::move(type));
      OPWELD_CHECK(define(name, input));
    }
    return {};
  }

  Status parse_symbols() {
    do {
      const std::size_t start = cursor_.position();
      const std::string_view text = cursor_.take_raw(",{");
      auto symbol = SymbolInfo::parse(text);
      if (!symbol) return cursor_.error_at(start, quoting(text, "symbol", symbol.error()));
      if (auto status = symbols_.add(std::move(*symbol)); !status) {
        return cursor_.error_at(start, status.error().message);
      }
    } while (cursor_.take(','));
    return {};
  }

  // ---- values and types ----

  Expected<ValueName> value_name() {
    ValueName value;
    value.position = cursor_.position();
    OPWELD_CHECK(cursor_.expect('%'));
    if (cursor_.peek() == '"') {
      OPWELD_TRY(value.name, cursor_.string());
      value.key = value.name;
      return value;
    }
    value.name = cursor_.take_identifier();
    value.key = value.name;
    if (value.key.empty()) {
      OPWELD_TRY(const std::int64_t number, cursor_.integer());
      value.key = fmt::format("%{}", number);
    }
    return value;
  }

  Status define(const ValueName& name, Value* value) {
    if (!values_.emplace(name.key, value).second) {
      return cursor_.error_at(name.position, fmt::format("{} is defined twice", excerpt(name.key)));
    }
    if (&graph_ == &own_graph_) value->set_name(name.name);
    return {};
  }

  Expected<Value*> defined_value() {
    OPWELD_TRY(const ValueName name, value_name());
    const auto found = values_.find(name.key);
    if (found == values_.end()) {
      return cursor_.error_at(name.position,
                              fmt::format("{} is not defined here", excerpt(name.key)));
    }
    return found->second;
  }

  Expected<DType> dtype() {
    const std::size_t start = cursor_.position();
    const std::string_view word = cursor_.take_identifier();
    if (const auto type = parse_dtype(word)) return *type;
    return cursor_.error_at(start, fmt::format("expected a dtype such as f32, found {}",
                                               word.empty() ? cursor_.next_text() : excerpt(word)));
  }

  Expected<PendingType> pending_type() {
    PendingType type;
    OPWELD_TRY(type.dtype, dtype());
    OPWELD_CHECK(cursor_.expect('['));
    while (!cursor_.take(']')) {
      if (!type.sizes.empty()) OPWELD_CHECK(cursor_.expect(','));
      const std::size_t start = cursor_.position();
      type.sizes.push_back({cursor_.take_raw(",]"), start});
    }
    if (!cursor_.take(':')) return type;
    const std::size_t start = cursor_.position();
    const std::string_view word = cursor_.take_identifier();
    for (const Format format : {Format::Plain, Format::NCHW, Format::NHWC}) {
      if (to_string(format) != word) continue;
      type.format = format;
      return type;
    }
    return cursor_.error_at(start, "expected a format: plain, nchw or nhwc");
  }

  Expected<Dim> dim(std::string_view text, std::size_t position) {
    auto size = Dim::parse(text, symbols_);
    if (size) return size;
    return cursor_.error_at(position, quoting(text, "size", size.error()));
  }

  Expected<TensorType> resolve(const PendingType& pending) {
    TensorType type{pending.dtype, {}, pending.format};
    type.shape.reserve(pending.sizes.size());
    for (const PendingType::Size& size : pending.sizes) {
      OPWELD_TRY(Dim parsed, dim(size.text, size.position));
      if (parsed.upper_bound() < 0) {
        return cursor_.error_at(size.position, "a size cannot be negative");
      }
      type.shape.push_back(std::move(parsed));
    }
    return type;
  }

  // ---- statements ----

  struct Result {
    ValueName name;
    std::optional<TensorType> type;
  };

  Status parse_node() {
    std::vector<Result> results;
    do {
      Result result;
      OPWELD_TRY(result.name, value_name());
      if (cursor_.take(':')) {
        OPWELD_TRY(const PendingType pending, pending_type());
        OPWELD_TRY(result.type, resolve(pending));
      }
      results.push_back(std::move(result));
    } while (cursor_.take(','));
    OPWELD_CHECK(cursor_.expect('='));

    const std::size_t start = cursor_.position();
    OPWELD_TRY(std::string op, name("an operator"));
    OPWELD_TRY(std::vector<Value*> operands, parse_operands());
    OPWELD_TRY(Attributes attributes, parse_attributes());
    OPWELD_TRY(Source source, parse_source());
    auto node = make_node(results, std::move(op), std::move(operands), std::move(attributes),
                          std::move(source));
    if (!node) return cursor_.error_at(start, node.error().message);
    for (std::size_t index = 0; index < results.size(); ++index) {
      OPWELD_CHECK(define(results[index].name, (*node)->result(static_cast<int>(index))));
    }
    return {};
  }

  Expected<Node*> make_node(const std::vector<Result>& results, std::string op,
                            std::vector<Value*> operands, Attributes attributes, Source source) {
    if (!maker_) {
      std::vector<TensorType> types;
      for (const Result& result : results) {
        if (!result.type) return fail("the type of {} is missing", excerpt(result.name.key));
        types.push_back(*result.type);
      }
      return graph_.add_node(std::move(op), std::move(operands), std::move(attributes),
                             std::move(types), std::move(source));
    }
    OPWELD_TRY(Node* const node,
               maker_(graph_, op, std::move(operands), std::move(attributes), source));
    if (static_cast<int>(results.size()) != node->num_results()) {
      return fail("{} has {} results, but {} are named", node->op(), node->num_results(),
                  results.size());
    }
    for (std::size_t index = 0; index < results.size(); ++index) {
      const TensorType& made = node->result(static_cast<int>(index))->type();
      if (!results[index].type || *results[index].type == made) continue;
      return fail("{} is {}, not {}", excerpt(results[index].name.key), to_string(made),
                  to_string(*results[index].type));
    }
    return node;
  }

  Expected<std::vector<Value*>> parse_operands() {
    std::vector<Value*> operands;
    if (!cursor_.take('(')) return operands;
    while (!cursor_.take(')')) {
      if (!operands.empty()) OPWELD_CHECK(cursor_.expect(','));
      if (cursor_.take_word("_")) {
        operands.push_back(nullptr);
        continue;
      }
      OPWELD_TRY(Value* const operand, defined_value());
      operands.push_back(operand);
    }
    return operands;
  }

  Expected<Attributes> parse_attributes() {
    Attributes attributes;
    if (!cursor_.take('{')) return attributes;
    while (!cursor_.take('}')) {
      if (!attributes.empty()) OPWELD_CHECK(cursor_.expect(','));
      const std::size_t start = cursor_.position();
      OPWELD_TRY(const std::string key, name("the name of an attribute"));
      if (attributes.has(key)) {
        return cursor_.error_at(start, fmt::format("attribute {} is given twice", excerpt(key)));
      }
      OPWELD_CHECK(cursor_.expect('='));
      OPWELD_TRY(Attribute attribute, parse_attribute());
      attributes.set(key, std::move(attribute));
    }
    return attributes;
  }

  Expected<Attribute> parse_attribute() {
    const char first = cursor_.peek();
    if (first == '"') return cursor_.string();
    if (first == '[') return parse_list();
    if (first == '<') return parse_shape_attribute();
    if (cursor_.take_word("reals")) {
      OPWELD_CHECK(cursor_.expect('['));
      OPWELD_CHECK(cursor_.expect(']'));
      return Doubles{};
    }
    // "f32" starts as "false" or "foo" might, "inf" and "nan" are numbers.
    TextCursor ahead = cursor_;
    if (const auto type = parse_dtype(ahead.take_identifier())) {
      cursor_ = ahead;
      if (cursor_.peek() != '[') return *type;
      OPWELD_TRY(Tensor tensor, parse_tensor(cursor_, *type, budget_));
      return tensor;
    }
    return parse_number();
  }

  // What is written without point or exponent is an integer.
  Expected<Attribute> parse_number() {
    TextCursor ahead = cursor_;
    const std::string_view text = ahead.take_number_text();
    if (text.empty()) {
      return cursor_.error("expected the value of an attribute, found {}", cursor_.next_text());
    }
    if (text.find_first_not_of("-0123456789") == std::string_view::npos) {
      return cursor_.integer().map([](std::int64_t value) { return Attribute(value); });
    }
    return parse_real(cursor_).map([](double value) { return Attribute(value); });
  }

  Expected<Attribute> parse_list() {
    OPWELD_CHECK(cursor_.expect('['));
    Ints integers;
    Doubles reals;
    while (!cursor_.take(']')) {
      if (!reals.empty()) OPWELD_CHECK(cursor_.expect(','));
      OPWELD_TRY(const Attribute element, parse_number());
      const auto* integer = std::get_if<std::int64_t>(&element);
      if (integer != nullptr) integers.push_back(*integer);
      reals.push_back(integer != nullptr ? static_cast<double>(*integer)
                                         : std::get<double>(element));
    }
    if (integers.size() == reals.size()) return integers;
    return reals;
  }

  Expected<Attribute> parse_shape_attribute() {
    OPWELD_CHECK(cursor_.expect('<'));
    Shape shape;
    while (!cursor_.take('>')) {
      if (!shape.empty()) OPWELD_CHECK(cursor_.expect(','));
      const std::size_t start = cursor_.position();
      OPWELD_TRY(Dim size, dim(cursor_.take_raw(",>"), start));
      shape.push_back(std::move(size));
    }
    return shape;
  }

  Expected<Source> parse_source() {
    Source source;
    if (!cursor_.take('@')) return source;
    OPWELD_TRY(source.name, cursor_.string());
    if (cursor_.take_word("op")) {
      OPWELD_TRY(source.op, cursor_.string());
    }
    if (cursor_.take_word("scope")) {
      OPWELD_TRY(source.scope, cursor_.string());
    }
    if (cursor_.take_word("operators")) {
      constexpr std::int64_t kMost = 1 << 20;
      OPWELD_TRY(const std::int64_t operators, cursor_.integer());
      if (operators < 0 || operators > kMost) {
        return cursor_.error("a node stands for 0 to {} operators, not for {}", kMost, operators);
      }
      source.operators = static_cast<int>(operators);
    }
    if (cursor_.take_word("stream")) {
      OPWELD_TRY(source.stream, cursor_.string());
    }
    return source;
  }

  Status parse_assumption() {
    const std::size_t left_start = cursor_.position();
    OPWELD_TRY(Dim left, dim(cursor_.take_raw("="), left_start));
    OPWELD_CHECK(cursor_.expect('='));
    OPWELD_CHECK(cursor_.expect('='));
    const std::size_t right_start = cursor_.position();
    OPWELD_TRY(Dim right, dim(cursor_.take_raw(","), right_start));
    OPWELD_CHECK(cursor_.expect(','));
    OPWELD_TRY(std::string reason, cursor_.string());
    graph_.assume_equal(std::move(left), std::move(right), std::move(reason));
    return {};
  }

  Status parse_outputs() {
    if (cursor_.peek() == '}') return {};
    do {
      const std::size_t start = cursor_.position();
      OPWELD_TRY(Value* const value, defined_value());
      std::string output_name = value->name();
      if (cursor_.take_word("as")) {
        OPWELD_TRY(output_name, cursor_.string());
      } else if (output_name.empty()) {
        return cursor_.error_at(start, "an output needs a name: %0 as \"name\"");
      }
      graph_.add_output(std::move(output_name), value);
      if (!cursor_.take_word("in_place")) continue;
      const std::size_t input_start = cursor_.position();
      OPWELD_TRY(Value* const input, defined_value());
      if (!input->is_graph_input()) {
        return cursor_.error_at(input_start, "an output lies in place of an input of the graph");
      }
      graph_.set_in_place(static_cast<int>(graph_.outputs().size()) - 1, input);
    } while (cursor_.take(','));
    return {};
  }

  TextCursor cursor_;
  const NodeMaker& maker_;
  Graph own_graph_;
  Graph& graph_;
  SymbolTable symbols_;
  std::unordered_map<std::string, Value*> values_;
  std::int64_t budget_ = kTensorBudget;
};

}  // namespace

Expected<Graph> parse_graph_text(std::string_view text, const NodeMaker& maker) {
  return Parser(text, maker).parse();
}

Expected<std::vector<Value*>> parse_statements(std::string_view text, Graph& graph,
                                               const std::vector<NamedValue>& values,
                                               const NodeMaker& maker) {
  return Parser(text, maker, graph).parse_statements(values);
}

}  // namespace opweld
