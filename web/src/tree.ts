import type { Graph, Report } from "./report.ts";

/**
 * What the graph shows as a tree of boxes: layers hold kernels, kernels hold operators. A box is open
 * and shows what it holds, or closed and stands for all of it.
 */
export interface Box {
  id: string;
  kind: "root" | "layer" | "part" | "kernel" | "node";
  title: string;
  /** Index into the nodes of the graph, of a box that stands for one operator. */
  node?: number;
  kernel?: number;
  children: Box[];
  parent?: Box;
  open: boolean;
  /** An input or an output of the model, and no operator. */
  isEnd: boolean;
}

/** A line between two boxes that are shown, for all edges of the graph that run there. */
export interface Link {
  from: Box;
  to: Box;
  /** Indices into the edges of the graph. */
  edges: number[];
}

export type View = "before" | "after";

/** The limit that openToFit() keeps: what fits on a screen and can still be read. */
export const LEGIBLE = 80;
/** More operators than this beside each other in a layer are cut into parts, which open one by one. */
export const MOST_BESIDE = 120;
const PART = 40;

/** Whether a node is left out unless asked for: sizes and constants, known before any run. */
export function isFolded(graph: Graph, node: number): boolean {
  return graph.nodes[node]?.fate === "folded";
}

/** The boxes of a view, all closed. */
export function buildTree(report: Report, view: View, withFolded: boolean): Box {
  const graph = report[view];
  const root = box("root", "root", report.model);
  root.open = true;
  const layers = new Map<string, Box>();
  const kernels = new Map<number, Box>();

  const holderOf = (layer: string): Box => {
    if (layer === "") return root;
    let holder = layers.get(layer);
    if (!holder) {
      holder = box(`layer:${layer}`, "layer", layer);
      layers.set(layer, holder);
      adopt(root, holder);
    }
    return holder;
  };

  graph.nodes.forEach((node, index) => {
    if (!withFolded && isFolded(graph, index)) return;
    const leaf = box(`node:${index}`, "node", node.op);
    leaf.node = index;
    leaf.isEnd = node.fate === "edge";
    leaf.kernel = node.kernel;
    const kernel = node.kernel === undefined ? undefined : report.kernels[node.kernel];
    if (view === "before" || node.kernel === undefined || kernel === undefined) {
      adopt(holderOf(node.layer), leaf);
      return;
    }
    let group = kernels.get(node.kernel);
    if (!group) {
      group = box(`kernel:${node.kernel}`, "kernel", kernel.label);
      group.kernel = node.kernel;
      kernels.set(node.kernel, group);
      // One that welds two layers is shown in the layer that it begins in.
      adopt(holderOf(kernel.layer || node.layer), group);
    }
    adopt(group, leaf);
  });
  for (const holder of [root, ...layers.values()]) cutIntoParts(holder);
  return root;
}

function box(id: string, kind: Box["kind"], title: string): Box {
  return { id, kind, title, children: [], open: false, isEnd: false };
}

function adopt(parent: Box, child: Box): void {
  child.parent = parent;
  parent.children.push(child);
}

/** Where too many lie beside each other: those that follow each other become parts. */
function cutIntoParts(holder: Box): void {
  const loose = holder.children.filter(
    (child) => (child.kind === "node" || child.kind === "kernel") && !child.isEnd,
  );
  // What lies in no layer is there even when all of these are closed.
  const tooMany =
    holder.kind === "root" ? holder.children.length > LEGIBLE : loose.length > MOST_BESIDE;
  if (!tooMany || loose.length <= PART) return;
  const moved = new Set(loose);
  holder.children = holder.children.filter((child) => !moved.has(child));
  const noun = loose.some((child) => child.kind === "kernel") ? "kernels" : "operators";
  for (let first = 0; first < loose.length; first += PART) {
    const members = loose.slice(first, first + PART);
    const title = `${noun} ${first + 1} to ${first + members.length}`;
    const part = box(`${holder.id}/part:${first}`, "part", title);
    for (const member of members) adopt(part, member);
    adopt(holder, part);
  }
}

