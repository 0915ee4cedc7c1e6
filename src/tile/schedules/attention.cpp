// Schedule `attention`: softmax(mask(scale * Q K^T)) V with the scores never leaving the chip.
//
// Many queries:
//   grid b, h, q in S step NQ                            a task has a block of rows of one head
//     for blocks of keys that some row can see           blocks that are masked out whole are
//     skipped
//       scores, running maximum and sum, weighted sum    see attention_row_lanes.cpp
//     store y <- epilogue(o / l)
//
// Few queries, as in decoding:
//   grid b, g, r in S (Hq / Hkv) step NR, c in chunks of keys
//                                                        rows of all heads that share K and V
//     the same over the chunk                            see attention_key_lanes.cpp for up to four
//     partial <- m, l, o; the last chunk to arrive combines them: see attention_combine.cpp
//
// This is the online softmax of Milakov and Gimelshein (2018) in the blocking of Dao et al.,
// FlashAttention (2022), and its split over keys, Flash-Decoding (2023). A row whose scores are all
// masked has l = 0 and gives zeros, as does an empty T. Which of the two a kernel is follows from
// S; where S is free and T is not S, it holds both, and goes by S when it runs. Chunks are cut by T
// alone, so that no bit depends on how many threads there are.
//
// Where K and V are past rows and new ones that a concat joins and that are given out, either
// stores them as well: see attention_joined.cpp.
#include <algorithm>
#include <functional>
#include <limits>

#include "ops/block_table.h"
#include "tile/schedules/attention_form.h"
#include "tile/schedules/attention_rows.h"
#include "tile/schedules/schedules.h"

namespace opweld::tile {

namespace {

// Blocks of keys in a chunk.
constexpr std::int64_t kChunkBlocks = 2;

// What the group stores: over the result, over the log-sum-exp alone, and of K and V.
struct Outputs {
  std::vector<DomainOutput> result, lse;
  std::vector<JoinedRows> joined = {};
};

bool is_joined(const Value* output, std::span<const JoinedRows> joined) {
  return std::ranges::any_of(joined, [&](const JoinedRows& rows) {
    return std::ranges::find(rows.outputs, output, &DomainOutput::output) != rows.outputs.end();
  });
}

Expected<Outputs> find_outputs(std::span<const Value* const> results, const Attention& attention,
                               std::vector<JoinedRows> joined = {}) {
  Outputs outputs;
  outputs.joined = std::move(joined);
  for (const Value* result : results) {
    if (is_joined(result, outputs.joined)) continue;
    if (auto over = output_over(result, attention.node->result(0)->shape())) {
      outputs.result.push_back(std::move(*over));
      continue;
    }
    auto over =
        attention.lse == nullptr ? std::nullopt : output_over(result, attention.lse->shape());
    if (!over) return fail("an output does not have the shape of the attention's result");
    outputs.lse.push_back(std::move(*over));
  }
  return outputs;
}

class AttentionEmitter {
 public:
  // `store`: of an element of the result, where that is not just the store of an output.
  AttentionEmitter(GroupLowering& lowering, const Attention& attention, Outputs outputs,
                   StoreAttention store = {})
      : lowering_(lowering),
        program_(lowering.program()),
        math_(lowering.math()),
        exprs_(lowering.program().exprs()),
        attention_(attention),
        outputs_(std::move(outputs)),
        store_(std::move(store)) {}

  Status emit() {
    const Dim& queries = attention_.queries;
    const auto known = queries.constant();
    if (known && *known == 0 && !outputs_.joined.empty()) {
      return fail("without queries there are no tasks to store the rows that it joins");
    }
    if (known && *known >= 1 && *known <= kFewQueries) return emit_few();
    const bool never_few = provably_le(kFewQueries + 1, queries);
    if (known || never_few || queries == attention_.keys) return emit_many();
    return emit_either();
  }

  [[nodiscard]] BlockingChoices choices() const {
    const auto known = attention_.queries.constant();
    const bool is_few = known && *known >= 1 && *known <= kFewQueries;
    return attention_choices(attention_, lowering_.options(),
                             is_few ? few(attention_.queries, *known).task : many());
  }

