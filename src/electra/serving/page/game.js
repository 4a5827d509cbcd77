// "Can you beat the discriminator?": guess the replaced words of a sentence, beside the model's guesses.
import { SENTENCES, ask, by, make, newest } from "./common.js";

const MASKED = 0.3;
const TRIES = 8; // the generator may have drawn the original everywhere

export function game() {
  let words = [];
  let total = { rounds: 0, you: 0, model: 0 };
  let turn = Math.floor(Math.random() * SENTENCES.length);

  const next = newest(async (signal) => {
    by("game-told").textContent = "";
    turn += 1;
    for (let attempt = 0; attempt < TRIES; attempt += 1) {
      const seed = Math.floor(Math.random() * 2 ** 31);
      const asked = { texts: [SENTENCES[turn % SENTENCES.length]], seed, mask_fraction: MASKED };
      const { results } = await ask("/draw", asked, signal);
      words = joinTokens(results[0]);
      if (words.some((word) => word.replaced)) break;
    }
    by("game-words").replaceChildren(...words.map(button));
    by("game-reveal").disabled = false;
  });

  function reveal() {
    const guesses = [...by("game-words").children];
    const you = score((word, i) => guesses[i].getAttribute("aria-pressed") === "true");
    const marked = guesses.filter((element) => element.getAttribute("aria-pressed") === "true").length;
    const suspects = [...words].sort((a, b) => b.p - a.p).slice(0, marked); // as many as the player marked
    const model = score((word) => suspects.includes(word));
    total = { rounds: total.rounds + 1, you: total.you + you, model: total.model + model };
    guesses.forEach((element, i) => {
      element.disabled = true;
      element.classList.add(words[i].replaced ? "replaced" : "fine");
      const was = words[i].replaced ? [`was ${words[i].original}`] : [];
      element.append(make("span", [...was, words[i].p.toFixed(2)].join(" \u00b7 "), "was"));
    });
    const changed = words.filter((word) => word.replaced).length;
    by("game-told").textContent = `${changed} replaced. You: ${points(you)}. The model: ${points(model)}.`;
    by("game-score").textContent = `After ${total.rounds} ${total.rounds === 1 ? "round" : "rounds"}: you ${total.you}, the model ${total.model}.`;
    by("game-reveal").disabled = true;
    by("game-next").focus();
  }

  function score(guessed) {
    return words.filter(guessed).reduce((sum, word) => sum + (word.replaced ? 1 : -1), 0);
  }

  by("game-reveal").addEventListener("click", reveal);
  by("game-next").addEventListener("click", next);
  next();
  return () => { total = { rounds: 0, you: 0, model: 0 }; by("game-score").textContent = ""; next(); };
}

// Joins tokens into words. A word is replaced if one of its tokens is; its P(replaced) is their maximum.
function joinTokens(rows) {
  const words = [];
  for (const row of rows) {
    const join = words.length && row.word !== null && row.word === words.at(-1).number;
    if (!join) words.push({ number: row.word, text: "", original: "", replaced: false, p: 0 });
    const word = words.at(-1);
    word.text += row.generated.replace(/^##/, "");
    word.original += row.original.replace(/^##/, "");
    word.replaced ||= row.label === "replaced";
    word.p = Math.max(word.p, row.p_replaced);
  }
  return words;
}

function button(word) {
  const element = make("button", word.text);
  element.type = "button";
  element.setAttribute("aria-pressed", "false");
  element.addEventListener("click", () => {
    element.setAttribute("aria-pressed", String(element.getAttribute("aria-pressed") !== "true"));
  });
  return element;
}

function points(count) {
  return `${count} ${Math.abs(count) === 1 ? "point" : "points"}`;
}
