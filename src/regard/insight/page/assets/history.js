// A history: snapshots in order, such as the attention of one text at each checkpoint of a run.

const SNAPSHOT_TIME = 700; // milliseconds

let playing = null; // the timer, while it plays

function paintHistory() {
  at("history").hidden = snapshots.length < 2;
  if (snapshots.length < 2) return;
  const { title } = snapshots[state.snapshot];
  at("history-slider").max = snapshots.length - 1;
  at("history-slider").value = state.snapshot;
  at("history-slider").setAttribute("aria-valuetext", title);
  at("history-title").textContent = title;
  at("history-back").disabled = state.snapshot === 0;
  at("history-next").disabled = state.snapshot === snapshots.length - 1;
  at("history-play").textContent = playing === null ? "Play" : "Pause";
  // With "reduced motion" in the system settings, nothing plays by itself.
  at("history-play").hidden = isCalm();
}

/** Show another snapshot; all other choices stay. */
function showSnapshot(snapshot) {
  state.snapshot = clamp(snapshot, snapshots.length);
  takeSnapshot();
  change({});
}

function pause() {
  clearInterval(playing);
  playing = null;
  paintHistory();
}

function play() {
  if (state.snapshot === snapshots.length - 1) showSnapshot(0);
  playing = setInterval(() => {
    if (state.snapshot >= snapshots.length - 2) {
      clearInterval(playing);
      playing = null;
    }
    showSnapshot(state.snapshot + 1);
  }, SNAPSHOT_TIME);
  paintHistory();
}

function listenToHistory() {
  at("history-play").addEventListener("click", () => (playing === null ? play() : pause()));
  const byHand = (snapshotOf) => () => {
    const snapshot = snapshotOf(); // before painting sets the slider back
    pause();
    showSnapshot(snapshot);
  };
  at("history-slider").addEventListener("input", byHand(() => Number(at("history-slider").value)));
  at("history-back").addEventListener("click", byHand(() => state.snapshot - 1));
  at("history-next").addEventListener("click", byHand(() => state.snapshot + 1));
}
