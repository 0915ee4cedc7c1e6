import { button, html } from "./dom.ts";
import { begin, bytes, count, flops, seconds } from "./format.ts";
import { layerName, layerRows } from "./layers.ts";
import type { Kernel, Report, Traffic } from "./report.ts";
import { boundBy, floorOf } from "./roof.ts";

/** Rows of the kernel table until somebody asks for all. */
const FIRST_ROWS = 60;
/** Characters of a label; all of it is in the title. */
const MOST_LABEL = 110;

interface Column {
  title: string;
  hint: string;
  /** What the column is sorted by; absent: it has no figure for the kernel. */
  key: (kernel: Kernel, index: number) => number | string | undefined;
  text: (kernel: Kernel, index: number) => string;
  number: boolean;
}

/** All kernels with their figures, sorted by any of them. */
export class KernelTable {
  readonly element: HTMLElement;
  readonly #report: Report;
  readonly #colours: number[];
  readonly #onChoose: (kernel: number) => void;
  readonly #body = html("tbody");
  readonly #more = html("p", { class: "more" });
  readonly #columns: Column[];
  readonly #heads: HTMLTableCellElement[];
  #sorted = 0;
  #downwards = false;
  #all = false;

  constructor(report: Report, colours: number[], onChoose: (kernel: number) => void) {
    this.#report = report;
    this.#colours = colours;
    this.#onChoose = onChoose;
    this.#columns = columnsFor(report);
    this.#heads = this.#columns.map((column, index) => {
      const sort = button(column.title, column.hint, () => this.#sortBy(index));
      return html("th", { scope: "col", class: column.number ? "number" : undefined }, sort);
    });
    const head = html("thead", {}, html("tr", {}, ...this.#heads));
    const table = html("table", { class: "kernels" }, head, this.#body);
    this.element = html("div", {}, html("div", { class: "wide" }, table), this.#more);
    this.#fill();
  }

  #sortBy(index: number): void {
    const column = this.#columns[index];
    if (!column) return;
    this.#downwards = this.#sorted === index ? !this.#downwards : column.number && index > 0;
    this.#sorted = index;
    this.#fill();
  }

  #fill(): void {
    const column = this.#columns[this.#sorted];
    const order = this.#report.kernels.map((kernel, index) => ({ kernel, index }));
    if (column) {
      const sign = this.#downwards ? -1 : 1;
      order.sort((a, b) => {
        const [left, right] = [column.key(a.kernel, a.index), column.key(b.kernel, b.index)];
        if (left === undefined || right === undefined) return left === right ? 0 : left ? -1 : 1;
        return left === right ? 0 : left < right ? -sign : sign;
      });
    }
    this.#heads.forEach((head, index) => {
      const here = index === this.#sorted;
      const sort = here ? (this.#downwards ? "descending" : "ascending") : "none";
      head.setAttribute("aria-sort", sort);
    });
    const shown = this.#all ? order : order.slice(0, FIRST_ROWS);
    this.#body.replaceChildren(...shown.map(({ kernel, index }) => this.#row(kernel, index)));
    this.#more.replaceChildren();
    if (shown.length < order.length) {
      const all = `Show all ${count(order.length)} kernels`;
      this.#more.append(
        button(all, "", () => {
          this.#all = true;
          this.#fill();
        }),
      );
    }
  }

  #row(kernel: Kernel, index: number): HTMLTableRowElement {
    const cells = this.#columns.map((column, at) => {
      const text = column.text(kernel, index);
      if (at !== 1) return html("td", { class: column.number ? "number" : undefined }, text);
      const style = `--colour: var(--kernel-${this.#colours[index]})`;
      const swatch = html("span", { class: "swatch", style });
      const show = button(begin(text, MOST_LABEL), text, () => this.#onChoose(index));
      show.classList.add("link");
      return html("td", {}, html("div", { class: "label" }, swatch, show));
    });
    return html("tr", {}, ...cells);
  }
}

