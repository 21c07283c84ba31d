// Chart of lines over time, drawn by uPlot on a canvas. The values are also in the text above it.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";
import { uPlot } from "../../vendor/uplot.js";
import { colours } from "../../lib/theme.js";
import { clock, count } from "../../lib/text.js";

const HEIGHT = 150;

/** Names of the colours of lines, in the style sheet. */
const LINES = ["--line-0", "--line-1", "--line-2", "--line-3", "--line-4"];

/** Colour of a line. Names repeat after the last colour. */
const lineOf = (at) => LINES[at % LINES.length];

/** Draws a vertical line at each event. */
function marks(eventsOf, colour) {
  return {
    hooks: {
      draw: (plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.strokeStyle = colour;
        ctx.setLineDash([4, 4]);
        for (const { at } of eventsOf()) {
          const x = Math.round(plot.valToPos(at / 1000, "x", true));
          if (x < bbox.left || x > bbox.left + bbox.width) continue;
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        }
        ctx.restore();
      },
    },
  };
}

function optionsOf({ node, names, hover, eventsOf }) {
  const style = getComputedStyle(node);
  const colour = (name) => style.getPropertyValue(name).trim();
  const font = `12px ${style.fontFamily}`;
  const axis = {
    stroke: colour("--quiet"),
    font,
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const lines = names.map((name, at) => ({
    label: name,
    stroke: colour(lineOf(at)),
    width: 1.6,
    fill: at === 0 && names.length <= 2 ? colour("--soft") : undefined,
    points: { show: false },
  }));
  return {
    width: Math.max(node.clientWidth, 80),
    height: HEIGHT,
    legend: { show: false },
    // The charts of a page show the values at the same time.
    cursor: { sync: { key: "charts" }, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: (_, min, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, values: "{HH}:{mm}:{ss}", space: 70 },
      { ...axis, size: 52, space: 30, values: (_, all) => all.map(short) },
    ],
    series: [{}, ...lines],
    hooks: { setCursor: [(plot) => hover(plot.cursor.idx ?? null)] },
    plugins: [marks(eventsOf, colour("--warn"))],
  };
}

/** Number in a few characters. */
function short(value) {
  if (value >= 1e6) return `${count(value / 1e6)}M`;
  if (value >= 1e4) return `${count(value / 1e3)}k`;
  return String(Number(value.toPrecision(3)));
}

const timeOf = (value) => clock(value * 1000);

/**
 * Card with a chart. `times` are seconds since 1970, and `lines` contains `{ name, values }` with one value for each
 * time. `events` are drawn as vertical lines.
 */
export function Chart({ title, unit, times, lines, events, isTimeOfDay }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [at, hover] = useState(null);
  const latest = useRef({});
  latest.current = { times, lines, events };
  const names = lines.map(({ name }) => name).join("\n");
  const theme = colours.value;

  useLayoutEffect(() => {
    const node = place.current;
    const options = optionsOf({
      node,
      names: latest.current.lines.map(({ name }) => name),
      hover,
      eventsOf: () => latest.current.events,
    });
    if (!isTimeOfDay) options.axes[0].values = (_, all) => all.map((value) => clock(value * 1000).slice(0, 5));
    const made = new uPlot(options, dataOf(latest.current), node);
    plot.current = made;
    const sizes = new ResizeObserver(() => made.setSize({ width: Math.max(node.clientWidth, 80), height: HEIGHT }));
    sizes.observe(node);
    return () => {
      sizes.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, theme, isTimeOfDay]);

  useEffect(() => {
    plot.current?.setData(dataOf(latest.current));
  }, [times, lines, events]);

  const move = (to) => {
    const x = plot.current.valToPos(times[Math.max(0, Math.min(to, times.length - 1))], "x");
    plot.current.setCursor({ left: x, top: HEIGHT / 2 });
  };
  const leave = () => plot.current?.setCursor({ left: -10, top: -10 });
  const press = (event) => {
    const steps = {
      ArrowLeft: () => move((at ?? times.length) - 1),
      ArrowRight: () => move((at ?? times.length - 2) + 1),
      Home: () => move(0),
      End: () => move(times.length - 1),
    };
    const step = steps[event.key];
    if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    step();
  };

  const shownAt = at !== null && at < times.length ? at : times.length - 1;
  const value = ({ values }) => {
    const found = values[shownAt];
    return found === null || found === undefined ? "–" : count(found);
  };
  const points = lines.reduce((sum, { values }) => sum + values.filter((one) => one !== null).length, 0);
  const summary = `${title}: ${lines.map((line) => `${line.name} ${value(line)} ${unit}`).join(", ")}; ${count(points)} values`;
  return html`
    <section class="card" aria-label=${title}>
      <h2>${title} ${at !== null && times[shownAt] && html`<span class="at">at ${timeOf(times[shownAt])}</span>`}</h2>
      <p class="now">
        ${lines.map(
          (line, index) => html`
            <span key=${line.name} class=${`figure figure-${index % LINES.length}`}><b>${value(line)}</b> ${unit}${unit && " "}${line.name}</span>
          `,
        )}
      </p>
      <div ref=${place} class="chart" role="img" tabindex="0" aria-label=${summary} onKeyDown=${press} onBlur=${leave}></div>
    </section>
  `;
}

function dataOf({ times, lines }) {
  return [times, ...lines.map(({ values }) => values)];
}
