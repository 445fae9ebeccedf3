// The start: read the history and the address, add listeners, paint.

/** Show another history; choices that exist in it stay. */
function showHistory(history) {
  if (playing !== null) pause();
  snapshots = history.snapshots;
  state.snapshot = clamp(state.snapshot, snapshots.length);
  pointed = { ...NOTHING, column: null };
  takeSnapshot();
}

at("needs").hidden = true;
at("theme").hidden = false;
at("main").hidden = false;
showHistory(JSON.parse(at("history-data").textContent));
listenToLive();
readAddress();
listenToControls();
listenToHistory();
listenToSaving();
paint();
readLiveAddress();
