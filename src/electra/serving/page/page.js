// Which parts of the page the served models can fill; each part is a module of its own.
import { state, ask, tell } from "./common.js";
import { live } from "./live.js";
import { draw } from "./draw.js";
import { game } from "./game.js";
import { near } from "./near.js";
import { predict } from "./predict.js";

const parts = { live: ["detect", live], draw: ["draw", draw], game: ["draw", game], near: ["embed", near], predict: ["predict", predict] };
const refresh = {};

function show() {
  const model = state.models.find((one) => one.name === state.model);
  for (const [name, [ability, start]] of Object.entries(parts)) {
    const needs = name === "game" ? [ability, "detect"] : [ability]; // the player competes with the detector
    const can = needs.every((one) => model.abilities.includes(one)) && !(name === "predict" && model.input === "rows");
    document.getElementById(name).hidden = !can;
    if (!can) continue;
    if (refresh[name]) refresh[name](model);
    else refresh[name] = start(model);
  }
}

async function begin() {
  const { models } = await ask("/models");
  state.models = models;
  state.model = models[0].name;
  const select = document.getElementById("model");
  for (const one of models) select.append(new Option(one.name, one.name));
  document.getElementById("chosen").hidden = false;
  select.addEventListener("change", () => { state.model = select.value; show(); });
  show();
}

begin().catch(tell);
