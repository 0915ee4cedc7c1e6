// Schedule `chain`: norms and matmuls one after the other, with what goes between them on chip.
//
//   grid m0 in M step MB                                  a task owns a block of rows
//     for each stage
//       for heads:  h[:, head] <- attention                          blocks as in `attention`
//       for i in rows:  h[i, :] <- norm(x or an earlier h)           passes as in schedule `row`
//       for n0 in N step NB:  h or y <- epilogue(h . packed weights) loops as in schedule
//       `contract`
//
// The two halves of a feed-forward, a norm and the projections behind it, a projection and the norm
// behind that: no value between them is written to memory, and no task waits for another.
//
// Where all stages before the last matmul are norms, its columns can be shared out as well: each
// thread has the norms of its rows for itself, which costs some passes over rows in the cache, and
// keeps them from task to task; the task with the first columns stores what is wanted of them. With
// many rows a task has all columns; with few, as in decoding, there are tasks enough for all
// threads.
//
// An attention comes first, of all heads of the task's rows, which are then queries of one
// sequence; heads stand side by side in what the stage keeps, so that a projection goes on from
// there.
//
// Weights pass by once for each block of rows, so there should be many rows in a block; what the
// stages keep of each row decides how many fit.
//
// The stages of a mixture of experts are grouped matmuls, and its rows stand group after group, as
// each thread sorts them for itself before its first task (see row_sort.h). Of the matrices a task
// goes through those that its rows chose. What the experts gave a token is added up by the last
// task of all to arrive (see collected_rows.h).
#include <algorithm>
#include <numeric>
#include <optional>

#include "ops/op.h"
#include "tile/lowering_memory.h"
#include "tile/schedules/attention_rows.h"
#include "tile/schedules/chain_shares.h"
#include "tile/schedules/chain_stages.h"
#include "tile/schedules/collected_rows.h"
#include "tile/schedules/contract_task.h"
#include "tile/schedules/head_rows.h"
#include "tile/schedules/held_values.h"
#include "tile/schedules/reduction_recipe.h"
#include "tile/schedules/row_sort.h"
#include "tile/schedules/schedules.h"
#include "tile/schedules/staged_reduction.h"

namespace opweld::tile {

namespace {

// A stage and what is known of it before code is emitted.
struct StagePlan {
  const ChainStage* stage;
  // Of a matmul:
  Contraction contraction = {};
  bool on_matrix_unit = false;
  std::optional<HeadRows> head_rows = {};
  std::optional<Attention> attention = {};  // of an attention
};

class ChainEmitter {
 public:
  ChainEmitter(GroupLowering& lowering, const Chain& chain) : lowering_(lowering), chain_(chain) {}

  Status plan() {
    for (const ChainStage& stage : chain_.stages) {
      StagePlan plan{&stage};
      if (stage.kind == ChainStage::Kind::Contract) OPWELD_CHECK(plan_matmul(plan));
      if (stage.kind == ChainStage::Kind::Attention) OPWELD_CHECK(plan_attention(plan));
      plans_.push_back(std::move(plan));
    }
    const auto is_norm = [](const ChainStage& stage) {
      return stage.kind == ChainStage::Kind::Row;
    };
    const auto& stages = chain_.stages;
    splits_columns_ = stages.back().kind == ChainStage::Kind::Contract &&
                      std::all_of(stages.begin(), stages.end() - 1, is_norm);
    return choose_rows();
  }

