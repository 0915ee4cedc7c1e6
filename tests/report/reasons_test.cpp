// docs/reasons.md says what the table says.
#include "fusion/reasons.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "report/reasons_page.h"

namespace opweld {
namespace {

TEST(ReasonsPage, TheDocumentIsTheTable) {
  std::ifstream file(OPWELD_SOURCE_DIR "/docs/reasons.md");
  ASSERT_TRUE(file);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), reasons_page()) << "run: opweld reasons > docs/reasons.md";
}

TEST(ReasonsPage, EveryCodeIsTold) {
  const std::string page = reasons_page();
  std::set<std::string_view> names;
  for (int code = static_cast<int>(ReasonCode::Fused) + 1;
       code <= static_cast<int>(ReasonCode::Recompute); ++code) {
    const Reason& entry = reason(static_cast<ReasonCode>(code));
    EXPECT_EQ(entry.code, static_cast<ReasonCode>(code));
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_TRUE(entry.name.starts_with("F-"));
    for (const std::string_view part : {entry.name, entry.sentence, entry.remedy}) {
      EXPECT_FALSE(part.empty()) << entry.name;
      EXPECT_NE(page.find(part), std::string::npos) << part;
    }
    EXPECT_TRUE(entry.sentence.ends_with('.'));
    EXPECT_TRUE(entry.remedy.ends_with('.'));
  }
  EXPECT_EQ(all_reasons().size(), names.size());
}

}  // namespace
}  // namespace opweld
