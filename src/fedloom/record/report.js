"use strict";
(() => {
  const figures = [...document.querySelectorAll(".figure")];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  const hover = matchMedia("(hover: hover)").matches;
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  function theme(layout) {
    const changes = {
      "font.color": color("ink"), "hoverlabel.bgcolor": color("card"), "hoverlabel.font.color": color("ink"),
      "hoverlabel.bordercolor": color("line"), "modebar.color": color("soft"), "modebar.bgcolor": "rgba(0,0,0,0)",
    };
    for (const axis of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key)))
      for (const part of ["gridcolor", "linecolor", "zerolinecolor"]) changes[axis + "." + part] = color("line");
    return changes;
  }

  function paint(figure) {
    const map = figure.data.some((trace) => trace.type === "heatmap");
    Plotly.update(figure, map ? { "textfont.color": color("ink") } : {}, theme(figure.layout));
  }

  for (const figure of figures) {
    const { data, layout } = JSON.parse(figure.querySelector("script").textContent);
    if (touch) layout.dragmode = false; // a finger scrolls the page
    const config = { responsive: true, displaylogo: false, displayModeBar: hover ? "hover" : false,
      modeBarButtons: [["toImage", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
      toImageButtonOptions: { format: "svg", filename: figure.id } };
    Plotly.newPlot(figure, data, layout, config).then(() => paint(figure));
  }
  dark.addEventListener("change", () => figures.forEach(paint));

  for (const chip of document.querySelectorAll("button.chip"))
    chip.addEventListener("click", () => {
      const shown = chip.getAttribute("aria-pressed") === "false";
      chip.setAttribute("aria-pressed", String(shown));
      for (const figure of document.querySelectorAll(".curves .figure")) {
        const which = figure.data.flatMap((trace, i) => (trace.legendgroup === chip.dataset.group ? [i] : []));
        Plotly.restyle(figure, { visible: shown }, which);
      }
    });
})();
