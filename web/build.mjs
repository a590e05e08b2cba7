// Bundles the dashboard and writes it as a C file: node web/build.mjs OUT.c
//
// Files are named by a hash of what is in them, so that browsers keep them for ever; the page is the one file that names the others.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];
if (!out) {
    console.error("usage: node build.mjs OUT.c");
    process.exit(2);
}

const bundled = await build({
    entryPoints: [join(here, "src/main.tsx"), join(here, "src/style.css")],
    outdir: "out",
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: ["es2022", "chrome107", "firefox104", "safari16"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    logLevel: "warning",
});
const text = (suffix) => bundled.outputFiles.find((file) => file.path.endsWith(suffix)).contents;

const files = [];
function add(stem, suffix, type, contents) {
    const hash = createHash("sha256").update(contents).digest("hex").slice(0, 12);
    const name = `${stem}-${hash}.${suffix}`;
    files.push({ name, type, contents });
    return name;
}

let page = readFileSync(join(here, "src/index.html"), "utf8");
page = page.replace("SCRIPT", "assets/" + add("pawl", "js", "text/javascript; charset=utf-8", text("main.js")));
page = page.replace("STYLE", "assets/" + add("pawl", "css", "text/css; charset=utf-8", text("style.css")));
page = page.replace("ICON", "assets/" + add("icon", "svg", "image/svg+xml", readFileSync(join(here, "src/icon.svg"))));
files.unshift({ name: "", type: "text/html; charset=utf-8", contents: page });

let code = '/* Made by web/build.mjs. */\n#include "server/web.h"\n\n';
let table = "";
let total = 0;
files.forEach((file, i) => {
    const gzip = file.name !== ""; // the page is small, and everybody gets it: curl, who asks whether the server is there
    const stored = gzip ? gzipSync(file.contents, { level: 9 }) : Buffer.from(file.contents);
    total += stored.length;
    const rows = stored.toString("hex").match(/.{1,64}/g).map((row) => row.replace(/../g, "0x$&,"));
    code += `static const unsigned char file_${i}[] = {\n${rows.join("\n")}\n};\n`;
    table += `    {"${file.name}", "${file.type}", ${gzip}, file_${i}, sizeof file_${i}},\n`;
});
writeFileSync(out, `${code}\nconst web_file web_files[] = {\n${table}    {0},\n};\n`);
console.log(`dashboard: ${files.length} files, ${(total / 1000).toFixed(1)} kB compressed`);
