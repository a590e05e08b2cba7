// Tables: rows that the keyboard moves through (keys.tsx), and on a phone become cards with labels.
import type { ComponentChildren } from "preact";

export interface Column<T> {
    title: string;
    cell: (row: T) => ComponentChildren;
    num?: boolean;
    class?: string;
}

interface Selection {
    has: (id: string) => boolean;
    toggle: (id: string) => void;
    all: (on: boolean) => void;
    full: boolean;
}

export function Table<T>(props: { rows: T[]; columns: Column<T>[]; id: (row: T) => string; label: string; select?: Selection; tone?: (row: T) => string }) {
    const { rows, columns, select } = props;
    return (
        <div class="scroll" role="region" aria-label={"table of " + props.label} tabIndex={0}>
            <table>
                <thead>
                    <tr>
                        {select && (
                            <th class="tick">
                                <input type="checkbox" aria-label="select all on this page" checked={select.full} onChange={(event) => select.all(event.currentTarget.checked)} />
                            </th>
                        )}
                        {columns.map((column) => (
                            <th key={column.title} class={(column.num ? "num " : "") + (column.class ?? "")} scope="col">
                                {column.title}
                            </th>
                        ))}
                    </tr>
                </thead>
                <tbody>
                    {rows.map((row) => {
                        const id = props.id(row);
                        return (
                            <tr key={id} data-row={id} tabIndex={-1} class={props.tone?.(row) ?? ""}>
                                {select && (
                                    <td class="tick">
                                        <input type="checkbox" aria-label={"select " + id} checked={select.has(id)} onChange={() => select.toggle(id)} />
                                    </td>
                                )}
                                {columns.map((column) => (
                                    <td key={column.title} data-label={column.title} class={(column.num ? "num " : "") + (column.class ?? "")}>
                                        {column.cell(row)}
                                    </td>
                                ))}
                            </tr>
                        );
                    })}
                </tbody>
            </table>
        </div>
    );
}
