// Live rollouts: how many pods of the old and of the new template there were, from what really happened, with what
// `preview` expected behind it and the limits as lines.

import { useMemo } from "preact/hooks";
import { ask } from "app/connection";
import { html } from "app/html";
import { model } from "app/model";
import { clock, human, keyOf, link, short } from "app/words";

/** @typedef {import("app/model").Row} Row @typedef {import("app/model").View} View @typedef {import("app/model").Sample} Sample */

/** A rollout that has ended stays for a moment, so that its end is seen. */
const LINGER_MS = 30_000;

/** More are named only: nobody follows more charts at once. */
const CHARTS_MAX = 8;

const BANDS = [
  ["new-ready", "new, ready"],
  ["new", "new, not ready"],
  ["old-ready", "old, ready"],
  ["old", "old, not ready"],
  ["terminating", "terminating"],
];

/** The workloads whose pods are being replaced. @param {View} view */
export function rollouts(view) {
  /** @type {Row[]} */
  const found = [];
  for (const row of view.rolling) {
    const wanted = row.wanted ?? 0;
    const open = row.seen !== true || (row.updated ?? 0) < wanted || Number(row.available ?? 0) < wanted || (row.pods ?? 0) > wanted;
    const samples = model.series.get(row.uid) ?? [];
    const fresh = samples.some((sample) => sample.t <= view.t && view.t - sample.t < LINGER_MS && !isCalm(sample));
    if (open || fresh) found.push(row);
  }
  return found.sort((one, two) => (one.ns ?? "").localeCompare(two.ns ?? "") || short(one).localeCompare(short(two)));
}

/** @param {{view: View}} props */
export function Rollouts({ view }) {
  const all = rollouts(view);
  if (!all.length) return null;
  return html`<section class="panel rollouts" aria-labelledby="rollouts-title">
    <h2 id="rollouts-title">Rollouts <span class="count">${all.length}</span></h2>
    <${Legend} />
    <div class="charts">${all.slice(0, CHARTS_MAX).map((row) => html`<${Chart} key=${row.uid} row=${row} view=${view} />`)}</div>
    ${all.length > CHARTS_MAX ? html`<p class="more quiet">and ${all.length - CHARTS_MAX} more: ${all.slice(CHARTS_MAX, CHARTS_MAX + 20).map((row) => html`<a href=${link(row)}>${short(row)}</a> `)}${all.length > CHARTS_MAX + 20 ? "…" : ""}</p>` : null}
  </section>`;
}

/** What the bands and lines of a chart mean. */
export function Legend() {
  return html`<ul class="legend" aria-label="What the bands mean">${BANDS.map(([name, words]) => html`<li><span class=${`band ${name}`} aria-hidden="true"></span>${words}</li>`)}
    ${model.connection === "recording" ? null : html`<li><span class="rule predicted" aria-hidden="true"></span>ready, as previewed</li>`}<li><span class="rule limit" aria-hidden="true"></span>limits</li></ul>`;
}

/** @param {Sample[]} samples @param {number} t */
function lastUpTo(samples, t) {
  for (let index = samples.length - 1; index >= 0; index -= 1) if (samples[index].t <= t) return samples[index];
  return undefined;
}

/** From the bottom: see BANDS. @param {Sample} sample @param {string|undefined} hash */
function bands(sample, hash) {
  const sums = [0, 0, 0, 0, 0];
  for (const [own, [ready, unready, terminating]] of Object.entries(sample.counts)) {
    const old = hash !== undefined && own !== hash ? 2 : 0;
    sums[old] += ready;
    sums[old + 1] += unready;
    sums[4] += terminating;
  }
  return sums;
}

const WIDTH = 600;
const HEIGHT = 150;
const TOP = 10;

/** All pods are alike and ready. @param {Sample} sample */
function isCalm(sample) {
  const counts = Object.values(sample.counts).filter((count) => count.some(Boolean));
  return counts.length <= 1 && counts.every((count) => !count[1] && !count[2]);
}

