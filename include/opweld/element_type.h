/* Element types of tensors, for the interfaces in C. */
#ifndef OPWELD_ELEMENT_TYPE_H
#define OPWELD_ELEMENT_TYPE_H

enum {
  OPWELD_ABSENT = 0, /* an optional operand that is not given */
  OPWELD_F64 = 1,
  OPWELD_F32 = 2,
  OPWELD_F16 = 3,  /* IEEE 754 binary16 */
  OPWELD_BF16 = 4, /* the upper half of an f32 */
  OPWELD_I64 = 5,
  OPWELD_I32 = 6,
  OPWELD_I16 = 7,
  OPWELD_I8 = 8,
  OPWELD_U8 = 9,
  OPWELD_BOOL = 10 /* one byte, 0 or 1 */
};

#endif
