// chart.js draws one chart: lines of several runs over rows or over time, with
// a legend that shows the figures under the cursor, and marks for events.

// state is shared by all charts: which axis, which scale, which part of it.
var state = { x: "rows", scale: "linear", range: null };
var theme = {};
var charts = [];
var hidden = {}; // by the label of a run
var position = document.getElementById("position");

// gone tells that the reader took a run, or the run of a line, away in the legend.
function gone(x) { return !!hidden[(x.run || x).label]; }

function make(tag, cls, text) {
  var el = document.createElement(tag);
  if (cls) el.className = cls;
  if (text !== undefined) el.textContent = text;
  return el;
}

function swatch(line) {
  var ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg"), l = document.createElementNS(ns, "line");
  svg.setAttribute("width", 22); svg.setAttribute("height", 8); svg.setAttribute("aria-hidden", "true");
  [["x1", 1], ["y1", 4], ["x2", 21], ["y2", 4], ["stroke-width", Math.max(2, line.width)], ["stroke", line.colour()]].forEach(function (a) { l.setAttribute(a[0], a[1]); });
  if (line.dash.length) l.setAttribute("stroke-dasharray", line.dash.join(" "));
  svg.appendChild(l);
  return svg;
}

// A Chart is made of spec: title, note, name (of the figure in the record),
// unit, height, log, lines, events (with labels), fixedX (an axis of its own,
// apart from the others), run (the only one whose marks it shows), extent (of a logarithmic y).
// A line is: label, colour(), width, dash, values, on(axis) -> [positions,
// values], and where points stand for several intervals band(axis) -> [least,
// greatest]. own lines are named in the chart, pale ones stand behind another.
function Chart(parent, spec) {
  var c = this;
  c.spec = spec;
  c.el = make("div", "chart");
  c.el.tabIndex = 0;
  c.el.setAttribute("role", "group");
  var h = make("h3", "", spec.title);
  if (spec.note) h.appendChild(make("small", "", spec.note));
  if (spec.name) h.appendChild(make("code", "", spec.name));
  c.el.appendChild(h);
  c.legend = make("div", "legend");
  c.el.appendChild(c.legend);
  c.plot = make("div", "plot");
  c.table = make("div", "scroll figures");
  c.table.hidden = true;
  var body = make("div");
  body.appendChild(c.plot);
  body.appendChild(c.table);
  c.el.appendChild(body);
  parent.appendChild(c.el);
  c.describe();
  c.build();
  c.el.addEventListener("keydown", function (e) { c.key(e); });
  charts.push(c);
}

Chart.prototype.axis = function () { return this.spec.fixedX ? this.spec.fixedX() : state.x; };

// describe gives those who can't see the chart its course in words.
Chart.prototype.describe = function () {
  var write = forUnit(this.spec.unit);
  var parts = this.spec.lines.map(function (l) {
    var v = l.values.filter(function (y) { return y !== null; });
    if (!v.length) return l.label + ": no figures";
    return l.label + ": from " + write(v[0]) + " to " + write(v[v.length - 1]) +
      ", least " + write(v.reduce(function (a, b) { return Math.min(a, b); })) +
      ", greatest " + write(v.reduce(function (a, b) { return Math.max(a, b); }));
  });
  this.el.setAttribute("aria-label", this.spec.title + ". " + parts.join("; ") + ".");
};

// moment writes a time of the first run's first day, or of one around it.
function moment(v) {
  var day = Math.floor(v / 86400), n = Math.round(v - day * 86400);
  return (full("day")[1] > 86400 || v < 0 ? "day " + (day + 1) + " " : "") + two(Math.floor(n / 3600)) + ":" + two(Math.floor(n / 60) % 60) + (n % 60 ? ":" + two(n % 60) : "");
}

// place writes a position on an axis whose range ends at to.
function place(axis, x, to) { return axis === "rows" ? whole(x) : axis === "day" ? moment(x) : to < 120 ? clock(x) : hours(x); }

// full returns the whole horizontal range of all runs on an axis, the same for
// every chart but those of one run alone.
function full(axis, run) {
  var from = axis === "day" ? Infinity : 0, end = 0;
  (run ? [run] : data.runs).forEach(function (r) {
    [r[axis], r.rate[axis].at].forEach(function (p) { if (p.length) { from = Math.min(from, p[0]); end = Math.max(end, p[p.length - 1]); } });
  });
  return end > from ? [from, end] : [0, 1];
}

