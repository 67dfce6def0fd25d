// An object's page: why it is as it is, its family as a tree that grows and shrinks, what all controllers decided about
// the family, conditions, events and YAML.

import { useEffect, useMemo, useState } from "preact/hooks";
import { confirmed } from "app/actions";
import { ask } from "app/connection";
import { List } from "app/decisions";
import { html } from "app/html";
import { model } from "app/model";
import { STATES, stateOf } from "app/nodes";
import { Chart, Legend } from "app/rollouts";
import { Command } from "app/unsettled";
import { human, keyOf, link, short } from "app/words";

/** @typedef {import("app/model").Row} Row @typedef {import("app/model").View} View */

/** @param {{view: View, kind: string, ns: string, name: string}} props */
export function ObjectPage({ view, kind, ns, name }) {
  const key = `${kind}/${ns}/${name}`;
  const row = view.rows.get(key);
  const [details, setDetails] = useState(/** @type {any} */ (null));
  const [why, setWhy] = useState(/** @type {any} */ (null));
  const live = model.connection !== "recording" && model.cursor === null;
  const verdict = view.rows.get(`why/${key}`);
  useEffect(() => {
    setDetails(null);
    setWhy(null);
  }, [key]);
  useEffect(() => {
    if (!live) return;
    const query = { kind, namespace: ns, name };
    const later = setTimeout(() => {
      ask("object", query).then(setDetails);
      ask("why", query).then(setWhy);
    }, 60);
    return () => clearTimeout(later);
  }, [key, row?.rv, verdict?.verdict, live]);
  const family = useMemo(() => (row ? familyOf(view, row) : []), [view, row]);
  const decisions = useMemo(() => decidedAbout(view, family, { kind, ns, name }), [view, family, key]);
  const missing = !live ? "There is no such object at this moment." : details?.error ?? "";
  const node = row?.node ? view.rows.get(`Node//${row.node}`) : undefined;
  return html`<main class="object" id="main" tabindex="-1">
    <p class="back"><a href="#/">Overview</a></p>
    <h1>${kind.toLowerCase()}/<wbr/>${name} ${ns ? html`<span class="quiet">in ${ns}</span>` : null}</h1>
    ${row || details?.yaml ? null : html`<p class="calm">${missing}</p>`}
    ${row?.gone ? html`<p class="state terminating">being deleted</p>` : null}
    <${Why} why=${!live ? verdict ?? settledThen(row) : why?.error && missing ? null : why} />
    ${row?.kind === "Pod" && row.node && model.hello.acts && live ? html`<p class="buttons"><button type="button" class="small" onClick=${() => confirmed({ action: "failPod", namespace: ns, name }, "Fail", `Fail ${name}: its containers are killed once, and its restart policy says what becomes of it.`)}>Fail this pod</button>
      <span class="quiet">on <a href=${`#/object/Node/-/${row.node}`}>${row.node}</a>, ${STATES[stateOf(row, node)]}</span></p>` : null}
    ${row?.rolls && model.series.get(row.uid)?.length ? html`<section class="panel"><h2>Pods over time</h2><${Legend} /><${Chart} row=${row} view=${view} /></section>` : null}
    <div class=${row ? "columns" : ""}>
      ${row ? html`<section class="panel" aria-labelledby="family-title"><h2 id="family-title">Owners and dependents</h2>
        <ul class="tree"><${Branch} view=${view} row=${view.top(row)} here=${row.uid} depth=${0} /></ul>
        ${view.around(view.top(row)).length ? html`<h3>Around it</h3><ul class="tree">${view.around(view.top(row)).map((one) => html`<${Branch} key=${one.uid} view=${view} row=${one} here=${row.uid} depth=${1} />`)}</ul>` : null}
      </section>` : null}
      <section class="panel" aria-labelledby="decided-title"><h2 id="decided-title">Decisions about it and its family</h2>
        <${List} decisions=${decisions} view=${view} none="No controller has decided anything about it." />
      </section>
    </div>
    ${details?.yaml ? html`<${Details} details=${details} t=${view.t} live=${live} />` : null}
  </main>`;
}

/** At a moment of the past, what has no verdict was settled. @param {Row|undefined} row */
function settledThen(row) {
  return row && model.hello.all && model.connection !== "recording" && !row.open ? { state: "settled", verdict: "was settled" } : null;
}

/** @param {{why: any}} props */
function Why({ why }) {
  if (!why || why.error) return html`<p class="calm">${why?.error ?? ""}</p>`;
  /** @type {[string, string[]][]} */
  const parts = [
    ["Wants", why.wants ?? []],
    ["Sees", why.sees ?? []],
    ["Pending", why.waits ?? []],
    // The verdict says it already.
    ["In the way", (why.inTheWay ?? []).filter((/** @type {any} */ one) => !one.inVerdict).map((/** @type {any} */ one) => `${one.object}${one.more ? ` and ${one.more} more` : ""}: ${one.why}`)],
  ];
  return html`<section class=${`panel why-panel ${why.state}`} aria-label="Why">
    <p class="why"><span class=${`mark ${why.state}`} role="img" aria-label=${why.state}></span> <span class="words">${why.verdict}</span></p>
    ${why.help?.command ? html`<${Command} command=${why.help.command} why=${why.help.why} />` : why.help ? html`<p class="quiet">${why.help.why}</p>` : null}
    <dl>${parts.filter(([, lines]) => lines.length).map(([title, lines]) => html`<dt>${title}</dt>${lines.map((line) => html`<dd>${line}</dd>`)}`)}</dl>
  </section>`;
}

