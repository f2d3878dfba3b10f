var root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)"), chosen = null;
function dress() {
  var isDark = chosen ? chosen === "dark" : dark.matches;
  root.setAttribute("data-theme", isDark ? "dark" : "light");
  document.querySelectorAll("[data-theme-set]").forEach(function (b) { b.setAttribute("aria-pressed", String((b.getAttribute("data-theme-set") === "dark") === isDark)); });
}
document.querySelectorAll("[data-theme-set]").forEach(function (b) {
  b.addEventListener("click", function () { chosen = b.getAttribute("data-theme-set"); dress(); });
});
dark.addEventListener("change", dress);
dress();
