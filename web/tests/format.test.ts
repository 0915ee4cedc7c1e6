import assert from "node:assert/strict";
import { test } from "node:test";
import { begin, bytes, flops, plural, rate, seconds, shorten } from "../src/format.ts";

test("bytes come in units of a thousand", () => {
  const expected: [number, string][] = [
    [0, "0 B"],
    [512, "512 B"],
    [999, "999 B"],
    [1000, "1.0 kB"],
    [1536, "1.5 kB"],
    [33_554_432, "33.6 MB"],
    [107_000_000, "107 MB"],
    [999_960, "1.0 MB"],
    [2.5e15, "2.5 PB"],
  ];
  for (const [value, text] of expected) assert.equal(bytes(value), text);
});

test("rates have a digit after the point even where they are small", () => {
  assert.equal(rate(85.31e9, "flop"), "85.3 Gflop/s");
  assert.equal(rate(12, "B"), "12.0 B/s");
  assert.equal(flops(0), "0 flop");
});

test("seconds have three digits, whatever the unit", () => {
  const expected: [number, string][] = [
    [2.5, "2.50 s"],
    [1.2e-3, "1.20 ms"],
    [13.77e-3, "13.8 ms"],
    [812e-9, "812 ns"],
    [99.96e-6, "100 µs"],
    [999.6e-9, "1.00 µs"],
    [0, "0.00 ns"],
  ];
  for (const [value, text] of expected) assert.equal(seconds(value), text);
});

test("what is too long is cut at the end that tells less", () => {
  assert.equal(shorten("/encoder/layer.0/MatMul", 10), "….0/MatMul");
  assert.equal(begin("MatMul + Add + Gelu", 10), "MatMul + …");
  for (const cut of [shorten, begin]) {
    assert.equal(cut("short", 5), "short");
    assert.equal(cut("longer", 5).length, 5);
  }
});

test("one is not many", () => {
  assert.equal(plural(1, "kernel"), "1 kernel");
  assert.equal(plural(1234, "kernel"), "1,234 kernels");
});
