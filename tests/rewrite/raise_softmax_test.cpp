#include "rewrite/raise/softmax.h"
#include "rewrite/raising.h"

namespace opweld {
namespace {

std::string lines_text(const std::string& body, const std::string& result = "%y as \"y\"") {
  return "graph g(%x: f32[b, 7, n]) {\n" + body + "\n return " + result + "\n}";
}

RaisingCase of_length(std::int64_t length) {
  return {raise_softmax, {{"b", 2}, {"n", length}}};
}

const std::string kShifted = "%m = reduce_max(%x) {axes = [2]}\n %d = sub(%x, %m)\n";
const std::string kExponential = kShifted + "%e = exp(%d)\n";
const std::string kSum = kExponential + "%s = reduce_sum(%e) {axes = [-1], keepdims = 1}\n";

TEST(RaiseSoftmax, BecomesOneOperatorOfTheSameName) {
  EXPECT_EQ(raised_text(lines_text(kSum + "%y = div(%e, %s)"), of_length(5)),
            "graph g(%x: f32[b, 7, n]) {\n  %y = softmax(%x) {axis = 2}\n"
            "  return %y as \"y\"\n}\n");
}

TEST(RaiseSoftmax, AnyLengthAndSpelling) {
  for (const std::int64_t length : {1, 3, 7, 8, 15, 16, 17, 31, 33, 640}) {
    EXPECT_EQ(raised(lines_text(kSum + "%y = div(%e, %s)"), of_length(length)), "softmax");
    EXPECT_EQ(
        raised(lines_text(kSum + "%r = reciprocal(%s)\n %y = mul(%r, %e)"), of_length(length)),
        "softmax");
    EXPECT_EQ(
        raised(lines_text(kSum + "%r = reciprocal(%s)\n %y = mul(%e, %r)"), of_length(length)),
        "softmax");
  }
}

TEST(RaiseSoftmax, AlongAnAxisThatIsNotTheLast) {
  EXPECT_EQ(raised_text(lines_text("%m = reduce_max(%x) {axes = [1]}\n %d = sub(%x, %m)\n"
                                   "%e = exp(%d)\n %s = reduce_sum(%e) {axes = [-2]}\n"
                                   "%y = div(%e, %s)"),
                        of_length(5)),
            "graph g(%x: f32[b, 7, n]) {\n  %y = softmax(%x) {axis = 1}\n"
            "  return %y as \"y\"\n}\n");
}

TEST(RaiseSoftmax, ScaledScoresStayOneValue) {
  // x * c is computed once, whatever reads it.
  EXPECT_EQ(raised("graph g(%a: f32[4, n]) {\n %c = constant {value = f32[] {3.3e9}}\n"
                   " %x = mul(%a, %c)\n %m = reduce_max(%x) {axes = [1]}\n %d = sub(%x, %m)\n"
                   " %e = exp(%d)\n %s = reduce_sum(%e) {axes = [1]}\n %y = div(%e, %s)\n"
                   " return %y as \"y\"\n}",
                   of_length(17)),
            "mul softmax");
}

TEST(RaiseSoftmax, LogSoftmaxInBothSpellings) {
  EXPECT_EQ(raised(lines_text(kSum + "%l = log(%s)\n %y = sub(%d, %l)"), of_length(9)),
            "log_softmax");
  EXPECT_EQ(raised(lines_text("%p = softmax(%x) {axis = 1}\n %y = log(%p)"), of_length(9)),
            "log_softmax");
  // Spelled out before the logarithm.
  RaisingCase twice = of_length(9);
  // Where the softmax becomes 0, its logarithm alone stays finite.
  twice.special = {kInf, -kInf, kNan, 0.0, 80.0};
  EXPECT_EQ(raised(lines_text(kSum + "%p = div(%e, %s)\n %y = log(%p)"), twice), "log_softmax");
}

TEST(RaiseSoftmax, NearMissesStayAsTheyAre) {
  const auto stays = [](const std::string& body, const std::string& result = "%y as \"y\"") {
    EXPECT_EQ(raised(lines_text(body, result), of_length(5)).find("softmax"), std::string::npos)
        << body << result;
  };
  // No maximum is taken out.
  stays("%e = exp(%x)\n %s = reduce_sum(%e) {axes = [2]}\n %y = div(%e, %s)");
  // Maximum and sum over different axes, or over two.
  stays(kExponential + "%s = reduce_sum(%e) {axes = [1]}\n %y = div(%e, %s)");
  stays(
      "%m = reduce_max(%x) {axes = [1, 2]}\n %d = sub(%x, %m)\n %e = exp(%d)\n"
      "%s = reduce_sum(%e) {axes = [1, 2]}\n %y = div(%e, %s)");
  // The maximum of another value; the mean, not the sum; the quotient upside down.
  stays(
      "%a = abs(%x)\n %m = reduce_max(%a) {axes = [2]}\n %d = sub(%x, %m)\n %e = exp(%d)\n"
      "%s = reduce_sum(%e) {axes = [2]}\n %y = div(%e, %s)");
  stays(kExponential + "%s = reduce_mean(%e) {axes = [2]}\n %y = div(%e, %s)");
  stays(kSum + "%y = div(%s, %e)");
  // A step in between is an output, or read by another node.
  stays(kSum + "%y = div(%e, %s)", "%y as \"y\", %s as \"s\"");
  stays(kSum + "%p = div(%e, %s)\n %y = add(%p, %e)");
}

}  // namespace
}  // namespace opweld
