#include "rewrite/raise/silu.h"
#include "rewrite/raising.h"

namespace opweld {
namespace {

std::string silu_text(const std::string& body, const std::string& result = "%y as \"y\"") {
  return "graph g(%x: f32[b, n], %v: f32[b, n]) {\n %one = constant {value = f32[] {1.0}}\n"
         " %quick = constant {value = f32[] {1.702}}\n" +
         body + "\n return " + result + "\n}";
}

RaisingCase of_length(std::int64_t length) {
  return {raise_silu, {{"b", 6}, {"n", length}}};
}

const std::string kDenominator = "%n = neg(%x)\n %e = exp(%n)\n %d = add(%one, %e)\n";

TEST(RaiseSilu, BecomesOneOperatorOfTheSameName) {
  EXPECT_EQ(raised_text(silu_text("%s = sigmoid(%x)\n %y = mul(%x, %s)"), of_length(7)),
            "graph g(%x: f32[b, n], %v: f32[b, n]) {\n  %y = silu(%x)\n  return %y as \"y\"\n}\n");
}

TEST(RaiseSilu, EverySpelling) {
  for (const std::int64_t length : {1, 8, 17, 640}) {
    for (const std::string& body :
         {std::string("%s = sigmoid(%x)\n %y = mul(%s, %x)"), kDenominator + "%y = div(%x, %d)",
          kDenominator + "%s = div(%one, %d)\n %y = mul(%x, %s)",
          kDenominator + "%s = reciprocal(%d)\n %y = mul(%s, %x)",
          std::string("%minus = constant {value = f32[] {-1.0}}\n %n = mul(%x, %minus)\n"
                      "%e = exp(%n)\n %d = add(%e, %one)\n %y = div(%x, %d)")}) {
      EXPECT_EQ(raised(silu_text(body), of_length(length)), "silu") << body;
    }
  }
}

TEST(RaiseSilu, QuickGeluIsSwishWithAlpha) {
  EXPECT_EQ(raised_text(silu_text("%a = mul(%x, %quick)\n %s = sigmoid(%a)\n %y = mul(%x, %s)"),
                        of_length(7)),
            "graph g(%x: f32[b, n], %v: f32[b, n]) {\n"
            "  %y = swish(%x) {alpha = 1.7020000219345093}\n  return %y as \"y\"\n}\n");
  EXPECT_EQ(raised(silu_text("%a = mul(%quick, %x)\n %n = neg(%a)\n %e = exp(%n)\n"
                             "%d = add(%e, %one)\n %y = div(%x, %d)"),
                   of_length(7)),
            "swish");
}

TEST(RaiseSilu, SigmoidByItself) {
  EXPECT_EQ(raised(silu_text(kDenominator + "%y = div(%one, %d)"), of_length(9)), "sigmoid");
  EXPECT_EQ(raised(silu_text(kDenominator + "%y = reciprocal(%d)"), of_length(9)), "sigmoid");
}

TEST(RaiseSilu, NearMissesStayAsTheyAre) {
  const auto stays = [](const std::string& body, const std::string& result = "%y as \"y\"") {
    const std::string left = raised(silu_text(body, result), of_length(5));
    EXPECT_EQ(left.find("silu"), std::string::npos) << body << result;
    EXPECT_EQ(left.find("swish"), std::string::npos) << body << result;
    return left;
  };
  // A gate of another value.
  EXPECT_EQ(stays("%s = sigmoid(%v)\n %y = mul(%x, %s)"), "sigmoid mul");
  // The sigmoid is read twice, or given out.
  stays("%s = sigmoid(%x)\n %z = mul(%x, %s)\n %y = add(%z, %s)");
  stays("%s = sigmoid(%x)\n %y = mul(%x, %s)", "%y as \"y\", %s as \"s\"");
  // Another constant than 1, no negation, or a power to another base.
  EXPECT_EQ(stays("%n = neg(%x)\n %e = exp(%n)\n %d = add(%quick, %e)\n %y = div(%x, %d)"),
            "neg exp add div");
  EXPECT_EQ(stays("%e = exp(%x)\n %d = add(%one, %e)\n %y = div(%x, %d)"), "exp add div");
  EXPECT_EQ(stays(kDenominator + "%y = div(%quick, %d)"), "neg exp add div");
  stays(kDenominator + "%y = div(%x, %d)", "%y as \"y\", %e as \"e\"");
}

}  // namespace
}  // namespace opweld
