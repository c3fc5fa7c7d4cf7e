// Looks at the outputs of a page as a reader would, and returns what is wrong with them: a list of {place, fault, text}.
// Sizes are pixels on the screen. `root` is the selector of the areas that are looked at.
(root) => {
  const faults = [];
  const short = (text) => text.trim().replace(/\s+/g, ' ').slice(0, 70);
  const say = (place, fault, text) => faults.push({ place, fault, text: short(text) });

  // ---- colours
  const parse = (css) => {
    const numbers = css.match(/[\d.]+(e-?\d+)?/g);
    if (!numbers || css === 'none' || css.startsWith('url')) return null;
    const [r, g, b, a = 1] = numbers.map(Number);
    return css.startsWith('color(srgb') ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = (c) => {
    const [r, g, b] = c.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const paper = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour && colour[3] > 0) layers.push(colour);
      if (colour && colour[3] >= 1) break;
    }
    return layers.reduceRight((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  // What is painted below a point of an SVG: the page, then every filled shape that comes before `element`.
  const below = (element, x, y) => {
    const svg = element.ownerSVGElement;
    let colour = paper(svg);
    for (const shape of svg.querySelectorAll('rect, path, circle, polygon')) {
      if (shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_PRECEDING) break;
      const style = getComputedStyle(shape);
      const fill = parse(style.fill);
      if (!fill || style.visibility === 'hidden' || style.display === 'none') continue;
      const matrix = shape.getScreenCTM();
      if (!matrix || !shape.isPointInFill(new DOMPoint(x, y).matrixTransform(matrix.inverse()))) continue;
      fill[3] *= Number(style.fillOpacity) * opacity(shape);
      if (fill[3] > 0) colour = over(fill, colour);
    }
    return colour;
  };
  const opacity = (element) => {
    let product = 1;
    for (let e = element; e && !e.matches('.jp-OutputArea'); e = e.parentElement) product *= Number(getComputedStyle(e).opacity);
    return product;
  };
  const visible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  // The part of a rectangle that the boxes which scroll around an element let through.
  const within = (element, rect) => {
    let { left, right, top, bottom } = rect;
    for (let e = element; e && !e.matches('body'); e = e.parentElement) {
      if (e.namespaceURI.endsWith('svg') && e.tagName !== 'svg') continue;
      const style = getComputedStyle(e);
      if (!['auto', 'scroll'].includes(style.overflowX) && !['auto', 'scroll'].includes(style.overflowY)) continue;
      const box = e.getBoundingClientRect();
      [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
      [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
      if (e.matches(root)) break;
    }
    return { left, right, top, bottom };
  };

  // ---- texts: where each stands, and in what
  const texts = (area) => {
    const found = [];
    const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const element = node.parentElement;
      if (!node.data.trim() || !element || !visible(element)) continue;
      if (element.closest('script, style, option, mjx-assistive-mml, mjx-container, .jp-InputPrompt, .MathJax, .pk-unseen')) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const rect of range.getClientRects()) {
        if (rect.width > 0.5 && rect.height > 0.5) found.push({ node, element, rect, text: node.data, seen: within(element, rect) });
      }
    }
    return found;
  };
  const clipped = ({ element, rect }) => {
    for (let e = element; e && !e.matches('body'); e = e.parentElement) {
      if (e.namespaceURI.endsWith('svg') && e.tagName !== 'svg') continue;
      const style = getComputedStyle(e);
      const box = e.getBoundingClientRect();
      const clips = (axis) => ['hidden', 'clip'].includes(style[`overflow${axis}`]);
      const scrolls = (axis) => ['auto', 'scroll'].includes(style[`overflow${axis}`]);
      if (clips('X') && (rect.left < box.left - 2 || rect.right > box.right + 2)) return `by ${e.tagName} ${e.className.baseVal ?? e.className}`;
      if (clips('Y') && (rect.top < box.top - 3 || rect.bottom > box.bottom + 3)) return `by ${e.tagName} ${e.className.baseVal ?? e.className}`;
      if (scrolls('X') || scrolls('Y')) return '';
      if (e.matches(root)) break;
    }
    return '';
  };
  const crossing = (a, b) => {
    const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    return width > 1.5 && height > 3 ? width * height : 0;
  };
  const lookAtTexts = (place, area) => {
    const all = texts(area);
    const seen = new Set();
    for (const item of all) {
      const { element, rect, text } = item;
      const style = getComputedStyle(element);
      const inSvg = element.namespaceURI.endsWith('svg');
      const how = clipped(item);
      if (how) say(place, 'clipped', `${short(text)} (${how})`);
      if (seen.has(element)) continue;
      seen.add(element);
      // Dots stand for what does not fit between the paddings; scrollWidth counts these as room.
      if (!inSvg && style.textOverflow === 'ellipsis' && style.overflowX !== 'visible') {
        const end = element.getBoundingClientRect().right - parseFloat(style.paddingRight) - parseFloat(style.borderRightWidth);
        if (rect.right > end + 0.5) say(place, 'ellipsis', text);
      }
      const scale = inSvg && element.getScreenCTM ? Math.hypot(element.getScreenCTM().a, element.getScreenCTM().b) : 1;
      if (parseFloat(style.fontSize) * scale < 9) say(place, 'small', `${text} (${(parseFloat(style.fontSize) * scale).toFixed(1)} px)`);
      const ink = parse(inSvg ? style.fill : style.color);
      if (!ink) continue;
      const ground = inSvg ? below(element, rect.left + rect.width / 2, rect.top + rect.height / 2) : paper(element);
      const strong = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
      const inert = element.closest('[inert]'); // greyed on purpose
      const disabled = inert || element.closest('[disabled], .mod-disabled, .jp-mod-disabled');
      const ratio = contrast(over([ink[0], ink[1], ink[2], ink[3] * (disabled ? 1 : opacity(element))], ground), ground);
      if (!disabled && ratio < (strong ? 3 : 4.5) - 0.02) {
        say(place, 'faint text', `${short(text)} (${ratio.toFixed(2)}: ${inSvg ? style.fill : style.color} on ${ground.slice(0, 3).map(Math.round)})`);
      }
    }
    all.sort((a, b) => a.rect.top - b.rect.top);
    for (let i = 0; i < all.length; i++) {
      for (let j = i + 1; j < all.length && all[j].rect.top < all[i].rect.bottom - 3; j++) {
        const [a, b] = [all[i], all[j]];
        if (a.element === b.element || a.element.contains(b.element) || b.element.contains(a.element)) continue;
        const area = crossing(a.seen, b.seen); // a row half scrolled away covers nothing below its frame
        if (area > 0.12 * Math.min(a.rect.width * a.rect.height, b.rect.width * b.rect.height)) {
          if (!shown(a) || !shown(b)) continue;
          say(place, 'overlap', `${short(a.text)} / ${short(b.text)}`);
        }
      }
    }
  };
  // A text that is scrolled out of its frame overlaps nothing that a reader sees.
  const shown = ({ element, rect }) => {
    for (let e = element; e && !e.matches(root); e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.position === 'sticky' && parse(style.backgroundColor)?.[3] === 1) return false; // rows pass beneath it
      if (style.overflowX === 'visible' && style.overflowY === 'visible') continue;
      if (e.namespaceURI.endsWith('svg') && e.tagName !== 'svg') continue;
      const box = e.getBoundingClientRect();
      if (rect.bottom <= box.top + 1 || rect.top >= box.bottom - 1 || rect.right <= box.left + 1 || rect.left >= box.right - 1) return false;
    }
    return true;
  };
  const FADED = 0.25; // what is fainter steps back on purpose: something else was chosen
  const lookAtStrokes = (place, area) => {
    const told = new Set();
    const tellFaint = (what, colour, ratio, least, ground) => {
      if (ratio >= least || told.has(colour)) return;
      told.add(colour);
      say(place, 'faint line', `${what.getAttribute('class') || what.tagName} ${colour} (${ratio.toFixed(2)} on ${ground.slice(0, 3).map(Math.round)})`);
    };
    for (const line of area.querySelectorAll('svg path.line, svg .axis path.domain, svg line, svg polyline, .pkl-chart path')) {
      if (!visible(line) || line.matches('.tick *, .grid *, .pk-grid *, clipPath *, .pkl-axes path:not(.pkl-base)')) continue;
      const style = getComputedStyle(line);
      const ink = parse(style.stroke);
      const box = line.getBoundingClientRect();
      if (!ink || ink[3] === 0 || (box.width < 2 && box.height < 2)) continue;
      const shown = ink[3] * Number(style.strokeOpacity) * opacity(line);
      if (shown <= FADED) continue;
      const ground = paper(line.ownerSVGElement);
      // A brush lies over the line that it chooses from.
      const veils = [...line.ownerSVGElement.querySelectorAll('rect.selection')].filter((rect) => {
        const frame = rect.getBoundingClientRect();
        return visible(rect) && frame.left < box.left + box.width / 2 && frame.right > box.left + box.width / 2;
      }).map((rect) => { const veil = parse(getComputedStyle(rect).fill); return veil && [...veil.slice(0, 3), veil[3] * Number(getComputedStyle(rect).fillOpacity)]; }).filter(Boolean);
      const veiled = (colour) => veils.reduce((low, veil) => over(veil, low), colour);
      const seen = veiled(over([ink[0], ink[1], ink[2], shown], ground)), beside = veiled(ground);
      const ratio = contrast(seen, beside);
      tellFaint(line, style.stroke, ratio, veils.length ? 2.5 : 2.98, ground);
    }
    // Bars, and the boxes and dots of legends.
    for (const bar of area.querySelectorAll('svg rect.bar, .pkl-bar i, .pkl-key i.bar, .pkl-key i.dot, .pk-key i.bar, .pk-key i:not([class]), .pk-track i, .pk-share b')) {
      const style = getComputedStyle(bar), inSvg = bar.namespaceURI.endsWith('svg');
      const ink = parse(inSvg ? style.fill : style.backgroundColor), box = bar.getBoundingClientRect();
      if (!visible(bar) || !ink || box.width < 2 || box.height < 2) continue;
      const ground = paper(inSvg ? bar.ownerSVGElement : bar.parentElement), shown = ink[3] * opacity(bar);
      // An edge that is seen shows where it ends.
      const edge = parse(inSvg ? style.stroke : style.outlineStyle === 'none' ? 'none' : style.outlineColor);
      if (edge && contrast(over(edge, ground), ground) >= 2.98) continue;
      if (shown > FADED) tellFaint(bar, inSvg ? style.fill : style.backgroundColor, contrast(over([ink[0], ink[1], ink[2], shown], ground), ground), 2.98, ground);
    }
    // The mark of a list that opens: a picture.
    for (const list of area.querySelectorAll('select')) {
      const [, data] = getComputedStyle(list).backgroundImage.match(/url\("data:image\/svg\+xml;base64,([^"]+)"\)/) ?? [];
      if (!visible(list) || !data) continue;
      const colour = atob(data).match(/fill\s*[:=]\s*["']?(#[0-9a-f]{3,6})/i)?.[1] ?? '#000000';
      const long = colour.length > 4 ? colour : colour.replace(/[0-9a-f]/gi, '$&$&');
      const ink = [1, 3, 5].map((at) => parseInt(long.slice(at, at + 2), 16)).concat(1), ground = paper(list);
      tellFaint(list, colour, contrast(ink, ground), 2.98, ground);
    }
  };
  const lookAtWords = (place, area) => {
    const words = area.innerText || '';
    for (const [found] of words.matchAll(/(?<![\w.])[-−]0(\.0+)?(?![\w.]).{0,20}/g)) say(place, 'negative zero', found);
    for (const pattern of [/<Figure[^\n]*/, /<Axes[^\n]*/, /\bText\([^\n]*/, /<[\w.]+ object at 0x[^\n]*/, /\[<matplotlib[^\n]*/, /Traceback \(most/, /Error displaying widget[^\n]*/, /[^\n]*\(No such file or directory[^\n]*/, /Loading widget\.\.\./]) {
      const found = words.match(pattern);
      if (found) say(place, 'raw output', found[0]);
    }
    for (const cell of area.querySelectorAll('td, th')) {
      if (/^(nan|none|nat|<na>|-?inf)$/i.test(cell.textContent.trim()) && !/^none$/.test(cell.textContent.trim())) say(place, 'missing value', `${cell.textContent} in ${cell.parentElement.textContent}`);
      if (/(\.\.\.|…)$/.test(cell.textContent.trim()) && !cell.closest('.pk-abbreviated')) say(place, 'cut cell', cell.textContent);
    }
  };

  const NEAR = 3; // pixels
  // An axis that is drawn through one of its numbers, and a name that stands so near to them that they read as one.
  const lookAtAxes = (place, area) => {
    for (const name of area.querySelectorAll('.axis text.axislabel, .pkl-axes .pkl-title-x, .pkl-axes .pkl-title-y')) {
      if (!visible(name) || !name.textContent.trim()) continue;
      const box = name.getBoundingClientRect();
      for (const number of name.ownerSVGElement.querySelectorAll('.axis .tick text, .pkl-axes text:not([class])')) {
        if (!visible(number) || !number.textContent.trim()) continue;
        const other = number.getBoundingClientRect();
        const [across, down] = [Math.max(box.left - other.right, other.left - box.right), Math.max(box.top - other.bottom, other.top - box.bottom)];
        // Boxes of text are higher than its letters.
        if ((down < 0 && across < NEAR && across > -1.5) || (across < 0 && down < -2.5)) say(place, 'crowded', `${name.textContent} / ${number.textContent} (${across.toFixed(1)}, ${down.toFixed(1)} px)`);
      }
    }
    for (const line of area.querySelectorAll('.axis path.domain')) {
      if (!visible(line)) continue;
      const matrix = line.getScreenCTM(), length = line.getTotalLength();
      const points = Array.from({ length: Math.ceil(length) + 1 }, (_, k) => line.getPointAtLength(k).matrixTransform(matrix));
      for (const text of line.closest('.axis').querySelectorAll('.tick text')) {
        if (!text.textContent.trim() || !visible(text)) continue;
        const { left, right, top, bottom } = text.getBoundingClientRect();
        if (points.some((p) => p.x > left && p.x < right && p.y > top + 2 && p.y < bottom - 2)) say(place, 'struck', text.textContent);
      }
    }
  };

  // A word that goes on in the next line, where it would have had room in one: broken within letters or digits.
  const lookAtBreaks = (place, area) => {
    const range = document.createRange();
    const box = (node, from, to) => { range.setStart(node, from); range.setEnd(node, to); return [...range.getClientRects()].filter((r) => r.width > 0.5); };
    const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode, element = node.parentElement;
      if (!element || !node.data.trim() || !visible(element) || element.namespaceURI.endsWith('svg') || element.closest('script, style, select, mjx-container, .pk-unseen')) continue;
      if (box(node, 0, node.data.length).length < 2) continue;
      const room = element.closest('pre, td, th, p, li, div, .widget-html-content')?.clientWidth ?? Infinity;
      for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
        const parts = box(node, index, index + word.length);
        const lines = new Set(parts.map((r) => Math.round(r.top)));
        if (lines.size < 2 || parts.reduce((sum, r) => sum + r.width, 0) > room) continue;
        for (let k = 1; k < word.length; k++) {
          const [before, after] = [box(node, index + k - 1, index + k)[0], box(node, index + k, index + k + 1)[0]];
          const broken = before && after && after.top - before.top > before.height / 2;
          if (broken && /[\p{L}\p{N}]{2}/u.test(word.slice(k - 1, k + 1))) say(place, 'broken word', `${word.slice(0, k)}|${word.slice(k)}`);
        }
      }
    }
  };

  // A scrollbar for a few pixels means a box that is a little too narrow or too low for what stands in it.
  const lookAtScrollbars = (place, area) => {
    for (const box of [area, ...area.querySelectorAll('*')]) {
      if (!visible(box) || box.namespaceURI.endsWith('svg')) continue;
      const style = getComputedStyle(box);
      const across = box.scrollWidth - box.clientWidth;
      const down = box.scrollHeight - box.clientHeight;
      const most = { X: 60, Y: 24 }; // a list is cut off by more than a line
      const bar = (axis, excess) => ['auto', 'scroll'].includes(style[`overflow${axis}`]) && excess > 0 && excess <= most[axis];
      if (!bar('X', across) && !bar('Y', down)) continue;
      const frame = box.getBoundingClientRect();
      const sticks = (e) => { const r = e.getBoundingClientRect(); return r.right > frame.left + box.clientWidth + 1 || r.bottom > frame.top + box.clientHeight + 1; };
      const out = [...box.querySelectorAll('*')].filter(sticks).pop();
      const what = `${out ? `${out.tagName} ${out.getAttribute('class')} ` : ''}in ${box.className}`.replace(/(lm-\w+|jupyter-widgets) /g, '');
      if (bar('X', across)) say(place, 'scrollbar', `${across} px across: ${what}`);
      if (bar('Y', down)) say(place, 'scrollbar', `${down} px down: ${what}`);
    }
  };

  // A table of which a reader sees only the first columns.
  const lookAtTables = (place, area) => {
    for (const table of area.querySelectorAll('table.dataframe, table[id^=T_]')) {
      const frame = table.getBoundingClientRect(), hidden = Math.round(frame.right - within(table, frame).right);
      const last = [...(table.tHead?.rows[0]?.cells ?? [])].pop();
      if (visible(table) && hidden > 2) say(place, 'wide table', `${hidden} px of it are to the right; its last column: ${last?.textContent ?? ''}`);
    }
  };

  // What canvases were given to draw (`look.py`'s script notes it).
  const lookAtCanvases = (place, area) => {
    for (const canvas of area.querySelectorAll('canvas')) for (const fault of canvas.drawnFaults?.values() ?? []) if (visible(canvas)) say(place, ...fault);
  };

  // What stands in a field, and goes on beyond its end.
  const lookAtFields = (place, area) => {
    for (const field of area.querySelectorAll('input:not([type]), input[type=text]')) {
      if (visible(field) && field !== document.activeElement && field.scrollWidth > field.clientWidth + 1) say(place, 'cut field', field.value);
    }
  };

  const areas = [...document.querySelectorAll(root)];
  areas.forEach((area, index) => {
    const cell = area.closest('.jp-Cell');
    const place = cell ? [...document.querySelectorAll('.jp-Cell')].indexOf(cell) : index;
    lookAtTexts(place, area);
    lookAtStrokes(place, area);
    lookAtWords(place, area);
    lookAtBreaks(place, area);
    lookAtAxes(place, area);
    lookAtScrollbars(place, area);
    lookAtTables(place, area);
    lookAtCanvases(place, area);
    lookAtFields(place, area);
  });
  const sources = new Set();
  for (const image of document.querySelectorAll(`${root} img`)) {
    const cell = image.closest('.jp-Cell');
    if (sources.has(image.src)) say(cell ? [...document.querySelectorAll('.jp-Cell')].indexOf(cell) : 0, 'twice', `a picture ${image.naturalWidth} pixels wide`);
    sources.add(image.src);
  }
  return faults;
}
