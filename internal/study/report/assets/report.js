"use strict";
// Titles at once, also on touch: those of shapes, and of the nearest point of a map.
(function () {
  var tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.appendChild(tip);
  function show(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    var box = tip.getBoundingClientRect(), wide = document.documentElement.clientWidth;
    tip.style.left = Math.max(4, Math.min(x + 14, wide - box.width - 4)) + "px";
    tip.style.top = (y - box.height - 12 < 4 ? y + 18 : y - box.height - 12) + "px";
  }
  function hide() { tip.hidden = true; }
  document.querySelectorAll("svg title").forEach(function (t) {
    t.parentNode.setAttribute("data-t", t.textContent);
    t.parentNode.removeChild(t);
  });
  document.querySelectorAll("section[data-tips], div[data-tips]").forEach(function (part) {
    var tips = JSON.parse(part.querySelector("script[type='application/json']").textContent);
    part.querySelectorAll("svg").forEach(function (svg) {
      var spots = [], ring = document.createElementNS(svg.namespaceURI, "circle");
      svg.querySelectorAll("path.pts").forEach(function (p) {
        var ids = p.getAttribute("data-i").split(" ");
        p.getAttribute("d").slice(1).split("M").forEach(function (m, k) {
          var xy = m.replace("h0", "").split(" ");
          spots.push([+xy[0], +xy[1], +ids[k]]);
        });
      });
      svg.querySelectorAll("g.spot").forEach(function (g) {
        spots.push([+g.getAttribute("data-x"), +g.getAttribute("data-y"), +g.getAttribute("data-i")]);
      });
      if (!spots.length) { return; }
      ring.setAttribute("class", "ring");
      ring.setAttribute("r", "6");
      ring.style.display = "none";
      svg.appendChild(ring);
      svg.addEventListener("pointermove", function (e) {
        var at = svg.createSVGPoint();
        at.x = e.clientX;
        at.y = e.clientY;
        at = at.matrixTransform(svg.getScreenCTM().inverse());
        var best = null, near = 15 * 15;
        spots.forEach(function (s) {
          var d = (s[0] - at.x) * (s[0] - at.x) + (s[1] - at.y) * (s[1] - at.y);
          if (d < near) { near = d; best = s; }
        });
        if (!best) { ring.style.display = "none"; hide(); return; }
        ring.setAttribute("cx", best[0]);
        ring.setAttribute("cy", best[1]);
        ring.style.display = "";
        show(tips[best[2]], e.clientX, e.clientY);
        e.stopPropagation();
      });
      svg.addEventListener("pointerleave", function () { ring.style.display = "none"; hide(); });
    });
  });
  document.addEventListener("pointermove", function (e) {
    var text = e.target.getAttribute && e.target.getAttribute("data-t");
    if (text) { show(text, e.clientX, e.clientY); } else { hide(); }
  });
  document.addEventListener("scroll", hide, true);
})();
// A hint above tables that are wider than the screen.
(function () {
  var tables = document.querySelectorAll(".scroll");
  function hints() {
    tables.forEach(function (box) {
      var above = box.previousElementSibling, has = above && above.className === "hint";
      var wide = box.scrollWidth > box.clientWidth + 1;
      if (wide && !has) {
        var p = document.createElement("p");
        p.className = "hint";
        p.textContent = "Scroll the table sideways to see all columns \u2192";
        box.parentNode.insertBefore(p, box);
      } else if (!wide && has) {
        above.parentNode.removeChild(above);
      }
    });
  }
  hints();
  window.addEventListener("resize", hints);
})();
