#include "rewrite/raise/rope.h"
#include "rewrite/raising.h"

namespace opweld {
namespace {

// Heads of 6 elements: x[b, 2, s, 6], and for the spellings in parts cos and sin[b, 1, s, 3].
std::string rope_text(const std::string& body, const std::string& result = "%y as \"y\"") {
  return "graph g(%x: f32[b, 2, s, 6], %c: f32[b, 1, s, 3], %d: f32[b, 1, s, 3], "
         "%ids: i64[b, s]) {\n" +
         body + "\n return " + result + "\n}";
}

const RaisingCase kCase = {raise_rope, {{"b", 2}, {"s", 5}}, {kInf, kNan, 0.0, 1e30}};

std::string slice(const std::string& name, const std::string& of, int start, int size,
                  int step = 1) {
  return fmt::format(
      "%{} = slice(%{}) {{starts = <0, 0, 0, {}>, sizes = <b, 2, s, {}>, steps = [1, 1, 1, {}]}}\n",
      name, of, start, size, step);
}

const std::string kHalves = slice("x1", "x", 0, 3) + slice("x2", "x", 3, 3);
const std::string kInterleaved = slice("x1", "x", 0, 3, 2) + slice("x2", "x", 1, 3, 2);
const std::string kRotated = "%n = neg(%x2)\n %r = concat(%n, %x1) {axis = 3}\n";
// cos and sin with each angle twice.
const std::string kTwice = "%cc = concat(%c, %c) {axis = 3}\n %dd = concat(%d, %d) {axis = 3}\n";
const std::string kSum = "%a = mul(%x, %cc)\n %e = mul(%r, %dd)\n %y = add(%a, %e)";

TEST(RaiseRope, RotatedHalvesBecomeOneOperatorOfTheSameName) {
  EXPECT_EQ(raised_text(rope_text(kHalves + kRotated + kTwice + kSum), kCase),
            "graph g(%x: f32[b, 2, s, 6], %c: f32[b, 1, s, 3], %d: f32[b, 1, s, 3], "
            "%ids: i64[b, s]) {\n"
            "  %0 = reshape(%c) {shape = <b, s, 3>}\n"
            "  %1 = reshape(%d) {shape = <b, s, 3>}\n"
            "  %y = rope(%x, %0, %1) {interleaved = 0}\n"
            "  return %y as \"y\"\n}\n");
}

TEST(RaiseRope, OperandsInEitherOrder) {
  for (const char* sum : {"%a = mul(%cc, %x)\n %e = mul(%dd, %r)\n %y = add(%e, %a)",
                          "%a = mul(%x, %cc)\n %e = mul(%dd, %r)\n %y = add(%e, %a)"}) {
    EXPECT_EQ(raised(rope_text(joined({kHalves, kRotated, kTwice, sum})), kCase),
              "reshape reshape rope");
  }
}

TEST(RaiseRope, AnglesGatheredFromTablesThatHoldThemTwice) {
  const auto table = [](const std::string& name, double step, double change) {
    std::string text = "%" + name + " = constant {value = f32[4, 6] {";
    for (int row = 0; row < 4; ++row) {
      for (int i = 0; i < 6; ++i) {
        const double last = row == 3 && i == 5 ? change : 0;
        text += fmt::format("{}{}", row + i == 0 ? "" : ", ", step * (row + 1) + i % 3 + last);
      }
    }
    return text + "}}\n";
  };
  const std::string gathered =
      "%gc = gather(%tc, %ids) {axis = 0}\n %gd = gather(%td, %ids) {axis = 0}\n"
      "%cc = reshape(%gc) {shape = <b, 1, s, 6>}\n %dd = reshape(%gd) {shape = <b, 1, s, 6>}\n";
  const std::string rest = gathered + kHalves + kRotated + kSum;
  EXPECT_EQ(raised(rope_text(table("tc", 0.5, 0) + table("td", 0.25, 0) + rest), kCase),
            "gather reshape reshape gather reshape reshape rope");
  // One number of one row differs.
  EXPECT_EQ(
      raised(rope_text(table("tc", 0.5, 0) + table("td", 0.25, 0.5) + rest), kCase).find("rope"),
      std::string::npos);
}

TEST(RaiseRope, AnglesComputedFromPositions) {
  // As decoders export them: cos(concat(f, f)) of f = position * frequency, then scaled and cast.
  const std::string angles =
      "%p = cast(%ids) {to = f32}\n %q = reshape(%p) {shape = <b, s, 1>}\n"
      "%w = constant {value = f32[3] {1.0, 0.1, 0.01}}\n %f = mul(%q, %w)\n"
      "%ff = concat(%f, %f) {axis = 2}\n %one = constant {value = f32[] {1.5}}\n"
      "%g = cos(%ff)\n %gs = mul(%g, %one)\n %h = sin(%ff)\n %hs = mul(%one, %h)\n"
      "%cc = reshape(%gs) {shape = <b, 1, s, 6>}\n %dd = reshape(%hs) {shape = <b, 1, s, 6>}\n";
  EXPECT_EQ(raised(rope_text(angles + kHalves + kRotated + kSum), kCase),
            "cast reshape mul cos mul reshape reshape sin mul reshape reshape rope");
}

TEST(RaiseRope, AnglesForAllSequencesAlike) {
  EXPECT_EQ(raised("graph g(%x: f32[b, 2, s, 6], %c: f32[s, 3], %d: f32[s, 3]) {\n"
                   "%cc = concat(%c, %c) {axis = 1}\n %dd = tile(%d) {repeats = <1, 2>}\n" +
                       kHalves + kRotated + kSum + "\n return %y as \"y\"\n}",
                   kCase),
            "reshape reshape rope");
}

TEST(RaiseRope, InterleavedByRepeatedAngles) {
  const std::string rotated =
      "%n = neg(%x2)\n %u = reshape(%n) {shape = <b, 2, s, 3, 1>}\n"
      "%v = reshape(%x1) {shape = <b, 2, s, 3, 1>}\n %w = concat(%u, %v) {axis = 4}\n"
      "%r = reshape(%w) {shape = <b, 2, s, 6>}\n";
  const std::string repeated =
      "%c1 = reshape(%c) {shape = <b, 1, s, 3, 1>}\n %c2 = expand(%c1) {shape = <b, 1, s, 3, 2>}\n"
      "%cc = reshape(%c2) {shape = <b, 1, s, 6>}\n %d1 = reshape(%d) {shape = <b, 1, s, 3, 1>}\n"
      "%d2 = concat(%d1, %d1) {axis = 4}\n %dd = reshape(%d2) {shape = <b, 1, s, 6>}\n";
  const std::string left = raised_text(rope_text(kInterleaved + rotated + repeated + kSum), kCase);
  EXPECT_NE(left.find("interleaved = 1"), std::string::npos) << left;
  // Angles repeated half by half do not fit interleaved elements, nor the other way round.
  EXPECT_EQ(raised(rope_text(kInterleaved + rotated + kTwice + kSum), kCase).find("rope"),
            std::string::npos);
  EXPECT_EQ(raised(rope_text(kHalves + kRotated + repeated + kSum), kCase).find("rope"),
            std::string::npos);
}

const std::string kParts =
    "%a = mul(%x1, %c)\n %e = mul(%x2, %d)\n %f = sub(%a, %e)\n %g = mul(%x2, %c)\n"
    "%h = mul(%x1, %d)\n %i = add(%h, %g)\n";

TEST(RaiseRope, InPartsOfHalves) {
  EXPECT_EQ(raised(rope_text(kHalves + kParts + "%y = concat(%f, %i) {axis = 3}"), kCase),
            "reshape reshape rope");
}

TEST(RaiseRope, InPartsOfInterleavedElements) {
  const std::string woven =
      "%u = reshape(%f) {shape = <b, 2, s, 3, 1>}\n %v = reshape(%i) {shape = <b, 2, s, 3, 1>}\n"
      "%w = concat(%u, %v) {axis = 4}\n %y = reshape(%w) {shape = <b, 2, s, 6>}";
  const std::string pairs =
      "%p = reshape(%x) {shape = <b, 2, s, 3, 2>}\n %zero = constant {value = i64[] {0}}\n"
      "%x1 = gather(%p, %zero) {axis = 4}\n"
      "%q = slice(%p) {starts = <0, 0, 0, 0, 1>, sizes = <b, 2, s, 3, 1>, "
      "steps = [1, 1, 1, 1, 1]}\n %x2 = reshape(%q) {shape = <b, 2, s, 3>}\n";
  for (const std::string& parts : {kInterleaved, pairs}) {
    const std::string left = raised_text(rope_text(joined({parts, kParts, woven})), kCase);
    EXPECT_NE(left.find("interleaved = 1"), std::string::npos) << left;
  }
  // Halves woven, and interleaved elements concatenated, are something else.
  EXPECT_EQ(raised(rope_text(kHalves + kParts + woven), kCase).find("rope"), std::string::npos);
  EXPECT_EQ(raised(rope_text(kInterleaved + kParts + "%y = concat(%f, %i) {axis = 3}"), kCase)
                .find("rope"),
            std::string::npos);
}

TEST(RaiseRope, PositionsBeforeHeads) {
  EXPECT_EQ(raised("graph g(%x: f32[b, s, 2, 6], %c: f32[b, s, 1, 3], %d: f32[b, s, 1, 3]) {\n"
                   "%x1 = slice(%x) {starts = <0, 0, 0, 0>, sizes = <b, s, 2, 3>, "
                   "steps = [1, 1, 1, 1]}\n"
                   "%x2 = slice(%x) {starts = <0, 0, 0, 3>, sizes = <b, s, 2, 3>, "
                   "steps = [1, 1, 1, 1]}\n" +
                       kParts + "%y = concat(%f, %i) {axis = 3}\n return %y as \"y\"\n}",
                   kCase),
            "reshape reshape transpose rope transpose");
}

TEST(RaiseRope, PartOfTheHead) {
  const std::string head =
      "graph g(%z: f32[b, 2, s, 9], %c: f32[b, 1, s, 3], "
      "%d: f32[b, 1, s, 3]) {\n" +
      slice("x", "z", 0, 6) + kHalves + kRotated + kTwice +
      "%a = mul(%x, %cc)\n %e = mul(%r, %dd)\n %t = add(%a, %e)\n";
  EXPECT_EQ(raised(head + slice("rest", "z", 6, 3) +
                       "%y = concat(%t, %rest) {axis = 3}\n return %y as \"y\"\n}",
                   kCase),
            "reshape reshape rope");
  // Put in front, or taken from elsewhere, the rest stays outside.
  EXPECT_EQ(raised(head + slice("rest", "z", 6, 3) +
                       "%y = concat(%rest, %t) {axis = 3}\n return %y as \"y\"\n}",
                   kCase),
            "slice reshape reshape rope slice concat");
  EXPECT_EQ(raised(head + slice("rest", "z", 5, 3) +
                       "%y = concat(%t, %rest) {axis = 3}\n return %y as \"y\"\n}",
                   kCase),
            "slice reshape reshape rope slice concat");
}

TEST(RaiseRope, PartOfTheHeadWithPositionsBeforeHeads) {
  const auto slice_of = [](const char* name, const char* of, int start, int size) {
    return fmt::format(
        "%{} = slice(%{}) {{starts = <0, 0, 0, {}>, sizes = <b, s, 2, {}>, steps = [1, 1, 1, "
        "1]}}\n",
        name, of, start, size);
  };
  EXPECT_EQ(
      raised("graph g(%z: f32[b, s, 2, 9], %c: f32[b, s, 1, 3], %d: f32[b, s, 1, 3]) {\n" +
                 slice_of("x", "z", 0, 6) + slice_of("x1", "x", 0, 3) + slice_of("x2", "x", 3, 3) +
                 kParts + "%t = concat(%f, %i) {axis = 3}\n" + slice_of("rest", "z", 6, 3) +
                 "%y = concat(%t, %rest) {axis = 3}\n return %y as \"y\"\n}",
             kCase),
      "reshape reshape transpose rope transpose");
}

TEST(RaiseRope, CastsAreTakenIn) {
  EXPECT_EQ(raised("graph g(%h: f16[b, 2, s, 6], %c: f32[b, 1, s, 3], %d: f32[b, 1, s, 3]) {\n"
                   "%x = cast(%h) {to = f32}\n" +
                       kHalves + kRotated + kTwice +
                       "%a = mul(%x, %cc)\n %e = mul(%r, %dd)\n %t = add(%a, %e)\n"
                       "%y = cast(%t) {to = f16}\n return %y as \"y\"\n}",
                   kCase),
            "reshape reshape rope");
  EXPECT_EQ(raised("graph g(%x: bf16[b, 2, s, 6], %c: bf16[b, 1, s, 3], %d: bf16[b, 1, s, 3]) {\n" +
                       kHalves + kRotated + kTwice + kSum + "\n return %y as \"y\"\n}",
                   kCase),
            "reshape reshape rope");
}

TEST(RaiseRope, ScalarsAreNoHeads) {
  const RaisingCase of = {raise_rope, {}};
  EXPECT_EQ(raised("graph g(%a: f32[], %b: f32[]) {\n %u = reshape(%a) {shape = <1>}\n"
                   "%v = reshape(%b) {shape = <1>}\n %w = concat(%u, %v) {axis = 0}\n"
                   "%y = reshape(%w) {shape = <2>}\n return %y as \"y\"\n}",
                   of),
            "reshape reshape concat reshape");
  EXPECT_EQ(raised("graph g(%a: f32[], %b: f32[]) {\n"
                   "%u = slice(%a) {starts = <>, sizes = <>, steps = []}\n"
                   "%v = mul(%u, %b)\n %w = mul(%b, %u)\n %y = add(%v, %w)\n"
                   "return %y as \"y\"\n}",
                   of),
            "slice mul mul add");
}

TEST(RaiseRope, NearMissesStayAsTheyAre) {
  const auto stays = [](const std::string& body, const std::string& result = "%y as \"y\"") {
    EXPECT_EQ(raised(rope_text(body, result), kCase).find("rope"), std::string::npos)
        << body << result;
  };
  // The first half is negated, the halves are in place, or nothing is negated.
  stays(kHalves + "%n = neg(%x1)\n %r = concat(%x2, %n) {axis = 3}\n" + kTwice + kSum);
  stays(kHalves + "%n = neg(%x1)\n %r = concat(%n, %x2) {axis = 3}\n" + kTwice + kSum);
  stays(kHalves + "%r = concat(%x2, %x1) {axis = 3}\n" + kTwice + kSum);
  // The parts are no halves.
  stays(slice("x1", "x", 0, 4) + slice("x2", "x", 4, 2) + kRotated + kTwice + kSum);
  // Two angles for a pair that are not known to be the same.
  stays(kHalves + kRotated + "%cc = concat(%c, %d) {axis = 3}\n %dd = concat(%d, %d) {axis = 3}\n" +
        kSum);
  // The other sign, the sum and the difference exchanged, cosine and sine exchanged in one part.
  stays(kHalves + kRotated + kTwice + "%a = mul(%x, %cc)\n %e = mul(%r, %dd)\n %y = sub(%a, %e)");
  stays(kHalves + kParts + "%y = concat(%i, %f) {axis = 3}");
  stays(kHalves +
        "%a = mul(%x1, %c)\n %e = mul(%x2, %d)\n %f = sub(%a, %e)\n %g = mul(%x2, %d)\n"
        "%h = mul(%x1, %c)\n %i = add(%h, %g)\n %y = concat(%f, %i) {axis = 3}");
  // The turned value is another one.
  stays("%z = exp(%x)\n" + kHalves + kRotated + kTwice +
        "%a = mul(%z, %cc)\n %e = mul(%r, %dd)\n %y = add(%a, %e)");
  // Steps that are read elsewhere, or given out.
  stays(kHalves + kRotated + kTwice + kSum, "%y as \"y\", %r as \"r\"");
  stays(kHalves + kRotated + kTwice + kSum + "\n %also = exp(%x1)", "%y as \"y\", %also as \"z\"");
  // Angles that vary from head to head.
  EXPECT_EQ(raised("graph g(%x: f32[b, 2, s, 6], %c: f32[b, 2, s, 3], %d: f32[b, 2, s, 3]) {\n" +
                       kHalves + kRotated + kTwice + kSum + "\n return %y as \"y\"\n}",
                   kCase)
                .find("rope"),
            std::string::npos);
}

}  // namespace
}  // namespace opweld
