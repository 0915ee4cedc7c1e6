import ELK, { type ElkExtendedEdge, type ElkNode } from "elkjs/lib/elk-api.js";
import engine from "elkjs/lib/elk-worker.min.js?raw";
import type { Point } from "./path.ts";
import type { Box, Link } from "./tree.ts";

export interface Placed extends Point {
  width: number;
  height: number;
}

/** Where everything is, from the upper left corner of the drawing. */
export interface Layout {
  width: number;
  height: number;
  /** In the order of drawing: what holds others before those. */
  boxes: Map<Box, Placed>;
  /** Bends of each link, its ends included. */
  links: Map<Link, Point[]>;
}

export interface Size {
  width: number;
  height: number;
}

/** Room for the title of an open box. */
export const HEADER = 26;

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "DOWN",
  "elk.hierarchyHandling": "INCLUDE_CHILDREN",
  "elk.edgeRouting": "ORTHOGONAL",
  "elk.json.shapeCoords": "ROOT",
  "elk.json.edgeCoords": "ROOT",
  "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
  "elk.layered.nodePlacement.strategy": "BRANDES_KOEPF",
  "elk.layered.nodePlacement.bk.fixedAlignment": "BALANCED",
  "elk.spacing.nodeNode": "18",
  "elk.spacing.edgeNode": "14",
  "elk.spacing.edgeEdge": "10",
  "elk.layered.spacing.nodeNodeBetweenLayers": "28",
  "elk.layered.spacing.edgeNodeBetweenLayers": "14",
  "elk.layered.spacing.edgeEdgeBetweenLayers": "10",
  "elk.padding": "[top=16,left=16,bottom=16,right=16]",
};
/** For many boxes at once, half the time: less care about crossings, and lines that share a way. */
const QUICKLY = {
  "elk.layered.thoroughness": "1",
  "elk.layered.crossingMinimization.greedySwitch.type": "OFF",
  "elk.layered.crossingMinimization.greedySwitchHierarchical.type": "OFF",
  "elk.layered.considerModelOrder.strategy": "NONE",
  "elk.layered.mergeEdges": "true",
  "elk.layered.mergeHierarchyEdges": "true",
};
const MANY = 600;

/** Computes layouts beside the page, so that it stays alive meanwhile. */
export class LayoutEngine {
  readonly #elk = new ELK({
    workerFactory: () =>
      new Worker(URL.createObjectURL(new Blob([engine], { type: "text/javascript" }))),
  });

  async compute(root: Box, links: Link[], sizeOf: (box: Box) => Size): Promise<Layout> {
    let count = 0;
    const toElk = (box: Box): ElkNode => {
      count += 1;
      if (!box.open || box.children.length === 0) return { id: box.id, ...sizeOf(box) };
      return {
        id: box.id,
        layoutOptions: {
          "elk.padding": `[top=${HEADER + 10},left=12,bottom=12,right=12]`,
          // So wide that its title fits. ELK lays out from left to right, and turns what it has made
          // for a drawing from top to bottom; this size of a box that holds others it does not turn.
          "elk.nodeSize.constraints": "MINIMUM_SIZE",
          "elk.nodeSize.minimum": `(0,${sizeOf(box).width})`,
        },
        children: box.children.map(toElk),
      };
    };
    const edges: ElkExtendedEdge[] = links.map((link, index) => ({
      id: `link:${index}`,
      sources: [link.from.id],
      targets: [link.to.id],
    }));
    const children = root.children.map(toElk);
    const layoutOptions = count > MANY ? { ...OPTIONS, ...QUICKLY } : OPTIONS;
    const drawn = await this.#elk.layout({ id: "root", layoutOptions, children, edges });
    return read(root, links, drawn);
  }
}

function read(root: Box, links: Link[], drawn: ElkNode): Layout {
  const layout: Layout = {
    width: drawn.width ?? 0,
    height: drawn.height ?? 0,
    boxes: new Map(),
    links: new Map(),
  };
  const readBoxes = (boxes: Box[], nodes: ElkNode[]): void => {
    const byId = new Map(nodes.map((node) => [node.id, node]));
    for (const box of boxes) {
      const node = byId.get(box.id);
      if (!node) continue;
      const { x = 0, y = 0, width = 0, height = 0 } = node;
      layout.boxes.set(box, { x, y, width, height });
      if (node.children) readBoxes(box.children, node.children);
    }
  };
  readBoxes(root.children, drawn.children ?? []);
  const byId = new Map((drawn.edges ?? []).map((edge) => [edge.id, edge as ElkExtendedEdge]));
  links.forEach((link, index) => {
    const section = byId.get(`link:${index}`)?.sections?.[0];
    if (!section) return;
    const bends = section.bendPoints ?? [];
    layout.links.set(link, [section.startPoint, ...bends, section.endPoint]);
  });
  return layout;
}
