import { select } from "d3-selection";
import { type D3ZoomEvent, type ZoomBehavior, zoom, zoomIdentity } from "d3-zoom";
import { button, html, svg } from "./dom.ts";
import { begin, bytes, count, plural, seconds, shorten } from "./format.ts";
import { HEADER, type Layout, LayoutEngine, type Placed, type Size } from "./layout.ts";
import { roundedPath } from "./path.ts";
import type { Graph, GraphEdge, Report } from "./report.ts";
import type { Box, Link, View } from "./tree.ts";
import * as tree from "./tree.ts";

export type Selection =
  | { what: "nothing" }
  | { what: "box"; box: Box }
  | { what: "link"; link: Link };

const LABEL = 34;
/** Below this scale the text of single operators is too small to read, and costs time to draw. */
const FAR = 0.35;
const READABLE = 0.7;

/** The graph before or after, with boxes that open and close. */
export class GraphView {
  readonly element: HTMLElement;
  readonly report: Report;
  readonly #colours: number[];
  readonly #onSelect: (selection: Selection) => void;
  #view: View = "after";
  #withFolded = false;
  #root: Box;
  #links: Link[] = [];
  #layout: Layout | undefined;
  #selection: Selection = { what: "nothing" };
  /** Of layouts that were asked for; only the newest is drawn. */
  #turn = 0;
  readonly #engine = new LayoutEngine();
  readonly #measure = document.createElement("canvas").getContext("2d");
  readonly #canvas: SVGSVGElement;
  readonly #drawing: SVGGElement;
  readonly #zoom: ZoomBehavior<SVGSVGElement, unknown>;
  readonly #status = html("span", { class: "status", role: "status" });
  readonly #viewButtons: Record<View, HTMLButtonElement>;
  readonly #foldedBox = html("input", { type: "checkbox" });
  readonly #shown = new Map<Box | Link, SVGGElement>();

