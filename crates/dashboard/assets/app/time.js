// The slider over the last minutes: drag back, and every panel shows that moment; play on at 1, 10 or 60 times the speed.

import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "app/html";
import { model } from "app/model";
import { clock, human } from "app/words";

const SPEEDS = [1, 10, 60];

export function TimeBar() {
  const [speed, setSpeed] = useState(0);
  const played = useRef(0);
  const recording = model.connection === "recording";
  useEffect(() => {
    if (!speed) return;
    let last = performance.now();
    const step = () => {
      const now = performance.now();
      // Four pictures a second are enough where motion is not wanted.
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      if (!calm || now - last > 250) {
        const next = (model.cursor ?? model.last) + (now - last) * speed;
        last = now;
        if (next >= model.last) {
          setSpeed(0);
          model.seek(recording ? model.last : null);
          return;
        }
        model.seek(next);
      }
      played.current = requestAnimationFrame(step);
    };
    played.current = requestAnimationFrame(step);
    return () => cancelAnimationFrame(played.current);
  }, [speed]);
  const from = model.base.t;
  const to = Math.max(model.now(), from + 1);
  const at = model.shownAt();
  const play = (/** @type {number} */ factor) => {
    if (model.cursor === null || model.cursor >= model.last) model.seek(from);
    setSpeed(speed === factor ? 0 : factor);
  };
  const seek = (/** @type {any} */ event) => {
    setSpeed(0);
    const t = Number(event.target.value);
    model.seek(!recording && t >= model.now() - 500 ? null : t);
  };
  const behind = Math.round((to - at) / 1000);
  const words = recording ? `${human((at - from) / 1000)} of ${human((to - from) / 1000)}` : model.cursor === null ? "Live" : `${human(behind)} ago`;
  return html`<footer class=${`time ${model.cursor === null ? "" : "past"}`}>
    <div class="play" role="group" aria-label="Play">${SPEEDS.map((factor) => html`<button type="button" class="small" aria-pressed=${speed === factor} onClick=${() => play(factor)}>${speed === factor ? "❚❚" : "▶"} ×${factor}</button>`)}</div>
    <input type="range" aria-label="Moment that is shown" aria-valuetext=${`${clock(at)}, ${words}`} min=${from} max=${to} step="any" value=${model.cursor === null ? to : at} onInput=${seek} />
    <output class="moment">${recording ? "" : clock(at)} <b>${words}</b></output>
    ${recording ? null : html`<button type="button" class="small live" disabled=${model.cursor === null} onClick=${() => { setSpeed(0); model.seek(null); }}>Live</button>`}
  </footer>`;
}
