// The page round the samples: theme, copying, keys, and where one is in the list of contents.
(() => {
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const THEMES = ["system", "light", "dark"];
  const stored = () => {
    try {
      return localStorage.getItem("assay-theme");
    } catch {
      return null; // a browser that stores nothing for files; the switch then lasts as long as the page
    }
  };
  const setTheme = (wanted) => {
    const next = THEMES.includes(wanted) ? wanted : "system";
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    theme.textContent = next[0].toUpperCase() + next.slice(1);
    theme.setAttribute("aria-label", `Colours: ${next}. Switch.`);
    theme.dataset.now = next;
    try {
      localStorage.setItem("assay-theme", next);
    } catch {
      theme.dataset.stored = "no";
    }
  };
  theme.hidden = false;
  theme.addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(theme.dataset.now) + 1) % THEMES.length]));
  setTheme(stored());

  const tell = (button, word) => {
    const before = button.dataset.says || button.textContent;
    button.dataset.says = before;
    button.textContent = word;
    setTimeout(() => { button.textContent = before; }, 1500);
  };
  // Copies a text, or an element's; where the browser refuses, the element is selected for the reader to copy.
  assay.copy = async (button, source) => {
    try {
      await navigator.clipboard.writeText(typeof source === "string" ? source : source.textContent);
      tell(button, "Copied");
    } catch {
      if (typeof source !== "string") getSelection().selectAllChildren(source);
      tell(button, typeof source === "string" ? "In the address bar" : "Selected");
    }
  };
  for (const button of document.querySelectorAll("button.copy[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => assay.copy(button, document.getElementById(button.dataset.copy)));
  }
  const link = document.getElementById("copy-link");
  if (link) {
    link.addEventListener("click", () => {
      assay.rememberNow();
      assay.copy(link, location.href);
    });
  }

  const keys = document.getElementById("keys");
  if (keys) keys.querySelector("[data-close]").addEventListener("click", () => keys.close());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !assay.move || root.dataset.samples !== "ready") return;
    const typing = event.target.matches("input, select, textarea");
    const inList = event.target.closest("#list");
    if (event.key === "Escape" && typing) {
      event.target.blur();
      return;
    }
    if (typing || (document.querySelector("dialog[open]") && event.key !== "?")) return;
    const acts = {
      "/": () => document.getElementById("search").focus(),
      "?": () => (keys.open ? keys.close() : keys.showModal()),
      j: () => assay.move(1), k: () => assay.move(-1), n: () => assay.turn(1), p: () => assay.turn(-1),
      ...(inList ? { ArrowDown: () => assay.move(1), ArrowUp: () => assay.move(-1) } : {}),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });

  const links = new Map([...document.querySelectorAll(".toc a")].map((each) => [each.hash.slice(1), each]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const each of links.values()) each.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const id of links.keys()) {
    const section = document.getElementById(id);
    if (section) seen.observe(section);
  }
})();
