#include "codegen/cpu/emit_program.h"

#include <algorithm>

#include "codegen/cpu/buffer_places.h"
#include "codegen/cpu/emit_statement.h"
#include "support/shape.h"
#include "tile/walk.h"

namespace opweld::cpu {

namespace {

// Of register buffers: that of the widest vector.
constexpr std::int64_t kSlotAlignment = 64;

class ProgramEmitter {
 public:
  ProgramEmitter(const tile::TileProgram& program, int vector_bits, llvm::Module& module)
      : emission_(program, vector_bits, module),
        statements_(emission_),
        widest_vector_(vector_bits / 32) {
    tile::for_each_statement(program.body, [&](const tile::Statement& statement) {
      const auto* loop = std::get_if<tile::ForLoop>(&statement.node);
      if (loop != nullptr) widest_vector_ = std::max<std::int64_t>(widest_vector_, loop->lanes);
      const auto* store = std::get_if<tile::Store>(&statement.node);
      stores_past_caches_ |= store != nullptr && store->past_caches != kNoExpr;
    });
  }

  void emit(const std::string& name) {
    auto& builder = emission_.builder;
    llvm::Type* const pointer = builder.getPtrTy();
    llvm::Type* const number = builder.getInt64Ty();
    auto* const type = llvm::FunctionType::get(builder.getInt32Ty(),
                                               {pointer, pointer, number, number, pointer}, false);
    emission_.function =
        llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, emission_.module);
    builder.SetInsertPoint(emission_.new_block("entry"));
    emission_.scopes.open(nullptr);
    statements_.memory().make_alias_facts();
    load_arguments();
    place_buffers();
    statements_.matrix_dots().configure();
    llvm::Value* const begin = emission_.function->getArg(2);
    llvm::Value* const end = emission_.function->getArg(3);
    statements_.loop("task", begin, end, 1, [&](llvm::Value* task) {
      decode_task(task);
      statements_.emit(emission_.program.body);
    });
    statements_.matrix_dots().release();
    // Stores past the caches come in no order with others, such as one that says that this is done.
    if (stores_past_caches_) builder.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
    builder.CreateRet(builder.getInt32(0));
    emission_.scopes.close();
  }

 private:
  void load_arguments() {
    auto& builder = emission_.builder;
    llvm::Function& function = *emission_.function;
    for (std::size_t i = 0; i < emission_.program.params.size(); ++i) {
      llvm::Value* const place =
          builder.CreateConstGEP1_64(builder.getPtrTy(), function.getArg(0), i);
      emission_.params.push_back(
          builder.CreateLoad(builder.getPtrTy(), place, emission_.program.params[i].name));
    }
    for (std::size_t i = 0; i < emission_.program.symbols.size(); ++i) {
      llvm::Value* const place =
          builder.CreateConstGEP1_64(builder.getInt64Ty(), function.getArg(1), i);
      emission_.symbols.push_back(builder.CreateLoad(builder.getInt64Ty(), place));
    }
  }

  void place_buffers() {
    auto& builder = emission_.builder;
    llvm::Value* const scratch = emission_.function->getArg(4);
    const BufferPlaces places = cpu::place_buffers(emission_.program);
    for (std::size_t i = 0; i < places.offsets.size(); ++i) {
      const tile::Buffer& buffer = emission_.program.buffers[i];
      if (buffer.space != tile::Buffer::Space::Register) {
        const Expr offset = emission_.pool.size_of(places.offsets[i]);
        llvm::Value* const at = statements_.exprs().value(offset);
        emission_.buffers.push_back(builder.CreateGEP(builder.getInt8Ty(), scratch, at));
        continue;
      }
      // Whole vectors are read and written, so there is room for the last one to be whole.
      const std::int64_t elements = *num_elements(buffer.shape).constant() + widest_vector_;
      llvm::AllocaInst* const slot =
          emission_.new_alloca(llvm::ArrayType::get(emission_.storage_type(buffer.dtype),
                                                    static_cast<std::uint64_t>(elements)),
                               buffer.name);
      slot->setAlignment(llvm::Align(kSlotAlignment));
      emission_.buffers.push_back(slot);
    }
  }

  // The last axis of the grid is the fastest.
  void decode_task(llvm::Value* task) {
    auto& builder = emission_.builder;
    const auto& grid = emission_.program.grid;
    for (std::size_t i = grid.size(); i-- > 0;) {
      const tile::GridAxis& axis = grid[i];
      llvm::Value* at = task;
      llvm::Value* const step = builder.getInt64(static_cast<std::uint64_t>(axis.step));
      if (i > 0) {
        llvm::Value* const count = step_count(axis);
        at = builder.CreateURem(task, count);
        task = builder.CreateUDiv(task, count);
      }
      emission_.index_facts.set_loop_multiple(axis.loop, axis.step);
      emission_.loops[static_cast<std::size_t>(axis.loop)] = {builder.CreateMul(at, step),
                                                              emission_.scopes.depth()};
    }
  }

  // ceil(extent / step), computed once, before the tasks.
  llvm::Value* step_count(const tile::GridAxis& axis) {
    ExprPool& pool = emission_.pool;
    if (axis.step == 1) return statements_.exprs().value(axis.extent);
    const Expr rounded = pool.binary(ExprKind::Add, axis.extent, pool.integer(axis.step - 1));
    return statements_.exprs().value(pool.binary(ExprKind::Div, rounded, pool.integer(axis.step)));
  }

  Emission emission_;
  StatementEmitter statements_;
  std::int64_t widest_vector_;  // lanes
  bool stores_past_caches_ = false;
};

}  // namespace

void emit_program(const tile::TileProgram& program, int vector_bits, llvm::Module& module,
                  const std::string& name) {
  ProgramEmitter(program, vector_bits, module).emit(name);
}

std::vector<const tile::Check*> checks_of(const tile::TileProgram& program) {
  std::vector<const tile::Check*> checks;
  tile::for_each_statement(program.body, [&checks](const tile::Statement& statement) {
    const auto* check = std::get_if<tile::Check>(&statement.node);
    if (check != nullptr) checks.push_back(check);
  });
  return checks;
}

Dim scratch_bytes(const tile::TileProgram& program) {
  Dim bytes = place_buffers(program).bytes;
  std::size_t shown = 0;
  for (const tile::Check* check : checks_of(program)) shown = std::max(shown, check->shown.size());
  if (shown > 0) bytes = max(bytes, static_cast<std::int64_t>(shown * sizeof(std::int64_t)));
  return bytes;
}

}  // namespace opweld::cpu
