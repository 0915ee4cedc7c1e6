import type { Graph, GraphNode, Kernel, Report } from "../src/report.ts";

/** What a test says of a report; the rest is empty. */
export function sampleReport(parts: Partial<Report>): Report {
  const empty: Graph = { nodes: [], edges: [] };
  return {
    opweld: "0",
    model: "sample.onnx",
    graph: "sample",
    level: "auto",
    sizes: {},
    plan: "",
    repeats: 0,
    target: {
      name: "host",
      model: "",
      cores: 2,
      threads: 2,
      vector_bits: 256,
      peak_flops: 100e9,
      bandwidth: 20e9,
      launch_seconds: 2e-6,
    },
    before: empty,
    after: empty,
    kernels: [],
    reasons: {},
    memory: {
      arena_bytes: 0,
      live_bytes: 0,
      scratch_bytes: 0,
      weight_bytes: 0,
      held_weight_bytes: 0,
      blocks: [],
    },
    levels: [],
    notes: [],
    ...parts,
  };
}

export function sampleNode(name: string, parts: Partial<GraphNode> = {}): GraphNode {
  return { name, op: "Add", layer: "", fate: "kept", type: "f32[4]", ...parts };
}

export function sampleKernel(label: string, parts: Partial<Kernel> = {}): Kernel {
  return {
    name: "FusedKernel_0",
    kind: "map",
    label,
    layer: "",
    read_bytes: 100,
    written_bytes: 100,
    flops: 100,
    ...parts,
  };
}

/** A model of so many layers, each a chain of so many operators in kernels of two. */
export function chainReport(layers: number, operators: number): Report {
  const graph: Graph = { nodes: [], edges: [] };
  const kernels: Kernel[] = [];
  for (let layer = 0; layer < layers; layer += 1) {
    for (let at = 0; at < operators; at += 1) {
      const index = graph.nodes.length;
      if (at % 2 === 0) kernels.push(sampleKernel("Add + Mul", { layer: `layers.${layer}` }));
      const kernel = kernels.length - 1;
      const name = `/layers.${layer}/op_${at}`;
      graph.nodes.push(sampleNode(name, { layer: `layers.${layer}`, kernel }));
      if (index === 0) continue;
      const fused = at % 2 === 1;
      graph.edges.push({
        from: index - 1,
        to: index,
        type: "f32[4]",
        bytes: 16,
        verdict: fused ? "fused" : "kept",
        ...(fused ? { kernel } : { code: "F-COST" }),
      });
    }
  }
  return sampleReport({ before: graph, after: graph, kernels });
}
