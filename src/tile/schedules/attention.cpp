// Schedule `attention`: softmax(mask(scale * Q K^T)) V with the scores never leaving the chip.
//
//   grid b, h, q in S step NQ
//     qt[d, q] <- Q block, transposed                      queries are lanes from here on
//     for t in T step NT                                   blocks that are masked out whole are
//     skipped
//       s[t, q] <- score(dot(K, qt))                       scale, soft cap, masks: one expression
//       m' <- max(m, max_t s); s <- exp(s - m'); c <- exp(m - m'); l <- l * c + sum_t s
//       o[q, d] <- o * c + dot(s^T, V)
//     store y <- epilogue(o / l)
//
// This is the online softmax of Milakov and Gimelshein (2018) in the blocking of Dao et al.,
// FlashAttention (2022). Scores are held transposed, keys by rows and queries by lanes, so that
// maxima and sums need no operation across lanes and neither K nor V has to be rearranged. A row
// whose scores are all masked has l = 0 and gives zeros, as does an empty T.
#include <algorithm>
#include <limits>
#include <optional>

#include "ops/op.h"
#include "tile/schedules/contract_blocking.h"
#include "tile/schedules/group_lowering.h"
#include "tile/schedules/register_tile.h"
#include "tile/schedules/schedules.h"

namespace opweld::tile {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The attention of a group and its attributes.
struct Attention {
  const Node* node;
  const Value *q, *k, *v, *mask;
  Dim queries, keys, head, value_head;  // S, T, D, Dv
  Dim heads_per_group;                  // Hq / Hkv
  double scale;
  double softcap;
  std::string causal;
  std::int64_t window_left, window_right;

  // Key t is visible to query q when q + diagonal >= t (causal) and within the window around it.
  [[nodiscard]] Dim diagonal() const { return causal == "bottom_right" ? keys - queries : Dim(0); }
};

Expected<Attention> find_attention(const Graph& group) {
  const Node* found = nullptr;
  for (const auto& node : group.nodes()) {
    if (node->op() != "attention") continue;
    if (found != nullptr) return fail("it has two attentions");
    found = node.get();
  }
  if (found == nullptr) return fail("it has no attention");
  const Attributes& attributes = found->attributes();
  Attention attention{};
  attention.node = found;
  attention.q = found->operand(0);
  attention.k = found->operand(1);
  attention.v = found->operand(2);
  attention.mask = found->num_operands() > 3 ? found->operand(3) : nullptr;
  attention.queries = attention.q->shape()[2];
  attention.keys = attention.k->shape()[2];
  attention.head = attention.q->shape()[3];
  attention.value_head = attention.v->shape()[3];
  attention.heads_per_group = floor_div(attention.q->shape()[1], attention.k->shape()[1]);
  attention.scale = attributes.real("scale", 1.0);
  attention.softcap = attributes.real("softcap", 0.0);
  attention.causal = attributes.text("causal", "none");
  attention.window_left = attributes.integer("window_left", -1);
  attention.window_right = attributes.integer("window_right", -1);
  if (compute_dtype(attention.q->dtype()) != DType::F32)
    return fail("attention in f64 is run by a call");
  return attention;
}

class AttentionEmitter {
 public:
  AttentionEmitter(GroupLowering& lowering, const Attention& attention,
                   std::vector<DomainOutput> outputs)
      : lowering_(lowering),
        program_(lowering.program()),
        math_(lowering.math()),
        exprs_(lowering.program().exprs()),
        attention_(attention),
        outputs_(std::move(outputs)) {
    const Target& target = *lowering.options().target;
    // As many accumulators as in `contract`, and queries that fill whole tiles both as columns of
    // the scores and as rows of the result. Two vectors of queries, for short sequences' sake.
    tile_columns_ = 2 * target.lanes(byte_size(DType::F32));
    tile_rows_ = target.vector_registers >= 32 ? 12 : 6;
    query_block_ = kQueryPanels * tile_columns_;
    keys_ = strided(attention.k, attention.head);
    values_ = strided(attention.v, attention.value_head);
    // V is read in place in whole vectors, so its rows must be whole vectors.
    if (values_ && !attention.value_head.divisible_by(lowering.lanes())) values_.reset();
    padded_value_head_ = round_up(attention.value_head, lowering.lanes());
  }

