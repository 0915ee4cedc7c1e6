import { html, svg } from "./dom.ts";
import { bytes } from "./format.ts";
import type { Block, Report } from "./report.ts";

const WIDTH = 760;
const HEIGHT = 300;
// Still seen, and hit by a pointer.
const THINNEST = 2;
const MARGIN = { left: 72, right: 16, top: 12, bottom: 40 };

/** Where intermediates lie in the arena, and from which kernel to which. */
export function memoryPlan(
  report: Report,
  colours: number[],
  onChoose: (kernel: number) => void,
): HTMLElement {
  const { memory, kernels } = report;
  const figures = html(
    "p",
    { class: "figures" },
    `Arena ${bytes(memory.arena_bytes)}, of which ${bytes(memory.live_bytes)} are live at once at ` +
      `most; weights ${bytes(memory.weight_bytes)}, held as ${bytes(memory.held_weight_bytes)}; ` +
      `buffers of all threads ${bytes(memory.scratch_bytes)}.`,
  );
  const blocks = memory.blocks.filter((block) => block.bytes > 0);
  if (blocks.length === 0) {
    return html("div", {}, figures, html("p", { class: "empty" }, "No intermediate is stored."));
  }
  const right = WIDTH - MARGIN.right;
  const bottom = HEIGHT - MARGIN.bottom;
  const x = (kernel: number) => MARGIN.left + (kernel / kernels.length) * (right - MARGIN.left);
  const y = (offset: number) => bottom - (offset / memory.arena_bytes) * (bottom - MARGIN.top);
  const chosen = html("p", { class: "chosen", role: "status" }, "Click a block to see what it is.");
  const choose = (block: Block) => {
    const life =
      block.first === block.last
        ? `in kernel ${block.first}`
        : `from kernel ${block.first} to kernel ${block.last}`;
    chosen.textContent = `${block.name} ${block.type}: ${bytes(block.bytes)}, ${life}`;
    onChoose(block.first);
  };
  // Small blocks last, which is on top: next to large ones they would be too thin to be hit.
  const rects = blocks.toSorted(largestFirst).map((block) => {
    const rect = svg(
      "rect",
      {
        class: "block",
        x: x(block.first),
        y: Math.min(y(block.offset + block.bytes), y(block.offset) - THINNEST),
        width: Math.max(x(block.last + 1) - x(block.first) - 0.5, THINNEST),
        height: Math.max(y(block.offset) - y(block.offset + block.bytes) - 0.5, THINNEST),
        style: `--colour: var(--kernel-${colours[block.first] ?? 0})`,
      },
      svg("title", {}, `${block.name}\n${bytes(block.bytes)}`),
    );
    rect.addEventListener("click", () => choose(block));
    return rect;
  });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => part * memory.arena_bytes);
  const step = Math.max(1, Math.ceil(kernels.length / 10));
  const numbers = Array.from({ length: Math.ceil(kernels.length / step) }, (_, i) => i * step);
  const plot = svg(
    "svg",
    { class: "plot memory", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" },
    svg("title", {}, "Memory plan"),
    ...ticks.map((at) =>
      svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y(at), y2: y(at) }),
    ),
    ...ticks.map((at) => label("end", MARGIN.left - 8, y(at) + 4, bytes(at))),
    ...numbers.map((at) => label("middle", (x(at) + x(at + 1)) / 2, bottom + 16, String(at))),
    label(
      "middle",
      (MARGIN.left + right) / 2,
      HEIGHT - 6,
      "kernel, in the order in which they run",
    ),
    ...rects,
  );
  return html("div", {}, figures, html("figure", {}, plot), chosen);
}

function largestFirst(a: Block, b: Block): number {
  return area(b) - area(a);
}

function area(block: Block): number {
  return block.bytes * (block.last + 1 - block.first);
}

function label(anchor: string, x: number, y: number, content: string): SVGTextElement {
  return svg("text", { "text-anchor": anchor, x, y }, content);
}
