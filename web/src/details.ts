import { button, html } from "./dom.ts";
import { begin, bytes, flops, plural, rate, seconds } from "./format.ts";
import type { GraphView, Selection } from "./graph_view.ts";
import type { Fate, GraphEdge, Kernel, Report } from "./report.ts";
import { boundBy, floorOf } from "./roof.ts";
import { type Box, boxesOf, countOperators } from "./tree.ts";

const MOST_LISTED = 60;

const FATES: Record<Fate, string> = {
  kept: "It is computed in a kernel under its own name.",
  absorbed: "A rewrite made it part of a larger operator, which a kernel computes.",
  alias: "A reshape in no kernel: it moves nothing.",
  folded: "Sizes or constants: computed when the model is compiled, and in no kernel.",
  dropped: "Simplified away: nothing computes it when the model runs.",
  edge: "An input or an output of the model.",
};

/** What is selected in the graph, in words: above all why an edge was fused or kept. */
export class Details {
  readonly element = html("aside", { class: "details", "aria-live": "polite" });
  readonly #report: Report;
  // Asked for when it is needed: the graph in turn knows this panel.
  readonly #graphView: () => GraphView;

  constructor(report: Report, graphView: () => GraphView) {
    this.#report = report;
    this.#graphView = graphView;
  }

  show(selection: Selection): void {
    this.element.replaceChildren(...this.#content(selection));
  }

  #content(selection: Selection): Node[] {
    if (selection.what === "link") return this.#link(this.#graphView().edgesOf(selection.link));
    if (selection.what === "nothing") return this.#legend();
    const { box } = selection;
    if (box.kind === "kernel" && box.kernel !== undefined) return this.#kernel(box.kernel);
    return box.node === undefined ? this.#group(box) : this.#node(box.node);
  }

