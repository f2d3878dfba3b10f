// runs.js lays out the charts and binds the controls.

var data = JSON.parse(document.getElementById("data").textContent);
// On the axis of the time of day each run has its place in the first one's first day.
data.runs.forEach(function (r) {
  function shifted(t) { return t + (r.shift || 0); }
  r.day = r.time.map(shifted);
  r.rate.day = Object.assign({}, r.rate.time, { at: r.rate.time.at.map(shifted) });
  var marks = r.events.concat(r.knee || []);
  r.stalls.forEach(function (s) { marks.push(s.from, s.to); });
  marks.forEach(function (m) { m.day = shifted(m.time); });
});
state.x = data.axis || "rows";
var axes = { rows: "rows", time: "time", day: "time of day" };
var root = document.documentElement;
var darkMedia = window.matchMedia("(prefers-color-scheme: dark)");
var chosen = null; // the theme that the reader chose, or null

function dark() { return !state.printing && (chosen || (darkMedia.matches ? "dark" : "light")) === "dark"; }
function colourOf(run) { return dark() ? run.dark : run.light; }

function line(run, label, values, more) {
  var l = { run: run, label: label, values: values, width: 2, dash: run.dash || [], colour: function () { return colourOf(run); },
    on: function (axis) { return [run[axis], values]; } };
  for (var k in more || {}) l[k] = more[k];
  return l;
}

function section(parent, cls) { var el = make("div", cls); parent.appendChild(el); return el; }
function some(values) { return values && values.some(function (v) { return v !== null; }); }

// rateLine is a run's rate; its points differ from axis to axis.
function rateLine(run, label, values, more) {
  var l = line(run, label, null, more);
  l.on = function (axis) { return [run.rate[axis].at, values(run.rate[axis])]; };
  l.values = l.on("rows")[1];
  return l;
}

// rateLines are a run's rate, its moving mean before it where it goes up and down, and
// the rate that was offered.
function rateLines(run, label, more) {
  var band = function (axis) { return run.rate[axis].lo ? [run.rate[axis].lo, run.rate[axis].hi] : null; }, out = [];
  var rough = run.rate.rows.smooth || run.rate.time.smooth;
  if (rough) out.push(rateLine(run, label, function (r) { return r.smooth ? r.mean : r.mean.map(function () { return null; }); },
    { width: 1, dash: [], pale: true, colour: function () { return colourOf(run) + "70"; } }));
  out.push(rateLine(run, label, function (r) { return r.smooth || r.mean; }, Object.assign({ width: 2.5, band: band }, more)));
  if (run.asked) out.push(rateLine(run, (label === "rate" ? "" : label + ", ") + "offered", function (r) { return r.mean.map(function () { return run.asked; }); }, { width: 1, dash: [2, 4], own: true }));
  return out;
}

function rateCharts() {
  var parent = document.getElementById("rate-charts");
  var drawn = data.runs.filter(function (r) { return r.rate.time.at.length; });
  if (!drawn.length) { parent.appendChild(make("p", "empty", "No interval was recorded, so there is nothing to draw.")); return; }
  function lines() { return [].concat.apply([], drawn.map(function (r) { return rateLines(r, r.label); })); }
  function log() { return state.scale === "log"; }
  if (data.apart) {
    var grid = section(parent, "grid wide");
    drawn.forEach(function (r) {
      new Chart(grid, { title: r.label, note: "rows/s", unit: "rows/s", height: 230, medium: true, log: log, lines: rateLines(r, "rate", { dash: [] }), events: true,
        run: r, fixedX: function () { return state.x; } });
    });
    return;
  }
  var main = new Chart(parent, { title: "Rate", note: "rows/s", unit: "rows/s", height: 380, log: log, lines: lines(), events: true });
  var other = new Chart(parent, { title: "Rate", note: "rows/s", unit: "rows/s", height: 250, log: log, lines: lines(), events: true,
    fixedX: function () { return state.x === "rows" ? "time" : "rows"; } });
  function name() {
    main.el.querySelector("small").textContent = "rows/s against " + axes[state.x];
    other.el.querySelector("small").textContent = "rows/s against " + (state.x === "rows" ? "time" : "rows") + "; zooms on its own";
  }
  name();
  renamed.push(name);
}
var renamed = []; // called when the axis was switched

