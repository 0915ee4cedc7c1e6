/* Operators of every form, for tests. */
#include <opweld/custom_op.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const OpweldOperand x_of_floats[] = {{.name = "x", .dtypes = OPWELD_FLOATS}};
static const OpweldOperand x_of_f32[] = {{.name = "x", .dtypes = OPWELD_ONLY(OPWELD_F32)}};
static const OpweldResult y_like_x[] = {{.name = "y", .dtype = "x"}};
static const OpweldResult y_shaped_x[] = {{.name = "y", .dtype = "x", .shape = "x"}};

/* Two operands that broadcast, one of them optional, a default for it, and attributes. */
static const OpweldOperand blend_operands[] = {
    {.name = "x", .dtypes = OPWELD_FLOATS, .group = 1},
    {.name = "other", .dtypes = OPWELD_FLOATS, .group = 1, .arity = OPWELD_OPTIONAL}};
static const OpweldAttribute blend_attributes[] = {
    {.name = "weight", .kind = OPWELD_REAL, .real = 0.25},
    {.name = "power", .kind = OPWELD_INTEGER, .integer = 2}};
static const OpweldOp blend = {
    .size = sizeof(OpweldOp),
    .domain = "test.sample",
    .name = "Blend",
    .operands = blend_operands,
    .operand_count = COUNT(blend_operands),
    .attributes = blend_attributes,
    .attribute_count = COUNT(blend_attributes),
    .results = y_like_x,
    .result_count = 1,
    .expression = "o = default(other, 1); (1 - weight) * x + weight * pow(o, power)"};

/* An expression and code that says the same, for f32. */
static int twice_plus_one(const OpweldCall* call) {
  const float* x = call->inputs[0].data;
  float* y = call->outputs[0].data;
  for (int64_t i = 0; i < call->inputs[0].elements; ++i) y[i] = 2 * x[i] + 1;
  return 0;
}
static const OpweldOp honest = {.size = sizeof(OpweldOp),
                                .domain = "test.sample",
                                .name = "Honest",
                                .operands = x_of_f32,
                                .operand_count = 1,
                                .results = y_shaped_x,
                                .result_count = 1,
                                .compute = twice_plus_one,
                                .expression = "2 * x + 1"};

/* The same with an expression that says something else. */
static const OpweldOp liar = {.size = sizeof(OpweldOp),
                              .domain = "test.sample",
                              .name = "Liar",
                              .operands = x_of_f32,
                              .operand_count = 1,
                              .results = y_like_x,
                              .result_count = 1,
                              .compute = twice_plus_one,
                              .expression = "2 * x - 1"};
static const OpweldOp body_liar = {.size = sizeof(OpweldOp),
                                   .domain = "test.sample",
                                   .name = "BodyLiar",
                                   .operands = x_of_f32,
                                   .operand_count = 1,
                                   .results = y_like_x,
                                   .result_count = 1,
                                   .compute = twice_plus_one,
                                   .body = "%y = add(%x, %x) return %y"};

/* To another type, by comparing. */
static const OpweldOperand two_floats[] = {{.name = "x", .dtypes = OPWELD_FLOATS, .group = 1},
                                           {.name = "low", .dtypes = OPWELD_FLOATS, .group = 1}};
static const OpweldResult is_above[] = {{.name = "y", .dtype = "bool"}};
static const OpweldOp above = {.size = sizeof(OpweldOp),
                               .domain = "test.sample",
                               .name = "Above",
                               .operands = two_floats,
                               .operand_count = 2,
                               .results = is_above,
                               .result_count = 1,
                               .expression = "x > low"};

/* Integers of all widths, which wrap. */
static const OpweldOperand x_of_integers[] = {{.name = "x", .dtypes = OPWELD_INTEGERS}};
static const OpweldOp square = {.size = sizeof(OpweldOp),
                                .domain = "test.sample",
                                .name = "Square",
                                .operands = x_of_integers,
                                .operand_count = 1,
                                .results = y_like_x,
                                .result_count = 1,
                                .expression = "x * x"};

/* Two results, sizes and types filled in, a reduction. */
static const OpweldResult halves[] = {
    {.name = "first", .dtype = "x", .shape = "x[:-1] ++ [x[-1] / 2]"},
    {.name = "rest", .dtype = "x"}};
