import { html, svg } from "./dom.ts";
import { plural, rate, seconds } from "./format.ts";
import type { Report } from "./report.ts";
import { decades, pointsOf, roofAt } from "./roof.ts";

const WIDTH = 760;
const HEIGHT = 380;
const MARGIN = { left: 72, right: 16, top: 16, bottom: 44 };

/** Each kernel that computes something, under what the machine can do; both axes logarithmic. */
export function roofline(
  report: Report,
  colours: number[],
  onChoose: (kernel: number) => void,
): HTMLElement {
  const { target } = report;
  const points = pointsOf(report.kernels);
  if (points.length === 0) {
    const why = report.repeats === 0 ? "Nothing was measured." : "No kernel computes anything.";
    return html("p", { class: "empty" }, why);
  }
  const ridge = target.peak_flops / target.bandwidth;
  const intensities = points.map((point) => point.intensity);
  const attained = points.map((point) => point.attained);
  const xs = decades(Math.min(...intensities, ridge / 10), Math.max(...intensities, ridge * 10));
  const ys = decades(Math.min(...attained), Math.max(...attained, target.peak_flops));
  const x = axis(xs, MARGIN.left, WIDTH - MARGIN.right);
  const y = axis(ys, HEIGHT - MARGIN.bottom, MARGIN.top);
  const [left = 1, right = 1] = [xs[0], xs.at(-1)];
  const floor = ys[0] ?? 1;
  // From where it enters the plot, along the bandwidth, and along the peak.
  const start = Math.max(left, floor / target.bandwidth);
  const roof = [start, ridge, right].map((at) => `${x(at)},${y(roofAt(target, at))}`).join(" ");
  const longest = Math.max(...points.map((each) => report.kernels[each.kernel]?.seconds ?? 0));
  const dots = points
    .map((point) => ({ point, kernel: report.kernels[point.kernel] }))
    .sort((a, b) => (b.kernel?.seconds ?? 0) - (a.kernel?.seconds ?? 0))
    .map(({ point, kernel }) => {
      const time = kernel?.seconds ?? 0;
      const dot = svg(
        "circle",
        {
          class: "dot",
          cx: x(point.intensity),
          cy: y(point.attained),
          // By area: the longest is the largest.
          r: 3 + 9 * Math.sqrt(time / longest),
          style: `--colour: var(--kernel-${colours[point.kernel]})`,
          "data-kernel": point.kernel,
        },
        svg("title", {}, `${kernel?.label}\n${seconds(time)}, ${rate(point.attained, "flop")}`),
      );
      dot.addEventListener("click", () => onChoose(point.kernel));
      return dot;
    });
  const left0 = MARGIN.left;
  const plot = svg(
    "svg",
    { class: "plot roofline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" },
    svg("title", {}, "Roofline"),
    ...xs.map((at) => line("grid", x(at), MARGIN.top, x(at), HEIGHT - MARGIN.bottom)),
    ...ys.map((at) => line("grid", left0, y(at), WIDTH - MARGIN.right, y(at))),
    ...xs.map((at) => text("middle", x(at), HEIGHT - MARGIN.bottom + 16, String(at))),
    ...ys.map((at) => text("end", left0 - 8, y(at) + 4, rate(at, "flop").replace(".0", ""))),
    text("middle", (left0 + WIDTH - MARGIN.right) / 2, HEIGHT - 8, "flops per byte"),
    svg("polyline", { class: "roof", points: roof }),
    text(
      "end",
      WIDTH - MARGIN.right - 4,
      y(target.peak_flops) - 6,
      rate(target.peak_flops, "flop"),
    ),
    slopeLabel(
      x(start),
      y(roofAt(target, start)),
      x(ridge),
      y(target.peak_flops),
      target.bandwidth,
    ),
    ...dots,
  );
  const unseen = report.kernels.length - points.length;
  const rest = unseen > 0 ? ` ${plural(unseen, "kernel")} without arithmetic: not shown.` : "";
  return html(
    "figure",
    {},
    plot,
    html(
      "figcaption",
      {},
      "Each dot is a kernel, its area the time that it takes. The roof is what the hardware's " +
        `description says of ${plural(target.threads, "thread")} of this machine: bandwidth of main ` +
        "memory, which is assumed and not measured, and fp32 arithmetic. Bytes are those of whole " +
        "tensors, once: where these stay in a cache, or little of a table is looked up, a kernel " +
        `rises above the slope.${rest}`,
    ),
  );
}

/** A logarithmic scale from the first to the last of the ticks. */
function axis(ticks: number[], from: number, to: number): (value: number) => number {
  const first = Math.log10(ticks[0] ?? 1);
  const last = Math.log10(ticks.at(-1) ?? 10);
  return (value) => from + ((Math.log10(value) - first) / (last - first)) * (to - from);
}

function line(name: string, x1: number, y1: number, x2: number, y2: number): SVGLineElement {
  return svg("line", { class: name, x1, y1, x2, y2 });
}

function text(anchor: string, x: number, y: number, content: string): SVGTextElement {
  return svg("text", { "text-anchor": anchor, x, y }, content);
}

function slopeLabel(x1: number, y1: number, x2: number, y2: number, bandwidth: number): SVGElement {
  const angle = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
  const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
  const label = text("middle", 0, -6, rate(bandwidth, "B"));
  label.setAttribute("transform", `translate(${x} ${y}) rotate(${angle})`);
  return label;
}
