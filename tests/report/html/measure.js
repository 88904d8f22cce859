"use strict";
// What the tests measure on a page. Each function returns a list of faults in words.
const measure = {
  name(element) {
    const text = element.textContent.trim().slice(0, 40);
    return `${element.tagName}.${element.getAttribute("class") ?? ""} "${text}"`;
  },

  // Anything outside the window, and pictures that their box cuts.
  outside() {
    const width = document.documentElement.clientWidth;
    const scrolls = (element) => element.closest(".scroll, .zoomed") !== null;
    const faults = [];
    for (const element of document.body.querySelectorAll("*")) {
      const box = element.getBoundingClientRect();
      if (box.width > 0 && !scrolls(element) && (box.right > width + 0.5 || box.left < -0.5)) {
        faults.push(`${measure.name(element)} from ${box.left} to ${box.right} of ${width}`);
      }
    }
    if (document.documentElement.scrollWidth > width) faults.push("the page scrolls sideways");
    return faults;
  },

  // Words on words, and words wider than the box that they are in.
  onTopOfEachOther() {
    const faults = [];
    for (const svg of document.querySelectorAll("svg")) {
      const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent !== "");
      // Letters take about half of the height of a line's box.
      const boxes = texts.map((text) => {
        const box = text.getBoundingClientRect();
        return { left: box.left, right: box.right, top: box.top + box.height * 0.25,
          bottom: box.bottom - box.height * 0.25 };
      });
      const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5;
      boxes.forEach((box, number) => {
        for (let other = 0; other < number; other += 1) {
          if (overlap(box, boxes[other])) {
            faults.push(`${svg.getAttribute("aria-label")}: ${measure.name(texts[number])} on ${measure.name(texts[other])}`);
          }
        }
      });
      const parts = [...svg.querySelectorAll(".part, .device, .nic")]
        .map((part) => [part, part.querySelector("rect").getBoundingClientRect()]);
      texts.forEach((text, number) => {
        const group = text.parentElement;
        for (const [part, box] of parts) {
          if (part === group) {
            if (boxes[number].left < box.left - 0.5 || boxes[number].right > box.right + 0.5) {
              faults.push(`${svg.getAttribute("aria-label")}: ${measure.name(text)} is wider than its box`);
            }
          } else if (overlap(boxes[number], box) && !group.matches(".busiest")) {
            faults.push(`${svg.getAttribute("aria-label")}: ${measure.name(text)} on ${measure.name(part)}`);
          }
        }
      });
    }
    return faults;
  },

  // Words that are hard to tell from what is behind them (WCAG 2.2, 1.4.3).
  pale(least) {
    const numbers = (colour) => (colour.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
    const light = (colour) => {
      const [r, g, b] = numbers(colour).slice(0, 3).map((value) => {
        const share = value / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const opaque = (colour) => colour !== "none" && (numbers(colour)[3] ?? 1) > 0;
    const around = (rect, element) => {
      const [outer, inner] = [rect, element].map((each) => each.getBoundingClientRect());
      return outer.left <= inner.left && inner.right <= outer.right && outer.top < inner.bottom
        && inner.top < outer.bottom;
    };
    const behind = (element) => {
      for (let at = element; at !== null; at = at.parentElement) {
        const rects = at.matches("g, svg") ? [...at.querySelectorAll(":scope > rect")] : [];
        const fills = rects.filter((rect) => around(rect, element))
          .map((rect) => getComputedStyle(rect).fill).reverse();
        const found = [...fills, getComputedStyle(at).backgroundColor].find(opaque);
        if (found) return found;
      }
      return "rgb(255, 255, 255)";
    };
    const faults = [];
    for (const element of document.body.querySelectorAll("*")) {
      const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
      if (!own || element.matches("title, style, script, option")
        || element.getBoundingClientRect().width === 0) continue;
      const style = getComputedStyle(element);
      const colour = element.matches("text") ? style.fill : style.color;
      const both = [light(colour), light(behind(element))].sort((a, b) => b - a);
      const ratio = (both[0] + 0.05) / (both[1] + 0.05);
      if (ratio < least) faults.push(`${measure.name(element)} ${ratio.toFixed(2)}`);
    }
    return faults;
  },

  // Share of pixels of which a colour differs by more than a fifth; 1 if the sizes differ.
  async difference(one, other) {
    const pixels = async (base64) => {
      const image = new Image();
      image.src = `data:image/png;base64,${base64}`;
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.width, image.height];
      const context = canvas.getContext("2d");
      context.drawImage(image, 0, 0);
      return context.getImageData(0, 0, image.width, image.height);
    };
    const [a, b] = [await pixels(one), await pixels(other)];
    if (a.width !== b.width || a.height !== b.height) return 1;
    let differ = 0;
    for (let at = 0; at < a.data.length; at += 4) {
      if ([0, 1, 2].some((colour) => Math.abs(a.data[at + colour] - b.data[at + colour]) > 51)) {
        differ += 1;
      }
    }
    return differ / (a.width * a.height);
  },
};
