#include "import/onnx/node_metadata.h"

#include <google/protobuf/unknown_field_set.h>

namespace opweld {
namespace {

// Nodes have metadata since IR version 10. Message classes that are older keep what they do not
// know, by its number.
constexpr int kMetadataField = 9;  // NodeProto.metadata_props

template <typename Node>
std::string value_of(const Node& node, std::string_view key) {
  if constexpr (requires { node.metadata_props(); }) {
    for (const auto& entry : node.metadata_props()) {
      if (entry.key() == key) return entry.value();
    }
  } else {
    const auto& unknown = node.GetReflection()->GetUnknownFields(node);
    for (int i = 0; i < unknown.field_count(); ++i) {
      const auto& field = unknown.field(i);
      if (field.number() != kMetadataField) continue;
      if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) continue;
      onnx::StringStringEntryProto entry;
      if (entry.ParseFromString(field.length_delimited()) && entry.key() == key) {
        return entry.value();
      }
    }
  }
  return {};
}

}  // namespace

std::string node_metadata(const onnx::NodeProto& node, std::string_view key) {
  return value_of(node, key);
}

}  // namespace opweld
