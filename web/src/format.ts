/** Numbers as people read them, with units of a thousand. */

const PREFIXES = ["", "k", "M", "G", "T", "P"];

function scaled(value: number, unit: string, whole: boolean): string {
  let power = 0;
  let rest = value;
  while (rest >= 999.5 && power + 1 < PREFIXES.length) {
    rest /= 1000;
    power += 1;
  }
  const digits = (power === 0 && whole) || rest >= 99.95 ? 0 : 1;
  return `${rest.toFixed(digits)} ${PREFIXES[power]}${unit}`;
}

/** "33.6 MB"; whole bytes below a thousand. */
export function bytes(value: number): string {
  return scaled(value, "B", true);
}

/** "1.2 Gflop" */
export function flops(value: number): string {
  return scaled(value, "flop", true);
}

/** "85.3 Gflop/s" or "12.0 GB/s" */
export function rate(value: number, unit: string): string {
  return scaled(value, `${unit}/s`, false);
}

/** "812 ns", "13.8 µs", "1.20 ms", "2.50 s" */
export function seconds(value: number): string {
  const units: [number, string][] = [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
    [1e-9, "ns"],
  ];
  const [size, unit] = units.find(([each]) => value >= 0.9995 * each) ?? [1e-9, "ns"];
  const scaledValue = value / size;
  const digits = scaledValue >= 99.95 ? 0 : scaledValue >= 9.995 ? 1 : 2;
  return `${scaledValue.toFixed(digits)} ${unit}`;
}

/** "1,234" */
export function count(value: number): string {
  return value.toLocaleString("en");
}

/** "1 kernel", "3 kernels" */
export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** What is too long for a label, with its end kept, which tells names of a model apart. */
export function shorten(text: string, most: number): string {
  return text.length <= most ? text : `…${text.slice(text.length - most + 1)}`;
}

/** The beginning of what is too long. */
export function begin(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
