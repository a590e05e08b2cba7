// Who waits for whom: layers from left to right, a box for each task or batch.
import { useEffect, useRef } from "preact/hooks";
import type { Tree } from "../api";
import { link } from "../router";
import { toneOf } from "./icons";

const WIDTH = 164, HEIGHT = 40, GAP_X = 44, GAP_Y = 12, MOST = 120;

interface Box {
    tree: Tree;
    layer: number;
    row: number;
}

interface Edge {
    from: string;
    to: string;
    member: boolean;
}

class Layout {
    boxes = new Map<string, Box>();
    edges = new Map<string, Edge>();
    cut = false;

    // Adds a tree; relatives in `forward` direction stand to the right.
    add(tree: Tree, layer: number): void {
        const known = this.boxes.get(tree.id);
        if (!known && this.boxes.size >= MOST) {
            this.cut = true;
            return;
        }
        if (!known) this.boxes.set(tree.id, { tree, layer, row: 0 });
        if (tree.more) this.cut = true;
        for (const parent of tree.parents ?? []) this.follow(parent, tree, layer - 1, false, true);
        for (const child of tree.children ?? []) this.follow(tree, child, layer + 1, false, false);
        for (const one of tree.members ?? []) this.follow(one, tree, layer - 1, true, true);
    }

    follow(from: Tree, to: Tree, layer: number, member: boolean, back: boolean): void {
        this.add(back ? from : to, layer);
        if (this.boxes.has(from.id) && this.boxes.has(to.id)) this.edges.set(from.id + to.id, { from: from.id, to: to.id, member });
    }

    // An arrow always points to the right.
    settle(): void {
        for (let pass = 0; pass < 50; pass++) {
            let moved = false;
            for (const edge of this.edges.values()) {
                const from = this.boxes.get(edge.from)!, to = this.boxes.get(edge.to)!;
                if (to.layer > from.layer) continue;
                to.layer = from.layer + 1;
                moved = true;
            }
            if (!moved) break;
        }
        const first = Math.min(...[...this.boxes.values()].map((box) => box.layer));
        const rows = new Map<number, number>();
        for (const box of this.boxes.values()) {
            box.layer -= first;
            box.row = rows.get(box.layer) ?? 0;
            rows.set(box.layer, box.row + 1);
        }
    }
}

const x = (box: Box): number => box.layer * (WIDTH + GAP_X) + 2;
const y = (box: Box): number => box.row * (HEIGHT + GAP_Y) + 2;
const cut = (text: string, most: number): string => (text.length > most ? text.slice(0, most - 1) + "…" : text);

export function Graph({ trees, focus }: { trees: Tree[]; focus: string }) {
    const layout = new Layout();
    for (const tree of trees) layout.add(tree, 0);
    layout.settle();
    const boxes = [...layout.boxes.values()];
    const width = Math.max(...boxes.map((box) => x(box))) + WIDTH + 4;
    const height = Math.max(...boxes.map((box) => y(box))) + HEIGHT + 4;
    const frame = useRef<HTMLDivElement>(null);
    const at = x(layout.boxes.get(focus) ?? boxes[0]!);
    useEffect(() => void (frame.current!.scrollLeft = at + WIDTH / 2 - frame.current!.clientWidth / 2), [focus, at]); // where there is no room for all
    return (
        <figure class="graph">
            <div class="scroll" ref={frame} role="region" aria-label="graph of dependencies" tabIndex={0}>
                <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={`${boxes.length} tasks and batches`}>
                    {[...layout.edges.values()].map((edge) => {
                        const from = layout.boxes.get(edge.from)!, to = layout.boxes.get(edge.to)!;
                        const [x1, y1, x2, y2] = [x(from) + WIDTH, y(from) + HEIGHT / 2, x(to) - 5, y(to) + HEIGHT / 2];
                        const bend = Math.max(20, (x2 - x1) / 2);
                        return (
                            <g key={edge.from + edge.to} class={edge.member ? "edge member" : "edge"}>
                                <path d={`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} />
                                <path class="tip" d={`M${x2 + 5} ${y2}l-7-3.5v7z`} />
                            </g>
                        );
                    })}
                    {boxes.map((box) => {
                        const name = box.tree.name ?? box.tree.type ?? "";
                        const state = box.tree.held ? "held" : box.tree.state;
                        return (
                            <a key={box.tree.id} href={link((box.tree.batch ? "batches/" : "tasks/") + box.tree.id)} class={`node ${toneOf(box.tree.state)}${box.tree.id === focus ? " focus" : ""}`}>
                                <title>{`${box.tree.batch ? "batch " : ""}${name}\n${box.tree.id}\n${state}`}</title>
                                <rect x={x(box)} y={y(box)} width={WIDTH} height={HEIGHT} rx={box.tree.batch ? 3 : 9} />
                                <rect class="mark" x={x(box)} y={y(box)} width="5" height={HEIGHT} rx="2" />
                                <text x={x(box) + 14} y={y(box) + 17} class="title">{cut(name, 20)}</text>
                                <text x={x(box) + 14} y={y(box) + 32}>{(box.tree.batch ? "batch, " : "") + state}</text>
                            </a>
                        );
                    })}
                </svg>
            </div>
            <figcaption class="faint">Arrows lead to what waits; dashed ones from members to their batch.{layout.cut && " There are more than are shown."}</figcaption>
        </figure>
    );
}