// Percentiles are told apart by stroke as well as by strength.
var percentiles = [
  { key: "max", width: 1.25, dash: [2, 2], alpha: "cc" },
  { key: "p99", width: 1.25, dash: [8, 3, 2, 3], alpha: "e0" },
  { key: "p95", width: 1.5, dash: [5, 3], alpha: "f0" },
  { key: "p50", width: 2.25, dash: [], alpha: "ff" },
];

function latencyCharts() {
  var parent = document.getElementById("latency-charts"), count = 0;
  var names = {};
  data.runs.forEach(function (r) { Object.keys(r.latency).concat(Object.keys(r.response)).forEach(function (op) { names[op] = true; }); });
  Object.keys(names).sort().forEach(function (op) {
    var extent = [Infinity, 0], specs = [];
    data.runs.forEach(function (r) {
      [["latency", "service time"], ["response", "response time, from the intended start"]].forEach(function (kind) {
        var set = r[kind[0]][op];
        if (!set || !some(set.max)) return;
        percentiles.forEach(function (p) {
          set[p.key].forEach(function (v) { if (v !== null && v > 0) { extent[0] = Math.min(extent[0], v); extent[1] = Math.max(extent[1], v); } });
        });
        specs.push({ title: r.label, note: op + ", " + kind[1] + ", \u00b5s to s, logarithmic", unit: "us", height: 230, log: function () { return true; }, extent: extent, medium: true,
          run: r, fixedX: data.apart && function () { return state.x; },
          lines: percentiles.map(function (p) {
            return line(r, p.key, set[p.key], { own: true, width: p.width, dash: p.dash, colour: function () { return colourOf(r) + p.alpha; } });
          }).reverse() });
      });
    });
    if (!specs.length) return;
    count++;
    var grid = section(parent, "grid wide");
    specs.forEach(function (s) { new Chart(grid, s); });
  });
  var grid = section(parent, "grid");
  [["errors", "Errors"], ["retries", "Retries"]].forEach(function (k) {
    var runs = data.runs.filter(function (r) { return r[k[0]]; });
    if (runs.length) new Chart(grid, { title: k[1], note: "in each interval", unit: "", height: 170, small: true, lines: runs.map(function (r) { return line(r, r.label, r[k[0]], thin); }) });
  });
  if (!count) parent.insertBefore(make("p", "empty", "No latency was recorded."), grid);
}

// loopCharts shows what the users of an overloaded database wait for: the
// response time counts from when an operation was due, the service time only
// from when a client was free to send it.
function loopCharts() {
  var parent = document.getElementById("loop-charts");
  if (!parent) return;
  var runs = data.runs.filter(function (r) { return r.asked; }), grid = section(parent, "grid wide");
  runs.forEach(function (r) {
    Object.keys(r.response).sort().forEach(function (op) {
      if (!r.latency[op] || !some(r.response[op].p99)) return;
      new Chart(grid, { title: r.label + ": response and service, p99", note: op + ", logarithmic", unit: "us", height: 230, medium: true, log: function () { return true; },
        run: r, fixedX: data.apart && function () { return state.x; },
        lines: [line(r, "response p99", r.response[op].p99, { own: true, width: 2.5, dash: [] }), line(r, "service p99", r.latency[op].p99, { own: true, width: 1.5, dash: [2, 3] })]
          .concat(r.limit ? [line(r, "limit", r.time.map(function () { return r.limit; }), { own: true, width: 1, dash: [2, 4], colour: function () { return theme.muted; } })] : []) });
    });
  });
  var behind = runs.filter(function (r) { return r.backlog; });
  if (behind.length) new Chart(grid, { title: "Backlog", note: "operations due but not finished", unit: "", height: 230, medium: true, lines: behind.map(function (r) { return line(r, r.label, r.backlog); }) });
}

// Small charts have solid lines: dashes turn noisy figures into a pattern.
var thin = { width: 1.25, dash: [] };

