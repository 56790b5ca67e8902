// Where the reader is: the contents mark it, links open what is folded over their target, and all can be unfolded.

const REACHED = 80;     // pixels from the top of the window
const folds = [...document.querySelectorAll("main details")];
const entries = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));

/** Mark the last entry whose heading has reached the top of the window. */
function markPlace() {
  let here = null;
  for (const [id, link] of entries) {
    const heading = document.getElementById(id);
    if (heading.getBoundingClientRect().top <= REACHED || !here) here = link;
  }
  for (const link of entries.values()) {
    if (link === here) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  for (const entry of document.querySelectorAll(".contents > ul > li")) entry.classList.toggle("here", entry.contains(here));
}

/** Open what is folded over, or by, the element that the address names. */
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1).split("?")[0]));
  if (!target) return;
  const own = target.closest("summary")?.parentElement ?? (target.tagName === "DETAILS" ? target : null);
  if (own) own.open = true;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target.scrollIntoView({block: "start"});
  markPlace();
}

let marking = false;
document.addEventListener("scroll", () => {
  if (marking) return;
  marking = true;
  requestAnimationFrame(() => {
    marking = false;
    markPlace();
  });
}, {passive: true});
window.addEventListener("hashchange", reveal);
for (const link of entries.values()) link.addEventListener("click", () => { if (link.hash === location.hash) reveal(); });
document.addEventListener("toggle", () => markPlace(), {capture: true});
// What a reader unfolds by hand the address names, if it has a name.
document.addEventListener("click", (event) => {
  const summary = event.target.closest?.("summary");
  const named = summary?.querySelector("[id]") ?? (summary?.parentElement.id ? summary.parentElement : null);
  if (named && !summary.parentElement.open) readdress(named.id);
});

// On paper the table stands for the map; what else is folded stays so.
const standIns = [...document.querySelectorAll("details.stand-in")];
let opened = [];
window.addEventListener("beforeprint", () => {
  opened = standIns.filter((fold) => !fold.open);
  for (const fold of opened) fold.open = true;
});
window.addEventListener("afterprint", () => { for (const fold of opened) fold.open = false; });

const unfold = document.getElementById("unfold");
unfold.addEventListener("click", () => {
  const open = folds.some((fold) => !fold.open);
  for (const fold of folds) fold.open = open;
  unfold.textContent = open ? "Fold all" : "Unfold all";
});
unfold.hidden = !folds.length;
markPlace();
reveal();
