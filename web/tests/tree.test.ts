import assert from "node:assert/strict";
import { test } from "node:test";
import {
  boxesOf,
  buildTree,
  countOperators,
  countShown,
  LEGIBLE,
  leavesOf,
  linksOf,
  openToFit,
  reveal,
  search,
  setAll,
  shownFor,
} from "../src/tree.ts";
import { chainReport, sampleKernel, sampleNode, sampleReport } from "./samples.ts";

test("after fusion layers hold kernels and kernels hold operators", () => {
  const root = buildTree(chainReport(2, 4), "after", false);
  assert.deepEqual(
    root.children.map((layer) => [layer.title, layer.children.map((kernel) => kernel.kind)]),
    [
      ["layers.0", ["kernel", "kernel"]],
      ["layers.1", ["kernel", "kernel"]],
    ],
  );
  assert.equal(countOperators(root), 8);
});

test("before fusion layers hold operators", () => {
  const root = buildTree(chainReport(2, 4), "before", false);
  assert.deepEqual(
    root.children.map((layer) => layer.children.map((node) => node.kind)),
    [Array(4).fill("node"), Array(4).fill("node")],
  );
});

test("what is known when the model is compiled is left out unless asked for", () => {
  const nodes = [sampleNode("shape", { fate: "folded" }), sampleNode("add")];
  const report = sampleReport({ before: { nodes, edges: [] } });
  assert.equal(countOperators(buildTree(report, "before", false)), 1);
  assert.equal(countOperators(buildTree(report, "before", true)), 2);
});

test("inputs and outputs are shown, and are no operators", () => {
  const nodes = [sampleNode("x", { op: "input", fate: "edge" }), sampleNode("add")];
  const root = buildTree(sampleReport({ before: { nodes, edges: [] } }), "before", false);
  assert.equal(countOperators(root), 1);
  assert.equal(countShown(root), 2);
});

test("a kernel that welds two layers is in the one that it begins in", () => {
  const report = chainReport(2, 4);
  report.after.nodes.forEach((node, index) => {
    if (index === 3 || index === 4) node.kernel = 4;
  });
  report.kernels.push(sampleKernel("Add + Add"));
  const [first, second] = buildTree(report, "after", false).children;
  assert.deepEqual(
    [first, second].map((layer) => layer?.children.map((kernel) => kernel.kernel)),
    [
      [0, 1, 4],
      [2, 3],
    ],
  );
});

test("a model without layers is cut into parts, in order, and nothing is lost", () => {
  const nodes = Array.from({ length: LEGIBLE + 1 }, (_, at) => sampleNode(`op_${at}`));
  const root = buildTree(sampleReport({ before: { nodes, edges: [] } }), "before", false);
  assert.ok(root.children.every((part) => part.kind === "part"));
  assert.equal(root.children[0]?.title, "operators 1 to 40");
  const order = [...boxesOf(root)].flatMap((box) => (box.node === undefined ? [] : [box.node]));
  assert.deepEqual(
    order,
    nodes.map((_, index) => index),
  );
});

test("as much is open as can be read", () => {
  const open = (layers: number, operators: number) => {
    const root = buildTree(chainReport(layers, operators), "after", false);
    openToFit(root);
    assert.ok(countShown(root) <= LEGIBLE);
    return new Set([...boxesOf(root)].filter((box) => box.open).map((box) => box.kind));
  };
  assert.deepEqual(open(2, 10), new Set(["layer", "kernel"]));
  assert.deepEqual(open(6, 20), new Set(["layer"]));
  // Only the first of 50 layers.
  assert.deepEqual(open(50, 20), new Set(["layer"]));
});

test("of two thousand operators no more is shown than can be read, and all can be opened", () => {
  const root = buildTree(chainReport(40, 50), "after", false);
  openToFit(root);
  assert.ok(countShown(root) <= LEGIBLE);
  setAll(root, true);
  assert.equal(countShown(root), 2000);
  setAll(root, false);
  assert.equal(countShown(root), 40);
});

test("edges inside a closed box have no line, and parallel ones share one", () => {
  const report = chainReport(2, 4);
  report.after.edges.push({ from: 0, to: 7, type: "f32[4]", bytes: 16, verdict: "kept" });
  const root = buildTree(report, "after", false);
  setAll(root, false);
  const [link, ...others] = linksOf(root, report.after);
  assert.deepEqual(others, []);
  assert.deepEqual([link?.from.title, link?.to.title], ["layers.0", "layers.1"]);
  // From the last of the one layer to the first of the other, and the one that was added.
  assert.deepEqual(link?.edges, [3, 7]);
  setAll(root, true);
  assert.equal(linksOf(root, report.after).length, 8);
});

test("to show an operator all that holds it is opened", () => {
  const root = buildTree(chainReport(3, 4), "after", false);
  setAll(root, false);
  const leaf = leavesOf(root).get(9);
  assert.ok(leaf);
  assert.equal(shownFor(leaf).title, "layers.2");
  reveal(leaf);
  assert.equal(shownFor(leaf), leaf);
});

test("names are found whatever their case, whole ones and ends first", () => {
  const names = ["/a/MatMul_1", "/a/MatMul", "matmul", "/b/Add"];
  const nodes = names.map((name) => sampleNode(name));
  nodes.push(sampleNode("/c/x", { op: "FusedMatMul" }));
  const graph = { nodes, edges: [] };
  assert.deepEqual(search(graph, "MATMUL", 10), [2, 1, 0, 4]);
  assert.deepEqual(search(graph, "matmul", 2), [2, 1]);
  assert.deepEqual(search(graph, "  ", 10), []);
  assert.deepEqual(search(graph, "nowhere", 10), []);
});
