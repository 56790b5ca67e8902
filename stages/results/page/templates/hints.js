// One small explanation beside whatever carries data-hint: on pointing, on keyboard focus, and on tapping.

const hint = element("div", {class: "hint", role: "tooltip", id: "hint", hidden: true});
document.body.append(hint);
let hinted = null;

function showHint(target, x, y) {
  hint.textContent = target.dataset.hint;
  hint.hidden = false;
  const box = hint.getBoundingClientRect();
  const left = Math.max(8, Math.min(x - box.width / 2, document.documentElement.clientWidth - box.width - 8));
  const below = y + 14 + box.height < window.innerHeight;
  hint.style.left = `${left}px`;
  hint.style.top = `${below ? y + 14 : Math.max(8, y - box.height - 14)}px`;
  if (hinted !== target) {
    hinted?.removeAttribute("aria-describedby");
    hinted = target;
    target.setAttribute("aria-describedby", "hint");
  }
}

function hideHint() {
  hint.hidden = true;
  hinted?.removeAttribute("aria-describedby");
  hinted = null;
}

const hintOf = (event) => (event.target instanceof Element ? event.target.closest("[data-hint]") : null);

for (const kind of ["pointerover", "click"]) {
  document.addEventListener(kind, (event) => {
    const target = hintOf(event);
    // A click by keyboard has no place of its own.
    if (target && (event.clientX || event.clientY)) showHint(target, event.clientX, event.clientY);
    else if (!target) hideHint();
  });
}
document.addEventListener("focusin", (event) => {
  const target = hintOf(event);
  if (!target || !event.target.matches(":focus-visible")) return;
  const box = target.getBoundingClientRect();
  showHint(target, box.left + box.width / 2, box.bottom);
});
document.addEventListener("focusout", hideHint);
document.addEventListener("scroll", hideHint, {capture: true, passive: true});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideHint(); });
