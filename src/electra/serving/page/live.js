// Colours each word by P(replaced) while the user types.
import { ask, by, make, newest } from "./common.js";

const PAUSE = 120; // milliseconds without a key press before a request

export function live() {
  const text = by("live-text");
  let words = [];
  let scored = [];
  let timer = 0;

  // Keeps the marks of the text before the first change since the last response.
  function paint() {
    const points = Array.from(text.value); // offsets count code points
    let same = 0;
    while (same < points.length && points[same] === scored[same]) same += 1;
    const parts = [];
    let at = 0;
    for (const word of words.filter((word) => word.end <= same)) {
      parts.push(points.slice(at, word.start).join(""));
      const mark = make("span", points.slice(word.start, word.end).join(""), word.replaced ? "marked" : "");
      mark.style.setProperty("--p", (0.85 * word.p_replaced).toFixed(3));
      parts.push(mark);
      at = word.end;
    }
    by("live-marks").replaceChildren(...parts, points.slice(at).join("") + "\n");
  }

  const detect = newest(async (signal) => {
    const sent = text.value;
    const { results } = await ask("/detect", { texts: [sent] }, signal);
    by("live-threshold").textContent = results[0].threshold.toFixed(2);
    scored = Array.from(sent);
    words = results[0].words;
    paint();
    const worst = words.reduce((a, b) => (a && a.p_replaced >= b.p_replaced ? a : b), null);
    by("live-worst").textContent = worst ? `Highest: ${worst.word}, ${worst.p_replaced.toFixed(2)}` : "";
  });

  text.addEventListener("input", () => {
    paint();
    clearTimeout(timer);
    timer = setTimeout(detect, PAUSE);
  });
  text.value = text.value || "The capital of France is seven.";
  detect();
  return () => { words = []; detect(); };
}
