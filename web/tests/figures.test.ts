import assert from "node:assert/strict";
import { test } from "node:test";
import { COLOURS, colourKernels } from "../src/colours.ts";
import { layerName, layerRows } from "../src/layers.ts";
import { roundedPath } from "../src/path.ts";
import type { Level } from "../src/report.ts";
import { boundBy, decades, floorOf, pointsOf, roofAt } from "../src/roof.ts";
import { sampleKernel, sampleReport } from "./samples.ts";

const { target } = sampleReport({}); // 100 Gflop/s, 20 GB/s: the ridge is at 5 flops a byte

test("the roof is the lower of bandwidth and peak", () => {
  assert.equal(roofAt(target, 1), 20e9);
  assert.equal(roofAt(target, 5), 100e9);
  assert.equal(roofAt(target, 50), 100e9);
});

test("the least time of a kernel is that of what bounds it", () => {
  const copy = sampleKernel("copy", { read_bytes: 10e9, written_bytes: 10e9, flops: 1e9 });
  assert.equal(boundBy(target, copy), "memory");
  assert.equal(floorOf(target, copy), 1);
  const product = sampleKernel("product", { read_bytes: 1e9, written_bytes: 1e9, flops: 300e9 });
  assert.equal(boundBy(target, product), "arithmetic");
  assert.equal(floorOf(target, product), 3);
});

test("only kernels that compute and were timed have a place under the roof", () => {
  const kernels = [
    sampleKernel("move", { flops: 0, seconds: 1 }),
    sampleKernel("untimed"),
    sampleKernel("product", { read_bytes: 30, written_bytes: 20, flops: 200, seconds: 2 }),
  ];
  assert.deepEqual(pointsOf(kernels), [{ kernel: 2, intensity: 4, attained: 100 }]);
});

test("axes run from one power of ten to another", () => {
  assert.deepEqual(decades(0.5, 30), [0.1, 1, 10, 100]);
  assert.deepEqual(decades(1, 1), [1, 10]);
});

test("equal operators have one colour, the costly ones colours of their own", () => {
  const cheap = Array.from({ length: COLOURS }, (_, at) => sampleKernel(`cheap ${at}`));
  const dear = sampleKernel("dear", { read_bytes: 1e6 });
  const colours = colourKernels([...cheap, dear, dear]);
  assert.deepEqual(colours.slice(-2), [0, 0]);
  // One colour more than there are has to come again.
  assert.equal(new Set(colours).size, COLOURS);
});

function level(name: string, layers: [string, number][]): Level {
  const traffic = { read_bytes: 1, written_bytes: 1 };
  const entries = layers.map(([layer, kernels]) => ({ layer, kernels, ...traffic }));
  return { level: name, kernels: 0, ...traffic, layers: entries };
}

test("layers that are equal at every level are one row", () => {
  const levels = [
    level("none", [
      ["", 2],
      ["layers.0", 9],
      ["layers.1", 9],
      ["layers.2", 9],
    ]),
    level("auto", [
      ["", 1],
      ["layers.0", 3],
      ["layers.1", 3],
      ["layers.2", 4],
    ]),
  ];
  const rows = layerRows(levels);
  assert.deepEqual(rows.map(layerName), [
    "outside layers",
    "layers.0 … layers.1 (2 equal)",
    "layers.2",
  ]);
  assert.equal(rows[1]?.traffic.get("none")?.kernels, 9);
});

test("a layer that a level has no kernel of stays a row", () => {
  const rows = layerRows([
    level("none", [
      ["a", 1],
      ["b", 1],
    ]),
    level("auto", [["a", 1]]),
  ]);
  assert.deepEqual(rows.map(layerName), ["a", "b"]);
  assert.equal(rows[1]?.traffic.get("auto"), undefined);
});

test("a path goes through its ends and rounds its corners, short ones less", () => {
  const corner = [
    { x: 0, y: 0 },
    { x: 0, y: 20 },
    { x: 4, y: 20 },
  ];
  assert.equal(roundedPath(corner, 6), "M0 0L0 14Q0 20 2 20L4 20");
  assert.equal(roundedPath([]), "");
});