  // One choice serves all matmuls of a chain.
  [[nodiscard]] BlockingChoices choices() const {
    BlockingChoices choices;
    std::vector<const StagePlan*> tiled;  // the matmuls that have register tiles
    for (const StagePlan& plan : plans_) {
      if (plan.stage->kind != ChainStage::Kind::Contract) continue;
      if (!plan.on_matrix_unit) tiled.push_back(&plan);
      if (!choices.shape.empty()) choices.shape += ", then ";
      choices.shape += contract_class(plan.contraction, sizes_of(plan, chain_.rows));
    }
    for (const auto& [rows, vectors] : register_tiles(*lowering_.options().target)) {
      const Blocking other = {.tile_rows = rows, .tile_vectors = vectors};
      const auto fits = [width = vectors](const StagePlan* plan) {
        return width % plan->contraction.parts == 0;
      };
      const auto differs = [&](const StagePlan* plan) {
        return matmul_blocking(*plan, other) != matmul_blocking(*plan, {});
      };
      if (!std::ranges::all_of(tiled, fits) || std::ranges::none_of(tiled, differs)) continue;
      choices.candidates.push_back(other);
    }
    choices.candidates.push_back({.panels = 2 * kPanels});
    choices.candidates.push_back({.panels = kPanels / 2});
    if (block_rows_ >= 2 * kLeastRows) choices.candidates.push_back({.rows = block_rows_ / 2});
    return choices;
  }

  // Rows of a task that owns them; 0 if tasks share rows.
  [[nodiscard]] Dim rows_per_task() const {
    const auto& attention = plans_.front().attention;
    return min(rows_per_task_, attention ? attention->queries : chain_.rows);
  }

  // Or of experts, tokens of a core.
  [[nodiscard]] Dim rows_per_weight() const {
    if (!is_of_experts()) return rows_per_task();
    const Node* const lookup = plans_.front().contraction.a->producer();
    const bool looks_up = lookup != nullptr && lookup->op() == "gather";
    const Dim tokens = looks_up ? lookup->operand(0)->shape()[0] : chain_.rows;
    return ceil_div(tokens, Dim(lowering_.options().target->cores));
  }

  Status emit() {
    if (plans_.front().attention) return take_queries(*plans_.front().attention);
    return splits_columns_ ? take_blocks() : take_share_of_rows();
  }

 private:
  // Blocks of rows of equal size, and for each of them as many tasks as the matmul alone would
  // have. Neighbours share the norms of their rows if a thread has both.
  Status take_blocks() {
    IndexMath& math = lowering_.math();
    ProgramBuilder& program = lowering_.program();
    const StagePlan& last = plans_.back();
    const RowBlocks blocks = shares().row_blocks(chain_sizes());
    const Dim& columns = last.contraction.columns;
    const ContractBlocking alone = matmul_blocking(last, lowering_.options().blocking);
    const std::int64_t width = columns_of_block(last, alone) / last.contraction.parts;

    const Expr block_number = lowering_.grid("m", blocks.count);
    row0_ = math.mul(block_number, blocks.rows);
    math.set_bound(row0_, chain_.rows);
    row_count_ = program.min(program.sub(chain_.rows, row0_), blocks.rows);
    column0_ = lowering_.grid("n", columns, width);
    end_column_ = program.min(program.add(column0_, math.constant(width)), columns);

    HeldValues held(lowering_, chain_.rows, block_rows_);
    const std::span<const StagePlan> norms(plans_.data(), plans_.size() - 1);
    const bool any_stored = std::ranges::any_of(
        norms, [](const StagePlan& norm) { return !norm.stage->outputs.empty(); });
    Status status;
    program.keep(block_number, any_stored ? has_first_columns() : kNoExpr, [&] {
      const ElementBuilder::Scope scope(lowering_.elements());
      status = emit_stages(norms, held);
    });
    OPWELD_CHECK(status);
    return emit_stages({&last, 1}, held);
  }

  ChainSizes chain_sizes() const {
    return {chain_.rows, lowering_.options().target->cores, block_rows_, tile_rows_};
  }

  ChainShares& shares() {
    LoweringMemory* const memory = lowering_.options().memory;
    return memory != nullptr ? memory->chain_shares : own_shares_;
  }

