// Projections of an attention as text: q and k turned, v as it is, heads of any size, pairs of any
// order, positions of any shape, with or without caches behind them.
#pragma once

#include <fmt/format.h>

#include <string>

namespace opweld::testing {

struct RotaryHeads {
  // Angles of positions [s] and [b, s], or of ids [1, s] or [b, s] that a table is asked for.
  enum class Positions : std::uint8_t { Given, Shared, OfEach };
  enum class Caches : std::uint8_t { None, Linear, Circular };
  // Of q and k, head by head, before they are turned.
  enum class HeadNorm : std::uint8_t { None, Rms, Layer };

  std::string dtype = "f32";
  std::string rows = "s";
  int depth = 24;
  int head = 64;
  int heads = 3;      // of q
  int key_heads = 2;  // of k and v
  int pairs = 0;      // that are turned; none if 0
  bool interleaved = false;
  bool bias = false;
  bool norm = false;
  bool whole = false;  // the result of the matmul is an output, too
  Positions positions = Positions::Given;
  Caches caches = Caches::None;
  HeadNorm head_norm = HeadNorm::None;
  bool norm_behind = false;  // the transpose
};

inline constexpr int kTablePositions = 5;  // random ids are below it
inline constexpr int kCacheRows = 80;

inline std::string rotary_heads(const RotaryHeads& p) {
  using Positions = RotaryHeads::Positions;
  using Caches = RotaryHeads::Caches;
  const int columns = (p.heads + 2 * p.key_heads) * p.head;
  const auto normalized = [&](const std::string& to, const std::string& from) {
    const bool is_rms = p.head_norm == RotaryHeads::HeadNorm::Rms;
    return fmt::format("%{} = {}_norm(%{}, %{}) {{axis = -1, epsilon = 1e-06}}\n", to,
                       is_rms ? "rms" : "layer", from, is_rms ? "gh" : "gh, %bh");
  };
  const auto take = [&](const std::string& name, int first, int heads) {
    std::string view = fmt::format(
        "%{0}s = slice(%d) {{starts = <0, 0, {1}>, sizes = <b, {5}, {2}>, steps = [1, 1, 1]}}\n"
        "%{0}r = reshape(%{0}s) {{shape = <b, {5}, {3}, {4}>}}\n",
        name, first * p.head, heads * p.head, heads, p.head, p.rows);
    const auto moved = [&](const std::string& to, const std::string& from) {
      return fmt::format("%{} = transpose(%{}) {{permutation = [0, 2, 1, 3]}}\n", to, from);
    };
    if (name == "v" || p.head_norm == RotaryHeads::HeadNorm::None) {
      return view + moved(name, name + "r");
    }
    if (p.norm_behind) return view + moved(name + "m", name + "r") + normalized(name, name + "m");
    return view + normalized(name + "m", name + "r") + moved(name, name + "m");
  };
  std::string text = fmt::format("graph g(%x: {}[b, {}, {}]", p.dtype, p.rows, p.depth);
  const bool given = p.positions == Positions::Given;
  if (p.pairs > 0) {
    const std::string angles = given ? p.rows : std::to_string(kTablePositions);
    const std::string of = given ? "" : "table";
    text += fmt::format(", %cos{0}: {1}[{2}, {3}], %sin{0}: {1}[{4}{2}, {3}]", of, p.dtype, angles,
                        p.pairs, given ? "b, " : "");
    if (!given) {
      text +=
          fmt::format(", %ids: i64[{}, {}]", p.positions == Positions::Shared ? "1" : "b", p.rows);
    }
  }
  if (p.caches != Caches::None) {
    text += fmt::format(", %ck: {0}[b, {1}, {2}, {3}], %cv: {0}[b, {1}, {2}, {3}], %at: i64[b]",
                        p.dtype, p.key_heads, kCacheRows, p.head);
  }
  text += ") {\n";
  text += fmt::format("%w = constant {{value = {}[{}, {}] random 1}}\n", p.dtype, p.depth, columns);
  text += fmt::format("%c = constant {{value = {}[{}] random 2}}\n", p.dtype, columns);
  text += fmt::format("%g = constant {{value = {}[{}] random 3}}\n", p.dtype, p.depth);
  if (p.head_norm != RotaryHeads::HeadNorm::None) {
    text += fmt::format(
        "%gh = constant {{value = {0}[{1}] random 4}}\n%bh = constant {{value = {0}[{1}] random "
        "5}}\n",
        p.dtype, p.head);
  }
  text += p.norm ? "%n = rms_norm(%x, %g) {axis = -1, epsilon = 1e-06}\n%m = matmul(%n, %w)\n"
                 : "%m = matmul(%x, %w)\n";
  // Sums of many products are scaled down, as their rounding is.
  text += fmt::format("%f = constant {{value = {}[] {{0.015625}}}}\n", p.dtype);
  text += p.bias ? "%d = add(%m, %c)\n" : "%d = mul(%m, %f)\n";
  text += take("q", 0, p.heads) + take("k", p.heads, p.key_heads) +
          take("v", p.heads + p.key_heads, p.key_heads);
  if (p.pairs > 0) {
    if (!given) {
      text +=
          "%cos = gather(%costable, %ids) {axis = 0}\n%sin = gather(%sintable, %ids) {axis = 0}\n";
    }
    const std::string attributes = p.interleaved ? " {interleaved = 1}" : "";
    text += "%qt = rope(%q, %cos, %sin)" + attributes + "\n";
    text += "%kt = rope(%k, %cos, %sin)" + attributes + "\n";
  } else {
    text += "%qt = neg(%q)\n%kt = neg(%k)\n";
  }
  std::string keys = "%kt";
  std::string values = "%v";
  if (p.caches != Caches::None) {
    const std::string mode = p.caches == Caches::Linear ? "linear" : "circular";
    for (const std::string name : {"k", "v"}) {
      text += fmt::format("%p{0} = tensor_scatter(%c{0}, {1}, %at) {{axis = 2, mode = \"{2}\"}}\n",
                          name, name == "k" ? keys : values, mode);
    }
    keys = "%pk";
    values = "%pv";
  }
  text += fmt::format("return %qt as \"q\", {} as \"k\", {} as \"v\"", keys, values);
  text += p.whole ? ", %d as \"d\"\n}" : "\n}";
  return text;
}

}  // namespace opweld::testing
