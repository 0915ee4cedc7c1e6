// Groups of one attention with any of its operands, as text, and inputs for them.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tile/group_runner.h"

namespace opweld::testing {

// [b, 4 heads, queries] on [b, 2 heads, t], or on w pages of p keys out of n.
struct AttentionGroup {
  std::string queries = "s";
  std::string attributes = "causal = \"none\"";
  std::string mask = {};  // type; empty: none
  bool lengths = false;
  bool slopes = false;
  bool lse = false;
  bool paged = false;  // which asks for lengths
  std::string dtype = "f32";
  std::string indices = "i64";  // dtype of lengths and of the block table
  int key_heads = 2;
  std::string batch = "b";
  std::string keys = "t";
  std::string pages = "w";
  std::string page_size = "p";
  std::string head = "d";
  std::string value_head = "e";

  [[nodiscard]] std::string text() const {
    const auto cache = [&](const std::string& name, const std::string& width) {
      return fmt::format("%{}: {}[{}, {}, {}, {}]", name, dtype, paged ? "n" : batch, key_heads,
                         paged ? page_size : keys, width);
    };
    std::string inputs = fmt::format("%q: {}[{}, 4, {}, {}], {}, {}", dtype, batch, queries, head,
                                     cache("k", head), cache("v", value_head));
    if (!mask.empty()) inputs += ", %m: " + mask;
    if (lengths) inputs += fmt::format(", %n: {}[{}]", indices, batch);
    if (slopes) inputs += ", %a: f32[4]";
    if (paged) inputs += fmt::format(", %c: {}[{}, {}]", indices, batch, pages);
    return fmt::format(
        "graph g({}) {{ {} = attention(%q, %k, %v, {}, {}, {}, {}) {{scale = 0.3, {}{}}}\n"
        " return %y as \"y\"{} }}",
        inputs, lse ? "%y, %l" : "%y", mask.empty() ? "_" : "%m", lengths ? "%n" : "_",
        slopes ? "%a" : "_", paged ? "%c" : "_", attributes, lse ? ", lse = 1" : "",
        lse ? ", %l as \"l\"" : "");
  }

  // Of operand `name` among the inputs.
  [[nodiscard]] std::size_t place(char name) const {
    std::string present = "qkv";
    if (!mask.empty()) present += 'm';
    if (lengths) present += 'n';
    if (slopes) present += 'a';
    if (paged) present += 'c';
    return present.find(name);
  }
};

struct AttentionSizes {
  std::int64_t queries = 1;
  std::int64_t keys = 0;  // of a batch element; of paged ones, pages are enough for these
  std::int64_t head = 16;
  std::int64_t value_head = 16;
  std::int64_t batch = 3;
  std::int64_t page_size = 16;

  [[nodiscard]] std::int64_t pages() const { return (keys + page_size - 1) / page_size; }
};

// Random inputs, with lengths that differ from one batch element to the next. Pages lie in no
// order; entries past the length name pages that do not exist.
inline std::vector<Tensor> attention_inputs(const GroupRunner& group, const AttentionGroup& options,
                                            const AttentionSizes& sizes) {
  const std::int64_t pages = sizes.pages();
  const std::int64_t in_cache = sizes.batch * pages + 2;
  std::vector<Tensor> inputs = group.random_inputs({{"b", sizes.batch},
                                                    {"s", sizes.queries},
                                                    {"t", sizes.keys},
                                                    {"d", sizes.head},
                                                    {"e", sizes.value_head},
                                                    {"n", in_cache},
                                                    {"w", pages},
                                                    {"p", sizes.page_size}});
  const auto length = [&](std::int64_t b) {
    return std::max<std::int64_t>(0, sizes.keys - 97 * b);
  };
  if (options.lengths) {
    Tensor& lengths = inputs[options.place('n')];
    for (std::int64_t b = 0; b < sizes.batch; ++b) lengths.set_int(b, length(b));
  }
  if (options.slopes) {
    // As published for four heads.
    Tensor& slopes = inputs[options.place('a')];
    for (int h = 0; h < 4; ++h) slopes.set_double(h, std::exp2(-2 * (h + 1)));
  }
  if (options.paged) {
    Tensor& table = inputs[options.place('c')];
    std::vector<std::int64_t> order;
    for (std::int64_t page = 0; page < in_cache; ++page) order.push_back(page);
    std::ranges::shuffle(order, std::mt19937(3));
    for (std::int64_t i = 0; i < sizes.batch * pages; ++i) {
      const bool taken = i % pages * sizes.page_size < length(i / pages);
      table.set_int(i, taken ? order[static_cast<std::size_t>(i)] : (i % 2 == 0 ? -1 : in_cache));
    }
  }
  return inputs;
}

}  // namespace opweld::testing
