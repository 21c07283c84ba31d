// The log of the last minutes.

import { json, visit } from "./ask.js";
import { h, show, visible } from "./dom.js";

/** The view. */
export function log(place) {
  const lines = h("pre", { class: "log", tabindex: "0", role: "region", "aria-label": "Log lines" });
  const about = h("p", { class: "quiet" });
  const filter = h("input", { type: "search", oninput: () => draw() });
  let all = [];
  show(
    place,
    h("h1", {}, "Log"),
    h("div", { class: "tools" }, h("label", { class: "inline" }, "Lines with ", filter), about),
    lines,
  );

  function levelOf(line) {
    return / (ERROR|WARN|INFO|DEBUG|TRACE) /.exec(line)?.[1].toLowerCase() ?? "info";
  }

  function draw() {
    const wanted = filter.value.toLowerCase();
    const found = all.filter((line) => line.toLowerCase().includes(wanted));
    const isAtEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 8;
    show(lines, found.map((line) => h("span", { class: `level-${levelOf(line)}` }, `${visible(line)}\n`)));
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
  }

  return {
    async refresh() {
      if (visit.user === null) {
        all = [];
        draw();
        about.textContent = "The log contains clients and paths. Log in as an administrator to read it.";
        return;
      }
      try {
        const answer = await json("log");
        about.textContent = `Lines since the start of the server: the last ${answer.lines.length} are stored, ${answer.lost} older ones are not.`;
        all = answer.lines;
      } catch (error) {
        about.textContent = error.message;
        all = [];
      }
      draw();
    },
  };
}
