// What a person can do to the cluster in the box. Everything is asked for once more before it happens.

import { useEffect, useRef, useState } from "preact/hooks";
import { act } from "app/connection";
import { html } from "app/html";
import { model } from "app/model";

/** @type {{action: Record<string, unknown>, verb: string, words: string}|null} */
let asked = null;
/** @type {{text: string, failed: boolean}|null} */
let said = null;

/** Does something once it is confirmed. @param {Record<string, unknown>} action @param {string} verb @param {string} words */
export function confirmed(action, verb, words) {
  asked = { action, verb, words };
  model.changed();
}

/** The question, and what came of the last answer. */
export function Actions() {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  const [busy, setBusy] = useState(false);
  const open = asked;
  useEffect(() => {
    if (open && !dialog.current?.open) dialog.current?.showModal();
  }, [open]);
  const close = () => {
    asked = null;
    dialog.current?.close();
    model.changed();
  };
  const go = async () => {
    if (!open) return;
    setBusy(true);
    close();
    said = { text: `${open.verb}…`, failed: false };
    model.changed();
    const answer = await act(open.action);
    if (answer.done && open.action.action === "speed") {
      // The server says so with the next change only.
      model.setClock(model.now());
      model.hello = { ...model.hello, speed: Number(open.action.factor) };
    }
    said = { text: answer.done ?? answer.error ?? "done", failed: !answer.done };
    setBusy(false);
    model.changed();
    setTimeout(() => {
      said = null;
      model.changed();
    }, 8000);
  };
  return html`<dialog ref=${dialog} aria-labelledby="question" onClose=${close}>
      <p id="question">${open?.words}</p>
      <div class="buttons"><button type="button" onClick=${close}>Cancel</button><button type="button" class="do" onClick=${go} disabled=${busy}>${open?.verb}</button></div>
    </dialog>
    <p class=${`said ${said?.failed ? "failed" : ""}`} role="status">${said?.text ?? ""}</p>`;
}

const SPEEDS = [0.5, 1, 2, 5, 10, 30, 60, 100, 300, 1000];

/** How fast time passes in the box. */
export function Speed() {
  const speed = model.hello.speed;
  if (!model.hello.acts) return null;
  if (speed === null) return html`<span class="quiet wide" title="Start it with steersman up --speed 10 to change how fast time passes.">time ×1</span>`;
  const known = [...new Set([...SPEEDS, speed])].sort((one, two) => one - two);
  const change = (/** @type {any} */ event) => {
    const factor = Number(event.target.value);
    event.target.value = String(speed);
    confirmed({ action: "speed", factor }, `×${factor}`, `Run the cluster's clock ${factor} times as fast as real time.`);
  };
  return html`<label class="wide">Time <select value=${String(speed)} onChange=${change}>${known.map((one) => html`<option value=${String(one)} selected=${one === speed}>×${one}</option>`)}</select></label>`;
}
