// What becomes of the sums of a tile: the epilogue, and where its results go.
#include <algorithm>

#include "tile/schedules/contract_task.h"

namespace opweld::tile {

Status ContractTask::define_products(SumAt sum_at, Expr i, Expr j, const std::vector<Index>& places,
                                     Expr inside) {
  std::vector<Expr> products;
  for (std::size_t part = 0; part < places.size(); ++part) {
    const Expr column = math_.add(j, math_.constant(static_cast<std::int64_t>(part) * tile_width_));
    Expr product = program_.load(sum_at(i, column));
    if (contraction_.bias != nullptr) {
      const Index place = {place_.batch.front(), places[part].back()};
      OPWELD_TRY(const Expr bias,
                 inside == kNoExpr
                     ? lowering_.elements().element(contraction_.bias, place)
                     : lowering_.elements().element_where(inside, contraction_.bias, place));
      product = program_.exprs().binary(ExprKind::Add, product, bias);
    }
    if (lowering_.options().strict) {
      product = program_.exprs().store(product, contraction_.result->dtype());
    }
    products.push_back(product);
  }
  lowering_.elements().define(contraction_.result, [=](std::span<const Expr> asked) {
    for (std::size_t part = 0; part < places.size(); ++part) {
      const Index& place = places[part];
      if (std::equal(asked.begin(), asked.end(), place.begin(), place.end())) return products[part];
    }
    return kNoExpr;
  });
  return {};
}

Status ContractTask::store_register_tile(MemoryRef tile, int rows, Expr row, Expr panel) {
  const auto each_vector = [&](const TileVectorBody& body) {
    return each_tile_vector(lowering_, compute_, rows, tile_width_, body);
  };
  const int lanes = lowering_.options().target->lanes(byte_size(compute_));
  const bool whole_vectors = contraction_.head == 0 || head_lanes_ == lanes;
  if (whole_vectors && form_.statistics == nullptr) {
    const auto sum_at = [&](Expr i, Expr j) { return program_.at(tile, {i, j}); };
    const auto each_row = [&](const GroupLowering::LoopBody& body) {
      Status status;
      program_.unrolled("r", rows, [&](Expr i) {
        const ElementBuilder::Scope scope(lowering_.elements());
        if (status) status = body(i);
      });
      return status;
    };
    return store_tile({sum_at, /*in_registers=*/true, each_vector, each_row}, row, panel);
  }
  // Vectors of a head are shorter than those of the tile, and statistics take some code for each of
  // them: the tile goes through memory, where loops need not be unrolled.
  if (!sums_) {
    sums_ = program_.buffer("c", compute_, {blocking_.tile_rows, blocking_.tile_columns},
                            Buffer::Space::Cache);
  }
  const auto sum_at = [&](Expr i, Expr j) { return program_.at(*sums_, {i, j}); };
  OPWELD_CHECK(each_tile_vector(
      lowering_, compute_, rows, blocking_.tile_columns, [&](Expr i, Expr j) -> Status {
        program_.store(sum_at(i, j), program_.load(program_.at(tile, {i, j})));
        return {};
      }));
  const auto each_row = [&](const GroupLowering::LoopBody& body) {
    return lowering_.serial("r", Dim(rows), body);
  };
  return store_tile({sum_at, /*in_registers=*/false, each_vector, each_row}, row, panel);
}

Status ContractTask::store_tile(const TileSums& sums, Expr row, Expr panel) {
  if (contraction_.head != 0) return store_heads(sums, row, panel);
  if (form_.statistics != nullptr) return store_with_statistics(sums, row, panel);
  return sums.each_vector([&](Expr i, Expr j) { return store_results(sums.at, i, j, row, panel); });
}

Status ContractTask::store_with_statistics(const TileSums& sums, Expr row, Expr panel) {
  const int lanes = lowering_.options().target->lanes(byte_size(compute_));
  return sums.each_row([&](Expr i) -> Status {
    return lowering_.serial(
        "u", math_.constant(tile_width_), Dim(tile_width_), lanes, [&](Expr first) -> Status {
          Status status;
          program_.vector("j", lanes, {.unroll = 1, .lanes = lanes}, [&](Expr lane) {
            const ElementBuilder::Scope scope(lowering_.elements());
            status = store_results(sums.at, i, math_.add(first, lane), row, panel, lane);
          });
          OPWELD_CHECK(status);
          const Expr m = math_.add(place_.row0, math_.add(row, i));
          const Expr column = math_.add(place_.column0, math_.add(panel, first));
          form_.statistics->store_vector(place_of(m, column));
          return {};
        });
  });
}

RowStatistics::Place ContractTask::place_of(Expr m, Expr column) {
  // The group of a grouped matmul is no axis of its result.
  const auto axes = static_cast<std::ptrdiff_t>(contraction_.batch.size());
  return {{place_.batch.begin(), place_.batch.begin() + axes}, m, column};
}

Index ContractTask::row_index(Expr m) {
  const Expr zero = math_.constant(0);
  Index index = contraction_.merges_rows
                    ? merged_index(math_, contraction_.result->shape(), m, zero)
                    : operand_index(contraction_.result, m, zero);
  for (std::size_t axis = 0; axis + 1 < index.size(); ++axis) {
    if (contraction_.result->shape()[axis] == Dim(1)) index[axis] = zero;
  }
  return index;
}

Status ContractTask::store_results(SumAt sum_at, Expr i, Expr j, Expr row, Expr panel, Expr lane) {
  const IndexMath::Scope bounds(math_);
  const Expr m = math_.add(place_.row0, math_.add(row, i));
  math_.set_bound(m, contraction_.rows);
  Expr n = math_.add(place_.column0, math_.add(panel, j));
  math_.set_bound(n, contraction_.columns);
  const bool whole_panels = contraction_.columns.divisible_by(tile_width_);
  const Expr inside =
      whole_panels ? kNoExpr
                   : program_.exprs().binary(ExprKind::Lt, n, math_.size(contraction_.columns));
  if (contraction_.columns == Dim(1)) n = math_.constant(0);
  Index index = row_index(m);
  index.back() = n;
  std::vector<Index> places;
  for (int part = 0; part < contraction_.parts; ++part) {
    places.push_back(index);
    places.back().back() = math_.add(n, math_.size(contraction_.columns * part));
  }
  OPWELD_CHECK(define_products(sum_at, i, j, places, inside));
  if (form_.held != nullptr) form_.held->at_row(m, math_.add(row, i));
  for (const DomainOutput& output : contraction_.outputs) {
    OPWELD_CHECK(form_.store(output, {index, n, inside}));
  }
  if (form_.statistics == nullptr) return {};
  return form_.statistics->take(place_of(m, n), index, inside, lane);
}

}  // namespace opweld::tile