  Status emit() {
    emit_grid();
    make_buffers();
    OPWELD_CHECK(load_queries());
    reset_state();
    OPWELD_CHECK(lowering_.serial("tb", number_of_key_blocks(),
                                  ceil_div(attention_.keys, kKeyBlock),
                                  [&](Expr block) { return emit_key_block(block); }));
    return store_outputs();
  }

 private:
  // Whole tiles of rows as well as of columns: 6 x 16 and 12 x 32.
  static constexpr std::int64_t kQueryPanels = 3;
  static constexpr std::int64_t kKeyBlock = 96;
  // Scores of a query that are compared at once: a maximum that keeps NaN waits long for the one
  // before it.
  static constexpr std::int64_t kScoreRows = 4;
  static_assert(kKeyBlock % kScoreRows == 0);

  // K or V as the micro-kernel reads it in place: f32 with unit stride along the head.
  std::optional<StridedOperand> strided(const Value* value, const Dim& width) {
    if (value->dtype() != DType::F32) return std::nullopt;
    auto operand = lowering_.strided_operand(value);
    if (operand && !(operand->view.strides[3] == Dim(1)) && !(width == Dim(1))) operand.reset();
    return operand;
  }

  void emit_grid() {
    batch_ = lowering_.grid("b", attention_.q->shape()[0]);
    head_ = lowering_.grid("h", attention_.q->shape()[1]);
    key_head_ = math_.div(head_, attention_.heads_per_group);
    query0_ = program_.grid("q0", attention_.queries, query_block_);
    math_.set_bound(query0_, attention_.queries);
    query_count_ = program_.min(program_.sub(attention_.queries, query0_), query_block_);
  }

  void make_buffers() {
    const auto cache = [&](std::string_view name, Shape shape) {
      return program_.buffer(name, DType::F32, std::move(shape), Buffer::Space::Cache);
    };
    queries_ = cache("qt", {kQueryPanels, attention_.head, tile_columns_});
    scores_ = cache("s", {kKeyBlock, query_block_});
    maximum_ = cache("m", {query_block_});
    sum_ = cache("l", {query_block_});
    correction_ = cache("c", {query_block_});
    result_ = cache("o", {query_block_, padded_value_head_});
    if (!keys_) packed_keys_ = cache("kp", {kKeyBlock, attention_.head});
    if (!values_) packed_values_ = cache("vp", {kKeyBlock, padded_value_head_});
  }

  // All block loops over queries run over whole vectors; lanes past the last query hold zeros and
  // are never stored.
  Status each_query_vector(const std::string& name, const std::function<Status(Expr)>& body) {
    return lowering_.vector(name, Dim(query_block_), 1, body);
  }

  Status load_queries() {
    return lowering_.serial("d", attention_.head, [&](Expr d) -> Status {
      return lowering_.serial("p", Dim(kQueryPanels), [&](Expr panel) -> Status {
        return lowering_.vector("j", Dim(tile_columns_), 1, [&](Expr j) -> Status {
          const Expr local = math_.add(math_.mul(panel, Dim(tile_columns_)), j);
          const Expr query = math_.add(query0_, local);
          const Expr inside = exprs_.binary(ExprKind::Lt, query, math_.size(attention_.queries));
          OPWELD_TRY(const Expr value, lowering_.elements().element_where(
                                           inside, attention_.q, Index{batch_, head_, query, d}));
          program_.store(program_.at(queries_, {panel, d, j}),
                         exprs_.select(inside, value, zero()));
          return {};
        });
      });
    });
  }

