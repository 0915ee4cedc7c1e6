#include "import/onnx/stream_label.h"

#include <google/protobuf/unknown_field_set.h>

namespace opweld {
namespace {

constexpr const char* kKey = "stream";

// Nodes have metadata since IR version 10. Message classes that are older keep what they do not
// know, by its number.
constexpr int kMetadataField = 9;  // NodeProto.metadata_props

template <typename Node>
std::string label_of(const Node& node) {
  if constexpr (requires { node.metadata_props(); }) {
    for (const auto& entry : node.metadata_props()) {
      if (entry.key() == kKey) return entry.value();
    }
  } else {
    const auto& unknown = node.GetReflection()->GetUnknownFields(node);
    for (int i = 0; i < unknown.field_count(); ++i) {
      const auto& field = unknown.field(i);
      if (field.number() != kMetadataField) continue;
      if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) continue;
      onnx::StringStringEntryProto entry;
      if (entry.ParseFromString(field.length_delimited()) && entry.key() == kKey) {
        return entry.value();
      }
    }
  }
  return {};
}

}  // namespace

std::string stream_label(const onnx::NodeProto& node) {
  return label_of(node);
}

}  // namespace opweld
