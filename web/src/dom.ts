/**
 * Making elements. Text of a model reaches the page through here alone, and only as text nodes and
 * attribute values, so that no name in it can become markup.
 */

type Child = Node | string | null | undefined;
type Attributes = Record<string, string | number | undefined>;

const SVG = "http://www.w3.org/2000/svg";

function fill<T extends Element>(element: T, attributes: Attributes, children: Child[]): T {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

export function html<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function button(text: string, title: string, act: () => void): HTMLButtonElement {
  const element = html("button", { type: "button", title }, text);
  element.addEventListener("click", act);
  return element;
}
