import "./style.css";
import { colourKernels } from "./colours.ts";
import { Details } from "./details.ts";
import { button, html } from "./dom.ts";
import { bytes, plural, seconds } from "./format.ts";
import { GraphView } from "./graph_view.ts";
import { memoryPlan } from "./memory.ts";
import type { Level, Report } from "./report.ts";
import { roofline } from "./roofline.ts";
import { searchField } from "./search_field.ts";
import { KernelTable, levelTable } from "./tables.ts";

function readReport(): Report {
  const source = document.getElementById("report")?.textContent ?? "";
  return JSON.parse(source) as Report;
}

/** What fusion did, in three figures: without it, struck out, and with it. */
function summary(report: Report): HTMLElement {
  const level = (name: string) => report.levels.find((each) => each.level === name);
  const [before, after] = [level("none"), level(report.level)];
  const list = html("dl", { class: "summary" });
  if (!before || !after) return list;
  const moved = (each: Level) => each.read_bytes + each.written_bytes;
  const row = (name: string, from: string, to: string) => {
    const value = from === to ? [to] : [html("s", {}, from), " ", to];
    list.append(html("div", {}, html("dt", {}, name), html("dd", {}, ...value)));
  };
  row("kernels", String(before.kernels), String(after.kernels));
  row("read and written", bytes(moved(before)), bytes(moved(after)));
  if (before.seconds && after.seconds)
    row("a run", seconds(before.seconds), seconds(after.seconds));
  return list;
}

function conditions(report: Report): string {
  const sizes = Object.entries(report.sizes).map(([name, size]) => `${name} = ${size}`);
  const { target } = report;
  const parts = [
    `fusion ${report.level}`,
    ...sizes,
    ...(report.plan === "" ? [] : [report.plan]),
    target.model || target.name,
    plural(target.threads, "thread"),
  ];
  return parts.join(" · ");
}

function section(id: string, title: string, ...content: (Node | null)[]): HTMLElement {
  return html("section", { id }, html("h2", {}, title), ...content);
}

function themeButton(): HTMLElement {
  return button("◐", "Light or dark", () => {
    const { dataset } = document.documentElement;
    dataset.theme = (dataset.theme ?? systemTheme()) === "dark" ? "light" : "dark";
  });
}

function systemTheme(): "dark" | "light" {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function start(report: Report): void {
  document.title = `${report.model} · Opweld`;
  const colours = colourKernels(report.kernels);
  const details: Details = new Details(report, () => graph);
  const graph = new GraphView(report, colours, (selection) => details.show(selection));
  const toGraph = (kernel: number) => {
    document.getElementById("graph")?.scrollIntoView({ behavior: "smooth" });
    graph.focusKernel(kernel);
  };
  const table = new KernelTable(report, colours, toGraph);
  const links = [
    ["graph", "Graph"],
    ["levels", "Levels"],
    ["kernels", "Kernels"],
    ["roofline", "Roofline"],
    ["memory", "Memory"],
  ].map(([id, title]) => html("a", { href: `#${id}` }, title));
  const notes = report.notes.map((note) => html("li", {}, note));
  document.getElementById("page")?.replaceChildren(
    html(
      "header",
      {},
      html("h1", {}, report.model),
      html("nav", {}, ...links),
      searchField(report, graph),
      themeButton(),
    ),
    html("div", { class: "intro" }, html("p", {}, conditions(report)), summary(report)),
    html("section", { id: "graph" }, graph.element, details.element),
    section("levels", "What fusion saves, layer by layer", levelTable(report)),
    section("kernels", `Kernels`, table.element),
    section("roofline", "Roofline", roofline(report, colours, toGraph)),
    section(
      "memory",
      "Memory plan",
      memoryPlan(report, colours, () => {}),
    ),
    notes.length > 0 ? section("notes", "Notes of the compiler", html("ul", {}, ...notes)) : "",
    html("footer", {}, `Opweld ${report.opweld}`),
  );
  details.show({ what: "nothing" });
  graph.show("after");
}

start(readReport());