/** When what goes on began: after the last calm moment. @param {Sample[]} samples @param {number} t */
function began(samples, t) {
  const shown = samples.filter((sample) => sample.t <= t);
  let index = shown.length - 1;
  // What has just come to rest is the end of it.
  while (index > 0 && isCalm(shown[index])) index -= 1;
  while (index > 0 && !isCalm(shown[index - 1])) index -= 1;
  return shown[index]?.t ?? t;
}

/** @param {{row: Row, view: View}} props */
export function Chart({ row, view }) {
  const hash = view.newest(row);
  const samples = model.series.get(row.uid) ?? [];
  // A workload that has no pods yet waits for the first since it was created.
  const begin = samples.length ? began(samples, view.t) : Math.max(model.base.t, Math.min(view.t, row.at * 1000));
  const begun = Math.max(model.base.t, begin - Math.max(2000, (view.t - begin) / 20));
  const prediction = predictionOf(view, row);
  // A prediction of an earlier rollout says nothing about this one.
  const predicted = prediction?.generation === row.generation ? (prediction?.samples ?? []) : [];
  const expectedEnd = predicted.length ? begin + predicted[predicted.length - 1].at * 1000 + 2000 : 0;
  const end = Math.max(view.t, expectedEnd < view.t + 10 * 60_000 ? expectedEnd : 0, begun + 10_000);
  const now = lastUpTo(samples, view.t);
  const wanted = row.wanted ?? 0;
  const budgets = view.around(row).filter((one) => one.kind === "PodDisruptionBudget");
  const drawn = useMemo(() => {
    const steps = samples.filter((sample) => sample.t > begun && sample.t <= view.t);
    const first = lastUpTo(samples, begun);
    /** @type {{t: number, sums: number[]}[]} */
    const points = [...(first ? [{ t: begun, sums: bands(first, hash) }] : []), ...steps.map((sample) => ({ t: sample.t, sums: bands(sample, hash) }))];
    return points;
  }, [samples.length, view.t, begun, hash]);
  const limits = row.unavailable === undefined
    ? [["wanted", wanted]]
    : [["at most", wanted + (row.surge ?? 0)], ["at least", Math.max(0, wanted - row.unavailable)]];
  const rules = [...limits, ...budgets.map((one) => [`budget ${one.name}`, one.least ?? 0])];
  const highest = Math.max(1, ...rules.map(([, value]) => Number(value)), ...drawn.map((point) => point.sums.reduce((sum, one) => sum + one, 0)), ...predicted.map((one) => one.old + one.new));
  const x = (/** @type {number} */ t) => ((t - begun) / (end - begun)) * WIDTH;
  const y = (/** @type {number} */ pods) => TOP + (1 - pods / highest) * (HEIGHT - TOP);
  const total = now ? bands(now, hash) : [0, 0, 0, 0, 0];
  const words = `${total[0] + total[2]} of ${wanted} ready: ${total[0]} new, ${total[2]} old`;
  const ready = predicted.map((one) => ({ t: begin + one.at * 1000, value: one.oldReady + one.newReady }));
  return html`<figure class="chart">
    <figcaption><a href=${link(row)}>${short(row)}</a> ${row.ns ? html`<span class="quiet">in ${row.ns}</span>` : null}
      <span class="now">${words}</span>${row.paused ? html` <span class="state">paused</span>` : null}</figcaption>
    <div class="plot"><svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`Pods of ${short(row)} over time. Now ${words}.`} preserveAspectRatio="none">
      ${BANDS.map(([name], band) => html`<path class=${`band ${name}`} d=${area(drawn, band, x, y, Math.min(view.t, end))} />`)}
      ${ready.length ? html`<path class="predicted" d=${line(ready, x, y, end)} />` : null}
      ${rules.map(([, value]) => html`<line class="limit" x1="0" x2=${WIDTH} y1=${y(Number(value))} y2=${y(Number(value))} />`)}
      <line class="cursor" x1=${x(view.t)} x2=${x(view.t)} y1=${TOP} y2=${HEIGHT} />
    </svg>${labels(rules, y).map(([text, top]) => html`<span class="rule-label" style=${{ top: `${top}%` }} aria-hidden="true">${text}</span>`)}</div>
    <div class="axis" aria-hidden="true"><span>${clock(begun)}</span><span>${predicted.length && expectedEnd > view.t ? `preview: done in ${human((expectedEnd - 2000 - view.t) / 1000)}` : ""}</span><span>${clock(end)}</span></div>
    <p class="sr">Limits: ${rules.map(([name, value]) => `${name} ${value}`).join(", ")}.</p>
  </figure>`;
}

