// The theme, set before the first paint: the chosen one, otherwise that of the system.

{
  const KEY = "regard.theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;

  const readChosen = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // the browser stores nothing
    }
  };

  let chosen = readChosen();

  const paintTheme = () => {
    root.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
    const button = document.getElementById("theme");
    if (button) button.textContent = root.dataset.theme === "dark" ? "Light" : "Dark";
  };

  const switchTheme = () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // It lasts until the page is closed.
    }
    paintTheme();
  };

  system.addEventListener("change", paintTheme);
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", switchTheme);
    paintTheme();
  });
  paintTheme();
}
