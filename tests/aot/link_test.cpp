// Objects of LLVM's, linked to an image, loaded and called; and what is refused.
#include "aot/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/Support/SourceMgr.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "aot/code_image.h"
#include "aot/imports.h"
#include "codegen/cpu/jit_llvm.h"

namespace opweld::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The object of a module in LLVM's notation, for this machine.
std::string object_of(const std::string& text) {
  const cpu::Jit jit = cpu::Jit::create(cpu::JitTarget::host()).value();
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  auto module = llvm::parseAssemblyString(text, problem, context);
  EXPECT_NE(module, nullptr) << problem.getMessage().str();
  const auto like = cpu::new_module(jit, context, "like");
  module->setTargetTriple(like->getTargetTriple());
  module->setDataLayout(like->getDataLayout());
  return cpu::emit_object(jit, *module).value();
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string message_of(const std::string& text, std::string_view symbol = "f") {
  const std::string object = object_of(text);
  const ObjectView view{symbol, object};
  const auto image = link_image({&view, 1});
  return image ? "" : image.error().message;
}

// Constants of a vector, a jump table, a function beside it, two of the C library.
constexpr const char* kFirst = R"(
declare double @pow(double, double)
declare double @fmod(double, double)
define internal double @half(double %x) noinline {
  %y = fmul double %x, 5.0e-1
  ret double %y
}
define double @first(i32 %which, double %x) {
entry:
  switch i32 %which, label %other [
    i32 0, label %a
    i32 1, label %b
    i32 2, label %c
    i32 3, label %d
    i32 4, label %e
  ]
a:
  %pa = call double @pow(double %x, double 3.0)
  ret double %pa
b:
  %pb = call double @fmod(double %x, double 0.75)
  ret double %pb
c:
  %pc = call double @half(double %x)
  ret double %pc
d:
  %pd = fadd double %x, 1.25e-3
  ret double %pd
e:
  %pe = call double @pow(double 2.0, double %x)
  ret double %pe
other:
  ret double -1.0
}
)";
constexpr const char* kSecond = R"(
declare double @fmod(double, double)
define double @second(ptr %data, double %x) {
  %v = load <4 x double>, ptr %data, align 8
  %w = fmul <4 x double> %v, <double 1.0, double 10.0, double 100.0, double 1000.0>
  store <4 x double> %w, ptr %data, align 8
  %y = call double @fmod(double %x, double 4.0)
  ret double %y
}
)";

TEST(LinkImage, CodeRunsWhereverItLies) {
  const std::string first = object_of(kFirst);
  const std::string second = object_of(kSecond);
  const ObjectView views[] = {{"first", first}, {"second", second}};
  const auto image = link_image(views);
  ASSERT_TRUE(image) << image.error().message;
  ASSERT_EQ(image->entries.size(), 2U);
  EXPECT_THAT(image->imports, ::testing::UnorderedElementsAre("pow", "fmod"));
  // Twice, to have it at two places.
  for (int i = 0; i < 2; ++i) {
    const auto loaded = CodeImage::load(bytes_of(image->bytes), image->imports).value();
    const auto again = CodeImage::load(bytes_of(image->bytes), image->imports).value();
    EXPECT_NE(loaded->address(0), again->address(0));
    const auto at = [&](int entry) {
      return reinterpret_cast<std::uintptr_t>(
          again->address(image->entries[static_cast<std::size_t>(entry)]));
    };
    auto* const call = reinterpret_cast<double (*)(int, double)>(at(0));
    EXPECT_EQ(call(0, 1.5), 3.375);
    EXPECT_EQ(call(1, 2.0), 0.5);
    EXPECT_EQ(call(2, 3.0), 1.5);
    EXPECT_EQ(call(3, 1.0), 1.00125);
    EXPECT_EQ(call(4, 5.0), 32.0);
    EXPECT_EQ(call(9, 5.0), -1.0);
    std::array<double, 4> data = {1, 2, 3, 4};
    auto* const other = reinterpret_cast<double (*)(double*, double)>(at(1));
    EXPECT_EQ(other(data.data(), 7.0), 3.0);
    EXPECT_THAT(data, ElementsAre(1, 20, 300, 4000));
  }
}

