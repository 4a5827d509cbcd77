// The table Original | Masked | Generated | Label | P(replaced), with a button for another draw.
import { SENTENCES, ask, by, make, newest, threshold } from "./common.js";

export function draw() {
  let seed = 0;
  by("draw-text").value = SENTENCES[0];

  const another = newest(async (signal) => {
    seed += 1;
    const request = { texts: [by("draw-text").value], seed, mask_fraction: by("draw-masked").valueAsNumber / 100 };
    const { results } = await ask("/draw", request, signal);
    by("draw-rows").replaceChildren(...results[0].map(row));
    const changed = results[0].filter((token) => token.label === "replaced");
    const marked = results[0].filter((token) => token.p_replaced !== null && token.p_replaced >= threshold());
    const right = marked.filter((token) => token.label === "replaced").length;
    const scored = results[0].some((token) => token.p_replaced !== null);
    const summary = `Draw ${seed}: ${changed.length} replaced`;
    by("draw-told").textContent = scored
      ? `${summary}, of which the discriminator marks ${right}; original tokens marked: ${marked.length - right}`
        + ` (its threshold: ${threshold().toFixed(2)}).`
      : `${summary}.`;
  });

  by("draw").querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); another(); });
  another();
  return another;
}

function row(token) {
  const element = make("tr", "", token.label === "replaced" ? "replaced" : "");
  for (const name of ["original", "masked", "generated", "label"]) element.append(make("td", token[name] ?? ""));
  const p = token.p_replaced;
  element.append(make("td", p === null ? "" : p.toFixed(3), p !== null && p >= threshold() ? "number suspected" : "number"));
  return element;
}
