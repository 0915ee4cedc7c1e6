/* A plugin that is broken in the way that OPWELD_TEST_BROKEN names, so that nothing of it is to be
 * registered. */
#include <math.h>
#include <opweld/custom_op.h>
#include <stdlib.h>
#include <string.h>

static OpweldOperand operands[3];
static OpweldAttribute attributes[2];
static OpweldResult results[2];
/* An operator as a later version of the header might declare it, larger than ours. */
static struct {
  OpweldOp op;
  void* more;
} later;
static OpweldOp second;
static const OpweldOp* ops[3];
static OpweldPlugin plugin;

static int compute(const OpweldCall* call) {
  (void)call;
  return 0;
}

static void make_good(void) {
  memset(operands, 0, sizeof(operands));
  memset(attributes, 0, sizeof(attributes));
  memset(results, 0, sizeof(results));
  memset(&later, 0, sizeof(later));
  memset(&plugin, 0, sizeof(plugin));
  operands[0].name = "x";
  operands[0].dtypes = OPWELD_FLOATS;
  operands[1].name = "z";
  operands[1].dtypes = OPWELD_FLOATS;
  attributes[0].name = "alpha";
  attributes[0].kind = OPWELD_REAL;
  results[0].name = "y";
  results[0].dtype = "x";
  results[0].shape = "x";
  later.op.size = sizeof(OpweldOp);
  later.op.domain = "test.broken";
  later.op.name = "Op";
  later.op.operands = operands;
  later.op.operand_count = 1;
  later.op.attributes = attributes;
  later.op.attribute_count = 1;
  later.op.results = results;
  later.op.result_count = 1;
  later.op.compute = compute;
  second = later.op;
  ops[0] = &later.op;
  ops[1] = &second;
  plugin.abi = OPWELD_CUSTOM_OP_ABI;
  plugin.name = "broken";
  plugin.ops = ops;
  plugin.op_count = 1;
}

static void break_by(const char* how) {
  OpweldOp* op = &later.op;
#define WHEN(name) if (strcmp(how, name) == 0)
  WHEN("old_abi") plugin.abi = OPWELD_CUSTOM_OP_ABI - 1;
  WHEN("new_abi") plugin.abi = OPWELD_CUSTOM_OP_ABI + 1;
  WHEN("no_plugin_name") plugin.name = NULL;
  WHEN("bad_plugin_name") plugin.name = "two words";
  WHEN("null_ops") plugin.ops = NULL;
  WHEN("no_ops") plugin.op_count = 0;
  WHEN("too_many_ops") plugin.op_count = 1000000000;
  WHEN("null_op") ops[0] = NULL;
  WHEN("no_size") op->size = 0;
  WHEN("huge_size") op->size = (size_t)1 << 40;
  WHEN("later_member") {
    op->size = sizeof(later);
    later.more = &later;
  }
  WHEN("no_name") op->name = NULL;
  WHEN("bad_name") op->name = "a-b";
  WHEN("no_domain") op->domain = NULL;
  WHEN("empty_domain") op->domain = "";
  WHEN("standard_domain") op->domain = "ai.onnx.ml";
  WHEN("built_in") {
    op->domain = "com.microsoft";
    op->name = "FastGelu";
  }
  WHEN("twice") plugin.op_count = 2;
  WHEN("known_elsewhere") {
    op->domain = "test.sample";
    op->name = "Honest";
  }
  WHEN("no_operands") op->operand_count = 0;
  WHEN("null_operands") op->operands = NULL;
  WHEN("too_many_operands") op->operand_count = (size_t)-1;
  WHEN("no_operand_name") operands[0].name = NULL;
  WHEN("no_dtypes") operands[0].dtypes = 0;
  WHEN("unknown_dtypes") operands[0].dtypes = 0xffffffff;
  WHEN("unknown_arity") operands[0].arity = 9;
  WHEN("variadic_first") {
    operands[0].arity = OPWELD_VARIADIC;
    op->operand_count = 2;
  }
  WHEN("required_behind_optional") {
    operands[0].arity = OPWELD_OPTIONAL;
    op->operand_count = 2;
  }
  WHEN("same_names") attributes[0].name = "x";
  WHEN("null_attributes") op->attributes = NULL;
  WHEN("unknown_kind") attributes[0].kind = 77;
  WHEN("nan_default") attributes[0].real = NAN;
  WHEN("null_list") {
    attributes[0].kind = OPWELD_INTEGER_LIST;
    attributes[0].count = 3;
  }
  WHEN("no_results") op->result_count = 0;
  WHEN("bad_result_dtype") results[0].dtype = "f33";
  WHEN("no_result_dtype") results[0].dtype = NULL;
  WHEN("bad_shape") results[0].shape = "[x[0], ";
  WHEN("no_shape") results[0].shape = NULL;
  WHEN("unknown_flags") op->flags = 1u << 31;
  WHEN("no_meaning") op->compute = NULL;
  WHEN("two_meanings") {
    op->expression = "x";
    op->body = "return %x";
  }
  WHEN("variadic_expression") {
    operands[0].arity = OPWELD_VARIADIC;
    op->expression = "x";
  }
  WHEN("two_results_of_an_expression") {
    results[1] = results[0];
    op->result_count = 2;
    op->expression = "x";
  }
  WHEN("expression_syntax") op->expression = "x * (alpha + 1";
  WHEN("expression_name") op->expression = "x * beta";
  WHEN("expression_function") op->expression = "soft(x)";
  WHEN("expression_count") op->expression = "x + exp(x, 2)";
  WHEN("expression_type") op->expression = "x || alpha";
  WHEN("expression_result") op->expression = "x > 1";
  WHEN("expression_empty") op->expression = "";
  WHEN("expression_list") op->expression = "[x, x]";
  WHEN("expression_shift") op->expression = "shift_left(x, x)";
  WHEN("body_blank") op->body = "%y = mul(%x, ${nothing})\nreturn %y";
  WHEN("body_open") op->body = "%y = mul(%x, ${alpha)\nreturn %y";
}

OPWELD_PLUGIN_EXPORT const OpweldPlugin* opweld_plugin(uint32_t abi) {
  const char* how = getenv("OPWELD_TEST_BROKEN");
  (void)abi;
  if (how == NULL || strcmp(how, "null_table") == 0) return NULL;
  make_good();
  break_by(how);
  return &plugin;
}