  // All heads of some queries.
  Status emit_heads(const AttentionRows& rows) {
    AttentionTask task = many();
    return lowering_.serial("h", attention_.q->shape()[1], [&](Expr head) {
      return lowering_.serial("q0", rows.count, Dim(rows.most), task.row_block, [&](Expr block) {
        AttentionTask here = task;
        here.batch = rows.batch;
        here.head = head;
        here.row0 = math_.add(rows.first, block);
        return emit_many(here);
      });
    });
  }

 private:
  // ---- many queries ----

  Status emit_many() {
    AttentionTask task = many();
    task.batch = lowering_.grid("b", attention_.q->shape()[0]);
    task.head = lowering_.grid("h", attention_.q->shape()[1]);
    task.row0 = program_.grid("q0", attention_.queries, task.row_block);
    return emit_many(task);
  }

  AttentionTask many() const {
    AttentionTask task;
    task.queries = task.rows = attention_.queries;
    const std::int64_t most = lowering_.options().blocking.queries;
    if (on_matrix_unit(attention_, lowering_.options())) {
      task.row_block = matrix_rows(attention_.queries, most);
      task.key_block = keys_at_once(kMatrixKeyBlock);
    } else {
      task.row_block = row_lanes_block(*lowering_.options().target, attention_.queries, most);
      task.key_block = keys_at_once(kRowLanesBlock);
    }
    return task;
  }

  Status emit_many(AttentionTask& task) {
    task.key_head = math_.div(task.head, attention_.heads_per_group);
    take_rows(task);
    OPWELD_CHECK(store_share(task));
    OPWELD_CHECK(take_keys(task));
    AttentionScores scores(lowering_, attention_, task);
    const auto form = on_matrix_unit(attention_, lowering_.options())
                          ? make_matrix_form(lowering_, attention_, task, scores)
                          : make_row_lanes_form(lowering_, attention_, task, scores);
    OPWELD_CHECK(emit_keys(task, scores, *form));
    return store_rows(scores, task, *form);
  }

  // Of the rows that all tasks of a key head join, as many as each other one stores.
  Status store_share(const AttentionTask& task) {
    const Dim blocks = ceil_div(attention_.queries, Dim(task.row_block));
    const Dim tasks = max(attention_.heads_per_group * blocks, Dim(1));
    const Expr head = math_.mod(task.head, attention_.heads_per_group);
    const Expr number =
        math_.add(math_.mul(head, blocks), math_.div(task.row0, Dim(task.row_block)));
    for (const JoinedRows& joined : outputs_.joined) {
      const Dim rows = joined.value->shape()[2];
      const Dim share = ceil_div(rows, tasks);
      const Expr first = math_.mul(number, share);
      const Expr end = program_.min(program_.add(first, share), rows);
      OPWELD_CHECK(store_joined_rows(lowering_, joined, task.batch, task.key_head, first, end));
    }
    return {};
  }

  // ---- few queries ----

  std::int64_t keys_at_once(std::int64_t usual) const {
    const std::int64_t chosen = lowering_.options().blocking.key_block;
    return chosen != 0 ? chosen : usual;
  }

  struct Few {
    AttentionTask task;
    std::int64_t chunk = 0;  // keys
    Dim row_blocks, chunks;
    Dim batch;  // batch elements that are computed so
    bool key_lanes = false;

    [[nodiscard]] bool split() const { return !(chunks == Dim(1)); }
  };

  // `most`: bound of the queries of a head.
  Few few(const Dim& queries, std::int64_t most) const {
    Few few;
    few.task.queries = queries;
    few.task.rows = queries * attention_.heads_per_group;
    const Dim most_rows = most * attention_.heads_per_group;
    few.key_lanes = few.task.rows.is_constant() && provably_le(most_rows, kKeyLanesRows);
    few.task.row_block = few.key_lanes ? *most_rows.constant()
                                       : row_lanes_block(*lowering_.options().target, most_rows,
                                                         lowering_.options().blocking.queries);
    const bool one_block = provably_le(most_rows, few.task.row_block);
    few.row_blocks = one_block ? Dim(1) : ceil_div(few.task.rows, Dim(few.task.row_block));
    // What is joined is stored without queries, too.
    if (!outputs_.joined.empty()) few.row_blocks = max(few.row_blocks, Dim(1));
    few.task.key_block = keys_at_once(few.key_lanes ? kKeyLanesBlock : kRowLanesBlock);
    few.chunk = kChunkBlocks * few.task.key_block;
    few.chunks = max(ceil_div(attention_.keys, Dim(few.chunk)), Dim(1));
    few.batch = attention_.q->shape()[0];
    return few;
  }

