/** The document that `opweld report` puts into the page; src/report/page.h makes it. */
export interface Report {
  /** Version of Opweld. */
  opweld: string;
  model: string;
  graph: string;
  level: string;
  sizes: Record<string, number>;
  /** Where sizes decide which of several plans is run, which of them this is; empty: there is one. */
  plan: string;
  /** Runs that times are the median of; 0: nothing was measured. */
  repeats: number;
  target: Target;
  before: Graph;
  after: Graph;
  kernels: Kernel[];
  reasons: Record<string, Reason>;
  memory: Memory;
  levels: Level[];
  notes: string[];
}

/** Limits of the machine as the planner knows them: flops and bytes a second, of all threads. */
export interface Target {
  name: string;
  model: string;
  cores: number;
  threads: number;
  vector_bits: number;
  peak_flops: number;
  bandwidth: number;
  launch_seconds: number;
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
}

/** What became of an operator of the model; "edge" stands for inputs and outputs. */
export type Fate = "kept" | "absorbed" | "alias" | "folded" | "dropped" | "edge";

export interface GraphNode {
  name: string;
  op: string;
  /** The layer of the model that it belongs to; may be empty. */
  layer: string;
  fate: Fate;
  /** Type of its first result, such as "f32[batch,128]". */
  type: string;
  /** Index into the kernels. */
  kernel?: number;
}

export type Outcome = "fused" | "kept" | "folded" | "edge";

export interface GraphEdge {
  /** Indices into the nodes. */
  from: number;
  to: number;
  type: string;
  bytes: number;
  verdict: Outcome;
  /** Of a kept edge: key of the reasons. */
  code?: string;
  detail?: string;
  kernel?: number;
}

export interface Kernel {
  name: string;
  kind: string;
  /** Its operators as people read them: "MatMul + Add". */
  label: string;
  layer: string;
  read_bytes: number;
  written_bytes: number;
  flops: number;
  /** Median; absent where nothing was measured. */
  seconds?: number;
}

export interface Reason {
  sentence: string;
  remedy: string;
}

export interface Memory {
  arena_bytes: number;
  live_bytes: number;
  scratch_bytes: number;
  weight_bytes: number;
  held_weight_bytes: number;
  blocks: Block[];
}

/** A place in the arena, taken from one kernel to another, both included. */
export interface Block {
  name: string;
  type: string;
  offset: number;
  bytes: number;
  first: number;
  last: number;
}

export interface Traffic {
  kernels: number;
  read_bytes: number;
  written_bytes: number;
}

export interface Level extends Traffic {
  level: string;
  seconds?: number;
  layers: (Traffic & { layer: string })[];
}
