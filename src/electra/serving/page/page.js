// Colours words by P(replaced) while the user types, and predicts with fine-tuned models. Text is only ever inserted
// as text nodes.
const by = (id) => document.getElementById(id);
const PAUSE = 120; // milliseconds without a key press before a request
let models = [];
let model = null;
let scored = []; // the code points and words of the last answer
let words = [];

async function ask(path, body, signal) {
  const post = { method: "POST", headers: { "content-type": "application/json" }, signal };
  const response = await fetch(path, body && { ...post, body: JSON.stringify({ model: model.name, ...body }) });
  const content = await response.json();
  if (!response.ok) throw new Error([content.error.what, content.error.fix].filter(Boolean).join(". "));
  tell(null);
  return content;
}

// Shows an error at the top of the page; null removes it.
function tell(error) {
  if (error?.name === "AbortError") return;
  by("notice").hidden = !error;
  by("notice").textContent = error instanceof TypeError ? "The server does not answer." : error?.message ?? "";
}

// Returns a function that runs `work` and aborts its previous run: only the newest answer is shown.
function newest(work) {
  let running = new AbortController();
  return () => {
    running.abort();
    running = new AbortController();
    work(running.signal).catch(tell);
  };
}

// Keeps the marks of the text before the first change since the last answer.
function paint() {
  const points = Array.from(by("text").value); // offsets count code points
  let same = 0;
  while (same < points.length && points[same] === scored[same]) same += 1;
  const parts = [];
  let at = 0;
  for (const word of words.filter((each) => each.end <= same)) {
    const mark = document.createElement("span");
    mark.textContent = points.slice(word.start, word.end).join("");
    mark.className = word.replaced ? "marked" : "";
    mark.style.setProperty("--p", (0.85 * word.p_replaced).toFixed(3));
    parts.push(points.slice(at, word.start).join(""), mark);
    at = word.end;
  }
  by("marks").replaceChildren(...parts, points.slice(at).join("") + "\n");
}

const detect = newest(async (signal) => {
  const sent = by("text").value;
  const { results: [found] } = await ask("detect", { texts: [sent], suggestions: 3 }, signal);
  by("threshold").textContent = found.threshold.toFixed(2);
  [scored, words] = [Array.from(sent), found.words];
  paint();
  const marked = words.filter((each) => each.replaced);
  const highest = words.reduce((a, b) => (a && a.p_replaced >= b.p_replaced ? a : b), null);
  const lines = marked.map((each) => [each, (each.suggestions ?? []).map((other) => other.word).join(", ")]);
  if (highest && !marked.length) lines.push([highest, "the highest; no word is marked"]);
  by("marked").replaceChildren(...lines.map(([word, said]) => {
    const [item, name] = [document.createElement("li"), document.createElement("b")];
    name.textContent = word.word;
    item.append(name, ` ${word.p_replaced.toFixed(2)}${said ? ": " : ""}${said}`);
    return item;
  }));
});

const predict = newest(async (signal) => {
  const [text, other] = [by("input").value, by("other").value];
  const input = { pair: [text, other], words: text.split(/\s+/).filter(Boolean) }[model.input] ?? text;
  const { results: [found] } = await ask("predict", { inputs: [input] }, signal);
  const { words: tagged, id, predicted, probability, ...rest } = found;
  const chances = Object.entries(rest).filter(([name]) => name.startsWith("p("));
  const rows = tagged ? tagged.map((each) => [`${each.word}: ${each.predicted}`, each.probability])
    : chances.length ? chances.sort((a, b) => b[1] - a[1]).map(([name, p]) => [name.slice(2, -1), p])
    : [[typeof predicted === "number" ? predicted.toFixed(3) : predicted, probability]];
  by("found").replaceChildren(...rows.map(([name, p]) => {
    const [item, bar] = [document.createElement("li"), document.createElement("span")];
    item.append(name, bar);
    if (p === undefined) return item;
    bar.textContent = p.toFixed(3);
    item.style.setProperty("--p", p);
    return item;
  }));
});

function show() {
  model = models.find((each) => each.name === by("model").value);
  const can = { detect: model.abilities.includes("detect"), predict: model.abilities.includes("predict") && model.input !== "rows" };
  for (const name in can) by(name).hidden = !can[name];
  by("none").hidden = can.detect || can.predict;
  by("predict-title").textContent = `Predict: ${model.task}`;
  by("share").textContent = model.false_alarms == null ? "a threshold for its generator's samples, not for real text"
    : `which ${Number((100 * model.false_alarms).toPrecision(2))} % of clean words reach`;
  by("second").hidden = model.input !== "pair";
  by("found").replaceChildren();
  if (can.detect) detect();
}

let timer = 0;
by("text").value ||= "They walked along the riyer to the old church.";
by("text").addEventListener("input", () => {
  paint();
  clearTimeout(timer);
  timer = setTimeout(detect, PAUSE);
});
by("form").addEventListener("submit", (event) => { event.preventDefault(); predict(); });
by("model").addEventListener("change", show);
ask("models").then((found) => {
  models = found.models;
  by("model").append(...models.map((each) => new Option(each.name, each.name)));
  by("chosen").hidden = false;
  show();
}).catch(tell);
