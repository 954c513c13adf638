"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const turns = all(".turn");
  const reader = { turn: 0, node: -1 };

  const filterPrompt = (section) => {
    const shown = new Set(all("input[data-kind]", section).filter((box) => box.checked).map((box) => box.dataset.kind));
    const wanted = section.querySelector("input[type=search]").value.trim().toLocaleLowerCase();
    const parts = all(".part", section);
    let found = 0;
    for (const part of parts) {
      const text = wanted ? part.textContent.toLocaleLowerCase() + " " + part.id : "";
      part.hidden = !shown.has(part.dataset.kind) || !text.includes(wanted);
      found += part.hidden ? 0 : 1;
    }
    section.querySelector(".found").value = found === parts.length ? "" : `${found} of ${parts.length}`;
  };

  for (const section of all(".prompt")) {
    section.addEventListener("input", () => filterPrompt(section));
    section.addEventListener("change", () => filterPrompt(section));
  }
  for (const link of all("a.entry")) {
    const target = document.getElementById(link.getAttribute("href").slice(1));
    if (!target) {
      link.classList.add("gone");
      link.removeAttribute("href");
      link.title = "no longer in the prompt";
    }
  }

  const go = (element) => {
    if (!element) return;
    element.scrollIntoView({ block: "start" });
    element.focus({ preventScroll: true });
  };
  const here = () => {
    const middle = window.innerHeight / 3;
    const index = turns.findLastIndex((turn) => turn.getBoundingClientRect().top <= middle);
    return Math.max(0, index);
  };
  const step = (by) => {
    const links = { 1: document.querySelector("a[rel=next]"), [-1]: document.querySelector("a[rel=prev]") };
    if (turns.length < 2 && links[by]) return links[by].click();
    reader.turn = Math.min(turns.length - 1, Math.max(0, here() + by));
    reader.node = -1;
    return go(turns[reader.turn]);
  };
  const nextNode = () => {
    const nodes = all(".node", turns[here()]);
    const focused = nodes.indexOf(document.activeElement);
    reader.node = ((focused >= 0 ? focused : reader.node) + 1) % nodes.length;
    go(nodes[reader.node]);
  };
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    n: nextNode,
    "/": () => {
      const box = turns[here()].querySelector("input[type=search]");
      go(box.closest(".prompt"));
      box.focus();
    },
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, textarea, select");
    if (typing && event.key === "Escape") event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !turns.length) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
})();