  Status emit_few() {
    Few few = this->few(attention_.queries, *attention_.queries.constant());
    few.task.batch = lowering_.grid("b", attention_.q->shape()[0]);
    few.task.key_head = lowering_.grid("g", attention_.key_heads);
    const Expr row_block = lowering_.grid("r", few.row_blocks);
    const Expr chunk = lowering_.grid("c", few.chunks);
    return emit_few_rows(few, row_block, chunk);
  }

  Status emit_few_rows(Few& few, Expr row_block, Expr chunk) {
    OPWELD_CHECK(store_chunk(few, row_block, chunk));
    const GroupLowering::ReadBack read_back(lowering_, rows_to_read_back(few));
    AttentionTask& task = few.task;
    task.row0 = math_.mul(row_block, Dim(task.row_block));
    take_rows(task);
    OPWELD_CHECK(take_keys(task));
    AttentionScores scores(lowering_, attention_, task);
    const auto emit_rows = [&]() -> Expected<std::unique_ptr<AttentionForm>> {
      auto form = few.key_lanes ? make_key_lanes_form(lowering_, attention_, task, scores)
                                : make_row_lanes_form(lowering_, attention_, task, scores);
      OPWELD_CHECK(emit_keys(task, scores, *form));
      return form;
    };
    if (!few.split()) {
      OPWELD_TRY(const auto form, emit_rows());
      return store_rows(scores, task, *form);
    }
    const KeyRange chunks = chunks_in_sight(few, scores);
    AttentionPartials partials(lowering_, attention_, task,
                               {few.batch, few.row_blocks, few.chunks});
    const auto emit_chunk = [&]() -> Status {
      task.first_key = math_.mul(chunk, Dim(few.chunk));
      task.end_key = program_.min(program_.add(task.first_key, few.chunk), task.end_key);
      OPWELD_TRY(const auto form, emit_rows());
      OPWELD_CHECK(partials.store(*form, chunk));
      return partials.combine(row_block, chunks, [&](Expr row, const RowState& state) {
        return store_row(scores, task, row, state);
      });
    };
    if (!attention_.skips()) return emit_chunk();
    return emit_when(exprs_.binary(ExprKind::And, exprs_.binary(ExprKind::Le, chunks.first, chunk),
                                   exprs_.binary(ExprKind::Lt, chunk, chunks.end)),
                     emit_chunk);
  }

  // What is joined of the chunk, by one of the tasks that it is cut into by rows.
  Status store_chunk(const Few& few, Expr row_block, Expr chunk) {
    if (outputs_.joined.empty()) return {};
    const auto store = [&]() -> Status {
      for (const JoinedRows& joined : outputs_.joined) {
        const Dim& rows = joined.value->shape()[2];
        const Expr first = math_.mul(chunk, Dim(few.chunk));
        const Expr end =
            few.split() ? program_.min(program_.add(first, few.chunk), rows) : math_.size(rows);
        OPWELD_CHECK(
            store_joined_rows(lowering_, joined, few.task.batch, few.task.key_head, first, end));
      }
      return {};
    };
    if (few.row_blocks == Dim(1)) return store();
    return emit_when(exprs_.binary(ExprKind::Eq, row_block, math_.constant(0)), store);
  }

  // What a task has stored of what it reads: all, unless there are several for a chunk.
  std::vector<const Value*> rows_to_read_back(const Few& few) const {
    std::vector<const Value*> values;
    for (const JoinedRows& joined : outputs_.joined) {
      if (few.row_blocks == Dim(1) && joined.is_output()) values.push_back(joined.value);
    }
    return values;
  }

  // Chunks of the keys that some row of the task sees; the tasks of all others have nothing to do.
  // Of no keys the first chunk takes care.
  KeyRange chunks_in_sight(const Few& few, AttentionScores& scores) {
    if (!attention_.skips()) return {math_.constant(0), math_.size(few.chunks)};
    const KeyRange keys = scores.visible_keys();
    const Expr any = exprs_.binary(ExprKind::Lt, keys.first, keys.end);
    const Expr size = math_.constant(few.chunk);
    const Expr first = exprs_.binary(ExprKind::Div, keys.first, size);
    const Expr end = exprs_.binary(ExprKind::Div, program_.add(keys.end, few.chunk - 1), size);
    return {program_.map(exprs_.select(any, first, math_.constant(0)), "first"),
            program_.map(exprs_.select(any, end, math_.constant(1)), "end")};
  }

