// to_text: a tile program in the grammar of tile_ir.h.
#include <fmt/format.h>

#include "tile/expr_text.h"
#include "tile/tile_ir.h"
#include "tile/walk.h"

namespace opweld::tile {
namespace {

std::string_view combiner_text(Combiner combiner) {
  switch (combiner) {
    case Combiner::Sum:
      return "sum";
    case Combiner::Prod:
      return "prod";
    case Combiner::Max:
      return "max";
    case Combiner::MaxNumber:
      return "max_number";
    case Combiner::Min:
      return "min";
    case Combiner::Any:
      return "any";
    case Combiner::All:
      return "all";
    case Combiner::ArgMaxFirst:
      return "arg_max_first";
    case Combiner::ArgMaxLast:
      return "arg_max_last";
    case Combiner::ArgMinFirst:
      return "arg_min_first";
    case Combiner::ArgMinLast:
      return "arg_min_last";
  }
  return "?";
}

std::string stretches_text(const std::vector<ColumnStretch>& stretches) {
  std::string text;
  for (const ColumnStretch& stretch : stretches) {
    text +=
        fmt::format("{}{} by {}", text.empty() ? " heads " : ", ", stretch.columns, stretch.run);
  }
  return text;
}

std::string param_text(const Param& param) {
  const std::string head =
      fmt::format("{}: {}{} ", param.name, to_string(param.dtype), to_string(param.shape));
  if (param.role == Param::Role::Output) return head + "out";
  if (param.role == Param::Role::Shared) return head + "shared";
  if (param.role == Param::Role::Counter) return head + "counter";
  if (param.packed_columns == 0) return head + "in";
  return head +
         fmt::format("packed({}{}{}{}{})", param.packed_columns,
                     param.packed_from_transposed ? " transposed" : "",
                     param.packed_parts > 1 ? fmt::format(" parts {}", param.packed_parts) : "",
                     stretches_text(param.packed_stretches), param.packed_pairs ? " pairs" : "");
}

class ProgramPrinter {
 public:
  explicit ProgramPrinter(const TileProgram& program) : program_(program) {}

  std::string print() {
    text_ = "kernel " + program_.name + "(";
    for (std::size_t i = 0; i < program_.params.size(); ++i) {
      text_ += (i > 0 ? ", " : "") + param_text(program_.params[i]);
    }
    text_ += ")\n";
    depth_ = 1;
    symbols();
    grid();
    constexpr std::string_view kSpaces[] = {"cache", "outer", "register"};
    for (const Buffer& buffer : program_.buffers) {
      line(fmt::format("buffer {}: {}{} {}", buffer.name, to_string(buffer.dtype),
                       to_string(buffer.shape), kSpaces[static_cast<int>(buffer.space)]));
    }
    block(program_.body);
    return std::move(text_);
  }

 private:
  void symbols() {
    if (program_.symbols.empty()) return;
    std::string text = "sizes ";
    for (std::size_t i = 0; i < program_.symbols.size(); ++i) {
      text += (i > 0 ? ", " : "") + program_.symbols[i].as_symbol()->to_string();
    }
    line(text);
  }

  void grid() {
    if (program_.grid.empty()) return;
    std::string text = "grid ";
    for (std::size_t i = 0; i < program_.grid.size(); ++i) {
      const GridAxis& axis = program_.grid[i];
      text += (i > 0 ? ", " : "") + loop_name(axis.loop) + " in " + expr(axis.extent);
      if (axis.step != 1) text += fmt::format(" step {}", axis.step);
    }
    line(text);
  }

  void block(const Block& block) {
    for (const Statement& each : block) {
      std::visit([this](const auto& node) { statement(node); }, each.node);
    }
  }

  void nested(const Block& body) {
    ++depth_;
    block(body);
    --depth_;
  }

  void statement(const ForLoop& loop) {
    std::string text = "for " + loop_name(loop.loop) + " in " + expr(loop.extent);
    if (loop.step != 1) text += fmt::format(" step {}", loop.step);
    switch (loop.kind) {
      case ForLoop::Kind::Serial:
        text += " serial";
        break;
      case ForLoop::Kind::Unroll:
        text += " unroll";
        break;
      case ForLoop::Kind::Vector:
        text += " vector";
        if (loop.lanes != 0) text += fmt::format(" lanes {}", loop.lanes);
        if (loop.unroll != 1) text += fmt::format(" by {}", loop.unroll);
        break;
    }
    line(text);
    nested(loop.body);
  }

  void statement(const If& condition) {
    line("if " + expr(condition.condition));
    nested(condition.then);
  }

  void statement(const Keep& keep) {
    line("keep by " + expr(keep.key) + (keep.again == kNoExpr ? "" : " or " + expr(keep.again)));
    nested(keep.body);
  }

  void statement(const Load& load) {
    line("load " + local(load.local) + " <- " + access(load.from) + where(load.where));
  }

