// Lines over time, drawn as SVG.

import { count, h, svg } from "./dom.js";

const WIDTH = 320;
const HEIGHT = 96;
const TOP = 6;

/** Values at equal distances, the newest last. */
export class Series {
  constructor(length) {
    this.length = length;
    this.clear();
  }

  clear() {
    this.values = Array.from({ length: this.length }, () => null);
  }

  push(value) {
    this.values.shift();
    this.values.push(value);
  }

  get last() {
    return this.values.at(-1);
  }
}

/** The next round number. */
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

function points(values, max) {
  const step = WIDTH / (values.length - 1);
  const runs = [[]];
  values.forEach((value, at) => {
    if (value === null) {
      if (runs.at(-1).length > 0) runs.push([]);
      return;
    }
    const y = HEIGHT - (value / max) * (HEIGHT - TOP);
    runs.at(-1).push([(at * step).toFixed(1), y.toFixed(1)]);
  });
  return runs.filter((run) => run.length > 0);
}

function path(run) {
  return `M${run.map((point) => point.join(",")).join("L")}`;
}

/** A card with a chart of one or two lines: `[{ name, series }]`, the first one filled. */
export function chart(title, unit, lines) {
  const picture = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT + 1}`,
    preserveAspectRatio: "none",
    role: "img",
    class: "chart",
  });
  const top = h("span", { class: "scale" });
  const now = h("p", { class: "now" });
  const card = h(
    "section",
    { class: "card" },
    h("h2", {}, title),
    now,
    h("div", { class: "plot" }, picture, top),
  );
  const draw = () => {
    const all = lines.flatMap(({ series }) => series.values).filter((value) => value !== null);
    const max = ceiling(Math.max(0, ...all));
    const drawn = [
      svg("line", { x1: 0, x2: WIDTH, y1: TOP, y2: TOP, class: "grid" }),
      svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT, class: "grid" }),
    ];
    lines.forEach(({ series }, index) => {
      for (const run of points(series.values, max)) {
        if (index === 0) {
          const area = `${path(run)}L${run.at(-1)[0]},${HEIGHT}L${run[0][0]},${HEIGHT}Z`;
          drawn.push(svg("path", { d: area, class: "area" }));
        }
        drawn.push(svg("path", { d: path(run), class: `line line-${index}` }));
      }
    });
    picture.replaceChildren(...drawn);
    top.textContent = `${count(max)} ${unit}`;
    const said = lines.map(({ name, series }) => [name, series.last === null ? "–" : count(series.last)]);
    picture.setAttribute("aria-label", `${title}: ${said.map((pair) => pair.join(" ")).join(", ")} ${unit}`);
    now.replaceChildren(
      ...said.map(([name, value], index) =>
        h("span", { class: `figure figure-${index}` }, h("b", {}, value), ` ${unit}${unit ? " " : ""}${name}`),
      ),
    );
  };
  draw();
  return { card, draw };
}