/** Generations that were asked about, by key. @type {Map<string, number|undefined>} */
const asked = new Map();

/** What was predicted; who may not see everything asks for it. @param {View} view @param {Row} row */
function predictionOf(view, row) {
  const key = keyOf(row);
  if (model.hello.all) return view.rows.get(`preview/${key}`);
  if (model.connection === "live" && model.cursor === null && row.open && asked.get(key) !== row.generation) {
    asked.set(key, row.generation);
    ask("predict", { kind: row.kind, namespace: row.ns ?? "", name: row.name }).then((prediction) => {
      if (!prediction?.samples) return;
      model.predictions.set(key, prediction);
      model.changed();
    });
  }
  return model.predictions.get(key);
}

/** A label takes this much of the height, in percent. */
const LABEL_HEIGHT = 9;

/** The limits in words, each at its height in percent; those that would cover each other together. @param {(string|number)[][]} rules @param {(pods: number) => number} y @returns {[string, number][]} */
function labels(rules, y) {
  /** @type {Map<number, string[]>} */
  const at = new Map();
  for (const [name, value] of rules) at.set(Number(value), [...(at.get(Number(value)) ?? []), String(name)]);
  /** @type {[string, number][]} */
  const placed = [];
  for (const [value, names] of [...at].sort(([one], [two]) => two - one)) {
    const text = `${names.join(", ")} ${value}`;
    const top = (y(value) / HEIGHT) * 100;
    const above = placed[placed.length - 1];
    if (above && top - above[1] < LABEL_HEIGHT) above[0] += `, ${text}`;
    else placed.push([text, top]);
  }
  return placed;
}

/** The outline of one band, as steps. @param {{t: number, sums: number[]}[]} points @param {number} band @param {(t: number) => number} x @param {(pods: number) => number} y @param {number} end */
function area(points, band, x, y, end) {
  if (!points.length) return "";
  const below = (/** @type {number[]} */ sums) => sums.slice(0, band).reduce((sum, one) => sum + one, 0);
  const top = points.map((point, index) => {
    const until = points[index + 1]?.t ?? end;
    const height = y(below(point.sums) + point.sums[band]);
    return `${x(point.t).toFixed(1)},${height.toFixed(1)} ${x(until).toFixed(1)},${height.toFixed(1)}`;
  });
  const bottom = points.map((point, index) => {
    const until = points[index + 1]?.t ?? end;
    const height = y(below(point.sums));
    return `${x(until).toFixed(1)},${height.toFixed(1)} ${x(point.t).toFixed(1)},${height.toFixed(1)}`;
  });
  return `M${top.join(" L")} L${bottom.reverse().join(" L")}Z`;
}

/** @param {{t: number, value: number}[]} points @param {(t: number) => number} x @param {(pods: number) => number} y @param {number} end */
function line(points, x, y, end) {
  const parts = points.map((point, index) => {
    const until = Math.min(points[index + 1]?.t ?? end, end);
    return `${x(point.t).toFixed(1)},${y(point.value).toFixed(1)} ${x(until).toFixed(1)},${y(point.value).toFixed(1)}`;
  });
  return `M${parts.join(" L")}`;
}