  Status take_share_of_rows() {
    takes_shares_ = true;
    const RowShares found = shares().row_shares(chain_sizes());
    rows_per_task_ = found.rows_per_task;
    // Bounds of groups are checked where there are no rows, too.
    const Dim tasks = is_of_experts() ? max(found.tasks, Dim(1)) : found.tasks;
    const auto known = found.share.constant();
    if (known && *known > 0 && chain_.rows.divisible_by(*known)) share_known_ = known;
    IndexMath& math = lowering_.math();
    ProgramBuilder& program = lowering_.program();
    row0_ = math.mul(lowering_.grid("m", tasks), rows_per_task_);
    math.set_bound(row0_, chain_.rows);
    row_count_ = program.min(program.sub(chain_.rows, row0_), rows_per_task_);
    if (chain_.sort.node != nullptr) {
      const Expr is_first =
          program.exprs().binary(ExprKind::Eq, row0_, lowering_.math().constant(0));
      OPWELD_CHECK(keep_sorted(lowering_, chain_.sort, is_first));
    }
    if (chain_.collection.collects()) collected_.emplace(lowering_, chain_.collection, Dim(1));
    OPWELD_CHECK(emit_all_stages());
    return collected_ ? collect(tasks) : Status();
  }

  // All columns of all rows.
  Status collect(const Dim& tasks) {
    IndexMath& math = lowering_.math();
    const Dim& columns = plans_.back().contraction.columns;
    return collected_->collect({math.constant(0), math.constant(0), math.size(columns), columns},
                               tasks);
  }

  [[nodiscard]] bool is_of_experts() const { return plans_.front().contraction.grouped; }

  // The same of the queries of a sequence.
  Status take_queries(const Attention& attention) {
    IndexMath& math = lowering_.math();
    ProgramBuilder& program = lowering_.program();
    const Dim& queries = attention.queries;
    const Dim& batch = attention.q->shape()[0];
    const Dim for_every_core =
        max(ceil_div(Dim(lowering_.options().target->cores), max(batch, Dim(1))), Dim(1));
    const Dim blocks = round_up(ceil_div(queries, Dim(block_rows_)), for_every_core);
    const Dim share = round_up(ceil_div(queries, max(blocks, Dim(1))), Dim(tile_rows_));
    rows_per_task_ = max(share, Dim(tile_rows_));
    batch_ = lowering_.grid("b", batch);
    query0_ = math.mul(lowering_.grid("m", ceil_div(queries, rows_per_task_)), rows_per_task_);
    math.set_bound(query0_, queries);
    row0_ = math.add(math.mul(batch_, queries), query0_);
    math.set_bound(row0_, chain_.rows);
    row_count_ = program.min(program.sub(queries, query0_), rows_per_task_);
    return emit_all_stages();
  }

  Status emit_all_stages() {
    HeldValues held(lowering_, chain_.rows, block_rows_);
    return emit_stages(plans_, held);
  }

  Status emit_stages(std::span<const StagePlan> plans, HeldValues& held) {
    for (const StagePlan& plan : plans) {
      for (const Value* value : plan.stage->held) held.add(value);
      OPWELD_CHECK(emit_stage(plan, held));
      // What the stage had at hand it has no more.
      for (const Node* node : plan.stage->nodes) {
        if (node != chain_.sort.node) lowering_.elements().undefine(node->result());
      }
      for (const Value* value : plan.stage->held) held.publish(value);
    }
    return {};
  }

  Status emit_stage(const StagePlan& plan, HeldValues& held) {
    switch (plan.stage->kind) {
      case ChainStage::Kind::Attention:
        return emit_attention(plan, held);
      case ChainStage::Kind::Row:
        return emit_rows(plan, held);
      case ChainStage::Kind::Contract:
        return emit_matmul(plan, held);
    }
    return {};
  }

  Status plan_attention(StagePlan& plan) {
    OPWELD_TRY(plan.attention, attention_of(*plan.stage->attention));
    const Attention& attention = *plan.attention;
    if (attention.node->num_results() > 1) return fail("its attention has a second result");
    if (const Dim& queries = attention.queries; !always_has_many_queries(attention)) {
      const std::string count = queries.is_constant()
                                    ? fmt::format("it has {}", queries)
                                    : fmt::format("how many there are, {}, is not known", queries);
      return fail("an attention of up to {} queries splits the keys among tasks, and {}",
                  kFewQueries, count);
    }
    if (chain_.rows != attention.q->shape()[0] * attention.queries) {
      return fail("its stages have different rows");
    }
    for (const Value* value : plan.stage->wanted()) {
      const auto over = output_over(value, attention.node->result(0)->shape());
      if (!over) return fail("an output does not have the shape of the attention's result");
      if (plan.stage->held.empty() || value != plan.stage->held.front()) continue;
      if (!puts_heads_side_by_side(*over)) {
        return fail("a later stage does not read heads side by side");
      }
    }
    if (plan.stage->held.size() > 1) return fail("later stages read the attention in two ways");
    tile_rows_ = attention_row_block(attention, lowering_.options());
    return {};
  }

