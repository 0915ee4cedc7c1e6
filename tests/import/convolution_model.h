// Models of one Conv with every two choices that it has, and what they give by plain loops over the
// elements of each window, in double precision.
#pragma once

#include <array>
#include <random>
#include <string>
#include <vector>

#include "covering_array.h"
#include "import/model_builder.h"

namespace opweld::testing {

// What a choice is of, in the order of ConvolutionChoice.
enum ConvolutionFactor {
  kSpatialAxes,
  kKernel,
  kStride,
  kDilation,
  kPadding,
  kGroups,
  kBias,
  kFreeSizes,
  kWeights,
  kImage,
};
constexpr std::size_t kConvolutionFactors = 10;
using ConvolutionChoice = std::array<int, kConvolutionFactors>;
constexpr ConvolutionChoice kConvolutionLevels{3, 4, 3, 2, 5, 4, 2, 3, 2, 4};

enum PaddingLevel { kNotPadded, kValid, kUneven, kSameUpper, kSameLower };
enum GroupsLevel { kOneGroup, kTwoGroups, kDepthwise, kDepthwiseTwice };
enum FreeSizesLevel { kNoneFree, kBatchFree, kAllFree };

class ConvolutionModel {
 public:
  ConvolutionModel(const ConvolutionChoice& of, DType dtype) : of_(of), dtype_(dtype) {
    constexpr std::array<std::int64_t, 4> kImages{7, 9, 16, 17};
    const int axes = of[kSpatialAxes] + 1;
    for (int i = 0; i < axes; ++i) {
      // Another kernel for each axis, and another size.
      kernel_.push_back(1 + (of[kKernel] + i) % 4);
      strides_.push_back(1 + (of[kStride] + i) % 3);
      dilations_.push_back(1 + (of[kDilation] + i) % 2);
      // Long enough for any of the kernels, as they are dilated.
      image_.push_back((axes == 3 ? 7 : kImages.at(static_cast<std::size_t>(of[kImage]))) + i);
    }
    const std::array<std::int64_t, 4> kGroupCounts{1, 2, 3, 3};
    groups_ = kGroupCounts.at(static_cast<std::size_t>(of[kGroups]));
    const bool depthwise = of[kGroups] >= kDepthwise;
    channels_ = depthwise ? 3 : 4;
    filters_ = of[kGroups] == kDepthwise ? 3 : (of[kGroups] == kDepthwiseTwice ? 6 : 10);
  }

  [[nodiscard]] std::int64_t filters() const { return filters_; }
  [[nodiscard]] const Sizes& image() const { return image_; }

  [[nodiscard]] Sizes image_sizes(std::int64_t batch, std::int64_t longer = 0) const {
    Sizes sizes{batch, channels_};
    for (const std::int64_t each : image_) sizes.push_back(each + longer);
    return sizes;
  }
  [[nodiscard]] Sizes weight_sizes() const {
    Sizes sizes{filters_, channels_ / groups_};
    sizes.insert(sizes.end(), kernel_.begin(), kernel_.end());
    return sizes;
  }

  // x, and w and the bias unless they are the model's own.
  [[nodiscard]] std::vector<Tensor> inputs(const Tensor& x) const {
    std::vector<Tensor> inputs{x};
    if (of_[kWeights] != 0) {
      inputs.push_back(weights());
      if (of_[kBias] != 0) inputs.push_back(bias());
    }
    return inputs;
  }

  [[nodiscard]] Tensor weights() const { return random(weight_sizes(), 2); }
  [[nodiscard]] Tensor bias() const { return random({filters_}, 3); }

  [[nodiscard]] Tensor random(const Sizes& sizes, unsigned seed) const {
    Tensor tensor = Tensor::allocate(dtype_, sizes).value();
    std::mt19937 generator(seed);
    std::uniform_real_distribution<double> distribution(-1, 1);
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.set_double(i, distribution(generator));
    }
    return tensor;
  }

  [[nodiscard]] ModelBuilder model() const {
    ModelBuilder model(22);
    std::vector<std::string> sizes{of_[kFreeSizes] == kNoneFree ? "2" : "batch",
                                   std::to_string(channels_)};
    for (std::size_t i = 0; i < image_.size(); ++i) {
      sizes.push_back(of_[kFreeSizes] == kAllFree ? "size" + std::to_string(i)
                                                  : std::to_string(image_[i]));
    }
    model.input("x", sizes, type()).output("y");
    std::vector<std::string> operands{"x", "w"};
    add_weight(model, "w", weights());
    if (of_[kBias] != 0) {
      add_weight(model, "b", bias());
      operands.emplace_back("b");
    }
    NodeWriter node = model.node("Conv", operands, {"y"}).name("convolution");
    node.set("kernel_shape", kernel_).set("strides", strides_).set("dilations", dilations_);
    node.set("group", groups_);
    constexpr std::array<const char*, 5> kModes{"NOTSET", "VALID", "NOTSET", "SAME_UPPER",
                                                "SAME_LOWER"};
    node.set("auto_pad", kModes.at(static_cast<std::size_t>(of_[kPadding])));
    if (of_[kPadding] == kUneven) {
      std::vector<std::int64_t> pads(2 * kernel_.size());
      for (std::size_t i = 0; i < pads.size(); ++i) pads[i] = uneven(i);
      node.set("pads", pads);
    }
    return model;
  }

