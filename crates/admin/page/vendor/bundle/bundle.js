// Combines the libraries of the console into ES modules: `node bundle.js FOLDER [--check]`.
//
// Writes one module for each file in `entries`, the list `vendored.json` with versions, licences and hashes, and the
// texts of the licences. With `--check`, it writes nothing, and fails if a file in the folder differs.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const [folder, option] = process.argv.slice(2);
if (!folder || (option && option !== "--check")) {
  console.error("usage: node bundle.js FOLDER [--check]");
  process.exit(2);
}

/** Packages whose files are in a module: name, version, licence and its text. */
function packagesOf(inputs) {
  const names = Object.keys(inputs).map((file) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]);
  const unique = [...new Set(names.filter(Boolean))].sort();
  return unique.map((name) => {
    const place = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(place, "package.json"), "utf8"));
    if (!license) throw new Error(`${name} does not state its licence`);
    const file = readdirSync(place).find((one) => /^licen[cs]e/i.test(one));
    if (!file) throw new Error(`${name} lacks the text of its licence`);
    return { name, version, license, text: readFileSync(join(place, file), "utf8").trim() };
  });
}

/** Builds a module. */
async function bundle(entry) {
  const built = await build({
    absWorkingDir: here,
    entryPoints: [join("entries", entry)],
    bundle: true,
    charset: "utf8",
    format: "esm",
    legalComments: "none",
    metafile: true,
    minify: true,
    target: "es2022",
    write: false,
  });
  const packages = packagesOf(built.metafile.inputs);
  const listed = packages.map(({ name, version, license }) => `// ${name} ${version} (${license})`);
  const text = `// Created by bundle/bundle.js. The licences are in LICENSES.txt.\n${listed.join("\n")}\n${built.outputFiles[0].text}`;
  return { entry, text, packages };
}

const hash = (text) => createHash("sha256").update(text).digest("hex");

const files = new Map();
const modules = await Promise.all(readdirSync(join(here, "entries")).sort().map(bundle));
for (const { entry, text } of modules) files.set(entry, text);

const list = modules.map(({ entry, text, packages }) => ({
  file: entry,
  sha256: hash(text),
  packages: packages.map(({ name, version, license }) => ({ name, version, license })),
}));
files.set("vendored.json", `${JSON.stringify(list, null, 2)}\n`);

const texts = new Map(modules.flatMap(({ packages }) => packages.map((one) => [`${one.name} ${one.version} (${one.license})`, one.text])));
const sections = [...texts.entries()].sort().map(([title, text]) => `${title}\n${"=".repeat(title.length)}\n\n${text}\n`);
files.set("LICENSES.txt", sections.join("\n\n"));

let isEqual = true;
for (const [name, text] of files) {
  const path = join(folder, name);
  if (option !== "--check") {
    writeFileSync(path, text);
    continue;
  }
  if (readFileSync(path, "utf8") !== text) {
    console.error(`${name} differs from the result of bundle.js`);
    isEqual = false;
  }
}
process.exit(isEqual ? 0 : 1);
