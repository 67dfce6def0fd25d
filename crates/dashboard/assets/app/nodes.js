// Nodes as tiles of pods, by zone. Pods are drawn on a canvas for each node: ten thousand are a few hundred pictures.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { confirmed } from "app/actions";
import { html } from "app/html";
import { model } from "app/model";
import { counted, link } from "app/words";

/** @typedef {import("app/model").Row} Row @typedef {import("app/model").View} View */

/** What a pod looks like: a colour and a shape, so that neither is needed alone. */
export const STATES = {
  ready: "ready",
  starting: "starting",
  failing: "failing",
  unready: "running, not ready",
  terminating: "terminating",
  done: "completed",
  lost: "node unreachable",
};

/** @param {Row} pod @param {Row} [node] @returns {keyof typeof STATES} */
export function stateOf(pod, node) {
  if (pod.gone) return "terminating";
  if (pod.phase === "Succeeded") return "done";
  if (pod.phase === "Failed") return "failing";
  if (node && (node.unknown || node.stopped)) return "lost";
  if (pod.reason && pod.reason !== "Completed") return "failing";
  if (pod.ready) return "ready";
  return pod.phase === "Running" ? "unready" : "starting";
}

/** @param {{view: View}} props */
export function Nodes({ view }) {
  const { zones, waiting, pods, count } = useMemo(() => arranged(view), [view]);
  return html`<section class="panel nodes" aria-labelledby="nodes-title">
    <h2 id="nodes-title">Nodes <span class="count">${count}</span></h2>
    <ul class="legend" aria-label="What pods look like">${Object.entries(STATES).map(([state, words]) => html`<li><span class=${`swatch ${state}`} aria-hidden="true"></span>${words}</li>`)}</ul>
    ${waiting.length ? html`<div class="node waiting"><p class="who">Not scheduled <span class="quiet">${counted(waiting.length, "pod")}</span></p><${Tiles} pods=${waiting} label="Pods that are not scheduled" /></div>` : null}
    ${zones.map(([zone, nodes]) => html`<div class="zone" key=${zone}>
      ${zone ? html`<h3>Zone ${zone}</h3>` : null}
      <div class="node-grid">${nodes.map((node) => html`<${Node} key=${node.name} node=${node} pods=${pods.get(node.name) ?? []} />`)}</div>
    </div>`)}
  </section>`;
}

/** @param {View} view */
function arranged(view) {
  /** @type {Map<string, Row[]>} */
  const pods = new Map();
  /** @type {Row[]} */
  const waiting = [];
  for (const pod of view.all("Pod")) {
    if (!pod.node) waiting.push(pod);
    else if (pods.has(pod.node)) pods.get(pod.node)?.push(pod);
    else pods.set(pod.node, [pod]);
  }
  // Names are plain ASCII: of ten thousand, localeCompare would take longer than all the rest.
  const compare = (/** @type {string} */ one, /** @type {string} */ two) => (one < two ? -1 : one > two ? 1 : 0);
  const byName = (/** @type {Row} */ one, /** @type {Row} */ two) => compare(one.ns ?? "", two.ns ?? "") || compare(one.name, two.name);
  for (const held of pods.values()) held.sort(byName);
  /** @type {Map<string, Row[]>} */
  const zones = new Map();
  const known = new Set(view.all("Node").map((node) => node.name));
  // Who may not list nodes sees where pods are all the same, and a node may be gone before its pods are.
  /** @type {Row[]} */
  const others = [...pods.keys()].filter((name) => !known.has(name)).map((name) => ({ kind: "Node", name, uid: `Node ${name}`, at: 0, missing: true }));
  const nodes = [...view.all("Node"), ...others].sort((one, two) => one.name.localeCompare(two.name, undefined, { numeric: true }));
  for (const node of nodes) zones.set(node.zone ?? "", [...(zones.get(node.zone ?? "") ?? []), node]);
  return { zones: [...zones].sort(([one], [two]) => one.localeCompare(two)), waiting: waiting.sort(byName), pods, count: nodes.length };
}

/** @param {{node: Row, pods: Row[]}} props */
function Node({ node, pods }) {
  const state = node.missing ? (model.hello.all ? "gone" : "") : node.stopped ? "stopped" : node.unknown ? "unreachable" : !node.ready ? "not ready" : node.cordoned ? "cordoned" : "ready";
  const acts = model.hello.acts && model.cursor === null && node.simulated;
  const away = node.stopped || node.cordoned;
  return html`<article class=${`node ${state === "ready" || state === "" ? "" : "odd"}`}>
    <p class="who">${node.missing ? node.name : html`<a href=${link(node)}>${node.name}</a>`} <span class=${`node-state ${state.replaceAll(" ", "-")}`}>${state}</span> <span class="quiet">${counted(pods.length, "pod")}</span></p>
    <${Tiles} pods=${pods} node=${node} label=${`Pods on ${node.name}`} />
    ${acts ? html`<p class="buttons">
      ${away ? html`<button type="button" class="small" onClick=${() => confirmed({ action: "startNode", name: node.name }, "Start", `Start ${node.name}: its kubelet posts status again and pods are scheduled on it.`)}>Start</button>` : null}
      ${node.stopped ? null : html`<button type="button" class="small" onClick=${() => confirmed({ action: "stopNode", name: node.name }, "Stop", `Stop ${node.name}: its kubelet stops posting status. After a while its pods are evicted.`)}>Stop</button>`}
      ${node.cordoned ? null : html`<button type="button" class="small" onClick=${() => confirmed({ action: "drainNode", name: node.name }, "Drain", `Drain ${node.name}: no pods are scheduled on it, and ${counted(pods.length, "pod")} ${pods.length === 1 ? "is" : "are"} evicted as disruption budgets allow.`)}>Drain</button>`}
    </p>` : null}
  </article>`;
}

