/* Running compiled models, in plain C.
 *
 * `opweld compile model.onnx -o model.opw` compiles a model ahead of time. This interface runs what
 * it wrote, and nothing else: the library behind it, Opweld::runtime in CMake, holds neither the
 * compiler nor LLVM nor a reader of ONNX files.
 *
 *     OpweldModel* model = NULL;
 *     if (opweld_model_load("model.opw", NULL, &model) != OPWELD_OK) puts(opweld_error());
 *
 * Errors. Every function that can fail returns a status; opweld_error() then says what was wrong
 * and what to do. What a caller hands over is checked: element types, ranks, sizes, missing memory.
 * Nothing is thrown, and nothing is printed.
 *
 * Threads. A model may be used by several threads at once; runs then wait for each other, since
 * each takes all threads that the model was loaded for. opweld_error() is each thread's own.
 *
 * Trust. An .opw file holds machine code: load only files from whom you would load a shared
 * library.
 *
 * docs/ahead-of-time.md tells the whole story, examples/runtime is a program. Compiles as C99 and
 * as C++.
 */
#ifndef OPWELD_RUNTIME_H
#define OPWELD_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "opweld/element_type.h"

/* NOLINTBEGIN(modernize-use-using): C has no other way */

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OPWELD_RUNTIME_EXPORT __attribute__((visibility("default")))
#else
#define OPWELD_RUNTIME_EXPORT
#endif

typedef enum OpweldStatus {
  OPWELD_OK = 0,
  OPWELD_FAILURE = 1, /* a file, the system, or the data of a run: an index out of range */
  OPWELD_USAGE = 2    /* the call is for the caller to correct: other sizes, another file */
} OpweldStatus;

/* Why this thread's latest failed call failed, in one or more sentences; "" before the first. Valid
 * until the next call of this thread that fails. */
OPWELD_RUNTIME_EXPORT const char* opweld_error(void);

/* Of this library, "0.1.0". */
OPWELD_RUNTIME_EXPORT const char* opweld_version(void);

/* ---- tensors ---- */

/* A dense tensor, its elements in row-major order. The memory behind `sizes` and `data` stays the
 * property of whoever it belonged to. */
typedef struct OpweldTensor {
  int32_t dtype;        /* OPWELD_F32, ... */
  int32_t rank;         /* 0 for a scalar */
  const int64_t* sizes; /* `rank` of them, each >= 0; NULL where the rank is 0 */
  void* data; /* aligned to an element; may be NULL where there are no elements. Inputs are
                 only read */
} OpweldTensor;

/* ---- models ---- */

typedef struct OpweldModel OpweldModel;

/* Set to zero where nothing is said. */
typedef struct OpweldLoadOptions {
  int32_t threads;       /* to run on, at most 1024; 0: one for each processor there is */
  int32_t check_weights; /* 1: compare the digest of the weights, too, which reads all of them */
} OpweldLoadOptions;

/* Maps the file and makes it ready to run; `*model` is NULL after an error, else to be given to
 * opweld_model_free(). Weights are read from the disk as runs need them, so nobody may change the
 * file while the model lives. `options` may be NULL. Fails on what is no compiled model, is
 * damaged, was written by another version of Opweld, or was compiled for a processor that this one
 * is not. */
OPWELD_RUNTIME_EXPORT OpweldStatus opweld_model_load(const char* path,
                                                     const OpweldLoadOptions* options,
                                                     OpweldModel** model);

/* Waits for nobody: no run may be under way. Results of runs live on. NULL is let be. */
OPWELD_RUNTIME_EXPORT void opweld_model_free(OpweldModel* model);

/* What a model takes or gives. Strings and sizes live as long as the model. */
typedef struct OpweldTensorInfo {
  const char* name;
  int32_t dtype;
  int32_t rank;
  const int64_t* sizes; /* `rank` of them; -1: known only when the model is run */
  const char* shape;    /* the same as text, where sizes may have names: "[batch, 2*s + 1, 384]" */
} OpweldTensorInfo;

OPWELD_RUNTIME_EXPORT size_t opweld_model_inputs(const OpweldModel* model);
OPWELD_RUNTIME_EXPORT size_t opweld_model_outputs(const OpweldModel* model);
/* A usage error where there is none at `index`. */
OPWELD_RUNTIME_EXPORT OpweldStatus opweld_model_input(const OpweldModel* model, size_t index,
                                                      OpweldTensorInfo* info);
OPWELD_RUNTIME_EXPORT OpweldStatus opweld_model_output(const OpweldModel* model, size_t index,
                                                       OpweldTensorInfo* info);

/* What was fused and why, as `opweld explain --json` tells it, in JSON; "" where the file does not
 * say. Lives as long as the model. */
OPWELD_RUNTIME_EXPORT const char* opweld_model_account(const OpweldModel* model);

/* ---- runs ---- */

/* The results of a run. */
typedef struct OpweldResults OpweldResults;

/* Runs the model on `inputs`, as many as it has and in their order. Any sizes that agree with the
 * model's shapes are right, other ones in each run. `*result` is NULL after an error, else to be
 * given to opweld_results_free(). */
OPWELD_RUNTIME_EXPORT OpweldStatus opweld_model_run(OpweldModel* model, const OpweldTensor* inputs,
                                                    size_t count, OpweldResults** result);

/* The output at `index`, which lives as long as the result; all zero where there is none. */
OPWELD_RUNTIME_EXPORT OpweldTensor opweld_results_output(const OpweldResults* result, size_t index);

/* NULL is let be. */
OPWELD_RUNTIME_EXPORT void opweld_results_free(OpweldResults* result);

/* The same into the caller's memory: `outputs` have the element types and sizes that the results
 * will have, apart from each other and from the inputs. But an output that is declared in place of
 * an input (a KV cache) may be that input's memory, and then only what is new is written. After an
 * error the contents of the outputs are undefined. */
OPWELD_RUNTIME_EXPORT OpweldStatus opweld_model_run_into(OpweldModel* model,
                                                         const OpweldTensor* inputs, size_t count,
                                                         const OpweldTensor* outputs,
                                                         size_t output_count);

/* Sizes that output `index` will have for inputs of these sizes, whose data is not looked at:
 * `rank` of them into `sizes`. A usage error where the rank is another one. */
OPWELD_RUNTIME_EXPORT OpweldStatus opweld_model_output_sizes(OpweldModel* model,
                                                             const OpweldTensor* inputs,
                                                             size_t count, size_t index,
                                                             int64_t* sizes, int32_t rank);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-use-using) */

#endif
