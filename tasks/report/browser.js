// The browser of samples: the index is unpacked at once, the texts when they are looked at or searched.
(() => {
  const PER_PAGE = 50;
  const element = (id) => document.getElementById(id);
  const form = element("filters");
  if (!form) return;
  const list = element("list");
  const packed = element("sample-index");

  // An element with properties and children; text children become text, never markup.
  const make = (tag, properties = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (value === null || value === undefined || value === false) continue;
      if (name in made && !name.includes("-")) made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  };

  const HIDDEN = new RegExp(
    "([\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f" +
    "\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff\\ufffe\\uffff\\u{e0000}-\\u{e007f}])\\1*", "gu");
  const CONTROLS = ("NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM " +
    "SUB ESC FS GS RS US").split(" ");
  const sign = (run, first) => {
    const code = first.codePointAt(0);
    const name = `⟨${CONTROLS[code] || `U+${code.toString(16).toUpperCase().padStart(4, "0")}`}⟩`;
    const count = run.length / first.length;
    return count <= 3 ? name.repeat(count) : `${name}×${count}`;
  };

  const marked = (text, pattern) => {
    if (!pattern) return [text];
    const found = [];
    let end = 0;
    for (const match of text.matchAll(new RegExp(pattern.source, "giu"))) {
      if (found.length > 2000) break;
      found.push(text.slice(end, match.index), make("mark", {}, match[0]));
      end = match.index + match[0].length;
    }
    return [...found, text.slice(end)];
  };

  // A text of the run as nodes: what cannot be seen becomes a sign, what was searched for is marked.
  const shown = (text, pattern = null) => {
    const nodes = document.createDocumentFragment();
    let end = 0;
    for (const match of text.matchAll(HIDDEN)) {
      nodes.append(...marked(text.slice(end, match.index), pattern), make("b", { className: "c" }, sign(match[0], match[1])));
      end = match.index + match[0].length;
    }
    nodes.append(...marked(text.slice(end), pattern));
    return nodes;
  };
  const plain = (text) => text.replace(HIDDEN, sign);

  const unpack = async (source) => {
    const binary = atob(source.textContent);
    const bytes = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };

  const count = (number) => number.toLocaleString("en");
  const dash = (reason) => make("span", { className: "missing", title: reason }, "–", make("span", { className: "sr" }, ` (${reason})`));
  const brief = (value) => {
    if (value === null || value === undefined) return null;
    if (Number.isInteger(value)) return count(value);
    return Math.abs(value) >= 100 ? count(Math.round(value)) : String(Number(value.toPrecision(3)));
  };
  const time = (ms) => (ms === null || ms === undefined ? null : ms < 1000 ? `${brief(ms)} ms` : `${brief(ms / 1000)} s`);
  const words = (metric) => metric.replaceAll("_", " ");
  const kind = (arm) => (arm === "free" || arm === "guided" ? arm : "other");

  let index;
  let size = 0;
  const chunks = new Map();
  const texts = (sample) => {
    const number = Math.floor(sample / index.chunk);
    if (!chunks.has(number)) chunks.set(number, unpack(element(`sample-texts-${number}`)));
    return chunks.get(number).then((found) => found[sample % index.chunk]);
  };

  // Rows that belong to a sample stand together; these are where each sample's begin.
  const begins = (owners) => {
    const at = new Int32Array(size + 1);
    for (const owner of owners || []) at[owner + 1] += 1;
    for (let sample = 0; sample < size; sample += 1) at[sample + 1] += at[sample];
    return at;
  };
  const ANSWER = ["of", "arm", "repeat", "state", "end", "valid", "tokens", "cached", "ttft", "tpot", "e2e", "queued", "reused", "choices"];
  let answerBegins;
  let valueBegins;
  const answersOf = (sample) => {
    const found = [];
    for (let row = answerBegins[sample]; row < answerBegins[sample + 1]; row += 1) {
      found.push(Object.fromEntries(ANSWER.map((name, column) => [name, index.answers[column][row]])));
    }
    return found;
  };
  const valuesOf = (sample) => {
    const found = [];
    for (let row = valueBegins[sample]; row < valueBegins[sample + 1]; row += 1) {
      const [, arm, metric, repeat, value] = index.values.map((column) => column[row]);
      found.push({ arm, metric, repeat, value, place: row - valueBegins[sample] });
    }
    return found;
  };

  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
  // By metric: the guided mean less the free one (or of the page's two arms), turned so that more is better. Metrics
  // without both are left out.
  const effects = (sample, metric) => {
    const found = [];
    const rows = valuesOf(sample).filter((row) => row.value !== null && (metric === "" || index.metrics[row.metric] === metric));
    for (const number of new Set(rows.map((row) => row.metric))) {
      const [free, guided] = (index.pair || []).map((arm) =>
        mean(rows.filter((row) => row.metric === number && index.arms[row.arm] === arm).map((row) => row.value)));
      if (free != null && guided != null) found.push(index.lower[number] ? free - guided : guided - free);
    }
    return found;
  };
  const formOf = (sample, arm) => {
    const judged = answersOf(sample).filter((row) => index.arms[row.arm] === arm && row.valid !== null);
    return judged.length ? judged.every((row) => row.valid === 1) : null;
  };

  const state = { q: "", dataset: "", arm: "", status: "", changed: "", metric: "", op: "eq", value: "", sort: "", page: 1, open: null };
  const CHANGED = {
    won: (sample) => effects(sample, state.metric).some((effect) => effect > 1e-9),
    lost: (sample) => effects(sample, state.metric).some((effect) => effect < -1e-9),
    tied: (sample) => {
      const found = effects(sample, state.metric);
      return found.length > 0 && found.every((effect) => Math.abs(effect) <= 1e-9);
    },
    formed: (sample) => formOf(sample, index.pair?.[0]) === false && formOf(sample, index.pair?.[1]) === true,
    broken: (sample) => formOf(sample, index.pair?.[0]) === true && formOf(sample, index.pair?.[1]) === false,
  };
  const COMPARE = {
    eq: (a, b) => Math.abs(a - b) < 1e-9, lt: (a, b) => a < b, le: (a, b) => a <= b, ge: (a, b) => a >= b, gt: (a, b) => a > b,
  };

  const scoresOf = (sample) => valuesOf(sample).filter((row) =>
    (state.metric === "" || index.metrics[row.metric] === state.metric) && (state.arm === "" || index.arms[row.arm] === state.arm));
  const fits = (sample) => {
    if (state.dataset && index.datasets[index.samples[0][sample]] !== state.dataset) return false;
    if ((state.arm || state.status) && !answersOf(sample).some((row) =>
      (!state.arm || index.arms[row.arm] === state.arm) && (!state.status || index.states[row.state] === state.status))) return false;
    if (state.op === "none") {
      if (!scoresOf(sample).some((row) => row.value === null)) return false;
    } else if (state.value !== "") {
      const wanted = Number(state.value);
      if (!scoresOf(sample).some((row) => row.value !== null && COMPARE[state.op](row.value, wanted))) return false;
    }
    return !state.changed || CHANGED[state.changed](sample);
  };

  const longest = (sample, name) => {
    const found = answersOf(sample).filter((row) => row[name] !== null && (!state.arm || index.arms[row.arm] === state.arm));
    return found.length ? Math.max(...found.map((row) => row[name])) : null;
  };
  const shortest = (sample) => {
    const found = answersOf(sample).filter((row) => row.tokens !== null && (!state.arm || index.arms[row.arm] === state.arm));
    return found.length ? -Math.min(...found.map((row) => row.tokens)) : null;
  };
  const score = (sample) => mean(scoresOf(sample).filter((row) => row.value !== null).map((row) => row.value));
  const negative = (value) => (value === null ? null : -value);
  const SORT = {
    e2e: (sample) => longest(sample, "e2e"), ttft: (sample) => longest(sample, "ttft"), output: (sample) => longest(sample, "tokens"),
    prompt: (sample) => index.samples[2][sample], short: shortest, high: score, low: (sample) => negative(score(sample)),
    gain: (sample) => mean(effects(sample, state.metric)), loss: (sample) => negative(mean(effects(sample, state.metric))),
  };
  const sorted = (samples) => {
    const key = SORT[state.sort];
    if (!key) return samples;
    const keys = new Map(samples.map((sample) => [sample, key(sample)]));
    const known = samples.filter((sample) => keys.get(sample) !== null);
    return [...known.sort((a, b) => keys.get(b) - keys.get(a) || a - b), ...samples.filter((sample) => keys.get(sample) === null)];
  };

  const pattern = () => (state.q ? new RegExp(state.q.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&").replace(/\\-/g, "\\x2d"), "iu") : null);
  const whole = (text) => (typeof text === "string" ? text : text ? `${text[0]}\n${text[2]}` : "");
  const holds = (sample, content, wanted) =>
    [content[0], content[1], ...content[2].flatMap((answer) => [answer[0], answer[1], answer[2]]), ...content[3].map((choice) => choice[1])]
      .some((text) => text && wanted.test(whole(text))) ||
    wanted.test(index.samples[1][sample]) || wanted.test(index.prefixes[index.samples[0][sample]]);

  let matching = [];
  let serial = 0;
  const select = async () => {
    const own = (serial += 1);
    let found = [];
    for (let sample = 0; sample < size; sample += 1) if (fits(sample)) found.push(sample);
    const wanted = pattern();
    if (wanted) {
      const kept = [];
      for (let at = 0; at < found.length; at += 1) {
        if (at % 500 === 0 && at) element("shown").textContent = `searching… ${count(at)} of ${count(found.length)}`;
        if (holds(found[at], await texts(found[at]), wanted)) kept.push(found[at]);
        if (own !== serial) return false;
      }
      found = kept;
    }
    matching = sorted(found);
    return true;
  };

  // A sample's id without the dataset's name before it, which stands beside it.
  const short = (sample) => {
    const [dataset, id] = name(sample);
    return id.startsWith(`${dataset}:`) && id.length > dataset.length + 1 ? id.slice(dataset.length + 1) : id;
  };
  const name = (sample) => [index.datasets[index.samples[0][sample]], index.samples[1][sample]];
  const statusChip = (status) => make("span", { className: `status status-${status}` }, status);
  const armLabel = (arm) => make("span", { className: `arm arm-${kind(arm)}` }, shown(arm));

  const answerCell = (answers) => {
    if (!answers.length) return make("td", {}, dash("this arm was not asked"));
    const generated = answers.filter((answer) => !answer.choices);
    const scored = answers.find((answer) => answer.choices);
    const first = generated[0] || scored;
    const facts = [first.tokens === null ? null : `${count(first.tokens)} tokens`, generated.length ? time(first.e2e) : null,
      generated.length > 1 ? `${generated.length} repeats` : null, scored ? `${scored.choices} choices scored` : null].filter(Boolean).join(", ");
    return make("td", { className: "answer-cell" },
      make("div", { className: "line" }, statusChip(index.states[first.state]), make("span", { className: "quiet" }, ` ${facts}`)),
      make("div", { className: "snippet", "data-arm": String(first.arm) }));
  };

  const scoreCell = (sample) => {
    const cell = make("td", { className: "score-cell" });
    const rows = valuesOf(sample);
    for (const metric of new Set(rows.map((row) => row.metric))) {
      const line = make("div", { className: "line" }, make("span", { className: "quiet" }, `${words(index.metrics[metric])} `));
      const arms = [...new Set(rows.filter((row) => row.metric === metric).map((row) => row.arm))];
      arms.forEach((arm, place) => {
        const found = mean(rows.filter((row) => row.metric === metric && row.arm === arm && row.value !== null).map((row) => row.value));
        if (place) line.append(" → ");
        line.append(make("span", { className: `mark arm-${kind(index.arms[arm])}`, title: index.arms[arm] }, found === null ? dash("not scored") : brief(found)));
      });
      cell.append(line);
    }
    return cell;
  };

  const row = (sample) => {
    const [dataset] = name(sample);
    const answers = answersOf(sample);
    return make("tr", { "data-sample": String(sample) },
      make("th", { scope: "row" },
        make("button", { type: "button", className: "open", "data-open": String(sample) }, make("bdi", {}, shown(short(sample)))),
        make("div", { className: "quiet" }, shown(dataset), `, ${brief(index.samples[2][sample]) ?? "–"} prompt tokens`,
          index.samples[3][sample] ? `, ${count(index.samples[3][sample])} cut` : "")),
      ...index.arms.map((_, arm) => answerCell(answers.filter((answer) => answer.arm === arm))),
      scoreCell(sample));
  };

  const snippets = async (table, samples) => {
    const wanted = pattern();
    for (const sample of samples) {
      const content = await texts(sample);
      if (!table.isConnected) return;
      const answers = answersOf(sample);
      for (const place of table.querySelectorAll(`tr[data-sample="${sample}"] .snippet`)) {
        const at = answers.findIndex((answer) => String(answer.arm) === place.dataset.arm && !answer.choices);
        const text = at < 0 ? "" : whole(content[2][at][0] ?? content[2][at][2]);
        const hit = wanted ? text.search(wanted) : -1;
        const begin = hit > 60 ? hit - 30 : 0; // what was searched for is in sight
        const part = (begin ? "…" : "") + text.slice(begin, begin + 160);
        place.replaceChildren(make("bdi", {}, shown(part.replace(/\s+/g, " "), wanted)));
      }
    }
  };

  const pages = () => Math.max(1, Math.ceil(matching.length / PER_PAGE));
  const draw = () => {
    state.page = Math.min(Math.max(1, state.page), pages());
    const begin = (state.page - 1) * PER_PAGE;
    const part = matching.slice(begin, begin + PER_PAGE);
    const head = make("tr", {}, make("th", { scope: "col" }, "Sample"),
      ...index.arms.map((arm) => make("th", { scope: "col" }, armLabel(arm))), make("th", { scope: "col" }, "Scores"));
    const table = make("table", { className: "samples" }, make("caption", { className: "sr" }, "Samples that fit the filters"),
      make("thead", {}, head), make("tbody", {}, ...part.map(row)));
    list.replaceChildren(part.length ? table : make("p", { className: "quiet" }, "No sample fits. Clear a filter to see more."));
    element("shown").textContent = `${count(matching.length)} of ${count(size)}`;
    element("page").textContent = `page ${count(state.page)} of ${count(pages())}`;
    element("earlier").disabled = state.page <= 1;
    element("later").disabled = state.page >= pages();
    element("print-note").textContent = part.length < size
      ? `On paper: ${count(part.length)} of ${count(size)} samples, those listed on the screen. The file itself holds all.` : "";
    snippets(table, part);
  };

  const address = () => {
    const wanted = new URLSearchParams();
    const skipped = { page: state.page === 1, op: state.value === "" && state.op !== "none" };
    for (const [key, value] of Object.entries(state)) if (value !== "" && value !== null && !skipped[key]) wanted.set(key, value);
    const text = wanted.toString();
    return text ? `#samples?${text}` : "#samples";
  };
  // The address follows the view, at most ten times a second: browsers refuse more.
  let due = 0;
  const rememberNow = () => {
    clearTimeout(due);
    due = 0;
    history.replaceState(null, "", address());
  };
  const remember = () => {
    if (!due) due = setTimeout(rememberNow, 100);
  };
  const busy = (is) => list.setAttribute("aria-busy", String(is));
  const refresh = async ({ page = 1 } = {}) => {
    busy(true);
    state.page = page;
    if (await select()) {
      draw();
      busy(false);
    }
  };

  const FIELDS = ["q", "dataset", "arm", "status", "changed", "metric", "op", "value", "sort"];
  const fromForm = () => {
    for (const field of FIELDS) state[field] = form.elements[field] ? form.elements[field].value : "";
    if (!state.op) state.op = "eq";
  };
  // The view that the address names. Values that a field does not offer are left out.
  const fromAddress = async () => {
    if (!location.hash.startsWith("#samples?")) return false;
    const wanted = new URLSearchParams(location.hash.slice("#samples?".length));
    form.reset();
    for (const field of FIELDS) {
      const control = form.elements[field];
      if (!control || !wanted.has(field)) continue;
      control.value = wanted.get(field);
      if (control.selectedIndex === -1) control.selectedIndex = 0;
    }
    fromForm();
    await refresh({ page: Number.parseInt(wanted.get("page") || "1", 10) || 1 });
    const opened = wanted.has("open") ? Number.parseInt(wanted.get("open"), 10) : -1;
    state.open = opened >= 0 && opened < size ? opened : null;
    if (state.open !== null) await assay.open(state.open);
    else document.getElementById("samples").scrollIntoView();
    return true;
  };

  const turn = (step) => {
    const wanted = state.page + step;
    if (wanted < 1 || wanted > pages()) return false;
    state.page = wanted;
    draw();
    remember();
    return true;
  };
  const buttons = () => [...list.querySelectorAll("button.open")];
  const move = (step) => {
    const found = buttons();
    const at = found.indexOf(document.activeElement);
    const next = at < 0 ? (step > 0 ? 0 : found.length - 1) : at + step;
    if (found[next]) found[next].focus();
    else if (at >= 0 && turn(step)) buttons().at(step > 0 ? 0 : -1).focus();
  };

  Object.assign(assay, { make, shown, plain, count, dash, brief, time, words, kind, texts, answersOf, valuesOf, name, statusChip, armLabel, pattern, whole, short, move, turn, remember, rememberNow });
  Object.defineProperties(assay, { index: { get: () => index }, matching: { get: () => matching }, state: { value: state }, size: { get: () => size } });

  const start = async () => {
    if (typeof DecompressionStream === "undefined") {
      list.textContent = "This browser cannot unpack the samples: open the file in Chromium 80, Firefox 113, Safari 16.4 or newer.";
      return;
    }
    index = await unpack(packed);
    size = index.samples[0].length;
    answerBegins = begins(index.answers[0]);
    valueBegins = begins(index.values[0]);
    form.hidden = false;
    element("bar").hidden = false;
    if (!index.pair) form.elements.changed.closest("label").hidden = true;
    if (!(await fromAddress())) await refresh();
    performance.mark("samples-ready");
    document.documentElement.dataset.samples = "ready";

    let waiting = 0;
    form.addEventListener("input", () => {
      clearTimeout(waiting);
      busy(true);
      waiting = setTimeout(async () => {
        fromForm();
        const settled = refresh();
        remember();
        await settled;
      }, 120);
    });
    form.addEventListener("reset", () => form.elements.q.dispatchEvent(new Event("input", { bubbles: true })));
    form.addEventListener("submit", (event) => event.preventDefault());
    element("earlier").addEventListener("click", () => turn(-1));
    element("later").addEventListener("click", () => turn(1));
    list.addEventListener("click", (event) => {
      const line = event.target.closest("tr[data-sample]");
      if (line && !getSelection().toString()) assay.open(Number(line.dataset.sample));
    });
    addEventListener("hashchange", fromAddress);
  };
  assay.ready = start();
})();