// titled makes a title and a note of a counter's description: "time with a
// request under way; a device that serves many at once is not full at 1".
function titled(c) {
  var m = /^([^;:,(]+)[;:,]?\s*(.*)$/.exec(c.help || ""), title = m ? m[1].trim() : "";
  if (!title) return { title: c.name, note: "" };
  return { title: title[0].toUpperCase() + title.slice(1), note: m[2] };
}

var groups = [["server", "Server"], ["os", "Operating system"], ["client", "Client"]];

function counterCharts() {
  var parent = document.getElementById("counters");
  var limits = {};
  data.counters.forEach(function (c) { if (c.limit) limits[c.limit] = true; });
  var known = groups.map(function (g) { return g[0]; });
  var all = groups.concat(data.counters.map(function (c) { return c.group; }).filter(function (g, i, a) { return known.indexOf(g) < 0 && a.indexOf(g) === i; }).map(function (g) { return [g, g || "Other"]; }));
  all.forEach(function (g) {
    var mine = data.counters.filter(function (c) { return c.group === g[0]; });
    if (!mine.length) return;
    var box = section(parent, "counters-group"), still = make("p", "constant");
    box.appendChild(make("h2", "", g[1]));
    // What explains most drops of a rate is shown, the rest is folded away.
    var grid = section(box, "grid"), rest = make("details"), more = make("div", "grid"), folded = 0;
    rest.appendChild(make("summary"));
    rest.appendChild(more);
    mine.forEach(function (c) {
      var runs = data.runs.filter(function (r) { return has(r, c.name); });
      if (!runs.length) return;
      var level = constant(runs, c.name);
      if (level !== null) {
        if (still.childNodes.length) still.appendChild(document.createTextNode(", "));
        still.appendChild(document.createTextNode(titled(c).title.replace(/^.(?![A-Z])/, function (a) { return a.toLowerCase(); }) + " "));
        still.appendChild(make("b", "", forUnit(c.unit)(level)));
        return;
      }
      var lines = runs.map(function (r) {
        var f = r.counters[c.name], l = line(r, r.label, f.mean, thin);
        if (f.lo) l.band = function () { return [f.lo, f.hi]; };
        return l;
      });
      var bound = c.limit && runs.filter(function (r) { return has(r, c.limit); })[0];
      if (bound) lines.push(line(bound, limitNames[c.limit] || c.limit, bound.counters[c.limit].mean, { own: true, width: 1.5, dash: [2, 3], colour: function () { return theme.muted; } }));
      var words = titled(c), unit = c.unit && c.unit !== "fraction" ? c.unit : "";
      if (!c.telling) { folded++; box.appendChild(rest); rest.open = true; }
      new Chart(c.telling ? grid : more, { title: words.title, note: [unit, words.note].filter(Boolean).join("; "), name: c.name, unit: c.unit, height: 170, small: true, lines: lines });
    });
    if (folded) {
      rest.firstChild.textContent = folded + (grid.childNodes.length ? " more" : "") + (folded === 1 ? " figure" : " figures");
      rest.open = false;
      rest.addEventListener("toggle", function () { charts.forEach(function (c) { if (rest.contains(c.el)) c.resize(); }); });
    }
    if (!grid.childNodes.length) grid.remove();
    if (still.childNodes.length) {
      still.insertBefore(document.createTextNode(data.runs.every(function (r) { return r.time.length < 2; }) ? "Read once: " : "The same throughout: "), still.firstChild);
      box.appendChild(still);
    }
  });
}

var limitNames = { cache_bytes: "cache", checkpoint_max_bytes: "limit" };

function has(r, name) { return Object.prototype.hasOwnProperty.call(r.counters, name) && some(r.counters[name].mean); }

// constant returns the value that a counter kept in all runs, else null.
function constant(runs, name) {
  var level = null, moved = false;
  runs.forEach(function (r) {
    [].concat(r.counters[name].mean, r.counters[name].lo || [], r.counters[name].hi || []).forEach(function (v) {
      if (v === null) return;
      if (level === null) level = v;
      if (v !== level) moved = true;
    });
  });
  return moved ? null : level;
}

// dress sets the colours of the page and of the charts.
function dress() {
  var isDark = dark(), style;
  root.setAttribute("data-theme", isDark ? "dark" : "light");
  style = getComputedStyle(root);
  ["ink", "muted", "grid"].forEach(function (k) { theme[k] = style.getPropertyValue("--" + k).trim(); });
  document.querySelectorAll("[data-theme-set]").forEach(function (b) { b.setAttribute("aria-pressed", String((b.getAttribute("data-theme-set") === "dark") === isDark)); });
  charts.forEach(function (c) {
    var named = c.spec.lines.filter(function (l) { return !l.pale; });
    c.legend.querySelectorAll("svg line").forEach(function (l, i) { l.setAttribute("stroke", named[i].colour()); });
    c.u.redraw(false);
  });
  runLegend();
}

// runLegend is the one legend of all charts: it takes runs away and brings them back.
function runLegend() {
  var el = document.getElementById("legend"), focused = Array.prototype.indexOf.call(el.childNodes, document.activeElement);
  el.textContent = "";
  if (data.runs.length < 2) return;
  data.runs.forEach(function (r, i) {
    var b = make("button");
    b.type = "button";
    b.appendChild(swatch(line(r, r.label, [])));
    b.appendChild(document.createTextNode(r.label));
    b.setAttribute("aria-pressed", String(!gone(r)));
    b.addEventListener("click", function () {
      hidden[r.label] = !gone(r);
      charts.forEach(function (c) { c.build(); });
      runLegend();
      el.childNodes[i].focus();
    });
    el.appendChild(b);
  });
  if (focused >= 0) el.childNodes[focused].focus();
}

function press(attribute, value) {
  document.querySelectorAll("[" + attribute + "]").forEach(function (b) { b.setAttribute("aria-pressed", String(b.getAttribute(attribute) === value)); });
}

function bind() {
  document.querySelectorAll("[data-x]").forEach(function (b) {
    b.addEventListener("click", function () {
      state.x = b.getAttribute("data-x");
      state.range = null;
      document.getElementById("reset").disabled = true;
      press("data-x", state.x);
      renamed.forEach(function (f) { f(); });
      charts.forEach(function (c) { c.build(); });
    });
  });
  document.querySelectorAll("[data-scale]").forEach(function (b) {
    b.addEventListener("click", function () {
      state.scale = b.getAttribute("data-scale");
      press("data-scale", state.scale);
      charts.forEach(function (c) { if (c.spec.events) c.build(); });
    });
  });
  document.querySelectorAll("[data-theme-set]").forEach(function (b) {
    b.addEventListener("click", function () { chosen = b.getAttribute("data-theme-set"); dress(); });
  });
  document.getElementById("tables").addEventListener("click", function (e) {
    state.tables = !state.tables;
    e.currentTarget.setAttribute("aria-pressed", String(state.tables));
    charts.forEach(function (c) { c.tabulate(); });
  });
  document.getElementById("reset").addEventListener("click", function () { zoomAll(null); });
  darkMedia.addEventListener("change", dress);
}

// Printing takes light colours, all details opened, and charts as wide as
// paper.
var opened = [];
function print(on) {
  if (!!state.printing === on) return;
  state.printing = on;
  if (on) {
    opened = Array.prototype.filter.call(document.querySelectorAll("details"), function (d) { return !d.open; });
    opened.forEach(function (d) { d.open = true; });
  } else {
    opened.forEach(function (d) { d.open = false; });
  }
  dress();
  charts.forEach(function (c) { c.resize(); });
}

press("data-x", state.x);
dress();
rateCharts();
loopCharts();
latencyCharts();
counterCharts();
dress();
bind();
window.addEventListener("beforeprint", function () { print(true); });
window.addEventListener("afterprint", function () { print(false); });
window.matchMedia("print").addEventListener("change", function (e) { print(e.matches); });
if (window.matchMedia("print").matches) print(true);
new ResizeObserver(function () { charts.forEach(function (c) { c.resize(); }); }).observe(document.querySelector("main"));
