// Shared by all parts of the page: requests and elements. Text is only ever inserted as text nodes.
export const state = { models: [], model: "" };
export const SENTENCES = [
  "The city is the capital of the province and lies on the river.",
  "The book was written by the president of the company.",
  "The chef cooked the meal and the guests ate it.",
  "The train to the city leaves early in the morning.",
  "He wrote a long letter to his old friend.",
  "The children played in the garden until it was dark.",
  "My brother bought a new car last week.",
  "The old man walked slowly down the road.",
  "They found a small house near the river.",
];

// P(replaced) from which the chosen model marks a word.
export function threshold() {
  return state.models.find((model) => model.name === state.model)?.threshold ?? 0.5;
}

export async function ask(path, body, signal) {
  const options = body && {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: state.model, ...body }),
  };
  const response = await fetch(path, { ...options, signal });
  const content = await response.json();
  if (!response.ok) throw new Error([content.error.what, content.error.fix].filter(Boolean).join(". "));
  tell(null);
  return content;
}

// Shows an error at the top of the page; null removes it.
export function tell(error) {
  if (error && error.name === "AbortError") return;
  const notice = document.getElementById("notice");
  notice.hidden = !error;
  notice.textContent = error ? (error instanceof TypeError ? "The server does not answer." : error.message) : "";
}

export function make(tag, text = "", names = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = names;
  return element;
}

export function by(id) {
  return document.getElementById(id);
}

// Returns a function that runs `work` and aborts its previous run: only the newest answer is shown.
export function newest(work) {
  let running = new AbortController();
  return async (...values) => {
    running.abort();
    running = new AbortController();
    const { signal } = running;
    try {
      await work(signal, ...values);
    } catch (error) {
      if (!signal.aborted) tell(error);
    }
  };
}