TEST(LinkImage, RefusesWhatAnImageCannotBe) {
  EXPECT_THAT(message_of("declare i32 @system(ptr)\n"
                         "define i32 @f(ptr %p) {\n %r = call i32 @system(ptr %p)\n ret i32 %r\n}"),
              HasSubstr("calls 'system'"));
  EXPECT_THAT(message_of("@count = internal global i32 3\n"
                         "define i32 @f() {\n %r = load volatile i32, ptr @count\n ret i32 %r\n}"),
              HasSubstr("data that is written to"));
  EXPECT_THAT(message_of("@zeros = internal global [64 x i32] zeroinitializer\n"
                         "define i32 @f() {\n %r = load volatile i32, ptr @zeros\n ret i32 %r\n}"),
              HasSubstr("data that is written to"));
  EXPECT_THAT(message_of("define i32 @g() {\n ret i32 1\n}"), HasSubstr("no function 'f'"));
  // A table of addresses would have to be changed wherever it lies.
  EXPECT_NE(message_of("declare double @sin(double)\n"
                       "declare double @cos(double)\n"
                       "@table = internal constant [2 x ptr] [ptr @sin, ptr @cos]\n"
                       "define ptr @f(i64 %i) {\n"
                       " %p = getelementptr [2 x ptr], ptr @table, i64 0, i64 %i\n"
                       " %r = load volatile ptr, ptr %p\n ret ptr %r\n}"),
            "");
}

TEST(LinkImage, AnyBytesAreAnImageOrAnError) {
  const std::string object = object_of(kFirst);
  std::mt19937 random(1);
  int linked = 0;
  for (std::size_t cut = 0; cut < object.size(); cut += 7) {
    const ObjectView view{"first", std::string_view(object).substr(0, cut)};
    EXPECT_FALSE(link_image({&view, 1})) << cut;
  }
  for (int i = 0; i < 20000; ++i) {
    std::string changed = object;
    for (int j = 0; j < 1 + i % 4; ++j) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    const ObjectView view{"first", changed};
    linked += link_image({&view, 1}) ? 1 : 0;
  }
  EXPECT_GT(linked, 0);
  EXPECT_LT(linked, 20000);
}

TEST(LinkImage, RefusesOtherRelocations) {
  const std::string object = object_of(kSecond);
  // Every relocation of type 4 (PLT32) or 2 (PC32) becomes one of type 10 (32) in turn: the low
  // word of r_info, eight bytes into an entry whose addend is -4.
  int refused = 0;
  for (std::size_t at = 0; at + 24 <= object.size(); at += 8) {
    std::int64_t addend = 0;
    std::uint32_t type = 0;
    std::memcpy(&addend, object.data() + at + 16, sizeof addend);
    std::memcpy(&type, object.data() + at + 8, sizeof type);
    if (addend != -4 || (type != 2 && type != 4)) continue;
    std::string changed = object;
    changed[at + 8] = 10;
    const ObjectView view{"second", changed};
    const auto image = link_image({&view, 1});
    ASSERT_FALSE(image);
    EXPECT_THAT(image.error().message, HasSubstr("relocation of type 10"));
    ++refused;
  }
  EXPECT_GE(refused, 2);
}

TEST(CodeImage, NothingButTheListIsImported) {
  EXPECT_EQ(find_import("system"), nullptr);
  EXPECT_EQ(find_import(""), nullptr);
  ASSERT_NE(find_import("powf"), nullptr);
  const std::string code(16, '\xcc');
  const std::vector<std::string> imports = {"dlopen"};
  const auto loaded = CodeImage::load(bytes_of(code), imports);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("dlopen"));
}

}  // namespace
}  // namespace opweld::aot