/** What belongs together: everything under the same top, and what is around it. @param {View} view @param {Row} row */
function familyOf(view, row) {
  const top = view.top(row);
  const found = [top, ...view.around(top)];
  for (let index = 0; index < found.length && found.length < 2000; index += 1) found.push(...(view.children.get(found[index].uid) ?? []));
  return found;
}

/** @param {View} view @param {Row[]} family @param {{kind: string, ns: string, name: string}} own */
function decidedAbout(view, family, own) {
  const keys = new Set([...family.map(keyOf), keyOf(own)]);
  const found = [];
  for (let index = view.decisions.length - 1; index >= 0 && found.length < 120; index -= 1) if (keys.has(keyOf(view.decisions[index].object))) found.push(view.decisions[index]);
  return found;
}

const CHILDREN_SHOWN = 30;

/** @param {{view: View, row: Row, here: string, depth: number}} props */
function Branch({ view, row, here, depth }) {
  const children = (view.children.get(row.uid) ?? []).filter((child) => child.kind !== "ControllerRevision");
  const order = (/** @type {Row} */ one) => (one.kind === "ReplicaSet" ? -(one.revision ?? 0) : 0);
  children.sort((one, two) => order(one) - order(two) || one.name.localeCompare(two.name));
  // Old sets without pods say nothing that is not in the newest one.
  const shown = children.filter((child) => child.kind !== "ReplicaSet" || child.uid === here || child.pods || child.wanted);
  const node = row.node ? view.rows.get(`Node//${row.node}`) : undefined;
  const words = row.kind === "Pod" ? `${STATES[stateOf(row, node)]}${row.reason ? `, ${row.reason}` : ""}${row.node ? ` on ${row.node}` : ""}`
    : row.kind === "PodDisruptionBudget" ? `${row.healthy} healthy, at least ${row.least}; ${row.allowed} may be disrupted`
    : row.wanted !== undefined ? `${row.ready ?? 0} of ${row.wanted} ready${row.pods !== undefined && row.pods !== row.wanted ? `, ${row.pods} there` : ""}`
    : row.kind === "EndpointSlice" ? `${row.ready} of ${row.pods} ready`
    : row.text ?? "";
  return html`<li class="branch"><span class=${`leaf ${row.uid === here ? "here" : ""}`}>
      ${row.kind === "Pod" ? html`<span class=${`swatch ${stateOf(row, node)}`} aria-hidden="true"></span>` : null}
      ${row.uid === here ? html`<b aria-current="page">${short(row)}</b>` : html`<a href=${link(row)}>${short(row)}</a>`} <span class="quiet">${words}</span></span>
    ${shown.length && depth < 4 ? html`<ul>${shown.slice(0, CHILDREN_SHOWN).map((child) => html`<${Branch} key=${child.uid} view=${view} row=${child} here=${here} depth=${depth + 1} />`)}
      ${shown.length > CHILDREN_SHOWN ? html`<li class="quiet">and ${shown.length - CHILDREN_SHOWN} more</li>` : null}</ul>` : null}
  </li>`;
}

/** Events up to the moment that is shown; of conditions and YAML nobody keeps what they were. @param {{details: any, t: number, live: boolean}} props */
function Details({ details, t, live }) {
  const ago = (/** @type {string} */ at) => `${human((t - Date.parse(at)) / 1000)} ago`;
  const all = Array.isArray(details.events) ? details.events : [];
  const events = live ? all : all.filter((/** @type {any} */ one) => !one.at || Date.parse(one.at) <= t);
  const now = live ? null : html` <span class="count">as of now</span>`;
  return html`<div class="columns">
      ${details.conditions?.length ? html`<section class="panel" aria-labelledby="conditions-title"><h2 id="conditions-title">Conditions${now}</h2>
        <ul class="facts">${details.conditions.map((/** @type {any} */ one) => html`<li><b>${one.type}</b> ${one.status}${one.reason ? html` <span class="quiet">${one.reason}</span>` : null}${one.message ? html`<br/>${one.message}` : null}</li>`)}</ul></section>` : null}
      <section class="panel" aria-labelledby="events-title"><h2 id="events-title">Events</h2>
        ${details.events?.error ? html`<p class="quiet">${details.events.error}</p>` : events.length === 0 ? html`<p class="quiet">None.</p>` : html`<ul class="facts">${events.map((/** @type {any} */ one) => html`<li><b class=${one.type === "Warning" ? "warning" : ""}>${one.reason}</b> <span class="quiet">${one.at ? ago(one.at) : ""}${one.count > 1 ? `, ${one.count} times` : ""}</span><br/>${one.message}</li>`)}</ul>`}</section>
    </div>
    <details class="panel yaml"><summary>YAML${now}</summary><pre tabindex="0">${details.yaml}</pre></details>`;
}
