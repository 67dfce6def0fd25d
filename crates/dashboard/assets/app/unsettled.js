// Not settled now: what is on its way or stuck, with the verdict of `steersman why`.

import { useEffect, useState } from "preact/hooks";
import { ask } from "app/connection";
import { html } from "app/html";
import { model } from "app/model";
import { counted, human, link, short } from "app/words";

/** @typedef {import("app/model").Row} Row @typedef {import("app/model").View} View */

const ORDER = ["stuck", "unknown", "progressing"];

/** Everything that is not settled, the worst first. @param {View} view */
export function unsettled(view) {
  /** @type {Row[]} */
  const found = [];
  for (const [key, row] of view.rows) if (key.startsWith("why/")) found.push(row);
  if (!model.hello.all) found.push(...openRows(view));
  return found.sort((one, two) => ORDER.indexOf(one.state ?? "") - ORDER.indexOf(two.state ?? "") || short(one).localeCompare(short(two)));
}

/** For who may not see everything: what does not have what it wants; the verdict is asked for. @param {View} view */
function openRows(view) {
  const open = [...view.rows.values()].filter((row) => row.workload && !row.owner && row.text !== "Complete" && Number(row.ready ?? 0) < Number(row.wanted ?? 0));
  return open.map((row) => ({ ...row, state: "progressing" }));
}

/** @param {{view: View}} props */
export function Unsettled({ view }) {
  const all = unsettled(view);
  const names = view.all("Namespace").length;
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
  const [own, setOwn] = useState(/** @type {Row|null} */ (null));
  useEffect(() => {
    if (row.verdict || model.connection === "recording") return;
    const later = setTimeout(() => ask("why", { kind: row.kind, namespace: row.ns ?? "", name: row.name }).then(setOwn), 100);
    return () => clearTimeout(later);
  }, [row.verdict, row.rv]);
  const told = row.verdict ? row : { ...row, ...(own ?? {}), kind: row.kind, name: row.name, ns: row.ns };
  const state = told.state ?? "progressing";
  const deadline = view.deadline(row);
  return html`<li class=${`verdict ${state}`}>
    <span class=${`mark ${state}`} role="img" aria-label=${state}></span>
    <div class="what">
      <p class="who"><a href=${link(row)}>${short(row)}</a> ${row.ns ? html`<span class="quiet">in ${row.ns}</span>` : null}
        ${deadline ? html`<span class="until" title=${new Date(deadline.at).toISOString()}>${deadline.what} in <b>${human((deadline.at - view.t) / 1000)}</b></span>` : null}</p>
      <p class="why">${told.verdict ?? "…"}</p>
      ${told.help?.command ? html`<${Command} command=${told.help.command} why=${told.help.why} />` : told.help ? html`<p class="quiet">${told.help.why}</p>` : null}
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
