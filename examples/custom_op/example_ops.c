/* Three custom operators, one of each form; docs/custom-operators.md walks through them.
 *
 *     cc -shared -fPIC -o libexample_ops.so example_ops.c
 */
#include <opweld/custom_op.h>
#include <stdlib.h>
#include <string.h>

/* SoftCap: limit * tanh(x / limit), which keeps attention scores and logits within (-limit, limit);
 * Bello et al., "Neural Combinatorial Optimization with Reinforcement Learning" (2016). Each
 * element of the result follows from one of the operand, so that an expression says all. */
static const OpweldOperand soft_cap_operands[] = {{.name = "x", .dtypes = OPWELD_FLOATS}};
static const OpweldAttribute soft_cap_attributes[] = {
    {.name = "limit", .kind = OPWELD_REAL, .real = 30.0}};
static const OpweldResult soft_cap_results[] = {{.name = "y", .dtype = "x"}};

static const OpweldOp soft_cap = {
    .size = sizeof(OpweldOp),
    .domain = "com.example",
    .name = "SoftCap",
    .summary = "limit * tanh(x / limit)",
    .operands = soft_cap_operands,
    .operand_count = 1,
    .attributes = soft_cap_attributes,
    .attribute_count = 1,
    .results = soft_cap_results,
    .result_count = 1,
    .expression = "limit * tanh(x / limit)",
};

/* ScaleNorm: scale * x / max(|x|, epsilon), |x| the Euclidean length of a row; Nguyen and Salazar,
 * "Transformers without Tears" (2019). It reduces, which no expression does; a body of known
 * operators says it. */
static const OpweldOperand scale_norm_operands[] = {
    {.name = "x", .dtypes = OPWELD_FLOATS, .group = 1},
    {.name = "scale", .dtypes = OPWELD_FLOATS, .group = 1}};
static const OpweldAttribute scale_norm_attributes[] = {
    {.name = "epsilon", .kind = OPWELD_REAL, .real = 1e-5}};
static const OpweldResult scale_norm_results[] = {{.name = "y", .dtype = "x", .shape = "x"}};

static const OpweldOp scale_norm = {
    .size = sizeof(OpweldOp),
    .domain = "com.example",
    .name = "ScaleNorm",
    .summary = "scale * x / max(|x|, epsilon), |x| the Euclidean length along the last axis",
    .operands = scale_norm_operands,
    .operand_count = 2,
    .attributes = scale_norm_attributes,
    .attribute_count = 1,
    .results = scale_norm_results,
    .result_count = 1,
    .body = "%length = reduce_l2(%x) {axes = [-1], keepdims = 1}\n"
            "%epsilon = constant {value = ${dtype(x)}[] {$epsilon}}\n"
            "%divisor = max(%length, %epsilon)\n"
            "%factor = div(%scale, %divisor)\n"
            "%y = mul(%x, %factor)\n"
            "return %y",
};

/* SortRows: the elements of each row in rising order, NaN last. Neither form says that, so that it
 * is opaque: a call of compute(). */
static const OpweldOperand sort_rows_operands[] = {
    {.name = "x", .dtypes = OPWELD_ONLY(OPWELD_F32)}};
static const OpweldResult sort_rows_results[] = {{.name = "y", .dtype = "x", .shape = "x"}};

static int in_rising_order(const void* left, const void* right) {
  const float a = *(const float*)left;
  const float b = *(const float*)right;
  if (a != a || b != b) return (a != a) - (b != b);
  return (a > b) - (a < b);
}

static int sort_rows_compute(const OpweldCall* call) {
  const OpweldInput* x = &call->inputs[0];
  float* y = call->outputs[0].data;
  if (x->rank == 0) {
    call->fail(call, "x has no rows: it is a single number");
    return 1;
  }
  if (x->elements == 0) return 0;
  memcpy(y, x->data, (size_t)x->elements * sizeof(float));
  const int64_t row = x->sizes[x->rank - 1];
  for (int64_t at = 0; at < x->elements; at += row) {
    qsort(y + at, (size_t)row, sizeof(float), in_rising_order);
  }
  return 0;
}

static const OpweldOp sort_rows = {
    .size = sizeof(OpweldOp),
    .domain = "com.example",
    .name = "SortRows",
    .summary = "the elements along the last axis in rising order, NaN last",
    .operands = sort_rows_operands,
    .operand_count = 1,
    .results = sort_rows_results,
    .result_count = 1,
    .compute = sort_rows_compute,
    .flags = OPWELD_REENTRANT,
};

static const OpweldOp* const ops[] = {&soft_cap, &scale_norm, &sort_rows};

static const OpweldPlugin plugin = {
    .abi = OPWELD_CUSTOM_OP_ABI,
    .name = "example",
    .version = "1.0",
    .ops = ops,
    .op_count = sizeof(ops) / sizeof(ops[0]),
};

OPWELD_PLUGIN_EXPORT const OpweldPlugin* opweld_plugin(uint32_t abi) {
  (void)abi;
  return &plugin;
}
