// Elements, and text that is nothing but text. No markup is ever made from a string here.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
  return node;
}

/** An element with attributes, listeners (`onclick`) and children. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same of a drawing. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Replaces what is in an element. */
export function show(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}

const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu;

/** Text whose control characters and marks of direction can be seen and do nothing. */
export function visible(text) {
  return text.replace(INVISIBLE, (mark) => {
    const code = mark.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** The same on one line. */
export function oneLine(text) {
  return visible(text).replaceAll("\n", "\u240a").replaceAll("\t", "\u2409");
}

/** Bytes for people. */
export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = count;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** A number with its thousands apart. */
export function count(value) {
  return Number(value).toLocaleString("en-US", { maximumFractionDigits: 1 });
}

/** A moment in the reader's time zone. */
export function moment(ms) {
  if (!ms || ms <= 0) return "never";
  const date = new Date(ms);
  const pad = (value) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** The time of day, or the whole moment on another day. */
export function clock(ms) {
  const text = moment(ms);
  const [day] = moment(Date.now()).split(" ");
  return text.startsWith(`${day} `) ? text.slice(day.length + 1) : text;
}

/** A span of time. */
export function duration(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** A table: heads, and rows of cells (text or elements). */
export function table(caption, heads, rows, empty) {
  const line = (cells) =>
    h("tr", {}, cells.map((cell, at) => h(at === 0 ? "th" : "td", at === 0 ? { scope: "row" } : {}, cell)));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h(
        "tbody",
        {},
        rows.length > 0
          ? rows.map(line)
          : h("tr", {}, h("td", { colspan: heads.length, class: "quiet" }, empty ?? "none")),
      ),
    ),
  );
}

/** Makes an element show parts: texts, or `{ text, class, title, href }`. Does not touch unchanged parts. */
function patch(node, parts) {
  const wanted = [parts].flat().map((part) => (typeof part === "object" ? part : { text: part }));
  wanted.forEach((part, at) => {
    const tag = part.href ? "A" : "SPAN";
    let child = node.children[at];
    if (child?.tagName !== tag) {
      const fresh = h(tag.toLowerCase());
      if (child) child.replaceWith(fresh);
      else node.append(fresh);
      child = fresh;
    }
    if (child.textContent !== String(part.text)) child.textContent = part.text;
    for (const name of ["class", "title", "href"]) {
      if (!part[name]) child.removeAttribute(name);
      else if (child.getAttribute(name) !== part[name]) child.setAttribute(name, part[name]);
    }
  });
  while (node.children.length > wanted.length) node.lastElementChild.remove();
}

/** Makes these nodes the children of an element. Does not touch nodes that stay, so they keep the focus. */
export function arrange(place, wanted) {
  const kept = new Set(wanted);
  for (const child of [...place.children]) if (!kept.has(child)) child.remove();
  wanted.forEach((node, at) => {
    if (place.children[at] !== node) place.insertBefore(node, place.children[at] ?? null);
  });
}

/** The nodes of these keys. Creates missing nodes, and forgets others. */
function nodesOf(known, keys, make) {
  const wanted = new Set(keys);
  for (const key of known.keys()) if (!wanted.has(key)) known.delete(key);
  for (const key of keys) if (!known.has(key)) known.set(key, make());
  return keys.map((key) => known.get(key));
}

/** A table that changes in place, so that focus and selection survive. `update` gets rows `{ key, class, cells }`. */
export function liveTable(caption, heads) {
  const box = table(caption, heads, [["", ...heads.slice(1).map(() => "")]]);
  const body = box.querySelector("tbody");
  body.replaceChildren();
  const nodes = new Map();
  const make = () => h("tr", {}, heads.map((_, at) => (at === 0 ? h("th", { scope: "row" }) : h("td"))));
  return {
    box,
    update(rows) {
      arrange(body, nodesOf(nodes, rows.map((row) => row.key), make));
      for (const row of rows) {
        const node = nodes.get(row.key);
        node.className = row.class ?? "";
        row.cells.forEach((cell, at) => patch(node.cells[at], cell));
      }
    },
  };
}

/** A list of names with values that changes in place. `update` gets pairs. */
export function liveFacts() {
  const box = h("dl", { class: "facts" });
  const nodes = new Map();
  const make = () => h("div", {}, h("dt"), h("dd"));
  return {
    box,
    update(pairs) {
      arrange(box, nodesOf(nodes, pairs.map(([name]) => name), make));
      for (const [name, value] of pairs) {
        const [dt, dd] = nodes.get(name).children;
        patch(dt, name);
        patch(dd, value);
      }
    },
  };
}

/** Says something to the reader, also to who hears the page. */
export function say(text) {
  const place = document.getElementById("said");
  place.textContent = text;
  place.classList.add("fresh");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => place.classList.remove("fresh"), 5000);
}

/** A dialog with a form. `act` gets the form's fields; what it throws is shown, and the dialog stays. */
export function dialog(title, content, action, act, danger) {
  const wrong = h("p", { class: "wrong", role: "alert", hidden: true });
  const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
  const box = h(
    "dialog",
    { "aria-labelledby": "dialog-title", onclose: () => box.remove() },
    h(
      "form",
      {
        onsubmit: async (event) => {
          event.preventDefault();
          go.disabled = true;
          wrong.hidden = true;
          try {
            await act(Object.fromEntries(new FormData(event.target)));
            box.close();
          } catch (error) {
            wrong.textContent = error.message;
            wrong.hidden = false;
          } finally {
            go.disabled = false;
          }
        },
      },
      h("h2", { id: "dialog-title" }, title),
      content,
      wrong,
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => box.close() }, "Cancel"), go),
    ),
  );
  document.body.append(box);
  box.showModal();
}

/** A labelled field of a form. */
export function field(label, input, hint) {
  return h("label", { class: "field" }, h("span", {}, label), input, hint && h("small", {}, hint));
}
