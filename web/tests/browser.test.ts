/**
 * The page in a real browser: reports of real models, made by `python -m tests.python.web_reports`,
 * which `./dev test web` runs first. Pictures of what was seen are left beside the reports.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { type Browser, chromium, type Locator, type Page } from "playwright-core";
import type { Report } from "../src/report.ts";
import { LEGIBLE } from "../src/tree.ts";

const FOLDER = join(import.meta.dirname, "../../build/web-tests");
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** For what takes the layout engine a while where the machine is busy. */
const PATIENCE = 120_000;

let browser: Browser;

before(async () => {
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: FLAGS });
});

after(async () => {
  await browser?.close();
});

interface Opened {
  page: Page;
  report: Report;
  /** What the browser complained of. */
  complaints: string[];
  /** What was asked for beside the file itself. */
  requests: string[];
}

async function open(name: string, colorScheme: "light" | "dark" = "light"): Promise<Opened> {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 }, colorScheme });
  page.setDefaultTimeout(PATIENCE);
  const complaints: string[] = [];
  const requests: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  const url = pathToFileURL(join(FOLDER, `${name}.html`)).href;
  page.on("request", (request) => {
    // A blob or a data address is part of the page.
    if (request.url() !== url && !/^(blob|data):/.test(request.url())) requests.push(request.url());
  });
  await page.goto(url);
  await settled(page);
  return { page, report: await reportIn(page), complaints, requests };
}

function reportIn(page: Page): Promise<Report> {
  return page.evaluate(() => JSON.parse(document.getElementById("report")?.textContent ?? ""));
}

/** Waits until the graph that was asked for is drawn. */
async function settled(page: Page): Promise<void> {
  await page.locator('.graph[aria-busy="false"]').waitFor();
}

/** Clicks the first of the lines that can be seen, somewhere on it. */
async function clickLine(page: Page, lines: Locator): Promise<string> {
  const spot = await lines.evaluateAll((groups) => {
    for (const group of groups) {
      const path = group.querySelector("path");
      const matrix = path?.getScreenCTM();
      if (!path || !matrix) continue;
      for (const part of [0.5, 0.3, 0.7, 0.15, 0.85]) {
        const at = path.getPointAtLength(path.getTotalLength() * part).matrixTransform(matrix);
        const hit = document.elementFromPoint(at.x, at.y);
        if (hit?.closest(".link") !== group) continue;
        return { x: at.x, y: at.y, id: group.getAttribute("data-link") ?? "" };
      }
    }
    return undefined;
  });
  assert.ok(spot, "no such line can be seen");
  await page.mouse.click(spot.x, spot.y);
  return spot.id;
}

async function picture(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: join(FOLDER, `${name}.png`), fullPage: true });
}

function scaleOf(page: Page): Promise<number> {
  return page.locator(".graph-canvas > g").evaluate((group) => {
    return Number(/scale\(([^)]+)\)/.exec(group.getAttribute("transform") ?? "")?.[1] ?? 1);
  });
}