  void reset_state() {
    const auto options = ProgramBuilder::VectorOptions{.unroll = 1, .lanes = lowering_.lanes()};
    program_.vector("j", query_block_, options, [&](Expr j) {
      program_.store(program_.at(maximum_, {j}), exprs_.constant(kMinusInfinity, DType::F32));
      program_.store(program_.at(sum_, {j}), zero());
    });
    program_.vector("j", padded_value_head_ * query_block_, options,
                    [&](Expr j) { program_.store(program_.at_offset(result_, j), zero()); });
  }

  // Blocks of keys that some query of this task can see.
  Expr number_of_key_blocks() {
    Expr visible = math_.size(attention_.keys);
    if (attention_.causal != "none") {
      // The last query sees keys up to query0 + count - 1 + diagonal.
      const Expr reach = program_.add(program_.add(query0_, query_count_), attention_.diagonal());
      visible = exprs_.binary(ExprKind::Max, math_.constant(0),
                              exprs_.binary(ExprKind::Min, visible, reach));
    }
    return exprs_.binary(ExprKind::Div, program_.add(visible, kKeyBlock - 1),
                         math_.constant(kKeyBlock));
  }

  Status emit_key_block(Expr block) {
    const Expr key0 = math_.mul(block, Dim(kKeyBlock));
    const Expr count = program_.min(program_.sub(attention_.keys, key0), kKeyBlock);
    if (packed_keys_) {
      OPWELD_CHECK(
          pack(attention_.k, *packed_keys_, attention_.head, attention_.head, key0, count));
    }
    if (packed_values_) {
      OPWELD_CHECK(pack(attention_.v, *packed_values_, attention_.value_head, padded_value_head_,
                        key0, count));
    }
    OPWELD_CHECK(emit_scores(key0, count));
    OPWELD_CHECK(emit_softmax(count));
    return emit_weighted_sum(key0, count);
  }

  // Rows [key0, key0 + count) of K or V into a buffer, zeros from `width` to `padded`.
  Status pack(const Value* value, MemoryRef buffer, const Dim& width, const Dim& padded, Expr key0,
              Expr count) {
    return lowering_.serial("t", count, Dim(kKeyBlock), [&](Expr t) -> Status {
      const Expr key = math_.add(key0, t);
      math_.set_bound(key, attention_.keys);
      return lowering_.vector("d", padded, 1, [&](Expr d) -> Status {
        const Expr inside = exprs_.binary(ExprKind::Lt, d, math_.size(width));
        OPWELD_TRY(const Expr element, lowering_.elements().element_where(
                                           inside, value, Index{batch_, key_head_, key, d}));
        program_.store(program_.at(buffer, {t, d}), exprs_.select(inside, element, zero()));
        return {};
      });
    });
  }

  Expr place(const StridedOperand& operand, Expr key) {
    const std::vector<Dim>& strides = operand.view.strides;
    const Shape& shape = operand.view.shape;
    Expr offset = math_.size(operand.view.offset);
    if (!(shape[0] == Dim(1))) offset = math_.add(offset, math_.mul(batch_, strides[0]));
    if (!(shape[1] == Dim(1))) offset = math_.add(offset, math_.mul(key_head_, strides[1]));
    return math_.add(offset, math_.mul(key, strides[2]));
  }

  // s[t, q] <- score(K[key0 + t] . q)
  Status emit_scores(Expr key0, Expr count) {
    return lowering_.serial("p", used_panels(), Dim(kQueryPanels), [&](Expr panel) {
      const Dim panel_size = attention_.head * tile_columns_;
      const DotOperand queries{program_.at_offset(queries_, math_.mul(panel, panel_size)), kNoExpr,
                               math_.constant(tile_columns_)};
      return each_row_tile(lowering_, count, known_key_count(), tile_rows_, [&](int rows, Expr t0) {
        const DotOperand keys =
            keys_ ? DotOperand{program_.at_offset(keys_->param, place(*keys_, math_.add(key0, t0))),
                               math_.size(keys_->view.strides[2]), math_.constant(1)}
                  : DotOperand{program_.at_offset(*packed_keys_, math_.mul(t0, attention_.head)),
                               math_.size(attention_.head), math_.constant(1)};
        return emit_register_tile(
            lowering_, DType::F32, rows, tile_columns_, keys, queries, math_.size(attention_.head),
            [&](Expr, Expr) -> Expected<Expr> { return zero(); },
            [&](Expr row, Expr column, Expr product) -> Status {
              const Expr t = math_.add(t0, row);
              const Expr local = math_.add(math_.mul(panel, Dim(tile_columns_)), column);
              OPWELD_TRY(const Expr score,
                         score_of(product, math_.add(query0_, local), math_.add(key0, t)));
              program_.store(program_.at(scores_, {t, local}), score);
              return {};
            });
      });
    });
  }

