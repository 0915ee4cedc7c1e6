/* Runs a compiled model on ones and prints the first results of each output.
 *
 *     opweld compile model.onnx -o model.opw
 *     run_compiled model.opw 128            sizes that are free are 128
 */
#include <opweld/runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 16 }; /* inputs, and axes of each */

static void check(OpweldStatus status) {
  if (status == OPWELD_OK) return;
  fprintf(stderr, "%s\n", opweld_error());
  exit(1);
}

int main(int argc, char** argv) {
  static OpweldTensor inputs[MOST];
  static int64_t sizes[MOST][MOST];
  OpweldModel* model = NULL;
  OpweldResults* result = NULL;
  if (argc != 3) return 2;
  check(opweld_model_load(argv[1], NULL, &model));
  const size_t count = opweld_model_inputs(model);
  if (count > MOST) return 2;
  for (size_t i = 0; i < count; ++i) {
    OpweldTensorInfo info;
    size_t elements = 1;
    check(opweld_model_input(model, i, &info));
    for (int32_t axis = 0; axis < info.rank && axis < MOST; ++axis) {
      sizes[i][axis] = info.sizes[axis] >= 0 ? info.sizes[axis] : atoll(argv[2]);
      elements *= (size_t)sizes[i][axis];
    }
    /* Zeros fit every element type; f32 gets ones. */
    float* const data = calloc(elements + 1, sizeof(double));
    for (size_t j = 0; info.dtype == OPWELD_F32 && j < elements; ++j) data[j] = 1.0F;
    inputs[i] = (OpweldTensor){info.dtype, info.rank, sizes[i], data};
  }
  check(opweld_model_run(model, inputs, count, &result));
  for (size_t i = 0; i < opweld_model_outputs(model); ++i) {
    OpweldTensorInfo info;
    check(opweld_model_output(model, i, &info));
    const OpweldTensor output = opweld_results_output(result, i);
    printf("%s %s:", info.name, info.shape);
    for (int32_t axis = 0; axis < output.rank; ++axis)
      printf(" %lld", (long long)output.sizes[axis]);
    if (output.dtype == OPWELD_F32) printf(" first %.9g", (double)((const float*)output.data)[0]);
    printf("\n");
  }
  for (size_t i = 0; i < count; ++i) free(inputs[i].data);
  opweld_results_free(result);
  opweld_model_free(model);
  return 0;
}
