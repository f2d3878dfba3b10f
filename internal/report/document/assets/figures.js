// figures.js writes figures with their units, as the tables of the page do.

function digits(v) {
  var a = Math.abs(v);
  return String(a < 1 ? +v.toPrecision(3) : +v.toFixed(a >= 100 ? 0 : a >= 10 ? 1 : 2));
}

function short(v) {
  var a = Math.abs(v);
  if (a >= 999.5e6) return digits(v / 1e9) + "G";
  if (a >= 999.5e3) return digits(v / 1e6) + "M";
  if (a >= 1e3) return digits(v / 1e3) + "k";
  return digits(v);
}

function whole(v) {
  return Math.round(v).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

function micros(v) {
  if (v < 1e3) return digits(v) + " \u00b5s";
  if (v < 1e6) return digits(v / 1e3) + " ms";
  return digits(v / 1e6) + " s";
}

function bytes(v) {
  var units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], i = 0;
  while (Math.abs(v) >= 1024 && i < units.length - 1) { v /= 1024; i++; }
  return digits(v) + " " + units[i];
}

function two(n) { return (n < 10 ? "0" : "") + n; }

// clock writes a moment of the run, given in seconds: 42 s, 5:12, 3:02:10.
function clock(v) {
  if (v < 120) return digits(v) + " s";
  return hours(v);
}

// hours writes it always as minutes and seconds: 0:42, 5:12, 3:02:10.
function hours(v) {
  var n = Math.round(v), h = Math.floor(n / 3600), m = Math.floor(n / 60) % 60, s = n % 60;
  return h ? h + ":" + two(m) + ":" + two(s) : m + ":" + two(s);
}

// forUnit returns how figures of a counter's unit are written.
function forUnit(unit) {
  switch (unit) {
  case "bytes": return bytes;
  case "bytes/s": return function (v) { return bytes(v) + "/s"; };
  case "bytes/row": return function (v) { return bytes(v) + "/row"; };
  case "fraction": return function (v) { return digits(100 * v) + "%"; };
  case "us": case "microseconds": return micros;
  case "pages/row": return function (v) { return short(v) + "/row"; };
  case "seconds": return function (v) { return v !== 0 && Math.abs(v) < 1 ? micros(v * 1e6) : digits(v) + " s"; };
  case "": return short;
  default: return function (v) { return short(v) + " " + unit; };
  }
}

// onAxis is forUnit without what the chart's title says already.
function onAxis(unit) {
  if (unit.indexOf("bytes") === 0) return bytes;
  if (unit === "fraction" || unit === "us" || unit === "microseconds" || unit === "seconds") return forUnit(unit);
  return short;
}

// steps returns the distances that an axis of the unit may have between its
// ticks: powers of two for bytes, those of a clock for time.
function steps(unit) {
  var out = [], i;
  if (unit.indexOf("bytes") === 0) {
    for (i = 0; i < 55; i++) out.push(Math.pow(2, i));
    return out;
  }
  if (unit === "clock") {
    out = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
    for (i = 2; i < 1e4; i *= 2) out.push(86400 * i);
    return out;
  }
  for (i = -6; i < 16; i++) [1, 2, 5].forEach(function (m) { out.push(+(m + "e" + i)); });
  return out;
}
