// Draws a decision tree as SVG, from the left to the right, so that even a tree of many leaves keeps its size of text; a
// click, or the arrow keys, choose a node. Places (x in leaves, y in levels) and texts come from Python.
const NS = "http://www.w3.org/2000/svg";
const LINE = 15, GAP_LEAVES = 8, GAP_LEVELS = 46;

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
    const ruler = document.createElement("canvas").getContext("2d");
    ruler.font = `600 12px ${getComputedStyle(box).getPropertyValue("--jp-ui-font-family") || "sans-serif"}`;
    const W = Math.max(96, ...nodes.flatMap((n) => n.lines.map((line) => ruler.measureText(line).width + 18)));
    const H = LINE * Math.max(...nodes.map((n) => n.lines.length)) + 8;
    const leaves = Math.max(...nodes.map((n) => n.x)) + 1, levels = Math.max(...nodes.map((n) => n.y)) + 1;
    const width = levels * (W + GAP_LEVELS) - GAP_LEVELS + 12, height = leaves * (H + GAP_LEAVES) + 4;
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "pk-tree-svg" }, box);
    const middle = (n) => [6 + n.y * (W + GAP_LEVELS) + W / 2, 4 + n.x * (H + GAP_LEAVES) + H / 2];
    const onPath = new Set();
    for (let i = chosen; i >= 0; i = nodes[i].parent) onPath.add(i);
    nodes.forEach((node, index) => {
      if (node.parent < 0) return;
      const [px, y1] = middle(nodes[node.parent]), [cx, y2] = middle(node);
      const x1 = px + W / 2, x2 = cx - W / 2;
      const strong = onPath.has(index);
      make("path", {
        d: `M${x1},${y1} C${x1 + GAP_LEVELS / 2},${y1} ${x2 - GAP_LEVELS / 2},${y2} ${x2},${y2}`,
        class: strong ? "pk-edge pk-on" : "pk-edge",
        "stroke-width": 1 + 7 * Math.sqrt(node.share),
      }, svg);
      const word = make("text", { x: x2 - 14, y: y2 + (y2 < y1 ? -4 : 13), class: "pk-word" }, svg);
      word.textContent = node.side;
    });
    nodes.forEach((node, index) => {
      const [x, y] = middle(node);
      const group = make("g", {
        class: index === chosen ? "pk-node pk-chosen" : "pk-node", "data-node": index, role: "treeitem",
        "aria-label": node.lines.join(", "), "aria-selected": index === chosen,
      }, svg);
      make("rect", { x: x - W / 2, y: y - H / 2, width: W, height: H, rx: 6, fill: node.colour }, group);
      node.lines.forEach((line, at) => {
        const text = make("text", {
          x, y: y + (at - (node.lines.length - 1) / 2) * LINE + 4, fill: node.dark ? "white" : "black",
          class: at === 0 ? "pk-first" : "",
        }, group);
        text.textContent = line;
      });
      make("title", {}, group).textContent = node.title;
      group.addEventListener("click", () => choose(index));
    });
    // The chosen node is in view, the whole tree where it fits.
    if (chosen >= 0 && chosen < nodes.length) {
      const [x, y] = middle(nodes[chosen]);
      if (width > box.clientWidth) box.scrollLeft = x - box.clientWidth / 2;
      if (height > box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
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
      ArrowLeft: nodes[at].parent,
      ArrowRight: nodes[at].left,
      ArrowUp: siblings[place - 1]?.[1] ?? -1,
      ArrowDown: siblings[place + 1]?.[1] ?? -1,
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