describe("the report of an encoder", () => {
  let opened: Opened;
  before(async () => {
    opened = await open("encoder");
  });

  test("says what the document says", async () => {
    const { page, report } = opened;
    const auto = report.levels.find((level) => level.level === "auto");
    const none = report.levels.find((level) => level.level === "none");
    assert.ok(auto && none && auto.kernels < none.kernels);
    assert.equal(auto.kernels, report.kernels.length);
    const summary = await page.locator(".summary").innerText();
    assert.match(summary, new RegExp(`${none.kernels}\\s+${auto.kernels}`));
    assert.equal(await page.locator("h1").innerText(), report.model);
    await picture(page, "encoder");
  });

  test("a kernel that fused operators is a box of its colour", async () => {
    const { page } = opened;
    const boxes = page.locator(".box.kernel");
    assert.ok((await boxes.count()) > 0);
    const fill = await boxes
      .first()
      .locator("rect")
      .first()
      .evaluate((each) => {
        return getComputedStyle(each).fill;
      });
    assert.notEqual(fill, "none");
  });

  test("a click on an edge that was kept tells the reason and what to do", async () => {
    const { page, report } = opened;
    await clickLine(page, page.locator(".link.kept"));
    const details = page.locator(".details");
    const code = /kept \[(F-[A-Z-]+)\]/.exec(await details.innerText())?.[1];
    assert.ok(code, await details.innerText());
    const reason = report.reasons[code];
    assert.ok(reason);
    assert.ok((await details.innerText()).includes(reason.sentence));
    assert.ok((await details.innerText()).includes(reason.remedy));
    assert.equal(await page.locator(".link.selected").count(), 1);
  });

  test("the verdict is that of the edge that was clicked", async () => {
    const { page, report } = opened;
    const link = await clickLine(page, page.locator(".link.kept"));
    const [, from, to] = /^kernel:(\d+)>kernel:(\d+)$/.exec(link) ?? [];
    assert.ok(from && to, link);
    const { nodes, edges } = report.after;
    const expected = edges.filter((edge) => {
      const ends = [nodes[edge.from]?.kernel, nodes[edge.to]?.kernel];
      return ends[0] === Number(from) && ends[1] === Number(to);
    });
    assert.ok(expected.length > 0);
    assert.equal(await page.locator(".details .edge").count(), expected.length);
    const first = expected[0];
    const ends = await page.locator(".details .ends").first().innerText();
    assert.ok(first && ends.includes(begin(nodes[first.from]?.name)), ends);
  });

  test("a box that is opened shows what was fused in it", async () => {
    const { page } = opened;
    const holder = page.locator(".box.kernel.closed").first();
    const id = await holder.getAttribute("data-box");
    await holder.locator(".chevron").click();
    await settled(page);
    const box = page.locator(`.box.open[data-box="${id}"]`);
    const [frame, title] = await Promise.all(
      ["rect", "text.title"].map((part) => box.locator(part).first().boundingBox()),
    );
    assert.ok(frame && title && title.x + title.width <= frame.x + frame.width);
    await clickLine(page, page.locator(".link.fused"));
    assert.match(await page.locator(".details").innerText(), /fused.*less to write and read/s);
  });

  test("an operator is found by its name, shown and told of", async () => {
    const { page, report } = opened;
    const wanted = report.after.nodes.findLast((node) => node.name.includes("MatMul"));
    assert.ok(wanted);
    await page.locator("input[type=search]").fill(wanted.name);
    await page.keyboard.press("Enter");
    await page.locator(".box.node.selected").waitFor();
    await settled(page);
    const box = await page.locator(".box.node.selected").boundingBox();
    const canvas = await page.locator(".graph-canvas").boundingBox();
    assert.ok(box && canvas);
    assert.ok(box.y >= canvas.y && box.y + box.height <= canvas.y + canvas.height);
    assert.ok((await page.locator(".details .name").innerText()).includes(wanted.name));
  });

  test("a search without result says so", async () => {
    const { page } = opened;
    await page.locator("input[type=search]").fill("no such operator");
    assert.equal(await page.locator("#found li.none").count(), 1);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#found").isVisible(), false);
  });

  test("wheel and buttons zoom", async () => {
    const { page } = opened;
    await page.evaluate(() => scrollTo(0, 0));
    const canvas = await page.locator(".graph-canvas").boundingBox();
    assert.ok(canvas);
    const begun = await scaleOf(page);
    await page.mouse.move(canvas.x + canvas.width / 2, canvas.y + canvas.height / 2);
    await page.mouse.wheel(0, 300);
    await page.waitForFunction(
      (old) =>
        !document
          .querySelector(".graph-canvas > g")
          ?.getAttribute("transform")
          ?.includes(`scale(${old})`),
      begun,
    );
    const smaller = await scaleOf(page);
    assert.ok(smaller < begun, `${smaller} < ${begun}`);
    await page.getByRole("button", { name: "+", exact: true }).click();
    assert.ok((await scaleOf(page)) > smaller);
    await page.getByRole("button", { name: "Fit" }).click();
    const drawing = await page.locator(".graph-canvas > g").boundingBox();
    assert.ok(drawing);
    assert.ok(drawing.y >= canvas.y - 2);
    assert.ok(drawing.y + drawing.height <= canvas.y + canvas.height + 2);
  });

  test("the graph before fusion has the operators of the model", async () => {
    const { page, report } = opened;
    await page.getByRole("button", { name: "Before" }).click();
    await settled(page);
    const operators = report.before.nodes.filter((node) => node.fate !== "edge");
    const shown = operators.filter((node) => node.fate !== "folded").length;
    assert.match(await page.locator(".status").innerText(), new RegExp(`^${shown} operators`));
    await picture(page, "encoder-before");
    await page.getByLabel("sizes and constants").check();
    await settled(page);
    const all = operators.length;
    assert.match(await page.locator(".status").innerText(), new RegExp(`^${all} operators`));
    await page.getByRole("button", { name: "After" }).click();
    await settled(page);
  });

  test("the kernel table has every kernel and sorts", async () => {
    const { page, report } = opened;
    const rows = page.locator("table.kernels tbody tr");
    assert.equal(await rows.count(), report.kernels.length);
    await page.locator("table.kernels th").getByText("time", { exact: true }).click();
    const slowest = report.kernels.reduce((best, kernel, index) => {
      return (kernel.seconds ?? 0) > (report.kernels[best]?.seconds ?? 0) ? index : best;
    }, 0);
    assert.equal(await rows.first().locator("td").first().innerText(), String(slowest));
    await rows.first().locator("button").click();
    await page.locator(".box.kernel.selected").waitFor();
    assert.equal(await page.locator(".details h3").innerText(), report.kernels[slowest]?.name);
  });

  test("the roofline has the kernels that compute, the memory plan every block", async () => {
    const { page, report } = opened;
    const computing = report.kernels.filter((kernel) => kernel.flops > 0).length;
    assert.equal(await page.locator(".roofline .dot").count(), computing);
    const blocks = report.memory.blocks.filter((block) => block.bytes > 0);
    assert.equal(await page.locator(".memory .block").count(), blocks.length);
    const size = (block: (typeof blocks)[number]) => block.bytes * (block.last + 1 - block.first);
    const sorted = blocks.toSorted((a, b) => size(b) - size(a));
    for (const [at, block] of [[0, sorted[0]] as const, [-1, sorted.at(-1)] as const]) {
      await page.locator(".memory .block").nth(at).click();
      const told = await page.locator(".chosen").innerText();
      assert.ok(told.includes(block?.name ?? "?"), told);
    }
  });

  test("the table of levels has all layers, equal ones as one row", async () => {
    const { page, report } = opened;
    const table = await page.locator("table.levels").innerText();
    // Kernels reach over from one layer into the next, so the first and the last, which have another
    // operator before them or none behind, have figures of their own.
    assert.match(table, /layer\.1 … .*layer\.4 \(4 equal\)/);
    for (const end of ["layer.0", "layer.5"]) assert.ok(table.includes(end), end);
    for (const level of report.levels) {
      assert.ok(table.includes(level.kernels.toLocaleString("en")), level.level);
    }
  });

  test("there was no complaint, and no request left the file", () => {
    assert.deepEqual(opened.complaints, []);
    assert.deepEqual(opened.requests, []);
  });
});

