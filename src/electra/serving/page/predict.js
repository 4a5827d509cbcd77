// What a fine-tuned model answers to a text or a pair.
import { ask, by, make, newest } from "./common.js";

export function predict(model) {
  let now = model;

  const answer = newest(async (signal) => {
    const texts = [by("predict-text").value, by("predict-other").value];
    const input = now.input === "pair" ? texts : now.input === "words" ? texts[0].split(/\s+/).filter(Boolean) : texts[0];
    const { results } = await ask("/predict", { inputs: [input] }, signal);
    const { words, id, ...told } = results[0];
    const lines = words ? words.map((word) => [word.label, `${word.word} (${word.p.toFixed(2)})`]) : Object.entries(told);
    by("predict-found").replaceChildren(...lines.map(line));
  });

  function show(chosen) {
    now = chosen;
    by("predict-second").hidden = chosen.input !== "pair";
    by("predict-title").textContent = `Predict: ${chosen.task}`;
    by("predict-found").replaceChildren();
  }

  by("predict").querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); answer(); });
  show(model);
  return show;
}

function line([name, value]) {
  const made = make("li", `${name}: ${typeof value === "number" ? value.toFixed(3) : value}`);
  return made;
}
