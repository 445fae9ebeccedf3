// A live page: sends the typed text to its server and shows the attention.

const isLive = "live" in document.body.dataset;

// What a link to a live page of `regard serve` adds to its requests; the output is that of its text.
const LINKED = ["model", "to", "output"];

const TYPING_PAUSE = 400; // milliseconds without a key before the text is sent

let request = null; // the controller that aborts the running request
let hasShown = false; // whether there was a picture
let typing = null; // the timer that sends the text
let linked = {}; // values of the address, by their names

/** Return the typed texts, as the address stores them. */
function liveTexts() {
  if (!isLive) return {};
  const texts = { ...linked };
  if (at("text").value) texts.text = at("text").value;
  if (compareText()) texts.compare = compareText();
  return texts;
}

const compareText = () => (at("compare-box").hidden ? "" : at("compare").value);

async function submitText() {
  abortRequest();
  const text = at("text").value;
  if (!text.trim()) return showStatus("Type a text first.");
  const mine = (request = new AbortController());
  at("columns").setAttribute("aria-busy", true);
  showStatus("Running the model…");
  try {
    const body = { text, compare: compareText() || null, to: null, ...linked };
    const history = await fetchHistory(body, mine.signal);
    at("problem").hidden = true;
    showHistory(history);
    // The choices in the address need a first history.
    if (!hasShown) readAddress();
    hasShown = true;
    change({});
  } catch (error) {
    if (error.name !== "AbortError") showProblem(error.message);
  }
  if (request === mine) abortRequest();
}

/** End the running request and the timer of the next one. */
function abortRequest() {
  clearTimeout(typing);
  request?.abort();
  request = null;
  at("columns").removeAttribute("aria-busy");
}

/** Show an error in place of the picture, which is that of another text. */
function showProblem(message) {
  showHistory({ snapshots: [] });
  paint();
  at("problem").textContent = message;
  at("problem").hidden = false;
  showStatus(message);
}

/** Fetch the history of a text; an error has the server's message. */
async function fetchHistory(body, signal) {
  let response;
  try {
    response = await fetch("look", {
      method: "POST",
      headers: { "Content-Type": "application/json", ...authorization() },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer.");
  }
  if (response.ok) return response.json();
  const { detail } = await response.json().catch(() => ({}));
  const status = `The server returned status ${response.status}.`;
  throw new Error(typeof detail === "string" ? detail : status);
}

/** Return the header with the API key that the page of `regard serve` keeps in this tab, if any. */
function authorization() {
  try {
    const key = JSON.parse(sessionStorage.getItem("regard.key"));
    return key ? { Authorization: `Bearer ${key}` } : {};
  } catch {
    return {}; // the browser stores nothing
  }
}

function openCompare(isOpen) {
  at("compare-box").hidden = !isOpen;
  at("compare-toggle").setAttribute("aria-expanded", isOpen);
  at("compare-toggle").textContent = isOpen ? "Do not compare" : "Compare with…";
}

function listenToLive() {
  at("live").hidden = !isLive;
  if (!isLive) return;
  at("live").addEventListener("submit", submitText);
  at("compare-toggle").addEventListener("click", () => {
    openCompare(at("compare-box").hidden);
    if (!at("compare-box").hidden) at("compare").focus();
  });
  for (const box of [at("text"), at("compare")]) {
    box.addEventListener("input", () => {
      if (box === at("text")) delete linked.output;
      if (request) showStatus("");
      abortRequest(); // it is for an older text
      if (at("text").value.trim()) typing = setTimeout(submitText, TYPING_PAUSE);
    });
  }
}

/** Show the text that the address names. */
function readLiveAddress() {
  if (!isLive) return;
  const address = new URLSearchParams(location.hash.slice(1));
  const text = address.get("text") ?? "";
  const other = address.get("compare") ?? "";
  linked = Object.fromEntries([...address].filter(([name]) => LINKED.includes(name)));
  if (!text || (text === at("text").value && other === compareText())) return;
  at("text").value = text;
  at("compare").value = other;
  openCompare(at("compare").value !== "");
  submitText();
}
