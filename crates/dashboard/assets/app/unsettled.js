// Not settled now: what is on its way or stuck, with the verdict of `steersman why`.

import { useEffect, useState } from "preact/hooks";
import { ask } from "app/connection";
import { html } from "app/html";
import { model } from "app/model";
import { counted, human, keyOf, link, short } from "app/words";

/** @typedef {import("app/model").Row} Row @typedef {import("app/model").View} View */

const ORDER = ["stuck", "unknown", "progressing"];

/** What follows from others comes after these. */
const CONSEQUENCES = ["Service", "Ingress", "PodDisruptionBudget", "ResourceQuota", "HorizontalPodAutoscaler"];

/** Verdicts that this viewer asked for, by key, with the version of the object. @type {Map<string, {rv: number|undefined, told: Row|null}>} */
const answers = new Map();

/** Everything that is not settled, the worst first. @param {View} view */
export function unsettled(view) {
  /** @type {Row[]} */
  const found = [];
  for (const [key, row] of view.rows) if (key.startsWith("why/")) found.push(row);
  if (!model.hello.all) found.push(...openRows(view).map(answered).filter((row) => row.state !== "settled"));
  const rank = (/** @type {Row} */ row) => ORDER.indexOf(row.state ?? "") * 2 + (CONSEQUENCES.includes(row.kind) ? 1 : 0);
  return found.sort((one, two) => rank(one) - rank(two) || short(one).localeCompare(short(two)));
}

/** For who may not be told every verdict: what may be unsettled. @param {View} view */
function openRows(view) {
  const open = new Map();
  for (const row of view.byUid.values()) {
    if (row.open) open.set(keyOf(row), row);
    // A Service is what its slices make of it.
    const lacks = row.service && (!row.pods || Number(row.ready) < row.pods);
    const service = lacks ? view.rows.get(`Service/${row.ns}/${row.service}`) : undefined;
    if (service) open.set(keyOf(service), service);
  }
  return [...open.values()];
}

/** With its verdict, if it is known already. @param {Row} row @returns {Row} */
function answered(row) {
  const told = model.cursor === null ? answers.get(keyOf(row))?.told : null;
  return { ...row, state: told?.state ?? "progressing", verdict: told?.verdict, help: told?.help };
}

/** Asks for the verdicts of what has changed, some at a time: the browser allows few connections to a host. @param {View} view */
function consult(view) {
  const due = openRows(view).filter((row) => answers.get(keyOf(row))?.rv !== row.rv || !answers.has(keyOf(row)));
  for (const row of due.slice(0, ASKED_AT_ONCE - asking)) {
    asking += 1;
    const known = answers.get(keyOf(row));
    answers.set(keyOf(row), { rv: row.rv, told: known?.told ?? null });
    ask("why", { kind: row.kind, namespace: row.ns ?? "", name: row.name }).then((told) => {
      asking -= 1;
      answers.set(keyOf(row), { rv: row.rv, told: told.error ? { state: "unknown", verdict: told.error } : told });
      model.changed();
    });
  }
}

const ASKED_AT_ONCE = 3;
let asking = 0;

/** @param {{view: View}} props */
export function Unsettled({ view }) {
  const all = unsettled(view);
  const names = view.namespaces();
  useEffect(() => {
    if (!model.hello.all && model.connection === "live" && model.cursor === null) consult(view);
  });
  return html`<section class="panel unsettled" aria-labelledby="unsettled-title">
    <h2 id="unsettled-title">Not settled <span class="count">${all.length}</span></h2>
    <div aria-live="polite">
      ${all.length === 0
        ? html`<p class="calm"><span class="mark settled" aria-hidden="true"></span> Everything is settled: ${counted(view.byUid.size, "object")} in ${counted(names, "namespace")} are as they should be.</p>`
        : html`<ul class="verdicts">${all.slice(0, 60).map((row) => html`<${Verdict} key=${`${row.kind}/${row.ns}/${row.name}`} row=${row} view=${view} />`)}</ul>`}
      ${all.length > 60 ? html`<p class="quiet">and ${all.length - 60} more</p>` : null}
    </div>
  </section>`;
}

/** @param {{row: Row, view: View}} props */
function Verdict({ row, view }) {
  const state = row.state ?? "progressing";
  const deadline = view.deadline(row);
  return html`<li class=${`verdict ${state} ${CONSEQUENCES.includes(row.kind) ? "follows" : ""}`}>
    <span class=${`mark ${state}`} role="img" aria-label=${state}></span>
    <div class="what">
      <p class="who"><a href=${link(row)}>${short(row)}</a> ${row.ns ? html`<span class="quiet">in ${row.ns}</span>` : null}
        ${deadline ? html`<span class="until" title=${new Date(deadline.at).toISOString()}>${deadline.what} in <b>${human((deadline.at - view.t) / 1000)}</b></span>` : null}</p>
      <p class="why">${row.verdict ?? (model.cursor === null ? "…" : "was not settled")}</p>
      ${row.help?.command ? html`<${Command} command=${row.help.command} why=${row.help.why} />` : row.help ? html`<p class="quiet">${row.help.why}</p>` : null}
    </div>
  </li>`;
}

/** A command to copy. @param {{command: string, why?: string}} props */
export function Command({ command, why }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(command);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<p class="command"><code>${command}</code>
    <button type="button" class="small" onClick=${copy} aria-label=${`Copy: ${command}`}>${copied ? "Copied" : "Copy"}</button>
    ${why ? html`<span class="quiet">${why}</span>` : null}</p>`;
}
