// Light or dark: as the system says, until the reader presses the button. Runs in the head, so that nothing flashes.

const THEME = "keycontrast-theme";
const root = document.documentElement;
const system = window.matchMedia("(prefers-color-scheme: dark)");

/** Do something with the browser's memory; some forbid it to pages that come from a file. */
function remembering(action) {
  try {
    return action(window.localStorage);
  } catch (error) {
    if (error instanceof DOMException) return null;
    throw error;
  }
}

const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

root.classList.add("scripted");
const chosen = remembering((memory) => memory.getItem(THEME));
if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

document.addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remembering((memory) => memory.setItem(THEME, root.dataset.theme));
    label();
  });
  system.addEventListener("change", label);
  label();
  button.hidden = false;
});
