#include "aot/record.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace opweld::aot {

namespace {

using Json = nlohmann::ordered_json;

// ---- writing ----

Json json_of(const CompiledDim& dim) {
  Json list = Json::array();
  for (const CompiledDim::Instruction& each : dim.instructions()) {
    list.push_back({static_cast<int>(each.opcode), each.symbol, each.operand});
  }
  return list;
}

Json json_of(const Origin& origin) {
  return {{"version", origin.version}, {"target", origin.target}, {"features", origin.features},
          {"fusion", origin.fusion},   {"strict", origin.strict}, {"threads", origin.threads}};
}

Json json_of(const Record::StoredTensor& tensor) {
  Json json = {{"dtype", to_string(tensor.dtype)}, {"sizes", tensor.sizes}};
  if (tensor.offset) json["offset"] = *tensor.offset;
  return json;
}

Json json_of(const Record::Code& code) {
  const CompiledKernel& kernel = code.kernel;
  Json checks = Json::array();
  for (const auto& check : kernel.checks) {
    checks.push_back({{"message", check.message}, {"shown", check.shown}});
  }
  Json shared = Json::array();
  for (const auto& each : kernel.shared) {
    shared.push_back({{"bytes", json_of(each.bytes)}, {"zeroed", each.zeroed}});
  }
  return {{"entry", code.entry},
          {"symbols", kernel.symbols},
          {"tasks", json_of(kernel.num_tasks)},
          {"scratch", json_of(kernel.scratch_bytes)},
          {"checks", std::move(checks)},
          {"shared", std::move(shared)}};
}

Json json_of(const Record::Use& use) {
  if (!use.code) return {{"call", use.why_call}};
  return {{"code", *use.code}, {"constants", use.constants}};
}

// ---- reading; errors are exceptions up to parse_record() ----

void need(bool holds, const char* what) {
  if (!holds) throw std::out_of_range(what);
}

std::size_t place_of(const Json& json, std::size_t count) {
  need(json.is_number_unsigned(), "a place that is no number");
  const auto place = json.get<std::size_t>();
  need(place < count, "a place past the end of its list");
  return place;
}

CompiledDim dim_of(const Json& json, std::size_t symbols) {
  std::vector<CompiledDim::Instruction> instructions;
  for (const Json& each : json) {
    const int opcode = each.at(0).get<int>();
    need(opcode >= 0 && opcode <= static_cast<int>(CompiledDim::Opcode::Min),
         "an unknown instruction of a size");
    instructions.push_back({static_cast<CompiledDim::Opcode>(opcode),
                            each.at(1).get<std::uint32_t>(), each.at(2).get<std::int64_t>()});
  }
  auto dim = CompiledDim::from_instructions(instructions, symbols);
  if (!dim) throw std::out_of_range(dim.error().message);
  return std::move(*dim);
}

Origin origin_of(const Json& json) {
  Origin origin;
  json.at("version").get_to(origin.version);
  json.at("target").get_to(origin.target);
  json.at("features").get_to(origin.features);
  json.at("fusion").get_to(origin.fusion);
  json.at("strict").get_to(origin.strict);
  json.at("threads").get_to(origin.threads);
  constexpr int kMostThreads = 1024;
  need(origin.threads >= 1 && origin.threads <= kMostThreads, "a number of threads");
  return origin;
}

Record::StoredTensor tensor_of(const Json& json) {
  Record::StoredTensor tensor;
  const auto dtype = parse_dtype(json.at("dtype").get_ref<const std::string&>());
  need(dtype.has_value(), "an unknown element type");
  tensor.dtype = *dtype;
  json.at("sizes").get_to(tensor.sizes);
  need(checked_num_bytes(tensor.dtype, tensor.sizes).has_value(), "the sizes of a tensor");
  if (json.contains("offset")) {
    need(json["offset"].is_number_unsigned(), "the offset of a tensor");
    tensor.offset = json["offset"].get<std::uint64_t>();
  }
  return tensor;
}

Record::Code code_of(const Json& json) {
  Record::Code code;
  need(json.at("entry").is_number_unsigned(), "the entry of a function");
  json.at("entry").get_to(code.entry);
  json.at("symbols").get_to(code.kernel.symbols);
  const std::size_t symbols = code.kernel.symbols.size();
  code.kernel.num_tasks = dim_of(json.at("tasks"), symbols);
  code.kernel.scratch_bytes = dim_of(json.at("scratch"), symbols);
  for (const Json& check : json.at("checks")) {
    code.kernel.checks.push_back({check.at("message").get<std::string>(),
                                  check.at("shown").get<std::vector<std::string>>()});
  }
  for (const Json& each : json.at("shared")) {
    code.kernel.shared.push_back(
        {dim_of(each.at("bytes"), symbols), each.at("zeroed").get<bool>()});
  }
  return code;
}

Record::Use use_of(const Json& json, const Record& record) {
  Record::Use use;
  if (json.contains("call")) {
    json["call"].get_to(use.why_call);
    return use;
  }
  use.code = place_of(json.at("code"), record.codes.size());
  for (const Json& each : json.at("constants")) {
    use.constants.push_back(place_of(each, record.tensors.size()));
    need(record.tensors[use.constants.back()].offset.has_value(), "a constant without bytes");
  }
  return use;
}

template <typename T>
Json list_of(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(json_of(item));
  return list;
}

}  // namespace

std::string to_json(const Record& record) {
  Json versions = Json::array();
  for (const auto& version : record.versions) versions.push_back(list_of(version));
  const Json json = {{"origin", json_of(record.origin)},
                     {"imports", record.imports},
                     {"tensors", list_of(record.tensors)},
                     {"codes", list_of(record.codes)},
                     {"versions", std::move(versions)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Expected<Record> parse_record(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    Record record;
    record.origin = origin_of(json.at("origin"));
    json.at("imports").get_to(record.imports);
    for (const Json& each : json.at("tensors")) record.tensors.push_back(tensor_of(each));
    for (const Json& each : json.at("codes")) record.codes.push_back(code_of(each));
    for (const Json& version : json.at("versions")) {
      record.versions.emplace_back();
      for (const Json& each : version) record.versions.back().push_back(use_of(each, record));
    }
    return record;
  } catch (const std::exception& error) {
    return fail("its record makes no sense: {}", error.what());
  }
}

}  // namespace opweld::aot