  Expected<Expr> mask_of(Expr query, Expr key) {
    const Value* mask = attention_.mask;
    const Index index =
        lowering_.elements().broadcast_index(mask, Index{batch_, head_, query, key});
    // One value for all queries is one load; it must not depend on which of them there are.
    const std::size_t rank = mask->shape().size();
    if (rank < 2 || mask->shape()[rank - 2] == Dim(1)) {
      return lowering_.elements().element(mask, index);
    }
    const Expr inside = exprs_.binary(ExprKind::Lt, query, math_.size(attention_.queries));
    return lowering_.elements().element_where(inside, mask, index);
  }

  // The score program: scale, soft cap, additive mask, then everything that hides a key.
  Expected<Expr> score_of(Expr product, Expr query, Expr key) {
    const auto number = [&](double value) { return exprs_.constant(value, DType::F32); };
    Expr score = exprs_.binary(ExprKind::Mul, product, number(attention_.scale));
    if (attention_.softcap > 0) {
      const Expr ratio = exprs_.binary(ExprKind::Div, score, number(attention_.softcap));
      score = exprs_.binary(ExprKind::Mul, exprs_.unary(ExprKind::Tanh, ratio),
                            number(attention_.softcap));
    }
    Expr visible = kNoExpr;
    const auto require = [&](Expr condition) {
      visible = visible == kNoExpr ? condition : exprs_.binary(ExprKind::And, visible, condition);
    };
    if (attention_.mask != nullptr) {
      OPWELD_TRY(const Expr mask, mask_of(query, key));
      if (attention_.mask->dtype() == DType::Bool) {
        require(mask);
      } else {
        score = exprs_.binary(ExprKind::Add, score, mask);
      }
    }
    const Expr center = math_.add(query, math_.size(attention_.diagonal()));
    if (attention_.causal != "none") require(exprs_.binary(ExprKind::Le, key, center));
    if (attention_.window_left >= 0) {
      const Expr first = math_.sub(center, math_.constant(attention_.window_left));
      require(exprs_.binary(ExprKind::Le, first, key));
    }
    if (attention_.window_right >= 0) {
      const Expr last = math_.add(center, math_.constant(attention_.window_right));
      require(exprs_.binary(ExprKind::Le, key, last));
    }
    if (visible == kNoExpr) return score;
    return exprs_.select(visible, score, number(kMinusInfinity));
  }

  // Hides the rows of scores between `count` and the next multiple of kScoreRows.
  Status fill_score_rows(Expr count) {
    if (known_key_count().value_or(1) % kScoreRows == 0) return {};
    const Expr missing = exprs_.binary(ExprKind::And, program_.sub(math_.constant(0), count),
                                       math_.constant(kScoreRows - 1));
    return lowering_.serial("t", missing, Dim(kScoreRows - 1), [&](Expr row) {
      return each_query_vector("j", [&](Expr j) -> Status {
        program_.store(program_.at(scores_, {math_.add(count, row), j}),
                       exprs_.constant(kMinusInfinity, DType::F32));
        return {};
      });
    });
  }

