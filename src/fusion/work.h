// What a kernel does, counted from its program for sizes that are known.
#pragma once

namespace opweld {

struct Work {
  // Of matmuls and attentions, by where they are done: multiplications with their additions, of
  // elements of f32; one of f64 counts as two.
  double vector_multiply_adds = 0;
  double matrix_multiply_adds = 0;
  // Vector instructions apart from those, a dear function as many as it is made of; a scalar one
  // counts as well.
  double instructions = 0;
  // What all tasks read and write of the kernel's tensors, each tensor once a task: with the
  // re-reads that blocking implies. Boundary bytes count each tensor once a kernel.
  double streamed_bytes = 0;
  double streamed_weight_bytes = 0;  // of those, of packed weights
  double tasks = 0;
};

}  // namespace opweld