  Status plan_matmul(StagePlan& plan) {
    plan.contraction = contraction_of(*plan.stage->matmul);
    const Value* const result = plan.contraction.result;
    if (!is_float(result->dtype())) return fail("integer matmuls are run by a call");
    const bool is_number = plan.contraction.b->type().num_elements() == Dim(1);
    if (plan.contraction.weights == nullptr && !is_number) {
      return fail("weights are no constant of their own");
    }
    if (plan.contraction.rows != chain_.rows) return fail("its stages have different rows");
    if (std::ranges::any_of(plan.stage->nodes,
                            [](const Node* node) { return is_staged_reduction(*node); })) {
      OPWELD_TRY(plan.head_rows,
                 find_head_rows(plan.stage->nodes, plan.stage->wanted(), plan.contraction));
    } else {
      OPWELD_CHECK(find_results(plan.stage->nodes, plan.stage->wanted(), plan.contraction));
    }
    if ((plan.contraction.head != 0 || plan.head_rows) && !plan.stage->held.empty()) {
      return fail("a later stage reads what is split into heads");
    }
    plan.on_matrix_unit =
        on_matrix_unit(plan.contraction, lowering_.options(), holds(plan.contraction.a));
    request_packed_weights(lowering_, plan.contraction, plan.on_matrix_unit);
    return {};
  }

  bool holds(const Value* value) const {
    return std::ranges::any_of(plans_, [&](const StagePlan& plan) {
      const auto& held = plan.stage->held;
      return std::find(held.begin(), held.end(), value) != held.end();
    });
  }

  Status choose_rows() {
    const Target& target = *lowering_.options().target;
    std::int64_t row_bytes = 0;
    const std::int64_t chosen = lowering_.options().blocking.rows;
    const std::int64_t most_rows = chosen != 0 ? chosen : kMostRows;
    block_rows_ = most_rows;
    for (const StagePlan& plan : plans_) {
      for (const Value* value : plan.stage->held) {
        if (!value->shape().back().is_constant()) {
          return fail("rows between its stages have no known size");
        }
        row_bytes += HeldValues::row_bytes(value);
      }
      if (plan.stage->kind != ChainStage::Kind::Contract) continue;
      const ContractBlocking blocking = blocking_of(plan);
      tile_rows_ = std::lcm(tile_rows_, std::int64_t{blocking.tile_rows});
      if (!plan.head_rows) continue;
      if (blocking.columns > kMostHeadColumns) {
        return fail("whole heads of {} columns are too much for a block", plan.head_rows->head);
      }
      row_bytes += blocking.columns * byte_size(compute_dtype(plan.contraction.result->dtype()));
    }
    const std::int64_t fitting = target.outer_bytes / std::max<std::int64_t>(row_bytes, 1);
    if (fitting < std::max(kLeastRows, tile_rows_)) {
      return fail("what its stages keep of a row, {} bytes, is too much for a block of rows",
                  row_bytes);
    }
    const std::int64_t kept = std::min({fitting, std::max(most_rows, tile_rows_), rows_on_chip()});
    block_rows_ = std::max(kept, tile_rows_) / tile_rows_ * tile_rows_;
    const auto& attention = plans_.front().attention;
    const Dim& all = attention ? attention->queries : chain_.rows;
    if (const auto rows = all.constant()) {
      // No more than a task has: what is fetched ahead is shared out among its tiles.
      const bool shares_rows = !splits_columns_ && !attention;
      const Dim most = shares_rows ? share_of_rows(chain_sizes()) : Dim(*rows);
      block_rows_ = std::min(block_rows_, *max(round_up(most, tile_rows_), tile_rows_).constant());
    }
    return {};
  }