  void statement(const Map& map) { line("map " + local(map.local) + " <- " + expr(map.value)); }

  void statement(const Reduce& reduce) {
    std::string text = fmt::format("reduce {} <- {}({}", local(reduce.local),
                                   combiner_text(reduce.combiner), expr(reduce.value));
    if (reduce.index != kNoExpr) text += " at " + expr(reduce.index);
    line(text + ") over " + loop_name(reduce.over));
  }

  void statement(const Dot& dot) {
    std::string text = fmt::format("dot {} += {} . {}",
                                   program_.buffers[static_cast<std::size_t>(dot.accumulator)].name,
                                   access(dot.a), access(dot.b));
    text += " rows " + std::to_string(dot.rows) + " columns " + std::to_string(dot.columns);
    text += " depth " + expr(dot.depth);
    text += " strides " + expr(dot.a_row_stride) + ", " + expr(dot.a_depth_stride);
    text += ", " + expr(dot.b_depth_stride);
    if (dot.b_panel_columns != 0) {
      text += fmt::format(" panels of {} stride {}", dot.b_panel_columns, expr(dot.b_panel_stride));
    }
    if (const auto& ahead = dot.ahead) {
      text += fmt::format(" ahead {} by {} at rates {}", access(ahead->start), expr(ahead->stride),
                          fmt::join(ahead->rates, ", "));
    }
    line(text);
  }

  void statement(const MatrixDot& dot) {
    std::string text = "matrix_dot " + access(dot.accumulator) + " += ";
    text += access(dot.a) + " . " + access(dot.b);
    text += " rows " + expr(dot.row_count) + " depth " + expr(dot.depth);
    text += " strides " + expr(dot.accumulator_row_stride) + ", " + expr(dot.a_row_stride);
    if (dot.from_zero != kNoExpr) text += " from zero if " + expr(dot.from_zero);
    if (dot.ahead) {
      text += " ahead " + access(dot.ahead->start) + " by " + expr(dot.ahead->stride);
    }
    line(text);
  }

  void statement(const Transpose& transpose) {
    std::string text = "transpose " + access(transpose.to) + " <- " + access(transpose.from);
    if (transpose.pairs) text += " pairs";
    text += " rows " + expr(transpose.rows) + " columns " + expr(transpose.columns);
    text += " strides " + expr(transpose.to_row_stride) + ", " + expr(transpose.from_row_stride);
    line(text);
  }

  void statement(const StorePair& store) {
    const std::string to = access(store.to);
    line("store_pair " + to + " <- " + expr(store.first) + ", " + expr(store.second));
  }

  void statement(const StoreInterleaved& store) {
    const std::string to = access(store.to);
    line("store_interleaved " + to + " <- " + expr(store.first) + ", " + expr(store.second));
  }

  void statement(const Store& store) {
    const std::string to = access(store.to);
    const std::string past =
        store.past_caches == kNoExpr ? "" : " past caches where " + expr(store.past_caches);
    line("store " + to + " <- " + expr(store.value) + where(store.where) + past);
  }

  void statement(const Prefetch& prefetch) { line("prefetch " + access(prefetch.from)); }

  void statement(const Check& check) {
    std::string text = "check " + expr(check.condition) + " \"" + check.message + "\"";
    std::string_view before = " showing ";
    for (const Check::Shown& shown : check.shown) {
      text += fmt::format("{}{} = {}", before, shown.name, expr(shown.value));
      before = ", ";
    }
    line(text);
  }

  void statement(const Arrive& arrive) {
    const std::string at = access(arrive.counter);
    line("arrive " + local(arrive.local) + " <- " + at + " of " + expr(arrive.count));
  }

  std::string access(const Access& access) {
    std::string text = memory_name(program_, access);
    if (access.linear) return text + " @ " + expr(access.index.front());
    text += "[";
    for (std::size_t i = 0; i < access.index.size(); ++i) {
      text += (i > 0 ? ", " : "") + expr(access.index[i]);
    }
    return text + "]";
  }

  std::string where(Expr condition) {
    return condition == kNoExpr ? "" : " where " + expr(condition);
  }

  std::string expr(Expr expr) { return expr_text(program_, expr, indent(), definitions_); }

  std::string local(int index) const {
    return program_.local_names[static_cast<std::size_t>(index)];
  }
  std::string loop_name(int index) const {
    return program_.loop_names[static_cast<std::size_t>(index)];
  }

  std::string indent() const { return std::string(static_cast<std::size_t>(depth_) * 2, ' '); }

  // The definitions that the line's expressions need come before it.
  void line(const std::string& line) {
    text_ += definitions_ + indent() + line + "\n";
    definitions_.clear();
  }

  const TileProgram& program_;
  std::string text_;
  std::string definitions_;
  int depth_ = 0;
};

}  // namespace

std::string to_text(const TileProgram& program) {
  return ProgramPrinter(program).print();
}

}  // namespace opweld::tile
