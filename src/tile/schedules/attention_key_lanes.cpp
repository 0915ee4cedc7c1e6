// The form of the `attention` schedule for very few rows, where the work is to read K and V once:
// both stream by row after row. A register tile of rows x keys has the elements of a head as lanes
// while products are summed up, and keys as lanes from the scores on.
//
//   s[r, t] <- sum over d of q[r, d] K[t, d]            lanes are d
//   s <- score(s); m' <- max(m, max_t s)                lanes are keys
//   s <- exp(s - m'); c <- exp(m - m'); l <- l * c + sum_t s
//   o[r, d] <- o * c + dot(s, V)                        lanes are d
#include <algorithm>
#include <vector>

#include "tile/schedules/attention_form.h"
#include "tile/schedules/register_tile.h"

namespace opweld::tile {

namespace {

class KeyLanesForm : public VectorForm {
 public:
  KeyLanesForm(GroupLowering& lowering, const Attention& attention, const AttentionTask& task,
               AttentionScores& scores)
      : VectorForm(lowering, attention, task, scores, AttentionOperand::InPlace::Pages),
        registers_(lowering.options().target->vector_registers) {}

  void make_buffers() override {
    queries_ = cache("q", {task_.row_block, attention_.head});
    block_ = cache("s", {task_.row_block, task_.key_block});
    VectorForm::make_buffers();
  }

  Status load_queries() override {
    return lowering_.serial("r", task_.row_count, Dim(task_.row_block), [&](Expr local) {
      return lowering_.vector("d", attention_.head, 1, [&](Expr d) -> Status {
        OPWELD_TRY(const Expr value, scores_.query_element(math_.add(task_.row0, local), d));
        program_.store(program_.at(queries_, {local, d}), value);
        return {};
      });
    });
  }

  Status emit_key_block(Expr key0, Expr count, Expr careful) override {
    OPWELD_CHECK(emit_products(key0, count));
    OPWELD_CHECK(lowering_.serial("r", task_.row_count, Dim(task_.row_block),
                                  [&](Expr row) { return emit_softmax(row, key0, count); }));
    OPWELD_CHECK(values_.pack(key0, count, task_.key_block));
    const Weights weights{block_, math_.constant(task_.key_block), math_.constant(1)};
    const int rows = largest_row_tile();
    const int vectors = std::min(8, (registers_ - 8) / rows);
    return weighted_sum(weights, {rows, power_of_two(vectors)}, key0, count, careful);
  }

 private:
  static int power_of_two(int most) {
    int power = 1;
    while (power * 2 <= most) power *= 2;
    return power;
  }

  [[nodiscard]] int largest_row_tile() const {
    return power_of_two(static_cast<int>(known_row_count().value_or(task_.row_block)));
  }

  // s[r, t] <- q[r] . K[key0 + t]
  Status emit_products(Expr key0, Expr count) {
    return each_row_tile(
        lowering_, task_.row_count, known_row_count(), largest_row_tile(),
        [&](int rows, Expr row0) {
          // Half of the registers accumulate.
          const int most_keys = power_of_two(std::clamp(registers_ / 2 / rows, 1, 8));
          return each_row_tile(
              lowering_, count, known_key_count(), most_keys,
              [&](int keys, Expr t0) { return emit_product_tile(rows, row0, keys, t0, key0); });
        });
  }

  Status emit_product_tile(int rows, Expr row0, int keys, Expr t0, Expr key0) {
    std::vector<Index> places;
    for (int t = 0; t < keys; ++t) {
      places.push_back(places_.at(key0, math_.add(t0, math_.constant(t))));
    }
    std::vector<Expr> products;
    OPWELD_CHECK(lowering_.vector("d", attention_.head, 1, [&](Expr d) -> Status {
      std::vector<Expr> queries;
      for (int r = 0; r < rows; ++r) {
        const Expr row = math_.add(row0, math_.constant(r));
        queries.push_back(program_.load(program_.at(queries_, {row, d})));
      }
      for (Index index : places) {
        index.push_back(d);
        OPWELD_TRY(const Expr element, lowering_.elements().element(attention_.k, index));
        for (const Expr query : queries) {
          products.push_back(
              program_.reduce(Combiner::Sum, exprs_.binary(ExprKind::Mul, query, element), d));
        }
      }
      return {};
    }));
    for (int t = 0; t < keys; ++t) {
      for (int r = 0; r < rows; ++r) {
        const Access to = program_.at(
            block_, {math_.add(row0, math_.constant(r)), math_.add(t0, math_.constant(t))});
        program_.store(to, products[static_cast<std::size_t>(t * rows + r)]);
      }
    }
    return {};
  }

  // Maximum, weights, correction and sum of this block for one row.
  Status emit_softmax(Expr row, Expr key0, Expr count) {
    constexpr int kAccumulators = 2;
    Expr block_maximum = kNoExpr;
    OPWELD_CHECK(
        lowering_.vector("t", count, Dim(task_.key_block), kAccumulators, [&](Expr t) -> Status {
          const Access at = program_.at(block_, {row, t});
          OPWELD_TRY(const Expr score, scores_.score(program_.load(at), math_.add(task_.row0, row),
                                                     math_.add(key0, t)));
          const Expr kept = program_.map(score);
          program_.store(at, kept);
          block_maximum = program_.reduce(Combiner::Max, kept, t);
          return {};
        }));
    const Expr old_maximum = program_.load(program_.at(maximum_, {row}));
    const Expr new_maximum = program_.map(exprs_.binary(ExprKind::Max, old_maximum, block_maximum));
    const Expr shift = shift_of(new_maximum);
    Expr block_sum = kNoExpr;
    OPWELD_CHECK(
        lowering_.vector("t", count, Dim(task_.key_block), kAccumulators, [&](Expr t) -> Status {
          const Access at = program_.at(block_, {row, t});
          const Expr weight = weight_of(program_.load(at), shift);
          program_.store(at, weight);
          block_sum = program_.reduce(Combiner::Sum, weight, t);
          return {};
        }));
    advance(row, {old_maximum, new_maximum, shift, block_sum});
    return {};
  }

  int registers_;
  MemoryRef queries_, block_;
};

}  // namespace

std::unique_ptr<AttentionForm> make_key_lanes_form(GroupLowering& lowering,
                                                   const Attention& attention,
                                                   const AttentionTask& task,
                                                   AttentionScores& scores) {
  return std::make_unique<KeyLanesForm>(lowering, attention, task, scores);
}

}  // namespace opweld::tile