  // ---- both: which is decided when it runs ----

  // 1 where there are at most so many queries, else 0.
  Dim at_most(std::int64_t count) const { return min(max(count + 1 - attention_.queries, 0), 1); }

  Status emit_either() {
    const Dim& queries = attention_.queries;
    // Of no queries there are no tasks; but for what is joined, of which the few take care.
    const bool joins = !outputs_.joined.empty();
    const Dim is_single = at_most(1) - at_most(0);
    const Dim is_few = at_most(kFewQueries) - at_most(1) + (joins ? at_most(0) : Dim(0));
    AttentionTask many = this->many();
    Few single = this->few(Dim(1), 1);
    Few few = this->few(queries, kFewQueries);
    single.batch *= is_single;
    few.batch *= is_few;
    const auto tasks_of = [&](const Few& f) {
      return attention_.key_heads * f.row_blocks * f.chunks;
    };
    const Dim query_blocks = ceil_div(queries, Dim(many.row_block));
    const Dim tasks_of_many = attention_.q->shape()[1] * query_blocks;
    const Expr batch = lowering_.grid("b", attention_.q->shape()[0]);
    const Expr task =
        program_.grid("task", tasks_of_many + is_single * (tasks_of(single) - tasks_of_many) +
                                  is_few * (tasks_of(few) - tasks_of_many));
    const Expr count = math_.size(queries);
    const auto more_than = [&](std::int64_t limit) {
      return exprs_.binary(ExprKind::Lt, math_.constant(limit), count);
    };
    const Expr one = exprs_.binary(ExprKind::Eq, count, math_.constant(1));
    OPWELD_CHECK(emit_when(one, [&] { return emit_few(single, batch, task); }));
    const Expr not_one = joins ? exprs_.unary(ExprKind::Not, one) : more_than(1);
    OPWELD_CHECK(emit_when(
        exprs_.binary(ExprKind::And, not_one, exprs_.unary(ExprKind::Not, more_than(kFewQueries))),
        [&] { return emit_few(few, batch, task); }));
    return emit_when(more_than(kFewQueries), [&] {
      many.batch = batch;
      many.head = math_.div(task, query_blocks);
      math_.set_bound(many.head, attention_.q->shape()[1]);
      many.row0 = math_.mul(math_.mod(task, query_blocks), Dim(many.row_block));
      return emit_many(many);
    });
  }

  // Task `task` of a batch element.
  Status emit_few(Few& few, Expr batch, Expr task) {
    few.task.batch = batch;
    few.task.key_head = math_.div(task, few.row_blocks * few.chunks);
    math_.set_bound(few.task.key_head, attention_.key_heads);
    const Expr row_block = math_.mod(math_.div(task, few.chunks), few.row_blocks);
    return emit_few_rows(few, row_block, math_.mod(task, few.chunks));
  }

  Status emit_when(Expr condition, const std::function<Status()>& body) {
    Status status;
    program_.when(condition, [&] {
      const ElementBuilder::Scope scope(lowering_.elements());
      status = body();
    });
    return status;
  }

  // ---- common ----

  void take_rows(AttentionTask& task) {
    math_.set_bound(task.row0, task.rows);
    const auto rows = task.rows.constant();
    task.row_count = rows && *rows <= task.row_block
                         ? math_.constant(*rows)
                         : program_.min(program_.sub(task.rows, task.row0), task.row_block);
  }

