// Requests to the server: answers as JSON, and streams of events. Errors are one sentence.

import { at } from "./elements.js";
import { load, save } from "./storage.js";

const KEY = "regard.key";
const HTTP_UNAUTHORIZED = 401;

let entering = null; // the promise of a key, while it is asked for

export class ServerError extends Error {}

/** Return the address of a task of a model. */
const addressOf = (task, model) => `regard/${task}/${encodeURIComponent(model)}`;

/** Return the models of the server, and the number of bytes that it takes: { models, max_body }. */
export async function fetchServer() {
  return (await request("regard/server", {})).json();
}

/** Run a task of a model and return its result. */
export async function run(task, model, body, signal) {
  let result;
  for await (const event of stream(task, model, body, signal)) result = event.result;
  return result;
}

/** Run a task of a model and yield its events; the last one has the result. */
export async function* stream(task, model, body, signal) {
  yield* readEvents(await request(addressOf(task, model), json(body), signal));
}

/** Upload a file for translation and yield the progress; the last event has the result. */
export async function* upload(model, file, choices, signal) {
  const address = `${addressOf("documents", model)}?${new URLSearchParams(choices)}`;
  const headers = { "Content-Type": "application/octet-stream" };
  yield* readEvents(await request(address, { method: "POST", headers, body: file }, signal));
}

function json(body) {
  const headers = { "Content-Type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(body) };
}

async function request(address, options, signal) {
  for (;;) {
    const response = await send(address, options, signal);
    if (response.ok) return response;
    const sentence = await errorOf(response);
    if (response.status !== HTTP_UNAUTHORIZED) throw new ServerError(sentence);
    entering ??= enterKey(sentence).finally(() => (entering = null));
    await entering;
  }
}

async function send(address, options, signal) {
  const key = load(KEY, "sessionStorage");
  const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  try {
    return await fetch(address, { ...options, headers, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server does not answer; is it still running?");
  }
}

/** Return the sentence of an answer that is no success. */
async function errorOf(response) {
  const { detail } = await response.json().catch(() => ({}));
  if (typeof detail === "string") return capitalized(detail);
  return `The server answered with status ${response.status}.`;
}

const capitalized = (sentence) => sentence.charAt(0).toUpperCase() + sentence.slice(1);

/** Ask for an API key in a dialog and keep it for this tab. */
function enterKey(sentence) {
  const isWrong = load(KEY, "sessionStorage") !== null;
  at("key-reason").textContent = isWrong ? sentence : "This server needs an API key.";
  at("key-input").value = "";
  at("key").returnValue = "";
  at("key").showModal();
  return new Promise((resolve, reject) => {
    const finish = () => {
      if (at("key").returnValue !== "enter") return reject(new ServerError("An API key is needed."));
      save(KEY, at("key-input").value.trim(), "sessionStorage");
      resolve();
    };
    at("key").addEventListener("close", finish, { once: true });
  });
}

/** Yield the events of a stream; raise its error, or one if it ends without a result. */
async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let isComplete = false;
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const event = JSON.parse(block.replace(/^data: /, ""));
        if (event.error) throw new ServerError(capitalized(event.error));
        isComplete ||= "result" in event;
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // it may have been aborted
  }
  if (!isComplete) throw new ServerError("The answer ended early; try again.");
}
