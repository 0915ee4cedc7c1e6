// Polynomials of the vector math functions, highest power first. Printed by
// scripts/fit_vector_math.py, which says how they are found; the error beside each is the weighted
// maximum over the interval that the polynomial serves.
#pragma once

namespace opweld::cpu {

// e^r = 1 + r + r^2 p(r), |r| <= ln(2)/2; error 2^-28.2
inline constexpr float kExp[] = {
    0.00139210222F, 0.0083693238F, 0.041666586F, 0.166665152F, 0.5F,
};

// log(1 + f) = f - f^2/2 + f^3 p(f), sqrt(1/2) <= 1 + f <= sqrt(2); error 2^-28.6
inline constexpr float kLog[] = {
    0.0421926044F, -0.103298917F, 0.122997336F, -0.126632497F, 0.141986251F,
    -0.166523933F, 0.200024962F,  -0.25000298F, 0.333333105F,
};

// sin(r) = r + r^3 p(r^2), |r| <= pi/4; error 2^-28.0
inline constexpr float kSin[] = {
    -0.00019518788F,
    0.00833219197F,
    -0.166666552F,
};

// cos(r) = 1 - r^2/2 + r^4 p(r^2), |r| <= pi/4; error 2^-33.1
inline constexpr float kCos[] = {
    2.44306702e-05F,
    -0.00138873013F,
    0.0416666456F,
};

// erf(x) = x + x p(x^2), |x| < 0.921875; error 2^-25.9
inline constexpr float kErfSmall[] = {
    -0.000601452426F, 0.00499811163F, -0.0267701801F, 0.112819195F, -0.376125038F, 0.128379151F,
};

// erf(x) = 1 - exp(-p(x)), 0.921875 <= x <= 3.9375; error 2^-29.3
inline constexpr float kErfLarge[] = {
    -0.000195723493F, 0.0030411107F, -0.02221849F,    0.10391406F,
    0.637202263F,     1.12766373F,   0.000198554349F,
};

// log2((1 + s) / (1 - s)) = s p(s^2), |s| <= 3 - 2 sqrt(2); error 2^-43.5
inline constexpr double kLog2F64[] = {
    0.28291235065350834, 0.31990480530544813, 0.41220927522338757,
    0.57707794212708319, 0.96179669411417812, 2.8853900817778495,
};

// 2^r = 1 + r p(r), |r| <= 1/2; error 2^-38.2
inline constexpr double kExp2F64[] = {
    1.3259646497552795e-06, 1.5303704158522235e-05, 0.00015403436509399597, 0.0013333478460787215,
    0.0096181291835776631,  0.055504109063379339,   0.24022650695737466,    0.69314718055683056,
};

}  // namespace opweld::cpu
