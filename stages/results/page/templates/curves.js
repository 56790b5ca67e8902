// Legends whose entries switch their lines or points on and off, and the points of one item on the map.

document.querySelectorAll(".legend").forEach((legend) => {
  const picture = legend.closest(".curves, .latent");
  for (const entry of legend.children) {
    const button = element("button", {type: "button", "aria-pressed": "true", onclick: () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const part of picture.querySelectorAll("[data-part], [data-kind]")) {
        if ((part.dataset.part ?? part.dataset.kind) === entry.dataset.series) part.classList.toggle("off", !shown);
      }
    }}, ...entry.childNodes);
    entry.append(button);
  }
});

document.querySelectorAll("svg.map").forEach((map) => {
  const ring = (event) => {
    const item = event.target.dataset?.item;
    for (const point of map.querySelectorAll("[data-item]")) {
      point.classList.toggle("same", item !== undefined && point.dataset.item === item);
    }
  };
  map.addEventListener("pointerover", ring);
  map.addEventListener("click", ring);
  map.addEventListener("pointerleave", ring);
});
