// Draws a decision tree as SVG, from the left to the right, so that even a tree of many leaves keeps its size of text; a
// click, or the arrow keys, choose a node. Places (x in leaves, y in levels) and texts come from Python. A tree that is
// larger than its frame is folded: the way to the chosen node with what branches off, and what is just below it.
const NS = "http://www.w3.org/2000/svg";
const LINE = 15, GAP_LEAVES = 8, GAP_LEVELS = 46, LEAST_GAP = 14;
const HIGHEST = 760, SMALLER = 1.1; // pixels of the frame (tree_view.css); by what a tree may be drawn smaller

function make(name, attributes, parent) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.appendChild(element);
  return element;
}

// Which nodes stand beside the way to `chosen`, at most `below` levels below it: all whose parent is open.
function unfolded(nodes, chosen, below) {
  const depth = new Map([[chosen, 0]]), open = new Set();
  for (let i = chosen; i >= 0; i = nodes[i].parent) open.add(i);
  nodes.forEach((node, index) => { // parents come before their children
    if (!depth.has(node.parent)) return;
    depth.set(index, depth.get(node.parent) + 1);
    if (depth.get(index) < below) open.add(index);
  });
  return nodes.map((node) => node.parent < 0 || open.has(node.parent));
}

// How many nodes below one are folded away, right below it.
function hidden(nodes, shown, index) {
  let count = 0;
  nodes.forEach((node, i) => {
    if (shown[i]) return;
    let up = node.parent;
    while (up >= 0 && !shown[up]) up = nodes[up].parent;
    if (up === index) count++;
  });
  return count;
}

// Places of the nodes that are shown: leaves one below the other, each parent halfway between its children.
function placed(nodes, shown) {
  const places = nodes.map((node) => ({ x: 0, y: node.y })), inside = nodes.map(() => []);
  nodes.forEach((node, index) => { if (shown[index] && node.parent >= 0) inside[node.parent].push(index); });
  let leaves = 0;
  const place = (index) => {
    const children = inside[index].sort((a, b) => nodes[a].x - nodes[b].x);
    children.forEach(place);
    places[index].x = children.length
      ? (places[children[0]].x + places[children[children.length - 1]].x) / 2 : leaves++;
  };
  place(nodes.findIndex((node) => node.parent < 0));
  return { places, leaves, levels: Math.max(...nodes.filter((_, i) => shown[i]).map((n) => n.y)) + 1 };
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
    const W = Math.max(96, ...nodes.flatMap((n) => n.lines.map((line) => ruler.measureText(line).width + 12)));
    const H = LINE * Math.max(...nodes.map((n) => n.lines.length)) + 8;
    const across = (levels, gap) => levels * (W + gap) - gap + 12, down = (leaves) => leaves * (H + GAP_LEAVES) + 4;
    const whole = placed(nodes, nodes.map(() => true));
    // In a saved page no kernel answers a click, so that nothing could be unfolded: the frame scrolls.
    const saved = document.querySelector('script[type="application/vnd.jupyter.widget-state+json"]');
    const fits = saved || across(whole.levels, LEAST_GAP) <= box.clientWidth && down(whole.leaves) <= HIGHEST;
    const start = Math.max(chosen, 0), room = across(nodes[start].y + 3, LEAST_GAP) <= SMALLER * box.clientWidth;
    const shown = fits ? nodes.map(() => true) : unfolded(nodes, start, room || start > 0 ? 2 : 1);
    const { places, leaves, levels } = fits ? whole : placed(nodes, shown);
    const gap = Math.min(Math.max((box.clientWidth - 12 - levels * W) / (levels - 1 || 1), LEAST_GAP), GAP_LEVELS);
    const width = across(levels, gap), height = down(leaves);
    // A little too wide is drawn a little smaller; more than that scrolls.
    const scale = width > box.clientWidth && width <= SMALLER * box.clientWidth ? box.clientWidth / width : 1;
    const svg = make("svg", {
      viewBox: `0 0 ${width} ${height}`, width: width * scale, height: height * scale, class: "pk-tree-svg",
    }, box);
    const middle = (i) => [6 + places[i].y * (W + gap) + W / 2, 4 + places[i].x * (H + GAP_LEAVES) + H / 2];
    const onPath = new Set();
    for (let i = chosen; i >= 0; i = nodes[i].parent) onPath.add(i);
    nodes.forEach((node, index) => {
      if (node.parent < 0 || !shown[index]) return;
      const [px, y1] = middle(node.parent), [cx, y2] = middle(index);
      const x1 = px + W / 2, x2 = cx - W / 2;
      const strong = onPath.has(index);
      make("path", {
        d: `M${x1},${y1} C${x1 + gap / 2},${y1} ${x2 - gap / 2},${y2} ${x2},${y2}`,
        class: strong ? "pk-edge pk-on" : "pk-edge",
        "stroke-width": 1 + 7 * Math.sqrt(node.share),
      }, svg);
      const word = make("text", { x: x2 - 14, y: y2 + (y2 < y1 ? -4 : 13), class: "pk-word" }, svg);
      word.textContent = node.side;
    });
    nodes.forEach((node, index) => {
      if (!shown[index]) return;
      const [x, y] = middle(index);
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
      const folded = hidden(nodes, shown, index);
      if (folded) {
        const more = make("text", { x: x + W / 2 - 4, y: y + H / 2 - 4, class: "pk-more", fill: node.dark ? "white" : "black" }, group);
        more.textContent = `+${folded}`;
      }
      make("title", {}, group).textContent = node.title + (folded ? `; a click unfolds nodes below (${folded})` : "");
      group.addEventListener("click", () => choose(index));
    });
    // The chosen node is in view, with what is below it.
    if (chosen >= 0 && chosen < nodes.length) {
      const [x, y] = middle(chosen).map((at) => at * scale);
      if (width * scale > box.clientWidth) box.scrollLeft = x - box.clientWidth / 2;
      if (height * scale > box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
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
  let across = box.clientWidth;
  const resized = new ResizeObserver(() => { // also when the place first has its width
    if (box.clientWidth === across) return;
    across = box.clientWidth;
    requestAnimationFrame(draw);
  });
  resized.observe(box);
  return () => {
    resized.disconnect();
    box.removeEventListener("keydown", key);
    model.off("change:nodes change:selected", draw);
  };
}

export default { render };