static const OpweldAttribute scale[] = {{.name = "scale", .kind = OPWELD_REAL, .required = 1}};
static const OpweldOperand x_matrix[] = {{.name = "x", .dtypes = OPWELD_FLOATS}};
static const OpweldOp split = {
    .size = sizeof(OpweldOp),
    .domain = "test.sample",
    .name = "Split",
    .operands = x_matrix,
    .operand_count = 1,
    .attributes = scale,
    .attribute_count = 1,
    .results = halves,
    .result_count = 2,
    .body = "%s = constant {value = ${dtype(x)}[] {$scale}}\n"
            "%scaled = mul(%x, %s)\n"
            "%a = slice(%scaled) {starts = <0, 0>, sizes = <${x[0]}, ${x[1] / 2}>, "
            "steps = [1, 1]}\n"
            "%b = slice(%x) {starts = <0, ${x[1] / 2}>, sizes = <${x[0]}, ${x[1] - x[1] / 2}>, "
            "steps = [1, 1]}\n"
            "return %a, %b"};

/* The operands one after the other along the last axis; any number of them. */
static const OpweldOperand many[] = {
    {.name = "xs", .dtypes = OPWELD_ONLY(OPWELD_F32), .arity = OPWELD_VARIADIC}};
static const OpweldResult joined[] = {{.name = "y", .dtype = "f32"}};
static int join_shapes(const OpweldCall* call, OpweldShape* results) {
  results[0].rank = 1;
  for (size_t i = 0; i < call->input_count; ++i) {
    if (call->inputs[i].rank != 1) {
      call->fail(call, "every operand has rank 1");
      return 1;
    }
    results[0].sizes[0] += call->inputs[i].sizes[0];
  }
  return 0;
}
static int join(const OpweldCall* call) {
  float* y = call->outputs[0].data;
  for (size_t i = 0; i < call->input_count; ++i) {
    const OpweldInput* x = &call->inputs[i];
    if (x->elements > 0) memcpy(y, x->data, (size_t)x->elements * sizeof(float));
    y += x->elements;
  }
  return 0;
}
static const OpweldOp join_op = {.size = sizeof(OpweldOp),
                                 .domain = "test.sample",
                                 .name = "Join",
                                 .operands = many,
                                 .operand_count = 1,
                                 .results = joined,
                                 .result_count = 1,
                                 .compute = join,
                                 .shapes = join_shapes};

/* All kinds of attributes as code sees them: y = a + b + length(text) + sum(list) + sum(reals). */
static const int64_t one_two[] = {1, 2};
static const double halves_list[] = {0.5, 0.5};
static const OpweldAttribute kinds[] = {
    {.name = "a", .kind = OPWELD_INTEGER, .integer = 3},
    {.name = "b", .kind = OPWELD_REAL, .real = 0.5},
    {.name = "text", .kind = OPWELD_TEXT, .text = "four"},
    {.name = "list", .kind = OPWELD_INTEGER_LIST, .integers = one_two, .count = 2},
    {.name = "reals", .kind = OPWELD_REAL_LIST, .reals = halves_list, .count = 2}};
static int sum_attributes(const OpweldCall* call) {
  const OpweldAttribute* a = call->attributes;
  double sum = (double)a[0].integer + a[1].real + (double)strlen(a[2].text);
  for (size_t i = 0; i < a[3].count; ++i) sum += (double)a[3].integers[i];
  for (size_t i = 0; i < a[4].count; ++i) sum += a[4].reals[i];
  float* y = call->outputs[0].data;
  for (int64_t i = 0; i < call->outputs[0].elements; ++i) y[i] = (float)sum;
  return 0;
}
static const OpweldResult sum_result[] = {
    {.name = "y", .dtype = "f32", .shape = "[x[0], list[-1]]"}};
static const OpweldOp attributes_op = {.size = sizeof(OpweldOp),
                                       .domain = "test.sample",
                                       .name = "Attributes",
                                       .operands = x_of_floats,
                                       .operand_count = 1,
                                       .attributes = kinds,
                                       .attribute_count = COUNT(kinds),
                                       .results = sum_result,
                                       .result_count = 1,
                                       .compute = sum_attributes,
                                       .flags = OPWELD_REENTRANT};

static const OpweldOp* const ops[] = {&blend, &honest, &liar,    &body_liar,    &above,
                                      &square, &split, &join_op, &attributes_op};
static const OpweldPlugin plugin = {.abi = OPWELD_CUSTOM_OP_ABI,
                                    .name = "sample",
                                    .version = "2.5",
                                    .ops = ops,
                                    .op_count = COUNT(ops)};

OPWELD_PLUGIN_EXPORT const OpweldPlugin* opweld_plugin(uint32_t abi) {
  return abi >= OPWELD_CUSTOM_OP_ABI ? &plugin : NULL;
}
