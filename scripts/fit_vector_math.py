#!/usr/bin/env python3
"""Fit the polynomials of the vector math functions and print them as C++ constants.

The output is src/codegen/cpu/vector_math_coefficients.h. Each function is reduced by an
identity to a short interval around a point where it is smooth, and the smooth part is approximated
there by the polynomial whose weighted error is smallest in the maximum norm (Remez exchange; see
Muller, Elementary Functions, chapter 3). Coefficients are rounded to the working precision one by
one, the lowest order first, and the remaining ones are fitted again after each rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Function = Callable[[float], float]


@dataclass(frozen=True)
class Fit:
    """One polynomial: `target` on `interval`, in the powers 0..degree of its argument."""

    name: str
    comment: str
    target: Function
    weight: Function
    interval: tuple[float, float]
    degree: int
    double: bool = False


def remez(
    values: np.ndarray, weights: np.ndarray, grid: np.ndarray, powers: list[int]
) -> tuple[np.ndarray, float]:
    """Coefficients of `powers` with the least maximum of |weight * error|, and that maximum."""
    unknowns = len(powers)
    scales = np.max(np.abs(grid)) ** np.array(powers)  # keep the columns of one size
    basis = np.stack([grid**power for power in powers], axis=1) / scales
    extrema = np.linspace(0, len(grid) - 1, unknowns + 1).astype(int)  # the grid is Chebyshev's
    best, least = np.zeros(unknowns), np.inf
    for _ in range(60):
        signs = (-1.0) ** np.arange(unknowns + 1)
        system = np.column_stack([basis[extrema], signs / weights[extrema]])
        *coefficients, level = np.linalg.solve(system, values[extrema])
        error = weights * (values - basis @ coefficients)
        reached = float(np.max(np.abs(error)))
        if reached < least:
            best, least = np.array(coefficients), reached
        following = alternating_extrema(error, unknowns + 1)
        converged = reached < 1.001 * abs(level)
        if converged or following is None or np.array_equal(following, extrema):
            break
        extrema = following
    return best / scales, least


def alternating_extrema(error: np.ndarray, count: int) -> np.ndarray | None:
    """Indices of `count` extrema of alternating sign, the largest error among them."""
    runs: list[int] = []
    for index in range(len(error)):
        if runs and (error[runs[-1]] < 0) == (error[index] < 0):
            if abs(error[index]) > abs(error[runs[-1]]):
                runs[-1] = index
        else:
            runs.append(index)
    while len(runs) > count:  # rounding noise near a zero makes small runs of its own
        at = min(range(len(runs)), key=lambda run: abs(error[runs[run]]))
        if 0 < at < len(runs) - 1 and len(runs) > count + 1:
            around = (runs[at - 1], runs[at + 1])
            runs[at - 1 : at + 2] = [max(around, key=lambda index: abs(error[index]))]
        else:
            del runs[0 if abs(error[runs[0]]) < abs(error[runs[-1]]) else -1]
    return np.array(runs) if len(runs) == count else None


def solve(fit: Fit) -> tuple[list[float], float]:
    """The rounded coefficients of a fit, power 0 first, and the weighted error they reach."""
    low, high = fit.interval
    grid = (low + high) / 2 + (high - low) / 2 * np.cos(np.linspace(np.pi, 0, 4001))
    targets = np.array([fit.target(x) for x in grid])
    weights = np.array([fit.weight(x) for x in grid])
    if fit.double:  # rounding is far below the error that is asked for
        coefficients, error = remez(targets, weights, grid, list(range(fit.degree + 1)))
        return [float(c) for c in coefficients], error
    rounded: list[float] = []
    rest = targets.copy()
    for power in range(fit.degree + 1):
        coefficients, _ = remez(rest, weights, grid, list(range(power, fit.degree + 1)))
        value = float(np.float32(coefficients[0]))
        rounded.append(value)
        rest = rest - value * grid**power
    return rounded, float(np.max(np.abs(weights * rest)))


def series(x: float, first: int, term: Callable[[int], float]) -> float:
    """The sum of term(first + i) * x**i: keeps accuracy where a closed form would cancel."""
    return math.fsum(term(first + i) * x**i for i in range(40))


def exp_tail(r: float) -> float:
    """(e^r - 1 - r) / r^2."""
    return series(r, 2, lambda n: 1 / math.factorial(n))


def log_tail(f: float) -> float:
    """(log(1 + f) - f + f^2 / 2) / f^3."""
    if abs(f) > 0.1:
        return (math.log1p(f) - f + f * f / 2) / f**3
    return series(f, 3, lambda n: (-1) ** (n + 1) / n)


def sin_tail(s: float) -> float:
    """(sin(r) - r) / r^3 for r = sqrt(s)."""
    return series(s, 1, lambda n: (-1) ** n / math.factorial(2 * n + 1))


def cos_tail(s: float) -> float:
    """(cos(r) - 1 + r^2 / 2) / r^4 for r = sqrt(s)."""
    return series(s, 2, lambda n: (-1) ** n / math.factorial(2 * n))


def erf_ratio(s: float) -> float:
    """erf(x) / x - 1 for x = sqrt(s)."""
    factor = 2 / math.sqrt(math.pi)
    return factor * series(s, 0, lambda n: (-1) ** n / (math.factorial(n) * (2 * n + 1))) - 1


def log2_ratio(u: float) -> float:
    """log2((1 + s) / (1 - s)) / s for s = sqrt(u)."""
    return 2 / math.log(2) * series(u, 0, lambda n: 1 / (2 * n + 1))


def exp2_ratio(r: float) -> float:
    """(2^r - 1) / r."""
    return math.log(2) * series(r * math.log(2), 1, lambda n: 1 / math.factorial(n))


ERF_SPLIT = 0.921875
ERF_ONE = 3.9375  # erf rounds to 1 from here on
HALF_LOG2 = 0.3466

FITS = [
    Fit(
        "kExp",
        "e^r = 1 + r + r^2 p(r), |r| <= ln(2)/2",
        exp_tail,
        lambda r: max(r * r, 1e-6),
        (-HALF_LOG2, HALF_LOG2),
        4,
    ),
    Fit(
        "kLog",
        "log(1 + f) = f - f^2/2 + f^3 p(f), sqrt(1/2) <= 1 + f <= sqrt(2)",
        log_tail,
        lambda f: max(abs(f * f), 1e-6),
        (math.sqrt(0.5) - 1, math.sqrt(2) - 1),
        8,
    ),
    Fit(
        "kSin",
        "sin(r) = r + r^3 p(r^2), |r| <= pi/4",
        sin_tail,
        lambda s: max(s, 1e-6),
        (0, (math.pi / 4) ** 2 * 1.0001),
        2,
    ),
    Fit(
        "kCos",
        "cos(r) = 1 - r^2/2 + r^4 p(r^2), |r| <= pi/4",
        cos_tail,
        lambda s: max(s * s, 1e-6),
        (0, (math.pi / 4) ** 2 * 1.0001),
        2,
    ),
    Fit(
        "kErfSmall",
        f"erf(x) = x + x p(x^2), |x| < {ERF_SPLIT}",
        erf_ratio,
        lambda _: 1.0,
        (0, ERF_SPLIT**2),
        5,
    ),
    Fit(
        "kErfLarge",
        f"erf(x) = 1 - exp(-p(x)), {ERF_SPLIT} <= x <= {ERF_ONE}",
        lambda x: -math.log(math.erfc(x)),
        lambda x: math.erfc(x) / math.erf(x),
        (ERF_SPLIT, ERF_ONE),
        6,
    ),
    Fit(
        "kLog2F64",
        "log2((1 + s) / (1 - s)) = s p(s^2), |s| <= 3 - 2 sqrt(2)",
        log2_ratio,
        lambda _: 1.0,
        (0, (3 - 2 * math.sqrt(2)) ** 2 * 1.0001),
        5,
        double=True,
    ),
    Fit(
        "kExp2F64",
        "2^r = 1 + r p(r), |r| <= 1/2",
        exp2_ratio,
        lambda _: 1.0,
        (-0.5, 0.5),
        7,
        double=True,
    ),
]


HEADER = """\
// Polynomials of the vector math functions, highest power first. Printed by
// scripts/fit_vector_math.py, which says how they are found; the error beside each is the weighted
// maximum over the interval that the polynomial serves.
#pragma once

namespace opweld::cpu {
"""


def table(fit: Fit) -> str:
    """The constants of one fit, highest power first, as Horner's rule takes them."""
    coefficients, error = solve(fit)
    kind, digits, suffix = ("double", 17, "") if fit.double else ("float", 9, "F")
    numbers = ",\n".join(f"    {value:.{digits}g}{suffix}" for value in reversed(coefficients))
    return (
        f"// {fit.comment}; error 2^{math.log2(error):.1f}\n"
        f"inline constexpr {kind} {fit.name}[] = {{\n{numbers},\n}};\n"
    )


def main() -> None:
    """Print the header."""
    print(HEADER)
    print("\n".join(table(fit) for fit in FITS))
    print("}  // namespace opweld::cpu")


if __name__ == "__main__":
    main()
