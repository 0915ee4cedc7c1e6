import type { Kernel, Target } from "./report.ts";

/** A kernel as a point under the roof: flops per byte, and flops per second. */
export interface Point {
  kernel: number;
  intensity: number;
  attained: number;
}

/** Of the kernels that compute something, and whose time is known. */
export function pointsOf(kernels: Kernel[]): Point[] {
  return kernels.flatMap((kernel, index) => {
    const moved = kernel.read_bytes + kernel.written_bytes;
    const { seconds, flops } = kernel;
    if (seconds === undefined || seconds <= 0 || flops <= 0 || moved <= 0) return [];
    return { kernel: index, intensity: flops / moved, attained: flops / seconds };
  });
}

/** Flops a second that the machine can do at so many flops per byte. */
export function roofAt(target: Target, intensity: number): number {
  return Math.min(target.peak_flops, intensity * target.bandwidth);
}

/** The least seconds that the kernel can take: to move its bytes, or to compute. */
export function floorOf(target: Target, kernel: Kernel): number {
  const moved = kernel.read_bytes + kernel.written_bytes;
  return Math.max(moved / target.bandwidth, kernel.flops / target.peak_flops);
}

/** What bounds it by the limits of the machine. */
export function boundBy(target: Target, kernel: Kernel): "memory" | "arithmetic" {
  const moved = kernel.read_bytes + kernel.written_bytes;
  return moved / target.bandwidth >= kernel.flops / target.peak_flops ? "memory" : "arithmetic";
}

/** Powers of ten from the one below the least to the one above the greatest. */
export function decades(least: number, greatest: number): number[] {
  const first = Math.floor(Math.log10(least));
  const last = Math.max(Math.ceil(Math.log10(greatest)), first + 1);
  return Array.from({ length: last - first + 1 }, (_, step) => 10 ** (first + step));
}
