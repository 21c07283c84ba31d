// Charts of a time range, for this member or for all members.

import { html, useRef, useState } from "../../vendor/preact.js";
import { ensemble, local, nameOf, useRefresh } from "../../lib/state.js";
import { Choice } from "../../lib/ui.js";
import { Chart } from "./chart.js";
import { CHARTS, Kept, RANGES } from "./figures.js";

/** Events that the charts mark. */
const isElection = ({ text }) => /elected|does not lead/.test(text);

/** Members whose figures are shown: this one, or all that answer. `null` is this member. */
function shownMembers(isForAll) {
  const all = ensemble.peek()?.members ?? [];
  const own = all.find((row) => row.is_own);
  const others = isForAll ? all.filter((row) => !row.is_own && !row.problem && row.member !== null) : [];
  return [{ id: null, name: own ? nameOf(own) : "this server" }, ...others.map((row) => ({ id: row.member, name: nameOf(row) }))];
}

/** Lines of a chart. With several members, each has one line with the first series. */
function linesOf(series, shown) {
  if (shown.length === 1) {
    return Object.entries(series).map(([name, kept]) => ({ name, values: shown[0].kept.values(kept) }));
  }
  const [name, first] = Object.entries(series)[0];
  return shown.map(({ name: member, kept }) => ({ name: `${name} of ${member}`, values: kept.values(first) }));
}

/** Section with the charts. */
export function Charts() {
  const [name, choose] = useState("minutes");
  const [whose, select] = useState("own");
  const [drawn, draw] = useState(null);
  const known = useRef(new Map());
  const range = RANGES[name];

  useRefresh(
    async (signal) => {
      const wanted = shownMembers(whose === "all").map((member) => {
        const key = `${name} ${member.id}`;
        if (!known.current.has(key)) known.current.set(key, new Kept(range, member.id));
        return { ...member, kept: known.current.get(key) };
      });
      const [own, ...others] = await Promise.allSettled(wanted.map(({ kept }) => kept.load(signal)));
      if (signal.aborted) return;
      if (own.status === "rejected") throw own.reason;
      const shown = wanted.filter((_, at) => at === 0 || others[at - 1].status === "fulfilled");
      const times = wanted[0].kept.times();
      const events = (ensemble.peek()?.events ?? []).filter(isElection).map(({ at }) => ({ at: local(at) }));
      draw({ times, events, charts: CHARTS.map(([title, unit, series]) => ({ title, unit, lines: linesOf(series, shown) })) });
    },
    [name, whose],
  );

  const ranges = Object.entries(RANGES).map(([key, { label }]) => [key, label]);
  const members = [
    ["own", "this member"],
    ["all", "all members"],
  ];
  return html`
    <div class="tools">
      <${Choice} label="Charts of the last" options=${ranges} value=${name} onchange=${choose} />
      <${Choice} label="for" options=${members} value=${whose} onchange=${select} />
      <p class="quiet">Dashed lines mark elections. Point at a chart, or move in it with the arrow keys, to see the values at a time.</p>
    </div>
    <div class="cards">
      ${drawn?.charts.map(
        ({ title, unit, lines }) => html`
          <${Chart}
            key=${title}
            title=${title}
            unit=${unit}
            lines=${lines}
            times=${drawn.times}
            events=${drawn.events}
            isTimeOfDay=${name === "minutes"}
          />
        `,
      )}
    </div>
  `;
}