  // Maximum, weights, correction and sum of this block, a lane for each query.
  Status emit_softmax(Expr count) {
    OPWELD_CHECK(fill_score_rows(count));
    return lowering_.vector("j", used_queries(), Dim(query_block_), 1, [&](Expr j) -> Status {
      const auto score_at = [&](const Expr t) {
        return program_.load(program_.at(scores_, {t, j}));
      };
      const auto larger = [&](Expr a, Expr b) { return exprs_.binary(ExprKind::Max, a, b); };
      Expr block_maximum = kNoExpr;
      static_assert(kScoreRows == 4);
      program_.serial("t", count, kScoreRows, [&](Expr t) {
        const Expr first = larger(score_at(t), score_at(math_.add(t, math_.constant(1))));
        const Expr second = larger(score_at(math_.add(t, math_.constant(2))),
                                   score_at(math_.add(t, math_.constant(3))));
        block_maximum = program_.reduce(Combiner::Max, larger(first, second), t);
      });
      const Expr old_maximum = program_.load(program_.at(maximum_, {j}));
      const Expr new_maximum =
          program_.map(exprs_.binary(ExprKind::Max, old_maximum, block_maximum));
      // While every score is -inf there is nothing to shift by: exp(-inf - 0) is the right zero.
      const Expr infinite =
          exprs_.binary(ExprKind::Eq, new_maximum, exprs_.constant(kMinusInfinity, DType::F32));
      const Expr shift = program_.map(exprs_.select(infinite, zero(), new_maximum));
      Expr block_sum = kNoExpr;
      program_.serial("t", count, [&](Expr t) {
        const Expr weight = program_.map(
            exprs_.unary(ExprKind::Exp, exprs_.binary(ExprKind::Sub, score_at(t), shift)));
        program_.store(program_.at(scores_, {t, j}), weight);
        block_sum = program_.reduce(Combiner::Sum, weight, t);
      });
      const Expr correction = program_.map(
          exprs_.unary(ExprKind::Exp, exprs_.binary(ExprKind::Sub, old_maximum, shift)));
      const Expr old_sum = program_.load(program_.at(sum_, {j}));
      const Expr scaled = exprs_.binary(ExprKind::Mul, old_sum, correction);
      program_.store(program_.at(sum_, {j}), exprs_.binary(ExprKind::Add, scaled, block_sum));
      program_.store(program_.at(maximum_, {j}), new_maximum);
      program_.store(program_.at(correction_, {j}), correction);
      return {};
    });
  }

  // o[q, d] <- o[q, d] * c[q] + sum over t of s[t, q] * V[key0 + t, d]
  Status emit_weighted_sum(Expr key0, Expr count) {
    const auto tile_width = [&](std::int64_t width, Expr column0, Expr columns) {
      return lowering_.serial("n", columns, padded_value_head_, [&](Expr step) {
        const Expr column = math_.add(column0, math_.mul(step, Dim(width)));
        const DotOperand values =
            values_ ? DotOperand{program_.at_offset(values_->param,
                                                    math_.add(place(*values_, key0), column)),
                                 kNoExpr, math_.size(values_->view.strides[2])}
                    : DotOperand{program_.at_offset(*packed_values_, column), kNoExpr,
                                 math_.size(padded_value_head_)};
        return each_row_tile(
            lowering_, query_count_, std::nullopt, tile_rows_, [&](int rows, Expr q0) {
              const DotOperand weights{program_.at_offset(scores_, q0), math_.constant(1),
                                       math_.constant(query_block_)};
              const auto place_at = [&](Expr row, Expr lane) {
                return program_.at(result_, {math_.add(q0, row), math_.add(column, lane)});
              };
              return emit_register_tile(
                  lowering_, DType::F32, rows, static_cast<int>(width), weights, values, count,
                  [&](Expr row, Expr lane) -> Expected<Expr> {
                    const Expr correction =
                        program_.load(program_.at(correction_, {math_.add(q0, row)}));
                    return exprs_.binary(ExprKind::Mul, program_.load(place_at(row, lane)),
                                         correction);
                  },
                  [&](Expr row, Expr lane, Expr value) -> Status {
                    program_.store(place_at(row, lane), value);
                    return {};
                  });
            });
      });
    };
    // Tiles of full width, then one of a single vector if the head leaves one over.
    const Dim full = floor_div(padded_value_head_, Dim(tile_columns_));
    OPWELD_CHECK(tile_width(tile_columns_, math_.constant(0), math_.size(full)));
    const Dim rest = mod(padded_value_head_, Dim(tile_columns_));
    if (rest == Dim(0)) return {};
    return tile_width(lowering_.lanes(), math_.size(full * tile_columns_),
                      math_.size(floor_div(rest, Dim(lowering_.lanes()))));
  }