  // Where weights are narrower than what matmuls compute in: rows for which the block that each
  // packs and its partial sums are on chip. The outer cache holds twice as many rows of f16 as of
  // f32, but both are multiplied as f32. Blocks of all stages are counted, though they share
  // memory: that many rows hide the weights, and more leave fewer tasks to share out. Where those
  // would be too few to be worth a chain, the schedule leaves it at the others, and whether that is
  // too much on chip is not for it to say.
  std::int64_t rows_on_chip() const {
    std::int64_t row_bytes = 0;
    std::int64_t panel_bytes = 0;
    bool any_wider = false;
    for (const StagePlan& plan : plans_) {
      if (plan.stage->kind != ChainStage::Kind::Contract) continue;
      const Contraction& contraction = plan.contraction;
      const ContractBlocking blocking = blocking_of(plan);
      const std::int64_t element = byte_size(compute_dtype(contraction.result->dtype()));
      row_bytes += plan.on_matrix_unit ? byte_size(DType::BF16) * (blocking.depth + kMatrixDepth)
                                       : element * blocking.depth;
      const Dim depth = multiplied_depth(contraction, plan.on_matrix_unit);
      if (!provably_le(depth, Dim(blocking.depth))) row_bytes += element * blocking.columns;
      const bool widens = !plan.on_matrix_unit && contraction.weights != nullptr &&
                          byte_size(contraction.weights->dtype()) < element;
      any_wider = any_wider || widens;
      if (widens) panel_bytes += element * blocking.depth * blocking.tile_columns;
    }
    // As many vectors as there are registers may be spilled, in the widest epilogue.
    const Target& target = *lowering_.options().target;
    const std::int64_t spilled_bytes = target.vector_registers * (target.vector_bits / 8);
    const std::int64_t room = target.on_chip_bytes - panel_bytes - spilled_bytes;
    if (!any_wider || row_bytes == 0) return kMostRows;
    const std::int64_t rows = room / row_bytes;
    return rows >= std::max(kWorthwhileRows, tile_rows_) ? rows : kMostRows;
  }

  // Of the matmul as a kernel of its own.
  ContractBlocking matmul_blocking(const StagePlan& plan, const Blocking& chosen) const {
    return contract_blocking(*lowering_.options().target,
                             compute_dtype(plan.contraction.result->dtype()),
                             sizes_of(plan, block_rows_), chosen);
  }

  // And as a stage.
  ContractBlocking blocking_of(const StagePlan& plan) const {
    const Blocking& chosen = lowering_.options().blocking;
    ContractBlocking blocking = matmul_blocking(plan, chosen);
    blocking.rows = block_rows_;
    blocking.columns = (chosen.panels != 0 ? chosen.panels : kPanels) * blocking.tile_columns;
    blocking.columns = columns_of_block(plan, blocking);
    return blocking;
  }

  // Those of the blocking, or whole heads and panels where heads are reduced: as many as end
  // together, or all that there are.
  static std::int64_t columns_of_block(const StagePlan& plan, const ContractBlocking& blocking) {
    if (!plan.head_rows) return blocking.columns;
    const Dim panel(blocking.tile_columns);
    const Dim whole(std::lcm(plan.head_rows->head, std::int64_t{blocking.tile_columns}));
    const Dim& all = plan.contraction.columns;
    return *min(round_up(Dim(blocking.columns), whole), round_up(all, panel)).constant();
  }

  static ContractSizes sizes_of(const StagePlan& plan, const Dim& rows) {
    const Contraction& contraction = plan.contraction;
    return {rows,
            contraction.columns,
            multiplied_depth(contraction, plan.on_matrix_unit),
            /*packs_rows=*/true,
            contraction.parts,
            plan.on_matrix_unit};
  }

