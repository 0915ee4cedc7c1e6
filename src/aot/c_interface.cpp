// include/opweld/runtime.h on top of aot/model_file.h: the edge at which errors become statuses.
#include <algorithm>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "aot/model_file.h"
#include "opweld/runtime.h"

struct OpweldResults {
  std::vector<opweld::Tensor> outputs;
};

struct OpweldModel {
  // An OpweldTensorInfo and what it points to.
  struct Info {
    std::string name;
    opweld::DType dtype;
    std::vector<std::int64_t> sizes;
    std::string shape;
  };

  opweld::aot::LoadedModel loaded;
  std::vector<Info> inputs;
  std::vector<Info> outputs;
};

namespace {

using opweld::DType;
using opweld::Error;
using opweld::ErrorKind;
using opweld::Expected;
using opweld::Tensor;
using opweld::usage_error;

// The enumerators of opweld/element_type.h are those of DType, after one for none.
std::int32_t number_of(DType dtype) {
  return static_cast<std::int32_t>(dtype) + 1;
}
static_assert(static_cast<int>(DType::F64) + 1 == OPWELD_F64);
static_assert(static_cast<int>(DType::Bool) + 1 == OPWELD_BOOL);

std::string& last_error() {
  thread_local std::string message;
  return message;
}

OpweldStatus told(const Error& error) {
  last_error() = error.message;
  return error.kind == ErrorKind::Usage ? OPWELD_USAGE : OPWELD_FAILURE;
}

// Runs what returns a Status, whatever the standard library throws.
template <typename Body>
OpweldStatus guarded(const Body& body) {
  try {
    const opweld::Status status = body();
    return status ? OPWELD_OK : told(status.error());
  } catch (const std::bad_alloc&) {
    return told({ErrorKind::Failure, "out of memory"});
  } catch (const std::exception& error) {
    return told({ErrorKind::Failure, error.what()});
  }
}

OpweldModel::Info info_of(std::string name, const opweld::Value& value) {
  OpweldModel::Info info{std::move(name), value.dtype(), {}, opweld::to_string(value.shape())};
  for (const opweld::Dim& size : value.shape()) info.sizes.push_back(size.constant().value_or(-1));
  return info;
}

std::string label(const char* what, std::span<const OpweldModel::Info> infos, std::size_t index) {
  if (index < infos.size()) return fmt::format("{} '{}'", what, infos[index].name);
  return fmt::format("{} number {}", what, index + 1);
}

Expected<Tensor> tensor_of(const OpweldTensor& given, const std::string& what) {
  if (given.dtype < OPWELD_F64 || given.dtype > OPWELD_BOOL) {
    return usage_error("{}: {} is no element type", what, given.dtype);
  }
  if (given.rank < 0 || (given.rank > 0 && given.sizes == nullptr)) {
    return usage_error("{}: its sizes are missing", what);
  }
  const auto dtype = static_cast<DType>(given.dtype - 1);
  opweld::Sizes sizes(given.sizes, given.sizes + given.rank);
  if (!opweld::checked_num_bytes(dtype, sizes)) {
    return usage_error("{}: {} are no sizes of a tensor", what, opweld::to_string(sizes));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(given.data);
  if (address % static_cast<std::uintptr_t>(opweld::byte_size(dtype)) != 0) {
    return usage_error("{}: its data is not aligned to an element", what);
  }
  return Tensor::borrow_mutable(dtype, std::move(sizes), static_cast<std::byte*>(given.data),
                                nullptr);
}

Expected<std::vector<Tensor>> tensors_of(const char* what, std::span<const OpweldModel::Info> infos,
                                         const OpweldTensor* given, std::size_t count) {
  if (given == nullptr && count > 0) return usage_error("the {}s are missing", what);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    OPWELD_TRY(Tensor tensor, tensor_of(given[i], label(what, infos, i)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

OpweldStatus describe(std::span<const OpweldModel::Info> infos, const char* what, std::size_t index,
                      OpweldTensorInfo* info) {
  return guarded([&]() -> opweld::Status {
    if (index >= infos.size()) {
      return usage_error("the model has {} {}s and none at {}", infos.size(), what, index);
    }
    const OpweldModel::Info& found = infos[index];
    *info = {found.name.c_str(), number_of(found.dtype),
             static_cast<std::int32_t>(found.sizes.size()), found.sizes.data(),
             found.shape.c_str()};
    return {};
  });
}

}  // namespace

extern "C" {

const char* opweld_error(void) {
  return last_error().c_str();
}

const char* opweld_version(void) {
  return OPWELD_VERSION;
}

OpweldStatus opweld_model_load(const char* path, const OpweldLoadOptions* options,
                               OpweldModel** model) {
  *model = nullptr;
  return guarded([&]() -> opweld::Status {
    if (path == nullptr) return usage_error("the name of the file is missing");
    opweld::aot::LoadOptions loading;
    constexpr int kMostThreads = 1024;
    if (options != nullptr) {
      if (options->threads < 0 || options->threads > kMostThreads) {
        return usage_error("a model runs on 1 to {} threads, not on {}", kMostThreads,
                           options->threads);
      }
      loading.threads = options->threads;
      loading.check_weights = options->check_weights != 0;
    }
    OPWELD_TRY(opweld::aot::LoadedModel loaded, opweld::aot::load_model_file(path, loading));
    auto made = std::make_unique<OpweldModel>(OpweldModel{std::move(loaded), {}, {}});
    const opweld::Graph& graph = made->loaded.executable.graph();
    for (const opweld::Value* input : graph.inputs()) {
      made->inputs.push_back(info_of(input->name(), *input));
    }
    for (const auto& output : graph.outputs()) {
      made->outputs.push_back(info_of(output.name, *output.value));
    }
    *model = made.release();
    return {};
  });
}

void opweld_model_free(OpweldModel* model) {
  delete model;
}

size_t opweld_model_inputs(const OpweldModel* model) {
  return model->inputs.size();
}

size_t opweld_model_outputs(const OpweldModel* model) {
  return model->outputs.size();
}

OpweldStatus opweld_model_input(const OpweldModel* model, size_t index, OpweldTensorInfo* info) {
  return describe(model->inputs, "input", index, info);
}

OpweldStatus opweld_model_output(const OpweldModel* model, size_t index, OpweldTensorInfo* info) {
  return describe(model->outputs, "output", index, info);
}

const char* opweld_model_account(const OpweldModel* model) {
  return model->loaded.account.c_str();
}

OpweldStatus opweld_model_run(OpweldModel* model, const OpweldTensor* inputs, size_t count,
                              OpweldResults** result) {
  *result = nullptr;
  return guarded([&]() -> opweld::Status {
    OPWELD_TRY(const auto tensors, tensors_of("input", model->inputs, inputs, count));
    OPWELD_TRY(auto outputs, model->loaded.executable.run(tensors));
    *result = new OpweldResults{std::move(outputs)};
    return {};
  });
}

OpweldTensor opweld_results_output(const OpweldResults* result, size_t index) {
  if (index >= result->outputs.size()) return {};
  const Tensor& output = result->outputs[index];
  return {number_of(output.dtype()), output.rank(), output.sizes().data(),
          const_cast<std::byte*>(output.data())};
}

void opweld_results_free(OpweldResults* result) {
  delete result;
}

OpweldStatus opweld_model_run_into(OpweldModel* model, const OpweldTensor* inputs, size_t count,
                                   const OpweldTensor* outputs, size_t output_count) {
  return guarded([&]() -> opweld::Status {
    OPWELD_TRY(const auto tensors, tensors_of("input", model->inputs, inputs, count));
    OPWELD_TRY(auto results, tensors_of("output", model->outputs, outputs, output_count));
    return model->loaded.executable.run_into(tensors, results);
  });
}

OpweldStatus opweld_model_output_sizes(OpweldModel* model, const OpweldTensor* inputs, size_t count,
                                       size_t index, int64_t* sizes, int32_t rank) {
  return guarded([&]() -> opweld::Status {
    OPWELD_TRY(const auto tensors, tensors_of("input", model->inputs, inputs, count));
    OPWELD_TRY(const auto all, model->loaded.executable.output_sizes(tensors));
    if (index >= all.size()) {
      return usage_error("the model has {} outputs and none at {}", all.size(), index);
    }
    if (static_cast<std::size_t>(std::max(rank, 0)) != all[index].size() || rank < 0) {
      return usage_error("output '{}' has rank {}, not {}", model->outputs[index].name,
                         all[index].size(), rank);
    }
    std::ranges::copy(all[index], sizes);
    return {};
  });
}

}  // extern "C"