Chart.prototype.build = function () {
  var c = this, spec = c.spec, axis = c.axis(), log = spec.log ? spec.log() : false;
  if (c.u) c.u.destroy();
  c.legend.textContent = "";
  c.outputs = spec.lines.map(function (line, i) {
    var out = make("output"), b;
    // The page's one legend names the runs; a chart names only what is its own.
    if (line.pale) return out;
    b = make("span", line.own ? "read own" : "read");
    b.appendChild(swatch(line));
    if (line.own) b.appendChild(document.createTextNode(line.label));
    else b.title = line.label;
    b.appendChild(out);
    c.legend.appendChild(b);
    return out;
  });
  c.event = make("span", "event");
  if (spec.events) c.legend.appendChild(c.event);

  function drawable(values) { return log ? values.map(function (v) { return v > 0 ? v : null; }) : values; }
  var tables = spec.lines.map(function (line) {
    var t = line.on(axis);
    return [t[0], drawable(t[1])];
  });
  // The least and the greatest stand behind the lines as two series each.
  var bands = [], edges = [];
  spec.lines.forEach(function (line, i) {
    var b = line.band && line.band(axis);
    if (!b || gone(line)) return;
    [b[1], b[0]].forEach(function (values) {
      tables.push([line.on(axis)[0], drawable(values)]);
      edges.push({ label: "", width: 0, points: { show: false } });
    });
    bands.push({ series: [tables.length, tables.length - 1].reverse(), fill: function () { return line.colour().slice(0, 7) + "30"; } });
  });
  var joined = tables.length > 1 ? uPlot.join(tables) : tables[0];
  var range = spec.fixedX ? full(axis, spec.run) : state.range || full(axis);
  var unit = spec.unit, write = onAxis(unit);
  var opts = {
    width: c.width(), height: c.height(), legend: { show: false }, padding: [10, 24, 0, 0], bands: bands,
    scales: {
      x: { time: false, auto: false, min: range[0], max: range[1] },
      y: log ? { distr: 3, range: function (u, lo, hi) { return c.logRange(lo, hi); } }
        : { range: function (u, lo, hi) { return c.range(lo, hi); } },
    },
    axes: [
      { stroke: function () { return theme.muted; }, font: "12px system-ui, sans-serif", size: 30, gap: 4, space: axis === "day" ? 110 : 70, incrs: steps(axis === "rows" ? "" : "clock"),
        grid: { stroke: function () { return theme.grid; }, width: 1 }, ticks: { show: false },
        label: spec.events ? { rows: "rows inserted", day: "time of day", time: "time since the start" + (range[1] >= 3600 ? ", h:mm:ss" : range[1] >= 120 ? ", m:ss" : "") }[axis] : undefined,
        labelFont: "12px system-ui, sans-serif", labelSize: 22, labelGap: 2,
        values: function (u, vals) { return vals.map(axis === "rows" ? short : function (v) { return place(axis, v, u.scales.x.max); }); } },
      { stroke: function () { return theme.muted; }, font: "12px system-ui, sans-serif", size: 66, gap: 6, space: log ? 22 : 34,
        grid: { stroke: function () { return theme.grid; }, width: 1 }, ticks: { show: false },
        values: function (u, vals) { return vals.map(function (v) { return v === null || v === undefined ? "" : write(v); }); } },
    ],
    series: [{}].concat(spec.lines.map(function (line, i) {
      return { label: line.label, show: !gone(line), stroke: line.colour, width: line.width, dash: line.dash, spanGaps: false,
        points: { size: 5, stroke: line.colour, fill: line.colour, show: function (u, si, i0, i1) { return few(line.on(axis)[1]); } } };
    }), edges),
    cursor: {
      y: false, drag: { x: true, y: false, setScale: true },
      points: { size: function (u, si) { return si > spec.lines.length ? 0 : 8; } },
      dataIdx: function (u, si, idx) { return si === 0 ? idx : nearest(u, si, idx); },
      bind: { dblclick: function () { return function () { if (spec.fixedX) c.zoom(full(axis, spec.run)); else zoomAll(null); return null; }; } },
    },
    hooks: {
      setCursor: [function (u) { c.read(u); }],
      setScale: [function (u, key) { if (key === "x") c.zoomed(u); }],
      draw: [function (u) { drawMarks(u, c); }],
    },
  };
  if (log) {
    opts.axes[1].splits = function (u, i, lo, hi) { return decades(lo, hi); };
    opts.axes[1].filter = function (u, splits) { return splits; };
  } else if (unit.indexOf("bytes") === 0) {
    opts.axes[1].incrs = steps(unit);
  }
  if (!spec.fixedX) {
    opts.cursor.sync = { key: "rowmill", scales: ["x", null], setSeries: false,
      filters: { pub: function (type) { return type === "mousemove" || type === "mouseleave"; } } };
  }
  c.u = new uPlot(opts, joined, c.plot);
  c.tabulate();
};

