"use strict";
// A link, wherever it is drawn or listed in a section, lights up everywhere in that section.
for (const section of document.querySelectorAll("section")) {
  const show = (event, on) => {
    const hit = event.target.closest("[data-link]");
    if (!hit) return;
    for (const twin of section.querySelectorAll(`[data-link="${hit.dataset.link}"]`)) {
      twin.classList.toggle("lit", on);
    }
  };
  section.addEventListener("mouseover", (event) => show(event, true));
  section.addEventListener("mouseout", (event) => show(event, false));
}
if (navigator.clipboard) {
  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
  }
}
