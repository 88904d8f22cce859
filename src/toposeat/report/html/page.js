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

// Whether a tooltip is of what somebody looks for: a rank by its number, else words of it.
function isOf(tooltip, wanted) {
  const rank = /^(?:rank\s*)?(\d+)$/i.exec(wanted);
  if (rank) {
    const ranges = /\branks? ([\d,-]+)/.exec(tooltip);
    return ranges !== null && ranges[1].split(",").some((range) => {
      const ends = range.split("-").map(Number);
      return ends[0] <= rank[1] && rank[1] <= ends[ends.length - 1];
    });
  }
  const at = tooltip.toLowerCase().indexOf(wanted.toLowerCase());
  const next = tooltip[at + wanted.length] ?? "";
  return at >= 0 && !(/\d$/.test(wanted) && /\d/.test(next));
}

for (const tools of document.querySelectorAll(".tools")) {
  const drawings = [...tools.parentElement.querySelectorAll("svg.machine")];
  const [field, said] = [tools.querySelector("input"), tools.querySelector("output")];
  let zoom = 1;
  let found = [];
  tools.hidden = false;

  // Enlarges all drawings alike; what is at (x, y) of the window stays there.
  const enlarge = (to, x, y) => {
    const before = drawings.map((svg) => svg.getBoundingClientRect());
    const factor = Math.min(Math.max(to, 1), 16) / zoom;
    zoom *= factor;
    drawings.forEach((svg, number) => {
      const box = svg.parentElement;
      box.classList.toggle("zoomed", zoom > 1);
      svg.style.width = zoom > 1 ? `calc(${zoom} * min(100%, ${svg.width.baseVal.value}px))` : "";
      const frame = box.getBoundingClientRect();
      const [atX, atY] = [x ?? frame.left + frame.width / 2, y ?? frame.top + frame.height / 2];
      box.scrollLeft = (atX - before[number].left) * factor - (atX - frame.left);
      box.scrollTop = (atY - before[number].top) * factor - (atY - frame.top);
    });
  };
  for (const button of tools.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => enlarge(zoom * button.dataset.zoom));
  }
  // What would be too small to read is as large as it was drawn, unless the screen is small.
  const first = drawings[0].getBoundingClientRect();
  const shrunk = drawings[0].width.baseVal.value / first.width;
  if (shrunk > 1.55 && window.innerWidth > 560) enlarge(shrunk, first.left, first.top);
  for (const svg of drawings) {
    const box = svg.parentElement;
    box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      enlarge(zoom * (event.deltaY < 0 ? 1.2 : 1 / 1.2), event.clientX, event.clientY);
    }, { passive: false });
    box.addEventListener("pointermove", (event) => {
      if (event.buttons !== 1 || event.pointerType !== "mouse") return;
      box.scrollBy(-event.movementX, -event.movementY);
    });
  }

  field.addEventListener("input", () => {
    const wanted = field.value.trim();
    found = [];
    for (const svg of drawings.filter((each) => each.getClientRects().length > 0)) {
      svg.classList.toggle("searching", wanted !== "");
      for (const group of svg.querySelectorAll("g[class]")) {
        const tooltip = group.querySelector(":scope > title");
        const is = wanted !== "" && tooltip !== null && isOf(tooltip.textContent, wanted);
        group.classList.toggle("found", is);
        if (is) found.push(group);
      }
    }
    said.textContent = wanted === "" ? "" : `${found.length} found`;
  });
  for (const view of tools.parentElement.querySelectorAll("[type=radio]")) {
    view.addEventListener("change", () => field.dispatchEvent(new Event("input")));
  }
  // Enter goes to what was found, one after the other.
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || found.length === 0) return;
    const next = found.shift();
    found.push(next);
    const box = next.getBoundingClientRect();
    enlarge(zoom * Math.max(48 / Math.max(1, box.width), 15 / Math.max(1, box.height)));
    next.scrollIntoView({ block: "center", inline: "center" });
  });
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