// tabulated is how many moments a table of a chart has.
var tabulated = 20;

// tabulate shows the figures of the chart as a table, for those who want them
// so: the figures next to positions at equal distances.
Chart.prototype.tabulate = function () {
  var c = this, axis = c.axis(), write = forUnit(c.spec.unit), range = c.spec.fixedX ? full(axis, c.spec.run) : state.range || full(axis);
  c.table.hidden = !state.tables;
  c.table.textContent = "";
  if (!state.tables) return;
  var table = make("table", "numbers"), head = make("tr"), body = make("tbody"), i;
  [axis === "rows" ? "rows" : "time"].concat(c.spec.lines.map(function (l) { return l.label; })).forEach(function (text) {
    var th = make("th", "", text);
    th.scope = "col";
    head.appendChild(th);
  });
  table.appendChild(make("caption", "", c.spec.title));
  table.appendChild(make("thead")).appendChild(head);
  for (i = 1; i <= tabulated; i++) {
    var x = range[0] + (range[1] - range[0]) * i / tabulated, row = make("tr"), th = make("th", "", place(axis, x, range[1]));
    th.scope = "row";
    row.appendChild(th);
    c.spec.lines.forEach(function (l) {
      var t = l.on(axis), at = before(t[0], x), v = at < 0 ? null : t[1][at];
      row.appendChild(make("td", "", v === null ? "\u2013" : write(v)));
    });
    body.appendChild(row);
  }
  table.appendChild(body);
  c.table.appendChild(table);
};

// before finds the first position at or after x, -1 past the last one.
function before(xs, x) {
  var lo = 0, hi = xs.length;
  while (lo < hi) {
    var mid = (lo + hi) >> 1;
    if (xs[mid] < x - 0.5e-6 * x) lo = mid + 1; else hi = mid;
  }
  return lo < xs.length ? lo : -1;
}

// decades returns the ticks of a logarithmic axis: powers of ten, and where
// these are few, multiples of them.
function decades(lo, hi) {
  var out = [], e, from = Math.floor(Math.log10(lo)), to = Math.ceil(Math.log10(hi)), wide = Math.log10(hi / lo);
  var parts = wide > 3 ? [1] : wide > 1.5 ? [1, 3] : wide > 0.8 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  for (e = from; e <= to; e++) parts.forEach(function (m) { var v = +(m + "e" + e); if (v >= lo && v <= hi) out.push(v); });
  return out;
}

// few tells that a line has so few figures that each deserves a dot.
function few(values) { return values.length <= 30; }

// nearest finds the figure of a line next to the cursor: positions of other
// runs have none, which the joined table holds as undefined.
function nearest(u, si, idx) {
  var xs = u.data[0], ys = u.data[si], l = idx, r = idx;
  if (ys[idx] !== undefined) return idx;
  while (l >= 0 && ys[l] === undefined) l--;
  while (r < ys.length && ys[r] === undefined) r++;
  if (l < 0 || r >= ys.length) return idx;
  return xs[idx] - xs[l] <= xs[r] - xs[idx] ? l : r;
}

Chart.prototype.width = function () { return Math.max(200, state.printing ? (this.spec.small || this.spec.medium ? 320 : 660) : this.plot.clientWidth); };
Chart.prototype.height = function () { return Math.round(this.spec.height * (this.width() < 420 && !this.spec.small ? 0.8 : 1)); };
Chart.prototype.resize = function () {
  var w = this.width(), h = this.height();
  if (w !== this.u.width || h !== this.u.height) this.u.setSize({ width: w, height: h });
};

