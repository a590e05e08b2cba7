// Lines over time, by uPlot.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { exact, utc } from "../format";
import { colour, colours } from "../theme";

export interface Line {
    label: string;
    colour: string; // of style.css
    fill?: boolean;
    dash?: readonly number[];
}

interface Props {
    label: string;
    data: (number | null)[][]; // seconds, then a row for each line
    lines: Line[];
    height?: number;
    value?: (n: number) => string;
    log?: boolean; // from microseconds to hours
}

// By the distance between two marks (seconds): how a mark is written, and what stands below where the day or the minute changes.
const TIMES: uPlot.Axis.Values = [
    [86400, "{D} {MMM}", null, null, null, null, null, null, 1],
    [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
    [1, ":{ss}", "\n{HH}:{mm}", null, "\n{HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
];

function decades(min: number | null, max: number | null): [number, number] {
    const low = Math.floor(Math.log10(Math.max(1, min ?? 1e3))), high = Math.ceil(Math.log10(Math.max(10, max ?? 1e6)));
    return [10 ** low, 10 ** Math.max(high, low + 1)];
}

function powers(_u: uPlot, _axis: number, min: number, max: number): number[] {
    const out = [];
    for (let at = min; at <= max * 1.001; at *= 10) out.push(at);
    return out;
}

// A value that stands alone makes no line: it is a dot.
function alone(u: uPlot, at: number): number[] {
    const found = [...u.data[at]!.keys()].filter((i) => u.data[at]![i] != null);
    return found.length === 1 ? found : [];
}

function options(props: Props, width: number): uPlot.Options {
    const ink = colour("faint"), grid = colour("line");
    const value = props.value ?? ((n: number) => String(n));
    const axis: uPlot.Axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return {
        width,
        height: props.height ?? 180,
        tzDate: utc.value ? (at: number) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC") : undefined,
        legend: { live: true, markers: { dash: (u: uPlot, i: number) => (u.series[i]!.dash ? "dashed" : "solid") } },
        cursor: { points: { size: 6 }, drag: { x: false, y: false } },
        scales: { y: props.log ? { distr: 3, range: (_u, min, max) => decades(min, max) } : { range: (_u, _min, max) => [0, Math.max(1, max * 1.1)] } },
        axes: [{ ...axis, size: 38, values: TIMES }, { ...axis, size: 52, ...(props.log ? { splits: powers } : {}), values: (_u: uPlot, splits: (number | null)[]) => splits.map((split) => (split === null ? "" : value(split))) }],
        series: [
            { label: "at", value: (_u: uPlot, at: number | null) => (at === null ? "" : exact(new Date(at * 1000).toISOString())) },
            ...props.lines.map((line) => ({
                label: line.label,
                stroke: colour(line.colour),
                fill: line.fill ? colour(line.colour) + "22" : undefined,
                width: 1.6,
                dash: line.dash ? [...line.dash] : undefined,
                points: { show: true, size: 5, filter: alone },
                spanGaps: true,
                value: (u: uPlot, n: number | null) => (n !== null ? value(n) : u.cursor.idx == null ? "" : "–"),
            })),
        ],
    };
}

export function Chart(props: Props) {
    const box = useRef<HTMLDivElement>(null);
    const plot = useRef<uPlot | null>(null);
    const shape = props.lines.map((line) => line.label).join() + props.label;
    useEffect(() => {
        const element = box.current!;
        const made = new uPlot(options(props, element.clientWidth), props.data as uPlot.AlignedData, element);
        plot.current = made;
        const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: props.height ?? 180 }));
        watch.observe(element);
        return () => {
            watch.disconnect();
            made.destroy();
            plot.current = null;
        };
    }, [shape, colours.value, utc.value]);
    useEffect(() => plot.current?.setData(props.data as uPlot.AlignedData), [props.data]);
    return <div class="chart" ref={box} role="img" aria-label={props.label} />;
}
