"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const narrow = () => innerWidth < 600;

  async function unpack(id) {
    const bytes = Uint8Array.from(atob($(id).textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  let page;
  try {
    const script = document.createElement("script");
    script.textContent = await unpack("packed-plotly");
    document.head.append(script);
    page = JSON.parse(await unpack("packed-data"));
  } catch (error) {
    $("trouble").hidden = false;
    $("trouble").textContent = "This browser cannot draw the figures (" + error + "); the tables are complete without them.";
    return;
  }

  // Figures: those in sight first, then one after the other whenever there is time, painted in the page's colours.

  const makers = {}; // figure id -> () => {data, layout, table}
  const tables = {}; // figure id -> rows for CSV, of what is drawn now
  const drawn = new Set();

  function themed(layout, ink, line) {
    const out = { ...layout, font: { ...layout.font, color: ink }, modebar: { color: color("soft"), bgcolor: "rgba(0,0,0,0)" } };
    out.hoverlabel = { align: "left", bgcolor: color("card"), bordercolor: color("line"), font: { color: color("ink") } };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key)))
      out[name] = { ...layout[name], gridcolor: line, linecolor: line, zerolinecolor: line };
    out.shapes = (layout.shapes || []).map((s) => (s.type === "line" ? { ...s, line: { ...s.line, color: ink } } : s));
    return out;
  }

  const painted = (data, ink) => data.map((t) => (t.type === "heatmap" ? { ...t, textfont: { color: ink } } : t));

  function draw(id) {
    const place = $(id);
    const { data, layout, table } = makers[id]();
    tables[id] = table;
    if (layout.height) place.style.height = layout.height + "px";
    if (touch) layout.dragmode = false; // a finger scrolls the page
    if (document.documentElement.dataset.paper) layout.width = place.clientWidth; // there is no time to resize by itself
    const config = { responsive: true, displaylogo: false, displayModeBar: false };
    drawn.add(id);
    place.plain = { data, layout };
    return Plotly.react(place, painted(data, color("ink")), themed(layout, color("ink"), color("line")), config);
  }

  const sight = new IntersectionObserver(
    (entries) => entries.forEach((e) => { if (e.isIntersecting && !drawn.has(e.target.id)) draw(e.target.id); }),
    { rootMargin: "400px" },
  );
  const redraw = () => drawn.forEach(draw);
  const whenIdle = window.requestIdleCallback || ((task) => setTimeout(task, 30));
  function drawRest() {
    const next = all(".figure").find((place) => !drawn.has(place.id));
    if (!next) { document.documentElement.dataset.drawn = "all"; return; }
    draw(next.id);
    whenIdle(drawRest);
  }

  // Text

  function amount(axis, value) {
    const units = page.curves.axes[axis].units;
    let [size, unit] = units[0];
    for (const [s, u] of units) if (Math.abs(value) >= s) [size, unit] = [s, u];
    const v = value / size;
    const whole = !unit && (v >= 1000 || Number.isInteger(v));
    const digits = whole ? 0 : Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(Math.abs(v) || 100))));
    return v.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }) + (unit ? " " + unit : "");
  }
  function score(measure, mean, half) {
    if (mean === null) return "not finite";
    const text = (v) => (measure.share ? (100 * v).toFixed(1) : v.toPrecision(3));
    return text(mean) + (half === null || half === undefined ? "" : " ± " + text(half)) + (measure.share ? " %" : "");
  }

  // Curves: any measure against any cost

  const curves = page.curves;
  const state = { x: "steps", measure: curves.measures[0].key, hidden: new Set(), whole: false };
  const base = (height, margin) => ({
    height, margin, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    font: { family: "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif", size: 12 }, xaxis: {}, yaxis: {},
  });

  makers.curve = () => {
    const axis = curves.axes[state.x];
    const measure = curves.measures.find((m) => m.key === state.measure);
    const lists = curves.curves[state.x];
    const largest = Math.max(...lists.map((c) => c.x[c.x.length - 1] || 0));
    let [size, unit] = axis.units[0];
    for (const [s, u] of axis.units) if (largest >= s) [size, unit] = [s, u];
    const bands = [], lines = [];
    const others = Object.keys(curves.axes).filter((name) => name !== state.x);
    const table = [["method", "seeds", axis.column, ...others.map((n) => curves.axes[n].column),
      ...curves.measures.flatMap((m) => [m.key + "_mean", m.key + "_half_95"])]];
    curves.methods.forEach((method, i) => {
      const curve = lists[i];
      const { mean, half } = curve.measures[state.measure];
      const at = curve.x.map((v) => v / size);
      const visible = !state.hidden.has(i);
      if (half) {
        const rgb = [1, 3, 5].map((k) => parseInt(method.color.slice(k, k + 2), 16)).join(",");
        bands.push({ type: "scatter", mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: `rgba(${rgb},0.16)`,
          x: [...at, ...at.slice().reverse()], hoverinfo: "skip", visible, name: escaped(method.name),
          y: [...mean.map((v, k) => (v === null ? null : v + half[k])), ...mean.map((v, k) => (v === null ? null : v - half[k])).reverse()] });
      }
      lines.push({ type: "scatter", mode: at.length <= 40 ? "lines+markers" : "lines", x: at, y: mean, visible,
        name: escaped(method.name), line: { color: method.color, dash: method.dash, width: 2.5 }, marker: { size: 5 },
        hovertemplate: "%{hovertext}<extra></extra>",
        hovertext: at.map((_, k) => {
          const cost = (name) => amount(name, name === state.x ? curve.x[k] : curve.costs[name][k]);
          return `<b>${escaped(method.name)}</b><br>${escaped(measure.label)} ${score(measure, mean[k], half && half[k])}` +
            (method.seeds > 1 ? ` (${method.seeds} seeds)` : "") +
            `<br>${cost("steps")} local steps<br>${cost("seconds")} · ${cost("joules")} · ${cost("bytes")}`;
        }) });
      curve.x.forEach((v, k) => table.push([method.name, method.seeds, v, ...others.map((n) => curve.costs[n][k]),
        ...curves.measures.flatMap((m) => {
          const values = curve.measures[m.key];
          return [values.mean[k], values.half ? values.half[k] : ""];
        })]));
    });
    const layout = base(narrow() ? 340 : 420, { l: 58, r: 12, t: 10, b: 48 });
    layout.xaxis = { title: { text: axis.label + (unit ? ` (${unit})` : "") }, rangemode: "tozero", ticks: "" };
    layout.yaxis = { title: { text: escaped(measure.label) }, tickformat: measure.share ? ".0%" : undefined, zeroline: false };
    if (measure.range && !state.whole) layout.yaxis.range = measure.range;
    $("curves-words").textContent = measure.label[0].toUpperCase() + measure.label.slice(1) + (measure.says ? ": " + measure.says : "");
    return { data: [...bands, ...lines], layout, table };
  };

  for (const measure of curves.measures) $("curves-measure").append(new Option(measure.label, measure.key));
  $("curves-measure").addEventListener("change", (e) => { state.measure = e.target.value; draw("curve"); });
  $("curves-whole").addEventListener("change", (e) => { state.whole = e.target.checked; draw("curve"); });
  for (const button of all("#curves-x button"))
    button.addEventListener("click", () => {
      for (const other of all("#curves-x button")) other.setAttribute("aria-pressed", String(other === button));
      state.x = button.dataset.value;
      draw("curve");
    });
  for (const chip of all("button.chip"))
    chip.addEventListener("click", () => {
      const shown = chip.getAttribute("aria-pressed") === "false";
      chip.setAttribute("aria-pressed", String(shown));
      state.hidden[shown ? "delete" : "add"](Number(chip.dataset.method));
      draw("curve");
    });

  // Timeline: one cloud round of one method

  const clock = { method: 0, round: 0 };
  const chosen = () => page.timelines[clock.method].rounds[clock.round];

  makers["timeline-plot"] = () => {
    const now = chosen();
    const names = Object.keys(page.activities);
    const table = [["device", "cluster", "start_s", ...names.map((n) => n + "_s"), "late", "moved", "lost"]];
    const late = new Set(now.late), moved = new Set(now.moved), lost = new Set(now.lost);
    const begins = now.start_s.slice();
    const data = names.map((name, a) => {
      const trace = { type: "bar", orientation: "h", name, base: begins.slice(), x: now.spans[a], y: now.line, width: 0.8,
        marker: { color: page.activities[name], line: { width: 0 } }, hovertemplate: "%{hovertext}<extra></extra>",
        hovertext: now.line.map((l, k) => `<b>device ${now.client[l]}</b>, ${escaped(now.cluster[l])}<br>${name} for ` +
          `${amount("seconds", now.spans[a][k])}` + (late.has(k) ? "<br>late" : "") + (moved.has(k) ? "<br>has moved" : "") +
          (lost.has(k) ? "<br>lost" : "")) };
      now.spans[a].forEach((s, k) => { begins[k] += s; });
      return trace;
    });
    const arrival = (k) => now.start_s[k] + now.spans[0][k] + now.spans[1][k] + now.spans[2][k];
    const signs = (which, name, symbol, ink) => ({ type: "scatter", mode: "markers", name, hoverinfo: "skip",
      x: which.map(arrival), y: which.map((k) => now.line[k]), marker: { symbol, size: 8, color: ink, line: { width: 1, color: "#ffffff" } } });
    data.push(signs(now.late, "late", "x", "#D55E00"), signs(now.moved, "moved", "diamond", "#CC79A7"),
      signs(now.lost, "lost", "triangle-up", "#000000"));
    now.line.forEach((l, k) => table.push([now.client[l], now.cluster[l], now.start_s[k],
      ...names.map((_, a) => now.spans[a][k]), late.has(k), moved.has(k), lost.has(k)]));
    const n = now.client.length;
    const firsts = now.cluster.map((c, i) => i).filter((i) => i === 0 || now.cluster[i] !== now.cluster[i - 1]);
    const ends = [...firsts.slice(1), n];
    const layout = base(Math.max(220, Math.min(700, 90 + 9 * n)), { l: 10, r: 12, t: 10, b: 48 });
    layout.barmode = "overlay";
    layout.xaxis = { title: { text: `seconds since the cloud round began, at ${amount("seconds", now.begin_s)}` }, rangemode: "tozero" };
    layout.yaxis = { range: [n - 0.5, -0.5], showgrid: false, zeroline: false, automargin: true, ticks: "",
      tickvals: firsts.map((f, i) => (f + ends[i] - 1) / 2), ticktext: firsts.map((f) => escaped(now.cluster[f])) };
    layout.shapes = firsts.slice(1).map((f) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: f - 0.5, y1: f - 0.5, line: { width: 0.6 } }));
    $("timeline-output").textContent = now.round;
    const { method, seed } = page.timelines[clock.method];
    $("timeline-what").textContent = `${method}, seed ${seed}, cloud round ${now.round}.`;
    $("timeline-words").textContent = now.n_clients > n ? `is idle; ${n} of ${now.n_clients} devices are shown` : "is idle";
    return { data, layout, table };
  };
  makers.utilisation = () => {
    const now = chosen();
    const clusters = Object.keys(now.shares);
    const names = Object.keys(page.activities);
    const data = names.map((name, a) => ({ type: "bar", orientation: "h", name, y: clusters.map(escaped), x: clusters.map((c) => now.shares[c][a]),
      marker: { color: page.activities[name], line: { width: 0 } }, hovertemplate: `%{y}: ${name} %{x:.1%}<extra></extra>` }));
    const layout = base(Math.min(600, 80 + (clusters.length > 12 ? 14 : 28) * clusters.length), { l: 10, r: 14, t: 4, b: 46 });
    layout.barmode = "stack";
    layout.bargap = 0.3;
    layout.xaxis = { tickformat: ".0%", range: [0, 1], title: { text: "share of the devices’ time" } };
    layout.yaxis = { type: "category", autorange: "reversed", automargin: true, showgrid: false };
    const table = [["cluster", ...names], ...clusters.map((c) => [c, ...now.shares[c]])];
    return { data, layout, table };
  };
  function turn() {
    const range = $("timeline-round");
    range.max = page.timelines[clock.method].rounds.length - 1;
    clock.round = Math.min(clock.round, Number(range.max));
    range.value = clock.round;
    draw("timeline-plot");
    draw("utilisation");
  }
  if ($("timeline-round")) {
    $("timeline-round").max = page.timelines[0].rounds.length - 1;
    $("timeline-output").textContent = page.timelines[0].rounds[0].round;
    $("timeline-round").addEventListener("input", (e) => { clock.round = Number(e.target.value); turn(); });
    $("timeline-method").addEventListener("change", (e) => { clock.method = Number(e.target.value); turn(); });
  }

  // Figures that came ready; maps have frames

  const frame = {}; // map id -> number of the round shown
  function plainText(text) {
    return text === undefined || text === null ? "" : String(text).replace(/<br>/g, ", ").replace(/<[^>]*>/g, "")
      .replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
  }
  function tableOf({ data, layout }) {
    const rounds = layout.meta && layout.meta.rounds;
    const rows = [[...(rounds ? ["cloud_round"] : []), "series", "x", "y", "value", "text"]];
    data.forEach((trace, i) => {
      const first = rounds ? [layout.meta.frames[i] < 0 ? "" : rounds[layout.meta.frames[i]]] : [];
      if (trace.type === "heatmap")
        trace.z.forEach((row, r) => row.forEach((v, c) => rows.push([...first, trace.name || "", trace.x[c], plainText(trace.y[r]), v, ""])));
      else
        trace.x.forEach((v, k) => v !== null && rows.push([...first, trace.name || "", plainText(v), plainText(trace.y[k]), "",
          plainText((trace.hovertext || trace.text || [])[k])]));
    });
    return rows;
  }
  for (const [id, figure] of Object.entries(page.figures)) {
    frame[id] = 0;
    const table = tableOf(figure);
    makers[id] = () => {
      const meta = figure.layout.meta;
      const data = meta ? figure.data.map((t, i) => ({ ...t, visible: meta.frames[i] < 0 || meta.frames[i] === frame[id] })) : figure.data;
      return { data, layout: { ...figure.layout, template: undefined }, table };
    };
  }
  function show(id, i) {
    frame[id] = i;
    const range = document.querySelector(`input[data-for="${id}"]`);
    range.value = i;
    document.querySelector(`output[data-for="${id}"]`).textContent = "from cloud round " + page.figures[id].layout.meta.rounds[i];
    return draw(id);
  }
  for (const range of all("input[data-for]")) range.addEventListener("input", () => show(range.dataset.for, Number(range.value)));
  for (const button of all("button.play")) {
    let timer = null;
    const id = button.dataset.for;
    const stop = () => { clearInterval(timer); timer = null; button.textContent = "▶"; };
    button.addEventListener("click", () => {
      if (timer) return stop();
      const last = page.figures[id].layout.meta.rounds.length - 1;
      if (frame[id] === last) show(id, 0);
      button.textContent = "❚❚";
      timer = setInterval(() => (frame[id] < last ? show(id, frame[id] + 1) : stop()), 700);
    });
  }

  // Saving: pictures in light colours on white, tables as CSV

  function save(name, blob) {
    const link = document.createElement("a");
    link.download = name;
    link.href = URL.createObjectURL(blob);
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  const field = (value) => (/[",\n]/.test(value) ? `"${String(value).replace(/"/g, '""')}"` : value ?? "");
  const csv = (rows) => rows.map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";

  async function saveFigure(id, form) {
    if (!drawn.has(id)) await draw(id);
    if (form === "csv") return save(id + ".csv", new Blob([csv(tables[id])], { type: "text/csv" }));
    const place = $(id);
    const layout = { ...themed(place.plain.layout, "#1d2430", "#dfe3ea"), paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff", showlegend: place.plain.data.length > 1 && id === "curve" };
    const size = { width: Math.max(place.clientWidth, 600), height: place.clientHeight, scale: form === "png" ? 2 : 1, format: form };
    const address = await Plotly.toImage({ data: painted(place.plain.data, "#1d2430"), layout }, size);
    const [head, body] = [address.slice(0, address.indexOf(",")), address.slice(address.indexOf(",") + 1)];
    const text = head.includes("base64") ? Uint8Array.from(atob(body), (l) => l.charCodeAt(0)) : decodeURIComponent(body);
    return save(`${id}.${form}`, new Blob([text], { type: form === "svg" ? "image/svg+xml" : "image/png" }));
  }
  for (const button of all("button[data-save]"))
    button.addEventListener("click", () => saveFigure(button.dataset.for, button.dataset.save));
  for (const button of all("button[data-scenario]"))
    button.addEventListener("click", () => save(button.dataset.scenario, new Blob([page.scenarios[button.dataset.scenario]], { type: "text/yaml" })));

  // Light and dark

  $("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    redraw();
  });
  dark.addEventListener("change", redraw);

  // Paper: light, at the width of a page, with every figure and the tables that are folded up on the screen

  const screen = {};
  function toPaper() {
    if (screen.folded) return;
    const root = document.documentElement;
    screen.theme = root.dataset.theme;
    screen.folded = all("details.print:not([open])");
    root.dataset.theme = "light";
    root.dataset.paper = "yes"; // the styles of paper, so that places are measured at its width
    screen.folded.forEach((fold) => { fold.open = true; });
    all(".figure").forEach((place) => draw(place.id));
  }
  function toScreen() {
    if (!screen.folded) return;
    const root = document.documentElement;
    delete root.dataset.paper;
    if (screen.theme) root.dataset.theme = screen.theme; else delete root.dataset.theme;
    screen.folded.forEach((fold) => { fold.open = false; });
    screen.folded = null;
    all(".figure").forEach((place) => { draw(place.id); Plotly.Plots.resize(place); });
  }
  addEventListener("beforeprint", toPaper);
  addEventListener("afterprint", toScreen);

  for (const place of all(".figure")) sight.observe(place);
  document.documentElement.dataset.ready = "yes";
  whenIdle(drawRest);
})();
