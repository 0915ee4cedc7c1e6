// A decoder layer as in Llama, built by hand: compiled once, run at two lengths, fused and unfused.
//
//   x = x + (attention of rotated q, k and of v, computed from rms_norm(x)) Wo
//   x = x + (silu(n Wgate) * (n Wup)) Wdown,  n = rms_norm(x)
#include <opweld/opweld.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

using namespace opweld;

// Sizes of the layer; query heads share key and value heads in groups of four.
constexpr std::int64_t kHidden = 256, kHeads = 8, kKeyHeads = 2, kHead = kHidden / kHeads;
constexpr std::int64_t kInner = 640, kLongest = 512;

// The layer's weights: they stay in the caller's memory, and must live as long as the program.
struct Weights {
  std::mt19937 random{7};
  std::vector<float> matrix(std::int64_t rows, std::int64_t columns) {
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(rows)));
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    std::generate(values.begin(), values.end(), [&] { return normal(random); });
    return values;
  }
  std::vector<float> q = matrix(kHidden, kHidden), o = matrix(kHidden, kHidden);
  std::vector<float> k = matrix(kHidden, kKeyHeads* kHead), v = matrix(kHidden, kKeyHeads* kHead);
  std::vector<float> gate = matrix(kHidden, kInner), up = matrix(kHidden, kInner);
  std::vector<float> down = matrix(kInner, kHidden), norm = std::vector<float>(kHidden, 1);
  std::vector<float> cos, sin;  // [position, pair]: the angle of a pair at a position

  Weights() {
    for (std::int64_t position = 0; position < kLongest; ++position) {
      for (std::int64_t pair = 0; pair < kHead / 2; ++pair) {
        const double exponent = -2 * static_cast<double>(pair) / kHead;
        const double angle = static_cast<double>(position) * std::pow(1e4, exponent);
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }
};

Result<Model> decoder_layer(const Weights& weights) {
  GraphBuilder builder("decoder_layer");
  builder.symbol("sequence", 1, kLongest);
  builder.layer("layers.0");
  const auto matrix = [&](const char* name, const std::vector<float>& values, std::int64_t rows) {
    return builder.weight(name, {values, {rows, std::ssize(values) / rows}});
  };
  const auto heads = [](const GraphTensor& x, std::int64_t count) {  // [b, s, h d] -> [b, h, s, d]
    return transpose(reshape(x, {"batch", "sequence", count, kHead}), {0, 2, 1, 3});
  };
  const auto angles = [&](const char* name, const std::vector<float>& table) {
    return slice(matrix(name, table, kLongest), {0, 0}, {"sequence", kHead / 2});
  };

  const auto x = builder.input("x", DType::F32, {"batch", "sequence", kHidden});
  const auto scale = builder.weight("norm", {weights.norm, {kHidden}});
  const auto cos = angles("cos", weights.cos), sin = angles("sin", weights.sin);

  const auto n = rms_norm(x, scale, 1e-6);
  const auto q = heads(matmul(n, matrix("wq", weights.q, kHidden)), kHeads);
  const auto k = heads(matmul(n, matrix("wk", weights.k, kHidden)), kKeyHeads);
  const auto v = heads(matmul(n, matrix("wv", weights.v, kHidden)), kKeyHeads);
  const auto mixed = attention(rotary_embedding(q, cos, sin), rotary_embedding(k, cos, sin), v,
                               {.causal = Causal::TopLeft});
  const auto joined = reshape(transpose(mixed, {0, 2, 1, 3}), {"batch", "sequence", kHidden});
  const auto residual = x + matmul(joined, matrix("wo", weights.o, kHidden));

  const auto m = rms_norm(residual, scale, 1e-6);
  const auto gate = silu(matmul(m, matrix("gate", weights.gate, kHidden)));
  const auto inner = gate * matmul(m, matrix("up", weights.up, kHidden));
  builder.output("y", residual + matmul(inner, matrix("down", weights.down, kInner)));
  return builder.finish();
}

double largest_difference(const HostTensor& a, const HostTensor& b) {
  const std::vector<double> left = a.to_doubles(), right = b.to_doubles();
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(left[i] - right[i]));
  }
  return largest;
}

Result<void> compare_levels(Weights& weights) {
  const Result<Model> model = decoder_layer(weights);
  if (!model) return model.error();
  const Result<Program> fused = model->compile();
  if (!fused) return fused.error();
  const Result<Program> unfused = model->compile({.fusion = FusionLevel::None});
  if (!unfused) return unfused.error();

  for (const std::int64_t length : {17, 128}) {
    const std::vector<float> x = weights.matrix(length, kHidden);
    const std::vector<TensorView> inputs = {TensorView(x, {1, length, kHidden})};
    const auto y = fused->run(inputs), expected = unfused->run(inputs);
    if (!y) return y.error();
    if (!expected) return expected.error();
    std::printf("length %lld: largest difference of fused to unfused %.2g\n",
                static_cast<long long>(length), largest_difference((*y)[0], (*expected)[0]));
  }

  const Result<Account> account = fused->account({{"batch", 1}, {"sequence", 128}});
  const Result<Account> before = unfused->account({{"batch", 1}, {"sequence", 128}});
  if (!account) return account.error();
  if (!before) return before.error();
  std::printf("%zu kernels instead of %zu:\n", account->kernels.size(), before->kernels.size());
  for (const KernelAccount& kernel : account->kernels) {
    std::printf("  %-15s %s\n", kernel.name.c_str(), kernel.operators.c_str());
  }
  return {};
}

}  // namespace

int main() {
  Weights weights;
  const opweld::Result<void> done = compare_levels(weights);
  if (!done) std::fprintf(stderr, "decoder_layer: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
