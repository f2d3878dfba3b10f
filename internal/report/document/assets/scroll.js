// Tables and charts wider than the window say that they scroll.
function hint() {
  document.querySelectorAll(".scroll, figure").forEach(function (e) { e.classList.toggle("wide", e.scrollWidth > e.clientWidth + 1); });
}
addEventListener("resize", hint);
addEventListener("toggle", hint, true);
hint();
