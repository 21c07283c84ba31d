// Formats values for readers. Text of others is data: control characters become visible.

const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/gu;

/** Replaces control characters and marks of direction with visible symbols. */
export function visible(text) {
  return text.replace(INVISIBLE, (mark) => {
    const code = mark.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** Does the same, and also makes line ends and tabs visible. */
export function oneLine(text) {
  return visible(text).replaceAll("\n", "\u240a").replaceAll("\t", "\u2409");
}

/** Number of bytes, with a unit. */
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

/** Number with separators of thousands. */
export function count(value) {
  return Number(value).toLocaleString("en-US", { maximumFractionDigits: 1 });
}

/** Number with its noun: `1 child`, `2 children`. */
export function plural(value, one, many) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Date and time in the reader's time zone. */
export function moment(ms) {
  if (!ms || ms <= 0) return "never";
  const date = new Date(ms);
  const pad = (value) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** Time of day, with the date if it is another day. */
export function clock(ms) {
  const text = moment(ms);
  const [day] = moment(Date.now()).split(" ");
  return text.startsWith(`${day} `) ? text.slice(day.length + 1) : text;
}

/** Length of a time. */
export function duration(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** Path of a child. */
export const join = (path, name) => (path === "/" ? `/${name}` : `${path}/${name}`);

/** Path of the parent. */
export const parentOf = (path) => path.slice(0, path.lastIndexOf("/")) || "/";

/** Name of a znode. The root does not have one. */
export const nameIn = (path) => path.slice(path.lastIndexOf("/") + 1);

/** Address of a znode in a view of this page, and of a part of this view. */
export const linkTo = (path, view = "tree", part = "") =>
  `#/${view}${path.split("/").map(encodeURIComponent).join("/")}${part && `?${part}`}`;