Chart.prototype.range = function (lo, hi) {
  if (lo === null || hi === null || lo === undefined || !isFinite(lo) || !isFinite(hi)) return [0, 1];
  if (lo >= 0) return [0, hi > 0 ? hi * (this.spec.events ? 1.06 + this.head() : 1.06) : 1];
  return [lo * 1.06, Math.max(0, hi * 1.06)];
};

// head is the share of the height above the lines in which the knees are named.
Chart.prototype.head = function () {
  var names = (this.spec.run ? [this.spec.run] : data.runs).filter(function (r) { return r.knee && !gone(r); }).length;
  return 19 * names / this.spec.height * 1.3;
};

Chart.prototype.logRange = function (lo, hi) {
  if (this.spec.extent) { lo = this.spec.extent[0]; hi = this.spec.extent[1]; }
  if (!(lo > 0) || !(hi > 0) || !isFinite(hi)) return [1, 10];
  return [lo / 1.25, hi * (this.spec.events ? Math.pow(hi / lo * 1.5, this.head()) * 1.1 : 1.25)];
};

// read shows the figures under the cursor in the legend.
Chart.prototype.read = function (u) {
  var c = this, idx = u.cursor.idx, axis = c.axis(), write = forUnit(c.spec.unit);
  if (idx === null || idx === undefined) {
    position.textContent = "";
    c.event.textContent = "";
    c.outputs.forEach(function (o) { o.textContent = ""; });
    return;
  }
  var x = u.posToVal(u.cursor.left, "x");
  if (c.el.matches(":hover, :focus")) position.textContent = "at " + place(axis, x, 0) + (axis === "rows" ? " rows" : "");
  c.outputs.forEach(function (o, i) {
    var at = u.cursor.idxs[i + 1], v = at === null || at === undefined ? null : u.data[i + 1][at];
    var text = v === null || v === undefined ? "\u2013" : write(v), band = c.spec.events && c.spec.lines[i].band && c.spec.lines[i].band(axis);
    if (band && v) {
      at = c.spec.lines[i].on(axis)[0].indexOf(u.data[0][at]);
      if (at >= 0 && band[0][at] !== band[1][at]) text += " (" + short(band[0][at]) + " to " + short(band[1][at]) + ")";
    }
    o.textContent = text;
  });
  if (c.spec.events) c.event.textContent = eventNear(u, axis, c.spec.run);
};

// eventNear describes the partition events within a few pixels of the cursor.
function eventNear(u, axis, run) {
  var found = [];
  (run ? [run] : data.runs).forEach(function (r) {
    r.events.forEach(function (e) {
      if (Math.abs(u.valToPos(e[axis], "x") - u.cursor.left) <= 5) found.push(r.label + ": " + e.what + " in " + micros(e.seconds * 1e6));
    });
    r.stalls.forEach(function (s) {
      if (u.cursor.left >= u.valToPos(s.from[axis], "x") - 5 && u.cursor.left <= u.valToPos(s.to[axis], "x") + 5) found.push(r.label + ": stall of " + clock(s.seconds) + (s.why ? ", " + s.why : ""));
    });
    if (r.knee && Math.abs(u.valToPos(r.knee[axis], "x") - u.cursor.left) <= 5) found.push("knee of " + r.label);
  });
  return found.slice(0, 3).join(" \u00b7 ") + (found.length > 3 ? " and " + (found.length - 3) + " more" : "");
}