  // All heads of the task's rows.
  Status emit_attention(const StagePlan& plan, HeldValues& held) {
    const Attention& attention = *plan.attention;
    IndexMath& math = lowering_.math();
    const auto store = [&](const DomainOutput& output, std::span<const Expr> index) -> Status {
      if (held.has(output.output)) {
        const Expr inside_task = math.sub(index[2], query0_);
        held.at_row(math.add(row0_, inside_task), inside_task);
        const Expr column = math.add(math.mul(index[1], attention.value_head), index[3]);
        OPWELD_CHECK(held.store_there(output, index, column, kNoExpr));
      }
      return is_output(output, *plan.stage) ? lowering_.store(output, index) : Status();
    };
    return emit_attention_rows(lowering_, attention, plan.stage->wanted(),
                               {batch_, query0_, row_count_, block_rows_}, store);
  }

  // Reductions and what depends on them, row by row.
  Status emit_rows(const StagePlan& plan, HeldValues& held) {
    const ChainStage& stage = *plan.stage;
    OPWELD_TRY(StagedReduction passes, StagedReduction::analyze(stage.nodes, stage.wanted()));
    const Shape& domain = passes.domain();
    // A loop over one more axis would put the elements of several rows into each.
    for (std::size_t axis = 0; axis < domain.size(); ++axis) {
      const bool is_last = axis + 1 == domain.size();
      const bool fits = passes.is_reduced(axis) == is_last || domain[axis] == Dim(1);
      if (!fits) return fail("it reduces other axes than the last");
    }
    if (merged_rows(domain) != chain_.rows) return fail("its stages have different rows");
    for (const Value* value : stage.held) {
      if (!output_over(value, domain)) return fail("a later stage reads what is not a row");
    }
    IndexMath& math = lowering_.math();
    const Expr where = splits_columns_ ? has_first_columns() : kNoExpr;
    return lowering_.serial("i", row_count_, Dim(block_rows_), [&](Expr i) {
      const Expr row = math.add(row0_, i);
      math.set_bound(row, chain_.rows);
      held.at_row(row, i);
      const Index index = merged_index(math, domain, row, math.constant(0));
      const auto store = [&](const DomainOutput& output, std::span<const Expr> at) -> Status {
        if (held.has(output.output)) OPWELD_CHECK(held.store(output, at, at.back(), kNoExpr));
        return is_output(output, stage) ? lowering_.store(output, at, where) : Status();
      };
      return passes.emit(lowering_, index, row_columns(lowering_, passes, index),
                         {.keep_rows = true,
                          .prefetch = &stage == chain_.stages.data(),
                          .where = where,
                          .store = store});
    });
  }

  Expr has_first_columns() {
    ExprPool& exprs = lowering_.program().exprs();
    return exprs.binary(ExprKind::Eq, column0_, lowering_.math().constant(0));
  }

  static bool is_output(const DomainOutput& output, const ChainStage& stage) {
    return std::ranges::find(stage.outputs, output.output) != stage.outputs.end();
  }

  Status emit_matmul(const StagePlan& plan, HeldValues& held) {
    const Contraction& contraction = plan.contraction;
    ContractTask::Form form;
    form.blocking = blocking_of(plan);
    form.on_matrix_unit = plan.on_matrix_unit;
    form.known_rows = takes_shares_ ? share_known_ : known_block_rows(contraction, form.blocking);
    form.held = &held;
    if (!held.has(contraction.a)) {
      form.strided_rows = strided_rows(lowering_, contraction, plan.on_matrix_unit);
    }
    std::optional<HeadBlock> heads;
    if (plan.head_rows) {
      const DType compute = compute_dtype(contraction.result->dtype());
      heads = HeadBlock{.rows = block_rows_, .columns = form.blocking.columns};
      heads->memory = lowering_.program().buffer("c", compute, {heads->rows, heads->columns},
                                                 Buffer::Space::Outer);
    }
    form.store = [&](const DomainOutput& output, const ContractElement& element) -> Status {
      if (heads && output.output == contraction.result) {
        OPWELD_CHECK(keep_product(*heads, held, output, element));
      }
      // No later stage reads heads.
      if (element.next) {
        return lowering_.store_interleaved(output, element.index, *element.next);
      }
      if (collected_ && collected_->takes(output)) {
        return collected_->store(output, element.index, element.inside);
      }
      if (held.has(output.output)) {
        OPWELD_CHECK(held.store(output, element.index, element.column, element.inside));
      }
      return is_output(output, *plan.stage) ? lowering_.store(output, element.index, element.inside)
                                            : Status();
    };
    ContractTask task(lowering_, contraction, std::move(form));
    IndexMath& math = lowering_.math();
    const Expr end = splits_columns_ ? end_column_ : math.size(contraction.columns);
    const Expr first = splits_columns_ ? column0_ : math.constant(0);
    return lowering_.serial(
        "n0", lowering_.program().sub(end, first), contraction.columns, task.block_width(),
        [&](Expr column) -> Status {
          const Expr column0 = math.add(first, column);
          if (!heads) return task.emit({{}, row0_, row_count_, column0, end});
          heads->column0 = column0;
          OPWELD_CHECK(task.emit({{}, row0_, row_count_, column0, end}));
          heads->row0 = row0_;
          heads->row_count = row_count_;
          heads->column_count =
              lowering_.program().min(lowering_.program().sub(end, column0), task.block_width());
          return emit_head_rows(lowering_, contraction, *plan.head_rows, held, *heads);
        });
  }

