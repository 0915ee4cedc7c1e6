/* Custom operators: what a shared library declares, in plain C, so that Opweld can compile models
 * that use operators of its own.
 *
 * A plugin is a shared library that exports one function, opweld_plugin(). It gives a table of
 * operators, which Opweld reads once and keeps, with the library, for as long as the process lives:
 *
 *     opweld run model.onnx --plugin ./libmine.so
 *
 * An operator always declares a schema: operands, attributes, results. What it declares beyond that
 * decides how it runs:
 *
 *   expression   each element of its result follows from one element of each operand. It shares
 *                kernels with its neighbours like any built-in pointwise operator.
 *   body         it is a few known operators. It is replaced by them, and they fuse as they would
 *                anywhere. This is how an operator gets reductions, matmuls, norms inside.
 *   compute      neither: a function of yours is called, and the operator is opaque. Its operands
 *                are written to memory before the call, and its results after it.
 *
 * One that has an expression or a body may have compute as well; `opweld verify` then compares the
 * two. docs/custom-operators.md is a walk-through, examples/custom_op a plugin with one of each.
 *
 * Compiles as C99 and as C++. Structs are set to zero where nothing is said; designated
 * initialisers do that. All that a table points to must stay as it is as long as the library is
 * loaded. Names are identifiers: letters, digits, '_', the first no digit; domains may have dots as
 * well.
 */
#ifndef OPWELD_CUSTOM_OP_H
#define OPWELD_CUSTOM_OP_H

#include <stddef.h>
#include <stdint.h>

#include "opweld/element_type.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes whenever a plugin built before would be misread. Members that are only added at the end
 * of OpweldOp do not change it: OpweldOp.size tells which ones a plugin knows. */
#define OPWELD_CUSTOM_OP_ABI 1

#if defined(__GNUC__)
#define OPWELD_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define OPWELD_PLUGIN_EXPORT
#endif

/* ---- element types ---- */

/* Sets of element types, for OpweldOperand.dtypes: OPWELD_ONLY(OPWELD_F32) | OPWELD_INTEGERS. */
#define OPWELD_ONLY(dtype) (1u << (dtype))
#define OPWELD_FLOATS                                                            \
  (OPWELD_ONLY(OPWELD_F64) | OPWELD_ONLY(OPWELD_F32) | OPWELD_ONLY(OPWELD_F16) | \
   OPWELD_ONLY(OPWELD_BF16))
#define OPWELD_INTEGERS                                                          \
  (OPWELD_ONLY(OPWELD_I64) | OPWELD_ONLY(OPWELD_I32) | OPWELD_ONLY(OPWELD_I16) | \
   OPWELD_ONLY(OPWELD_I8) | OPWELD_ONLY(OPWELD_U8))
#define OPWELD_ANY_DTYPE (OPWELD_FLOATS | OPWELD_INTEGERS | OPWELD_ONLY(OPWELD_BOOL))

/* ---- schema ---- */

enum {
  OPWELD_REQUIRED = 0,
  OPWELD_OPTIONAL = 1, /* what follows an optional operand is optional, too */
  OPWELD_VARIADIC = 2  /* one or more; only the last, and not with an expression or a body */
};

typedef struct OpweldOperand {
  const char* name;
  uint32_t dtypes; /* the element types that it admits */
  int32_t group;   /* operands of the same group other than 0 have one element type */
  int32_t arity;   /* OPWELD_REQUIRED, ... */
} OpweldOperand;

enum {
  OPWELD_INTEGER = 1,      /* ONNX INT */
  OPWELD_REAL = 2,         /* ONNX FLOAT; NaN is refused */
  OPWELD_TEXT = 3,         /* ONNX STRING */
  OPWELD_INTEGER_LIST = 4, /* ONNX INTS */
  OPWELD_REAL_LIST = 5     /* ONNX FLOATS */
};

/* In a schema, an attribute and its default; in a call, its value. */
typedef struct OpweldAttribute {
  const char* name;
  int32_t kind;     /* OPWELD_INTEGER, ... says which of the following counts */
  int32_t required; /* 1: a node must give it, and there is no default */
  int64_t integer;
  double real;
  const char* text;        /* NULL as a default is "" */
  const int64_t* integers; /* of a list: `count` of them */
  const double* reals;
  size_t count;
} OpweldAttribute;

/* The shape rule is a formula, so that it holds for lengths that only a run knows:
 *
 *     shape  = part { "++" part }
 *     part   = operand                          its sizes
 *            | operand "[" [size] ":" [size] "]"  some of them, as in Python: x[:-1], x[1:]
 *            | "[" [ size { "," size } ] "]"
 *            | "broadcast(" operand { "," operand } ")"       as numpy broadcasts
 *     size   = integer | attribute | operand "[" integer "]"  one size: x[0], x[-1]
 *            | attribute "[" integer "]"                      of a list
 *            | "rank(" operand ")"
 *            | size ("+" | "-" | "*" | "/" | "%") size | "(" size ")"
 *            | ("min" | "max" | "ceil_div") "(" size "," size ")"
 *
 * "/" rounds down and "%" goes with it. Examples: "x", "[x[0], 2 * x[1]]", "x[:-1] ++ [k]". */
typedef struct OpweldResult {
  const char* name;
  const char* dtype; /* an operand, whose type it has, or a type: "f32", "i64", "bool", ... */
  const char* shape; /* NULL where an expression or a body tells, or shapes() for known sizes */
} OpweldResult;

/* ---- calls ---- */

