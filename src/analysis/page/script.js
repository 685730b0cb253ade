// Draws every figure's panels from the data in #plots; check boxes below a title toggle series and log axes.
"use strict";
const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function axis(spec, isLog) {
  // Plotly takes the range of a logarithmic axis as exponents.
  const range = (isLog ? spec.log_range?.map(Math.log10) : spec.range) ?? undefined;
  return {
    title: { text: spec.title, standoff: 8 }, type: spec.is_categorical ? "category" : isLog ? "log" : "linear",
    tickformat: spec.is_share ? ".0%" : undefined, exponentformat: "none", separatethousands: true,
    dtick: isLog ? 1 : undefined,
    gridcolor: css("--line"), zerolinecolor: css("--line"), automargin: true, fixedrange: true,
    autorange: spec.reversed ? "reversed" : !range, range,
  };
}

// Make a panel with its title above it, which may wrap.
function frame(plot, panel) {
  const [box, title, target] = ["figure", "figcaption", "div"].map((tag) => document.createElement(tag));
  title.textContent = panel.title;
  target.className = "panel";
  target.setAttribute("role", "img");
  target.setAttribute("aria-label", `${plot.title}: ${panel.title}. The numbers are in the table below.`);
  box.append(title, target);
  return box;
}

function layout(plot, panel, isLogBySide) {
  return {
    showlegend: false, barmode: "stack", margin: { l: 55, r: 10, t: 8, b: 45 }, hovermode: "closest", dragmode: false,
    paper_bgcolor: css("--ground"), plot_bgcolor: css("--ground"), font: { color: css("--text") },
    xaxis: axis(panel.x, isLogBySide.x), yaxis: axis(panel.y, isLogBySide.y),
  };
}

function draw(plot) {
  const section = document.getElementById(plot.name);
  const shown = (name) => section.querySelector(`[data-series="${CSS.escape(name)}"]`)?.checked ?? true;
  const isLog = (side) => section.querySelector(`[data-log="${side}"]`)?.checked ?? false;
  const holder = section.querySelector(".panels");
  // Add all panels before drawing any, as their number determines their width.
  if (!holder.children.length) holder.append(...plot.panels.map((panel) => frame(plot, panel)));
  for (const [number, panel] of plot.panels.entries()) {
    const target = holder.children[number].querySelector(".panel");
    const traces = panel.traces.filter((trace) => shown(trace.name));
    const isLogBySide = { x: isLog("x"), y: isLog("y") };
    Plotly.react(target, traces, layout(plot, panel, isLogBySide), { responsive: true, displayModeBar: false });
  }
}

const plots = JSON.parse(document.getElementById("plots").textContent);
const drawn = new Set();
function drawOnce(name) {
  if (!drawn.has(name)) {
    drawn.add(name);
    draw(plots[name]);
  }
}

// Draw a figure when it scrolls into view.
const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting) drawOnce(target.id);
  }
}, { rootMargin: "600px" });
for (const plot of Object.values(plots)) {
  const section = document.getElementById(plot.name);
  section.addEventListener("change", () => draw(plot));
  watcher.observe(section);
}
// Paper shows everything.
addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  Object.keys(plots).forEach(drawOnce);
});
darkScheme.addEventListener("change", () => drawn.forEach((name) => draw(plots[name])));
