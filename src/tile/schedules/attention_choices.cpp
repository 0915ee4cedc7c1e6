// What the `attention` schedule leaves to measurement: rows of a task against how many tasks there
// are, keys at once against how often a running maximum is corrected.
#include "tile/schedules/attention_task.h"

namespace opweld::tile {

namespace {

std::string attention_class(const Attention& attention) {
  const Shape& q = attention.q->shape();
  std::string text =
      fmt::format("{} {} x {} heads of {} x {} on {} {} heads of {} x {}",
                  to_string(attention.q->dtype()), rounded_text(q[0]), rounded_text(q[1]),
                  rounded_text(attention.queries), rounded_text(attention.head),
                  to_string(attention.k->dtype()), rounded_text(attention.key_heads),
                  rounded_text(attention.keys), rounded_text(attention.value_head));
  if (attention.causal != "none") text += ", causal";
  if (attention.window_left >= 0 || attention.window_right >= 0) text += ", window";
  if (attention.mask != nullptr) text += ", mask";
  if (attention.lengths != nullptr) text += ", lengths";
  if (attention.block_table != nullptr) text += ", pages";
  if (attention.k->producer() != nullptr && attention.k->producer()->op() == "concat") {
    text += ", joined rows";
  }
  return text;
}

}  // namespace

BlockingChoices attention_choices(const Attention& attention, const LowerOptions& options,
                                  const AttentionTask& task) {
  BlockingChoices choices{attention_class(attention), {}};
  // In strict numerics the fused kernel and the unfused one must add up alike.
  if (options.strict) return {};
  const std::int64_t two_vectors = 2 * options.target->lanes(byte_size(DType::F32));
  if (task.row_block > two_vectors) {
    for (const std::int64_t panels : {1, 2, 6}) {
      choices.candidates.push_back({.queries = panels * two_vectors});
    }
  }
  choices.candidates.push_back({.key_block = task.key_block / 2});
  choices.candidates.push_back({.key_block = 2 * task.key_block});
  return choices;
}

}  // namespace opweld::tile
