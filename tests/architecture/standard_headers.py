"""Which standard headers a C++ file needs for the functions it calls.

Standard libraries differ in what their headers bring along by accident, so that a file which leans
on that compiles with one version and not with the next.
"""

import re
from pathlib import Path

# Only functions whose home is beyond doubt, and that other headers are known to bring along.
HOMES = {
    "algorithm": (
        "adjacent_find all_of any_of binary_search clamp copy copy_if copy_n count count_if equal"
        " fill fill_n find find_if find_if_not generate is_sorted lower_bound max max_element min"
        " min_element minmax_element mismatch none_of nth_element partition remove_if replace"
        " reverse rotate search set_difference sort stable_partition stable_sort transform unique"
        " upper_bound"
    ),
    "cmath": (
        "ceil cos erf exp fabs floor fma fmod frexp isfinite isinf isnan ldexp log log2 log1p"
        " nearbyint nextafter pow rint round signbit sin sqrt tanh trunc"
    ),
    "cstring": "memcmp memcpy memmove memset strcmp strerror strlen",
    "numeric": "accumulate exclusive_scan gcd inclusive_scan iota lcm partial_sum reduce",
}
USE = {
    header: re.compile(rf"\bstd::({'|'.join(names.split())})\(") for header, names in HOMES.items()
}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def own_header(file: Path) -> str:
    """The text of the header beside a .cpp file, whose includes count as its own."""
    header = file.with_suffix(".h")
    return header.read_text(encoding="utf-8") if file.suffix == ".cpp" and header.exists() else ""


def missing_headers(file: Path) -> list[str]:
    """One line for each standard header that `file` uses and includes only by luck."""
    text = file.read_text(encoding="utf-8")
    included = text + own_header(file)
    code = COMMENT.sub("", text)
    lines = []
    for header, use in USE.items():
        calls = sorted(set(use.findall(code)))
        if calls and f"#include <{header}>" not in included:
            lines.append(f"{file.name} calls std::{calls[0]} and does not include <{header}>")
    return lines
