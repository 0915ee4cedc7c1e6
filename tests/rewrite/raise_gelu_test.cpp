#include "rewrite/raise/gelu.h"
#include "rewrite/raising.h"

namespace opweld {
namespace {

std::string gelu_text(const std::string& body, const std::string& result = "%y as \"y\"") {
  const auto constant = [](const char* name, const char* value) {
    return std::string(" %") + name + " = constant {value = f32[] {" + value + "}}\n";
  };
  return "graph g(%x: f32[b, n]) {\n" + constant("one", "1.0") + constant("half", "0.5") +
         constant("two", "2.0") + constant("root2", "1.4142135") +
         constant("rootHalf", "0.70710677") + constant("k", "0.7978846") +
         constant("c", "0.044715") + constant("three", "3.0") + body + "\n return " + result +
         "\n}";
}

// The constants are rounded to f32. At -inf the formula is NaN and the operator 0.
RaisingCase of_length(std::int64_t length) {
  return {raise_gelu, {{"b", 5}, {"n", length}}, {kInf, kNan, 0.0, -75.0, 75.0}, 1e-6};
}

const std::string kErf = "%a = div(%x, %root2)\n %t = erf(%a)\n";
const std::string kTanh =
    "%p = pow(%x, %three)\n %q = mul(%p, %c)\n %s = add(%x, %q)\n %a = mul(%k, %s)\n"
    "%t = tanh(%a)\n";
const std::string kGate = "%u = add(%t, %one)\n";

TEST(RaiseGelu, BecomesOneOperatorOfTheSameName) {
  EXPECT_EQ(
      raised_text(gelu_text(kErf + kGate + "%z = mul(%x, %u)\n %y = mul(%z, %half)"), of_length(7)),
      "graph g(%x: f32[b, n]) {\n  %y = gelu(%x) {approximate = \"none\"}\n"
      "  return %y as \"y\"\n}\n");
  EXPECT_EQ(raised_text(gelu_text(kTanh + kGate + "%z = mul(%x, %u)\n %y = mul(%z, %half)"),
                        of_length(7)),
            "graph g(%x: f32[b, n]) {\n  %y = gelu(%x) {approximate = \"tanh\"}\n"
            "  return %y as \"y\"\n}\n");
}

TEST(RaiseGelu, EveryOrderOfTheFactors) {
  for (const std::string& function : {kErf, kTanh}) {
    for (const char* around : {"%u = add(%one, %t)\n %z = mul(%x, %half)\n %y = mul(%z, %u)",
                               "%u = add(%t, %one)\n %z = mul(%half, %u)\n %y = mul(%x, %z)",
                               "%u = add(%t, %one)\n %z = div(%x, %two)\n %y = mul(%u, %z)",
                               "%u = add(%t, %one)\n %z = mul(%u, %x)\n %y = div(%z, %two)",
                               "%h = mul(%t, %half)\n %u = add(%h, %half)\n %y = mul(%x, %u)",
                               "%z = mul(%x, %half)\n %h = mul(%z, %t)\n %y = add(%z, %h)",
                               "%h = mul(%x, %t)\n %u = add(%x, %h)\n %y = mul(%u, %half)"}) {
      EXPECT_EQ(raised(gelu_text(function + around), of_length(8)), "gelu") << function << around;
    }
  }
}

TEST(RaiseGelu, EverySpellingOfTheArgument) {
  const std::string around = kGate + "%z = mul(%x, %u)\n %y = mul(%z, %half)";
  for (const char* argument :
       {"%a = mul(%x, %rootHalf)\n %t = erf(%a)\n", "%a = mul(%rootHalf, %x)\n %t = erf(%a)\n",
        "%p = mul(%x, %x)\n %q = mul(%p, %x)\n %r = mul(%c, %q)\n %s = add(%r, %x)\n"
        "%a = mul(%s, %k)\n %t = tanh(%a)\n",
        "%p = mul(%x, %x)\n %q = mul(%c, %p)\n %s = add(%one, %q)\n %r = mul(%x, %s)\n"
        "%a = mul(%r, %k)\n %t = tanh(%a)\n",
        "%p = mul(%x, %k)\n %q = mul(%x, %x)\n %r = mul(%q, %c)\n %s = add(%r, %one)\n"
        "%a = mul(%p, %s)\n %t = tanh(%a)\n"}) {
    EXPECT_EQ(raised(gelu_text(argument + around), of_length(33)), "gelu") << argument;
  }
}

TEST(RaiseGelu, OfAValueThatIsASumItself) {
  EXPECT_EQ(raised("graph g(%w: f32[b, n], %v: f32[n]) {\n"
                   " %one = constant {value = f32[] {1.0}}\n"
                   " %half = constant {value = f32[] {0.5}}\n"
                   " %root2 = constant {value = f32[] {1.4142135}}\n %x = add(%w, %v)\n" +
                       kErf + kGate +
                       "%z = mul(%x, %u)\n %y = mul(%z, %half)\n"
                       "return %y as \"y\", %x as \"x\"\n}",
                   of_length(16)),
            "add gelu");
}

TEST(RaiseGelu, GivesTheLimitAtMinusInfinity) {
  Graph graph =
      parse_graph(gelu_text(kErf + kGate + "%z = mul(%x, %u)\n %y = mul(%z, %half)")).value();
  ASSERT_TRUE(raise_gelu(graph));
  Tensor x = Tensor::allocate(DType::F32, {1, 3}).value();
  x.set_double(0, -kInf);
  x.set_double(1, kInf);
  x.set_double(2, -1);
  const auto y = evaluate(graph, std::span(&x, 1)).value();
  EXPECT_EQ(y[0].get_double(0), 0);
  EXPECT_EQ(y[0].get_double(1), kInf);
  EXPECT_NEAR(y[0].get_double(2), -0.15865525, 1e-7);  // -Phi(-1)
}

TEST(RaiseGelu, NearMissesStayAsTheyAre) {
  const auto stays = [](const std::string& body, const std::string& result = "%y as \"y\"") {
    EXPECT_EQ(raised(gelu_text(body, result), of_length(5)).find("gelu"), std::string::npos)
        << body << result;
  };
  const std::string around = kGate + "%z = mul(%x, %u)\n %y = mul(%z, %half)";
  // Wrong constants: inside, around, and in the sum.
  stays("%a = mul(%x, %root2)\n %t = erf(%a)\n" + around);
  stays("%d = constant {value = f32[] {1.41421}}\n %a = div(%x, %d)\n %t = erf(%a)\n" + around);
  stays(kErf + kGate + "%z = mul(%x, %u)\n %y = mul(%z, %two)");
  stays(kErf + "%u = add(%t, %half)\n %z = mul(%x, %u)\n %y = mul(%z, %half)");
  stays(
      "%d = constant {value = f32[] {0.044}}\n %p = pow(%x, %three)\n %q = mul(%p, %d)\n"
      "%s = add(%x, %q)\n %a = mul(%k, %s)\n %t = tanh(%a)\n" +
      around);
  stays(
      "%p = pow(%x, %two)\n %q = mul(%p, %c)\n %s = add(%x, %q)\n %a = mul(%k, %s)\n"
      "%t = tanh(%a)\n" +
      around);
  // One form's argument in the other's function.
  stays("%a = div(%x, %root2)\n %t = tanh(%a)\n" + around);
  // Another value is gated.
  stays(kErf + kGate + "%w = exp(%x)\n %z = mul(%w, %u)\n %y = mul(%z, %half)");
  // Steps that are read elsewhere, or given out.
  stays(kErf + around, "%y as \"y\", %t as \"t\"");
  stays(kErf + around, "%y as \"y\", %z as \"z\"");
  stays(kErf + around + "\n %also = exp(%a)", "%y as \"y\", %also as \"also\"");
}

}  // namespace
}  // namespace opweld
