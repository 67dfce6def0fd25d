// The decision stream: what each controller decided, newest first, with reasons.

import { useMemo, useState } from "preact/hooks";
import { html } from "app/html";
import { clock, controllerName, human, link, short } from "app/words";

/** @typedef {import("app/model").Decision} Decision @typedef {import("app/model").View} View */

const CLASSES = { acts: "acts", waits: "waits", states: "notes" };
/** On a phone the list is as long as the page. */
const SHOWN = matchMedia("(max-width: 620px)").matches ? 20 : 80;

/** @param {{view: View, filter: Record<string, string>, onFilter: (change: Record<string, string>) => void}} props */
export function Decisions({ view, filter, onFilter }) {
  const [more, setMore] = useState(1);
  const known = useMemo(() => {
    const sorted = (/** @type {Set<string>} */ set) => [...set].sort();
    return {
      controllers: sorted(new Set(view.decisions.map((one) => one.controller))),
      namespaces: sorted(new Set(view.decisions.map((one) => one.object.namespace ?? "").filter(Boolean))),
    };
  }, [view]);
  const found = filtered(view.decisions, filter, SHOWN * more + 1);
  const choose = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string[]} */ values, shown = (/** @type {string} */ value) => value) =>
    html`<label>${label} <select value=${filter[name] ?? ""} onChange=${(/** @type {any} */ event) => onFilter({ [name]: event.target.value })}>
      <option value="">all</option>${values.map((value) => html`<option value=${value} selected=${filter[name] === value}>${shown(value)}</option>`)}
    </select></label>`;
  return html`<section class="panel decisions" aria-labelledby="decisions-title">
    <h2 id="decisions-title">Decisions</h2>
    <div class="filters">
      ${choose("ns", "Namespace", known.namespaces)}
      ${choose("controller", "Controller", known.controllers, controllerName)}
      ${choose("class", "Class", Object.keys(CLASSES), (value) => CLASSES[/** @type {"acts"} */ (value)])}
      <label>Object <input type="search" value=${filter.object ?? ""} placeholder="name" onInput=${(/** @type {any} */ event) => onFilter({ object: event.target.value })} /></label>
    </div>
    <${List} decisions=${found.slice(0, SHOWN * more)} view=${view} none=${view.decisions.length ? "No decision matches." : "No decisions yet."} />
    ${found.length > SHOWN * more ? html`<button type="button" class="small" onClick=${() => setMore(more + 1)}>Show more</button>` : null}
  </section>`;
}

/** The newest that fit. @param {Decision[]} decisions @param {Record<string, string>} filter @param {number} most */
export function filtered(decisions, filter, most) {
  /** @type {Decision[]} */
  const found = [];
  for (let index = decisions.length - 1; index >= 0 && found.length < most; index -= 1) {
    const one = decisions[index];
    if (filter.controller && one.controller !== filter.controller) continue;
    if (filter.ns && one.object.namespace !== filter.ns) continue;
    if (filter.object && !short(one.object).includes(filter.object.toLowerCase())) continue;
    const lines = filter.class ? one.lines.filter((line) => line.class === filter.class) : one.lines;
    if (lines.length) found.push(lines === one.lines ? one : { ...one, lines });
  }
  return found;
}

/** @param {{decisions: Decision[], view: View, none: string}} props */
export function List({ decisions, view, none }) {
  if (!decisions.length) return html`<p class="quiet">${none}</p>`;
  return html`<ol class="decided" tabindex="0" aria-label="Decisions, newest first">
    ${decisions.map((one) => html`<${One} key=${`${one.t} ${one.controller} ${one.object.kind} ${one.object.name} ${one.lines[0].what}`} decision=${one} now=${view.t} />`)}
  </ol>`;
}

/** @param {{decision: Decision, now: number}} props */
function One({ decision, now }) {
  return html`<li>
    <time datetime=${new Date(decision.t).toISOString()}>${clock(decision.t)}</time>
    <div>
      <p class="who"><span class="controller">${controllerName(decision.controller)}</span> ${decision.controller === "trace" ? null : html`<a href=${link(decision.object)}>${short(decision.object)}</a>`}
        ${decision.object.namespace ? html`<span class="quiet">in ${decision.object.namespace}</span>` : null}</p>
      ${decision.lines.map((line) => {
        const until = line.until ? (Date.parse(line.until) - now) / 1000 : null;
        return html`<p class=${`line ${line.class}`}><span class=${`glyph ${line.class}`} role="img" aria-label=${CLASSES[line.class]}></span>
          ${line.what}${until === null ? "" : until > 0 ? html` <b>in ${human(until)}</b>` : html` <span class="quiet">${human(-until)} ago</span>`}${line.why ? html`<span class="reason">: ${line.why}</span>` : null}
          ${line.hint ? html`<span class="hint">${line.hint}</span>` : null}</p>`;
      })}
    </div>
  </li>`;
}
