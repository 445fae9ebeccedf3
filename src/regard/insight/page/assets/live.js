// A live page: sends the typed text to its server and shows the attention.

const isLive = "live" in document.body.dataset;

let request = null; // the controller that aborts the running request

/** Return the typed texts, as the address stores them. */
function liveTexts() {
  if (!isLive) return {};
  const texts = {};
  if (at("text").value) texts.text = at("text").value;
  if (compareText()) texts.compare = compareText();
  return texts;
}

const compareText = () => (at("compare-box").hidden ? "" : at("compare").value);

async function submitText() {
  request?.abort();
  const text = at("text").value;
  if (!text.trim()) return showStatus("Type a text first.");
  const mine = (request = new AbortController());
  showStatus("Running the model…");
  try {
    const body = { text, compare: compareText() || null, to: null };
    const history = await fetchHistory(body, mine.signal);
    const isFirst = columns.length === 0;
    showHistory(history);
    // The choices in the address need a first history.
    if (isFirst) readAddress();
    change({});
  } catch (error) {
    if (error.name !== "AbortError") showStatus(error.message);
  }
  if (request === mine) request = null;
}

/** Fetch the history of a text; an error has the server's message. */
async function fetchHistory(body, signal) {
  let response;
  try {
    response = await fetch("look", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
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
    // The running request is for an older text.
    box.addEventListener("input", () => {
      if (request) showStatus("");
      request?.abort();
    });
  }
}

/** Show the text that the address names. */
function readLiveAddress() {
  if (!isLive) return;
  const address = new URLSearchParams(location.hash.slice(1));
  const text = address.get("text") ?? "";
  const other = address.get("compare") ?? "";
  if (!text || (text === at("text").value && other === compareText())) return;
  at("text").value = text;
  at("compare").value = other;
  openCompare(at("compare").value !== "");
  submitText();
}