  // An element of the result whose head is reduced when the block is complete.
  Status keep_product(const HeadBlock& heads, const HeldValues& held, const DomainOutput& output,
                      const ContractElement& element) {
    ElementBuilder& elements = lowering_.elements();
    const Expr inside = element.inside;
    OPWELD_TRY(const Expr product,
               inside == kNoExpr ? elements.element(output.value, element.index)
                                 : elements.element_where(inside, output.value, element.index));
    const Expr column = lowering_.math().sub(element.column, heads.column0);
    lowering_.program().store(lowering_.program().at(heads.memory, {held.task_row(), column}),
                              product, inside);
    return {};
  }

  // Weights may come from memory: a core multiplies a number by so many rows while it waits for the
  // next one.
  static constexpr std::int64_t kLeastRows = 24;
  static constexpr std::int64_t kMostRows = 192;
  // So many hide weights from memory on any processor that was measured; the planner asks for what
  // the target needs (fusion/legality/chain_cost.cpp).
  static constexpr std::int64_t kWorthwhileRows = 96;
  // Columns of a block that one task goes through: a row of partial sums stays in the cache.
  static constexpr std::int64_t kPanels = 8;
  // Where heads do not end with panels, blocks have as many as end together.
  static constexpr std::int64_t kMostHeadColumns = 2048;

  GroupLowering& lowering_;
  const Chain& chain_;
  std::vector<StagePlan> plans_;
  bool splits_columns_ = false;
  std::int64_t tile_rows_ = 1;  // blocks are whole tiles of every stage
  std::int64_t block_rows_ = 0;
  ChainShares own_shares_;  // where none are kept for several kernels
  Dim rows_per_task_ = 0;
  std::optional<CollectedRows> collected_;
  bool takes_shares_ = false;                // tasks have shares of equal size, not of whole tiles
  std::optional<std::int64_t> share_known_;  // of all tasks alike
  Expr column0_ = kNoExpr;                   // where columns are shared out
  Expr end_column_ = kNoExpr;
  Expr batch_ = kNoExpr;  // where rows are queries
  Expr query0_ = kNoExpr;
  Expr row0_ = kNoExpr;
  Expr row_count_ = kNoExpr;
};

}  // namespace

Expected<LoweredKernel> lower_chain(const Graph& group, const LowerOptions& options,
                                    std::string name) {
  OPWELD_TRY(const Chain chain, find_chain(group));
  GroupLowering lowering(group, options, std::move(name));
  ChainEmitter emitter(lowering, chain);
  OPWELD_CHECK(emitter.plan());
  lowering.bind_params();
  OPWELD_CHECK(emitter.emit());
  LoweredKernel kernel = lowering.finish();
  kernel.rows_per_task = emitter.rows_per_task();
  kernel.rows_per_weight = emitter.rows_per_weight();
  if (!options.draft) kernel.choices = emitter.choices();
  return kernel;
}

}  // namespace opweld::tile