// drawMarks draws the knees as upright lines, the partition events as short
// strokes on the lower edge, the stalls as blocks on the upper edge.
function drawMarks(u, c) {
  var ctx = u.ctx, box = u.bbox, axis = c.axis(), dpr = window.devicePixelRatio || 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left, box.top, box.width, box.height);
  ctx.clip();
  var row = 0;
  (c.spec.run ? [c.spec.run] : data.runs).forEach(function (r) {
    // The marks of a run whose lines were taken away go with them.
    if (gone(r)) return;
    ctx.strokeStyle = colourOf(r);
    ctx.lineWidth = dpr;
    if (r.events.length) {
      ctx.beginPath();
      r.events.forEach(function (e) {
        var x = Math.round(u.valToPos(e[axis], "x", true)) + 0.5;
        ctx.moveTo(x, box.top + box.height);
        ctx.lineTo(x, box.top + box.height - (c.spec.events ? 12 : 6) * dpr);
      });
      ctx.stroke();
    }
    ctx.fillStyle = colourOf(r);
    r.stalls.forEach(function (s) {
      var from = u.valToPos(s.from[axis], "x", true), to = u.valToPos(s.to[axis], "x", true);
      ctx.fillRect(from, box.top, Math.max(to - from, 2 * dpr), 4 * dpr);
      if (!c.spec.events) return;
      ctx.globalAlpha = 0.1;
      ctx.fillRect(from, box.top, Math.max(to - from, 2 * dpr), box.height);
      ctx.globalAlpha = 1;
    });
    if (!r.knee) return;
    var x = Math.round(u.valToPos(r.knee[axis], "x", true)) + 0.5;
    ctx.setLineDash([3 * dpr, 3 * dpr]);
    ctx.beginPath();
    ctx.moveTo(x, box.top);
    ctx.lineTo(x, box.top + box.height);
    ctx.stroke();
    ctx.setLineDash([]);
    if (!c.spec.events) return;
    var text = "knee of " + r.label + ": " + (axis === "rows" ? short(r.knee.rows) + " rows" : place(axis, r.knee[axis], 0)), width, level = row++;
    ctx.font = "600 " + 12 * dpr + "px system-ui, sans-serif";
    width = ctx.measureText(text).width + 6 * dpr;
    ctx.fillStyle = colourOf(r);
    ctx.textAlign = "left";
    ctx.textBaseline = "top";
    ctx.fillText(text, x + width <= box.left + box.width ? x + 6 * dpr : Math.max(box.left, x - width), box.top + (6 + 17 * level) * dpr);
  });
  ctx.restore();
}

function same(a, b) { var eps = 1e-9 * Math.max(1, Math.abs(b[1])); return Math.abs(a[0] - b[0]) <= eps && Math.abs(a[1] - b[1]) <= eps; }

Chart.prototype.zoom = function (range) { this.u.setScale("x", { min: range[0], max: range[1] }); };

// zoomed carries a zoom of this chart to all others.
Chart.prototype.zoomed = function (u) {
  if (this.spec.fixedX || this.u !== u) return;
  var r = [u.scales.x.min, u.scales.x.max];
  if (r[0] === null || r[0] === undefined || same(r, state.range || full(state.x))) return;
  zoomAll(r);
};

// zoomAll shows a part of the axis in all charts, or all of it.
function zoomAll(range) {
  var whole = full(state.x);
  state.range = range && !same(range, whole) ? range : null;
  charts.forEach(function (c) { if (!c.spec.fixedX) c.zoom(state.range || whole); });
  charts.forEach(function (c) { if (state.tables) c.tabulate(); });
  document.getElementById("reset").disabled = !state.range;
}

// key makes a chart readable without a mouse.
Chart.prototype.key = function (e) {
  if (e.target !== this.el) return;
  var u = this.u, x = u.scales.x, span = x.max - x.min, idx = u.cursor.idx, xs = u.data[0], mid, r;
  switch (e.key) {
  case "ArrowLeft": case "ArrowRight":
    if (idx === null || idx === undefined) idx = u.valToIdx(x.min);
    else idx += (e.key === "ArrowLeft" ? -1 : 1) * (e.shiftKey ? 10 : 1);
    idx = Math.max(0, Math.min(xs.length - 1, idx));
    u.setCursor({ left: u.valToPos(xs[idx], "x"), top: 10 }, true, true);
    break;
  case "+": case "=": case "-":
    mid = u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : x.min + span / 2;
    span *= e.key === "-" ? 2 : 0.5;
    r = [Math.max(full(this.axis(), this.spec.run)[0], mid - span / 2), Math.min(full(this.axis(), this.spec.run)[1], mid + span / 2)];
    if (this.spec.fixedX) this.zoom(r); else zoomAll(r);
    break;
  case "Escape":
    if (this.spec.fixedX) this.zoom(full(this.axis(), this.spec.run)); else zoomAll(null);
    u.setCursor({ left: -10, top: -10 }, true, true);
    break;
  default:
    return;
  }
  e.preventDefault();
};
