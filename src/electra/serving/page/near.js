// Sentences, ranked by their cosine similarity to another.
import { SENTENCES, ask, by, make, newest } from "./common.js";

const MOST = 100; // sentences in one comparison

export function near() {
  by("near-query").value = "A cook prepared dinner for the visitors.";
  by("near-texts").value = SENTENCES.join("\n");

  const compare = newest(async (signal) => {
    const texts = by("near-texts").value.split("\n").filter((line) => line.trim()).slice(0, MOST);
    const { vectors } = await ask("/embed", { texts: [by("near-query").value, ...texts] }, signal);
    const [query, ...others] = vectors;
    const ranked = others.map((vector, i) => ({ text: texts[i], cosine: cosine(query, vector) }));
    ranked.sort((a, b) => b.cosine - a.cosine);
    by("near-found").replaceChildren(...ranked.map(item));
  });

  by("near").querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); compare(); });
  compare();
  return compare;
}

function item({ text, cosine }) {
  const element = make("li");
  element.append(make("span", cosine.toFixed(3), "number"), text);
  return element;
}

function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b) || 1);
}
