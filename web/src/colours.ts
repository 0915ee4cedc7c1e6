import type { Kernel } from "./report.ts";

/** How many colours style.css has for kernels: --kernel-0 and so on. */
export const COLOURS = 10;

/**
 * A colour for each kernel: kernels of the same operators have the same one wherever they are, so
 * that repeated layers look alike. The most frequent and costly get colours of their own first.
 */
export function colourKernels(kernels: Kernel[]): number[] {
  const weight = new Map<string, number>();
  for (const kernel of kernels) {
    const cost = kernel.read_bytes + kernel.written_bytes;
    weight.set(kernel.label, (weight.get(kernel.label) ?? 0) + cost);
  }
  const labels = [...weight.keys()].sort((a, b) => (weight.get(b) ?? 0) - (weight.get(a) ?? 0));
  const colour = new Map(labels.map((label, index) => [label, index % COLOURS]));
  return kernels.map((kernel) => colour.get(kernel.label) ?? 0);
}