  Status take_keys(AttentionTask& task) {
    task.first_key = math_.constant(0);
    task.end_key = math_.size(attention_.keys);
    if (attention_.lengths != nullptr) {
      const Expr batch = unit(attention_.lengths->shape()[0], task.batch);
      OPWELD_TRY(const Expr given, lowering_.elements().element(attention_.lengths, Index{batch}));
      const Expr length = exprs_.convert(given, DType::I64);
      const Expr enough = exprs_.binary(ExprKind::Le, math_.constant(0), length);
      const Expr fits = exprs_.binary(ExprKind::Le, length, task.end_key);
      program_.check(
          exprs_.binary(ExprKind::And, enough, fits),
          fmt::format("attention '{}': {}", attention_.node->display_name(), kLengthOutOfRange),
          {{"sequence", batch}, {"length", length}, {"keys", task.end_key}});
      task.end_key = length;
    }
    task.diagonal = attention_.causal == "bottom_right"
                        ? program_.sub(task.end_key, attention_.queries)
                        : math_.constant(0);
    return {};
  }

  // All blocks of keys. What hidden keys hold in V is multiplied by 0, which does for numbers;
  // where a weighted sum comes out as none, the task goes over its keys a second time, carefully.
  Status emit_keys(const AttentionTask& task, AttentionScores& scores, AttentionForm& form) {
    form.make_buffers();
    OPWELD_CHECK(form.load_queries());
    if (!attention_.hides()) {
      form.reset();
      OPWELD_CHECK(emit_blocks(task, scores, form, kNoExpr));
      OPWELD_CHECK(form.finish());
      return {};
    }
    const MemoryRef unsound = program_.buffer("unsound", DType::F32, {1}, Buffer::Space::Cache);
    const Access flag = program_.at(unsound, {0});
    program_.store(flag, zero());
    return lowering_.serial("pass", Dim(2), [&](Expr pass) {
      const Expr first = exprs_.binary(ExprKind::Eq, pass, math_.constant(0));
      const Expr needed = exprs_.binary(ExprKind::Ne, program_.load(flag), zero());
      return emit_when(exprs_.binary(ExprKind::Or, first, needed), [&]() -> Status {
        form.reset();
        OPWELD_CHECK(emit_blocks(task, scores, form, exprs_.unary(ExprKind::Not, first)));
        OPWELD_CHECK(form.finish());
        program_.store(flag, form.unsound());
        return {};
      });
    });
  }

  Status emit_blocks(const AttentionTask& task, AttentionScores& scores, AttentionForm& form,
                     Expr careful) {
    const std::int64_t block = task.key_block;
    const KeyRange visible = scores.visible_keys();
    const Expr size = math_.constant(block);
    // Blocks begin at multiples of their size, whatever the first key is.
    const Expr skipped = exprs_.binary(ExprKind::Div, visible.first, size);
    const Expr any = exprs_.binary(ExprKind::Lt, visible.first, visible.end);
    const Expr reached = exprs_.select(any, visible.end, math_.constant(0));
    const Expr end = exprs_.binary(ExprKind::Div, program_.add(reached, block - 1), size);
    return lowering_.serial("tb", program_.sub(end, skipped), ceil_div(attention_.keys, Dim(block)),
                            [&](Expr step) -> Status {
                              const Expr key0 = math_.mul(program_.add(skipped, step), Dim(block));
                              const Expr left = program_.sub(task.end_key, key0);
                              const Expr count = program_.min(left, block);
                              OPWELD_CHECK(form.find_keys(key0, count, visible));
                              return form.emit_key_block(key0, count, careful);
                            });
  }

  Status store_rows(AttentionScores& scores, const AttentionTask& task, AttentionForm& form) {
    return lowering_.serial("q", task.row_count, Dim(task.row_block), [&](Expr local) {
      const Expr row = math_.add(task.row0, local);
      math_.set_bound(row, task.rows);
      return store_row(scores, task, row, {form.maximum(local), form.sum(local), [&](Expr d) {
                                             return form.weighted(local, d);
                                           }});
    });
  }

  Status store_row(AttentionScores& scores, const AttentionTask& task, Expr row,
                   const RowState& state) {
    const AttentionScores::Position at = scores.position(row);
    const Index place{unit(attention_.q->shape()[0], task.batch),
                      unit(attention_.q->shape()[1], at.head), unit(attention_.queries, at.query)};
    if (attention_.lse != nullptr) {
      // -inf for a row without keys, of which both are.
      const Expr lse = program_.map(
          exprs_.binary(ExprKind::Add, state.maximum, exprs_.unary(ExprKind::Log, state.sum)));
      define(attention_.lse, place, lse);
      for (const DomainOutput& output : outputs_.lse) {
        OPWELD_CHECK(lowering_.store(output, place));
      }
    }
    if (outputs_.result.empty()) return {};
    return lowering_.vector("d", attention_.value_head, 2, [&](Expr d) -> Status {
      const Expr quotient = exprs_.binary(ExprKind::Div, state.weighted(d), state.sum);
      Expr value = exprs_.select(gives_zeros(state.sum), zero(), quotient);
      if (lowering_.options().strict) {
        value = exprs_.store(value, attention_.node->result(0)->dtype());
      }
      Index index = place;
      index.push_back(unit(attention_.value_head, d));
      define(attention_.node->result(0), index, value);
      for (const DomainOutput& output : outputs_.result) {
        OPWELD_CHECK(store_ ? store_(output, index) : lowering_.store(output, index));
      }
      return {};
    });
  }

