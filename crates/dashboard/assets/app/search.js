// Search by name: `/` begins, arrows choose, Enter opens.

import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "app/html";
import { link, short } from "app/words";

/** @typedef {import("app/model").Row} Row @typedef {import("app/model").View} View */

const FOUND_MAX = 12;

/** @param {View} view @param {string} text */
export function search(view, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  /** @type {[number, Row][]} */
  const found = [];
  for (const row of view.byUid.values()) {
    const all = `${row.kind.toLowerCase()}/${row.name} ${row.ns ?? ""}`;
    if (!words.every((word) => all.includes(word))) continue;
    // What is called so comes first, and what owns before what is owned.
    const rank = (row.name === words[0] ? 0 : row.name.startsWith(words[0]) ? 1 : 2) * 2 + (row.owner ? 1 : 0);
    found.push([rank, row]);
  }
  found.sort(([one, first], [two, second]) => one - two || first.name.length - second.name.length || short(first).localeCompare(short(second)));
  return found.slice(0, FOUND_MAX).map(([, row]) => row);
}

/** @param {{view: View}} props */
export function Search({ view }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const input = useRef(/** @type {HTMLInputElement|null} */ (null));
  const found = search(view, text);
  useEffect(() => {
    const listen = (/** @type {KeyboardEvent} */ event) => {
      const typing = event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
      if (event.key === "/" && !typing && !event.metaKey && !event.ctrlKey) {
        event.preventDefault();
        input.current?.focus();
      }
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, []);
  const close = () => {
    setText("");
    setChosen(0);
    input.current?.blur();
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown") setChosen(Math.min(chosen + 1, found.length - 1));
    else if (event.key === "ArrowUp") setChosen(Math.max(chosen - 1, 0));
    else if (event.key === "Escape") close();
    else if (event.key === "Enter" && found[chosen]) {
      location.hash = link(found[chosen]);
      close();
    } else return;
    event.preventDefault();
  };
  const open = found.length > 0;
  return html`<div class="search" role="search">
    <input ref=${input} type="search" role="combobox" aria-label="Search objects by name" aria-expanded=${open} aria-controls="found" aria-activedescendant=${open ? `found-${chosen}` : undefined}
      aria-autocomplete="list" placeholder="Search  /" value=${text} onInput=${(/** @type {any} */ event) => { setText(event.target.value); setChosen(0); }} onKeyDown=${press} />
    <ul id="found" role="listbox" aria-label="Objects" hidden=${!open}>${found.map((row, index) => html`<li id=${`found-${index}`} role="option" aria-selected=${index === chosen} key=${row.uid}
      onMouseDown=${() => { location.hash = link(row); close(); }}>${short(row)} <span class="quiet">${row.ns ?? ""}</span></li>`)}</ul>
  </div>`;
}
