// steady.js draws the panels of constant loads: all on one axis of time, with
// one cursor and one zoom.

var data = JSON.parse(document.getElementById("data").textContent);
var axis = data.elapsed ? "elapsed" : "day", range = null, plots = [], chosen = null;
var root = document.documentElement, colours = {};

function make(tag, cls, text) {
  var el = document.createElement(tag);
  if (cls) el.className = cls;
  if (text !== undefined) el.textContent = text;
  return el;
}

// at returns the positions of a run's points on the axis: seconds since its
// start, or since midnight of the first run's first day.
function at(run) {
  var r = data.runs[run], shift = axis === "day" ? r.shift : 0;
  return r.at.map(function (t) { return t + shift; });
}

function moment(v) {
  if (axis === "elapsed") return clock(v);
  var day = Math.floor(v / 86400), n = Math.floor(v - day * 86400);
  var text = two(Math.floor(n / 3600)) + ":" + two(Math.floor(n / 60) % 60) + (n % 60 ? ":" + two(n % 60) : "");
  return data.days ? "day " + (day + 1) + " " + text : text;
}

function whole() {
  var from = Infinity, to = -Infinity;
  data.runs.forEach(function (r, i) {
    var t = at(i);
    if (t.length) { from = Math.min(from, t[0]); to = Math.max(to, t[t.length - 1]); }
  });
  return to > from ? [from, to] : [0, 1];
}

function swatch(colour, dashed) {
  var ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg"), l = document.createElementNS(ns, "line");
  svg.setAttribute("width", 22); svg.setAttribute("height", 8); svg.setAttribute("aria-hidden", "true");
  [["x1", 1], ["y1", 4], ["x2", 21], ["y2", 4], ["stroke-width", 2], ["stroke", colour]].forEach(function (a) { l.setAttribute(a[0], a[1]); });
  if (dashed) l.setAttribute("stroke-dasharray", "4 3");
  svg.appendChild(l);
  return svg;
}

function pale(colour) { return colour + "40"; }

function build(panel) {
  var el = make("div", "chart");
  el.setAttribute("role", "group");
  var h = make("h3", "", panel.title);
  el.appendChild(h);
  var legend = make("div", "legend"), plot = make("div", "plot");
  el.appendChild(legend);
  el.appendChild(plot);
  document.getElementById("panels").appendChild(el);
  var write = forUnit(panel.unit);
  el.setAttribute("aria-label", panel.title + ". " + panel.lines.map(function (l) {
    var v = l.mean.filter(function (y) { return y !== null; });
    if (!v.length) return l.label + ": no figures";
    return l.label + ": least " + write(v.reduce(function (a, b) { return Math.min(a, b); })) + ", greatest " +
      write(v.reduce(function (a, b) { return Math.max(a, b); }));
  }).join("; ") + ".");
  var tables = [], series = [{}], bands = [], outputs = [];
  panel.lines.forEach(function (l) {
    var colour = data.runs[l.run][colours.dark ? "dark" : "light"], t = at(l.run);
    tables.push([t, l.mean]);
    series.push({ label: l.label, stroke: colour, width: 1.6, dash: l.second ? [4, 3] : undefined, points: { show: t.length < 3 }, spanGaps: false });
    var name = make("span"), out = make("output", "", "");
    name.appendChild(swatch(colour, l.second));
    name.appendChild(document.createTextNode(" " + l.label + " "));
    name.appendChild(out);
    legend.appendChild(name);
    outputs.push({ out: out, line: l, series: series.length - 1 });
  });
  panel.lines.forEach(function (l) {
    if (!l.hi || l.second) return;
    var t = at(l.run), colour = data.runs[l.run][colours.dark ? "dark" : "light"];
    [l.hi, l.lo].forEach(function (v) {
      tables.push([t, v]);
      series.push({ label: "", width: 0, points: { show: false } });
    });
    bands.push({ series: [series.length - 2, series.length - 1], fill: pale(colour) });
  });
  var highest = panel.least || 0;
  if (panel.target) highest = Math.max(highest, panel.target * 1.1);
  panel.lines.forEach(function (l) {
    (l.hi || l.mean).forEach(function (v) { if (v !== null) highest = Math.max(highest, v); });
  });
  var u = new uPlot({
    width: plot.clientWidth || 800, height: 150, series: series, bands: bands, legend: { show: false },
    cursor: { sync: { key: "steady" }, drag: { x: true, y: false, setScale: false }, points: { show: false } },
    scales: { x: { time: false, range: function () { return range || whole(); } }, y: { range: [0, highest * 1.06 || 1] } },
    axes: [
      { stroke: colours.muted, grid: { stroke: colours.grid }, incrs: steps("clock"), values: function (u, s) { return s.map(moment); }, space: data.days ? 110 : 70 },
      { stroke: colours.muted, grid: { stroke: colours.grid }, size: 86, space: 34, incrs: steps(panel.unit), values: function (u, s) { return s.map(write); } }
    ],
    hooks: {
      draw: [function (u) {
        if (!panel.target) return;
        var y = u.valToPos(panel.target, "y", true), c = u.ctx;
        c.save();
        c.strokeStyle = colours.muted;
        c.setLineDash([6, 4]);
        c.beginPath();
        c.moveTo(u.bbox.left, y);
        c.lineTo(u.bbox.left + u.bbox.width, y);
        c.stroke();
        c.restore();
      }],
      setCursor: [function (u) {
        var i = u.cursor.idx;
        outputs.forEach(function (o) {
          var v = i === null || i === undefined ? null : u.data[o.series][i];
          o.out.textContent = v === null || v === undefined ? "" : write(v);
        });
        document.getElementById("position").textContent = i === null || i === undefined ? "" : moment(Math.round(u.data[0][i]));
      }],
      setSelect: [function (u) {
        if (u.select.width < 3) return;
        zoom([u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")]);
      }]
    }
  }, tables.length > 1 ? uPlot.join(tables) : tables[0], plot);
  u.over.addEventListener("dblclick", function () { zoom(null); });
  plots.push(u);
}

function zoom(to) {
  range = to;
  document.getElementById("whole").disabled = !to;
  plots.forEach(function (u) {
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    u.setScale("x", { min: (to || whole())[0], max: (to || whole())[1] });
  });
}

function dress() {
  var dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.setAttribute("data-theme", dark ? "dark" : "light");
  var style = getComputedStyle(root);
  colours = { dark: dark, muted: style.getPropertyValue("--muted").trim(), grid: style.getPropertyValue("--grid").trim() };
  document.querySelectorAll("[data-theme-set]").forEach(function (b) { b.setAttribute("aria-pressed", String((b.getAttribute("data-theme-set") === "dark") === dark)); });
  document.querySelectorAll("[data-axis]").forEach(function (b) { b.setAttribute("aria-pressed", String(b.getAttribute("data-axis") === axis)); });
  plots.forEach(function (u) { u.destroy(); });
  plots = [];
  document.getElementById("panels").textContent = "";
  data.panels.forEach(build);
}

document.querySelectorAll("[data-axis]").forEach(function (b) {
  b.addEventListener("click", function () {
    axis = b.getAttribute("data-axis");
    zoom(null);
    dress();
  });
});
document.querySelectorAll("[data-theme-set]").forEach(function (b) {
  b.addEventListener("click", function () { chosen = b.getAttribute("data-theme-set"); dress(); });
});
document.getElementById("whole").addEventListener("click", function () { zoom(null); });
window.addEventListener("resize", function () {
  plots.forEach(function (u) { u.setSize({ width: u.root.parentNode.clientWidth, height: 150 }); });
});
dress();
