// Converts the data of znodes: base64, text, JSON and hex.

/** Bytes of a base64 text. */
export function decode64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Base64 text of bytes. */
export function encode64(data) {
  let letters = "";
  for (let at = 0; at < data.length; at += 8192) letters += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(letters);
}

/** Offers text or bytes as a file. */
export function offerFile(name, content) {
  const url = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

/** Text of these bytes, or null if they are not UTF-8. A piece may end within a character. */
export function textOf(data, isCut) {
  for (let less = 0; less <= (isCut ? 3 : 0); less += 1) {
    try {
      const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
      return decoder.decode(data.subarray(0, data.length - less));
    } catch {
      // The last character may be incomplete.
    }
  }
  return null;
}

/** JSON with one value per line, or null if the text is not JSON. Does not change numbers and strings. */
export function prettyJson(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  tokens.forEach((token, at) => {
    const next = tokens[at + 1];
    if (token === "{" || token === "[") {
      const isEmpty = next === "}" || next === "]";
      depth += 1;
      out += isEmpty ? token : token + line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      const isEmpty = /[[{]$/.test(out);
      out += isEmpty ? token : line() + token;
    } else if (token === ",") out += token + line();
    else if (token === ":") out += ": ";
    else out += token;
  });
  return out;
}

/** Hex dump with offsets and printable characters. */
export function hexDump(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = [...data.subarray(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0"));
    const left = hex.slice(0, 8).join(" ").padEnd(23);
    const right = hex.slice(8).join(" ").padEnd(23);
    const text = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  ${text}`);
  }
  return lines.join("\n");
}

/** Pairs of hex digits, 16 per line. */
export function hexOf(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    lines.push([...data.subarray(at, at + 16)].map((byte) => byte.toString(16).padStart(2, "0")).join(" "));
  }
  return lines.join("\n");
}

/** Bytes of pairs of hex digits. */
export function bytesOfHex(text) {
  const digits = text.replaceAll(/\s/g, "");
  if (!/^([0-9a-fA-F]{2})*$/.test(digits)) throw new Error("hex data must consist of pairs of the digits 0-9 and a-f");
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** Whether two sequences of bytes are equal. */
export function isEqual(one, other) {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

/**
 * Whether an editor can show a text without changing its bytes. It uses one kind of line end, and a zero byte is a
 * sign of binary data.
 */
export function isEditable(text) {
  if (text === null || text.includes("\0")) return false;
  const returns = text.match(/\r/g)?.length ?? 0;
  if (returns === 0) return true;
  const pairs = text.match(/\r\n/g)?.length ?? 0;
  return returns === pairs && pairs === text.match(/\n/g).length;
}

/** Likely format of a text. */
export function formatOf(path, text) {
  const end = /\.(json|ya?ml|xml|properties|conf|cfg|ini)$/i.exec(path)?.[1].toLowerCase();
  const named = { json: "json", yaml: "yaml", yml: "yaml", xml: "xml" }[end];
  if (named) return named;
  if (end) return "properties";
  const start = text.trimStart();
  if (/^[[{]/.test(start)) return "json";
  if (/^<[?!\w]/.test(start)) return "xml";
  if (/^---\s*$/m.test(start) && start.startsWith("---")) return "yaml";
  const lines = start.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
  if (lines.length > 0 && lines.every((line) => /^[\w.-]+\s*=/.test(line))) return "properties";
  if (lines.length > 1 && lines.every((line) => /^(\s*- |\s*[\w."'-]+:(\s|$)|\s+\S)/.test(line))) return "yaml";
  return "text";
}
