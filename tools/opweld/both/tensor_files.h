// Tensors in files: .npy and .npz as NumPy writes them (NEP 1), .pb as ONNX keeps test data.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/tensor.h"
#include "support/expected.h"

namespace opweld::cli {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// bf16 has no NumPy type: it is written as uint16 bits. 16-bit unsigned and other types that no
// tensor here has are an error that names the file.
Expected<Tensor> read_npy(const std::string& path);
Expected<NamedTensors> read_npz(const std::string& path);
// .npy or .pb, by the name's end.
Expected<Tensor> read_tensor(const std::string& path);

// Complete or not at all: written beside the target and renamed.
Status write_npz(const std::string& path, const NamedTensors& tensors);

}  // namespace opweld::cli
