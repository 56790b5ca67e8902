// Legends whose entries switch their lines on and off.

document.querySelectorAll(".legend").forEach((legend) => {
  const picture = legend.closest(".curves");
  for (const entry of legend.children) {
    const button = element("button", {type: "button", "aria-pressed": "true", onclick: () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const part of picture.querySelectorAll(`[data-part="${entry.dataset.series}"]`)) part.classList.toggle("off", !shown);
    }}, ...entry.childNodes);
    entry.append(button);
  }
});