  // y, in double precision.
  [[nodiscard]] Tensor expected(const Tensor& x) const {
    const Tensor w = weights();
    const Tensor b = bias();
    Sizes y_sizes{x.sizes()[0], filters_};
    Sizes begins;
    for (std::size_t i = 0; i < kernel_.size(); ++i) {
      const auto [begin, count] = windows(i, x.sizes()[i + 2]);
      begins.push_back(begin);
      y_sizes.push_back(count);
    }
    Tensor y = Tensor::allocate(DType::F64, y_sizes).value();
    for_each(y_sizes, [&](std::int64_t place, const Sizes& at) {
      const std::int64_t group = at[1] / (filters_ / groups_);
      double sum = of_[kBias] != 0 ? b.get_double(at[1]) : 0;
      for_each(window_sizes(), [&](std::int64_t, const Sizes& in) {
        Sizes from{at[0], group * (channels_ / groups_) + in[0]};
        Sizes weight{at[1], in[0]};
        for (std::size_t i = 0; i < kernel_.size(); ++i) {
          from.push_back(begins[i] + at[i + 2] * strides_[i] + in[i + 1] * dilations_[i]);
          weight.push_back(in[i + 1]);
          if (from.back() < 0 || from.back() >= x.sizes()[i + 2]) return;
        }
        sum += x.get_double(offset(x.sizes(), from)) * w.get_double(offset(w.sizes(), weight));
      });
      y.set_double(place, sum);
    });
    return y;
  }

 private:
  // In turn none, one and two elements.
  static std::int64_t uneven(std::size_t i) { return static_cast<std::int64_t>((i * 2 + 1) % 3); }

  // Where the first window of an axis begins, and how many there are.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> windows(std::size_t i,
                                                              std::int64_t size) const {
    const std::int64_t extent = (kernel_[i] - 1) * dilations_[i] + 1;
    if (of_[kPadding] == kSameUpper || of_[kPadding] == kSameLower) {
      std::int64_t count = 0;
      while (count * strides_[i] < size) ++count;
      const std::int64_t added =
          std::max<std::int64_t>((count - 1) * strides_[i] + extent - size, 0);
      return {-(of_[kPadding] == kSameUpper ? added / 2 : (added + 1) / 2), count};
    }
    const std::int64_t before = of_[kPadding] == kUneven ? uneven(i) : 0;
    const std::int64_t after = of_[kPadding] == kUneven ? uneven(kernel_.size() + i) : 0;
    std::int64_t count = 0;
    while (count * strides_[i] + extent <= before + size + after) ++count;
    return {-before, count};
  }

  [[nodiscard]] Sizes window_sizes() const {
    Sizes sizes = weight_sizes();
    sizes.erase(sizes.begin());
    return sizes;
  }

  static std::int64_t offset(const Sizes& sizes, const Sizes& at) {
    std::int64_t place = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) place = place * sizes[i] + at[i];
    return place;
  }

  template <typename Body>
  static void for_each(const Sizes& sizes, const Body& body) {
    Sizes at(sizes.size(), 0);
    const std::int64_t count = num_elements(sizes);
    for (std::int64_t place = 0; place < count; ++place) {
      body(place, at);
      for (std::size_t axis = sizes.size(); axis-- > 0;) {
        if (++at[axis] < sizes[axis]) break;
        at[axis] = 0;
      }
    }
  }

  [[nodiscard]] int type() const {
    switch (dtype_) {
      case DType::F64:
        return onnx::TensorProto::DOUBLE;
      case DType::F16:
        return onnx::TensorProto::FLOAT16;
      case DType::BF16:
        return onnx::TensorProto::BFLOAT16;
      default:
        return onnx::TensorProto::FLOAT;
    }
  }

  void add_weight(ModelBuilder& model, const std::string& name, const Tensor& value) const {
    if (of_[kWeights] != 0) {
      std::vector<std::string> sizes;
      for (const std::int64_t each : value.sizes()) sizes.push_back(std::to_string(each));
      model.input(name, sizes, type());
      return;
    }
    onnx::TensorProto proto;
    proto.set_name(name);
    proto.set_data_type(type());
    for (const std::int64_t each : value.sizes()) proto.add_dims(each);
    proto.set_raw_data(value.data(), static_cast<std::size_t>(value.num_bytes()));
    model.initializer(proto);
  }

  ConvolutionChoice of_;
  DType dtype_;
  std::vector<std::int64_t> kernel_;
  std::vector<std::int64_t> strides_;
  std::vector<std::int64_t> dilations_;
  Sizes image_;
  std::int64_t groups_ = 1;
  std::int64_t channels_ = 1;
  std::int64_t filters_ = 1;
};

}  // namespace opweld::testing