/* Dense and row-major. Data are aligned to the size of an element. */
typedef struct OpweldInput {
  int32_t dtype; /* OPWELD_ABSENT for an optional operand that is not given */
  int32_t rank;
  const int64_t* sizes; /* `rank` of them, each >= 0 */
  int64_t elements;     /* their product; 1 for rank 0 */
  const void* data;     /* NULL when shapes() is asked, and may be where there are no elements */
} OpweldInput;

typedef struct OpweldOutput {
  int32_t dtype;
  int32_t rank;
  const int64_t* sizes;
  int64_t elements;
  void* data; /* all zero at first */
} OpweldOutput;

#define OPWELD_MAX_RANK 32

typedef struct OpweldShape {
  int32_t rank; /* at most OPWELD_MAX_RANK */
  int64_t sizes[OPWELD_MAX_RANK];
} OpweldShape;

typedef struct OpweldCall {
  size_t size;               /* of this struct */
  const OpweldInput* inputs; /* in the order of the schema; absent ones are there as such */
  size_t input_count;
  const OpweldOutput* outputs; /* none when shapes() is asked */
  size_t output_count;
  const OpweldAttribute* attributes; /* all of the schema in its order, defaults filled in */
  size_t attribute_count;
  /* Says why a call fails, before a value other than 0 is returned; the text is copied. */
  void (*fail)(const struct OpweldCall* call, const char* message);
} OpweldCall;

/* ---- operators ---- */

enum {
  /* compute() and shapes() may run in several threads at once. Without it, calls of an operator
   * wait for each other, whatever programs and nodes they come from. Either way they come from any
   * thread. */
  OPWELD_REENTRANT = 1
};

typedef struct OpweldOp {
  size_t size;         /* sizeof(OpweldOp) */
  const char* domain;  /* as in ONNX nodes: "com.example" */
  const char* name;    /* "Squash"; a graph in its textual form calls it com.example.Squash */
  const char* summary; /* one sentence; may be NULL */
  const OpweldOperand* operands;
  size_t operand_count;
  const OpweldAttribute* attributes;
  size_t attribute_count;
  const OpweldResult* results;
  size_t result_count;

  /* Fills the outputs and returns 0, or calls call->fail() and returns another value. Depends on
   * nothing but the inputs' elements and the attributes: results for constants are computed once,
   * equal nodes are computed once, unread ones not at all. Writes nothing but the outputs. Serves
   * every element type that the operands admit. */
  int (*compute)(const OpweldCall* call);

  /* The sizes of all results for concrete operands; may be NULL. Where there is a formula as well,
   * the two are compared whenever sizes are known, and a difference is an error. Called while a
   * model is loaded or compiled as well as in runs; OPWELD_REENTRANT is about it as well. */
  int (*shapes)(const OpweldCall* call, OpweldShape* results);

  uint32_t flags; /* OPWELD_REENTRANT */

  /* The one result's element in terms of operand elements; operands broadcast as numpy's do.
   *
   *     text   = { name "=" value ";" } value
   *     value  = number | operand | attribute (an integer or a real) | name | "(" value ")"
   *            | function "(" value { "," value } ")"
   *            | value operator value | ("-" | "!") value | value "?" value ":" value
   *
   * Operators, loosest first, as in C: ?:  ||  &&  == != < <= > >=  + -  * / %  - !
   * Functions of floats: exp log sqrt rsqrt tanh erf sigmoid sin cos floor ceil round (half to
   * even) reciprocal, is_nan is_inf (to bool), fma(a, b, c); of floats and integers: abs neg sign
   * min max pow mod fmod add sub mul div; of integers: shift_left shift_right, and with bools: and
   * or xor not; eq ne lt le gt ge; select(condition, a, b); convert_f32(a), convert_f64, _i32,
   * _i64, _bool; default(operand, value) where an operand may be absent. min and max give NaN if
   * either is NaN; mod and % have the sign of the divisor; x / 0 and x % 0 of integers are 0.
   *
   * Halves are computed as f32, small integers as i32, and results rounded or wrapped when they are
   * stored. Both sides of an operator have one type; numbers and attributes take that of the other
   * side. What is made of numbers and attributes alone is computed in f64, or, if all are integers,
   * in i64, in which 1 / 2 is 0. in0 is the first operand, by whatever name. Example:
   *
   *     "e = exp(-abs(x)); x >= 0 ? alpha / (1.0 + e) : alpha * e / (1.0 + e)" */
  const char* expression;

  /* Statements in the textual form of graphs (src/graph/text.h, operators in src/ops/README.md)
   * that end in a return of all results. Operands are %name; one that is absent reads as absent.
   * Before the text is read, "$name" becomes the value of an attribute, and "${...}" what a formula
   * of a size, as above, gives; ${dtype(x)} is the element type of an operand. Example:
   *
   *     "%m = reduce_mean(%x) {axes = [-1], keepdims = 1}\n"
   *     "%s = constant {value = ${dtype(x)}[] {$scale}}\n"
   *     "%c = sub(%x, %m)\n"
   *     "%y = mul(%c, %s)\n"
   *     "return %y" */
  const char* body;
} OpweldOp;

typedef struct OpweldPlugin {
  uint32_t abi;        /* OPWELD_CUSTOM_OP_ABI; the first member in every version */
  const char* name;    /* for messages: "mine" */
  const char* version; /* for messages; may be NULL */
  const OpweldOp* const* ops;
  size_t op_count;
} OpweldPlugin;

/* What a plugin exports. `abi` is the newest version that the caller knows; a plugin that has none
 * for it may return NULL. */
OPWELD_PLUGIN_EXPORT const OpweldPlugin* opweld_plugin(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif /* OPWELD_CUSTOM_OP_H */