/** Every box of the tree but the root. */
export function* boxesOf(root: Box): Generator<Box> {
  for (const child of root.children) {
    yield child;
    yield* boxesOf(child);
  }
}

/** How many operators a box stands for. */
export function countOperators(of: Box): number {
  if (of.kind === "node") return of.isEnd ? 0 : 1;
  return of.children.reduce((sum, each) => sum + countOperators(each), 0);
}

/** The boxes that are shown closed, operators included. */
export function countShown(of: Box): number {
  if (of.children.length === 0 || !of.open) return 1;
  return of.children.reduce((sum, each) => sum + countShown(each), 0);
}

/**
 * Opens as much as can still be read: all layers if they fit, then all kernels; if the layers do not
 * fit, the first of them, for an example.
 */
export function openToFit(root: Box, limit = LEGIBLE): void {
  for (const each of boxesOf(root)) each.open = false;
  for (const kinds of [
    ["layer", "part"],
    ["layer", "part", "kernel"],
  ]) {
    const opened = [...boxesOf(root)].filter((each) => kinds.includes(each.kind) && !each.open);
    for (const each of opened) each.open = true;
    if (countShown(root) <= limit) continue;
    for (const each of opened) each.open = false;
    break;
  }
  const layers = root.children.filter((each) => each.kind === "layer" || each.kind === "part");
  const [first] = layers;
  if (!first || layers.some((each) => each.open)) return;
  first.open = true;
  if (countShown(root) > limit) first.open = false;
}

/** Opens everything, or closes everything. */
export function setAll(root: Box, open: boolean): void {
  for (const each of boxesOf(root)) each.open = open && each.children.length > 0;
}

/** Opens all that holds the box, so that it is shown. */
export function reveal(target: Box): void {
  for (let each = target.parent; each; each = each.parent) each.open = true;
}

/** The box that is shown for this one: the outermost closed one that holds it. */
export function shownFor(target: Box): Box {
  let shown = target;
  for (let each = target.parent; each; each = each.parent) {
    if (!each.open) shown = each;
  }
  return shown;
}

/** The boxes of operators by their index. */
export function leavesOf(root: Box): Map<number, Box> {
  const leaves = new Map<number, Box>();
  for (const each of boxesOf(root)) {
    if (each.node !== undefined) leaves.set(each.node, each);
  }
  return leaves;
}

/** Lines between what is shown; edges inside a closed box have none. */
export function linksOf(root: Box, graph: Graph): Link[] {
  const leaves = leavesOf(root);
  const links = new Map<string, Link>();
  graph.edges.forEach((edge, index) => {
    const [from, to] = [leaves.get(edge.from), leaves.get(edge.to)];
    if (!from || !to) return;
    const ends = { from: shownFor(from), to: shownFor(to) };
    if (ends.from === ends.to) return;
    const key = `${ends.from.id}>${ends.to.id}`;
    const link = links.get(key);
    if (link) link.edges.push(index);
    else links.set(key, { ...ends, edges: [index] });
  });
  return [...links.values()];
}

/** Operators and kernels whose names hold the text, whatever its case; the best first. */
export function search(graph: Graph, text: string, most: number): number[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [];
  const ranked: { index: number; rank: number }[] = [];
  graph.nodes.forEach((node, index) => {
    const [name, op] = [node.name.toLowerCase(), node.op.toLowerCase()];
    if (name === wanted) ranked.push({ index, rank: 0 });
    else if (name.endsWith(wanted)) ranked.push({ index, rank: 1 });
    else if (name.includes(wanted)) ranked.push({ index, rank: 2 });
    else if (op.includes(wanted)) ranked.push({ index, rank: 3 });
  });
  // Equal ranks stay in the order of the graph.
  ranked.sort((a, b) => a.rank - b.rank);
  return ranked.slice(0, most).map(({ index }) => index);
}
