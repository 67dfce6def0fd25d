// The page: a header, the panels in their order or one object, and the slider.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Actions, Speed } from "app/actions";
import { connect } from "app/connection";
import { Decisions } from "app/decisions";
import { html } from "app/html";
import { model } from "app/model";
import { Nodes } from "app/nodes";
import { ObjectPage } from "app/object";
import { Rollouts } from "app/rollouts";
import { Search } from "app/search";
import { TimeBar } from "app/time";
import { Unsettled, unsettled } from "app/unsettled";
import { counted } from "app/words";

/** What the address says: everything that is shown can be sent to a colleague. */
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, kind, ns, ...name] = path.split("/");
  return {
    object: page === "object" ? { kind, ns: ns === "-" ? "" : ns, name: decodeURIComponent(name.join("/")) } : null,
    filter: Object.fromEntries(new URLSearchParams(query ?? "")),
  };
}

/** @param {Record<string, string>} filter */
function showFilter(filter) {
  const told = Object.entries(filter).filter(([, value]) => value);
  const text = new URLSearchParams(told).toString();
  history.replaceState(null, "", `#/${text ? `?${text}` : ""}`);
  model.changed();
}

function App() {
  const [, redraw] = useState(0);
  useEffect(() => {
    let count = 0;
    const again = () => redraw((count += 1));
    model.listeners.add(again);
    addEventListener("hashchange", again);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", again);
    // Countdowns go on by themselves.
    const ticks = setInterval(() => model.cursor === null && model.connection === "live" && again(), 1000);
    return () => {
      model.listeners.delete(again);
      removeEventListener("hashchange", again);
      scheme.removeEventListener("change", again);
      clearInterval(ticks);
    };
  }, []);
  const view = model.view();
  const { object, filter } = route();
  // The timeline of a simulation has no objects.
  const timeline = model.connection === "recording" && model.rows.size === 0;
  useEffect(() => {
    document.title = object ? `${object.name} · Steersman` : "Steersman";
    document.getElementById("main")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [object?.kind, object?.name, object?.ns]);
  if (model.connection === "connecting") return html`<${Header} view=${view} /><main id="main" class="calm-page" aria-busy="true"><p class="quiet">Connecting…</p></main>`;
  return html`<a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
    <${Header} view=${view} />
    ${object ? html`<${ObjectPage} view=${view} ...${object} />` : html`<main id="main" tabindex="-1">
      <h1 class="sr">What the controllers do, and why</h1>
      <${Notes} />
      ${timeline ? null : html`<${Unsettled} view=${view} /><${Rollouts} view=${view} />`}
      <div class=${timeline ? "" : "columns wide-left"}>
        <${Decisions} view=${view} filter=${filter} onFilter=${(/** @type {Record<string, string>} */ change) => showFilter({ ...filter, ...change })} />
        ${timeline ? null : html`<${Nodes} view=${view} />`}
      </div>
    </main>`}
    <${TimeBar} />
    <${Actions} />`;
}

/** What a recording says of itself. */
function Notes() {
  const notes = model.notes;
  if (!notes) return null;
  return html`<section class="panel notes" aria-label="Result"><p class="why"><b>${notes.verdict}</b></p>
    ${model.rows.size && model.shownAt() <= notes.begin ? html`<p class="quiet">This is the cluster before the change. Press ▶ below to play what happens.</p>` : null}
    ${notes.warnings.length ? html`<ul class="facts">${notes.warnings.map((one) => html`<li>${one}</li>`)}</ul>` : null}</section>`;
}

/** @param {{view: import("app/model").View}} props */
function Header({ view }) {
  const open = unsettled(view);
  const stuck = open.filter((row) => row.state === "stuck").length;
  const words = { connecting: "Connecting…", lost: "Connection lost; trying again", live: "", recording: model.rows.size ? "" : model.notes?.failed ? "A check failed" : "All checks held" }[model.connection];
  const state = words || (stuck ? `${counted(stuck, "object")} stuck` : open.length ? `${counted(open.length, "object")} progressing` : "All settled");
  const waits = model.connection === "connecting" || open.length > 0;
  const mark = model.connection === "lost" ? "unknown" : stuck || model.notes?.failed ? "stuck" : waits ? "progressing" : "settled";
  return html`<header>
    <a class="brand" href="#/" aria-label="Steersman, to the beginning"><svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true"><circle cx="8" cy="8" r="5" /><path d="M8 0v16M0 8h16" /></svg> Steersman</a>
    <span class="overall"><span class=${`mark ${mark}`} aria-hidden="true"></span> ${state}</span>
    <span class="cluster quiet wide">${model.hello.cluster}</span>
    <${Speed} />
    <${Search} view=${view} />
    <${Theme} />
  </header>`;
}

const THEMES = ["auto", "light", "dark"];

function Theme() {
  const [theme, setTheme] = useState(() => stored("theme") ?? "auto");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    store("theme", theme);
    model.changed();
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  return html`<button type="button" class="small theme" aria-label=${`Theme: ${theme}. Change to ${next}`} title=${`Theme: ${theme}`} onClick=${() => setTheme(next)}>${{ auto: "◐", light: "○", dark: "●" }[theme]}</button>`;
}

/** Files opened from a disk may have no storage. @param {string} key */
function stored(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
function store(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Then it lasts as long as the page.
  }
}

connect();
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
