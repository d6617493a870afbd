"use strict";
(() => {
  const cards = [...document.querySelectorAll(".card")];
  const form = document.getElementById("filters");
  const shown = document.getElementById("shown");
  const texts = new Map();
  const textOf = (card) => {
    if (!texts.has(card)) texts.set(card, card.textContent.toLowerCase());
    return texts.get(card);
  };

  const matches = (card, wanted) => {
    if (wanted.dataset && card.dataset.dataset !== wanted.dataset) return false;
    if (wanted.arm || wanted.status) {
      const answers = card.dataset.answers.split("|").filter(Boolean).map((answer) => answer.split("/"));
      const fits = ([arm, status]) =>
        (!wanted.arm || arm === wanted.arm) && (!wanted.status || status === wanted.status);
      if (!answers.some(fits)) return false;
    }
    return !wanted.text || textOf(card).includes(wanted.text.toLowerCase());
  };

  const filter = () => {
    const wanted = Object.fromEntries(new FormData(form));
    let count = 0;
    for (const card of cards) {
      const fits = matches(card, wanted);
      card.hidden = !fits;
      count += fits ? 1 : 0;
    }
    shown.textContent = `${count.toLocaleString("en")} of ${cards.length.toLocaleString("en")}`;
  };

  if (cards.length) {
    form.hidden = false;
    let waiting = 0;
    form.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(filter, 120);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    document.getElementById("unfold").addEventListener("click", (event) => {
      const visible = cards.filter((card) => !card.hidden);
      const open = !visible.every((card) => card.open);
      for (const card of visible) card.open = open;
      event.target.textContent = open ? "Fold all shown" : "Unfold all shown";
    });
    filter();
  }

  const openTarget = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.matches(".card")) {
      target.hidden = false;
      target.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", openTarget);
  openTarget();

  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  const links = new Map([...document.querySelectorAll(".toc a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      const link = links.get(entry.target.id);
      if (link) link.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const id of links.keys()) {
    const section = document.getElementById(id);
    if (section) seen.observe(section);
  }

})();
