// Draws a decision tree as SVG; a click, or the arrow keys, choose a node. Positions and texts come from Python.
const NS = "http://www.w3.org/2000/svg";
const H = 58, GAP_X = 14, GAP_Y = 34;

function make(name, attributes, parent) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.appendChild(element);
  return element;
}

function render({ model, el }) {
  el.classList.add("pk-tree");
  const box = document.createElement("div");
  box.className = "pk-tree-box";
  box.tabIndex = 0;
  box.setAttribute("role", "tree");
  el.appendChild(box);

  const draw = () => {
    const nodes = model.get("nodes");
    const chosen = model.get("selected");
    box.setAttribute("aria-label", model.get("label"));
    box.replaceChildren();
    if (!nodes.length) return;
    const W = Math.max(112, ...nodes.flatMap((n) => n.lines.map((line) => 7.4 * line.length + 18)));
    const columns = Math.max(...nodes.map((n) => n.x)) + 1, levels = Math.max(...nodes.map((n) => n.y)) + 1;
    const width = columns * (W + GAP_X) + GAP_X, height = levels * (H + GAP_Y);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "pk-tree-svg" }, box);
    const centre = (n) => [GAP_X + n.x * (W + GAP_X) + W / 2, 6 + n.y * (H + GAP_Y)];
    const onPath = new Set();
    for (let i = chosen; i >= 0; i = nodes[i].parent) onPath.add(i);
    nodes.forEach((node, index) => {
      if (node.parent < 0) return;
      const [x1, y1] = centre(nodes[node.parent]), [x2, y2] = centre(node);
      const strong = onPath.has(index);
      make("path", {
        d: `M${x1},${y1 + H} C${x1},${y1 + H + GAP_Y / 2} ${x2},${y2 - GAP_Y / 2} ${x2},${y2}`,
        class: strong ? "pk-edge pk-on" : "pk-edge",
        "stroke-width": 1 + 7 * Math.sqrt(node.share),
      }, svg);
      const word = make("text", { x: (x1 + x2) / 2, y: (y1 + H + y2) / 2 + 4, class: "pk-word" }, svg);
      word.textContent = node.side;
    });
    nodes.forEach((node, index) => {
      const [x, y] = centre(node);
      const group = make("g", {
        class: index === chosen ? "pk-node pk-chosen" : "pk-node", "data-node": index, role: "treeitem",
        "aria-label": node.lines.join(", "), "aria-selected": index === chosen,
      }, svg);
      make("rect", { x: x - W / 2, y, width: W, height: H, rx: 6, fill: node.colour }, group);
      node.lines.forEach((line, at) => {
        const text = make("text", {
          x, y: y + H / 2 + (at - (node.lines.length - 1) / 2) * 15 + 4, fill: node.dark ? "white" : "black",
          class: at === 0 ? "pk-first" : "",
        }, group);
        text.textContent = line;
      });
      make("title", {}, group).textContent = node.title;
      group.addEventListener("click", () => choose(index));
    });
    // A wide tree shrinks to its place as far as it stays readable; the chosen node is in view.
    const room = box.clientWidth || width;
    const scale = Math.min(1, Math.max(room / width, 0.5));
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
    if (chosen >= 0 && chosen < nodes.length) {
      const [x, y] = centre(nodes[chosen]);
      box.scrollLeft = x * scale - room / 2;
      box.scrollTop = y * scale - box.clientHeight / 2;
    }
  };

  const choose = (index) => {
    if (index < 0) return;
    model.set("selected", index);
    model.save_changes();
  };

  const key = (event) => {
    const nodes = model.get("nodes"), at = model.get("selected");
    if (at < 0 || at >= nodes.length) return;
    const siblings = nodes.map((n, i) => [n, i]).filter(([n]) => n.y === nodes[at].y).sort((a, b) => a[0].x - b[0].x);
    const place = siblings.findIndex(([, i]) => i === at);
    const next = {
      ArrowUp: nodes[at].parent,
      ArrowDown: nodes[at].left,
      ArrowLeft: siblings[place - 1]?.[1] ?? -1,
      ArrowRight: siblings[place + 1]?.[1] ?? -1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    choose(next);
  };

  box.addEventListener("keydown", key);
  model.on("change:nodes change:selected", draw);
  draw();
  requestAnimationFrame(draw); // once more when the place has its width
  return () => {
    box.removeEventListener("keydown", key);
    model.off("change:nodes change:selected", draw);
  };
}

export default { render };
