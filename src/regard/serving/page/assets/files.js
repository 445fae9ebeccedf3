// Translation of a file: chosen or dropped, uploaded, and offered as a download.

import { at } from "./elements.js";
import { ServerError, upload } from "./server.js";
import { Work } from "./work.js";

const work = new Work(at("file-card"), at("file-problem"));

/** Listen to the button and to dropped files; `choices()` returns { model, source, target, maxBody }. */
export function listenToFiles(choices) {
  at("file-choose").addEventListener("click", () => at("file").click());
  at("file").addEventListener("change", () => {
    const [file] = at("file").files;
    at("file").value = ""; // the same file can be chosen again
    if (file) work.start((signal) => translate(file, choices(), signal));
  });
  at("file-stop").addEventListener("click", stopFile);
  const panel = at("translate");
  panel.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    panel.dataset.dropping = "";
  });
  for (const kind of ["dragleave", "drop"]) {
    panel.addEventListener(kind, () => delete panel.dataset.dropping);
  }
  panel.addEventListener("drop", (event) => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    work.start((signal) => translate(file, choices(), signal));
  });
}

/** End the translation of a file, if one is running. */
export function stopFile() {
  if (!work.isRunning) return;
  work.stop();
  at("file-status").textContent = "Stopped.";
}

async function translate(file, { model, source, target, maxBody }, signal) {
  showFile(file);
  if (file.size > maxBody) {
    throw new ServerError(`The file is too large; the server takes ${megabytes(maxBody)}.`);
  }
  for await (const event of upload(model, file, { name: file.name, source, to: target }, signal)) {
    if (event.result) showDownload(event.result);
    else showProgress(event);
  }
}

const megabytes = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MB`;

function showFile({ name }) {
  at("file-card").hidden = false;
  at("file-name").textContent = name;
  at("file-progress").value = 0;
  at("file-status").textContent = "";
  at("file-download").hidden = true;
  at("file-card").scrollIntoView({ block: "nearest" });
}

function showProgress({ done, total }) {
  at("file-progress").max = total;
  at("file-progress").value = done;
  at("file-status").textContent = `${done} of ${total} texts`;
}

/** Offer the translated file; it exists in this tab only. */
function showDownload({ name, content }) {
  URL.revokeObjectURL(at("file-download").href);
  const bytes = Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
  at("file-download").href = URL.createObjectURL(new Blob([bytes]));
  at("file-download").download = name;
  at("file-download").textContent = `Download ${name}`;
  at("file-download").hidden = false;
  at("file-progress").value = at("file-progress").max;
}
