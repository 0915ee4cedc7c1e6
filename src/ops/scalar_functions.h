// Elementary functions that the scalar language lacks, composed of those that it has.
//
// Each keeps its relative accuracy over the whole domain (a few units in the last place of f32 and
// f64 alike): no cancellation near zero, no overflow before the result itself overflows.
#pragma once

#include "ops/term.h"

namespace opweld {

Term log1p(Term x);  // log(1 + x)
Term expm1(Term x);  // exp(x) - 1

Term tan(Term x);
Term asin(Term x);
Term acos(Term x);
Term atan(Term x);
Term sinh(Term x);
Term cosh(Term x);
Term asinh(Term x);
Term acosh(Term x);
Term atanh(Term x);

}  // namespace opweld
