#include "stored_account.h"

#include <fmt/ranges.h>

#include <exception>
#include <nlohmann/json.hpp>

#include "report/account.h"

namespace opweld::cli {

namespace {

using Json = nlohmann::ordered_json;

void print_kernel(const Json& kernel) {
  const auto text = [&](const char* key) { return kernel.at(key).get<std::string>(); };
  const auto bytes = [&](const char* key) { return human_bytes(kernel.at(key).get<double>()); };
  const std::string layer = text("layer");
  fmt::print("  {:<16} {:<10} {:>10} read {:>10} written  {}{}\n", text("name"), text("kind"),
             bytes("read_bytes"), bytes("written_bytes"), text("operators"),
             layer.empty() ? "" : fmt::format("  [{}]", layer));
}

std::string sizes_text(const Json& sizes) {
  std::vector<std::string> given;
  for (const auto& [name, size] : sizes.items()) {
    given.push_back(fmt::format("{} = {}", name, size.get<std::int64_t>()));
  }
  return given.empty() ? "" : fmt::format(" at {}", fmt::join(given, ", "));
}

}  // namespace

Status print_stored_account(const std::string& account) {
  try {
    const Json json = Json::parse(account);
    fmt::print("Kernels, in order{}, as told when the model was compiled:\n",
               sizes_text(json.at("sizes")));
    for (const Json& kernel : json.at("kernels")) print_kernel(kernel);
    fmt::print("{} kernels\n\n", json.at("kernels").size());
    for (const Json& line : json.at("log")) {
      const auto text = line.get<std::string>();
      if (!text.starts_with("AutoFusion: keep ")) fmt::print("{}\n", text);
    }
    return {};
  } catch (const std::exception& error) {
    return fail("its account makes no sense: {}", error.what());
  }
}

}  // namespace opweld::cli
