// Links open what is folded over their target, and all can be unfolded.

/** Open what is folded over, or by, the element that the address names. */
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target.scrollIntoView({block: "start"});
}

window.addEventListener("hashchange", reveal);
reveal();

const folds = [...document.querySelectorAll("main details")];
const unfold = document.getElementById("unfold");
unfold.addEventListener("click", () => {
  const open = folds.some((fold) => !fold.open);
  for (const fold of folds) fold.open = open;
  unfold.textContent = open ? "Fold all" : "Unfold all";
});
unfold.hidden = !folds.length;
