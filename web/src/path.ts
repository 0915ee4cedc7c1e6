export interface Point {
  x: number;
  y: number;
}

/** A path through the points with its corners rounded. */
export function roundedPath(points: Point[], radius = 6): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${at(first)}`;
  rest.forEach((corner, index) => {
    const previous = points[index] ?? first;
    const next = rest[index + 1];
    if (!next) {
      path += `L${at(corner)}`;
      return;
    }
    const before = towards(corner, previous, radius);
    const after = towards(corner, next, radius);
    path += `L${at(before)}Q${at(corner)} ${at(after)}`;
  });
  return path;
}

function at({ x, y }: Point): string {
  return `${round(x)} ${round(y)}`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** The point that is so far from one on the way to another, but no farther than half way. */
function towards(from: Point, to: Point, distance: number): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  if (length === 0) return from;
  const part = Math.min(distance, length / 2) / length;
  return { x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part };
}