  Status store_outputs() {
    return lowering_.serial("q", query_count_, Dim(query_block_), [&](Expr local) -> Status {
      const Expr query = math_.add(query0_, local);
      math_.set_bound(query, attention_.queries);
      const Expr total = program_.load(program_.at(sum_, {local}));
      return lowering_.vector("d", attention_.value_head, 2, [&](Expr d) -> Status {
        const Expr weighted = program_.load(program_.at(result_, {local, d}));
        const Expr empty = exprs_.binary(ExprKind::Eq, total, zero());
        Expr value = exprs_.select(empty, zero(), exprs_.binary(ExprKind::Div, weighted, total));
        if (lowering_.options().strict) {
          value = exprs_.store(value, attention_.node->result()->dtype());
        }
        const Index index{unit(attention_.q->shape()[0], batch_),
                          unit(attention_.q->shape()[1], head_), unit(attention_.queries, query),
                          unit(attention_.value_head, d)};
        lowering_.elements().define(attention_.node->result(), [=](std::span<const Expr> asked) {
          return std::equal(asked.begin(), asked.end(), index.begin(), index.end()) ? value
                                                                                    : kNoExpr;
        });
        for (const DomainOutput& output : outputs_) OPWELD_CHECK(lowering_.store(output, index));
        return {};
      });
    });
  }

  Expr unit(const Dim& size, Expr at) { return size == Dim(1) ? math_.constant(0) : at; }
  Expr zero() { return exprs_.constant(0, DType::F32); }
  // Panels and queries that hold at least one query: a short block costs what it needs.
  Expr used_panels() {
    return exprs_.binary(ExprKind::Div, program_.add(query_count_, tile_columns_ - 1),
                         math_.constant(tile_columns_));
  }
  Expr used_queries() { return program_.mul(used_panels(), tile_columns_); }
  std::optional<std::int64_t> known_key_count() const {
    if (attention_.keys.divisible_by(kKeyBlock)) return kKeyBlock;
    if (const auto keys = attention_.keys.constant(); keys && *keys <= kKeyBlock) return keys;
    return std::nullopt;
  }

  GroupLowering& lowering_;
  ProgramBuilder& program_;
  IndexMath& math_;
  ExprPool& exprs_;
  const Attention& attention_;
  std::vector<DomainOutput> outputs_;
  int tile_columns_;
  int tile_rows_;
  std::int64_t query_block_;
  Dim padded_value_head_;
  std::optional<StridedOperand> keys_, values_;
  std::optional<MemoryRef> packed_keys_, packed_values_;
  MemoryRef queries_, scores_, maximum_, sum_, correction_, result_;
  Expr batch_ = kNoExpr, head_ = kNoExpr, key_head_ = kNoExpr, query0_ = kNoExpr,
       query_count_ = kNoExpr;
};

}  // namespace

Expected<LoweredKernel> lower_attention(const Graph& group, const LowerOptions& options,
                                        std::string name) {
  OPWELD_TRY(const Attention attention, find_attention(group));
  const Shape& domain = attention.node->result()->shape();
  OPWELD_TRY(
      std::vector<DomainOutput> outputs,
      outputs_over(group, domain, "an output does not have the shape of the attention's result"));
  GroupLowering lowering(group, options, std::move(name));
  lowering.bind_params();
  AttentionEmitter emitter(lowering, attention, std::move(outputs));
  OPWELD_CHECK(emitter.emit());
  return lowering.finish();
}

}  // namespace opweld::tile
