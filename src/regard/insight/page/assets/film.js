// A film: scenes one after the other, such as the same sentence at each checkpoint of a training.

const SCENE_TIME = 700; // milliseconds

let playing = null; // the timer, while it plays

function paintFilm() {
  at("film").hidden = scenes.length < 2;
  if (scenes.length < 2) return;
  const { title } = scenes[state.scene];
  at("film-slider").max = scenes.length - 1;
  at("film-slider").value = state.scene;
  at("film-slider").setAttribute("aria-valuetext", title);
  at("film-title").textContent = title;
  at("film-back").disabled = state.scene === 0;
  at("film-next").disabled = state.scene === scenes.length - 1;
  at("film-play").textContent = playing === null ? "Play" : "Pause";
  // Nothing moves by itself for those who asked for that; they go from scene to scene.
  at("film-play").hidden = isCalm();
}

/** Another scene; all other choices stay. */
function showScene(scene) {
  state.scene = clamp(scene, scenes.length);
  takeScene();
  change({});
}

function pause() {
  clearInterval(playing);
  playing = null;
  paintFilm();
}

function play() {
  if (state.scene === scenes.length - 1) showScene(0);
  playing = setInterval(() => {
    if (state.scene >= scenes.length - 2) {
      clearInterval(playing);
      playing = null;
    }
    showScene(state.scene + 1);
  }, SCENE_TIME);
  paintFilm();
}

function listenToFilm() {
  at("film-play").addEventListener("click", () => (playing === null ? play() : pause()));
  const byHand = (sceneOf) => () => {
    const scene = sceneOf(); // before anything puts the slider back
    pause();
    showScene(scene);
  };
  at("film-slider").addEventListener("input", byHand(() => Number(at("film-slider").value)));
  at("film-back").addEventListener("click", byHand(() => state.scene - 1));
  at("film-next").addEventListener("click", byHand(() => state.scene + 1));
}
