#include "codegen/cpu/spills.h"

#include <algorithm>
#include <charconv>

namespace opweld::cpu {

namespace {

// Of a vector of the smallest kind.
constexpr int kVectorBytes = 16;

// Calls visit(line) for each line, without its end.
template <typename Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The bytes that an instruction spills or reloads: "# 32-byte Folded Reload".
int spilled_bytes(std::string_view line) {
  const std::size_t at = line.find("-byte ");
  if (at == std::string_view::npos) return 0;
  const std::string_view kind = line.substr(at);
  if (kind.find("Spill") == std::string_view::npos && kind.find("Reload") == std::string_view::npos)
    return 0;
  const std::size_t before = line.find_last_not_of("0123456789", at - 1);
  int bytes = 0;
  std::from_chars(line.data() + before + 1, line.data() + at, bytes);
  return bytes;
}

// Instructions are indented, as directives are, which begin with a dot.
bool is_instruction(std::string_view line) {
  return line.size() > 1 && line[0] == '\t' && line[1] != '.' && line[1] != '#';
}

}  // namespace

VectorSpills count_vector_spills(std::string_view assembly) {
  VectorSpills result;
  for_each_line(assembly, [&](std::string_view line) {
    if (!is_instruction(line)) return;
    ++result.instructions;
    if (spilled_bytes(line) >= kVectorBytes) ++result.spills;
  });
  return result;
}

}  // namespace opweld::cpu
