// Pictures of screens with 256 colours: a third of the size, and nobody sees it.
//
// A screen has few colours and many shades between two of them, at the edges of letters: the colours that are there most stay as they are, and of
// the others those that differ most from what is chosen already; the rest become the nearest of these.
import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
const MOST = 256, KEPT = 96;

function* chunks(png) {
    for (let at = 8; at < png.length; ) {
        const size = png.readUInt32BE(at);
        yield [png.toString("latin1", at + 4, at + 8), png.subarray(at + 8, at + 8 + size)];
        at += 12 + size;
    }
}

function chunk(name, data) {
    const body = Buffer.concat([Buffer.from(name, "latin1"), data]);
    const out = Buffer.alloc(body.length + 8);
    out.writeUInt32BE(data.length, 0);
    body.copy(out, 4);
    out.writeUInt32BE(crc32(body), body.length + 4);
    return out;
}

function paeth(a, b, c) {
    const p = a + b - c, [x, y, z] = [Math.abs(p - a), Math.abs(p - b), Math.abs(p - c)];
    return x <= y && x <= z ? a : y <= z ? b : c;
}

// The bytes of all pixels, without the filters of the lines.
function pixels(raw, width, height, step) {
    const line = width * step;
    const out = Buffer.alloc(height * line);
    for (let y = 0; y < height; y++) {
        const filter = raw[y * (line + 1)];
        for (let x = 0; x < line; x++) {
            const at = y * line + x;
            const left = x < step ? 0 : out[at - step], up = y ? out[at - line] : 0, corner = x < step || !y ? 0 : out[at - line - step];
            const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
            out[at] = raw[y * (line + 1) + 1 + x] + guess;
        }
    }
    return out;
}

function far(one, other) {
    const [r, g, b] = [16, 8, 0].map((shift) => ((one >> shift) & 255) - ((other >> shift) & 255));
    return r * r + 2 * g * g + b * b;
}

function nearest(table, colour) {
    let best = 0, least = Infinity;
    table.forEach((one, i) => {
        const now = far(one, colour);
        if (now < least) [best, least] = [i, now];
    });
    return best;
}

// So that every colour has one that is near, however rare it is; as near as 256 of them can be.
function choose(colours) {
    for (let apart = 0; ; apart += 3) {
        const table = [];
        for (const colour of colours) if (table.length < KEPT || table.every((one) => far(one, colour) > apart * apart)) if (table.push(colour) > MOST) break;
        if (table.length <= MOST) return table;
    }
}

export function palette(png) {
    const parts = [...chunks(png)];
    const head = parts.find(([name]) => name === "IHDR")[1];
    const [width, height, depth, kind] = [head.readUInt32BE(0), head.readUInt32BE(4), head[8], head[9]];
    if (depth !== 8 || (kind !== 2 && kind !== 6) || head[12]) throw new Error("only plain RGB and RGBA with 8 bits");
    const step = kind === 2 ? 3 : 4;
    const bytes = pixels(inflateSync(Buffer.concat(parts.filter(([name]) => name === "IDAT").map(([, data]) => data))), width, height, step);
    const counts = new Map();
    const colours = new Int32Array(width * height);
    for (let i = 0; i < colours.length; i++) {
        colours[i] = bytes.readUIntBE(i * step, 3);
        counts.set(colours[i], (counts.get(colours[i]) ?? 0) + 1);
    }
    const table = choose([...counts].sort((a, b) => b[1] - a[1]).map(([colour]) => colour));
    const index = new Map(table.map((colour, i) => [colour, i]));
    const rows = Buffer.alloc(height * (width + 1));
    colours.forEach((colour, i) => {
        if (!index.has(colour)) index.set(colour, nearest(table, colour));
        rows[i + Math.floor(i / width) + 1] = index.get(colour);
    });
    const header = Buffer.from(head);
    header[9] = 3;
    const plte = Buffer.alloc(table.length * 3);
    table.forEach((colour, i) => plte.writeUIntBE(colour, i * 3, 3));
    return Buffer.concat([SIGNATURE, chunk("IHDR", header), chunk("PLTE", plte), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
