// Draws every figure's panels from the data in #plots; check boxes below a title toggle series and log axes.
"use strict";
const dark = matchMedia("(prefers-color-scheme: dark)");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function axis(of, isLog) {
  return {
    title: { text: of.title, standoff: 8 }, type: of.is_categorical ? "category" : isLog ? "log" : "linear",
    tickformat: of.is_share ? ".0%" : undefined, exponentformat: "none", separatethousands: true,
    dtick: isLog ? 1 : undefined,
    gridcolor: css("--line"), zerolinecolor: css("--line"), automargin: true, fixedrange: true,
    autorange: of.reversed ? "reversed" : !of.range, range: of.range ?? undefined,
  };
}

// Make a panel with its title above it, which may wrap.
function frame(plot, panel) {
  const [box, title, place] = ["figure", "figcaption", "div"].map((tag) => document.createElement(tag));
  title.textContent = panel.title;
  place.className = "panel";
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `${plot.title}: ${panel.title}. The numbers are in the table below.`);
  box.append(title, place);
  return box;
}

function layout(plot, panel, logs) {
  return {
    showlegend: false, barmode: "stack", margin: { l: 55, r: 10, t: 8, b: 45 }, hovermode: "closest", dragmode: false,
    paper_bgcolor: css("--ground"), plot_bgcolor: css("--ground"), font: { color: css("--text") },
    xaxis: axis(panel.x ?? plot.x, logs.x), yaxis: axis(plot.y, logs.y),
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
    const place = holder.children[number].querySelector(".panel");
    const traces = panel.traces.filter((trace) => shown(trace.name));
    const logs = { x: isLog("x"), y: isLog("y") };
    Plotly.react(place, traces, layout(plot, panel, logs), { responsive: true, displayModeBar: false });
  }
}

const plots = JSON.parse(document.getElementById("plots").textContent);
const seen = new Set();
// Draw a figure when it scrolls into view.
const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting && !seen.has(target.id)) {
      seen.add(target.id);
      draw(plots[target.id]);
    }
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
  Object.values(plots).forEach(draw);
});
dark.addEventListener("change", () => seen.forEach((name) => draw(plots[name])));
