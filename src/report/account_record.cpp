#include "report/account_record.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "fusion/plan_record.h"

namespace opweld {

namespace {

using Json = nlohmann::json;

// An operator that was kept says its name, its operator and its tensors; another one also what
// became of it.
Json json_of(const History& history) {
  Json operators = Json::array();
  for (const History::Operator& each : history.operators()) {
    Json entry = {each.name, each.op, each.tensors};
    if (const auto outcome = history.outcome(each.name); outcome.fate != History::Fate::Kept) {
      entry.insert(entry.end(), {outcome.fate, outcome.pass, outcome.into});
    }
    operators.push_back(std::move(entry));
  }
  return operators;
}

// ---- reading; errors are exceptions up to parse_account_record() ----

void need(bool holds) {
  if (!holds) throw std::out_of_range("no record of this model's plans");
}

History history_of(const Json& json) {
  std::vector<History::Operator> operators;
  History::Outcomes outcomes;
  for (const Json& each : json) {
    operators.push_back({each.at(0).get<std::string>(), each.at(1).get<std::string>(),
                         each.at(2).get<std::vector<std::string>>()});
    constexpr std::size_t kOfKept = 3;
    if (each.size() == kOfKept) continue;
    const auto fate = each.at(kOfKept).get<History::Fate>();
    need(fate <= History::Fate::Unread);
    outcomes[operators.back().name] = {fate, each.at(kOfKept + 1).get<std::string>(),
                                       each.at(kOfKept + 2).get<std::vector<std::string>>()};
  }
  return {std::move(operators), std::move(outcomes)};
}

// A value that each symbol of the graph may have.
Bindings sizes_of(const Json& json, const Graph& graph) {
  Bindings sizes;
  for (const Dim& dim : graph.symbols()) {
    const auto symbol = dim.as_symbol();
    const auto size = json.at(symbol->name).get<std::int64_t>();
    need(symbol->check(size).has_value());
    sizes.set(symbol->name, size);
  }
  return sizes;
}

AccountRecord record_of(const Json& json, const Executable& executable) {
  AccountRecord record;
  record.model = json.at("model").get<std::string>();
  record.sizes = sizes_of(json.at("sizes"), executable.graph());
  auto plans = parse_plan_record(executable.graph(), json.at("plans").dump());
  need(plans && plans->size() == executable.versions().size());
  record.plans = std::move(*plans);
  for (std::size_t i = 0; i < record.plans.size(); ++i) {
    need(record.plans[i].kernels.size() == executable.versions()[i].plan.kernels.size());
  }
  if (const Json& history = json.at("history"); !history.is_null()) {
    record.history = history_of(history);
  }
  record.notes = json.at("notes").get<std::vector<std::string>>();
  record.tuning = json.at("tuning").get<std::vector<std::vector<std::string>>>();
  need(record.tuning.size() == record.plans.size());
  return record;
}

}  // namespace

std::string to_json(const Graph& graph, const AccountRecord& record) {
  Json json = {{"model", record.model},
               {"sizes", Json::object()},
               {"plans", Json::parse(plan_record(graph, record.plans))},
               {"history", nullptr},
               {"notes", record.notes},
               {"tuning", record.tuning}};
  for (const auto& [name, size] : record.sizes) json["sizes"][name] = size;
  if (record.history) json["history"] = json_of(*record.history);
  // Names of a model may be any bytes; JSON is UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Expected<AccountRecord> parse_account_record(const Executable& executable, std::string_view text) {
  try {
    return record_of(Json::parse(text), executable);
  } catch (const std::exception& error) {
    return fail("its account makes no sense: {}", error.what());
  }
}

}  // namespace opweld