function begin(name: string | undefined): string {
  return (name ?? "").slice(0, 40);
}

test("dark where the system is dark, and by the button", async () => {
  const { page, complaints } = await open("encoder", "dark");
  const brightness = () =>
    page.evaluate(() => {
      const canvas = document.createElement("canvas").getContext("2d");
      if (!canvas) return -1;
      canvas.fillStyle = getComputedStyle(document.documentElement).backgroundColor;
      canvas.fillRect(0, 0, 1, 1);
      return canvas.getImageData(0, 0, 1, 1).data[0] ?? -1;
    });
  assert.ok((await brightness()) < 60);
  await picture(page, "encoder-dark");
  await page.getByRole("button", { name: "◐" }).click();
  assert.ok((await brightness()) > 200);
  assert.deepEqual(complaints, []);
  await page.close();
});

test("two thousand operators stay usable", async (t) => {
  const begun = performance.now();
  const { page, report, complaints, requests } = await open("large");
  t.diagnostic(`shown after ${Math.round(performance.now() - begun)} ms`);
  const operators = report.before.nodes.filter((node) => node.fate !== "edge");
  assert.ok(operators.length >= 2000);
  assert.ok((await page.locator(".box.closed, .box.node").count()) <= LEGIBLE);
  await picture(page, "large");
  const wanted = report.after.nodes.at(-10);
  assert.ok(wanted);
  await page.locator("input[type=search]").fill(wanted.name);
  await page.keyboard.press("Enter");
  await page.locator(".box.selected").waitFor();
  assert.ok((await page.locator(".details .name").innerText()).includes(wanted.name));
  const opening = performance.now();
  await page.getByRole("button", { name: "Open all" }).click();
  await settled(page);
  t.diagnostic(`all open after ${Math.round(performance.now() - opening)} ms`);
  assert.equal(await page.locator(".box.node").count(), report.after.nodes.length);
  await page.getByRole("button", { name: "Fit" }).click();
  await page.screenshot({ path: join(FOLDER, "large-open.png") });
  assert.deepEqual(complaints, []);
  assert.deepEqual(requests, []);
  await page.close();
});

test("names that are markup stay names", async () => {
  const { page, report, complaints, requests } = await open("hostile");
  const name = report.before.nodes.find((node) => node.name.includes("<img"))?.name;
  assert.ok(name);
  // In the file the name is not to be found as it is.
  assert.ok(!readFileSync(join(FOLDER, "hostile.html"), "utf8").includes("<img"));
  await page.getByRole("button", { name: "Before" }).click();
  await settled(page);
  await page.locator("input[type=search]").fill("<img");
  assert.ok((await page.locator("#found").innerText()).includes(name));
  await page.keyboard.press("Enter");
  await page.locator(".box.selected").waitFor();
  assert.ok((await page.locator(".details .name").innerText()).includes(name));
  assert.equal(await page.locator("img").count(), 0);
  assert.deepEqual(complaints, []);
  assert.deepEqual(requests, []);
  await page.close();
});

test("a report without measurements has no times, and says so", async () => {
  const { page, report, complaints } = await open("unmeasured");
  assert.equal(report.repeats, 0);
  assert.equal(
    await page.locator("table.kernels th").getByText("time", { exact: true }).count(),
    0,
  );
  assert.match(await page.locator("#roofline").innerText(), /Nothing was measured/);
  assert.deepEqual(complaints, []);
  await page.close();
});