  // Whether a row with this sum of weights is zeros: one without keys; if so asked, one with a
  // score of NaN or +inf as well, of which the sum is NaN or +inf.
  Expr gives_zeros(Expr sum) {
    if (!attention_.zero_nan_rows) return exprs_.binary(ExprKind::Eq, sum, zero());
    const Expr infinity = exprs_.constant(std::numeric_limits<double>::infinity(), DType::F32);
    const Expr has_weight = exprs_.binary(ExprKind::Lt, zero(), sum);
    const Expr is_finite = exprs_.binary(ExprKind::Lt, sum, infinity);
    return exprs_.unary(ExprKind::Not, exprs_.binary(ExprKind::And, has_weight, is_finite));
  }

  void define(const Value* value, const Index& index, Expr element) {
    lowering_.elements().define(value, [=](std::span<const Expr> asked) {
      return std::equal(asked.begin(), asked.end(), index.begin(), index.end()) ? element : kNoExpr;
    });
  }

  Expr unit(const Dim& size, Expr at) { return size == Dim(1) ? math_.constant(0) : at; }
  Expr zero() { return exprs_.constant(0, DType::F32); }

  GroupLowering& lowering_;
  ProgramBuilder& program_;
  IndexMath& math_;
  ExprPool& exprs_;
  const Attention& attention_;
  Outputs outputs_;
  StoreAttention store_;
};

}  // namespace

std::int64_t attention_row_block(const Attention& attention, const LowerOptions& options) {
  const std::int64_t most = options.blocking.queries;
  return on_matrix_unit(attention, options)
             ? matrix_rows(attention.queries, most)
             : row_lanes_block(*options.target, attention.queries, most);
}

bool puts_heads_side_by_side(const DomainOutput& output) {
  const Shape& shape = output.value->shape();
  const Dim width = shape[1] * shape[3];
  const std::vector<Dim> strides = {shape[2] * width, shape[3], width, 1};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != Dim(1) && output.view.strides[axis] != strides[axis]) return false;
  }
  return output.scatter == nullptr && output.output->shape().back() == width;
}

bool always_has_many_queries(const Attention& attention) {
  if (const auto known = attention.queries.constant()) return *known > kFewQueries;
  return attention.queries == attention.keys || provably_le(kFewQueries + 1, attention.queries);
}

bool has_many_queries(const Attention& attention, std::int64_t queries) {
  return queries > kFewQueries || always_has_many_queries(attention);
}

Status emit_attention_rows(GroupLowering& lowering, const Attention& attention,
                           std::span<const Value* const> results, const AttentionRows& rows,
                           const StoreAttention& store) {
  OPWELD_TRY(Outputs outputs, find_outputs(results, attention));
  return AttentionEmitter(lowering, attention, std::move(outputs), store).emit_heads(rows);
}

Expected<LoweredKernel> lower_attention(const Graph& group, const LowerOptions& options,
                                        std::string name) {
  OPWELD_TRY(const Attention attention, find_attention(group));
  OPWELD_TRY(std::vector<JoinedRows> joined, find_joined_rows(group, attention));
  OPWELD_TRY(Outputs outputs, find_outputs(outputs_of(group), attention, std::move(joined)));
  GroupLowering lowering(group, options, std::move(name));
  lowering.bind_params();
  AttentionEmitter emitter(lowering, attention, std::move(outputs));
  OPWELD_CHECK(emitter.emit());
  LoweredKernel kernel = lowering.finish();
  kernel.choices = emitter.choices();
  return kernel;
}

}  // namespace opweld::tile
