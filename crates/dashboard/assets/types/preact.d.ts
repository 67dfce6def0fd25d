// As much of Preact as the page uses.
export type Node = unknown;
export function h(type: unknown, props: unknown, ...children: unknown[]): Node;
export function render(node: Node, into: HTMLElement): void;