  constructor(report: Report, colours: number[], onSelect: (selection: Selection) => void) {
    this.report = report;
    this.#colours = colours;
    this.#onSelect = onSelect;
    this.#root = this.#newTree();
    this.#drawing = svg("g");
    this.#canvas = svg("svg", { class: "graph-canvas" }, arrowheads(), this.#drawing);
    this.#zoom = zoom<SVGSVGElement, unknown>()
      .scaleExtent([0.02, 3])
      .on("zoom", (event: D3ZoomEvent<SVGSVGElement, unknown>) => {
        this.#drawing.setAttribute("transform", event.transform.toString());
        this.#canvas.classList.toggle("far", event.transform.k < FAR);
      });
    // A double click opens a box.
    select(this.#canvas).call(this.#zoom).on("dblclick.zoom", null);
    this.#canvas.addEventListener("click", () => this.select({ what: "nothing" }));
    this.#viewButtons = {
      before: button("Before", "The model as it was imported", () => this.show("before")),
      after: button("After", "The graph as it runs: kernels", () => this.show("after")),
    };
    this.element = html("div", { class: "graph" }, this.#toolbar(), this.#canvas);
  }

  get view(): View {
    return this.#view;
  }

  get graph(): Graph {
    return this.report[this.#view];
  }

  /** The edges of the graph that a link stands for. */
  edgesOf(link: Link): GraphEdge[] {
    return link.edges.flatMap((index) => this.graph.edges[index] ?? []);
  }

  async show(view: View): Promise<void> {
    this.#view = view;
    this.#root = this.#newTree();
    this.select({ what: "nothing" });
    await this.#update("start");
  }

  /** Opens what holds the operator, and brings it into sight. */
  async focusNode(node: number): Promise<void> {
    if (tree.isFolded(this.graph, node) && !this.#withFolded) {
      this.#withFolded = true;
      this.#foldedBox.checked = true;
      this.#root = this.#newTree();
    }
    const box = tree.leavesOf(this.#root).get(node);
    if (box) await this.#focus(box);
  }

  async focusKernel(kernel: number): Promise<void> {
    if (this.#view !== "after") await this.show("after");
    for (const box of tree.boxesOf(this.#root)) {
      if (box.kind === "kernel" && box.kernel === kernel) {
        await this.#focus(box);
        return;
      }
    }
  }

  select(selection: Selection): void {
    this.#mark(false);
    this.#selection = selection;
    this.#mark(true);
    this.#onSelect(selection);
  }

  fit(): void {
    const { layout, width, height } = this.#sizes();
    if (!layout) return;
    const scale = Math.min(width / layout.width, height / layout.height, 1);
    this.#moveTo(scale, layout.width / 2, layout.height / 2, height / 2);
  }

  async #focus(box: Box): Promise<void> {
    tree.reveal(box);
    await this.#update("stay");
    const place = this.#layout?.boxes.get(box);
    if (place) {
      const { height } = this.#sizes();
      this.#moveTo(1, place.x + place.width / 2, place.y + place.height / 2, height / 2);
    }
    this.select({ what: "box", box });
  }

  #newTree(): Box {
    const root = tree.buildTree(this.report, this.#view, this.#withFolded);
    tree.openToFit(root);
    return root;
  }

  #toolbar(): HTMLElement {
    this.#foldedBox.addEventListener("change", () => {
      this.#withFolded = this.#foldedBox.checked;
      this.#root = this.#newTree();
      this.#update("start");
    });
    const scaleBy = (factor: number) => select(this.#canvas).call(this.#zoom.scaleBy, factor);
    const openAll = (open: boolean) => {
      tree.setAll(this.#root, open);
      this.#update("start");
    };
    const folded = "Operators on sizes and constants alone, computed when the model is compiled";
    return html(
      "div",
      { class: "toolbar" },
      html("div", { class: "choice" }, this.#viewButtons.before, this.#viewButtons.after),
      html(
        "div",
        { class: "choice" },
        button("Open all", "Open every layer and kernel", () => openAll(true)),
        button("Close all", "Close every layer", () => openAll(false)),
      ),
      html(
        "div",
        { class: "choice" },
        button("−", "Zoom out", () => scaleBy(1 / 1.4)),
        button("+", "Zoom in", () => scaleBy(1.4)),
        button("Fit", "Show the whole graph", () => this.fit()),
      ),
      html("label", { title: folded }, this.#foldedBox, "sizes and constants"),
      this.#status,
    );
  }

  async #update(then: "start" | "stay"): Promise<void> {
    this.#turn += 1;
    const turn = this.#turn;
    for (const view of ["before", "after"] as const) {
      this.#viewButtons[view].setAttribute("aria-pressed", String(view === this.#view));
    }
    this.#status.textContent = "laying out…";
    this.element.setAttribute("aria-busy", "true");
    const links = tree.linksOf(this.#root, this.graph);
    const layout = await this.#engine.compute(this.#root, links, (box) => this.#sizeOf(box));
    if (turn !== this.#turn) return;
    this.#links = links;
    this.#layout = layout;
    this.#draw(layout);
    const operators = plural(tree.countOperators(this.#root), "operator");
    this.#status.textContent = `${operators}, ${count(tree.countShown(this.#root))} boxes shown`;
    this.element.setAttribute("aria-busy", "false");
    if (then === "start") this.#showStart(layout);
  }

  /** All of it if that can be read, else its beginning. */
  #showStart(layout: Layout): void {
    const { width, height } = this.#sizes();
    const whole = Math.min(width / layout.width, height / layout.height);
    if (whole >= READABLE) {
      this.fit();
      return;
    }
    const scale = Math.max(READABLE, Math.min(1, width / layout.width));
    let centre = layout.width / 2;
    if (layout.width * scale > width) {
      // The middle of what comes first.
      const tops = [...layout.boxes.values()].sort((a, b) => a.y - b.y);
      if (tops[0]) centre = tops[0].x + tops[0].width / 2;
    }
    this.#moveTo(scale, centre, 0, 8);
  }

  /** Brings a point of the drawing to the middle of the canvas, so far from its upper edge. */
  #moveTo(scale: number, x: number, y: number, top: number): void {
    const { width } = this.#sizes();
    const transform = zoomIdentity.translate(width / 2 - x * scale, top - y * scale).scale(scale);
    select(this.#canvas).call(this.#zoom.transform, transform);
  }

  #sizes(): { layout: Layout | undefined; width: number; height: number } {
    const { width, height } = this.#canvas.getBoundingClientRect();
    return { layout: this.#layout, width, height };
  }

  #toggle(box: Box): void {
    if (box.children.length === 0) return;
    box.open = !box.open;
    const held = this.#layout?.boxes.get(box);
    this.#update("stay").then(() => {
      // It stays where it was on the screen, however all else has moved.
      const moved = this.#layout?.boxes.get(box);
      if (!held || !moved) return;
      const canvas = select(this.#canvas);
      canvas.call(this.#zoom.translateBy, held.x - moved.x, held.y - moved.y);
    });
  }

  // ---- text ----

  #lines(box: Box): [string, string] {
    if (box.kind === "node") {
      const node = box.node === undefined ? undefined : this.graph.nodes[box.node];
      if (!node) return [box.title, ""];
      if (node.fate === "edge") return [shorten(node.name, LABEL), node.type];
      return [begin(node.op, LABEL), shorten(node.name, LABEL)];
    }
    if (box.kind === "kernel") {
      const kernel = box.kernel === undefined ? undefined : this.report.kernels[box.kernel];
      if (!kernel) return [box.title, ""];
      const moved = bytes(kernel.read_bytes + kernel.written_bytes);
      const time = kernel.seconds === undefined ? "" : `, ${seconds(kernel.seconds)}`;
      return [begin(kernel.label, LABEL), `${kernel.kind}, ${moved}${time}`];
    }
    const kernels = box.children.flatMap((child) =>
      child.kind === "part" ? child.children : [child],
    );
    const number = kernels.filter((child) => child.kind === "kernel").length;
    const operators = plural(tree.countOperators(box), "operator");
    const text = number > 0 ? `${plural(number, "kernel")}, ${operators}` : operators;
    return [shorten(box.title, LABEL), text];
  }

  /** What stands at the top of an open box. */
  #openTitle(box: Box): string {
    const [first, second] = this.#lines(box);
    return box.kind === "kernel" ? first : `${first}  ${second}`;
  }

  #sizeOf(box: Box): Size {
    const folds = box.children.length > 0;
    if (folds && box.open) {
      return { width: Math.ceil(this.#width(this.#openTitle(box), 12, 600)) + 38, height: 40 };
    }
    const [first, second] = this.#lines(box);
    const width = Math.max(this.#width(first, 13, 600), this.#width(second, 11, 400));
    return { width: Math.ceil(width) + (folds ? 38 : 24), height: 40 };
  }

  #width(text: string, size: number, weight: number): number {
    if (!this.#measure) return text.length * size * 0.6;
    this.#measure.font = `${weight} ${size}px system-ui, sans-serif`;
    return this.#measure.measureText(text).width;
  }

  // ---- drawing ----

  #draw(layout: Layout): void {
    this.#shown.clear();
    const boxes = svg("g");
    const lines = svg("g");
    for (const [box, place] of layout.boxes) boxes.append(this.#drawBox(box, place));
    for (const link of this.#links) {
      const points = layout.links.get(link);
      if (points) lines.append(this.#drawLink(link, roundedPath(points)));
    }
    this.#drawing.replaceChildren(boxes, lines);
    this.#mark(true);
  }

  #drawBox(box: Box, place: Placed): SVGGElement {
    const node = box.node === undefined ? undefined : this.graph.nodes[box.node];
    const open = box.open && box.children.length > 0;
    const colour = box.kernel === undefined ? undefined : this.#colours[box.kernel];
    const classes = ["box", box.kind, open ? "open" : "closed", node ? `fate-${node.fate}` : ""];
    if (colour !== undefined) classes.push("coloured");
    const group = svg("g", {
      class: classes.join(" "),
      transform: `translate(${place.x} ${place.y})`,
      "data-box": box.id,
      style: colour === undefined ? undefined : `--colour: var(--kernel-${colour})`,
    });
    group.append(
      svg("rect", { width: place.width, height: place.height, rx: open ? 8 : 6 }),
      svg("title", {}, node?.name ?? box.title),
    );
    const [first, second] = this.#lines(box);
    const folds = box.children.length > 0;
    const left = folds ? 26 : 12;
    const title = open ? this.#openTitle(box) : first;
    const baseline = open ? HEADER - 8 : 17;
    group.append(svg("text", { class: "title", x: left, y: baseline }, title));
    if (!open) group.append(svg("text", { class: "subtitle", x: left, y: 32 }, second));
    if (folds) group.append(this.#chevron(box, baseline));
    group.addEventListener("click", (event) => {
      event.stopPropagation();
      this.select({ what: "box", box });
    });
    group.addEventListener("dblclick", (event) => {
      event.stopPropagation();
      this.#toggle(box);
    });
    this.#shown.set(box, group);
    return group;
  }

  #chevron(box: Box, baseline: number): SVGGElement {
    const turn = box.open ? "rotate(90)" : "";
    const chevron = svg(
      "g",
      { class: "chevron", transform: `translate(15 ${baseline - 4.5}) ${turn}` },
      svg("rect", { x: -12, y: -12, width: 24, height: 24 }),
      svg("path", { d: "M-2.5 -4.5L2.5 0L-2.5 4.5" }),
      svg("title", {}, box.open ? "Close" : "Open"),
    );
    chevron.addEventListener("click", (event) => {
      event.stopPropagation();
      this.#toggle(box);
    });
    return chevron;
  }

  #drawLink(link: Link, path: string): SVGGElement {
    const edges = this.edgesOf(link);
    const outcome = (["kept", "fused", "edge", "folded"] as const).find((each) =>
      edges.some((edge) => edge.verdict === each),
    );
    const group = svg(
      "g",
      { class: `link ${outcome ?? "edge"}`, "data-link": `${link.from.id}>${link.to.id}` },
      svg("path", { class: "hit", d: path }),
      svg("path", { class: "line", d: path, "marker-end": `url(#arrow-${outcome ?? "edge"})` }),
    );
    group.addEventListener("click", (event) => {
      event.stopPropagation();
      this.select({ what: "link", link });
    });
    this.#shown.set(link, group);
    return group;
  }

  /** A layout anew makes new links; the same line is found by its ends. */
  #mark(on: boolean): void {
    const selection = this.#selection;
    if (selection.what === "box") {
      this.#shown.get(selection.box)?.classList.toggle("selected", on);
    } else if (selection.what === "link") {
      const { from, to } = selection.link;
      const link = this.#links.find((each) => each.from === from && each.to === to);
      if (link) this.#shown.get(link)?.classList.toggle("selected", on);
    }
  }
}

function arrowheads(): SVGDefsElement {
  const head = (name: string) =>
    svg(
      "marker",
      {
        id: `arrow-${name}`,
        class: `arrow ${name}`,
        viewBox: "0 0 8 8",
        refX: 7,
        refY: 4,
        markerUnits: "userSpaceOnUse",
        markerWidth: 9,
        markerHeight: 9,
        orient: "auto",
      },
      svg("path", { d: "M0 0.8L7.5 4L0 7.2z" }),
    );
  return svg("defs", {}, ...["kept", "fused", "edge", "folded"].map(head));
}
