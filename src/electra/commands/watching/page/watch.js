// Asks for what is new and shows it. Text only ever becomes text nodes.
import { by, make } from "/page/common.js";
import { Chart, duration, short } from "/watch/chart.js";

const BETWEEN = 1500; // milliseconds between two looks while a run trains
const QUIET = 6000; // ... and once none does
const COLOURS = 6;
const FACTS = [
  ["Speed", (run) => (run.tokens_per_s === null ? null : `${short(run.tokens_per_s)} tokens/s`)],
  ["Tokens seen", (run) => short(run.tokens)],
  ["Trained for", (run) => duration(run.seconds)],
  ["Left", (run) => (run.seconds_left === null ? null : duration(run.seconds_left))],
  ["AUC", (run) => metric(run, "auc")],
  ["Gain", (run) => metric(run, "gain")],
  ["Generator loss", (run) => metric(run, "generator_loss")],
];
const runs = []; // each as the server told it, with its colour and its card
const charts = new Map();
let timer = 0;

function metric(run, name) {
  const value = run.metrics[name];
  return value === undefined || value === null ? null : value.toFixed(3);
}

function axis() {
  return document.querySelector("#axis input:checked").value;
}

async function look() {
  clearTimeout(timer);
  let between = BETWEEN;
  try {
    const answer = await fetch(`/state?seen=${runs.map((run) => run.version).join(",")}`);
    if (!answer.ok) throw new Error();
    take(await answer.json());
    by("notice").hidden = true;
    if (!runs.some((run) => run.status === "training")) between = QUIET;
  } catch (error) {
    if (!(error instanceof TypeError) && error.message) throw error;
    by("notice").textContent = "electra watch has ended: what is shown is as of then.";
    by("notice").hidden = false;
  }
  if (!document.hidden) timer = setTimeout(look, between);
}

function take(state) {
  let drawn = false;
  state.runs.forEach((told, place) => {
    const run = runs[place] ?? { colour: place % COLOURS, shown: true };
    drawn ||= told.curves !== undefined;
    runs[place] = Object.assign(run, told);
    card(run, state.runs.length > 1);
  });
  const training = runs.filter((run) => run.status === "training").length;
  document.title = `${runs.map((run) => run.name).join(", ")}${training ? " (training)" : ""} \u00b7 electra watch`;
  if (!drawn) return;
  arrange(state.charts);
  redraw();
  examples();
  events();
}

