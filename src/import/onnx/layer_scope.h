// The layer of a model that a node belongs to, as far as its name tells.
#pragma once

#include <string>
#include <string_view>

namespace opweld {

// The path up to the first numbered part: "/encoder/layer.0/attention/MatMul" -> "encoder/layer.0",
// "model.layers.3.mlp.Mul" -> "model.layers.3", "/h/5/Add" -> "h/5". Empty where no part is
// numbered.
std::string layer_scope(std::string_view node_name);

// The same of what torch.onnx writes as "namespace", modules from the outermost on with the classes
// they are of: ": LlamaForCausalLM/model: LlamaModel/model.layers.0: LlamaDecoderLayer/mul: ..."
// -> "model.layers.0".
std::string layer_of_namespace(std::string_view modules);

}  // namespace opweld
