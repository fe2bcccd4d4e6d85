"use strict";
// Replaces the cards of the overview as events arrive.
(function () {
  var grid = document.querySelector("[data-events]"), live = document.getElementById("live");
  if (!grid || !window.EventSource) { return; }
  var source = null, failed = 0;
  function say(text) {
    live.textContent = text;
    live.hidden = !text;
  }
  function replace(id, html) {
    var card = document.getElementById(id);
    if (!card || !card.hasAttribute("data-card")) { return; }
    // What the reader has in hand stays: the focus, open details, how far a table is scrolled.
    var focus = card.contains(document.activeElement) ? document.activeElement.id : "";
    var open = [].map.call(card.querySelectorAll("details[open]"), function (d) { return d.id; });
    var left = [].map.call(card.querySelectorAll(".scroll"), function (s) { return [s.scrollLeft, s.scrollTop]; });
    card.innerHTML = html;
    open.forEach(function (d) {
      var again = document.getElementById(d);
      if (again) { again.open = true; }
    });
    [].forEach.call(card.querySelectorAll(".scroll"), function (s, i) {
      if (left[i]) { s.scrollLeft = left[i][0]; s.scrollTop = left[i][1]; }
    });
    var target = focus && document.getElementById(focus);
    if (target) { target.focus({ preventScroll: true }); }
    reach(card);
  }
  function start() {
    source = new EventSource(grid.getAttribute("data-events"));
    source.addEventListener("cards", function (e) {
      failed = 0;
      say("");
      var cards = JSON.parse(e.data);
      Object.keys(cards).forEach(function (id) { replace(id, cards[id]); });
      document.body.setAttribute("data-live", "on");
    });
    source.onerror = function () {
      document.body.setAttribute("data-live", "off");
      failed++;
      if (source.readyState === EventSource.CLOSED) {
        say("No live updates: the session has ended, or too many pages are open. Reload the page.");
      } else {
        say(failed > 1 ? "The coordinator does not answer. Trying again." : "Connecting again.");
      }
    };
  }
  function stop() {
    if (source) { source.close(); source = null; }
  }
  // A page that nobody sees does not hold a connection.
  document.addEventListener("visibilitychange", function () {
    if (document.hidden) { stop(); } else if (!source) { start(); }
  });
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", function (e) { if (e.persisted && !source) { start(); } });
  start();
})();
// Tables that scroll sideways can be reached with the keyboard.
function reach(within) {
  [].forEach.call(within.querySelectorAll(".scroll"), function (box) {
    if (box.scrollWidth > box.clientWidth + 1) {
      box.setAttribute("tabindex", "0");
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", "Table, scrolls sideways");
    } else {
      box.removeAttribute("tabindex");
      box.removeAttribute("role");
      box.removeAttribute("aria-label");
    }
  });
}
reach(document);
window.addEventListener("resize", function () { reach(document); });
// The title of the nearest item of the map, also on touch.
(function () {
  var map = document.querySelector("svg.map"), tip = document.getElementById("tip");
  if (!map) { return; }
  var spots = [].map.call(map.querySelectorAll("circle"), function (c) {
    var title = c.querySelector("title"), text = title.textContent;
    c.removeChild(title);
    return { x: +c.getAttribute("cx"), y: +c.getAttribute("cy"), text: text, circle: c };
  });
  var on = null;
  function hide() {
    if (on) { on.circle.classList.remove("on"); on = null; }
    tip.hidden = true;
  }
  map.addEventListener("pointermove", function (e) {
    var p = map.createSVGPoint(), best = null, near = Infinity;
    p.x = e.clientX;
    p.y = e.clientY;
    p = p.matrixTransform(map.getScreenCTM().inverse());
    spots.forEach(function (s) {
      var d = (s.x - p.x) * (s.x - p.x) + (s.y - p.y) * (s.y - p.y);
      if (d < near) { near = d; best = s; }
    });
    if (!best || near > 900) { hide(); return; }
    if (best !== on) {
      hide();
      on = best;
      on.circle.classList.add("on");
      tip.textContent = on.text;
    }
    tip.hidden = false;
    var box = tip.getBoundingClientRect(), wide = document.documentElement.clientWidth;
    tip.style.left = Math.max(4, Math.min(e.clientX + 14, wide - box.width - 4)) + "px";
    tip.style.top = (e.clientY - box.height - 12 < 4 ? e.clientY + 18 : e.clientY - box.height - 12) + "px";
  });
  map.addEventListener("pointerleave", hide);
  document.addEventListener("scroll", hide, true);
})();