function card(run, several) {
  if (!run.card) {
    run.card = make("article", "", `run c${run.colour}`);
    const head = make("div", "", "head");
    run.pill = make("span", "", "pill");
    head.append(make("h2", run.name), run.pill);
    run.what = make("p", "", "what");
    run.said_by = make("p", "", "said");
    run.bar = make("progress");
    run.bar.setAttribute("aria-label", `Progress of ${run.name}`);
    run.facts = make("dl", "", "facts");
    run.alarms_shown = make("div");
    run.alarms_shown.setAttribute("role", "status");
    run.card.append(head, run.what, run.bar, run.said_by, run.alarms_shown, run.facts);
    by("runs").append(run.card);
  }
  if (several && !run.choice) {
    run.choice = make("label", "", "shown");
    const box = make("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => { run.shown = box.checked; redraw(); examples(); events(); });
    run.choice.append(box, " curves");
    run.card.firstChild.append(run.choice);
  }
  run.pill.textContent = run.status;
  run.pill.className = `pill ${run.status}`;
  run.what.textContent = [run.objective, run.size].filter(Boolean).join(", ");
  const grave = run.status === "killed" || run.status === "stalled";
  const steps = run.total ? `Step ${run.step.toLocaleString("en")} of ${run.total.toLocaleString("en")}` : `Step ${run.step}`;
  run.said_by.textContent = grave ? `${steps}.` : `${steps}. ${run.said}`;
  run.bar.max = run.total || 1;
  run.bar.value = run.total ? run.step : 0;
  const facts = FACTS.map(([title, value]) => [title, value(run)]).filter(([, value]) => value !== null);
  run.facts.replaceChildren(...facts.map(([title, value]) => {
    const item = make("div");
    item.append(make("dt", title), make("dd", value));
    return item;
  }));
  const alarms = JSON.stringify(run.alarms);
  if (alarms !== run.alarms_before) { // or a screen reader would say them again at every look
    run.alarms_before = alarms;
    run.alarms_shown.replaceChildren(
      ...run.alarms.map((one) => make("p", one.text, `alarm-line${one.grave ? " grave" : ""}`)));
  }
}

// The figures in the server's order, each kept as it is.
function arrange(wanted) {
  const groups = new Map();
  for (const chart of wanted) {
    if (!charts.has(chart.key)) charts.set(chart.key, new Chart(chart));
    if (!groups.has(chart.group)) groups.set(chart.group, []);
    groups.get(chart.group).push(charts.get(chart.key).figure);
  }
  const before = by("charts").querySelectorAll("figure").length;
  if (before === wanted.length) return;
  by("charts").replaceChildren(...[...groups].map(([title, figures]) => {
    const section = make("section");
    const grid = make("div", "", "grid");
    grid.append(...figures);
    section.append(make("h2", title), grid);
    return section;
  }));
}

function redraw() {
  const shown = runs.filter((run) => run.shown);
  for (const chart of charts.values()) chart.show(shown, axis());
}

function examples() {
  const parts = [];
  for (const run of runs.filter((one) => one.shown)) {
    const shown = run.examples.length ? run.examples : run.tried ?? [];
    if (runs.length > 1) parts.push(make("h3", run.name));
    if (!run.examples.length) parts.push(button(run));
    for (const example of shown) {
      if (example.text) parts.push(make("p", example.text, "source"));
      parts.push(sentence(example.rows));
    }
  }
  by("examples").hidden = !parts.length;
  by("examples-shown").replaceChildren(...parts);
}

// A run writes its examples at its end; until then its newest checkpoint can be asked.
function button(run) {
  const line = make("p", "", "ask");
  const asked = make("button", run.tried ? "Try the newest checkpoint again" : "Try the newest checkpoint");
  const told = make("span", run.problem ?? "Takes one core for a moment.", "hint");
  asked.type = "button";
  asked.addEventListener("click", async () => {
    asked.disabled = true;
    const answer = await (await fetch(`/examples/${runs.indexOf(run)}`, { method: "POST" })).json();
    run.tried = answer.examples ?? run.tried;
    run.problem = answer.error;
    examples();
  });
  line.append(asked, " ", told);
  return line;
}

function sentence(rows) {
  const line = make("p", "", "sentence");
  for (const row of rows) {
    const shown = row.generated ?? row.original;
    const suspected = row.p_replaced !== null && row.p_replaced >= 0.5;
    const names = ["token"];
    if (shown.startsWith("##")) names.push("joined");
    if (row.label === "replaced") names.push(suspected ? "caught" : row.p_replaced === null ? "" : "missed");
    else if (suspected) names.push("alarm");
    const token = make("span", shown.replace(/^##/, ""), names.filter(Boolean).join(" "));
    token.style.setProperty("--p", (row.p_replaced ?? 0).toFixed(2));
    const was = row.label === "replaced" ? `${row.original} \u2192 ${shown}. ` : "";
    if (row.p_replaced !== null) token.title = `${was}P(replaced) ${row.p_replaced.toFixed(3)}`;
    line.append(token, " ");
  }
  return line;
}

function events() {
  const rows = [];
  for (const run of runs.filter((one) => one.shown)) {
    for (const event of run.events) {
      const row = make("tr");
      row.append(make("td", event.step.toLocaleString("en"), "number"), make("td", event.name),
        make("td", runs.length > 1 ? `${run.name}: ${event.message}` : event.message));
      rows.push(row);
    }
  }
  by("events").hidden = !rows.length;
  by("events-rows").replaceChildren(...rows);
}

by("axis").addEventListener("change", redraw);
document.addEventListener("visibilitychange", look);
look();
