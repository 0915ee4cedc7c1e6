// Operators that are not built in: those of plugins.
#pragma once

#include <span>
#include <string>

#include "ops/op.h"
#include "support/expected.h"

namespace opweld {

// Makes operators known to find_op() and all_ops(), all of them or, where a name is taken, none.
// Each has an origin. They are never taken back: the definitions must stay as long as the process.
// May be called by several threads, and while others compile.
Status register_ops(std::span<const OpDef* const> defs);

// What an operator that is a call of a plugin's code would have to declare to fuse: "custom
// operator 'com.example.Sort' of plugin 'mine' (/lib/mine.so) declares neither an expression nor a
// body; ...". Empty for all other operators.
std::string what_to_declare(const OpDef& def);

// What the custom operators of a graph declare, each once, in the order of their names; empty where
// there are none. The name of a custom operator does not tell what it means, so whatever is kept
// under a graph beyond this process is to be kept under this as well.
std::string declarations_in(const Graph& graph);

}  // namespace opweld
