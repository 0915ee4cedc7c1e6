#include "report/page_template.h"

#ifdef OPWELD_PAGE_TEMPLATE

// The file as it is, between two labels: a megabyte of characters in a literal takes a compiler far
// longer than the rest of the folder.
asm(".section .rodata\n"
    ".balign 16\n"
    ".globl opweld_page_begin\n"
    ".hidden opweld_page_begin\n"
    "opweld_page_begin:\n"
    ".incbin \"" OPWELD_PAGE_TEMPLATE
    "\"\n"
    ".globl opweld_page_end\n"
    ".hidden opweld_page_end\n"
    "opweld_page_end:\n"
    ".previous\n");

extern "C" [[gnu::visibility("hidden")]] const char opweld_page_begin[];
extern "C" [[gnu::visibility("hidden")]] const char opweld_page_end[];

namespace opweld {

std::string_view page_template() {
  return {opweld_page_begin, opweld_page_end};
}

}  // namespace opweld

#else

namespace opweld {

std::string_view page_template() {
  return {};
}

}  // namespace opweld

#endif