  #legend(): Node[] {
    const line = (name: string, text: string) =>
      html("li", {}, html("span", { class: `sample ${name}` }), text);
    return [
      html("h3", {}, "What is shown"),
      html(
        "p",
        {},
        "Boxes of one colour are kernels of the same operators. Click an edge for its verdict, a box " +
          "for what it is; a double click opens or closes what holds others.",
      ),
      html(
        "ul",
        { class: "legend" },
        line("fused", "fused: the tensor never leaves the chip"),
        line("kept", "kept: written to memory and read back"),
        line("edge", "from an input or to an output of the model"),
        line("folded", "known when the model is compiled"),
      ),
      html("p", {}, "A dashed box is an operator that a rewrite made part of another."),
    ];
  }

  // ---- edges ----

  #link(edges: GraphEdge[]): Node[] {
    const [first] = edges;
    if (edges.length === 1 && first) return [html("h3", {}, "Edge"), this.#edge(first)];
    const kept = edges.filter((edge) => edge.verdict === "kept").length;
    const shown = edges.slice(0, MOST_LISTED);
    const hidden = edges.length - shown.length;
    return [
      html("h3", {}, plural(edges.length, "edge")),
      html("p", {}, `${kept} of them kept apart.`),
      ...shown.map((edge) => this.#edge(edge)),
      ...(hidden > 0 ? [html("p", {}, `and ${hidden} more; open the boxes to see each.`)] : []),
    ];
  }

  #edge(edge: GraphEdge): HTMLElement {
    const [saved, would] = [bytes(2 * edge.bytes), bytes(edge.bytes)];
    const figures: Record<GraphEdge["verdict"], string> = {
      fused: `${saved} less to write and read`,
      kept: `${would} written, and read again`,
      folded: "in no kernel",
      edge: would,
    };
    return html(
      "section",
      { class: `edge ${edge.verdict}` },
      html("p", { class: "ends" }, this.#nodeLink(edge.from), " → ", this.#nodeLink(edge.to)),
      html(
        "p",
        { class: "verdict" },
        html("strong", {}, this.#verdictTitle(edge)),
        ` ${edge.type}, ${figures[edge.verdict]}`,
      ),
      ...this.#why(edge),
    );
  }

  #verdictTitle(edge: GraphEdge): string {
    if (edge.verdict === "kept") return edge.code ? `kept [${edge.code}]` : "kept";
    return edge.verdict === "edge" ? "end of the model" : edge.verdict;
  }

  #why(edge: GraphEdge): Node[] {
    const reason = edge.code === undefined ? undefined : this.#report.reasons[edge.code];
    const parts: Node[] = [];
    if (reason) parts.push(html("p", { class: "reason" }, reason.sentence));
    if (edge.detail) parts.push(html("p", { class: "detail" }, sentence(edge.detail)));
    if (reason) parts.push(html("p", { class: "remedy" }, reason.remedy));
    if (edge.verdict === "fused" && edge.kernel !== undefined) {
      parts.push(html("p", {}, "Both are in ", this.#kernelLink(edge.kernel), "."));
    }
    return parts;
  }

  // ---- boxes ----

  #node(index: number): Node[] {
    const { graph } = this.#graphView();
    const node = graph.nodes[index];
    if (!node) return [];
    const into = graph.edges.filter((edge) => edge.to === index);
    const out = graph.edges.filter((edge) => edge.from === index);
    const list = (title: string, edges: GraphEdge[]) =>
      edges.length === 0
        ? []
        : [html("h4", {}, title), ...edges.slice(0, MOST_LISTED).map((each) => this.#edge(each))];
    return [
      html("h3", {}, node.op),
      html("p", { class: "name" }, node.name),
      facts([
        ["result", node.type],
        ["layer", node.layer || "none"],
      ]),
      html("p", {}, FATES[node.fate]),
      ...(node.kernel === undefined ? [] : [html("p", {}, "In ", this.#kernelLink(node.kernel))]),
      ...list("Reads", into),
      ...list("Is read by", out),
    ];
  }

  #kernel(index: number): Node[] {
    const kernel = this.#report.kernels[index];
    if (!kernel) return [];
    const nodes = this.#report.after.nodes.flatMap((node, at) =>
      node.kernel === index ? [html("li", {}, this.#nodeLink(at, "after"))] : [],
    );
    return [
      html("h3", {}, kernel.name),
      html("p", { class: "name" }, kernel.label),
      facts(this.#figures(kernel)),
      html("h4", {}, plural(nodes.length, "operator")),
      html("ol", { class: "operators" }, ...nodes),
    ];
  }

  #figures(kernel: Kernel): [string, string][] {
    const { target } = this.#report;
    const rows: [string, string][] = [
      ["schedule", kernel.kind],
      ["layer", kernel.layer || "none"],
      ["reads", bytes(kernel.read_bytes)],
      ["writes", bytes(kernel.written_bytes)],
      ["computes", flops(kernel.flops)],
    ];
    const { seconds: time } = kernel;
    if (time !== undefined && time > 0) {
      const moved = kernel.read_bytes + kernel.written_bytes;
      rows.push(
        ["time", seconds(time)],
        ["moves", rate(moved / time, "B")],
        ["attains", rate(kernel.flops / time, "flop")],
        ["least time", `${seconds(floorOf(target, kernel))}, by ${boundBy(target, kernel)}`],
      );
    }
    return rows;
  }

  #group(box: Box): Node[] {
    const kernels = [...boxesOf(box)].filter((each) => each.kind === "kernel");
    const moved = kernels.reduce((sum, each) => {
      const kernel = each.kernel === undefined ? undefined : this.#report.kernels[each.kernel];
      return sum + (kernel ? kernel.read_bytes + kernel.written_bytes : 0);
    }, 0);
    const rows: [string, string][] = [["operators", String(countOperators(box))]];
    if (kernels.length > 0) {
      rows.push(["kernels", String(kernels.length)], ["read and written", bytes(moved)]);
    }
    return [html("h3", {}, box.title), facts(rows)];
  }

  // ---- links within the page ----

  #nodeLink(index: number, view?: "after"): HTMLElement {
    const graphView = this.#graphView();
    const graph = view === undefined ? graphView.graph : this.#report[view];
    const node = graph.nodes[index];
    const link = button(begin(node?.name ?? "", 60), "Show it in the graph", async () => {
      if (view !== undefined && graphView.view !== view) await graphView.show(view);
      await graphView.focusNode(index);
    });
    link.classList.add("link");
    return link;
  }

  #kernelLink(index: number): HTMLElement {
    const name = this.#report.kernels[index]?.name ?? "";
    const link = button(name, "Show it in the graph", () => this.#graphView().focusKernel(index));
    link.classList.add("link");
    return link;
  }
}

/** "needs 71 KiB of 48 KiB" -> "Needs 71 KiB of 48 KiB." */
function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

function facts(rows: [string, string][]): HTMLElement {
  const list = html("dl", { class: "facts" });
  for (const [name, value] of rows) list.append(html("dt", {}, name), html("dd", {}, value));
  return list;
}
