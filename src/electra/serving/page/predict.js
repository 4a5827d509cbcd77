// The prediction of a fine-tuned model for a text or a pair of texts.
import { ask, by, make, newest } from "./common.js";

export function predict(model) {
  let current = model;

  const answer = newest(async (signal) => {
    const texts = [by("predict-text").value, by("predict-other").value];
    const input = current.input === "pair" ? texts : current.input === "words" ? texts[0].split(/\s+/).filter(Boolean) : texts[0];
    const { results } = await ask("/predict", { inputs: [input] }, signal);
    const { words, id, ...rest } = results[0];
    const lines = words ? words.map((word) => [word.label, `${word.word} (${word.p.toFixed(2)})`]) : Object.entries(rest);
    by("predict-found").replaceChildren(...lines.map(line));
  });

  function show(chosen) {
    current = chosen;
    by("predict-second").hidden = chosen.input !== "pair";
    by("predict-title").textContent = `Predict: ${chosen.task}`;
    by("predict-found").replaceChildren();
  }

  by("predict").querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); answer(); });
  show(model);
  return show;
}

function line([name, value]) {
  return make("li", `${name}: ${typeof value === "number" ? value.toFixed(3) : value}`);
}
