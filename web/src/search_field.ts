import { html } from "./dom.ts";
import type { GraphView } from "./graph_view.ts";
import type { Report } from "./report.ts";
import { search } from "./tree.ts";

const MOST_FOUND = 30;

/** Finds operators of the graph that is shown by name, and shows the one that is chosen. */
export function searchField(report: Report, graph: GraphView): HTMLElement {
  const input = html("input", {
    type: "search",
    placeholder: "Find an operator",
    "aria-label": "Find an operator by its name",
    "aria-controls": "found",
    role: "combobox",
    "aria-expanded": "false",
    autocomplete: "off",
    spellcheck: "false",
  });
  const list = html("ul", { id: "found", role: "listbox", hidden: "" });
  let found: number[] = [];
  let current = 0;

  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const choose = (index: number | undefined) => {
    if (index === undefined) return;
    close();
    document.getElementById("graph")?.scrollIntoView({ behavior: "smooth" });
    graph.focusNode(index);
  };
  const mark = () => {
    Array.from(list.children).forEach((item, at) => {
      item.setAttribute("aria-selected", String(at === current));
      if (at === current) item.scrollIntoView({ block: "nearest" });
    });
  };
  const update = () => {
    const { nodes } = report[graph.view];
    found = search(report[graph.view], input.value, MOST_FOUND);
    current = 0;
    const items = found.map((index) => {
      const node = nodes[index];
      const item = html(
        "li",
        { role: "option" },
        html("strong", {}, node?.op ?? ""),
        ` ${node?.name ?? ""}`,
      );
      // Before the field loses the focus, which closes the list.
      item.addEventListener("mousedown", (event) => {
        event.preventDefault();
        choose(index);
      });
      return item;
    });
    if (items.length === 0 && input.value.trim() !== "") {
      items.push(html("li", { class: "none" }, "no operator has this in its name"));
    }
    list.replaceChildren(...items);
    list.hidden = items.length === 0;
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark();
  };
  input.addEventListener("input", update);
  input.addEventListener("focus", update);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") choose(found[current]);
    else if (event.key === "Escape") close();
    else if (event.key === "ArrowDown") current = Math.min(current + 1, found.length - 1);
    else if (event.key === "ArrowUp") current = Math.max(current - 1, 0);
    else return;
    event.preventDefault();
    mark();
  });
  return html("div", { class: "search" }, input, list);
}
