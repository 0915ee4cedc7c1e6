#include "page_template.h"

#ifdef OPWELD_PAGE_TEMPLATE

// The file as it is, between two labels: a megabyte of characters in a literal takes a compiler far
// longer than the rest of the command.
asm(".section .rodata\n"
    ".balign 16\n"
    ".globl opweld_page_begin\n"
    "opweld_page_begin:\n"
    ".incbin \"" OPWELD_PAGE_TEMPLATE
    "\"\n"
    ".globl opweld_page_end\n"
    "opweld_page_end:\n"
    ".previous\n");

extern "C" const char opweld_page_begin[];
extern "C" const char opweld_page_end[];

namespace opweld::cli {

std::string_view page_template() {
  return {opweld_page_begin, opweld_page_end};
}

}  // namespace opweld::cli

#else

namespace opweld::cli {

std::string_view page_template() {
  return {};
}

}  // namespace opweld::cli

#endif