function columnsFor(report: Report): Column[] {
  const { target } = report;
  const moved = (kernel: Kernel) => kernel.read_bytes + kernel.written_bytes;
  const figure = (
    title: string,
    hint: string,
    key: (kernel: Kernel) => number | undefined,
    text: (value: number) => string,
  ): Column => ({
    title,
    hint,
    key,
    text: (kernel) => {
      const value = key(kernel);
      return value === undefined ? "" : text(value);
    },
    number: true,
  });
  const total = report.kernels.reduce((sum, kernel) => sum + (kernel.seconds ?? 0), 0);
  const columns: Column[] = [
    {
      title: "#",
      hint: "In the order in which they run",
      key: (_, index) => index,
      text: (_, index) => String(index),
      number: true,
    },
    {
      title: "kernel",
      hint: "Its operators",
      key: (kernel) => kernel.label,
      text: (kernel) => kernel.label,
      number: false,
    },
    {
      title: "layer",
      hint: "The layer of the model that all its operators belong to",
      key: (kernel) => kernel.layer,
      text: (kernel) => kernel.layer,
      number: false,
    },
    {
      title: "schedule",
      hint: "The family of loops that it is made with",
      key: (kernel) => kernel.kind,
      text: (kernel) => kernel.kind,
      number: false,
    },
    figure("read", "Each tensor that it reads, once", (each) => each.read_bytes, bytes),
    figure("written", "Each tensor that it writes, once", (each) => each.written_bytes, bytes),
    figure("computes", "Floating-point operations", (each) => each.flops, flops),
    figure(
      "flop/byte",
      "Arithmetic intensity",
      (each) => (moved(each) > 0 ? each.flops / moved(each) : undefined),
      (value) => value.toFixed(value < 10 ? 2 : 0),
    ),
  ];
  if (report.repeats > 0) {
    columns.push(
      figure("time", `Median of ${report.repeats} runs`, (each) => each.seconds, seconds),
      figure(
        "share",
        "Of the time of all kernels",
        (each) => (each.seconds === undefined ? undefined : each.seconds / total),
        (value) => `${(100 * value).toFixed(1)} %`,
      ),
      figure(
        "of the roof",
        "The least time by the machine's limits as a part of the time that it took; more than " +
          "100 % where data stays in a cache, or little of a table is looked up",
        (each) => (each.seconds ? floorOf(target, each) / each.seconds : undefined),
        (value) => `${(100 * value).toFixed(0)} %`,
      ),
    );
  }
  columns.push({
    title: "bound by",
    hint: "What its least time is for",
    key: (kernel) => boundBy(target, kernel),
    text: (kernel) => boundBy(target, kernel),
    number: false,
  });
  return columns;
}

/** Kernels and bytes of each layer at each level of fusion. */
export function levelTable(report: Report): HTMLElement {
  const { levels } = report;
  const timed = levels.some((level) => level.seconds !== undefined);
  const names: Record<string, string> = {
    none: "none",
    ops: "ops: inside operators",
    auto: "auto: and between them",
  };
  const heads = levels.map((level) =>
    html(
      "th",
      { scope: "colgroup", colspan: 3, class: "level" },
      names[level.level] ?? level.level,
    ),
  );
  const subheads = levels.flatMap(() =>
    ["kernels", "read", "written"].map((text) =>
      html("th", { scope: "col", class: "number" }, text),
    ),
  );
  const body = layerRows(levels).map((row) =>
    html(
      "tr",
      {},
      html("th", { scope: "row" }, layerName(row)),
      ...levels.flatMap((level) => trafficCells(row.traffic.get(level.level))),
    ),
  );
  const totals = html(
    "tr",
    { class: "total" },
    html("th", { scope: "row" }, "whole model"),
    ...levels.flatMap((level) => trafficCells(level)),
  );
  const times = html(
    "tr",
    {},
    html("th", { scope: "row" }, `time of a run, median of ${report.repeats}`),
    ...levels.map((level) =>
      html("td", { class: "number", colspan: 3 }, level.seconds ? seconds(level.seconds) : ""),
    ),
  );
  return html(
    "div",
    { class: "wide" },
    html(
      "table",
      { class: "levels" },
      html(
        "thead",
        {},
        html("tr", {}, html("td"), ...heads),
        html("tr", {}, html("td"), ...subheads),
      ),
      html("tbody", {}, ...body),
      html("tfoot", {}, totals, timed ? times : null),
    ),
  );
}

function trafficCells(traffic: Traffic | undefined): HTMLElement[] {
  const texts = traffic
    ? [count(traffic.kernels), bytes(traffic.read_bytes), bytes(traffic.written_bytes)]
    : ["", "", ""];
  return texts.map((text) => html("td", { class: "number" }, text));
}
