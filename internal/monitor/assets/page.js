"use strict";
(() => {
  const every = 5000, $ = id => document.getElementById(id);

  // The pointer's tooltip, for everything that has one.
  const tip = $("tip");
  const place = e => {
    const of = e.target.closest ? e.target.closest("[data-tip]") : null;
    tip.hidden = !of;
    if (!of) return;
    tip.textContent = of.dataset.tip;
    const w = tip.offsetWidth, h = tip.offsetHeight;
    const left = Math.max(4, Math.min(e.clientX + 14, document.documentElement.clientWidth - w - 4));
    const top = e.clientY + 18 + h > window.innerHeight ? e.clientY - h - 12 : e.clientY + 18;
    tip.style.left = left + "px";
    tip.style.top = Math.max(4, top) + "px";
  };
  document.addEventListener("pointermove", place);
  document.addEventListener("pointerdown", place);
  document.addEventListener("pointerleave", () => { tip.hidden = true; });
  document.addEventListener("scroll", () => { tip.hidden = true; }, {passive: true});

  // What is new comes as the same page, of which the middle is taken.
  let failing = null;
  const update = async () => {
    if (document.hidden) return;
    const main = $("main"), marked = window.getSelection();
    if (marked && !marked.isCollapsed && main.contains(marked.anchorNode)) return; // somebody is copying
    try {
      const answer = await fetch(location.pathname, {cache: "no-store", signal: AbortSignal.timeout(30000)});
      if (!answer.ok) throw new Error("rowmill answers " + answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("main");
      if (!fresh) throw new Error("something else answers here");
      const open = Array.from(main.querySelectorAll("details[open]"), d => d.id);
      const focused = main.contains(document.activeElement) ? document.activeElement.id : "";
      const scrolled = Array.from(main.querySelectorAll(".scroll"), s => [s.scrollLeft, s.scrollTop]);
      for (const d of fresh.querySelectorAll("details")) d.open = open.includes(d.id);
      main.replaceChildren(...fresh.childNodes);
      main.querySelectorAll(".scroll").forEach((s, i) => { if (scrolled[i]) [s.scrollLeft, s.scrollTop] = scrolled[i]; });
      if (focused && $(focused)) $(focused).focus({preventScroll: true});
      document.title = page.title;
      failing = null;
      $("lost").hidden = true;
    } catch (e) {
      failing = failing || new Date();
      $("lost").textContent = "No answer since " + failing.toISOString().slice(11, 19) + " UTC: what is below is from before. (" + e.message + ")";
      $("lost").hidden = false;
    }
  };
  let busy = false;
  const tick = async () => {
    if (busy) return;
    busy = true;
    try { await update(); } finally { busy = false; }
  };
  setInterval(tick, every);
  document.addEventListener("visibilitychange", tick);
})();
