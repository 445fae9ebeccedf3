// A live page: asks the server that it came from to look at what somebody types.

const isLive = "live" in document.body.dataset;

let asking = null; // what would stop the request that is under way

/** The typed words, as the address keeps them. */
function liveWords() {
  if (!isLive) return {};
  const words = {};
  if (at("text").value) words.text = at("text").value;
  if (besideText()) words.beside = besideText();
  return words;
}

const besideText = () => (at("beside-box").hidden ? "" : at("beside").value);

async function look() {
  asking?.abort();
  const text = at("text").value;
  if (!text.trim()) return say("There is no text yet.");
  const mine = (asking = new AbortController());
  say("Looking…");
  try {
    const film = await askFor({ text, beside: besideText() || null, to: null }, mine.signal);
    const isFirst = columns.length === 0;
    takeFilm(film);
    // Until now there was nothing that the address could have chosen.
    if (isFirst) readAddress();
    change({});
  } catch (error) {
    if (error.name !== "AbortError") say(error.message);
  }
  if (asking === mine) asking = null;
}

/** The film that the server makes of a text; where it cannot, its own sentence is the error. */
async function askFor(question, signal) {
  let answer;
  try {
    answer = await fetch("look", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(question),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer.");
  }
  if (answer.ok) return answer.json();
  const { detail } = await answer.json().catch(() => ({}));
  throw new Error(typeof detail === "string" ? detail : `The server answers ${answer.status}.`);
}

function openBeside(isOpen) {
  at("beside-box").hidden = !isOpen;
  at("compare").setAttribute("aria-expanded", isOpen);
  at("compare").textContent = isOpen ? "Do not compare" : "Compare with…";
}

function listenToLive() {
  at("live").hidden = !isLive;
  if (!isLive) return;
  at("live").addEventListener("submit", look);
  at("compare").addEventListener("click", () => {
    openBeside(at("beside-box").hidden);
    if (!at("beside-box").hidden) at("beside").focus();
  });
  for (const box of [at("text"), at("beside")]) {
    // What is typed makes the answer under way an old one.
    box.addEventListener("input", () => {
      if (asking) say("");
      asking?.abort();
    });
  }
}

/** Look at once at what the address asks for. */
function readLiveAddress() {
  if (!isLive) return;
  const asked = new URLSearchParams(location.hash.slice(1));
  const text = asked.get("text") ?? "";
  if (!text || (text === at("text").value && (asked.get("beside") ?? "") === besideText())) return;
  at("text").value = text;
  at("beside").value = asked.get("beside") ?? "";
  openBeside(at("beside").value !== "");
  look();
}
