// The start: take the film, read the address, paint, listen.

/** Show another film; choices that it can follow stay. */
function takeFilm(film) {
  if (playing !== null) pause();
  scenes = film.scenes;
  state.scene = clamp(state.scene, scenes.length);
  pointed = { ...NOTHING, column: null };
  takeScene();
}

at("needs").hidden = true;
at("theme").hidden = false;
at("main").hidden = false;
takeFilm(JSON.parse(at("film-data").textContent));
listenToLive();
readAddress();
listenToControls();
listenToFilm();
listenToSaving();
paint();
readLiveAddress();