const SIZE = 14;
const GAP = 4;

/** @param {{pods: Row[], node?: Row, label: string}} props */
function Tiles({ pods, node, label }) {
  const canvas = useRef(/** @type {HTMLCanvasElement|null} */ (null));
  const [chosen, setChosen] = useState(-1);
  const [width, setWidth] = useState(240);
  const columns = Math.max(1, Math.floor((width + GAP) / (SIZE + GAP)));
  const rows = Math.max(1, Math.ceil(pods.length / columns));
  const height = rows * (SIZE + GAP) - GAP;
  useEffect(() => {
    const element = canvas.current?.parentElement;
    if (!element) return;
    const observer = new ResizeObserver(() => element.clientWidth && setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  // Of many nodes few look different from the picture before.
  const looks = pods.map((pod) => stateOf(pod, node)).join();
  const theme = document.documentElement.dataset.theme ?? "";
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  useEffect(() => draw(canvas.current, pods, node, columns, width, height, chosen), [looks, columns, width, height, chosen, theme, isDark]);
  const at = (/** @type {MouseEvent} */ event) => {
    const column = Math.floor(event.offsetX / (SIZE + GAP));
    const row = Math.floor(event.offsetY / (SIZE + GAP));
    const index = row * columns + column;
    return column < columns && index < pods.length ? index : -1;
  };
  const open = (/** @type {number} */ index) => {
    if (pods[index]) location.hash = link(pods[index]);
  };
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
  const press = (/** @type {KeyboardEvent} */ event) => {
    const step = steps[/** @type {keyof typeof steps} */ (event.key)];
    if (step !== undefined) {
      event.preventDefault();
      setChosen(Math.min(Math.max(chosen < 0 ? 0 : chosen + step, 0), pods.length - 1));
    } else if (event.key === "Enter") open(chosen);
  };
  const shown = pods[chosen];
  const said = shown ? `${shown.name}: ${STATES[stateOf(shown, node)]}${shown.reason ? `, ${shown.reason}` : ""}` : summary(pods, node);
  return html`<div class="tiles">
    <canvas ref=${canvas} width="1" height="1" tabindex=${pods.length ? 0 : -1} role="img" aria-label=${`${label}. ${said}`} title=${said}
      onClick=${(/** @type {MouseEvent} */ event) => open(at(event))} onMouseMove=${(/** @type {MouseEvent} */ event) => setChosen(at(event))}
      onMouseLeave=${() => setChosen(-1)} onKeyDown=${press} onBlur=${() => setChosen(-1)}></canvas>
  </div>`;
}

/** @param {Row[]} pods @param {Row} [node] */
function summary(pods, node) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const pod of pods) counts[stateOf(pod, node)] = (counts[stateOf(pod, node)] ?? 0) + 1;
  const parts = Object.entries(counts).map(([state, count]) => `${count} ${STATES[/** @type {"ready"} */ (state)]}`);
  return parts.join(", ") || "none";
}

/** @param {HTMLCanvasElement|null} canvas @param {Row[]} pods @param {Row|undefined} node @param {number} columns @param {number} width @param {number} height @param {number} chosen */
function draw(canvas, pods, node, columns, width, height, chosen) {
  const context = canvas?.getContext("2d");
  if (!canvas || !context) return;
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  context.scale(scale, scale);
  const style = getComputedStyle(canvas);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  const palette = Object.fromEntries([...Object.keys(STATES), "ink"].map((name) => [name, colour(name === "ink" ? "ink" : `pod-${name}`)]));
  pods.forEach((pod, index) => {
    const x = (index % columns) * (SIZE + GAP);
    const y = Math.floor(index / columns) * (SIZE + GAP);
    shape(context, stateOf(pod, node), palette, x, y);
    if (index === chosen) {
      context.strokeStyle = palette.ink;
      context.lineWidth = 2;
      context.strokeRect(x - 1, y - 1, SIZE + 2, SIZE + 2);
    }
  });
}

/** @param {CanvasRenderingContext2D} context @param {string} state @param {Record<string, string>} palette @param {number} x @param {number} y */
function shape(context, state, palette, x, y) {
  context.fillStyle = palette[state];
  context.strokeStyle = palette[state];
  context.lineWidth = 2;
  const whole = SIZE - 2;
  switch (state) {
    case "ready":
      context.fillRect(x, y, SIZE, SIZE);
      break;
    case "unready":
      context.strokeRect(x + 1, y + 1, whole, whole);
      context.fillRect(x, y + SIZE / 2, SIZE, SIZE / 2);
      break;
    case "failing":
      context.fillRect(x, y, SIZE, SIZE);
      context.strokeStyle = "#fff";
      context.beginPath();
      context.moveTo(x + 4, y + 4);
      context.lineTo(x + SIZE - 4, y + SIZE - 4);
      context.moveTo(x + SIZE - 4, y + 4);
      context.lineTo(x + 4, y + SIZE - 4);
      context.stroke();
      break;
    case "terminating":
      context.setLineDash([2, 2]);
      context.strokeRect(x + 1, y + 1, whole, whole);
      context.setLineDash([]);
      break;
    case "done":
      context.fillRect(x + 4, y + 4, SIZE - 8, SIZE - 8);
      break;
    case "lost":
      context.strokeRect(x + 1, y + 1, whole, whole);
      context.beginPath();
      context.moveTo(x + 3, y + SIZE - 3);
      context.lineTo(x + SIZE - 3, y + 3);
      context.stroke();
      break;
    default:
      context.strokeRect(x + 1, y + 1, whole, whole);
  }
}
