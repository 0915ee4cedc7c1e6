import type { Level, Traffic } from "./report.ts";

/** A row of the three-level table: a layer, or several that have equal figures at every level. */
export interface LayerRow {
  layers: string[];
  /** By level; absent where the level has no kernel of that layer. */
  traffic: Map<string, Traffic>;
}

/** Layers in order of first appearance, equal neighbours as one row. */
export function layerRows(levels: Level[]): LayerRow[] {
  const byLayer = new Map<string, LayerRow>();
  for (const level of levels) {
    for (const entry of level.layers) {
      const row = byLayer.get(entry.layer) ?? { layers: [entry.layer], traffic: new Map() };
      row.traffic.set(level.level, entry);
      byLayer.set(entry.layer, row);
    }
  }
  const rows: LayerRow[] = [];
  const keys = new Map<string, LayerRow>();
  for (const row of byLayer.values()) {
    const key = keyOf(levels, row);
    const equal = row.layers[0] === "" ? undefined : keys.get(key);
    if (equal) {
      equal.layers.push(...row.layers);
    } else {
      if (row.layers[0] !== "") keys.set(key, row);
      rows.push(row);
    }
  }
  return rows;
}

function keyOf(levels: Level[], row: LayerRow): string {
  return levels
    .map(({ level }) => {
      const traffic = row.traffic.get(level);
      return traffic ? `${traffic.kernels},${traffic.read_bytes},${traffic.written_bytes}` : "";
    })
    .join(";");
}

/** "layers.0 … layers.31 (32 equal)" */
export function layerName(row: LayerRow): string {
  const [first = "", last = ""] = [row.layers[0], row.layers.at(-1)];
  if (row.layers.length > 1) return `${first} … ${last} (${row.layers.length} equal)`;
  return first === "" ? "outside layers" : first;
}
